//! Background work that yields: after each 0.1 ms of it, threads that wait for the processor may
//! run.
//!
//! A scheduler lets a thread that has work run for milliseconds. If the thread interrupted a put,
//! that put holds a latch meanwhile, and other puts wait for the latch: at sync level the whole
//! group does. A yield costs a system call if no thread waits. If a thread waits that computes
//! without end, it costs the yielding thread a slice of its share, so work that is behind must not
//! yield (decision 0022).
//!
//! Not here: resting (`Rest` of the engine), which leaves the processor also to threads that get
//! work only later.

use super::thread;
use std::time::{Duration, Instant};

/// The time of work between two yields. It is far more than a switch of threads costs.
const WORK: Duration = Duration::from_micros(100);

/// A piece of work that yields now and then.
pub struct Yielder {
    yields: bool,
    since: Instant,
    calls: u32,
}

impl Yielder {
    /// Work that is in a hurry does not yield (`yields` is false).
    pub fn new(yields: bool) -> Yielder {
        Yielder {
            // A model has no time.
            yields: yields && !cfg!(any(evendb_loom, evendb_shuttle)),
            since: Instant::now(),
            calls: 0,
        }
    }

    /// Called for every record: yields if it is time to. It looks at the clock only at every 16th
    /// call. The caller must hold nothing that other threads wait for. A pin does no harm: it is
    /// held no longer than if the thread were interrupted.
    #[inline]
    pub fn yield_if_due(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        let looks = self.yields && self.calls.is_multiple_of(16);
        if looks && self.since.elapsed() >= WORK {
            thread::yield_now();
            self.since = Instant::now();
        }
    }
}
