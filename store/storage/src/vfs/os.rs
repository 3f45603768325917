//! The operating system's files: positioned reads and writes, `fallocate`, `fdatasync`, `flock`
//! and shared mappings.
//!
//! Nothing is buffered or remembered here. Every error is the system's own, so its
//! [`io::ErrorKind`] (`StorageFull`, `QuotaExceeded`, `NotFound`, ...) reaches the caller. A call
//! interrupted by a signal is repeated; a short read or write is continued.
//!
//! Thread safety: a file holds no position, so any number of threads share one handle. Only the
//! caller of a mapping knows that no two writes overlap.
//!
//! A symbolic link is not followed when a name is opened. So no name in a directory of a database
//! leads out of it. Anything but a regular file is refused before somebody waits for it (opening a
//! pipe waits for its other end). Only regular files are made here, so only they are removed,
//! renamed, linked, or replaced. The directory itself may be reached by a link. A file with another
//! name elsewhere cannot be distinguished from a file that a backup shares.
//!
//! The system reports a failure of the device once to each handle. If a failure comes while a
//! thread waits for writes, it is kept for the next sync by that handle, where callers look for it.
//!
//! Not done here: a retry after a failed sync (its effects are unknown).
#![expect(
    unsafe_code,
    reason = "writes into a mapping of a file are raw copies; sync_file_range; mlock"
)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::io::ReadWriteFlags;

use super::lock;
use super::regular::{A_LINK, NOT_REGULAR, open_directory, open_regular, refused, signed_by};
use super::{BootId, File, LockGuard, LockHolder, Mapping, Vfs};

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

/// Files of the operating system.
#[derive(Debug, Clone, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        // The name of a new directory must be durable before its contents are promised. So each
        // parent that got a name is synced here, and callers need not know which parents were
        // missing.
        let mut parents_to_sync = Vec::new();
        let mut missing = dir;
        while !missing.try_exists()? {
            let Some(parent) = missing.parent() else {
                break;
            };
            parents_to_sync.push(parent);
            missing = parent;
        }
        fs::create_dir_all(dir)?;
        for parent in parents_to_sync {
            self.sync_dir(parent)?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(OsFile::shared(file, path))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        let file = open_regular(fs::OpenOptions::new().read(true).write(write), path)?;
        Ok(OsFile::shared(file, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_regular(from)?;
        match self.check_regular(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(from, to),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_regular(from)?;
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_regular(path)?;
        fs::remove_file(path)
    }

    fn check_regular(&self, path: &Path) -> io::Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        match (kind.is_file(), kind.is_symlink()) {
            (true, _) => Ok(()),
            (false, true) => Err(refused(A_LINK)),
            (false, false) => Err(refused(NOT_REGULAR)),
        }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match open_directory(dir)?.sync_all() {
            // File systems that cannot sync a directory return this error. Their names are as
            // durable as they can be.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }

    fn list_irregular(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut irregular = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // On nearly all file systems the directory itself tells the kind.
            match entry.file_type() {
                Ok(kind) if kind.is_file() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                kind => {
                    kind?;
                    irregular.push(entry.file_name());
                }
            }
        }
        Ok(irregular)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut resolved = PathBuf::new();
        for component in std::path::absolute(path)?.components() {
            if component == Component::ParentDir {
                resolved.pop();
                continue;
            }
            resolved.push(component);
            // A name that does not exist, or may not be looked at, leads nowhere else.
            if let Ok(real) = resolved.canonicalize() {
                resolved = real;
            }
        }
        Ok(resolved)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        lock::lock(path, shared)
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.blocks() * 512)
    }

    fn open_files_max(&self) -> Option<u64> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current
    }

    fn boot_id(&self) -> Option<BootId> {
        #[cfg(target_os = "linux")]
        return parse_boot_id(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?);
        #[cfg(not(target_os = "linux"))]
        None
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        let Ok(file) = lock::open_lock_file(path, true) else {
            return LockHolder::default();
        };
        // Readers do not sign: the file then has the number of a dead writer.
        if file.try_lock_shared().is_ok() {
            return LockHolder {
                shared: true,
                ..LockHolder::default()
            };
        }
        let process = signed_by(&file).ok().flatten();
        let seen = |process: u32| {
            let id = i32::try_from(process)
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            // EPERM: the process exists, and belongs to another user.
            id.is_some_and(|id| rustix::process::test_kill_process(id) != Err(Errno::SRCH))
        };
        LockHolder {
            shared: false,
            process,
            process_seen: process.is_some_and(seen),
        }
    }
}

