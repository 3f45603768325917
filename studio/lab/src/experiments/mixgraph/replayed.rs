//! The row `replay`: a trace, measured as the allocations are, so that a model can be compared with
//! the load that it was made from.
//!
//! ```text
//!   fresh store: listed keys and what the trace finds are put -> debt paid
//!     -> warm (a quarter of the trace) -> measure (all of it) -> debt paid
//! ```
//! Without a list of keys the store has exactly the pairs that the trace names. A model that is
//! compared with it must have the same number of pairs.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use evendb_model::Workload;
use evendb_trace::{Kind, Reader, formats};
use serde_json::Value;

use super::super::{Failure, Measured, at};
use super::figures;
use crate::phase_length::WARMING_PART;
use crate::phase_result::{Latency, PhaseResult, figures_since};
use crate::process::ProcessUsage;
use crate::recorder::{OperationKind, RunError};
use crate::replay::command::several_keyspaces_of;
use crate::replay::{Merges, ReplayReport, ReplaySettings, prepare, put_key_files, replay};
use crate::store::Store;

/// The figure of a cell for what was lost of the trace, if anything was.
const LOST: &str = "lost";
/// How reads and scans find something.
const REMEDY: &str = "--replay-keys lists the keys that the store has before";

/// The row's name.
pub(super) const NAME: &str = "replay";

/// Loads an empty store with `keys` and with what the trace finds, and replays it.
pub(super) fn cell(
    store: &dyn Store,
    trace: &Path,
    keys: &[(&Path, Option<&str>)],
    (model, threads): (&Workload, usize),
) -> Result<Value, Failure> {
    let merges = model.counts().then_some(Merges::Counters);
    let settings = ReplaySettings {
        threads,
        several_keyspaces: several_keyspaces_of(trace)?,
        merges,
        value_bytes: Merges::value_bytes(merges) as usize,
        ..ReplaySettings::default()
    };
    let of_trace = |error: RunError| error.of_file(trace);
    let never = AtomicBool::new(false);
    if !keys.is_empty() {
        put_key_files(
            keys,
            trace,
            store,
            &|name| loaded_bytes(model, name),
            &never,
        )?;
    }
    prepare(opened(trace, u64::MAX)?, store, &settings, &never).map_err(of_trace)?;
    warm(store, trace, &settings)?;
    let (result, report) = measured(store, trace, &settings)?;
    let mut cell = figures(&result, NAME, 0);
    let warnings = report.warnings(keys.is_empty().then_some(REMEDY));
    let mut text: String = warnings.iter().map(|line| format!("{line}\n")).collect();
    text += cell["text"].as_str().unwrap_or_default();
    text += &format!(" {}\n", differences(&report));
    cell["text"] = text.into();
    if !report.losses.is_nothing() {
        cell[LOST] = report.losses.to_string().into();
    }
    Ok(cell)
}

/// The mean bytes of a value that is loaded into a keyspace: of the one of this name, or, where the
/// trace has another name, of the first.
fn loaded_bytes(model: &Workload, name: &str) -> usize {
    let named = model
        .keyspaces
        .iter()
        .find(|keyspace| keyspace.name == name);
    let keyspace = named.or(model.keyspaces.first());
    keyspace.map_or(0, |keyspace| keyspace.load.values.loaded.mean() as usize)
}

/// Replays the beginning of the trace.
fn warm(store: &dyn Store, trace: &Path, settings: &ReplaySettings) -> Result<(), Failure> {
    let length = trace.metadata().map_err(at(trace))?.len();
    // The part is torn where it ends, and a reader takes that.
    let part = opened(trace, (length as f64 / WARMING_PART) as u64)?;
    let warmed = replay(part, store, settings, &AtomicBool::new(false));
    warmed.map_err(|error| error.of_file(trace))?;
    Ok(())
}

/// Replays the trace, and pays the debt.
fn measured(
    store: &dyn Store,
    trace: &Path,
    settings: &ReplaySettings,
) -> Result<(PhaseResult, ReplayReport), Failure> {
    let (figures_before, usage_before) = (store.stats(), ProcessUsage::now());
    let whole = opened(trace, u64::MAX)?;
    let report = replay(whole, store, settings, &AtomicBool::new(false));
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
    opened(trace, u64::MAX).map(drop)
}

fn opened(trace: &Path, bytes_max: u64) -> Result<Reader<impl Read>, Failure> {
    let file = File::open(trace).map_err(at(trace))?;
    let file = BufReader::with_capacity(256 << 10, file).take(bytes_max);
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
