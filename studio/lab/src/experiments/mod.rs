//! Questions about stores, each a command. `evendb experiment NAME` asks EvenDB alone. The command
//! of the same name in `studio/peers` asks it and its peers in one run.
//!
//! ```text
//!   Experiment (arguments) --> compare: round 1: store a, store b, ...   round 2: ...
//!                                          |  each in a process of its own (`processes`)
//!                                          v
//!                              measure: opens, runs, returns figures as JSON
//!                                          |
//!                              report: all rounds of all stores --> a table
//! ```
//! Each store has a process of its own, so that its memory, caches and background work do not
//! change the figures of the others. Between two processes files are written out and dropped from
//! the page cache. A limit on memory that is set from outside (`scripts/with-memory-limit`) holds
//! for all of them.
//!
//! Here: arguments, measuring, tables. Not here: adapters (see [`crate::stores`] and
//! `studio/peers`).

pub mod after_puts;
pub mod batches;
pub mod disk_space;
pub mod expiring;
pub mod flsm_claims;
pub mod ingest;
pub mod large_values;
mod machine;
pub mod many_databases;
mod markdown;
pub mod memory_overshoot;
pub mod memory_split;
pub mod merges;
pub mod mixgraph;
pub mod paper;
pub mod pauses;
pub mod processes;
mod processor_stalls;
pub mod range_tombstones;
pub mod reopen;
mod results_file;
mod steps;
pub mod synced_puts;
pub mod table;
pub mod transactions;
pub mod unsynced_puts;
pub mod warming;

use clap::Subcommand;
use serde_json::Value;
use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, key_of};
use crate::opener::{Opener, Purpose, Settings};
use crate::store::{Store, StoreResult};

/// Why an experiment ended without a result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The arguments of all experiments.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// The stores; all that were built in if not given
    #[arg(long, visible_alias = "store", value_delimiter = ',')]
    pub stores: Vec<String>,
    /// The number of rounds; figures are their medians
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Where the stores are made, and removed at the end
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Write settings and all results to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A small version, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Only for the processes that this one starts: measure this store, in this round
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

/// One round of one store.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The store's name.
    pub store: String,
    /// The round's number, from 0.
    pub round: usize,
    /// What [`Measure::measure`] returned.
    pub figures: Value,
}

/// An experiment's two halves.
pub trait Measure {
    /// The common arguments.
    fn common(&self) -> &Common;

    /// Whether a store is measured if the user names none.
    fn takes_part(&self, opener: &dyn Opener) -> bool {
        !opener.only_if_named()
    }

    /// Settings that the report states.
    fn settings(&self) -> Value;

    /// Measures one round of one store, in a process of its own.
    ///
    /// # Errors
    /// The store's, or a wrong answer.
    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure>;

    /// Whether the process of a round kills itself (`SIGKILL`) after its figures are written,
    /// instead of ending in good order.
    fn ends_by_kill(&self) -> bool {
        false
    }

    /// All rounds of all stores as text for a terminal.
    fn report(&self, results: &[Measured]) -> String;

    /// Checks that what was measured and reported is what was asked for.
    ///
    /// # Errors
    /// What it is instead.
    fn verdict(&self, _: &[Measured]) -> Result<(), Failure> {
        Ok(())
    }
}

