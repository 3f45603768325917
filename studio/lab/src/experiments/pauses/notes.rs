//! [`Notes`]: the pauses that a thread sees, and how much of each it waited for a processor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::LONG;
use super::report::Pauses;
use crate::driver::Worker;
use crate::experiments::processor_stalls::ProcessorStalls;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;

/// A step longer than this is remembered, and compared with the machine's stalls.
const REMEMBERED: Duration = Duration::from_millis(5);
/// After this number of steps a thread reads its waiting time anew, so that little of it is older.
const REFRESH_STEPS: u64 = 512;

/// What a thread notes.
pub(super) struct Notes {
    pub(super) recorder: Recorder,
    steps: u64,
    waited_nanos: u64,
    /// Long steps by kind, less the time in which the thread was ready and waited for a processor.
    own: [Histogram<u64>; OperationKind::ALL.len()],
    /// Very long steps: their time, length and kind.
    remembered: Vec<(Instant, Duration, OperationKind)>,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self {
            recorder: Recorder::new(Arc::default()),
            steps: 0,
            waited_nanos: 0,
            own: std::array::from_fn(|_| histogram()),
            remembered: Vec::new(),
        }
    }

    pub(super) fn step(
        &mut self,
        store: &dyn Store,
        worker: &mut dyn Worker,
    ) -> Result<(), RunError> {
        if self.steps.is_multiple_of(REFRESH_STEPS) {
            self.waited_nanos = ready_nanos();
        }
        self.steps += 1;
        let before = OperationKind::ALL.map(|kind| self.count(kind));
        let started = Instant::now();
        worker.step(store, &mut self.recorder)?;
        let took = started.elapsed();
        if took < LONG {
            return Ok(());
        }
        let waited = ready_nanos();
        let own = (took.as_nanos() as u64).saturating_sub(waited - self.waited_nanos);
        self.waited_nanos = waited;
        for (kind, before) in OperationKind::ALL.into_iter().zip(before) {
            if self.count(kind) > before {
                self.own[kind as usize].saturating_record(own.max(1));
                if took >= REMEMBERED {
                    self.remembered.push((started, took, kind));
                }
            }
        }
        Ok(())
    }

    fn count(&self, kind: OperationKind) -> u64 {
        self.recorder.histogram(kind).map_or(0, Histogram::len)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.recorder.merge(&other.recorder);
        for (own, theirs) in self.own.iter_mut().zip(&other.own) {
            own.add(theirs).expect("the same bounds");
        }
        self.remembered.extend_from_slice(&other.remembered);
    }

    /// The longest pause of a kind, less the time in which the machine stood still.
    fn longest_rest(&self, kind: OperationKind, stops: &ProcessorStalls) -> u64 {
        let of_kind = self.remembered.iter().filter(|step| step.2 == kind);
        let rest = of_kind.map(|&(start, took, _)| took - stops.within(start, start + took));
        // A pause that is not remembered is shorter.
        let all = self.recorder.histogram(kind).map_or(0, Histogram::max);
        let least = all.min(REMEMBERED.as_nanos() as u64);
        rest.map(|rest| rest.as_nanos() as u64)
            .max()
            .unwrap_or(0)
            .max(least)
    }

    pub(super) fn pauses(&self, stops: Option<&ProcessorStalls>) -> Vec<Pauses> {
        let above = |histogram: &Histogram<u64>| {
            [5_000_000, 20_000_000].map(|nanos| histogram.count_between(nanos, u64::MAX))
        };
        let kinds = OperationKind::ALL.into_iter();
        kinds
            .filter_map(|kind| {
                let all = self.recorder.histogram(kind)?;
                let own = &self.own[kind as usize];
                let at = |quantile| all.value_at_quantile(quantile);
                Some(Pauses {
                    kind: kind.name(),
                    count: all.len(),
                    percentiles: [at(0.5), at(0.99), at(0.999), at(0.9999), all.max()],
                    longest_own_nanos: own.max(),
                    longest_rest_nanos: stops.map(|stops| self.longest_rest(kind, stops)),
                    above: above(all),
                    above_own: above(own),
                })
            })
            .collect()
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are valid constants")
}

/// The nanoseconds that this thread has been ready and waiting for a processor. 0 if the system
/// does not say.
fn ready_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let second = text.split_whitespace().nth(1);
    second.and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}
