//! Miri, which does not know the calls of the system, takes a region from the general allocator.

use std::alloc::{Layout, alloc};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Smaller than elsewhere: accesses get slower with the memory that a region has used.
pub(super) const REGION_BYTES: usize = 512 << 10;
pub(super) const PAGE_BYTES: usize = 4096;

pub(super) fn map_region() -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(REGION_BYTES, REGION_BYTES).ok()?;
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) })
}

/// A read of these pages before they are written again reads uninitialised memory.
///
/// # Safety
/// The same as for the other `discard`.
pub(super) unsafe fn discard(address: usize, bytes: usize) {
    for page in (address..address + bytes).step_by(PAGE_BYTES) {
        let page = ptr::with_exposed_provenance_mut::<MaybeUninit<[u8; PAGE_BYTES]>>(page);
        // SAFETY: the caller ensures it.
        unsafe { page.write(MaybeUninit::uninit()) };
    }
}
