//! The search structure of a chunk's log, and the settings by which it is made. The head of the
//! funk says when there is one.
//!
//! Thread safety: a structure that is published does not change, except that an index grows
//! ([`super::log_index`]). Not here: when it is loaded, made smaller and dropped.

use super::log_filter::PartitionedBloom;
use super::log_index::{LogIndex, Position};
use crate::memory::Ledger;
use crate::options::{LogSearch, Options};
use crate::sync::Arc;
use evendb_storage::key_hash::RamHash;

/// The search structure of the log, once loaded.
pub(crate) enum Search {
    Index(Arc<LogIndex>),
    Bloom(PartitionedBloom),
}

/// The kind of search in the log of new funks, and the size of its sections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchSettings {
    pub(crate) search: LogSearch,
    /// A section that may have the key is read from end to end, as in the paper.
    pub(crate) reads_sections: bool,
    pub(crate) log_bytes_max: u64,
    pub(crate) ledger: Ledger,
}

/// The number of sections of the filter that replaces the index of a cold chunk's log: the paper's
/// number.
pub(super) const FALLBACK_SECTIONS: usize = 16;
/// With fewer records than this an index is smaller than the filter.
pub(super) const FALLBACK_RECORDS_MIN: usize = 64;

impl SearchSettings {
    /// The settings for a database with these options, which charges this ledger.
    pub(crate) fn of(options: &Options, ledger: Ledger) -> SearchSettings {
        SearchSettings {
            search: options.advanced.log_search,
            reads_sections: options.advanced.reads_sections,
            log_bytes_max: options.chunk_bytes_max() / 5,
            ledger,
        }
    }

    pub(crate) fn empty(&self) -> Search {
        match self.search {
            LogSearch::Index => Search::Index(Arc::new(LogIndex::with_capacity(0, self.ledger))),
            LogSearch::Bloom { split_factor } => Search::Bloom(self.filter(split_factor)),
        }
    }

    pub(super) fn filter(&self, sections: usize) -> PartitionedBloom {
        let section_bytes = (self.log_bytes_max / sections as u64).max(1);
        PartitionedBloom::new(sections, section_bytes, self.ledger)
    }
}

impl Search {
    /// This search extended by a run; `keys` has the hashes of its keys and their blocks.
    pub(crate) fn with_run(
        &self,
        run: u32,
        run_bytes: u64,
        keys: &[(RamHash, usize)],
        shared: bool,
    ) -> Search {
        match self {
            Search::Index(index) => {
                let mut index = index.clone();
                let need = index.len() + keys.len();
                if shared {
                    index = Arc::new(index.grown(need));
                }
                for &(hash, block) in keys {
                    let position = Position {
                        run,
                        block: block.min(0xffff) as u16,
                    };
                    while !index.insert(hash, position) {
                        index = Arc::new(index.grown(need));
                    }
                }
                Search::Index(index)
            }
            Search::Bloom(bloom) => {
                let hashes: Vec<RamHash> = keys.iter().map(|&(hash, _)| hash).collect();
                Search::Bloom(bloom.with_run(run, run_bytes, &hashes))
            }
        }
    }

    /// This search after runs `first` to `last` were merged into one with the ordinal `last`;
    /// `keys` has the hashes of its keys and their blocks. `None` if it must be loaded again.
    pub(crate) fn with_merged(
        &self,
        first: u32,
        last: u32,
        keys: &[(RamHash, usize)],
    ) -> Option<Search> {
        let Search::Index(old) = self else {
            return None;
        };
        let index = Arc::new(old.without(first, last, keys.len()));
        Some(Search::Index(index).with_run(last, 0, keys, false))
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Search::Index(index) => index.bytes(),
            Search::Bloom(bloom) => bloom.bytes(),
        }
    }
}