/// The experiments.
#[derive(Subcommand, Clone, Debug)]
pub enum Experiment {
    /// How far resident memory goes above the memory budget (EvenDB only)
    Memory(memory_overshoot::Arguments),
    /// How long opening takes after `kill -9`, and whether everything acknowledged is there
    Reopen(reopen::Arguments),
    /// How long after opening reads reach their full speed, and what is read until then
    Warming(warming::Arguments),
    /// What many open databases cost one process that hardly uses them
    Many(many_databases::Arguments),
    /// The longest pause of a put, get and scan through a long ingest
    Pauses(pauses::Arguments),
    /// What overwrites and deletes leave on the disk, for how long, and what paying for it costs
    Space(disk_space::Arguments),
    /// Whether memory is split well between chunks in RAM and single rows (EvenDB only)
    Split(memory_split::Arguments),
    /// Puts that survive power loss, by number of threads, beside the disk's own `fdatasync` rate
    Sync(synced_puts::Arguments),
    /// Puts without a sync, and what they write
    Relaxed(unsynced_puts::Arguments),
    /// Whether writes in batches are ever slower, record for record, than puts one by one
    Batches(batches::Arguments),
    /// Transactions of four reads and two writes, over all records or over a few, and how many are
    /// aborted
    Transactions(transactions::Arguments),
    /// What many live range deletions cost gets and scans, and how soon the space of a deleted
    /// prefix is back
    RangeTombstones(range_tombstones::Arguments),
    /// Counters that are added to by merges, beside gets of them
    Merges(merges::Arguments),
    /// A model of a load, with hot keys at the places of an allocation: `evendb mixgraph` for every
    /// store
    Mixgraph(mixgraph::MixgraphArguments),
    /// The study's figure 14: the eight benchmarks beside one another, divided by one of them
    MixgraphAllocations(mixgraph::AllocationsArguments),
    /// The study's figure 15: operations drawn from a model beside the model; no store takes part
    MixgraphStatistics(mixgraph::StatisticsArguments),
    /// Sorted records that come all at once, beside puts of the same records and the disk's own
    /// rate
    Ingest(ingest::Arguments),
    /// Puts and gets of large values, and what is written for them
    LargeValues(large_values::Arguments),
    /// An event log whose events expire: space over time, and what the expiry costs puts
    Expiring(expiring::Arguments),
    /// What a phase of puts costs the scans and gets that come next
    AfterPuts(after_puts::Arguments),
    /// The evaluation of the EvenDB paper: every figure and table, at any scale; writes
    /// results.jsonl and report.md
    Paper(paper::Arguments),
    /// The claims of PebblesDB's design, beside it and other stores, at any scale; writes
    /// results.jsonl and report.md
    FlsmClaims(flsm_claims::Arguments),
    /// Write report.md again from the results of `paper`, also while it runs
    Report(paper::report::Arguments),
}

impl Experiment {
    /// Runs it on the stores that `openers` know.
    ///
    /// # Errors
    /// The error of an experiment's child process; no results to report.
    pub fn run(&self, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
        let measure: &dyn Measure = match self {
            Experiment::Memory(arguments) => arguments,
            Experiment::Reopen(arguments) => arguments,
            Experiment::Warming(arguments) => arguments,
            Experiment::Many(arguments) => arguments,
            Experiment::Pauses(arguments) => arguments,
            Experiment::Space(arguments) => arguments,
            Experiment::Split(arguments) => arguments,
            Experiment::Sync(arguments) => arguments,
            Experiment::Relaxed(arguments) => arguments,
            Experiment::Batches(arguments) => arguments,
            Experiment::Transactions(arguments) => arguments,
            Experiment::RangeTombstones(arguments) => arguments,
            Experiment::Merges(arguments) => arguments,
            Experiment::Mixgraph(arguments) => match arguments.begin()? {
                true => arguments,
                false => return Ok(()),
            },
            Experiment::MixgraphAllocations(arguments) => match arguments.begin()? {
                true => arguments,
                false => return Ok(()),
            },
            Experiment::MixgraphStatistics(arguments) => return arguments.run(),
            Experiment::Ingest(arguments) => arguments,
            Experiment::LargeValues(arguments) => arguments,
            Experiment::Expiring(arguments) => arguments,
            Experiment::AfterPuts(arguments) => arguments,
            Experiment::Paper(arguments) => return arguments.run(openers),
            Experiment::FlsmClaims(arguments) => return arguments.run(openers),
            // This one starts no process. The two before it start theirs by `steps`.
            Experiment::Report(arguments) => return arguments.run(),
        };
        processes::run(measure, openers)
    }
}

/// One round of one store, for [`Measure::measure`].
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Opens the store.
    pub opener: &'a dyn Opener,
    /// The store's own directory, the same in each round; it is empty in the first.
    pub directory: &'a Path,
    /// The round's number, from 0.
    pub round: usize,
}

