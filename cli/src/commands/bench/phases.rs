//! [`Bench`]: runs the phases of a benchmark on its store, in their order, and prints each result.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use evendb_lab::arrivals::{Arrivals, Spacing};
use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{Distribution, DistributionKind};
use evendb_lab::driver::{self, Limit, Phase};
use evendb_lab::ideal_cache::{DiskReads, IdealCache};
use evendb_lab::log_replay::ReplayedLog;
use evendb_lab::mix::{LoadWorker, Mix, MixWorker, Population};
use evendb_lab::phase_result::PhaseResult;
use evendb_lab::readable::{bytes, counted};
use evendb_lab::store::{Store, StoreResult};
use evendb_lab::stores::memory::MemoryStore;
use serde_json::Value;

use super::arguments::ArrivalsArgument;
use super::limits::{lengths, limit, warm_limit};
use super::progress::Bar;
use super::report::Done;
use super::{Arguments, text};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// A run: its arguments, its store, and the measurements up to now.
pub struct Bench<'a> {
    pub arguments: &'a Arguments,
    pub store: Box<dyn Store>,
    /// Opens the store.
    pub(super) open: Box<dyn Fn() -> StoreResult<Box<dyn Store>> + 'a>,
    pub dataset: Dataset,
    pub interrupt: &'a Interrupt,
    pub(super) disk: DiskReads<'a>,
    pub(super) results: Vec<PhaseResult>,
    /// The number of phases, for the display of progress only.
    pub planned: usize,
    /// What a replay found in its file.
    pub replayed: Option<ReplayedLog>,
    /// For each phase of transactions, the number of attempts that were refused.
    pub refused: Vec<Value>,
}

