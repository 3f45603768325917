#![cfg_attr(
    all(target_os = "linux", target_env = "gnu", not(miri)),
    expect(
        unsafe_code,
        reason = "one call of the C library that Rust's does not offer"
    )
)]
//! Gives back memory that the general allocator keeps though no object uses it.
//!
//! Block indexes, filters, handles and buffers come and go in sizes from dozens of bytes to
//! megabytes, so the heap gets holes. The GNU C library gives whole pages inside of them back only
//! when asked. It is asked here when the process has more resident bytes than the budget accounts
//! for. The less a trim gains, the later is the next one, because an application's own memory
//! counts in the resident size too. But if the resident size has grown since, the heap is trimmed
//! at once: so a wave of rewrites, which frees the block indexes of many tables, does not take
//! memory twice until the next trim. An application whose own memory rises and falls looks just the
//! same, and a trim of its heap may take long. So trims take at most a fiftieth of the time,
//! whatever they gain.
//!
//! Thread safety: one thread, the reaper. An allocation of another thread may wait for a trim of
//! its arena, which takes some 10 ns for each free chunk.

use std::time::{Duration, Instant};

/// The resident bytes above the budget from which on a trim is worth a try.
const EXCESS_BYTES: u64 = 8 << 20;
const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The least growth, in bytes, since the last trim that is worth another one. For a larger budget
/// it is one part in [`GROWTH_PART`] of the budget.
const GROWTH_BYTES: u64 = 4 << 20;
const GROWTH_PART: u64 = 32;

/// After a trim there is a rest of this many times the trim's duration.
const REST_FACTOR: u32 = 49;

/// When the heap was last trimmed, and how long it is not trimmed again unless the process grows.
pub(crate) struct HeapTrim {
    looked: Instant,
    last: Instant,
    interval: Duration,
    /// How long it is not trimmed again in any case.
    rest: Duration,
    /// The fewest resident bytes since the last trim; at first the bytes that it left.
    least: u64,
}

impl HeapTrim {
    pub(crate) fn new() -> HeapTrim {
        let now = Instant::now();
        HeapTrim {
            looked: now,
            last: now,
            interval: INTERVAL_MIN,
            rest: Duration::ZERO,
            least: u64::MAX,
        }
    }

    /// Trims the heap if it is time and there is something to gain: the process has more resident
    /// bytes than `memory_budget` accounts for.
    pub(crate) fn tend(&mut self, memory_budget: u64) {
        if self.looked.elapsed() < INTERVAL_MIN {
            return;
        }
        self.looked = Instant::now();
        let Some(before) = resident_bytes() else {
            return;
        };
        if self.is_due(before, memory_budget, self.last.elapsed()) {
            let started = Instant::now();
            trim();
            self.last = Instant::now();
            self.rest = REST_FACTOR * (self.last - started);
            self.note(before, resident_bytes().unwrap_or(before), memory_budget);
        }
    }

    /// Whether a trim is due in a process with this number of resident bytes, this long after the
    /// last trim.
    fn is_due(&mut self, resident: u64, memory_budget: u64, since: Duration) -> bool {
        self.least = self.least.min(resident);
        if resident <= memory_budget + EXCESS_BYTES {
            self.interval = INTERVAL_MIN;
            return false;
        }
        let growth = GROWTH_BYTES.max(memory_budget / GROWTH_PART);
        since >= self.rest && (since >= self.interval || resident - self.least >= growth)
    }

    /// Notes that a trim has reduced the resident bytes from `before` to `after`.
    fn note(&mut self, before: u64, after: u64, memory_budget: u64) {
        let excess = before.saturating_sub(memory_budget + EXCESS_BYTES);
        self.interval = match before.saturating_sub(after) > excess / 8 {
            true => INTERVAL_MIN,
            false => (2 * self.interval).min(INTERVAL_MAX),
        };
        self.least = after;
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
    fn it_is_asked_more_rarely_until_the_process_grows() {
        const MIB: u64 = 1 << 20;
        let (budget, large) = (100 * MIB, 120 * MIB);
        let mut trim = HeapTrim::new();
        assert!(!trim.is_due(budget, budget, INTERVAL_MAX));
        assert!(trim.is_due(large, budget, INTERVAL_MIN));
        for _ in 0..3 {
            trim.note(large, large, budget);
        }
        assert!(!trim.is_due(large, budget, 4 * INTERVAL_MIN));
        assert!(trim.is_due(large, budget, 8 * INTERVAL_MIN));
        // However short the last trim was, its rest is over.
        assert!(!trim.is_due(large + 3 * MIB, budget, Duration::ZERO));
        assert!(trim.is_due(large + 4 * MIB, budget, Duration::ZERO));
        // Growth that a trim does not remove does not count the next time; growth after a smaller
        // size does.
        trim.note(large + 4 * MIB, large + 4 * MIB, budget);
        assert!(!trim.is_due(large + 4 * MIB, budget, Duration::ZERO));
        assert!(!trim.is_due(large, budget, Duration::ZERO));
        assert!(trim.is_due(large + 4 * MIB, budget, Duration::ZERO));
    }

    #[test]
    fn however_an_applications_memory_rises_and_falls_trims_take_a_small_part_of_the_time() {
        const MIB: u64 = 1 << 20;
        let (budget, took) = (100 * MIB, Duration::from_millis(40));
        let mut trim = HeapTrim::new();
        let (mut clock, mut last, mut trims) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for step in 0..4000 {
            clock += INTERVAL_MIN;
            let resident = (200 + 64 * (step % 2)) * MIB;
            if trim.is_due(resident, budget, clock - last) {
                clock += took;
                (last, trims) = (clock, trims + took);
                trim.rest = REST_FACTOR * took;
                // Memory that the application freed meanwhile looks like a gain.
                trim.note(resident, resident - 64 * MIB, budget);
            }
        }
        assert!(
            trims > clock / 100 && trims <= clock / 50,
            "{trims:?} of {clock:?}"
        );
    }

    #[test]
    fn a_trim_gives_holes_back() {
        let blocks: Vec<Vec<u8>> = (0..100_000).map(|n| vec![n as u8; 1000]).collect();
        let full = resident_bytes().unwrap();
        // One block in 16 stays, so that the heap's end is in use.
        let kept: Vec<_> = blocks.into_iter().step_by(16).collect();
        trim();
        let trimmed = resident_bytes().unwrap();
        assert!(kept.iter().all(|block| block.len() == 1000));
        assert!(trimmed + (10 << 20) < full, "{trimmed} of {full}");
    }
}
