//! The one small trait that every measured store implements.
//!
//! Contract of an implementation:
//! * all methods may be called from many threads at once;
//! * a `get` or `scan` that starts after a `put` returned sees it;
//! * `scan` yields keys in ascending byte order, each once;
//! * data is lent to closures, so that a store that can read in place pays no copy;
//! * nothing is retried or hidden: an error ends the measurement.

use std::error::Error;
use std::fmt;

use crate::purposes::{
    AppendingStore, BothEndsStore, CountingStore, ExpiringStore, IngestingStore,
};
use crate::transactions::TransactionalStore;

/// What a store reports when an operation fails: which operation, and why.
#[derive(Debug)]
pub struct StoreError {
    operation: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl StoreError {
    /// Wraps the store's own error.
    pub fn new(operation: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            operation,
            source: source.into(),
        }
    }

    /// The name of the trait's method that failed.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.operation, self.source)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// The result of a store's operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// One write of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchWrite<'a> {
    /// Sets a key.
    Put(&'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(&'a [u8]),
}

/// Whether a figure only grows (a phase reports the difference) or is a state (a phase reports the
/// last value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Counts events or bytes since the store was opened.
    Counter,
    /// The state at this moment.
    Gauge,
}

/// The counter of blocks that gets and scans read from storage.
pub const BLOCKS_READ: &str = "blocks.read";
/// The counter of the bytes of [`BLOCKS_READ`].
pub const BLOCKS_READ_BYTES: &str = "blocks.read_bytes";
/// The counter of blocks that gets and scans found in the store's block cache.
pub const BLOCKS_HIT: &str = "blocks.hit";

/// One named figure of a store. Names are dotted (`gets.munk`, `written.user`).
///
/// Names with a meaning to the report: `gets.*` (counters of gets by the component that served
/// them; `gets.munk`, `gets.delta` and `gets.row_cache` are RAM, and `gets.absent` is neither RAM
/// nor disk), `written.user` (bytes handed in), `written.<other>` (bytes the store wrote),
/// `pause.<cause>_nanos_total` (how long operations of all threads waited for that cause),
/// `debt_bytes`, and for a store with a block cache [`BLOCKS_READ`], [`BLOCKS_READ_BYTES`] and
/// [`BLOCKS_HIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The dotted name.
    pub name: &'static str,
    /// The value. If it is no count, the unit is part of the name.
    pub value: u64,
    /// Counter or gauge.
    pub kind: FigureKind,
}

impl Figure {
    /// A counter.
    #[must_use]
    pub fn counter(name: &'static str, value: u64) -> Self {
        Self {
            name,
            value,
            kind: FigureKind::Counter,
        }
    }
}

/// Latencies of the gets that one component of a store answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentSteps {
    /// The component, as in the store's figures `gets.<component>`.
    pub component: &'static str,
    /// Upper ends of steps in nanoseconds, ascending, with the number of gets in each.
    pub steps: Vec<(u64, u64)>,
}

impl ComponentSteps {
    /// The gets that came after `before`, which belongs to the same component.
    #[must_use]
    pub fn since(&self, before: Option<&ComponentSteps>) -> ComponentSteps {
        let earlier = |end: u64| {
            let steps = before.map_or(&[][..], |before| &before.steps);
            let found = steps.iter().find(|step| step.0 == end);
            found.map_or(0, |step| step.1)
        };
        let steps = self.steps.iter();
        let steps = steps.map(|&(end, count)| (end, count.saturating_sub(earlier(end))));
        ComponentSteps {
            component: self.component,
            steps: steps.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// The number of gets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|(_, count)| count).sum()
    }

    /// The end of the step that has this share of the gets at or below it. `None` if there are too
    /// few gets: less than one is expected above it.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count() as f64;
        if count * (1.0 - share) < 1.0 {
            return None;
        }
        let mut seen = 0;
        let found = self.steps.iter().find(|(_, step)| {
            seen += step;
            seen as f64 >= share * count
        });
        found.map(|(end, _)| *end)
    }
}

/// An ordered key-value store under measurement.
pub trait Store: Send + Sync {
    /// The store's name and its settings that matter, for the report.
    fn name(&self) -> String;

