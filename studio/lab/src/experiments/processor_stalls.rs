#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "a thread's scheduling class")
)]
//! When a processor of the machine stood still, which delays any store.
//!
//! There is one thread per processor, bound to it and of real-time priority, which sleeps a
//! millisecond at a time. It goes before all other threads. If it wakes more than [`LATE`] too
//! late, no thread ran on that processor: the kernel itself did, or the host of a virtual machine
//! ran another one.
//!
//! Needs the right to real-time priority (root, as a rule); without it nothing is noted, and the
//! report says so. Nobody knows which thread ran when a processor stalled: a pause that overlaps a
//! stall of any processor is taken to have waited for it, though its thread may have run on
//! another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Far more than the kernel takes to wake a thread that goes before all others.
const LATE: Duration = Duration::from_millis(2);
const SLEEP: Duration = Duration::from_millis(1);

/// Stalls of all processors, from begin to end.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessorStalls(Vec<(Instant, Instant)>);

impl ProcessorStalls {
    /// The number of stalls, and the longest.
    pub(super) fn count_and_longest(&self) -> (usize, Duration) {
        let longest = self.0.iter().map(|&(from, to)| to - from).max();
        (self.0.len(), longest.unwrap_or_default())
    }

    /// The part of the time between `from` and `to` in which some processor stood still.
    pub(super) fn within(&self, from: Instant, to: Instant) -> Duration {
        let mut seen = from;
        let mut total = Duration::ZERO;
        // In the order of their beginning. Stalls of several processors may overlap.
        for &(begin, end) in &self.0 {
            let (begin, end) = (begin.max(seen), end.min(to));
            if begin < end {
                total += end - begin;
                seen = end;
            }
        }
        total
    }
}

/// The threads that watch for stalls, one for each processor.
pub(super) struct StallWatch<'s>(Vec<ScopedJoinHandle<'s, Option<ProcessorStalls>>>);

impl<'s> StallWatch<'s> {
    /// Begins to watch, until `stop`.
    pub(super) fn start(scope: &'s Scope<'s, '_>, stop: &'s AtomicBool) -> StallWatch<'s> {
        let watchers = processors()
            .into_iter()
            .map(|processor| scope.spawn(move || watch(processor, stop)))
            .collect();
        StallWatch(watchers)
    }

    /// The stalls that all threads saw; `None` if one of them could not watch.
    pub(super) fn finish(self) -> Option<ProcessorStalls> {
        let mut all = Vec::new();
        if self.0.is_empty() {
            return None;
        }
        for watcher in self.0 {
            all.extend(watcher.join().ok()??.0);
        }
        all.sort();
        Some(ProcessorStalls(all))
    }
}

fn watch(processor: usize, stop: &AtomicBool) -> Option<ProcessorStalls> {
    bind(processor)?;
    let mut stops = Vec::new();
    let mut woke = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // Counted from the last wake, so that a stall while this thread runs counts too.
        let due = woke + SLEEP;
        thread::sleep(SLEEP);
        woke = Instant::now();
        if woke.saturating_duration_since(due) >= LATE {
            stops.push((due, woke));
        }
    }
    Some(ProcessorStalls(stops))
}

/// The processors on which this process may run.
#[cfg(target_os = "linux")]
fn processors() -> Vec<usize> {
    use rustix::thread::CpuSet;
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

#[cfg(target_os = "linux")]
fn bind(processor: usize) -> Option<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).ok()?;
    // SAFETY: a struct of integers. Zero is a valid value of it on every system.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: reads the parameters; zero is the calling thread.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    (refused == 0).then_some(())
}

#[cfg(not(target_os = "linux"))]
fn processors() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn bind(_processor: usize) -> Option<()> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_stops_count_once_and_only_within() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let stops = ProcessorStalls(vec![(at(10), at(20)), (at(15), at(25)), (at(40), at(50))]);
        let within = |from, to| stops.within(at(from), at(to)).as_millis();
        assert_eq!(within(0, 100), 25);
        assert_eq!(within(12, 18), 6);
        assert_eq!(within(18, 45), 12);
        assert_eq!(within(25, 40), 0);
        assert_eq!(stops.count_and_longest(), (3, Duration::from_millis(10)));
    }

    #[test]
    fn watchers_end() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = StallWatch::start(scope, &stop);
            stop.store(true, Ordering::Relaxed);
            // How many stalls there were depends on the machine.
            drop(watch.finish());
        });
    }
}