/// The kernel's text: 32 hexadecimal digits with hyphens between.
#[cfg(any(target_os = "linux", test))]
pub(super) fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text
        .trim()
        .bytes()
        .filter(|&byte| byte != b'-')
        .map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    (digits.len() == 32).then(|| bytes.try_into().ok())?
}

/// A lock that keeps no table of waiting threads, because a forked child would inherit such a
/// table.
#[expect(
    clippy::disallowed_types,
    reason = "no part of a model: the simulated disk stands there"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// An open file.
#[derive(Debug)]
pub(super) struct OsFile {
    file: Arc<fs::File>,
    path: PathBuf,
    /// The failure that a wait got and that no sync has returned yet.
    failed_wait: Mutex<Option<io::Error>>,
}

impl OsFile {
    pub(super) fn shared(file: fs::File, path: &Path) -> Arc<dyn File> {
        Arc::new(OsFile {
            file: Arc::new(file),
            path: path.to_owned(),
            failed_wait: Mutex::new(None),
        })
    }

    fn failed_wait(&self) -> MutexGuard<'_, Option<io::Error>> {
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
        let map = MmapOptions::new().len(len).map_raw(&*self.file);
        let map = map.map_err(|error| match error.raw_os_error() {
            // This file system maps nothing.
            Some(libc::ENODEV) => io::ErrorKind::Unsupported.into(),
            _ => error,
        })?;
        // A child must neither keep the ring's pages alive nor fault on them by accident. A hint: a
        // child uses no database of its parent.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::DontFork);
        // To write a mapped page back, the system interrupts each processor that runs this process.
        // With huge pages it does so once for two MiB. A hint.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let is_locked = stay_in_memory(&map, 0, len);
        Ok(Box::new(OsMapping {
            map,
            is_locked,
            file: Arc::clone(&self.file),
        }))
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

/// Locks the pages of a mapping that are in memory, and each other page when it comes, if the
/// system lets this process do so. Otherwise, under pressure, the system would write pages to the
/// disk that are about to be overwritten. Returns whether it locks them.
fn stay_in_memory(map: &MmapRaw, offset: usize, len: usize) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is the mapping's own, as the callers ensure, and the mapping's end unlocks
    // it.
    return unsafe {
        let start = map.as_mut_ptr().add(offset).cast();
        rustix::mm::mlock_with(start, len, rustix::mm::MlockFlags::ONFAULT).is_ok()
    };
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (map, offset, len);
        false
    }
}

/// A shared mapping. It is only written through, never read or lent out as a slice, so other
/// processes and `pwrite` may change the same bytes without breaking Rust's rules.
#[derive(Debug)]
struct OsMapping {
    map: MmapRaw,
    /// Its pages are locked when they come into memory.
    is_locked: bool,
    /// Open as long as the mapping lives.
    file: Arc<fs::File>,
}

impl OsMapping {
    fn check_bounds(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.map.len()),
            "{len} bytes at {offset} are outside a mapping of {} bytes",
            self.map.len()
        );
    }
}

