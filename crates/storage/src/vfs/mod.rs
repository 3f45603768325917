//! Files behind a seam, so that crashes, faults and full disks are inputs of a test.
//!
//! [`Vfs`] is a directory tree, [`File`] an open file, [`Mapping`] a shared writable mapping of
//! one. [`OsVfs`] is the operating system; [`SimVfs`] is a simulation that keeps what is visible
//! apart from what is durable, per 512-byte sector, file size and directory entry. [`WriteBehind`] keeps
//! long writes close to the device, so that reads need not wait for a burst of them, and [`Appender`] writes new
//! files, past the cache or through it.
//!
//! Durability rules that callers rely on and both implementations keep: bytes written are durable
//! after [`File::sync_data`]; so is the file's length if it changed; a new file's name, a rename
//! and a removal are durable after [`Vfs::sync_dir`] of its directory. What a process wrote,
//! mapped or not, survives its death.

mod append;
mod behind;
mod lock;
mod os;
mod regular;
mod sim;
#[cfg(test)]
mod tests;

pub use append::Appender;
pub use behind::WriteBehind;
pub use os::OsVfs;
pub use sim::{
    CrashMode, Fault, FaultKind, FaultOn, ReadAheadCounts, SimEvent, SimEventKind, SimVfs,
};

use crate::error::{Error, is_out_of_files};
use crate::sealing::Secrets;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A directory tree. All paths are absolute.
pub trait Vfs: Send + Sync + Debug + 'static {
    /// Creates `dir` and its parents, their names durable on return. Not an error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that must not exist, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading, and for writing if `write`.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;
    /// Atomically replaces `to` by `from`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives the file `from` a second name `to`, which must be vacant, in the same file system:
    /// `CrossesDevices`, `Unsupported` or `PermissionDenied` where that cannot be.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; the file goes with its last name and handle.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Whether what lies at `path` itself is a regular file, which alone may be ours: `InvalidInput` for a link, a directory, a
    /// pipe, a socket or a device, `NotFound` where nothing lies. [`remove`](Vfs::remove) and [`rename`](Vfs::rename) refuse what
    /// this refuses. A tree that has nothing but files and directories need not say it.
    fn check_regular(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Names in `dir`, in no order, without `.` and `..`.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;
    /// Names in `dir` of what [`check_regular`](Vfs::check_regular) refuses, told by one look at the directory: a database has a
    /// hundred thousand files. A tree that has nothing but files and directories need not say it.
    fn list_irregular(&self, _dir: &Path) -> io::Result<Vec<OsString>> {
        Ok(Vec::new())
    }
    /// Where `path` leads once links, `.` and `..` are followed, of which what is not there yet has none.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut resolved = PathBuf::new();
        for component in std::path::absolute(path)?.components() {
            match component {
                Component::ParentDir => drop(resolved.pop()),
                other => resolved.push(other),
            }
        }
        Ok(resolved)
    }
    /// Whether `path` names a file or directory.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Takes an advisory lock on `path`, creating the file: exclusive, or shared for readers. Held
    /// by another owner (process or handle): `WouldBlock`. Where the system can, the directory is locked with the file, so that
    /// deleting the file admits no second owner. Else the lock is verified to be on the inode that the name still has. Dropping the guard releases it. A shared lock creates nothing.
    ///
    /// An exclusive owner leaves its process id in the file while it holds the lock.
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>>;
    /// Bytes that the blocks of the file `path` take on the device ([`File::allocated_bytes`]).
    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.open(path, false)?.allocated_bytes()
    }
    /// How many files the process may have open at once, where there is a limit.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
    /// What names the time since the machine was started: while it stays the same, nothing that any
    /// process wrote into a file of this machine's kernel is lost. `None` where the system does not
    /// tell (anything but Linux, or no `/proc`); power may then have failed at any time.
    fn boot_id(&self) -> Option<BootId> {
        None
    }
    /// The secret of the database that these files belong to, if it is encrypted.
    fn secrets(&self) -> Option<&Secrets> {
        None
    }
    /// What can be told, after a refusal, of who holds the lock on `path`; a moment later it may
    /// be somebody else. Never fails: what cannot be told is left out.
    fn lock_holder(&self, path: &Path) -> LockHolder;
}

