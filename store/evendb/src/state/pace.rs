//! Background work makes way for the foreground. After some work it rests ([`Rest`]), if there are
//! operations that could use the processor and the work is not urgent. Between two rests it yields
//! to threads that wait at that moment ([`Yielder`]), while reorganisation keeps up with puts.
//!
//! A thread of lower priority would be simpler. But it keeps its low priority while it holds a
//! latch, or a lock of the kernel's memory management, and a put may wait for these.

use crate::engine::core::Core;
use crate::sync::yielding::Yielder;
use evendb_storage::vfs::WriteBehind;
use std::time::{Duration, Instant};

/// The time of work between two looks.
const WORK: Duration = Duration::from_micros(500);
/// The longest rest: the time while a system was asleep must not count as work.
const REST_MAX: Duration = Duration::from_millis(2);

/// When one job rests, and for how long.
pub(crate) struct Rest {
    since: Instant,
    operations: u64,
    calls: u32,
}

impl Rest {
    pub(crate) fn new(core: &Core) -> Rest {
        Rest {
            since: Instant::now(),
            operations: core.metrics.operations(),
            calls: 0,
        }
    }

    /// Rests if it is time, `rest_share` times as long as it has worked. The caller holds no latch
    /// and no pin. It is cheap enough to be called for every few dozen records.
    pub(crate) fn take_if_due(&mut self, core: &Core, rest_share: f64) {
        if core.manual() || cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let worked = self.since.elapsed();
        if worked < WORK {
            return;
        }
        let operations = core.metrics.operations();
        // Operations came during the work: the foreground is not idle.
        if operations > self.operations && rest_share > 0.0 {
            std::thread::sleep(worked.mul_f64(rest_share).min(REST_MAX));
        }
        self.operations = core.metrics.operations();
        self.since = Instant::now();
    }

    /// Like [`Rest::take_if_due`], but it looks at the clock only at every 32nd call.
    pub(crate) fn take_sometimes(&mut self, core: &Core, rest_share: f64) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(32) {
            self.take_if_due(core, rest_share);
        }
    }
}

/// A yielder for a new piece of background work: it yields to other threads if puts have room and
/// no reorganisation is owed.
pub(crate) fn yielder(core: &Core) -> Yielder {
    Yielder::new(core.admission.fullness() < 0.6 && core.admission.debt_share() == 0.0)
}

/// How long a checkpoint rests, in times of its work: once its work while puts have plenty of room,
/// and not at all when they do not.
pub(crate) fn checkpoint_rest(core: &Core) -> f64 {
    let full = core.admission.fullness();
    ((0.68 - full) * 6.0).clamp(0.0, 1.0)
}

/// How long reorganisation rests, in times of its work: half of it while it keeps up; not at all
/// where puts are about to be slowed down, because they would wait for it.
pub(crate) fn reorganisation_rest(core: &Core) -> f64 {
    let behind = core.admission.debt_share();
    let short_of_room = ((core.admission.fullness() - 0.65) * 10.0).clamp(0.0, 1.0);
    (0.5 - 2.0 * behind).max(0.0) * (1.0 - short_of_room)
}

/// Whether puts wait for reorganisation, or are about to.
pub(crate) fn is_behind(core: &Core) -> bool {
    core.admission.fullness() > 0.7 || core.admission.debt_share() > 0.2
}

/// Whether puts wait for jobs, or are about to: reorganisation is owed, or they are short of room
/// and deltas wait for absorbing (`absorbs`). If they are short of room otherwise, they wait for a
/// checkpoint.
pub(crate) fn waits_for_jobs(core: &Core, absorbs: bool) -> bool {
    core.admission.debt_share() > 0.1 || (absorbs && is_behind(core))
}

/// The number of pieces of a table that may be on their way to the disk, if it is not written past
/// the cache. It depends on whether reorganisation keeps up, or puts wait for it.
pub(crate) fn writes_ahead(core: &Core) -> usize {
    WriteBehind::depth(is_behind(core))
}
