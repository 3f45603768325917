//! Turns of background work: after each, whoever waits for the processor may run.
//!
//! A scheduler lets a thread that has work run for milliseconds once it does. A put that it
//! interrupted holds a latch meanwhile, and behind that wait all who want it: at sync level the whole
//! group. Giving the processor up every so often costs a system call if nobody waits. If somebody does
//! who computes without end, it costs the thread a slice of its share: work that is behind must not
//! ([`Engine::turn`](crate::engine::Engine::turn), decision 0022).
//!
//! Not here: resting ([`Breath`](crate::pace::Breath)), which leaves the processor to
//! those who come later, too.

use super::thread;
use std::time::{Duration, Instant};

/// By far more than a switch of threads costs.
const TURN: Duration = Duration::from_micros(100);

/// One piece of work, in turns.
pub(crate) struct Turn {
    gives_way: bool,
    since: Instant,
    calls: u32,
}

impl Turn {
    /// Work that is in a hurry does not give way.
    pub(crate) fn new(gives_way: bool) -> Turn {
        Turn {
            // A model has no time.
            gives_way: gives_way && !cfg!(any(evendb_loom, evendb_shuttle)),
            since: Instant::now(),
            calls: 0,
        }
    }

    /// For every record: gives way if it is time to, and looks at the clock at every 16th call only. The
    /// caller holds nothing that others wait for; a pin is no harm, it is held no longer than if the
    /// thread were interrupted.
    #[inline]
    pub(crate) fn give_way(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        let looks = self.gives_way && self.calls.is_multiple_of(16);
        if looks && self.since.elapsed() >= TURN {
            thread::yield_now();
            self.since = Instant::now();
        }
    }
}
