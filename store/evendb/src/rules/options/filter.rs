//! The application's decision about each record that is rewritten anyway: [`CompactionFilter`].
//!
//! Thread safety: several threads may call one filter at once. Not here: when it is called
//! (`merge.rs`).

/// Decides about each record of a chunk when the chunk is rewritten: see
/// [`Keyspace::set_compaction_filter`](crate::Keyspace::set_compaction_filter).
pub trait CompactionFilter: Send + Sync {
    /// Decides about the record with this key and value.
    ///
    /// The threads that reorganise call it, several at once, in no order, and for one record any
    /// number of times or never. It must not call the database. If it panics, the record is kept,
    /// and so are the records that come after it in the same rewrite;
    /// [`Stats::compaction_filter_panics`](crate::Stats::compaction_filter_panics) counts that.
    fn filter(&self, key: &[u8], value: &[u8]) -> FilterDecision;
}

/// The decision of a [`CompactionFilter`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// The record stays as it is.
    Keep,
    /// The record is removed.
    Drop,
    /// The record gets this value. If it expires, it does so at the same time.
    Replace(Vec<u8>),
}
