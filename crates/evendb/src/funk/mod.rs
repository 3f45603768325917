//! The funk: a chunk on disk. A sorted base (one SSTable, or several disjoint ones where data
//! arrived in key order) and a log of sorted runs, newest last, found through a log index or the
//! paper's partitioned Bloom filter.
//!
//! ```text
//! base   [ table ][ table ][ table ]        disjoint, ascending
//! log    [run 3][run 4][run 5]  | run_end=6 every run newer than the base, later runs newer
//! search LogIndex: hash -> (run, block)     built on first use, extended by checkpoints
//! ```
//!
//! A `Funk` is immutable but for its lazily loaded search structure; a checkpoint, rebalance or
//! split publishes a new one in a new view. Reads do I/O, so no pin is held across them.

pub(crate) mod container;
pub(crate) mod extents;
pub(crate) mod log_index;
pub(crate) mod tables;

use crate::error::Result;
use crate::metrics::{Component, Metrics};
use crate::options::LogSearch;
use crate::sync::Arc;
use crate::sync::once::OnceArc;
use evendb_storage::table::Found;
use evendb_storage::{Kind, Version};
use log_index::{Candidates, LogIndex, PartitionedBloom, Position};
use tables::TableHandle;

/// A run of the log.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) ordinal: u32,
    pub(crate) table: Arc<TableHandle>,
}

/// How the log is searched, once loaded.
pub(crate) enum Search {
    Index(Arc<LogIndex>),
    Bloom(PartitionedBloom),
}

/// A chunk on disk.
pub(crate) struct Funk {
    /// Disjoint, ascending by key.
    pub(crate) base: Vec<Arc<TableHandle>>,
    /// Ascending by ordinal.
    pub(crate) runs: Vec<Run>,
    /// All runs have lower ordinals; the next one gets this.
    pub(crate) run_end: u32,
    /// Loaded on first use; published by compare-and-swap, duplicates dropped.
    pub(crate) search: OnceArc<Search>,
    /// The log index belongs to another funk too (after a split): it is copied before it grows.
    pub(crate) search_shared: bool,
}

/// How the log of new funks is searched, and how large its sections are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchSettings {
    pub(crate) search: LogSearch,
    pub(crate) log_bytes_max: u64,
}

impl SearchSettings {
    pub(crate) fn empty(&self) -> Search {
        match self.search {
            LogSearch::Index => Search::Index(Arc::new(LogIndex::with_capacity(0))),
            LogSearch::Bloom { split_factor } => Search::Bloom(PartitionedBloom::new(
                split_factor,
                (self.log_bytes_max / split_factor as u64).max(1),
            )),
        }
    }
}

impl Search {
    /// This search extended by a run whose keys hash and lie as `keys` say.
    pub(crate) fn with_run(
        &self,
        run: u32,
        run_bytes: u64,
        keys: &[(u64, usize)],
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
                let hashes: Vec<u64> = keys.iter().map(|&(hash, _)| hash).collect();
                Search::Bloom(bloom.with_run(run, run_bytes, &hashes))
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Search::Index(index) => index.bytes(),
            Search::Bloom(bloom) => bloom.bytes(),
        }
    }
}

impl Funk {
    pub(crate) fn new(
        base: Vec<Arc<TableHandle>>,
        runs: Vec<Run>,
        run_end: u32,
        settings: &SearchSettings,
    ) -> Funk {
        let search = OnceArc::new();
        if runs.is_empty() {
            search.set(Arc::new(settings.empty()));
        }
        Funk {
            base,
            runs,
            run_end,
            search,
            search_shared: false,
        }
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.table.part_len()).sum()
    }

    pub(crate) fn base_bytes(&self) -> u64 {
        self.base.iter().map(|table| table.part_len()).sum()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.base
            .iter()
            .chain(self.runs.iter().map(|run| &run.table))
    }

    fn run(&self, ordinal: u32) -> Option<&Run> {
        let at = self
            .runs
            .binary_search_by_key(&ordinal, |run| run.ordinal)
            .ok()?;
        self.runs.get(at)
    }

    /// The log's search structure, loading it from the runs on first use.
    pub(crate) fn search(&self, settings: &SearchSettings) -> Result<Arc<Search>> {
        if let Some(search) = self.search.get() {
            return Ok(search);
        }
        let mut search = settings.empty();
        for run in &self.runs {
            let mut keys = Vec::new();
            run.table
                .open()?
                .for_each_hash(&mut |hash, block| keys.push((hash, block)))?;
            search = search.with_run(run.ordinal, run.table.part_len(), &keys, false);
        }
        Ok(self.search.set(Arc::new(search)))
    }

    /// Newest record of `key` with version at most `at`: log from its end backwards, then base.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        at: Version,
        settings: &SearchSettings,
        metrics: &Metrics,
    ) -> Result<Option<(Component, Found)>> {
        if !self.runs.is_empty()
            && let Some(found) = self.get_from_log(key, hash, at, settings, metrics)?
        {
            return Ok(Some((Component::Log, found)));
        }
        let after = self
            .base
            .partition_point(|table| *table.part.meta.min_key <= *key);
        let Some(table) = after.checked_sub(1).map(|index| &self.base[index]) else {
            return Ok(None);
        };
        if *table.part.meta.max_key < *key {
            return Ok(None);
        }
        let table = table.open()?;
        if !table.may_contain(hash) {
            return Ok(None);
        }
        let Some(block) = table.block_for(key) else {
            return Ok(None);
        };
        metrics.block_reads.add(1);
        let found = table.get_from_block(block, key, at)?;
        if let Some(found) = &found {
            metrics.bytes_read.add(found.block.bytes().len() as u64);
        }
        Ok(found.map(|found| (Component::Sstable, found)))
    }

    fn get_from_log(
        &self,
        key: &[u8],
        hash: u64,
        at: Version,
        settings: &SearchSettings,
        metrics: &Metrics,
    ) -> Result<Option<Found>> {
        let read = |run: &Run, block: Option<usize>| -> Result<Option<Found>> {
            let table = run.table.open()?;
            let Some(block) = block.or_else(|| table.block_for(key)) else {
                return Ok(None);
            };
            metrics.block_reads.add(1);
            let found = table.get_from_block(block, key, at)?;
            if let Some(found) = &found {
                metrics.bytes_read.add(found.block.bytes().len() as u64);
            }
            Ok(found)
        };
        match &*self.search(settings)? {
            Search::Index(index) => {
                let mut candidates = Candidates::default();
                index.candidates(hash, self.run_end, &mut candidates);
                for position in candidates.iter() {
                    let Some(run) = self.run(position.run) else {
                        continue;
                    };
                    // A saturated ordinal stands for "there or later".
                    let block = (position.block < u16::MAX).then_some(position.block.into());
                    if let Some(found) = read(run, block)? {
                        return Ok(Some(found));
                    }
                }
            }
            Search::Bloom(bloom) => {
                let mut runs = Vec::new();
                bloom.candidates(hash, self.run_end, &mut runs);
                for run in runs.into_iter().filter_map(|ordinal| self.run(ordinal)) {
                    if let Some(found) = read(run, None)? {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// What a found record means for a get: its bytes, or none for a tombstone.
pub(crate) fn value_of(found: Found) -> Option<crate::value::Value> {
    match found.kind {
        Kind::Delete => None,
        Kind::Put => Some(crate::value::Value::new(
            crate::value::Owner::Block(found.block),
            found.value,
        )),
    }
}
