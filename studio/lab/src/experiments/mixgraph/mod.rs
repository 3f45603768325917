//! `evendb mixgraph` and the experiments `mixgraph`, `mixgraph-allocations`, `mixgraph-statistics`:
//! a model of a load on a store. An allocation says where hot pairs lie.
//!
//! ```text
//!   each allocation in a fresh store:
//!     all pairs put at random -> debt paid -> warm (a quarter) -> measure -> debt paid
//! ```
//! A model is scaled by `--scale`: pairs, operations and memory together, so that their ratios stay
//! the model's. A measurement is a phase like any other ([`crate::phase_result`]). If the model has
//! merges, the store is opened for counters, and the counters must add up at the end.
//!
//! `mixgraph-allocations` (the study's figure 14) compares the eight benchmarks, by the study's
//! figures of storage (`figures.rs`). Each figure is divided by that of a chosen benchmark
//! (`report.rs`). YCSB's can have sizes as the study set them (`ycsb.rs`).
//! `mixgraph-statistics` (its figure 15) compares what is drawn with the model, without a store
//! (`statistics.rs`). With `--replay` a trace is measured as well (`replayed.rs`), for example the
//! trace that the model was made from: from the same start (`start.rs`), with a warming of the same
//! length and the same number of operations.

mod beside;
mod densities;
mod figures;
mod replayed;
mod report;
mod sizes;
mod start;
mod statistics;
mod storing;
mod tracing;
mod ycsb;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use clap::ValueEnum;
use evendb_model::{Workload, presets};
use evendb_trace::RecorderHandle;
use serde_json::{Value, json};

use super::{Common, Failure, Measure, Measured, Turn};
use crate::arrivals::{Arrivals, RATE_MAX, Spacing};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mixgraph::allocation::Allocation;
use crate::mixgraph::{FillWorker, Load, ModelWorker};
use crate::opener::{Durability, Opener, Purpose, Settings};
use crate::phase_length::WARMING_PART;
use crate::replay::paired;
use crate::store::Store;

use figures::figures;
use replayed::Replayed;
pub use statistics::Arguments as StatisticsArguments;
use storing::Storing;
use tracing::{TracedOpener, Tracing};
pub use ycsb::YcsbSizes;

/// How fast operations come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// As fast as possible: a thread starts its next operation when the last one is done
    Max,
    /// As the model's rate says, whatever the store does: latencies count from the time at which an
    /// operation was due
    Model,
}

/// The arguments of `mixgraph`.
#[derive(clap::Args, Clone, Debug)]
pub struct MixgraphArguments {
    /// The model: the name of a preset (zippydb, zippydb-kinds, udb, udb-assoc, up2x), or a file
    #[arg(default_value = "zippydb")]
    model: String,
    #[command(flatten)]
    common: Common,
    /// Where hot pairs lie, each in a store of its own [default: prefix-dist]
    #[arg(long, visible_alias = "allocations", value_enum, value_delimiter = ',')]
    allocation: Vec<Allocation>,
    /// The share of the model's pairs, operations and memory, above 0 and at most 1 [default: 0.02,
    /// quick: 0.0005]
    #[arg(long, value_parser = parse_share, conflicts_with = "quick")]
    scale: Option<f64>,
    /// Operations of a measurement, instead of the model's, scaled
    #[arg(long)]
    operations: Option<u64>,
    /// Seconds after which a measurement ends at the latest
    #[arg(long)]
    seconds: Option<f64>,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// MiB of memory that the store is told to use, also a part of one [default: the model's,
    /// scaled, at least 4]
    #[arg(long, value_parser = parse_mib)]
    memory_mib: Option<f64>,
    /// The sizes of values and lengths of scans in YCSB's distributions
    #[arg(long, value_enum, default_value = "model")]
    ycsb_sizes: YcsbSizes,
    /// How fast operations come
    #[arg(long, value_enum, default_value = "max")]
    pace: Pace,
    /// Multiply the model's rate and its swings by this number: for --pace model, or --only-trace
    #[arg(long, value_name = "TIMES", value_parser = parse_times)]
    faster: Option<f64>,
    /// Measure first, in a store of its own, what this trace asks: the row `replay`
    #[arg(long, value_name = "TRACE")]
    replay: Option<PathBuf>,
    /// Keys that the store of --replay has before, in hexadecimal digits, a line each, with the
    /// keyspace and a tab before if the trace has several; may be given several times. Without it,
    /// only what the trace finds
    #[arg(long, value_name = "FILE", requires = "replay")]
    replay_keys: Vec<PathBuf>,
    /// The keyspace whose keys --replay-keys lists; one for each list
    #[arg(long, value_name = "KEYSPACE", requires = "replay_keys")]
    replay_keys_of: Vec<String>,
    #[command(flatten)]
    storing: Storing,
    #[command(flatten)]
    tracing: Tracing,
    /// Print the model's file and end
    #[arg(long, conflicts_with_all = MEASURING, conflicts_with_all = ["allocation", "scale", "quick", "operations", "seed", "faster", "trace"])]
    print_model: bool,
}

