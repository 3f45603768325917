//! What one thread notes while it works: latencies by kind of operation, bytes, and faults.
//!
//! A recorder belongs to one thread; the driver merges them when the threads have ended. They share
//! only the counter of finished operations, which the driver's sampler reads.
//!
//! In an open loop a step has an intended start. The latency of its first operation counts from
//! there. The latency of a further operation counts from its own start, since it could not be asked
//! for earlier.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::arrivals::Clock;
use crate::store::{StoreError, StoreResult};

/// The kinds of operation that have their own latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A point read.
    Get,
    /// An overwrite or an insertion.
    Put,
    /// A range read.
    Scan,
    /// A get and a put of the same key, timed together (each is counted on its own too).
    ReadModifyWrite,
    /// A transaction, from its first attempt until it is committed.
    Transaction,
    /// An addition to a counter, without reading it.
    Merge,
    /// A removal.
    Delete,
}

impl OperationKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Put,
        Self::Scan,
        Self::ReadModifyWrite,
        Self::Transaction,
        Self::Merge,
        Self::Delete,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Transaction => "transaction",
            Self::Merge => "merge",
            Self::Delete => "delete",
        }
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum RunError {
    /// The store reported an error.
    Store(StoreError),
    /// The store answered wrongly; the text says which key and how.
    Wrong(String),
    /// The work could not be read; the text says what and why.
    Input(String),
    /// The work is damaged; the text says what and where.
    Damaged(String),
    /// A worker thread panicked.
    Panicked,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the store failed: {error}"),
            Self::Wrong(what) => write!(f, "the store answered wrongly: {what}"),
            Self::Input(what) => write!(f, "the input cannot be read: {what}"),
            Self::Damaged(what) => write!(f, "the input is damaged: {what}"),
            Self::Panicked => f.write_str("a worker thread panicked"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl RunError {
    /// The same error for what was read from this file or written to it: the text begins with the
    /// name of the file.
    #[must_use]
    pub fn of_file(self, path: &Path) -> RunError {
        let named = |what: String| format!("{}: {what}", path.display());
        match self {
            Self::Input(what) => Self::Input(named(what)),
            Self::Damaged(what) => Self::Damaged(named(what)),
            other => other,
        }
    }
}

impl From<evendb_trace::Error> for RunError {
    fn from(error: evendb_trace::Error) -> Self {
        match error.kind() {
            evendb_trace::ErrorKind::Damaged => Self::Damaged(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The largest latency that is distinguished, in nanoseconds: ten minutes. Longer ones count as
/// this.
const LATENCY_NANOS_MAX: u64 = 600_000_000_000;

/// A thread's count of finished operations, alone on its cache lines (two, since CPUs prefetch the
/// neighbour), so that counting does not slow other threads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct FinishedCounter(AtomicU64);

impl FinishedCounter {
    /// The count. (Relaxed, as is the increment: the sampler needs a recent number only, and the
    /// final one is read after the threads were joined.)
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thread's notes.
pub struct Recorder {
    histograms: [Option<Histogram<u64>>; OperationKind::ALL.len()],
    /// Bytes of keys and values handed to the store.
    pub user_bytes_written: u64,
    /// Bytes of keys and values the store handed back.
    pub user_bytes_read: u64,
    /// Records that scans returned.
    pub records_scanned: u64,
    finished: Arc<FinishedCounter>,
    clock: Clock,
    /// The intended start of the step, until its first operation has been timed.
    intended: Option<Instant>,
}

impl Recorder {
    /// Empty notes that count finished operations in `finished`.
    #[must_use]
    pub fn new(finished: Arc<FinishedCounter>) -> Self {
        Self::with_clock(finished, Clock::default())
    }

    /// Empty notes that count finished operations in `finished`, timed by a given clock.
    #[must_use]
    pub fn with_clock(finished: Arc<FinishedCounter>, clock: Clock) -> Self {
        Self {
            histograms: std::array::from_fn(|_| None),
            user_bytes_written: 0,
            user_bytes_read: 0,
            records_scanned: 0,
            finished,
            clock,
            intended: None,
        }
    }

    /// Says when the next step should start, if it has a certain time.
    pub fn intend(&mut self, start: Option<Instant>) {
        self.intended = start;
    }

    /// When the step began: the intended start, or now. For a worker that times several operations
    /// as one and asks before the first.
    #[must_use]
    pub fn begin(&self) -> Instant {
        self.intended.unwrap_or_else(|| self.clock.now())
    }

    /// Notes the time since `start`, which [`Recorder::begin`] returned.
    pub fn record_since(&mut self, kind: OperationKind, start: Instant) {
        let nanos = (self.clock.now() - start).as_nanos() as u64;
        self.record(kind, nanos);
    }

    /// Runs and times one operation of the store.
    ///
    /// # Errors
    /// The operation's own; a failed operation is not recorded.
    pub fn time<T>(
        &mut self,
        kind: OperationKind,
        operation: impl FnOnce() -> StoreResult<T>,
    ) -> Result<T, RunError> {
        let start = self.begin();
        self.intended = None;
        let result = operation()?;
        self.record_since(kind, start);
        Ok(result)
    }

    /// Notes a latency that was measured elsewhere.
    pub fn record(&mut self, kind: OperationKind, nanos: u64) {
        self.histograms[kind as usize]
            .get_or_insert_with(new_histogram)
            .saturating_record(nanos.max(1));
    }

    /// Counts one step of the workload as finished.
    pub fn finish_step(&self) {
        self.finished.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The latencies of one kind, if there were any.
    #[must_use]
    pub fn histogram(&self, kind: OperationKind) -> Option<&Histogram<u64>> {
        self.histograms[kind as usize].as_ref()
    }

    /// Adds another thread's notes to these.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            if let Some(theirs) = theirs {
                let ours = ours.get_or_insert_with(new_histogram);
                ours.add(theirs)
                    .expect("histograms of the same bounds can be added");
            }
        }
        self.user_bytes_written += other.user_bytes_written;
        self.user_bytes_read += other.user_bytes_read;
        self.records_scanned += other.records_scanned;
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("the bounds are valid constants")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_notes_hold_both() {
        let counter = Arc::new(FinishedCounter::default());
        let (mut first, mut second) = (
            Recorder::new(counter.clone()),
            Recorder::new(counter.clone()),
        );
        first.record(OperationKind::Get, 100);
        second.record(OperationKind::Get, 300);
        second.record(OperationKind::Put, u64::MAX);
        second.user_bytes_read = 7;
        first.finish_step();
        second.finish_step();
        first.merge(&second);
        assert_eq!(first.histogram(OperationKind::Get).unwrap().len(), 2);
        assert_eq!(first.histogram(OperationKind::Put).unwrap().len(), 1);
        assert!(first.histogram(OperationKind::Scan).is_none());
        assert_eq!((first.user_bytes_read, counter.get()), (7, 2));
    }

    #[test]
    fn failed_operations_are_not_timed() {
        let mut recorder = Recorder::new(Arc::default());
        let failed = recorder.time(OperationKind::Get, || {
            Err::<(), _>(StoreError::new("get", "broken"))
        });
        assert!(failed.unwrap_err().to_string().contains("broken"));
        assert!(recorder.histogram(OperationKind::Get).is_none());
    }
}
