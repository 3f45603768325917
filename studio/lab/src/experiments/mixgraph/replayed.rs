//! The row `replay`: a trace, measured as the allocations are, so that a model can be compared with
//! the load that it was made from.
//!
//! ```text
//!   trace:       | a fifth of what is replayed | four fifths           | not replayed |
//!   fresh store:   put, debt paid -> warm      -> measure -> debt paid
//! ```
//! The store begins as a benchmark's does ([`Start`]), and is warmed as a benchmark's is: by
//! operations of the same load that come before the measured ones, a quarter of their number. The
//! replay and the benchmarks have the same number of measured operations
//! ([`Replayed::operations`]).
//!
//! Without a list of keys the store has exactly the pairs that the trace names. A model that is
//! compared with it must have the same number of pairs.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use evendb_trace::{Kind, Losses, Reader, formats};
use serde_json::Value;

use super::super::{Failure, Measured, at};
use super::figures::figures;
use super::start::Start;
use crate::driver::{self, NoProgress, Phase};
use crate::mixgraph::Load;
use crate::phase_length::WARMING_PART;
use crate::phase_result::{Latency, PhaseResult, figures_since};
use crate::process::ProcessUsage;
use crate::recorder::{OperationKind, RunError};
use crate::replay::command::several_keyspaces_of;
use crate::replay::{Merges, Part, ReplayReport, ReplaySettings, replay};
use crate::store::Store;

/// The figure of a cell for what was lost of the trace, if anything was.
const LOST: &str = "lost";
/// How reads and scans find something.
const REMEDY: &str = "--replay-keys lists the keys that the store has before";

/// The row's name.
pub(super) const NAME: &str = "replay";

/// A trace that is measured.
pub(super) struct Replayed<'a> {
    trace: &'a Path,
    /// Lists of keys, each with its keyspace, if it is said to be of one.
    keys: Vec<(&'a Path, Option<&'a str>)>,
    /// The measured operations.
    operations: u64,
    /// The operations before them, which warm the store.
    warming: u64,
    losses: Losses,
}

impl<'a> Replayed<'a> {
    /// Reads a trace through. Of its operations at most `operations` are measured, and a quarter of
    /// that number before them warms the store.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub(super) fn new(
        trace: &'a Path,
        keys: Vec<(&'a Path, Option<&'a str>)>,
        operations: u64,
    ) -> Result<Self, Failure> {
        let mut reader = opened(trace)?;
        let of_trace = |error: evendb_trace::Error| RunError::from(error).of_file(trace);
        let mut all = 0;
        while reader.next().map_err(of_trace)?.is_some() {
            all += 1;
        }
        let share = WARMING_PART / (WARMING_PART + 1.0);
        let operations = operations.min((all as f64 * share) as u64);
        Ok(Self {
            trace,
            keys,
            operations,
            warming: (operations as f64 / WARMING_PART) as u64,
            losses: reader.losses(),
        })
    }

    /// The number of measured operations.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Fills an empty store as `load` does, and replays the trace.
    pub(super) fn cell(
        &self,
        store: &dyn Store,
        load: &Load,
        threads: usize,
    ) -> Result<Value, Failure> {
        let trace = self.trace;
        let merges = load.workload.counts().then_some(Merges::Counters);
        let settings = ReplaySettings {
            threads,
            several_keyspaces: several_keyspaces_of(trace)?,
            merges,
            value_bytes: Merges::value_bytes(merges) as usize,
            // A replay has one for all keyspaces: that of the first.
            compressible: load.families[0].model.values.compressible,
            ..ReplaySettings::default()
        };
        let filled = self.fill(store, load, &settings)?;
        let never = AtomicBool::new(false);
        let warming = ReplaySettings {
            part: Part {
                until: self.warming,
                ..Part::default()
            },
            ..settings
        };
        let warmed = replay(opened(trace)?, store, &warming, &never);
        warmed.map_err(|error| error.of_file(trace))?;
        let measured = ReplaySettings {
            part: Part {
                skip: self.warming,
                until: self.warming + self.operations,
                ..Part::default()
            },
            ..settings
        };
        let (result, mut report) = measured_part(store, trace, &measured)?;
        report.losses = self.losses;
        let mut cell = figures(&result, NAME, 0);
        cell["load"] = filled.to_json();
        let warnings = report.warnings(self.keys.is_empty().then_some(REMEDY));
        let mut text: String = warnings.iter().map(|line| format!("{line}\n")).collect();
        text += cell["text"].as_str().unwrap_or_default();
        text += &format!(" {}\n", differences(&report));
        cell["text"] = text.into();
        if !report.losses.is_nothing() {
            cell[LOST] = report.losses.to_string().into();
        }
        Ok(cell)
    }

    /// Puts what the store must have before, and pays the debt.
    fn fill(
        &self,
        store: &dyn Store,
        load: &Load,
        settings: &ReplaySettings,
    ) -> Result<PhaseResult, Failure> {
        let start = Start::new(
            (self.trace, opened(self.trace)?),
            &self.keys,
            load,
            settings,
        )?;
        let (start, taken) = (Arc::new(start), Arc::new(AtomicU64::new(0)));
        let phase = Phase {
            distribution: NAME.to_owned(),
            settle: true,
            ..Phase::new("load", settings.threads)
        };
        let never = AtomicBool::new(false);
        let filled = driver::run(store, &phase, &never, &NoProgress, &|_| {
            start.worker(&taken)
        });
        Ok(filled?)
    }
}

