//! [`OsMapping`]: a shared, writable mapping of a file.
//!
//! Thread safety: any number of threads may write. Only the caller knows that no two writes
//! overlap.
#![expect(
    unsafe_code,
    reason = "writes into a mapping of a file are raw copies; mlock; madvise"
)]

use std::fs;
use std::io;
use std::sync::Arc;

use crate::vfs::Mapping;
use memmap2::{MmapOptions, MmapRaw};

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
pub(super) struct OsMapping {
    map: MmapRaw,
    /// Its pages are locked when they come into memory.
    is_locked: bool,
    /// Open as long as the mapping lives.
    file: Arc<fs::File>,
}

impl OsMapping {
    /// The first `len` bytes of a file that has them.
    pub(super) fn of(file: &Arc<fs::File>, len: usize) -> io::Result<OsMapping> {
        let map = MmapOptions::new().len(len).map_raw(&**file);
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
        Ok(OsMapping {
            map,
            is_locked,
            file: Arc::clone(file),
        })
    }

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
