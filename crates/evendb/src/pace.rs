//! Background work makes way for the foreground: after some work it rests, if there are operations
//! that could use the processor, and the work is not urgent. In between, while it keeps up, it gives
//! way to threads that wait at that moment ([`Turn`]).
//!
//! A thread of lower priority would be simpler, but it keeps its priority while it holds a latch, or
//! a lock of the kernel's memory management, that a put waits for.

use crate::engine::core::Core;
use crate::sync::turn::Turn;
use std::time::{Duration, Instant};

/// Work between two looks.
const WORK: Duration = Duration::from_micros(500);
/// A rest is at most so long: the clock of a system that has been asleep must not count.
const REST_MAX: Duration = Duration::from_millis(2);

/// One job's turns of work and rest.
pub(crate) struct Breath {
    since: Instant,
    operations: u64,
    calls: u32,
}

impl Breath {
    pub(crate) fn new(core: &Core) -> Breath {
        Breath {
            since: Instant::now(),
            operations: core.metrics.operations(),
            calls: 0,
        }
    }

    /// Rests if it is time to, `rest_share` times as long as it worked. The caller holds no latch
    /// and no pin. Cheap enough for every few dozen records.
    pub(crate) fn take(&mut self, core: &Core, rest_share: f64) {
        if core.manual() || cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let worked = self.since.elapsed();
        if worked < WORK {
            return;
        }
        let operations = core.metrics.operations();
        // Some, in the time it worked: the foreground is not idle.
        if operations > self.operations && rest_share > 0.0 {
            std::thread::sleep(worked.mul_f64(rest_share).min(REST_MAX));
        }
        self.operations = core.metrics.operations();
        self.since = Instant::now();
    }

    /// The same, looking at the clock at every 32nd call only.
    pub(crate) fn take_sometimes(&mut self, core: &Core, rest_share: f64) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(32) {
            self.take(core, rest_share);
        }
    }
}

/// For a piece of background work that begins: it gives way to others at any moment if puts have
/// room, and there is no debt.
pub(crate) fn turn(core: &Core) -> Turn {
    Turn::new(core.admission.fullness() < 0.6 && core.admission.debt_share() == 0.0)
}

/// How much a checkpoint rests: as long as it works while puts have plenty of room, not at all
/// when they do not.
pub(crate) fn checkpoint_rest(core: &Core) -> f64 {
    let full = core.admission.fullness();
    ((0.68 - full) * 6.0).clamp(0.0, 1.0)
}

/// How much reorganisation rests: half as long as it works while it keeps up.
pub(crate) fn reorganisation_rest(core: &Core) -> f64 {
    let behind = core.admission.debt_share();
    (0.5 - 2.0 * behind).max(0.0)
}
