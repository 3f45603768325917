//! Memory latency and copy speed of one thread.
//!
//! ```text
//!   line 0      line 1      line 2      ...      64 bytes each; `next` makes one cycle through all
//!   [next|pad]  [next|pad]  [next|pad]
//! ```
//! Every read's address is the result of the read before, in an order that no prefetcher guesses.
//! Misses of the address translation are part of the figure, as they are of a store's.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{CalibrateError, CalibrationSettings, Sliced, check};
use crate::random::Random;

/// A cache line that names the next one to look at.
#[derive(Clone)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// Reads between two looks at the clock.
const HOPS: u32 = 4096;

/// Nanoseconds of one read from memory. Its address depends on the read before.
pub(super) fn latency(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
) -> Result<Sliced, CalibrateError> {
    let lines = cycle((settings.memory_bytes / size_of::<Line>()).max(2));
    let mut place = 0;
    slices(settings, interrupted, |time| {
        let (start, mut hops) = (Instant::now(), 0u64);
        while hops == 0 || start.elapsed() < time {
            for _ in 0..HOPS {
                place = lines[place as usize].next;
            }
            black_box(place);
            hops += u64::from(HOPS);
        }
        start.elapsed().as_nanos() as f64 / hops as f64
    })
}

/// Bytes that one thread copies in a second, each counted once. The two places are too large for
/// any cache.
pub(super) fn copy(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
) -> Result<Sliced, CalibrateError> {
    let length = (settings.memory_bytes / 4).max(1);
    // Written, so that the pages exist.
    let (from, mut to) = (vec![1u8; length], vec![2u8; length]);
    slices(settings, interrupted, |time| {
        let (start, mut copied) = (Instant::now(), 0u64);
        while copied == 0 || start.elapsed() < time {
            to.copy_from_slice(black_box(&from));
            black_box(&to);
            copied += length as u64;
        }
        copied as f64 / start.elapsed().as_secs_f64()
    })
}

fn slices(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
    mut measure: impl FnMut(Duration) -> f64,
) -> Result<Sliced, CalibrateError> {
    let mut slices = Vec::new();
    for _ in 0..settings.slices.max(1) {
        check(interrupted)?;
        slices.push(measure(settings.slice()));
    }
    Ok(Sliced::of(slices))
}

/// Lines in one cycle through all of them (Sattolo's shuffle).
fn cycle(count: usize) -> Vec<Line> {
    let count = count.min(u32::MAX as usize);
    let mut lines: Vec<Line> = (0..count as u32).map(|next| Line { next }).collect();
    let mut random = Random::new(1, 0);
    for index in (1..count).rev() {
        let other = random.below(index as u64) as usize;
        let next = lines[index].next;
        lines[index].next = lines[other].next;
        lines[other].next = next;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_line_once() {
        for count in [2, 3, 1000] {
            let lines = cycle(count);
            let (mut place, mut seen) = (0, vec![false; count]);
            for _ in 0..count {
                place = lines[place].next as usize;
                assert!(!seen[place], "line {place} came again early");
                seen[place] = true;
            }
            assert_eq!(place, 0);
        }
        assert_eq!(size_of::<Line>(), 64);
    }
}