/// Arguments that have no effect if no store is measured.
const MEASURING: [&str; 12] = [
    "stores",
    "rounds",
    "dir",
    "json",
    "seconds",
    "threads",
    "memory_mib",
    "ycsb_sizes",
    "pace",
    "replay",
    "compressible",
    "set",
];

/// The arguments of `mixgraph-allocations`.
#[derive(clap::Args, Clone, Debug)]
pub struct AllocationsArguments {
    #[command(flatten)]
    inner: MixgraphArguments,
    /// The benchmark by which the figures of the others are divided [default: the trace of
    /// --replay, else prefix-dist]
    #[arg(long, value_enum, conflicts_with_all = ["print_model", "only_trace"])]
    by: Option<Allocation>,
}

/// A store is told to use at least this number of MiB.
const MEMORY_MIB_MIN: u64 = 4;

fn parse_share(text: &str) -> Result<f64, String> {
    parse_up_to(text, 1.0, "1")
}

fn parse_times(text: &str) -> Result<f64, String> {
    parse_up_to(text, 1e6, "a million")
}

fn parse_mib(text: &str) -> Result<f64, String> {
    parse_up_to(text, 1e9, "a billion")
}

fn parse_rate(text: &str) -> Result<f64, String> {
    parse_up_to(text, RATE_MAX, &RATE_MAX.to_string())
}

/// A number above 0 and at most `most`. Errors call it `name`.
fn parse_up_to(text: &str, most: f64, name: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= most => Ok(number),
        _ => Err(format!("`{text}` is no number above 0 and at most {name}")),
    }
}

/// A preset, or a model file.
///
/// # Errors
/// There is no such preset or file, or the file is wrong; the text says how.
pub fn model_named(name: &str) -> Result<Workload, Failure> {
    if let Some(model) = presets::workload(name) {
        return Ok(model);
    }
    let text = crate::whole_file::read_model(Path::new(name)).map_err(|error| {
        let known: Vec<_> = presets::names().collect();
        let known = known.join(", ");
        format!("`{name}` is none of the presets ({known}), and as a file cannot be read: {error}")
    })?;
    Workload::from_toml(&text).map_err(|error| format!("{name}: {error}").into())
}

impl MixgraphArguments {
    /// Whether there is something to measure. If only the model's file was asked for, it is
    /// printed. If only a trace without a store was asked for, it is written.
    ///
    /// # Errors
    /// There is no such model, it is wrong, or it has no rate where one is needed. The trace cannot
    /// be written.
    pub fn begin(&self) -> Result<bool, Failure> {
        let model = self.scaled()?;
        self.arrivals(&model)?;
        self.storing.tuned()?;
        if let Some(trace) = &self.replay {
            replayed::check(trace)?;
            paired(&self.replay_keys, &self.replay_keys_of)?;
        }
        if self.print_model {
            match presets::text(&self.model) {
                Some(text) => say!("{text}")?,
                None => say!("{}", model_named(&self.model)?.to_toml()?)?,
            }
        }
        if self.faster.is_some() && self.pace == Pace::Max && !self.tracing.only_trace {
            return Err("--faster has no effect here: operations come as fast as possible without --pace model".into());
        }
        if self.tracing.trace.is_some() && self.allocations().len() > 1 {
            return Err("--trace records one allocation".into());
        }
        if self.tracing.only_trace && !self.print_model {
            let load = Load::new(&model, self.allocations()[0], self.common.seed);
            let whole = model_named(&self.model)?.operations;
            self.tracing.draw(&Arc::new(load), whole)?;
        }
        Ok(!self.print_model && !self.tracing.only_trace)
    }

    fn scaled(&self) -> Result<Workload, Failure> {
        let scale = match self.common.quick {
            true => 0.0005,
            false => 0.02,
        };
        let mut model = model_named(&self.model)?.scaled(self.scale.unwrap_or(scale));
        model = self.storing.of(model);
        model.rate = model
            .rate
            .map(|rate| rate.faster(self.faster.unwrap_or(1.0)));
        if let Some(operations) = self.operations {
            model.operations = operations;
        }
        Ok(model)
    }

    fn allocations(&self) -> Vec<Allocation> {
        match self.allocation.is_empty() {
            true => vec![Allocation::PrefixDist],
            false => self.allocation.clone(),
        }
    }

