//! Which part of a chunk's run joins the base instead of the log, so that it is never written
//! again.
//!
//! ```text
//!   base           |--------- S S S S|
//!   log                 . .     .          ..       a few late records, and records of others
//!   the run            |.   .|       |S S S S S S||.|
//!                       log           base         log
//! ```
//!
//! Data often arrives in key order behind one prefix: the events of an application, the messages of
//! a user. Where the chunk was cut behind such a stream ([`crate::rebalance`], growth), the
//! stream's next records lie above all of the base. They join the base as a table of their own.
//! Records among the base's keys go to the log, and so do records above the stream: if they were in
//! the stream's table, that table would reach over the place at which the stream continues. The end
//! of a stream is not known. It is assumed where a key leaves the prefix that the keys of the
//! base's last table share.
//!
//! Invariants: the tables of a base are disjoint and ascending. The log is read before the base, so
//! no key is in the base while an older record of the key is in the log: a table joins only if the
//! log has none of its keys. Either no run's range meets the table's, or the log's index, which
//! misses no key, finds none of them.
//!
//! Thread safety: used by the checkpoint's thread alone. The caller has marked the run as one that
//! may join, so neither base nor log changes. Not here: writing, naming and publishing the tables.

use super::Runs;
use crate::funk::log_index::Candidates;
use crate::funk::{Funk, Search};
use crate::plant::planted;
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::TableMeta;

/// A table smaller than the chunk's limit divided by this number joins only while the base has few
/// such tables: each costs memory, and a read of its own.
const STRETCH_PART: u64 = 640;
const STRETCH_BYTES_MIN: u64 = 1 << 10;
const SMALL_TABLES_MAX: usize = 16;
/// The index is not loaded for this check if the log is larger than a chunk's limit divided by this
/// number.
const LOG_LOADED_PART: u64 = 4;

/// The least bytes of a stretch of records that is a table of its own.
pub(crate) fn stretch_bytes_min(chunk_bytes_max: u64) -> u64 {
    (chunk_bytes_max / STRETCH_PART).max(STRETCH_BYTES_MIN)
}

/// One run beside the base that it may join.
pub(super) struct Joining<'a> {
    of: &'a Runs<'a>,
    funk: &'a Funk,
    /// The greatest key of the base and of the tables that have joined it.
    greatest: Option<Vec<u8>>,
    /// The prefix that the keys of the base's last table share.
    prefix: Vec<u8>,
    /// Whether a table of this run that continues the stream has joined.
    follows: bool,
}

impl<'a> Joining<'a> {
    pub(super) fn new(of: &'a Runs<'a>, funk: &'a Funk) -> Joining<'a> {
        let last = funk.base.last().map(|table| &table.part.meta);
        Joining {
            of,
            funk,
            greatest: last.map(|meta| meta.max_key.clone()),
            prefix: last.map_or(Vec::new(), |meta| shared(&meta.min_key, &meta.max_key)),
            follows: false,
        }
    }

    /// Whether `key` must not be in the table that begins with `first`.
    pub(super) fn parts(&self, first: &[u8], key: &[u8]) -> bool {
        let Some(greatest) = &self.greatest else {
            return false;
        };
        if *first <= **greatest {
            return *key > **greatest;
        }
        first.starts_with(&self.prefix) && !key.starts_with(&self.prefix)
    }

    /// Whether the table joins the base; the next tables are then compared with it. `keys`: hash
    /// and block of each key.
    pub(super) fn takes(&mut self, table: &TableMeta, keys: &[(RamHash, usize)]) -> bool {
        let is_above = self
            .greatest
            .as_ref()
            .is_none_or(|greatest| *greatest < table.min_key);
        let has_prefix = table.min_key.starts_with(&self.prefix);
        let takes = is_above
            && (self.is_large(table) || self.may_be_small(has_prefix))
            && (self.log_has_none(table, keys) || planted!(self.of.core.options, JoinsOverLog));
        if takes {
            self.greatest = Some(table.max_key.clone());
            self.follows |= has_prefix;
        }
        takes
    }

    fn is_large(&self, table: &TableMeta) -> bool {
        table.len >= stretch_bytes_min(self.of.core.options.chunk_bytes_max())
    }

    /// Whether a small table may join. It may while the base has few small tables, if it continues
    /// the stream or if no table of this run has done so.
    fn may_be_small(&self, has_prefix: bool) -> bool {
        let small = self.funk.base.iter();
        let small = small.filter(|table| !self.is_large(&table.part.meta));
        (has_prefix || !self.follows) && small.count() < SMALL_TABLES_MAX
    }

    fn log_has_none(&self, table: &TableMeta, keys: &[(RamHash, usize)]) -> bool {
        let mut runs = self.funk.runs.iter().map(|run| &run.table.part.meta);
        if !runs.any(|run| run.meets(&table.min_key, &table.max_key)) {
            return true;
        }
        let load = self.of.core.options.chunk_bytes_max() / LOG_LOADED_PART;
        let search = match self.funk.search.get() {
            None if self.funk.log_bytes() <= load => {
                self.funk.search(&self.of.core.search_settings).ok()
            }
            search => search,
        };
        // With many keys a filter would nearly always report one by mistake.
        let Some(Search::Index(index)) = search.as_deref() else {
            return false;
        };
        let mut found = Candidates::new();
        keys.iter().all(|&(hash, _)| {
            index.candidates(hash, self.funk.run_end, &mut found);
            found.as_slice().is_empty()
        })
    }
}

/// The prefix that both keys share.
fn shared(a: &[u8], b: &[u8]) -> Vec<u8> {
    let pairs = a.iter().zip(b).take_while(|(a, b)| a == b);
    pairs.map(|(byte, _)| *byte).collect()
}
