//! [`Role`]: what a thread does, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::PauseSettings;
use super::notes::Notes;
use crate::dataset::Dataset;
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::Worker;
use crate::mix::{Mix, MixWorker, Population};
use crate::recorder::RunError;
use crate::store::Store;

/// The work of the writers, which all threads see.
pub(super) struct Overwrites {
    total: u64,
    left: AtomicU64,
    /// The run ends.
    pub(super) stop: AtomicBool,
}

impl Overwrites {
    pub(super) fn new(total: u64) -> Overwrites {
        Overwrites {
            total,
            left: AtomicU64::new(total),
            stop: AtomicBool::new(false),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    Scanner,
}

impl Role {
    pub(super) fn of(number: usize, settings: &PauseSettings) -> Role {
        match number {
            _ if number < settings.writers => Role::Writer,
            _ if number < settings.writers + settings.readers => Role::Reader,
            _ => Role::Scanner,
        }
    }

    fn mix(self) -> Mix {
        match self {
            Role::Writer => Mix::P,
            Role::Reader => Mix::C,
            Role::Scanner => Mix::E(100),
        }
    }

    pub(super) fn run(
        self,
        store: &dyn Store,
        number: usize,
        dataset: &Dataset,
        settings: &PauseSettings,
        overwrites: &Overwrites,
    ) -> Result<Notes, RunError> {
        let population = Arc::new(Population::new(dataset.records));
        let worker = |kind, phase| {
            let distribution =
                Distribution::new(kind, dataset.records, THETA_DEFAULT, settings.seed);
            MixWorker::new(
                self.mix(),
                &distribution,
                dataset,
                &population,
                phase,
                number,
            )
        };
        let mut uniform = worker(DistributionKind::Uniform, 1);
        let mut zipf = worker(DistributionKind::ZipfSimple, 2);
        let mut notes = Notes::new();
        let Overwrites { total, left, stop } = overwrites;
        while !stop.load(Ordering::Relaxed) {
            // Only writers use the work up; the others see in which half it is.
            let now = match self {
                Role::Writer => {
                    let take = |left: u64| left.checked_sub(1);
                    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                        Ok(before) => before,
                        Err(_) => break,
                    }
                }
                _ => left.load(Ordering::Relaxed),
            };
            let worker: &mut dyn Worker = match now > *total / 2 {
                true => &mut uniform,
                false => &mut zipf,
            };
            if let Err(error) = notes.step(store, worker) {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        // The other threads only ran beside the writers.
        if self == Role::Writer {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(notes)
    }
}
