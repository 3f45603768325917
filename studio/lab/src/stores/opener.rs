//! What an experiment opens: a store by name, with given memory and durability.

use std::path::Path;
use std::time::Duration;

use crate::store::{Store, StoreError, StoreResult};

/// What an acknowledged put survives, in words that suit every store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Durability {
    /// Nothing for certain: no log, or a log that is written when the store chooses.
    Relaxed,
    /// The end of the process, if the store has such a level. Otherwise the store's default.
    #[default]
    Process,
    /// Power loss.
    Sync,
}

impl Durability {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Durability::Relaxed => "relaxed",
            Durability::Process => "process",
            Durability::Sync => "sync",
        }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Memory that the store may plan with, in bytes. A store with one budget takes it as that;
    /// others divide it among caches and buffers as their documents advise.
    pub memory_bytes: u64,
    /// What a put survives.
    pub durability: Durability,
}

/// An option that an experiment varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The limit in bytes on the log of a chunk that is not in RAM. For a chunk in RAM, ten times
    /// that.
    LogBytes(u64),
    /// Logs are searched by Bloom filters of this number of sections instead of an index.
    BloomSplit(usize),
    /// As `BloomSplit`, but a section that may have the key is read from end to end, as in the
    /// paper.
    BloomLinear(usize),
    /// The bytes of a write buffer of a log-structured merge tree. Sizes of levels and tables that
    /// are options of their own keep the ratio to it that the store's defaults have.
    WriteBufferBytes(u64),
}

impl Variant {
    /// The error that a store has no such option.
    #[must_use]
    pub fn lacked_by(self, store: &str) -> StoreError {
        StoreError::new("open", format!("{store} has no option `{self}`"))
    }

    /// The bytes of a write buffer, for a store that has no other of these options.
    ///
    /// # Errors
    /// It asks for something else.
    pub fn write_buffer(self, store: &str) -> StoreResult<u64> {
        match self {
            Variant::WriteBufferBytes(bytes) => Ok(bytes),
            _ => Err(self.lacked_by(store)),
        }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Variant::LogBytes(bytes) => write!(f, "log {}", crate::readable::bytes(*bytes)),
            Variant::BloomSplit(sections) => write!(f, "bloom {sections}"),
            Variant::BloomLinear(sections) => write!(f, "bloom {sections}, read from end to end"),
            Variant::WriteBufferBytes(bytes) => {
                write!(f, "write buffer {}", crate::readable::bytes(*bytes))
            }
        }
    }
}

/// How long a put stays, by a clock that may run faster than the real one: a test of an hour need
/// not take an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    /// The time to live, by the clock.
    pub ttl: Duration,
    /// The speed of the clock as a multiple of real time.
    pub speed: f64,
}

impl Lifetime {
    /// The time to live in real time.
    #[must_use]
    pub fn real(&self) -> Duration {
        self.ttl.div_f64(self.speed)
    }
}

/// The purpose of a store, if it needs more than puts, gets and scans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Purpose {
    /// Counters that are added to ([`Store::counters`]).
    Counters,
    /// Sorted records that come all at once ([`Store::sorted_ingest`]).
    Ingest,
    /// Values that lie apart from their keys, if they have at least this number of bytes. The store
    /// has the usual calls.
    ValuesApart(u64),
    /// Records that expire ([`Store::expiring`]).
    Expiry(Lifetime),
    /// Values that are appended to ([`Store::appending`]).
    Appends,
}

impl Purpose {
    /// The words in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Counters => "counters",
            Purpose::Ingest => "sorted ingest",
            Purpose::ValuesApart(_) => "values apart from their keys",
            Purpose::Expiry(_) => "expiry",
            Purpose::Appends => "appends",
        }
    }
}

/// One way to open a store.
pub trait Opener: Sync {
    /// The name by which a user chooses it.
    fn name(&self) -> &'static str;

    /// Why it cannot be opened on this machine, and what helps. `None` if it can. A run leaves such
    /// a store out and says so.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Whether it takes part only if a user names it.
    fn only_if_named(&self) -> bool {
        false
    }

    /// Whether the stores that it opens have transactions ([`Store::transactions`]).
    fn has_transactions(&self) -> bool {
        false
    }

    /// Whether the stores that it opens delete ranges ([`Store::delete_range`]).
    fn has_range_deletions(&self) -> bool {
        false
    }

    /// Opens, or creates, the store in `directory`, which exists.
    ///
    /// # Errors
    /// The store's own, or that it does not offer what `settings` ask for.
    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>>;

    /// Opens, or creates, the store in `directory` with one option changed.
    ///
    /// # Errors
    /// The store's own, or that it has no such option.
    fn open_variant(
        &self,
        _directory: &Path,
        _settings: &Settings,
        variant: Variant,
    ) -> StoreResult<Box<dyn Store>> {
        Err(variant.lacked_by(self.name()))
    }

    /// Whether it opens a store for this purpose.
    fn serves(&self, _purpose: Purpose) -> bool {
        false
    }

    /// Whether it is the opener of a store that keeps values with their keys, and another opener of
    /// the same store keeps large values apart ([`Purpose::ValuesApart`]): the two are measured
    /// beside each other.
    fn measured_beside_values_apart(&self) -> bool {
        false
    }

    /// Opens, or creates, the store in `directory` for a purpose.
    ///
    /// # Errors
    /// The store's own, or that it does not serve the purpose.
    fn open_for(
        &self,
        _directory: &Path,
        _settings: &Settings,
        purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        let message = format!("{} has no {}", self.name(), purpose.name());
        Err(StoreError::new("open", message))
    }

    /// The memory that the store is told to plan with, when a hard limit of `limit_bytes` holds for
    /// the process and its page cache: all of it, since stores usually divide it by themselves.
    fn memory_within(&self, limit_bytes: u64) -> u64 {
        limit_bytes
    }
}
