//! [`OsFile`]: an open file of the operating system.
//!
//! Thread safety: a file holds no position, so any number of threads share one handle.
//!
//! The system reports a failure of the device once to each handle. If a failure comes while a
//! thread waits for writes, it is kept for the next sync by that handle, where callers look for it.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "sync_file_range"))]

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::mapping::OsMapping;
use crate::vfs::{File, Mapping};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::io::ReadWriteFlags;

/// Bytes that one call asks the system to read ahead. The system's limit is the greater of two
/// numbers: what the device takes by one request, and its own reading ahead.
#[cfg(target_os = "linux")]
const AHEAD_BYTES: u64 = 256 << 10;

/// The numbers by which `statfs` names file systems that copy on write: btrfs, bcachefs, ZFS,
/// NILFS.
#[cfg(target_os = "linux")]
const COPY_ON_WRITE: [u32; 4] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1, 0x3434];

/// Zeros are written in pieces of this many bytes.
const ZEROS_BYTES: u64 = 1 << 20;

/// A lock that keeps no table of waiting threads, because a forked child would inherit such a
/// table.
#[expect(
    clippy::disallowed_types,
    reason = "no part of a model: the simulated disk stands there"
)]
pub(super) type Mutex<T> = std::sync::Mutex<T>;

/// An open file.
#[derive(Debug)]
pub(in crate::vfs) struct OsFile {
    pub(super) file: Arc<fs::File>,
    pub(super) path: PathBuf,
    /// The failure that a wait got and that no sync has returned yet.
    pub(super) failed_wait: Mutex<Option<io::Error>>,
}

impl OsFile {
    pub(in crate::vfs) fn shared(file: fs::File, path: &Path) -> Arc<dyn File> {
        Arc::new(OsFile {
            file: Arc::new(file),
            path: path.to_owned(),
            failed_wait: Mutex::new(None),
        })
    }

    pub(super) fn failed_wait(&self) -> MutexGuard<'_, Option<io::Error>> {
        let held = self.failed_wait.lock();
        held.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failure of an earlier wait, once.
    fn check_waits(&self) -> io::Result<()> {
        self.failed_wait().take().map_or(Ok(()), Err)
    }

    /// Lengthens the file to `len` if it is shorter.
    fn extend_to(&self, len: u64) -> io::Result<()> {
        if self.len()? < len {
            self.file.set_len(len)?;
        }
        Ok(())
    }
}

