#![cfg_attr(
    all(target_os = "linux", target_env = "gnu", not(miri)),
    expect(
        unsafe_code,
        reason = "one call of the C library that Rust's does not offer"
    )
)]
//! Gives back what the general allocator keeps though no object uses it.
//!
//! Block indexes, filters, handles and buffers come and go in sizes from dozens of bytes to megabytes,
//! so the heap gets holes. The GNU C library gives whole pages inside of them back only when asked.
//! It is asked here when the process has more resident bytes than the budget accounts for. The less that
//! helps, the more rarely it is asked, because an application's own memory counts in the resident size
//! too.
//!
//! Thread safety: one thread, the reaper. An allocation of another thread may wait for a trim of its
//! arena, which takes some 10 ns per free chunk.

use std::time::{Duration, Instant};

/// From this many resident bytes above the budget on, a trim is worth a try.
const EXCESS_BYTES: u64 = 8 << 20;
const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// When the heap was last trimmed, and how long it is not trimmed again.
pub(crate) struct HeapTrim {
    last: Instant,
    interval: Duration,
}

impl HeapTrim {
    pub(crate) fn new() -> HeapTrim {
        HeapTrim {
            last: Instant::now(),
            interval: INTERVAL_MIN,
        }
    }

    /// Trims the heap, if it is time and there is something to gain: the process has more resident bytes
    /// than a memory budget of `budget` accounts for.
    pub(crate) fn tend(&mut self, memory_budget: u64) {
        if self.last.elapsed() < self.interval {
            return;
        }
        self.last = Instant::now();
        let enough = memory_budget + EXCESS_BYTES;
        let Some(before) = resident_bytes().filter(|&bytes| bytes > enough) else {
            self.interval = INTERVAL_MIN;
            return;
        };
        trim();
        let gained = before.saturating_sub(resident_bytes().unwrap_or(before));
        self.interval = match gained > (before - enough) / 8 {
            true => INTERVAL_MIN,
            false => (2 * self.interval).min(INTERVAL_MAX),
        };
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
fn trim() {
    unsafe extern "C" {
        /// Declared in malloc.h of the GNU C library.
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    malloc_trim(0);
}

/// Other allocators are left alone.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn resident_bytes() -> Option<u64> {
    None
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn trim() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_trim_gives_holes_back() {
        let blocks: Vec<Vec<u8>> = (0..100_000).map(|n| vec![n as u8; 1000]).collect();
        let full = resident_bytes().unwrap();
        // One in 16 stays, so that the heap's end is in use.
        let kept: Vec<_> = blocks.into_iter().step_by(16).collect();
        trim();
        let trimmed = resident_bytes().unwrap();
        assert!(kept.iter().all(|block| block.len() == 1000));
        assert!(trimmed + (10 << 20) < full, "{trimmed} of {full}");
    }
}
