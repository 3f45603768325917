//! [`Running`]: a phase while its workers run, each on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::sampler::{SAMPLE_INTERVAL, Sampler};
use super::{Limit, Phase, Progress, Worker};
use crate::arrivals::{Clock, GRACE, Gate};
use crate::recorder::{FinishedCounter, Recorder, RunError};
use crate::store::Store;

/// The result of one worker's thread: its notes and when it ended, or its panic.
pub(super) type Outcome = thread::Result<Result<(Recorder, Instant), RunError>>;

/// A phase while its workers run.
pub(super) struct Running<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) phase: &'a Phase,
    pub(super) gate: Option<&'a Gate>,
    pub(super) clock: &'a Clock,
    pub(super) counters: &'a [Arc<FinishedCounter>],
    pub(super) interrupted: &'a AtomicBool,
    pub(super) stop: AtomicBool,
}

impl<'a> Running<'a> {
    /// Runs each worker on a thread of its own, and samples them until the last has ended.
    pub(super) fn to_the_end(
        &self,
        workers: Vec<Box<dyn Worker>>,
        start: Instant,
        progress: &dyn Progress,
    ) -> (Sampler<'a>, Vec<Outcome>) {
        let Limit {
            operations,
            duration,
        } = self.phase.limit;
        // The gate counts for all threads, so that an operation never waits for one certain thread.
        let operations = operations.filter(|_| self.gate.is_none());
        let threads = workers.len();
        thread::scope(|scope| {
            let handles: Vec<_> = workers
                .into_iter()
                .enumerate()
                .map(|(index, worker)| {
                    let share = Share {
                        quota: quota(operations, threads, index),
                        gate: self.gate,
                        clock: self.clock,
                        stop: &self.stop,
                    };
                    let counter = Arc::clone(&self.counters[index]);
                    scope.spawn(move || work(self.store, worker, &share, counter))
                })
                .collect();
            let mut sampler = Sampler::new(self.phase, self.counters, start);
            sampler.duration_max = duration.map(|duration| match self.gate {
                Some(_) => duration * GRACE,
                None => duration,
            });
            while handles.iter().any(|handle| !handle.is_finished()) {
                thread::sleep(SAMPLE_INTERVAL);
                if sampler.sample(progress) || self.interrupted.load(Ordering::Relaxed) {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            let outcomes = handles.into_iter().map(thread::ScopedJoinHandle::join);
            (sampler, outcomes.collect())
        })
    }
}

pub(super) fn quota(operations: Option<u64>, threads: usize, index: usize) -> u64 {
    operations.map_or(u64::MAX, |all| {
        all / threads as u64 + u64::from((index as u64) < all % threads as u64)
    })
}

/// What one thread is to do.
struct Share<'a> {
    quota: u64,
    gate: Option<&'a Gate>,
    clock: &'a Clock,
    stop: &'a AtomicBool,
}

fn work(
    store: &dyn Store,
    mut worker: Box<dyn Worker>,
    share: &Share<'_>,
    counter: Arc<FinishedCounter>,
) -> Result<(Recorder, Instant), RunError> {
    let stop = share.stop;
    let mut recorder = Recorder::with_clock(counter, share.clock.clone());
    let mut left = share.quota;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        if let Some(gate) = share.gate {
            let Some(intended) = gate.next(stop) else {
                break;
            };
            recorder.intend(Some(intended));
        }
        match worker.step(store, &mut recorder) {
            Ok(true) => recorder.finish_step(),
            Ok(false) => break,
            Err(error) => {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        left -= 1;
    }
    Ok((recorder, share.clock.now()))
}
