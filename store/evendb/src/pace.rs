//! Background work makes way for the foreground. After some work it rests ([`Rest`]), if there are
//! operations that could use the processor and the work is not urgent. Between two rests it yields to
//! threads that wait at that moment ([`Yielder`]), while reorganisation keeps up with puts.
//!
//! A thread of lower priority would be simpler. But it keeps its low priority while it holds a latch, or
//! a lock of the kernel's memory management, for which a put waits.

use crate::engine::core::Core;
use crate::sync::yielding::Yielder;
use evendb_storage::vfs::WriteBehind;
use std::time::{Duration, Instant};

/// Work between two looks.
const WORK: Duration = Duration::from_micros(500);
/// The longest rest: the time that a system was asleep must not count as work.
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

    /// Rests if it is time to, `rest_share` times as long as it worked. The caller holds no latch
    /// and no pin. Cheap enough for every few dozen records.
    pub(crate) fn take_if_due(&mut self, core: &Core, rest_share: f64) {
        if core.manual() || cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let worked = self.since.elapsed();
        if worked < WORK {
            return;
        }
        let operations = core.metrics.operations();
        // Operations came while it worked: the foreground is not idle.
        if operations > self.operations && rest_share > 0.0 {
            std::thread::sleep(worked.mul_f64(rest_share).min(REST_MAX));
        }
        self.operations = core.metrics.operations();
        self.since = Instant::now();
    }

    /// As [`Rest::take_if_due`], but looks at the clock at every 32nd call only.
    pub(crate) fn take_sometimes(&mut self, core: &Core, rest_share: f64) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(32) {
            self.take_if_due(core, rest_share);
        }
    }
}

/// For a piece of background work that begins: it yields to other threads if puts have room and no
/// reorganisation is owed.
pub(crate) fn yielder(core: &Core) -> Yielder {
    Yielder::new(core.admission.fullness() < 0.6 && core.admission.debt_share() == 0.0)
}

/// How much a checkpoint rests: as long as it works while puts have plenty of room, not at all
/// when they do not.
pub(crate) fn checkpoint_rest(core: &Core) -> f64 {
    let full = core.admission.fullness();
    ((0.68 - full) * 6.0).clamp(0.0, 1.0)
}

/// How much reorganisation rests: half as long as it works while it keeps up; not at all where puts are
/// about to be slowed down, for it is what they would wait for.
pub(crate) fn reorganisation_rest(core: &Core) -> f64 {
    let behind = core.admission.debt_share();
    let short_of_room = ((core.admission.fullness() - 0.65) * 10.0).clamp(0.0, 1.0);
    (0.5 - 2.0 * behind).max(0.0) * (1.0 - short_of_room)
}

/// Whether puts are about to wait for reorganisation, or do.
pub(crate) fn is_behind(core: &Core) -> bool {
    core.admission.fullness() > 0.7 || core.admission.debt_share() > 0.2
}

/// Whether puts are about to wait for jobs, or do: reorganisation is owed, or they are short of room and deltas wait
/// for absorbing (`absorbs`). If they are short of room otherwise, it is a checkpoint that they wait for.
pub(crate) fn waits_for_jobs(core: &Core, absorbs: bool) -> bool {
    core.admission.debt_share() > 0.1 || (absorbs && is_behind(core))
}

/// How many pieces of a table may be on their way to the disk, where it is not written past the cache: by whether
/// reorganisation keeps up, or puts wait for it.
pub(crate) fn writes_ahead(core: &Core) -> usize {
    WriteBehind::depth(is_behind(core))
}
