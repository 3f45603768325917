//! Background work makes way for the foreground. After some work it rests ([`Rest`]), if there are
//! operations that could use the processor and the work is not urgent. Between two rests it yields
//! to threads that wait at that moment ([`Yielder`]), while reorganisation keeps up with puts.
//!
//! A thread of lower priority would be simpler. But it keeps its low priority while it holds a
//! latch, or a lock of the kernel's memory management, and a put may wait for these.

use crate::admission::Admission;
use crate::engine::core::Core;
use crate::sync::yielding::Yielder;
use evendb_storage::vfs::WriteBehind;
use std::time::{Duration, Instant};

/// The time of work between two looks.
const WORK: Duration = Duration::from_micros(500);
/// The longest rest: the time while a system was asleep must not count as work.
const REST_MAX: Duration = Duration::from_millis(2);

/// When one job rests, and for how long.
pub(crate) struct Rest<'e> {
    core: &'e Core,
    /// How long it rests, in times of its work.
    share: fn(&Admission) -> f64,
    since: Instant,
    operations: u64,
    calls: u32,
}

impl<'e> Rest<'e> {
    /// The rests of a checkpoint: as long as its work while puts have plenty of room, and none when
    /// they do not.
    pub(crate) fn of_checkpoint(core: &'e Core) -> Rest<'e> {
        Rest::new(core, checkpoint_rest)
    }

    /// The rests of reorganisation: half of its work while it keeps up, and none where puts are
    /// about to be slowed down, because they would wait for it.
    pub(crate) fn of_reorganisation(core: &'e Core) -> Rest<'e> {
        Rest::new(core, reorganisation_rest)
    }

    fn new(core: &'e Core, share: fn(&Admission) -> f64) -> Rest<'e> {
        Rest {
            core,
            share,
            since: Instant::now(),
            operations: core.metrics.operations(),
            calls: 0,
        }
    }

    /// Rests if it is time. The caller holds no latch and no pin. It is cheap enough to be called
    /// for every few dozen records.
    pub(crate) fn take_if_due(&mut self) {
        let core = self.core;
        if core.manual() || cfg!(any(evendb_loom, evendb_shuttle)) {
            return;
        }
        let worked = self.since.elapsed();
        if worked < WORK {
            return;
        }
        let operations = core.metrics.operations();
        let share = (self.share)(&core.admission);
        // Operations came during the work: the foreground is not idle.
        if operations > self.operations && share > 0.0 {
            std::thread::sleep(worked.mul_f64(share).min(REST_MAX));
        }
        self.operations = core.metrics.operations();
        self.since = Instant::now();
    }

    /// Like [`Rest::take_if_due`], but it looks at the clock only at every 32nd call.
    pub(crate) fn take_sometimes(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(32) {
            self.take_if_due();
        }
    }
}

/// A yielder for a new piece of background work: it yields to other threads if puts have room and
/// no reorganisation is owed.
pub(crate) fn yielder(admission: &Admission) -> Yielder {
    Yielder::new(admission.fullness() < 0.6 && admission.debt_share() == 0.0)
}

fn checkpoint_rest(admission: &Admission) -> f64 {
    let full = admission.fullness();
    ((0.68 - full) * 6.0).clamp(0.0, 1.0)
}

fn reorganisation_rest(admission: &Admission) -> f64 {
    let behind = admission.debt_share();
    let short_of_room = ((admission.fullness() - 0.65) * 10.0).clamp(0.0, 1.0);
    (0.5 - 2.0 * behind).max(0.0) * (1.0 - short_of_room)
}

/// Whether puts wait for jobs, or are about to: reorganisation is owed, or they are short of room
/// and deltas wait for absorbing (`absorbs`). If they are short of room otherwise, they wait for a
/// checkpoint.
pub(crate) fn waits_for_jobs(admission: &Admission, absorbs: bool) -> bool {
    admission.debt_share() > 0.1 || (absorbs && admission.is_behind())
}

/// The number of pieces of a table that may be on their way to the disk, if it is not written past
/// the cache. It depends on whether reorganisation keeps up, or puts wait for it.
pub(crate) fn writes_ahead(admission: &Admission) -> usize {
    WriteBehind::depth(admission.is_behind())
}