    /// The rows of tables: the trace, if there is one, and the allocations.
    fn rows(&self) -> Vec<&'static str> {
        let trace = self.replay.iter().map(|_| replayed::NAME);
        let allocations = self.allocations().into_iter().map(Allocation::name);
        trace.chain(allocations).collect()
    }

    fn memory_bytes(&self, model: &Workload) -> u64 {
        let given = self.memory_mib.map(|mib| (mib * f64::from(1 << 20)) as u64);
        let of_model = model.memory_bytes.unwrap_or(model.data_bytes() / 10);
        given.unwrap_or_else(|| of_model.max(MEMORY_MIB_MIN << 20))
    }

    fn arrivals(&self, model: &Workload) -> Result<Option<Arrivals>, Failure> {
        if self.pace == Pace::Max {
            return Ok(None);
        }
        let rate = model
            .rate
            .ok_or("the model has no rate; without --pace model it runs as fast as possible")?;
        if rate.d + rate.a.abs() > RATE_MAX {
            return Err(
                format!("more than {RATE_MAX} operations a second cannot be started").into(),
            );
        }
        Ok(Some(Arrivals {
            per_second: rate.d,
            swing: Some(rate),
            spacing: Spacing::Poisson,
            seed: self.common.seed,
        }))
    }

    fn phase(&self, name: &str, allocation: Allocation, limit: Limit) -> Phase {
        Phase {
            distribution: allocation.name().to_owned(),
            limit,
            settle: true,
            course_interval: Duration::from_millis(500),
            ..Phase::new(name, self.threads)
        }
    }

    fn limit(&self, model: &Workload, share: f64) -> Limit {
        Limit {
            operations: Some(((model.operations as f64 * share) as u64).max(1)),
            duration: self
                .seconds
                .map(|seconds| Duration::from_secs_f64(seconds * share)),
        }
    }

    /// Loads an empty store and measures one allocation on it.
    fn cell(
        &self,
        (store, slot): (&dyn Store, Option<&Arc<RecorderHandle>>),
        model: &Workload,
        allocation: Allocation,
        stream: u64,
    ) -> Result<Value, Failure> {
        let never = AtomicBool::new(false);
        let model = &self.ycsb_sizes.of(model, allocation);
        let load = Arc::new(Load::new(model, allocation, self.common.seed));
        let taken = Arc::new(AtomicU64::new(0));
        let fill = self.phase("load", allocation, Limit::default());
        let filled = driver::run(store, &fill, &never, &NoProgress, &|_| -> Box<dyn Worker> {
            Box::new(FillWorker::new(&load, &taken))
        })?;
        let worker = |stream: u64| {
            let load = &load;
            move |thread: usize| -> Box<dyn Worker> {
                Box::new(ModelWorker::new(load, stream, thread))
            }
        };
        let warm = Phase {
            settle: false,
            ..self.phase("warm-up", allocation, self.limit(model, 1.0 / WARMING_PART))
        };
        driver::run(store, &warm, &never, &NoProgress, &worker(stream | 1 << 32))?;
        let phase = self.phase(&model.name, allocation, self.limit(model, 1.0));
        let recorder = match slot {
            None => None,
            Some(slot) => self.tracing.begin(slot, &load)?,
        };
        let result = match self.arrivals(model)? {
            None => driver::run(store, &phase, &never, &NoProgress, &worker(stream)),
            Some(arrivals) => driver::run_open(
                store,
                &phase,
                arrivals,
                &never,
                &NoProgress,
                &worker(stream),
            ),
        }?;
        self.tracing.end(recorder)?;
        load.check_sum(store)?;
        let mut figures = figures(&result, allocation.name(), load.absent());
        figures["load"] = filled.to_json();
        figures["sizes"] = sizes::of(&load, stream, result.operations);
        let text = figures["text"].as_str().unwrap_or_default();
        figures["text"] = format!("{text}{}", sizes::table(&figures["sizes"])).into();
        Ok(figures)
    }
}