impl Bench<'_> {
    pub(super) fn close(self) -> Done {
        Done {
            closed: self.store.close(),
            dataset: self.dataset,
            results: self.results,
            replayed: self.replayed,
            refused: self.refused,
        }
    }

    pub(super) fn all_phases(&mut self) -> Result<(), Failure> {
        let phases = self.mixes();
        self.planned = 1 + phases.len();
        let text = format!(
            "{}, {} of {}, {} in all, {}",
            self.store.name(),
            counted(self.dataset.records, "record"),
            bytes(self.dataset.record_bytes()),
            bytes(self.dataset.data_bytes()),
            counted(self.arguments.threads.into(), "thread")
        );
        self.begin(&text, Some(self.dataset.data_bytes()))?;
        self.load()?;
        let population = Arc::new(Population::new(self.dataset.records));
        for (mix, kind) in phases {
            if self.interrupt.raised() {
                break;
            }
            self.mix(mix, kind, &population)?;
        }
        Ok(())
    }

    /// Every mix with every distribution; D, which always uses `latest`, once.
    fn mixes(&self) -> Vec<(Mix, DistributionKind)> {
        let mut phases = Vec::new();
        for &wanted in &self.arguments.distributions {
            for &mix in &self.arguments.mixes {
                if mix != Mix::D || phases.iter().all(|(done, _)| *done != Mix::D) {
                    phases.push((mix, mix.distribution(wanted)));
                }
            }
        }
        phases
    }

    /// Says what will be measured, and what the figures mean.
    pub fn begin(&self, what: &str, data_bytes: Option<u64>) -> Result<(), Failure> {
        let given = self.arguments.memory.is_some();
        let memory = text::memory(self.memory_bytes(), given, data_bytes);
        self.print(&format!("{what}\n{memory}\n\n{}", text::LEGEND))
    }

    /// The budget that the store has.
    pub(super) fn memory_bytes(&self) -> u64 {
        let figures = self.store.stats();
        let budget = figures.iter().find(|figure| figure.name == "memory.budget");
        budget.map_or(0, |figure| figure.value)
    }

    pub fn load(&mut self) -> Result<(), Failure> {
        let (order, seed) = (self.arguments.load_order, self.arguments.seed);
        let mut phase = self.phase("load", order.name(), Limit::default(), true);
        phase.expected_operations = Some(self.dataset.records);
        let population = Arc::new(Population::new(0));
        let result = self.run(&phase, &|_| {
            let (set, all) = (self.dataset.clone(), Arc::clone(&population));
            Box::new(LoadWorker::in_order(set, all, order, seed))
        })?;
        self.report(result)
    }

    fn mix(
        &mut self,
        mix: Mix,
        kind: DistributionKind,
        population: &Arc<Population>,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        let distribution =
            Distribution::new(kind, self.dataset.records, arguments.theta, arguments.seed);
        let limit = limit(arguments, lengths(arguments).of(mix));
        let number = self.results.len() as u64;
        if mix == Mix::P && !arguments.keep_open {
            self.open_anew()?;
        }
        let worker_of = |mix: Mix, stream: u64, thread: usize| -> Box<dyn driver::Worker> {
            let (set, all) = (&self.dataset, population);
            Box::new(MixWorker::new(mix, &distribution, set, all, stream, thread))
        };
        let name = format!("warm-up for {mix}");
        let warm = self.phase(&name, kind.name(), warm_limit(limit), false);
        self.run(&warm, &|thread| {
            worker_of(mix.warmed_by(), number | 1 << 32, thread)
        })?;
        if self.interrupt.raised() {
            return Ok(());
        }
        let phase = self.phase(&mix.to_string(), kind.name(), limit, mix.writes());
        let mut result = self.run_measured(&phase, &|thread| worker_of(mix, number, thread))?;
        let ideal = IdealCache::of(mix, &distribution, &self.dataset, self.memory_bytes());
        result.ideal = ideal.map(|ideal| ideal.with_disk(&mut self.disk));
        self.report(result)
    }

    /// Closes the store and opens it again. Meanwhile, and if that fails, an empty one stands in
    /// its place.
    fn open_anew(&mut self) -> Result<(), Failure> {
        std::mem::replace(&mut self.store, Box::new(MemoryStore::new())).close()?;
        self.store = (self.open)()?;
        Ok(())
    }

    pub fn phase(&self, name: &str, distribution: &str, limit: Limit, settle: bool) -> Phase {
        Phase {
            distribution: distribution.to_owned(),
            limit,
            settle,
            course_interval: Duration::from_millis(500),
            ..Phase::new(name, usize::from(self.arguments.threads))
        }
    }

    /// Runs a phase as an open loop if there is a rate.
    pub fn run_measured(
        &self,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        let arguments = self.arguments;
        let spacing = match arguments.arrivals {
            ArrivalsArgument::Even => Spacing::Even,
            ArrivalsArgument::Poisson => Spacing::Poisson,
        };
        let arrivals = arguments.rate.map(|per_second| Arrivals {
            per_second,
            swing: None,
            spacing,
            seed: arguments.seed,
        });
        self.run_paced(phase, arrivals, worker_of)
    }

    pub fn run(
        &self,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        self.run_paced(phase, None, worker_of)
    }

    fn run_paced(
        &self,
        phase: &Phase,
        arrivals: Option<Arrivals>,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        let bar = Bar::new(&self.title(phase));
        let (store, flag) = (&*self.store, self.interrupt.flag());
        let result = match arrivals {
            None => driver::run(store, phase, flag, &bar, worker_of),
            Some(arrivals) => driver::run_open(store, phase, arrivals, flag, &bar, worker_of),
        };
        bar.0.finish_and_clear();
        result
            .map_err(|error| Failure::new(format!("{} {}", phase.name, phase.distribution), error))
    }

    /// The phase's name and number. A warm-up belongs to the phase after it.
    fn title(&self, phase: &Phase) -> String {
        let (number, planned) = (self.results.len() + 1, self.planned);
        let name = format!("{} {}", phase.name, phase.distribution);
        format!("[{number}/{planned}] {}", name.trim_end())
    }

    pub fn report(&mut self, result: PhaseResult) -> Result<(), Failure> {
        self.print(&result.to_table())?;
        self.results.push(result);
        Ok(())
    }

    pub fn print(&self, text: &str) -> Result<(), Failure> {
        let mut target = output::out();
        writeln!(target, "{text}")?;
        Ok(target.flush()?)
    }
}