/// Replays a part of the trace, and pays the debt.
fn measured_part(
    store: &dyn Store,
    trace: &Path,
    settings: &ReplaySettings,
) -> Result<(PhaseResult, ReplayReport), Failure> {
    let (figures_before, usage_before) = (store.stats(), ProcessUsage::now());
    let report = replay(opened(trace)?, store, settings, &AtomicBool::new(false));
    let report = report.map_err(|error| error.of_file(trace))?;
    let usage_after = ProcessUsage::now();
    let settling = Instant::now();
    store.settle_debt()?;
    let settle_seconds = settling.elapsed().as_secs_f64();
    let since = |usage: Option<ProcessUsage>| Some(usage?.since(&usage_before?));
    let scans = report.kinds.get(&Kind::Scan);
    let result = PhaseResult {
        name: NAME.to_owned(),
        distribution: NAME.to_owned(),
        store: store.name(),
        threads: settings.threads,
        cores: std::thread::available_parallelism().ok().map(usize::from),
        operations: report.replayed(),
        seconds: report.duration.as_secs_f64(),
        settle_seconds,
        interrupted: false,
        longest_stall_seconds: 0.0,
        course_interval_seconds: 0.0,
        course: Vec::new(),
        open_loop: None,
        latencies: latencies(&report),
        components: Vec::new(),
        user_bytes_written: 0,
        user_bytes_read: 0,
        records_scanned: scans.map_or(0, |scans| scans.records),
        usage: since(usage_after),
        usage_settled: since(ProcessUsage::now()),
        ideal: None,
        figures: figures_since(&figures_before, &store.stats()),
    };
    Ok((result, report))
}

/// Checks that the replayed trace is whole.
///
/// # Errors
/// `Damaged`, with what was lost of it.
pub(super) fn verdict(trace: &Path, results: &[Measured]) -> Result<(), Failure> {
    let cells = results
        .iter()
        .filter_map(|one| one.figures["cells"].as_array());
    let mut lost = cells.flatten().filter_map(|cell| cell[LOST].as_str());
    match lost.next() {
        None => Ok(()),
        Some(lost) => {
            let what = format!("the trace is not whole: {lost}");
            Err(RunError::Damaged(what).of_file(trace).into())
        }
    }
}

/// Checks that it is a trace, before anything is measured.
pub(super) fn check(trace: &Path) -> Result<(), Failure> {
    opened(trace).map(drop)
}

fn opened(trace: &Path) -> Result<Reader<impl Read + use<>>, Failure> {
    let file = File::open(trace).map_err(at(trace))?;
    let file = BufReader::with_capacity(256 << 10, file);
    let reader = formats::open_own(file);
    Ok(reader.map_err(|error| RunError::from(error).of_file(trace))?)
}

fn differences(report: &ReplayReport) -> String {
    format!(
        "of {} results, {} are not those of the trace",
        report.compared,
        report.differences.total()
    )
}

/// Latencies by the lab's kinds. If several kinds of the trace belong to one of these, the one with
/// the highest number of operations counts.
fn latencies(report: &ReplayReport) -> Vec<Latency> {
    let of = |kind: Kind| match kind {
        Kind::Put => Some(OperationKind::Put),
        Kind::Delete => Some(OperationKind::Delete),
        Kind::Merge => Some(OperationKind::Merge),
        Kind::Scan => Some(OperationKind::Scan),
        kind if kind.is_point_read() => Some(OperationKind::Get),
        _ => None,
    };
    let mut all: Vec<Latency> = Vec::new();
    for (kind, report) in &report.kinds {
        let Some(kind) = of(*kind) else { continue };
        let latency = Latency::of(kind, &report.latencies);
        match all.iter_mut().find(|other| other.kind == kind) {
            Some(other) if other.count < latency.count => *other = latency,
            Some(_) => {}
            None => all.push(latency),
        }
    }
    all
}