impl OsFile {
    /// Lengthens the file to `len` by zeros that take blocks. Does nothing if there is no room for
    /// all of them.
    fn write_zeros_to(&self, len: u64) -> io::Result<()> {
        let before = self.len()?;
        // Otherwise repeated refusals on a full disk would each fill its last megabytes with zeros.
        let system = rustix::fs::fstatvfs(&*self.file)?;
        let blocks = match rustix::process::geteuid().is_root() {
            true => system.f_bfree,
            false => system.f_bavail,
        };
        let free = blocks.saturating_mul(system.f_frsize);
        if free < len.saturating_sub(before) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let zeros = vec![0; len.saturating_sub(before).min(ZEROS_BYTES) as usize];
        let mut at = before;
        while at < len {
            let piece = &zeros[..(len - at).min(ZEROS_BYTES) as usize];
            if let Err(error) = self.file.write_all_at(piece, at) {
                let _ = self.file.set_len(before);
                return Err(error);
            }
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl File for OsFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        // Continues short writes, so that the error that cut one short (no space) is returned.
        self.file.write_all_at(data, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_at_durable(&self, data: &[u8], offset: u64) -> io::Result<()> {
        // One system call instead of two, and the sync looks only at these pages.
        let mut done = 0;
        while done < data.len() {
            let rest = [io::IoSlice::new(&data[done..])];
            let at = offset + done as u64;
            match rustix::io::pwritev2(&*self.file, &rest, at, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // Some kernels and file systems do not know the flag, and some filters of system
                // calls do not know the call.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    self.write_at(&data[done..], at)?;
                    return self.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.check_waits()
    }

    #[cfg(target_os = "linux")]
    fn past_cache(&self) -> Option<Arc<dyn File>> {
        // Opened by name, because a descriptor's flags are shared with all its copies. Meanwhile
        // the name may lead to another file, which is not ours.
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .custom_flags(OFlags::DIRECT.bits() as i32);
        let file = options.open(&self.path).ok()?;
        let (ours, named) = (self.file.metadata().ok()?, file.metadata().ok()?);
        let same = ours.dev() == named.dev() && ours.ino() == named.ino();
        same.then(|| OsFile::shared(file, &self.path))
    }

    #[cfg(target_os = "linux")]
    fn expect_random_reads(&self) {
        // A hint. If the system ignores it, reads are right and slower.
        let _ = rustix::fs::fadvise(&*self.file, 0, None, rustix::fs::Advice::Random);
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, len: u64) {
        // In pieces: of one call Linux reads no more than its limit, and leaves out the rest.
        let end = offset.saturating_add(len);
        let mut at = offset;
        while at < end {
            let piece = (end - at).min(AHEAD_BYTES);
            let advice = rustix::fs::Advice::WillNeed;
            let asked = std::num::NonZeroU64::new(piece);
            if rustix::fs::fadvise(&*self.file, at, asked, advice).is_err() {
                break;
            }
            at += piece;
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.check_waits()
    }

    #[cfg(target_os = "linux")]
    fn start_writing(&self, offset: u64, len: u64) {
        // The sync finds a failure to start, and starts the rest.
        let _ = sync_range(&self.file, offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }

    #[cfg(target_os = "linux")]
    fn wait_for_writing(&self, offset: u64, len: u64) {
        // The lock is held during the call: a sync must not look between the report of the failure
        // and this note of it.
        let mut kept = self.failed_wait();
        let waited = sync_range(&self.file, offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
        if let Err(error) = waited
            && kept.is_none()
        {
            *kept = Some(error);
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        // In units of 512 bytes, whatever the file system's block is.
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        // Reads and writes have positions of their own: moving the handle's position disturbs
        // nobody.
        #[cfg(target_os = "linux")]
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => return Ok(data),
            Err(rustix::io::Errno::NXIO) => return Ok(u64::MAX),
            Err(_) => {}
        }
        Ok(offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = end_of(offset, len)?;
        if len == 0 {
            return self.extend_to(end);
        }
        match fallocate(&self.file, FallocateFlags::empty(), offset, len) {
            // The file system does not know the call (ext2, ext3, some network and stacked ones),
            // or a filter of system calls stops it. Zeros behind the end reserve the same room,
            // except where files are copied on write. There only the length is kept, and a later
            // write may fail for lack of space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) if self.keeps_its_place() => {
                self.write_zeros_to(end)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => self.extend_to(end),
            result => Ok(result?),
        }
    }

    #[cfg(target_os = "linux")]
    fn ask_for_place(&self) {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        if let Ok(flags) = ioctl_getflags(&*self.file) {
            let _ = ioctl_setflags(&*self.file, flags | IFlags::NOCOW);
        }
    }

    #[cfg(target_os = "linux")]
    fn keeps_its_place(&self) -> bool {
        // If the system does not tell, the file system counts as one that overwrites.
        rustix::fs::fstatfs(&*self.file).map_or(true, |system| {
            !COPY_ON_WRITE.contains(&(system.f_type as u32))
        })
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        end_of(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        #[cfg(not(target_os = "linux"))]
        return Ok(());
        #[cfg(target_os = "linux")]
        match fallocate(
            &self.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        ) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => Ok(()),
            result => Ok(result?),
        }
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        // A write beyond the end of the file would be a signal, not an error.
        if len == 0 || len as u64 > self.len()? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Box::new(OsMapping::of(&self.file, len)?))
    }
}

fn end_of(offset: u64, len: u64) -> io::Result<u64> {
    offset
        .checked_add(len)
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn fallocate(
    file: &fs::File,
    flags: FallocateFlags,
    offset: u64,
    len: u64,
) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, len))
}

/// `sync_file_range`. On systems and file systems that do not know it, nothing happens.
#[cfg(target_os = "linux")]
fn sync_range(file: &fs::File, offset: u64, len: u64, flags: libc::c_uint) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return Ok(());
    };
    // Zero would mean everything to the end of the file.
    if len == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: takes numbers only; the descriptor is open as long as `file` is borrowed.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // These errors do not come from the device.
            Some(libc::EINVAL | libc::ENOSYS | libc::ESPIPE | libc::EPERM) => return Ok(()),
            _ => return Err(error),
        }
    }
}
