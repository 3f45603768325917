#![expect(unsafe_code, reason = "an allocator")]
//! Slabs: memory for the most frequent objects of a database, records of deltas and pages of munks.
//!
//! ```text
//! region, 4 MiB     | headers, 64 KiB | slab 1, 64 KiB | slab 2 | ... | slab 63 |
//! slab              | object | object | object, free | ... | never used ...  |   all of one class
//! free object       | next | discarded |
//! ```
//!
//! Why not the general allocator: objects of a thousand sizes, made by one thread and freed by
//! another, leave holes that it neither fills nor returns. Measured with glibc, 1 GiB of budget:
//! 300 to 500 MiB of holes. Here an object goes into a hole of its class before new memory is
//! touched, a slab without objects is given back, and [`trim`] gives back the pages inside of
//! holes. So the resident bytes are known exactly: [`resident_bytes`].
//!
//! Classes: multiples of 16 up to 128 bytes, then eight for each doubling, up to 32 KiB; a larger
//! object goes to the general allocator, which maps it alone, or nearly so. Memory that was never
//! used is not resident.
//!
//! Thread safety: a lock for each class, held for the change of a few words, and one for empty
//! slabs; a lock of a class may be held when the lock for empty slabs is taken. Leaves: nothing
//! else is locked under them. One pool for the process: objects outlive databases. In models, and
//! with the feature `general-allocator`, which is for sanitizers and Miri, the general allocator
//! serves everything.

#[cfg_attr(
    any(not(target_os = "linux"), evendb_loom, evendb_shuttle),
    path = "absent.rs"
)]
mod slabs;
#[cfg(all(target_os = "linux", not(any(evendb_loom, evendb_shuttle))))]
#[cfg_attr(miri, path = "system_in_miri.rs")]
mod system;
#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;

pub(crate) use slabs::{kept_warm_bytes, slack_bytes, small_holes_bytes, trim};

use evendb_storage::heap;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const ALIGN: usize = 16;
/// Bytes of the largest object of a slab.
const OBJECT_BYTES_MAX: usize = 32 << 10;

/// Bytes that an object of `bytes` takes.
pub(crate) fn size_of_object(bytes: usize) -> usize {
    match class_of(bytes) {
        Some(class) => class_bytes(class),
        None => super::allocated_bytes(bytes),
    }
}

/// The class of objects of `bytes`; `None` if they are too large for slabs.
#[inline]
fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= 128 {
        return Some(bytes.saturating_sub(1) / 16);
    }
    if bytes > OBJECT_BYTES_MAX {
        return None;
    }
    // Eight steps between two powers of two.
    let power = (bytes - 1).ilog2();
    let step = (bytes - 1) >> (power - 3) & 7;
    Some((power as usize - 6) * 8 + step)
}

#[inline]
fn class_bytes(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 16;
    }
    let power = class / 8 + 6;
    (8 + class % 8 + 1) << (power - 3)
}

const CLASSES: usize = 72;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), ALIGN).expect("below half of the address space")
}

fn general(bytes: usize) -> NonNull<u8> {
    heap::expect(bytes);
    let layout = layout(bytes);
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// The class of an object's slab; `None` if the general allocator serves it.
#[inline]
fn slab_class(bytes: usize) -> Option<usize> {
    match slabs::ARE_THERE {
        true => class_of(bytes),
        false => None,
    }
}

/// Memory for `bytes` bytes, aligned to 16, uninitialized.
pub(crate) fn allocate(bytes: usize) -> NonNull<u8> {
    match slab_class(bytes) {
        Some(class) => slabs::allocate(class).unwrap_or_else(|| handle_alloc_error(layout(bytes))),
        None => general(bytes),
    }
}

/// Gives memory back.
///
/// # Safety
/// `object` came from [`allocate`] with the same number of bytes, and is no longer used.
pub(crate) unsafe fn free(object: NonNull<u8>, bytes: usize) {
    match slab_class(bytes) {
        // SAFETY: the caller ensures it.
        Some(class) => unsafe { slabs::free(object, class) },
        // SAFETY: as above; `allocate` used the same layout.
        None => unsafe { dealloc(object.as_ptr(), layout(bytes)) },
    }
}

/// Whether at least a quarter of the places in the slab of an object of `bytes` bytes are holes. If
/// many slabs are sparse, objects that are copied into new ones fill the holes of few slabs and
/// leave others empty.
///
/// # Safety
/// `object` came from [`allocate`] with the same number of bytes, and was not freed.
pub(crate) unsafe fn is_sparse(object: NonNull<u8>, bytes: usize) -> bool {
    match slab_class(bytes) {
        // SAFETY: the caller ensures it.
        Some(class) => unsafe { slabs::is_sparse(object, class) },
        None => false,
    }
}

/// While it lives, this number of bytes more of empty slabs stays resident for the next objects:
/// memory that is freed and taken again many times a second costs a page fault every 4 KiB.
/// [`trim`] gives them back all the same, also for another database of the process.
pub(crate) struct KeepWarm(usize);

impl KeepWarm {
    pub(crate) fn new(bytes: u64) -> KeepWarm {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        slabs::keep_warm(bytes as isize);
        KeepWarm(bytes)
    }
}

impl Drop for KeepWarm {
    fn drop(&mut self) {
        slabs::keep_warm(-(self.0 as isize));
    }
}