impl Mapping for OsMapping {
    fn write(&self, offset: usize, data: &[u8]) {
        self.check_bounds(offset, data.len());
        // SAFETY: the target lies inside the mapping (checked above), which is writable and lives
        // as long as `self`. No reference to the mapped bytes exists anywhere, so `data` cannot
        // overlap them, and the contract of `Mapping::write` excludes a concurrent write there.
        unsafe {
            let target = self.map.as_mut_ptr().add(offset);
            std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len());
        }
    }

    fn prefault(&self, offset: usize, len: usize) {
        self.check_bounds(offset, len);
        if len == 0 {
            return;
        }
        // Takes the write fault in advance, which a read would not do. Kernels before 5.14 refuse
        // it.
        #[cfg(target_os = "linux")]
        if self
            .map
            .advise_range(memmap2::Advice::PopulateWrite, offset, len)
            .is_ok()
        {
            return;
        }
        let end = offset + len;
        let page_bytes = rustix::param::page_size();
        let mut position = offset;
        while position < end {
            // SAFETY: `position` is inside the mapping. A volatile read of one byte has no other
            // effect than mapping its page; the value, which may be changing, is not used.
            unsafe {
                std::ptr::read_volatile(self.map.as_mut_ptr().add(position));
            }
            position = (position / page_bytes + 1) * page_bytes;
        }
    }

    #[cfg(target_os = "linux")]
    fn give_back(&self, offset: usize, len: usize) -> bool {
        self.check_bounds(offset, len);
        let page_bytes = rustix::param::page_size();
        let start = offset.next_multiple_of(page_bytes);
        let end = (offset + len) / page_bytes * page_bytes;
        if start >= end {
            return true;
        }
        let bytes = end - start;
        // SAFETY: the range lies inside the mapping and on its pages. The mapping is shared, so its
        // bytes are the file's, and a thread that writes there at this moment finds its page again:
        // the system keeps bytes that the device does not have yet. Nobody holds a reference to the
        // bytes. A lock on the pages would forbid the call, so it is removed first. If there was no
        // lock, that is no failure.
        let gone = unsafe {
            let at = self.map.as_mut_ptr().add(start).cast();
            let _ = rustix::mm::munlock(at, bytes);
            rustix::mm::madvise(at, bytes, rustix::mm::Advice::LinuxDontNeed).is_ok()
        };
        if self.is_locked {
            stay_in_memory(&self.map, start, bytes);
        }
        // A hint. If the system ignores it, it takes these pages when it needs others.
        let len = std::num::NonZeroU64::new(bytes as u64);
        let _ = rustix::fs::fadvise(&*self.file, start as u64, len, rustix::fs::Advice::DontNeed);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hint for any place is accepted, also beyond the end and up to the last offset.
    #[test]
    fn what_will_be_needed_may_lie_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = OsVfs.create(&path).unwrap();
        let data = vec![7; 768 << 10];
        file.write_at(&data, 0).unwrap();
        for (offset, len) in [
            (0, 0),
            (1, data.len() as u64),
            (1 << 40, 1 << 20),
            (u64::MAX - 9, 100),
        ] {
            file.will_need(offset, len);
        }
        let mut read = vec![0; data.len()];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), data.len());
        assert_eq!(read, data);
    }

    /// KiB of a file that this process has mapped in memory.
    #[cfg(target_os = "linux")]
    fn resident_kib(path: &Path) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let name = path.to_str().unwrap();
        let mut lines = maps.lines();
        let mut kib = 0;
        // If only a part of the mapping is locked, the lock splits the mapping there.
        while lines.by_ref().any(|line| line.ends_with(name)) {
            let rss = lines.by_ref().find_map(|line| line.strip_prefix("Rss:"));
            let number = rss.and_then(|rss| rss.trim().strip_suffix(" kB"));
            kib += number.unwrap().trim().parse::<u64>().unwrap();
        }
        kib
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mapping_gives_its_memory_back() {
        const LEN: usize = 8 << 20;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        let file = OsVfs.create(&path).unwrap();
        file.write_at(&vec![1; LEN], 0).unwrap();
        let mapping = file.map(LEN).unwrap();
        mapping.write(0, &vec![2; LEN]);
        assert_eq!(resident_kib(&path), LEN as u64 >> 10);
        // Nothing was synced.
        assert!(mapping.give_back(4096, LEN - 4096));
        // A huge page leaves the page table as a whole.
        assert!(resident_kib(&path) <= 4);
        let mut read = vec![0; LEN];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
        assert!(read.iter().all(|&byte| byte == 2));
        mapping.write(LEN - 1, &[3]);
        file.sync_data().unwrap();
        assert!(mapping.give_back(0, LEN));
        assert_eq!(resident_kib(&path), 0);
        assert_eq!(file.read_at(&mut read, 0).unwrap(), LEN);
        assert!(read[..LEN - 1].iter().all(|&byte| byte == 2));
        assert_eq!(read[LEN - 1], 3);
    }

    /// The system reports a failure once to a handle. If a wait gets the report, it must not be
    /// lost.
    #[test]
    fn a_sync_returns_what_a_wait_was_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = OsFile {
            file: Arc::new(fs::File::create_new(&path).unwrap()),
            path,
            failed_wait: Mutex::new(Some(io::Error::from_raw_os_error(5))),
        };
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5));
        file.sync_data().unwrap();
        *file.failed_wait() = Some(io::Error::from_raw_os_error(5));
        assert!(file.write_at_durable(b"x", 0).is_err());
        file.write_at_durable(b"x", 0).unwrap();
    }
}