impl Turn<'_> {
    /// Opens an empty store in a directory of its own below [`Turn::directory`], calls `run` with
    /// both, and removes the directory.
    fn in_fresh_store<T>(
        &self,
        settings: &Settings,
        run: impl FnOnce(&dyn Store, &Path) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.in_fresh_store_for(None, settings, run)
    }

    /// As [`Turn::in_fresh_store`], opened for a purpose.
    fn in_fresh_store_for<T>(
        &self,
        purpose: Option<Purpose>,
        settings: &Settings,
        run: impl FnOnce(&dyn Store, &Path) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let own = self.directory.join(self.round.to_string());
        std::fs::create_dir_all(&own).map_err(at(&own))?;
        let store = match purpose {
            None => self.opener.open(&own, settings)?,
            Some(purpose) => self.opener.open_for(&own, settings, purpose)?,
        };
        let done = run(&*store, &own)?;
        store.close()?;
        std::fs::remove_dir_all(&own).map_err(at(&own))?;
        Ok(done)
    }
}

/// An error of the system with the name of the file or directory.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |error| format!("{}: {error}", path.display()).into()
}

/// Puts every record of the data set, in order.
fn put_all(store: &dyn Store, dataset: &Dataset) -> StoreResult<()> {
    let mut value = Vec::new();
    for record in 0..dataset.records {
        dataset.values.fill(record, 0, &mut value);
        store.put(&key_of(record), &value)?;
    }
    Ok(())
}

/// The median of a figure of one cell over the rounds of one store, or of all. `list` has the cells
/// of a round.
fn median_of_cell(
    results: &[Measured],
    store: Option<&str>,
    list: &str,
    is_cell: impl Fn(&Value) -> bool,
    name: &str,
) -> f64 {
    median_within_cell(results, store, list, is_cell, &[name])
}

/// As [`median_of_cell`] for a figure that lies deeper: `path` names the members that lead to it,
/// the outermost first.
fn median_within_cell(
    results: &[Measured],
    store: Option<&str>,
    list: &str,
    is_cell: impl Fn(&Value) -> bool,
    path: &[&str],
) -> f64 {
    let own = results
        .iter()
        .filter(|one| store.is_none_or(|store| one.store == store));
    let figures = own.filter_map(|one| {
        let all = one.figures[list].as_array()?;
        let cell = all.iter().find(|figures| is_cell(figures))?;
        path.iter()
            .try_fold(cell, |value, key| value.get(key))?
            .as_f64()
    });
    table::median(figures.collect())
}

/// The stores of results, each once, in the order of their first result.
fn stores_of(results: &[Measured]) -> Vec<&str> {
    let mut stores: Vec<&str> = Vec::new();
    for one in results {
        if !stores.contains(&&*one.store) {
            stores.push(&one.store);
        }
    }
    stores
}

/// For a store of EvenDB: its figure divided by that of the best other store, as `2.00x`. Empty for
/// other stores, and if there is no other store.
fn beside_best_peer(stores: &[&str], store: &str, figure: impl Fn(&str) -> f64) -> String {
    const OURS: &str = "evendb";
    let peers = stores.iter().filter(|store| !store.starts_with(OURS));
    let best = peers.map(|store| figure(store)).fold(f64::NAN, f64::max);
    match store.starts_with(OURS) && best > 0.0 {
        true => format!("{:.2}x", figure(store) / best),
        false => String::new(),
    }
}

/// The texts of all rounds, in the order of stores: for experiments whose figures have no useful
/// median over rounds.
fn texts(results: &[Measured]) -> String {
    let mut results: Vec<&Measured> = results.iter().collect();
    results.sort_by_key(|one| (one.store.clone(), one.round));
    let text = |one: &&Measured| one.figures["text"].as_str().unwrap_or_default().to_owned();
    results.iter().map(text).collect()
}

/// What the tests of the experiments share.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;
    use std::ffi::OsString;

    /// A command with the arguments of an experiment.
    #[derive(Parser)]
    pub(crate) struct Command<A: clap::Args> {
        #[command(flatten)]
        arguments: A,
    }

    /// The arguments of a command line. Its first word is the command.
    pub(crate) fn parsed<A: clap::Args>(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> A {
        Command::parse_from(words).arguments
    }

    /// The first round of a store, which takes part in the experiment.
    pub(crate) fn measured(
        measure: &dyn Measure,
        opener: &dyn Opener,
        directory: &Path,
    ) -> Measured {
        assert!(measure.takes_part(opener));
        let turn = Turn {
            opener,
            directory,
            round: 0,
        };
        Measured {
            store: opener.name().to_owned(),
            round: 0,
            figures: measure.measure(turn).unwrap(),
        }
    }
}
