//! Small file systems of several kinds, each mounted for one test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kinds of file systems that need an image, and how each is made.
pub const IMAGES: [(&str, &[&str]); 5] = [
    ("ext2", &["-q", "-F"]),
    ("ext4", &["-q", "-F"]),
    ("xfs", &["-q", "-f"]),
    ("btrfs", &["-q", "-f"]),
    ("ext3", &["-q", "-F"]),
];

/// The place where a file system is mounted, until this is dropped.
pub struct Mounted(pub PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: it is unmounted even if a failed test still has files open.
        let mut umount = Command::new("umount");
        let _ = umount.arg("-l").arg(&self.0).status();
    }
}

/// A command's failure in words.
pub fn failure(mut command: Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let told = [output.stdout, output.stderr].concat();
            Err(String::from_utf8_lossy(&told).trim().to_owned())
        }
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Mounts a file system of `megabytes` in memory by this command, which may itself be an argument
/// of another command.
pub fn mount_memory(mut command: Command, dir: &Path, megabytes: u64) -> Result<(), String> {
    let size = format!("size={megabytes}m");
    command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir);
    failure(command)
}

/// Mounts a file system of one of [`IMAGES`] in `place`, or returns the reason why that is not
/// possible.
pub fn mount_image(kind: &str, image_bytes: u64, place: &Path) -> Result<Mounted, String> {
    let image = place.join("image");
    File::create(&image)
        .and_then(|file| file.set_len(image_bytes))
        .map_err(|error| error.to_string())?;
    let (_, arguments) = IMAGES
        .iter()
        .find(|(name, _)| *name == kind)
        .expect("is known");
    let mut make = Command::new(format!("mkfs.{kind}"));
    make.args(*arguments).arg(&image);
    failure(make)?;
    let dir = place.join("mounted");
    fs::create_dir(&dir).map_err(|error| error.to_string())?;
    let mut mount = Command::new("mount");
    mount.args(["-t", kind, "-o", "loop"]).args([&image, &dir]);
    failure(mount)?;
    Ok(Mounted(dir))
}

/// The file of [`take_room`].
#[allow(dead_code, reason = "some test binaries do not need it")]
pub const TAKEN: &str = "taken";

/// Takes the room in `dir`, except `free_bytes`.
pub fn take_room(dir: &Path, free_bytes: u64) {
    let file = File::create(dir.join(TAKEN)).expect("creates");
    let piece = vec![7; 1 << 20];
    let mut at = 0;
    loop {
        let system = rustix::fs::statvfs(dir).expect("is asked");
        if system.f_bavail * system.f_frsize <= free_bytes {
            break;
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &piece, at).expect("writes");
        at += piece.len() as u64;
        if at.is_multiple_of(8 << 20) {
            file.sync_all().expect("syncs");
        }
    }
    file.sync_all().expect("syncs");
}
