//! The process of one store: fills it, and runs the phases of one claim in order, each on the store
//! as the phase before left it.
//!
//! Every phase builds on the phases before it, so a claim that was interrupted is measured again
//! from its beginning: if a cell has two lines, the later one counts. The store stays open
//! throughout. Reads are warmed by a quarter of their number, where the claim says so. Memory is
//! limited from outside, by the parent.

use super::claims::{Claim, Phase, Work};
use super::pairs::{PairWorker, Pairs, Task};
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Worker};
use crate::experiments::disk_space::disk_bytes;
use crate::experiments::results_file::ResultsFile;
use crate::experiments::{Failure, machine};
use crate::mix::{Mix, MixWorker, Population};
use crate::opener::{Opener, Settings, Variant};
use crate::phase_result::PhaseResult;
use crate::store::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Operations that warm a phase, divided by its own.
const WARM_PART: f64 = 0.25;

/// What all phases have in common.
pub struct Method {
    pub settings: Settings,
    /// The settings of a store that differ from its usual ones.
    pub variant: Option<Variant>,
    pub scale: f64,
    pub seed: u64,
    /// The longest time of a phase that need not finish, in seconds.
    pub seconds: f64,
    /// The longest time of a phase that must finish, in seconds.
    pub seconds_max: f64,
}

/// One claim of one store in one round.
pub struct Measurement<'a> {
    pub method: &'a Method,
    pub claim: &'a Claim,
    pub opener: &'a dyn Opener,
    pub round: usize,
    pub results: &'a ResultsFile,
    /// The directory of the store, which is empty.
    pub directory: &'a Path,
}

/// What phases leave to later ones.
struct State {
    pairs: Pairs,
    /// The records of YCSB's mixes. One mix makes the data larger.
    population: Arc<Population>,
}