impl Measure for MixgraphArguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        let counts = model_named(&self.model).is_ok_and(|model| model.counts());
        let serves = !counts || opener.serves(Purpose::Counters);
        !opener.only_if_named() && serves && self.storing.suits(opener)
    }

    fn settings(&self) -> Value {
        let model = self.scaled().ok();
        json!({
            "model": model.as_ref().and_then(|model| model.to_toml().ok()),
            "replay": self.replay,
            "ycsb_sizes": self.ycsb_sizes.name(),
            "set": self.storing.settings(),
            "allocations": self.allocations().iter().map(|one| one.name()).collect::<Vec<_>>(),
            "threads": self.threads,
            "memory_bytes": model.as_ref().map(|model| self.memory_bytes(model)),
            "data_bytes": model.as_ref().map(Workload::data_bytes),
            "pace": format!("{:?}", self.pace).to_lowercase(),
            "faster": self.faster.unwrap_or(1.0),
            "seconds": self.seconds,
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let mut model = self.scaled()?;
        let settings = Settings {
            memory_bytes: self.memory_bytes(&model),
            durability: Durability::Process,
        };
        let purpose = model.counts().then_some(Purpose::Counters);
        let (mut cells, mut name) = (Vec::new(), String::new());
        let tuned = self.storing.instead_of(turn.opener)?;
        let opener = tuned.as_ref().map_or(turn.opener, |tuned| tuned as _);
        let turn = Turn { opener, ..turn };
        let traced = (self.tracing.trace.is_some() && turn.round == 0).then(|| TracedOpener {
            inner: turn.opener,
            slot: Arc::default(),
            has_keyspaces: model.keyspaces.len() > 1,
        });
        let opener = traced.as_ref().map_or(turn.opener, |traced| traced as _);
        let turn = Turn { opener, ..turn };
        if let Some(trace) = &self.replay {
            tell!("{}: {} replay", turn.opener.name(), model.name);
            let keys = paired(&self.replay_keys, &self.replay_keys_of)?;
            let replayed = Replayed::new(trace, keys, model.operations)?;
            // The benchmarks have as many.
            model.operations = replayed.operations();
            let load = Load::new(&model, Allocation::PrefixDist, self.common.seed);
            cells.push(turn.in_fresh_store_for(purpose, &settings, |store, _| {
                replayed.cell(store, &load, self.threads)
            })?);
        }
        for (number, allocation) in self.allocations().into_iter().enumerate() {
            tell!(
                "{}: {} {}",
                turn.opener.name(),
                model.name,
                allocation.name()
            );
            let stream = (turn.round << 8 | number) as u64;
            cells.push(turn.in_fresh_store_for(purpose, &settings, |store, _| {
                name = store.name();
                let slot = traced.as_ref().map(|traced| &traced.slot);
                self.cell((store, slot), &model, allocation, stream)
            })?);
        }
        Ok(json!({ "store": name, "cells": cells }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let Ok(model) = self.scaled() else {
            return String::new();
        };
        let memory_bytes = self.memory_bytes(&model);
        let mut text = report::head(&model, memory_bytes, results);
        for one in results {
            text += &report::blocks(one);
        }
        text + &report::storage(&self.rows(), results)
    }

    fn verdict(&self, results: &[Measured]) -> Result<(), Failure> {
        match &self.replay {
            Some(trace) => replayed::verdict(trace, results),
            None => Ok(()),
        }
    }
}

impl AllocationsArguments {
    /// As [`MixgraphArguments::begin`].
    ///
    /// # Errors
    /// The same.
    pub fn begin(&self) -> Result<bool, Failure> {
        let tracing = &self.inner.tracing;
        match tracing.trace.is_some() && !tracing.only_trace {
            true => self.all().begin(),
            false => self.inner.begin(),
        }
    }

    /// The same arguments with all eight benchmarks, if none was named.
    fn all(&self) -> MixgraphArguments {
        let mut inner = self.inner.clone();
        if inner.allocation.is_empty() {
            inner.allocation = Allocation::FIGURE_14.to_vec();
        }
        if let Some(by) = self.by.filter(|by| !inner.allocation.contains(by)) {
            inner.allocation.push(by);
        }
        if self.by.is_none()
            && inner.replay.is_none()
            && !inner.allocation.contains(&Allocation::PrefixDist)
        {
            inner.allocation.push(Allocation::PrefixDist);
        }
        inner
    }

    /// The row whose figures divide those of the others.
    fn by(&self) -> &'static str {
        match (self.by, &self.inner.replay) {
            (Some(by), _) => by.name(),
            (None, Some(_)) => replayed::NAME,
            (None, None) => Allocation::PrefixDist.name(),
        }
    }
}

impl Measure for AllocationsArguments {
    fn common(&self) -> &Common {
        &self.inner.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        self.inner.takes_part(opener)
    }

    fn settings(&self) -> Value {
        let mut settings = self.all().settings();
        settings["by"] = self.by().into();
        settings
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        self.all().measure(turn)
    }

    fn report(&self, results: &[Measured]) -> String {
        let all = self.all();
        let Ok(model) = all.scaled() else {
            return String::new();
        };
        let mut text = report::head(&model, all.memory_bytes(&model), results);
        text += &report::storage(&all.rows(), results);
        text + &report::beside_the_study(&all.rows(), (self.by(), all.ycsb_sizes), results)
    }

    fn verdict(&self, results: &[Measured]) -> Result<(), Failure> {
        self.inner.verdict(results)
    }
}

#[cfg(test)]
mod tests;
