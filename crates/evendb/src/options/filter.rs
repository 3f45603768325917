//! What an application says of each record when it is rewritten anyway: [`CompactionFilter`].
//!
//! Thread safety: several threads may call one filter at once. Not here: when it is called (`merge.rs`).

/// Decides, when a chunk is rewritten, what becomes of each of its records: see
/// [`Keyspace::set_compaction_filter`](crate::Keyspace::set_compaction_filter).
pub trait CompactionFilter: Send + Sync {
    /// What becomes of the record with this key and value.
    ///
    /// It is called by the threads that reorganise, several at once, in no order, for one record any number of times or
    /// never. It must not call the database. Where it panics, the record is kept, and so are those that come behind it in
    /// the same rewrite; [`Stats::compaction_filter_panics`](crate::Stats::compaction_filter_panics) counts that.
    fn filter(&self, key: &[u8], value: &[u8]) -> FilterDecision;
}

/// What a [`CompactionFilter`] decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterDecision {
    /// The record stays as it is.
    Keep,
    /// The record goes.
    Drop,
    /// The record gets this value. If it expires, it does so at the same time.
    Replace(Vec<u8>),
}