    /// Looks a key up. If it is present, lends its value to `check` once and returns `true`.
    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool>;

    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()>;

    /// Removes a key; removing an absent key is no error.
    fn delete(&self, key: &[u8]) -> StoreResult<()>;

    /// Lends up to `limit` records with keys at or after `from`, in order, to `each`, until it
    /// returns `false`. Returns how many were lent.
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize>;

    /// Applies the writes in order, atomically if the store can.
    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()>;

    /// Removes the keys from `low` to below `high` by one write. Not every store has it
    /// ([`crate::opener::Opener::has_range_deletions`]).
    fn delete_range(&self, _low: &[u8], _high: &[u8]) -> StoreResult<()> {
        let message = format!("{} has no range deletions", self.name());
        Err(StoreError::new("delete_range", message))
    }

    /// Its transactions, if it was opened with them.
    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        None
    }

    /// Its counters, if it was opened for them ([`crate::opener::Purpose`]).
    fn counters(&self) -> Option<&dyn CountingStore> {
        None
    }

    /// Its way to take sorted records all at once, if it was opened for that.
    fn sorted_ingest(&self) -> Option<&dyn IngestingStore> {
        None
    }

    /// Its records that expire, if it was opened for them.
    fn expiring(&self) -> Option<&dyn ExpiringStore> {
        None
    }

    /// Its values that are appended to, if it was opened for them.
    fn appending(&self) -> Option<&dyn AppendingStore> {
        None
    }

    /// Its calls at the ends of a range. Not every store has them.
    fn both_ends(&self) -> Option<&dyn BothEndsStore> {
        None
    }

    /// The store's own figures, with the same names in the same order at every call.
    fn stats(&self) -> Vec<Figure>;

    /// Latencies of gets by the component that answered, since the store was opened, if it tells
    /// them. Every call gives the same components in the same order.
    fn get_latencies(&self) -> Vec<ComponentSteps> {
        Vec::new()
    }

    /// Does all postponed work (checkpoints, compactions, reorganisation) and waits for it, so that
    /// a measurement can charge it to the phase that caused it.
    fn settle_debt(&self) -> StoreResult<()>;

    /// Closes the store and reports what a silent drop would hide.
    fn close(self: Box<Self>) -> StoreResult<()>;
}

/// Passes methods of [`Store`](crate::store::Store) on to the store in a field of a wrapper. This
/// is the one place that knows their arguments: `passed_on!(inner: name, get, batch);` within the
/// `impl`.
#[macro_export]
macro_rules! passed_on {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::passed_on!(@one $field $method);)+
    };
    (@one $field:ident name) => {
        fn name(&self) -> String {
            self.$field.name()
        }
    };
    (@one $field:ident get) => {
        fn get(
            &self,
            key: &[u8],
            check: &mut dyn FnMut(&[u8]),
        ) -> $crate::store::StoreResult<bool> {
            self.$field.get(key, check)
        }
    };
    (@one $field:ident put) => {
        fn put(&self, key: &[u8], value: &[u8]) -> $crate::store::StoreResult<()> {
            self.$field.put(key, value)
        }
    };
    (@one $field:ident delete) => {
        fn delete(&self, key: &[u8]) -> $crate::store::StoreResult<()> {
            self.$field.delete(key)
        }
    };
    (@one $field:ident scan) => {
        fn scan(
            &self,
            from: &[u8],
            limit: usize,
            each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> $crate::store::StoreResult<usize> {
            self.$field.scan(from, limit, each)
        }
    };
    (@one $field:ident batch) => {
        fn batch(
            &self,
            writes: &[$crate::store::BatchWrite<'_>],
        ) -> $crate::store::StoreResult<()> {
            self.$field.batch(writes)
        }
    };
    (@one $field:ident stats) => {
        fn stats(&self) -> Vec<$crate::store::Figure> {
            self.$field.stats()
        }
    };
    (@one $field:ident settle_debt) => {
        fn settle_debt(&self) -> $crate::store::StoreResult<()> {
            self.$field.settle_debt()
        }
    };
    (@one $field:ident close) => {
        fn close(self: Box<Self>) -> $crate::store::StoreResult<()> {
            Box::new(self.$field).close()
        }
    };
}
