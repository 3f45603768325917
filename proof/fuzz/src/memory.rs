//! An allocator that counts the memory of each thread. The highest number of bytes that a piece of
//! work had at once can be asked for: it shows a length in a file that is believed before it is
//! verified.
//!
//! Thread safety: counts belong to the thread that allocates or frees. If one thread allocates
//! memory and another frees it, each counts its part, so measured work does not pass memory to
//! other threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Both places may exist while it moves.
        count(bytes as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The highest number of bytes that this thread had at once, above the bytes that it had before.
pub(crate) fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (result, (PEAK.get() - before).max(0) as usize)
}
