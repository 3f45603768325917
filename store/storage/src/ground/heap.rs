#![cfg_attr(
    all(target_os = "linux", target_env = "gnu", not(miri)),
    expect(
        unsafe_code,
        reason = "one call of the C library that Rust's does not offer"
    )
)]
//! Large buffers are mapped, each by itself, so that they leave no holes in the heap.
//!
//! The GNU C library maps allocations above 128 KiB. But when such a piece is freed, this limit
//! rises to the size of the piece, up to 32 MiB. From then on buffers of megabytes are cut from the
//! heaps of several threads and leave holes of that size. With values of one to seven MiB a process
//! with a budget of 32 MiB came to 240 MiB, and with mapped pieces to 90 MiB. So code that
//! allocates a buffer for a record or a block reports its size here, and the first large one fixes
//! the limit at 1 MiB.
//!
//! This is a setting of the whole process. An application without large values never gets it. Other
//! allocators are left alone.
//!
//! Thread safety: any. No order is needed: the setting may come late, or twice.

use std::sync::atomic::{AtomicBool, Ordering};

/// Buffers of this many bytes or more are mapped, once there was one.
const LARGE: usize = 1 << 20;

static IS_SET: AtomicBool = AtomicBool::new(false);

/// Reports that a buffer of `bytes` bytes will be allocated.
#[inline]
pub fn expect(bytes: usize) {
    if bytes >= LARGE && !IS_SET.load(Ordering::Relaxed) {
        map_large();
    }
}

#[cold]
fn map_large() {
    IS_SET.store(true, Ordering::Relaxed);
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: takes two numbers, and may be called at any time by any thread.
    unsafe {
        // If it is refused, nothing changes.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE as libc::c_int);
    }
}
