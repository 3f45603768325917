//! What a phase measured ([`PhaseResult`]), the figures that follow from it (`derived`), and both
//! as JSON (`json`) and as text (`text`).
//!
//! Definitions, so that figures of different stores mean the same:
//! * **throughput with debt**, the first figure of every table: finished operations divided by wall
//!   time of the workers and of the settling afterwards. So a store gains nothing by leaving work
//!   for later;
//! * **throughput** without debt: finished operations divided by wall time of the workers alone;
//! * **falls**: the rate still fell when the phase ended, by the rule of [`crate::course`];
//! * **waited**: seconds in which operations were held up, summed over the threads, by cause, while
//!   the workers ran. Causes that a store does not count are missing;
//! * **CPU in use**: CPU time of the whole process while the workers ran, divided by their wall
//!   time and by the number of cores: 1 is all cores;
//! * **disk**: millions of bytes a second that the process fetched from storage and sent to it
//!   (less what was cancelled) while the workers ran;
//! * **fetched a read**: bytes fetched from storage divided by gets and scans. If puts run at the
//!   same time, reads of reorganisation for them are included;
//! * **write amplification (process)**: bytes that the kernel saw written by the process (less what
//!   was cancelled) during the phase *and* the settling of its debt, divided by bytes handed to the
//!   store;
//! * **write amplification (store)**: the same from the store's own `written.*` figures;
//! * **read amplification**: bytes of the process's read calls divided by bytes that the store
//!   handed back;
//! * **latency**: from the start of an operation. In an open loop from its intended start, so that
//!   waiting for a worker counts (and the longest stall includes waiting for operations to be due);
//! * **RAM hit rate**: gets served by RAM components divided by gets that found their key;
//! * **reads from RAM**: the RAM hit rate, or for scans the share of records for which no file was
//!   read;
//! * **misses by the ideal's**: reads that were not from RAM, divided by those of the ideal static
//!   cache ([`crate::ideal_cache`]) with the memory that the store was told to use;
//! * **disk's limit**: operations a second if each miss of the ideal cache were one read and
//!   nothing else took time;
//! * **CPU per operation**: user and system time of the whole process, workload included.

mod derived;
mod json;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use hdrhistogram::Histogram;

use crate::arrivals::OpenLoop;
use crate::ideal_cache::IdealCache;
use crate::process::ProcessUsage;
use crate::recorder::{OperationKind, Recorder};
use crate::store::{ComponentSteps, Figure, FigureKind};

pub use json::figures_json;

/// The latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The kind that was timed.
    pub kind: OperationKind,
    /// The number of operations.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Half of the operations were at most this slow.
    pub p50: u64,
    /// 95 % were at most this slow.
    pub p95: u64,
    /// 99 % were at most this slow.
    pub p99: u64,
    /// 99.9 % were at most this slow.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

/// Everything one phase measured.
#[derive(Clone, Debug)]
pub struct PhaseResult {
    /// The phase's name, usually the mix.
    pub name: String,
    /// The distribution's name; may be empty.
    pub distribution: String,
    /// The store and its settings.
    pub store: String,
    /// Worker threads.
    pub threads: usize,
    /// Processors that the process may use. `None` if the system does not say.
    pub cores: Option<usize>,
    /// Finished operations.
    pub operations: u64,
    /// Wall time of the workers.
    pub seconds: f64,
    /// Wall time of settling the debt afterwards.
    pub settle_seconds: f64,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// The intended rate and how well it was kept. None for a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The longest time in which no thread finished an operation; zero if below 10 ms.
    pub longest_stall_seconds: f64,
    /// The width of a step of `course`.
    pub course_interval_seconds: f64,
    /// Operations finished in each step, with the time at the step's end.
    pub course: Vec<(f64, u64)>,
    /// Latencies of the kinds that occurred.
    pub latencies: Vec<Latency>,
    /// Latencies of gets by the component that answered, with those of the settling, for a store
    /// that tells them.
    pub components: Vec<ComponentSteps>,
    /// Bytes of keys and values handed to the store.
    pub user_bytes_written: u64,
    /// Bytes of keys and values the store handed back.
    pub user_bytes_read: u64,
    /// Records that scans returned.
    pub records_scanned: u64,
    /// What the process used during the phase.
    pub usage: Option<ProcessUsage>,
    /// What the process used during the phase and the settling of the debt.
    pub usage_settled: Option<ProcessUsage>,
    /// What the best cache could do for this phase, if that is known.
    pub ideal: Option<IdealCache>,
    /// The store's figures: counters as differences over phase and settling, gauges as they are.
    pub figures: Vec<Figure>,
}

/// The latencies of the kinds that occurred.
#[must_use]
pub fn latencies(recorder: &Recorder) -> Vec<Latency> {
    let kinds = OperationKind::ALL.into_iter();
    kinds
        .filter_map(|kind| {
            let histogram = recorder.histogram(kind)?;
            Some(Latency::of(kind, histogram))
        })
        .collect()
}

impl Latency {
    /// The figures of a histogram of nanoseconds.
    #[must_use]
    pub fn of(kind: OperationKind, histogram: &Histogram<u64>) -> Latency {
        Latency {
            kind,
            count: histogram.len(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p95: histogram.value_at_quantile(0.95),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// Counters as the difference to `before`, gauges as they are in `after`.
#[must_use]
pub fn figures_since(before: &[Figure], after: &[Figure]) -> Vec<Figure> {
    let earlier = |name| {
        before
            .iter()
            .find(|figure| figure.name == name)
            .map_or(0, |f| f.value)
    };
    after
        .iter()
        .map(|figure| match figure.kind {
            FigureKind::Gauge => *figure,
            FigureKind::Counter => Figure {
                value: figure.value.saturating_sub(earlier(figure.name)),
                ..*figure
            },
        })
        .collect()
}

/// For each component, the gets that came after `before`.
#[must_use]
pub fn components_since(
    before: &[ComponentSteps],
    after: &[ComponentSteps],
) -> Vec<ComponentSteps> {
    let since = |after: &ComponentSteps| {
        let earlier = before.iter().find(|one| one.component == after.component);
        after.since(earlier)
    };
    after.iter().map(since).collect()
}
