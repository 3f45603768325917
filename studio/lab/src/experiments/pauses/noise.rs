//! The machine's own noise: how long a thread stands still that asks nothing of the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::LONG;
use super::notes::histogram;

/// The longest gap between two looks of a thread that only looks at the clock.
pub(super) fn longest_gap(time: Duration) -> u64 {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    while last - start < time {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.as_nanos() as u64
}

/// How late a thread wakes that sleeps a millisecond at a time.
pub(super) fn tick(stop: &AtomicBool) -> Histogram<u64> {
    let mut late = histogram();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(LONG);
        let over = start.elapsed().saturating_sub(LONG);
        late.saturating_record((over.as_nanos() as u64).max(1));
    }
    late
}