/// One start of a machine, told from all others by chance. See [`Vfs::boot_id`].
pub type BootId = [u8; 16];

/// Who holds a lock, as far as can be told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockHolder {
    /// Held shared, by one reader or several.
    pub shared: bool,
    /// The exclusive owner's process, as it wrote itself down.
    pub process: Option<u32>,
    /// Whether a process of that number can be seen from here. If not, the owner is in another
    /// container or on another machine, or died before the present one had written itself down.
    pub process_seen: bool,
}

/// Holds a directory lock until dropped.
pub trait LockGuard: Send + Sync + Debug {
    /// Whether the path still leads to what is locked. If somebody renamed the directory, or deleted or replaced the lock file
    /// where directories cannot be locked, another owner can have locked what is there now; nothing but asking reveals it.
    fn still_held(&self) -> io::Result<bool>;
}

/// Where, how long and from where in memory [`File::past_cache`] writes: multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// An open file; positions are explicit, so one handle serves many threads.
pub trait File: Send + Sync + Debug + 'static {
    /// The path it was opened by, for messages.
    fn path(&self) -> &Path;
    /// The secret of the encrypted database that the file belongs to: whoever gives the file's bytes their meaning seals
    /// and opens them with it ([`crate::sealing`]). Reads and writes here are of the bytes as they are stored.
    fn secrets(&self) -> Option<&Secrets> {
        None
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`, extending the file if need be.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// The same, and makes durable what it wrote, though not what was written elsewhere before. A
    /// failure leaves unknown what was written and what is durable.
    fn write_at_durable(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)?;
        self.sync_data()
    }
    /// A second handle on this file whose writes go past the system's cache, which takes a durable
    /// write of whole blocks less time, and a long one less of the processor. They are durable after a sync by
    /// either handle. Offset, length and place in memory of each write must be
    /// multiples of [`BLOCK_BYTES`]; `InvalidInput` means that the file system wants something
    /// else, and that nothing was written. Reads go through the first handle, and see what was
    /// written. `None` where there is no such way.
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        None
    }
    /// Tells the system that reads jump about, so that it reads nothing beyond what is asked for: who
    /// wants more at once asks for it.
    fn expect_random_reads(&self) {}
    /// Tells the system that `[offset, offset + len)` will be read soon, so that it begins to read it and
    /// does not wait. A hint.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Makes contents and length durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Starts to write `[offset, offset + len)` to the device if it is not on its way yet, and does not
    /// wait. Makes nothing durable and reports no failure: [`File::sync_data`] does. A hint, without
    /// which a sync finds all of it still to be written, in one burst that reads have to wait behind.
    /// Where the system cannot, does nothing.
    fn start_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Waits for what of `[offset, offset + len)` is on its way. Like
    /// [`start_writing`](File::start_writing), makes nothing durable, and leaves a failure to the next
    /// sync by this handle.
    fn wait_for_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Bytes that the file's blocks take on the device, reserved ones included and holes not.
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.len()
    }
    /// Where from `offset` on the first byte lies that was ever written, as far as the file system tells: all before it read as
    /// zeros. Beyond the file's length if there is none; `offset` where the system cannot tell.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves blocks for `[offset, offset + len)`, extending the file if need be; a later write
    /// there does not fail for want of space. `StorageFull` if there is no room.
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Asks the file system to overwrite this file's blocks where they lie. For an empty file; a hint. Where a file system
    /// copies on write otherwise, an overwrite needs new blocks, which no reservation holds.
    fn ask_for_place(&self) {}
    /// Whether an overwrite of reserved blocks needs no new ones, so that a full disk cannot end the process by a signal when a
    /// mapping is written through. `false` of file systems that copy on write, whatever they were asked for: a snapshot of
    /// theirs makes them copy again.
    fn keeps_its_place(&self) -> bool {
        true
    }
    /// Gives the blocks of `[offset, offset + len)` back; reads there give zeros. Where the file
    /// system cannot, does nothing.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Maps the first `len` bytes, shared and writable. The file must be that long, the blocks of what is
    /// touched reserved, on a file system [where they stay](File::keeps_its_place), and nobody may shorten it while the mapping lives. Its pages stay in memory
    /// where the system lets this process lock them, and are huge where it has such: a byte
    /// written through the mapping may make the next sync write two MiB, one that
    /// [`write_at`](File::write_at) wrote does not.
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>>;
}

/// A shared writable mapping. What is written through it is in the file at once (it survives the
/// death of the process) and durable after the file's [`File::sync_data`].
pub trait Mapping: Send + Sync + Debug {
    /// Copies `data` to `offset`. The caller makes sure that no two calls overlap in time and place
    /// (the ring latch does). Panics if out of bounds: a programming error.
    fn write(&self, offset: usize, data: &[u8]);
    /// Touches the pages of `[offset, offset + len)` so that a later write does not fault. Changes
    /// no byte.
    fn prefault(&self, offset: usize, len: usize);
    /// Gives the memory of the whole pages in `[offset, offset + len)` back, whether or not the device has their bytes:
    /// pages that it does not have stay in the system's cache, where no lock holds them any more. Changes no byte: what
    /// was written is in the file, and a later write or read finds it, but may have to wait for the device. Whether the
    /// system can.
    fn give_back(&self, offset: usize, len: usize) -> bool {
        let _ = (offset, len);
        false
    }
}

/// How often an opening has others give descriptors back at once, and then with longer and longer rests: an eighth of a second in all.
const ATTEMPTS: (usize, u32) = (8, 7);

/// Opens a file to be read, when the caller `may` have one more. Where there is no descriptor left, `give_back` has others
/// closed, and it is tried again for a while: who reads what is closed ends soon. So it goes on after a while, whatever `may` says.
///
/// # Errors
/// As [`Error::open`] for a file of an open database, to which `what` was to be done; where its directory is gone too, `Io` with the
/// source `NotFound`, which names the directory: that it was moved is no damage.
pub fn open_among_many(
    vfs: &dyn Vfs,
    (path, what): (&Path, &str),
    may: &dyn Fn() -> bool,
    give_back: &dyn Fn(),
) -> Result<Arc<dyn File>, Error> {
    open_after_others(vfs, path, may, give_back).map_err(|source| {
        let dir = path.parent().unwrap_or(path);
        let is_gone = source.kind() == io::ErrorKind::NotFound;
        match is_gone && matches!(vfs.exists(dir), Ok(false)) {
            true => Error::io(dir, GONE, source),
            false => Error::open(path, what, source),
        }
    })
}

/// What cannot be done where the directory is not at its place.
const GONE: &str = "read the database, whose directory was moved or removed while it was open";

fn open_after_others(
    vfs: &dyn Vfs,
    path: &Path,
    may: &dyn Fn() -> bool,
    give_back: &dyn Fn(),
) -> io::Result<Arc<dyn File>> {
    let rests = (0..ATTEMPTS.1).map(|step| Duration::from_millis(1 << step));
    for rest in std::iter::repeat_n(Duration::ZERO, ATTEMPTS.0).chain(rests) {
        if may() {
            let opened = vfs.open(path, false);
            if !opened.as_ref().is_err_and(is_out_of_files) {
                return opened;
            }
            give_back();
        }
        std::thread::sleep(rest);
    }
    vfs.open(path, false)
}

/// Reads exactly `buf.len()` bytes at `offset`; `UnexpectedEof` if the file ends before.
pub fn read_exact_at(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => done += n,
        }
    }
    Ok(())
}