impl Measurement<'_> {
    /// Measures all phases, and appends each as it ends. A failure is noted, and so are the phases
    /// that were not measured after it.
    ///
    /// # Errors
    /// The store's, a wrong answer, or a phase that took too long.
    pub fn run(&self) -> Result<(), Failure> {
        let mut done = 0;
        let outcome = self.measure(&mut done);
        if let Err(error) = &outcome {
            for (index, phase) in self.claim.phases[done..].iter().enumerate() {
                let why = match index {
                    0 => error.to_string(),
                    _ => format!("not reached: {error}"),
                };
                let line = identity(self.claim, phase, self.opener.name(), self.round);
                self.results.skip(&line, &why)?;
            }
        }
        outcome
    }

    fn measure(&self, done: &mut usize) -> Result<(), Failure> {
        let (claim, method) = (self.claim, self.method);
        let store = match method.variant {
            None => self.opener.open(self.directory, &method.settings)?,
            Some(variant) => self
                .opener
                .open_variant(self.directory, &method.settings, variant)?,
        };
        let pairs = claim.pairs(method.scale);
        let mut state = State {
            pairs: Pairs::new(pairs, claim.value_bytes(), method.seed),
            population: Arc::new(Population::new(pairs)),
        };
        for phase in claim.phases {
            if phase.warmed {
                self.phase(&*store, phase, &state, true)?;
            }
            let result = self.phase(&*store, phase, &state, false)?;
            self.pass(phase.work, &mut state, &result)?;
            self.note(phase, &state, &result)?;
            *done += 1;
        }
        store.close()?;
        Ok(())
    }

    fn phase(
        &self,
        store: &dyn Store,
        phase: &Phase,
        state: &State,
        warms: bool,
    ) -> Result<PhaseResult, Failure> {
        let (work, method) = (phase.work, self.method);
        let part = if warms { WARM_PART } else { 1.0 };
        let operations = work.operations(self.claim.pairs(method.scale));
        let seconds = match work.must_finish() {
            true => method.seconds_max,
            false => method.seconds * part,
        };
        let driven = driver::Phase {
            distribution: distribution_of(work).map_or_else(String::new, |kind| kind.to_string()),
            limit: Limit {
                operations: Some(((operations as f64 * part) as u64).max(1)),
                duration: Some(Duration::from_secs_f64(seconds)),
            },
            settle: phase.pays && !warms,
            ..driver::Phase::new(phase.name, phase.threads)
        };
        let stream = stream_of(self.claim, phase, self.round, warms);
        let never = AtomicBool::new(false);
        let worker_of = self.workers(work, state, stream, warms);
        driver::run(store, &driven, &never, &NoProgress, &*worker_of)
            .map_err(|error| format!("{}: {error}", phase.name).into())
    }

    /// The function that makes the worker of each thread.
    fn workers<'a>(
        &self,
        work: Work,
        state: &'a State,
        stream: u64,
        warms: bool,
    ) -> Box<dyn Fn(usize) -> Box<dyn Worker> + 'a> {
        let pairs = &state.pairs;
        let of_task = |task: Task, from: u64| -> Box<dyn Fn(usize) -> Box<dyn Worker> + 'a> {
            let cursor = Arc::new(AtomicU64::new(from));
            Box::new(move |thread| {
                Box::new(PairWorker::new(task, pairs, &cursor, (stream, thread)))
            })
        };
        match work {
            Work::Fill { generation } => of_task(Task::Fill(generation), 0),
            Work::Delete(_) => of_task(Task::Delete, pairs.gone()),
            Work::Overwrite(_) => of_task(Task::Overwrite, 0),
            Work::Get(_) => of_task(Task::Get, 0),
            Work::Scan(_, length) => of_task(Task::Scan(length), 0),
            Work::PutAndGet(_) if warms => of_task(Task::Get, 0),
            Work::PutAndGet(_) => {
                let (put, get) = (of_task(Task::Overwrite, 0), of_task(Task::Get, 0));
                Box::new(move |thread| match thread % 2 {
                    0 => put(thread),
                    _ => get(thread),
                })
            }
            Work::Ycsb(mix, _) => {
                let mix = if warms { mix.warmed_by() } else { mix };
                let (dataset, population) = (pairs.dataset(), &state.population);
                let distribution = mix.distribution(DistributionKind::ZipfSimple);
                let seed = self.method.seed;
                let distribution =
                    Distribution::new(distribution, dataset.records, THETA_DEFAULT, seed);
                Box::new(move |thread| {
                    let worker =
                        MixWorker::new(mix, &distribution, dataset, population, stream, thread);
                    Box::new(worker)
                })
            }
        }
    }

    /// Notes the pairs that are there after a phase.
    fn pass(&self, work: Work, state: &mut State, result: &PhaseResult) -> Result<(), Failure> {
        let operations = work.operations(self.claim.pairs(self.method.scale));
        if work.must_finish() && result.operations < operations {
            let seconds = self.method.seconds_max;
            return Err(format!("{} took more than {seconds} seconds", result.name).into());
        }
        match work {
            Work::Fill { generation } => state.pairs.put_all(generation),
            Work::Delete(_) => state.pairs.delete(operations),
            _ => {}
        }
        Ok(())
    }

    fn note(&self, phase: &Phase, state: &State, result: &PhaseResult) -> Result<(), Failure> {
        let mut line = identity(self.claim, phase, self.opener.name(), self.round);
        let inserted = match phase.work {
            Work::Ycsb(Mix::D, _) => state.population.present() - state.pairs.dataset().records,
            _ => 0,
        };
        let inserted = inserted * state.pairs.dataset().record_bytes();
        line["ended"] = machine::now().into();
        line["live_bytes"] = (state.pairs.live_bytes() + inserted).into();
        line["disk_bytes"] = disk_bytes(self.directory).into();
        line["phase"] = result.to_json();
        self.results.append(&line)
    }
}

fn distribution_of(work: Work) -> Option<DistributionKind> {
    match work {
        Work::Ycsb(mix, _) => Some(mix.distribution(DistributionKind::ZipfSimple)),
        Work::Overwrite(_) | Work::Get(_) | Work::Scan(..) | Work::PutAndGet(_) => {
            Some(DistributionKind::Uniform)
        }
        Work::Fill { .. } | Work::Delete(_) => None,
    }
}

/// The fields that say to which cell a line belongs.
pub fn identity(claim: &Claim, phase: &Phase, store: &str, round: usize) -> Value {
    json!({
        "kind": "cell",
        "experiment": claim.name,
        "cell": phase.name,
        "store": store,
        "round": round,
    })
}

/// A number for the random operations of a phase, the same for every store.
fn stream_of(claim: &Claim, phase: &Phase, round: usize, warms: bool) -> u64 {
    let name = format!("{}/{}/{round}/{warms}", claim.name, phase.name);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) >> 32
}
