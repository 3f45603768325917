//! [`Room`]: a small file system of the campaign's own, which somebody else fills now and then.
//!
//! The file system is in memory, mounted in a mount namespace that ends with the process. A file
//! beside the databases takes the room. So the system itself refuses, in every call that finds no
//! room, as a real full disk does.

use evendb_powercut::system::run;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the file system.
const BYTES: u64 = 160 << 20;
/// The last part of its room is taken in pieces of this number of bytes.
const PIECE_BYTES: u64 = 16 << 10;

/// See the module.
pub struct Room {
    dir: PathBuf,
    taken_by: PathBuf,
}

impl Room {
    /// Mounts the file system there. The process must be in its mount namespace, or may mount by
    /// itself.
    ///
    /// # Errors
    /// The text of `mount`.
    pub fn mount(dir: &Path) -> Result<Room, String> {
        let size = format!("size={BYTES}");
        let command = &mut Command::new("mount");
        let command = command.args(["-t", "tmpfs", "-o", &size, "long-life"]);
        run(command.arg(dir), &[])?;
        Ok(Room {
            dir: dir.to_owned(),
            taken_by: dir.join("taken"),
        })
    }

    /// Takes all room, except for at most `but` bytes.
    ///
    /// # Errors
    /// Of the system; not that there is no room.
    pub fn take(&self, but: u64) -> Result<(), String> {
        // Somebody may have removed the mount: then the directory behind it is no small file
        // system.
        let there = rustix::fs::statvfs(&self.dir).map_err(|error| error.to_string())?;
        if there.f_blocks * there.f_frsize > BYTES {
            return Err(format!("{:?} is no longer mounted", self.dir));
        }
        let failed = |error: rustix::io::Errno| format!("taking room: {error}");
        let file = File::create(&self.taken_by).map_err(|error| error.to_string())?;
        let (mut taken, mut piece) = (0, BYTES);
        while piece >= PIECE_BYTES && taken < BYTES {
            match fallocate(&file, FallocateFlags::empty(), taken, piece) {
                Ok(()) => taken += piece,
                Err(rustix::io::Errno::NOSPC) => piece /= 2,
                Err(error) => return Err(failed(error)),
            }
        }
        rustix::fs::ftruncate(&file, taken.saturating_sub(but)).map_err(failed)
    }

    /// Gives it back.
    ///
    /// # Errors
    /// Of the system.
    pub fn give_back(&self) -> Result<(), String> {
        match std::fs::remove_file(&self.taken_by) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Lazily: it is removed even if a fault left files open.
        let _ = run(Command::new("umount").arg("-l").arg(&self.dir), &[]);
    }
}
