//! In place of slabs where there are none: on other systems than Linux, and in models. No object
//! has a slab, because the general allocator serves all of them.

use std::ptr::NonNull;

pub(super) const ARE_THERE: bool = false;

pub(super) fn allocate(_class: usize) -> Option<NonNull<u8>> {
    None
}

/// # Safety
/// There is no such object.
pub(super) unsafe fn free(_object: NonNull<u8>, _class: usize) {}

/// # Safety
/// There is no such object.
pub(super) unsafe fn is_sparse(_object: NonNull<u8>, _class: usize) -> bool {
    false
}

pub(crate) fn slack_bytes() -> u64 {
    0
}

pub(crate) fn kept_warm_bytes() -> u64 {
    0
}

pub(crate) fn small_holes_bytes() -> u64 {
    0
}

pub(crate) fn trim(_slack_max: u64) {}

pub(super) fn keep_warm(_more: isize) {}
