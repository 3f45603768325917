//! Files behind a seam, so that crashes, faults and full disks are inputs of a test.
//!
//! [`Vfs`] is a directory tree, [`File`] an open file, [`Mapping`] a shared writable mapping of a
//! file. [`OsVfs`] is the operating system. [`SimVfs`] is a simulation that keeps what is visible
//! apart from what is durable, per 512-byte sector, file size and directory entry. [`WriteBehind`]
//! keeps long writes close to the device, so that reads need not wait for a burst of them.
//! [`Appender`] writes new files, past the cache or through it.
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
mod sealed;
mod sim;
#[cfg(test)]
mod tests;

pub use append::Appender;
pub use behind::WriteBehind;
pub use os::OsVfs;
pub use sealed::SealedVfs;
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
    /// Gives the file `from` a second name `to`, which must be vacant, in the same file system.
    /// `CrossesDevices`, `Unsupported` or `PermissionDenied` if that is impossible.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// As [`hard_link`](Vfs::hard_link), for a name that a look at its whole directory
    /// ([`list_irregular`](Vfs::list_irregular)) has just found regular: it need not be looked at
    /// by itself.
    fn hard_link_regular(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hard_link(from, to)
    }
    /// Removes a file's name. The file is removed with its last name and handle.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Whether a regular file lies at `path` itself. Only regular files may be ours: `InvalidInput`
    /// for a link, a directory, a pipe, a socket or a device, `NotFound` if nothing lies there.
    /// [`remove`](Vfs::remove) and [`rename`](Vfs::rename) refuse what this refuses. A tree that
    /// has only files and directories need not implement it.
    fn check_regular(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Names in `dir`, in no order, without `.` and `..`.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;
    /// Names in `dir` that [`check_regular`](Vfs::check_regular) refuses, found by one look at the
    /// directory: a database has a hundred thousand files. A tree that has only files and
    /// directories need not implement it.
    fn list_irregular(&self, _dir: &Path) -> io::Result<Vec<OsString>> {
        Ok(Vec::new())
    }
    /// The place to which `path` leads when links, `.` and `..` are followed. Components that do
    /// not exist yet have no links to follow.
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
    /// Takes an advisory lock on `path`, and creates the file: exclusive, or shared for readers. If
    /// another owner (process or handle) holds it: `WouldBlock`. If the system can, the directory
    /// is locked with the file, so that deleting the file admits no second owner. Otherwise the
    /// lock is verified to be on the inode that the name still has. Dropping the guard releases it.
    /// A shared lock creates nothing.
    ///
    /// An exclusive owner leaves its process id in the file while it holds the lock.
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>>;
    /// Bytes that the blocks of the file `path` take on the device ([`File::allocated_bytes`]).
    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.open(path, false)?.allocated_bytes()
    }
    /// The number of files that the process may have open at once, if there is a limit.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
    /// Identifies the time since the machine was started. As long as it stays the same, nothing is
    /// lost that any process wrote into a file of this machine's kernel. `None` if the system does
    /// not tell (anything but Linux, or no `/proc`); power may then have failed at any time.
    fn boot_id(&self) -> Option<BootId> {
        None
    }
    /// The secret of the database that these files belong to, if it is encrypted.
    fn secrets(&self) -> Option<&Secrets> {
        None
    }
    /// What is known, after a refusal, about the holder of the lock on `path`. A moment later the
    /// holder may be another one. It never fails: unknown facts are left out.
    fn lock_holder(&self, path: &Path) -> LockHolder;
}

/// One start of a machine: a random number that distinguishes it from all others. See
/// [`Vfs::boot_id`].
pub type BootId = [u8; 16];

/// The holder of a lock, as far as that can be seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockHolder {
    /// One or several readers hold it shared.
    pub shared: bool,
    /// The exclusive owner's process, as it wrote into the file.
    pub process: Option<u32>,
    /// Whether a process with that number can be seen from here. If not, the owner is in another
    /// container or on another machine, or it died before the present owner had written its number.
    pub process_seen: bool,
}

/// Holds a directory lock until dropped.
pub trait LockGuard: Send + Sync + Debug {
    /// Whether the path still leads to what is locked. If somebody renamed the directory, another
    /// owner can have locked the directory that is there now. The same can happen if the lock file
    /// was deleted or replaced where directories cannot be locked. Only asking shows it.
    fn still_held(&self) -> io::Result<bool>;
}

/// [`File::past_cache`] writes at multiples of this many bytes: offset, length and place in memory.
pub const BLOCK_BYTES: usize = 4096;

