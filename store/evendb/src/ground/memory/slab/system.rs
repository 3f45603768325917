//! Memory of the system, in regions: mapped once, and given back page by page.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::ptr::{self, NonNull};

pub(super) const REGION_BYTES: usize = 4 << 20;
pub(super) const PAGE_BYTES: usize = 4096;

/// An aligned region, all zeros, with nothing resident. `None` if there is none.
pub(super) fn map_region() -> Option<NonNull<u8>> {
    // Mapping twice the bytes ensures that there is an aligned region inside. Only used
    // memory becomes resident; the address space is not given back.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which nobody else has.
    let mapped =
        unsafe { mmap_anonymous(ptr::null_mut(), 2 * REGION_BYTES, access, flags) }.ok()?;
    let mapped = mapped.cast::<u8>();
    NonNull::new(mapped.wrapping_add(mapped.align_offset(REGION_BYTES)))
}

/// Gives whole pages back.
///
/// # Safety
/// They belong to a region, and their content is not needed any more.
pub(super) unsafe fn discard(address: usize, bytes: usize) {
    let pages = ptr::with_exposed_provenance_mut(address);
    // SAFETY: the caller ensures it.
    let _ = unsafe { madvise(pages, bytes, Advice::LinuxDontNeed) };
}
