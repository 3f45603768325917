//! Commands of the system, and mounts that are removed with their owner.
//!
//! Everything here runs in a mount namespace of the campaign's own ([`enter_namespace`]), so nobody
//! else sees its mounts, and all of them are gone after its last process, however it ends. Loop
//! devices are made by `mount -o loop`: the kernel detaches them when they are unmounted. Files lie
//! in memory that is mounted there, too ([`Scratch`]). So even a campaign that is killed leaves no
//! mount, no loop device and no image behind, only an empty directory.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Errors here are texts for people who look into the campaign.
pub type Result<T, E = String> = std::result::Result<T, E>;

/// How long to wait for the system to let something go.
const PATIENCE: Duration = Duration::from_secs(20);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Runs a command to its end. Returns what it printed. If its exit code is not 0 and not in
/// `accepted`, an error with its text.
///
/// # Errors
/// As said, and if there is no such command.
pub fn run(command: &mut Command, accepted: &[i32]) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    let code = output.status.code();
    if output.status.success() || code.is_some_and(|code| accepted.contains(&code)) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}: {}", output.status, said.trim()))
}

/// Whether the system has a command of this name.
pub fn has_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path);
    // Where administrators' commands are, which a user's path may leave out.
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    own.chain(usual).any(|dir| dir.join(name).is_file())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]);
    command
}

/// Whether this process may have a mount namespace of its own.
///
/// # Errors
/// Why not.
pub fn try_namespace() -> Result<()> {
    run(unshare().args(["umount", "--version"]), &[]).map(drop)
}

/// Starts this program anew in a mount namespace of its own, with the same arguments and `flag`.
/// Returns only if that fails.
///
/// # Errors
/// If it fails.
pub fn enter_namespace(flag: &str) -> Result<()> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = unshare()
        .arg(program)
        .args(std::env::args_os().skip(1))
        .arg(flag)
        .exec();
    Err(format!("entering a mount namespace: {error}"))
}

/// An empty directory in memory, which nobody outside of the namespace sees: images have many
/// writes, and need not last.
pub struct Scratch(TempDir);

impl Scratch {
    /// A new directory.
    ///
    /// # Errors
    /// Of the system.
    pub fn new() -> Result<Scratch> {
        let dir = tempfile::Builder::new()
            .prefix("evendb-power-cut-")
            .tempdir();
        let scratch = Scratch(dir.map_err(|error| error.to_string())?);
        let mount = &mut Command::new("mount");
        run(
            mount.args(["-t", "tmpfs", "power-cut"]).arg(scratch.path()),
            &[],
        )?;
        Ok(scratch)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Mounts and open files in it hold it until they are let go. Its empty place is removed
        // with it.
        let _ = run(Command::new("umount").arg("-l").arg(self.path()), &[]);
    }
}

/// The kernel's identity of this start of the machine, as the processes of this namespace see it. A
/// process that looks at it takes unsynced pages for safe as long as it stays the same, so each
/// power cut comes with another identity.
pub struct BootId(PathBuf);

impl BootId {
    /// From now on, the identity comes from a file in `dir`.
    ///
    /// # Errors
    /// If the kernel's file cannot be covered.
    pub fn cover(dir: &Path, number: u64) -> Result<BootId> {
        let id = BootId(dir.join("boot_id"));
        id.change(number)?;
        let mount = &mut Command::new("mount");
        run(mount.arg("--bind").arg(&id.0).arg(BOOT_ID), &[])?;
        Ok(id)
    }

    /// Pretends that the machine was started again, for the `number`-th time.
    ///
    /// # Errors
    /// Of the system.
    pub fn change(&self, number: u64) -> Result<()> {
        let text = format!("{number:08x}-0000-4000-8000-000000000000\n");
        std::fs::write(&self.0, text).map_err(|error| format!("writing {:?}: {error}", self.0))
    }
}

/// A file system that is mounted from an image, and is unmounted when this is dropped.
pub struct Mounted {
    point: PathBuf,
    /// The directory in `/sys` that is there as long as the loop device is attached.
    attached: PathBuf,
    gone: bool,
}

impl Mounted {
    /// Mounts an image through a loop device.
    ///
    /// # Errors
    /// The text of `mount`.
    pub fn mount(image: &Path, point: &Path, kind: &str, options: &str) -> Result<Mounted> {
        let command = &mut Command::new("mount");
        let options = match options {
            "" => "loop".to_owned(),
            options => format!("loop,{options}"),
        };
        let command = command.args(["-t", kind, "-o", &options]);
        run(command.arg(image).arg(point), &[])?;
        let mut mounted = Mounted {
            point: point.to_owned(),
            attached: PathBuf::new(),
            gone: false,
        };
        let device = device_of(point)?;
        let name = device.trim_start_matches("/dev/");
        mounted.attached = Path::new("/sys/block").join(name).join("loop");
        Ok(mounted)
    }

    /// Unmounts, and waits until the loop device is detached.
    ///
    /// # Errors
    /// If either does not happen.
    pub fn unmount(mut self) -> Result<()> {
        self.gone = true;
        let umount = || run(Command::new("umount").arg(&self.point), &[]);
        if let Err(what) = wait_for(|| umount().map(drop)) {
            let _ = run(Command::new("umount").arg("-l").arg(&self.point), &[]);
            return Err(what);
        }
        wait_for(|| match self.attached.exists() {
            true => Err(format!("{:?} stays attached", self.attached)),
            false => Ok(()),
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.gone {
            let _ = run(Command::new("umount").arg("-l").arg(&self.point), &[]);
        }
    }
}

/// Tries until it succeeds or patience ends.
fn wait_for(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(_) if started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// The device that is mounted at a place.
fn device_of(point: &Path) -> Result<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let mut fields = mounts
        .lines()
        .rev()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, rest)| rest.split(' ').next().map(Path::new) == Some(point));
    let last = fields.next().map(|(device, _)| device.to_owned());
    last.ok_or_else(|| format!("nothing is mounted at {point:?}"))
}