/// An open file; positions are explicit, so one handle serves many threads.
pub trait File: Send + Sync + Debug + 'static {
    /// The path it was opened by, for messages.
    fn path(&self) -> &Path;
    /// The secret of the encrypted database to which the file belongs. The code that gives the
    /// file's bytes their meaning seals and opens them with it ([`crate::sealing`]). Reads and
    /// writes here use the bytes as they are stored.
    fn secrets(&self) -> Option<&Secrets> {
        None
    }
    /// The error for bytes at `offset` that do not verify. It is damage, unless this process reads
    /// beside another one that writes, which may have replaced them: [`Error::stale`].
    fn unverified(&self, offset: u64, detail: &str) -> Error {
        Error::corruption(self.path(), offset, detail)
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`, and extends the file if needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// As [`write_at`](File::write_at), and makes the written bytes durable, but not earlier writes
    /// elsewhere. After a failure it is not known what was written and what is durable.
    fn write_at_durable(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)?;
        self.sync_data()
    }
    /// A second handle on this file whose writes go past the system's cache. Then a durable write
    /// of whole blocks takes less time, and a long write takes less of the processor. The writes
    /// are durable after a sync by either handle. Offset, length and place in memory of each write
    /// must be multiples of [`BLOCK_BYTES`]. `InvalidInput` means that the file system demands
    /// something else, and that nothing was written. Reads go through the first handle, and see
    /// what was written. `None` if there is no such way.
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        None
    }
    /// Tells the system that reads jump about, so that it reads nothing beyond what is asked for. A
    /// reader that wants more at once asks for it.
    fn expect_random_reads(&self) {}
    /// Tells the system that `[offset, offset + len)` will be read soon, so that it begins to read
    /// it. It does not wait. A hint.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Makes contents and length durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Starts to write `[offset, offset + len)` to the device, as far as it is not on its way yet,
    /// and does not wait. Makes nothing durable and reports no failure: [`File::sync_data`] does. A
    /// hint. Without it a sync has to write everything in one burst, and reads wait behind that.
    /// Does nothing if the system cannot.
    fn start_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Waits for the bytes of `[offset, offset + len)` that are on their way. Like
    /// [`start_writing`](File::start_writing), it makes nothing durable, and leaves a failure to
    /// the next sync by this handle.
    fn wait_for_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Bytes that the file's blocks take on the device, with reserved blocks and without holes.
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.len()
    }
    /// The first byte from `offset` on that was ever written, as far as the file system tells: all
    /// bytes before it read as zeros. Beyond the file's length if there is none; `offset` if the
    /// system cannot tell.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves blocks for `[offset, offset + len)`, and extends the file if needed. A later write
    /// there does not fail for lack of space. `StorageFull` if there is no room.
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Asks the file system to overwrite this file's blocks where they lie. For an empty file; a
    /// hint. On a file system that copies on write, an overwrite otherwise needs new blocks, which
    /// no reservation holds.
    fn ask_for_place(&self) {}
    /// Whether an overwrite of reserved blocks needs no new blocks. If so, a full disk cannot end
    /// the process by a signal when it writes through a mapping. `false` on file systems that copy
    /// on write, whatever they were asked for: their snapshots make them copy again.
    fn keeps_its_place(&self) -> bool {
        true
    }
    /// Gives the blocks of `[offset, offset + len)` back; reads there return zeros. Does nothing if
    /// the file system cannot.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Maps the first `len` bytes, shared and writable. The file must have this length. The blocks
    /// of the pages that are touched must be reserved, on a file system [where they
    /// stay](File::keeps_its_place). Nobody may shorten the file while the mapping lives. The
    /// mapping's pages stay in memory if the system lets this process lock them, and are huge if it
    /// has such pages. Then a byte that is written through the mapping may make the next sync write
    /// two MiB, and a byte that [`write_at`](File::write_at) wrote does not.
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>>;
}

/// A shared writable mapping. Bytes written through it are in the file at once (they survive the
/// death of the process), and durable after the file's [`File::sync_data`].
pub trait Mapping: Send + Sync + Debug {
    /// Copies `data` to `offset`. The caller ensures that no two calls overlap in time and place
    /// (the ring latch does). Panics if out of bounds: a programming error.
    fn write(&self, offset: usize, data: &[u8]);
    /// Touches the pages of `[offset, offset + len)` so that a later write does not fault. Changes
    /// no byte.
    fn prefault(&self, offset: usize, len: usize);
    /// Gives the memory of the whole pages in `[offset, offset + len)` back, whether or not the
    /// device has their bytes. Pages that the device does not have stay in the system's cache, and
    /// no lock holds them any more. Changes no byte: the written bytes are in the file, and a later
    /// write or read finds them, but may have to wait for the device. Returns whether the system
    /// can do this.
    fn give_back(&self, offset: usize, len: usize) -> bool {
        let _ = (offset, len);
        false
    }
}

/// An opening makes other files give descriptors back this many times without a rest, and then this
/// many times with longer and longer rests: an eighth of a second in all.
const ATTEMPTS: (usize, u32) = (8, 7);

/// Opens a file for reading when `may` allows the caller one more. If no descriptor is left,
/// `give_back` makes others close files, and the opening is tried again for a while: readers of
/// closed files end soon. After that time it opens the file whatever `may` says.
///
/// # Errors
/// As [`Error::open`] for a file of an open database, with `what` as the action. If the file's
/// directory is gone too, `Io` with the source `NotFound` and the name of the directory: it was
/// moved, which is no damage.
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

/// The action that fails if the directory is not at its place.
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
    match read_up_to(file, buf, offset)? == buf.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Fills `buf` with the bytes at `offset`, and returns how many bytes there are.
pub fn read_up_to(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Makes a file with these bytes, durably, though its name is not. What an earlier attempt left
/// there is removed. It is for a file that takes another one's place when it is renamed.
pub fn write_beside(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if vfs.exists(path)? {
        vfs.remove(path)?;
    }
    let file = vfs.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync_data()
}
