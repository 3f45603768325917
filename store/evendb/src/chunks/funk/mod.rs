//! The funk: a chunk on disk. It has a sorted base (one SSTable, or several disjoint ones where
//! data arrived in key order) and a log of sorted runs, newest last. Records in the log are found
//! through a log index or the paper's partitioned Bloom filter.
//!
//! ```text
//! base   [ table ][ table ][ table ]        disjoint, ascending
//! log    [run 3][run 4][run 5]  | run_end=6 every run newer than the base, later runs newer
//! search LogIndex: hash -> (run, block)     begun with the log, extended by checkpoints
//! ```
//! In a keyspace of guards the one chunk has a tree of guards in place of the base (`tree/mod.rs`),
//! and the runs are its level 0. A reader sees both alike: **chains** of disjoint tables, the
//! newest chain first. A base is one chain; a tree has one for each run of its guards.
//!
//! After an opening there is no search structure, and reading all keys of a log again may read all
//! of the log. So a get asks the runs themselves then, newest first: an open run tells without a
//! read whether it may have the key, by its index or by a filter. Only runs that cannot tell
//! (earlier versions wrote such runs) make the get load the structure.
//!
//! A `Funk` is immutable except its lazily loaded search structure; a checkpoint, rebalance or
//! split publishes a new one in a new view. Reads do I/O, so no pin is held across them.
//!
//! The search structure can be made smaller, and dropped, at any time. When all of them together
//! are above their share of memory, the structure of a chunk that is not read becomes a Bloom
//! filter, made of the index. If that is not enough, it is dropped, and the next get reads the
//! log's keys again.

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod chosen_keys;
pub(crate) mod log_filter;
pub(crate) mod log_index;
mod search;

use crate::error::Result;
use crate::expiry::ReadTime;
use crate::guards::tree::{Fragment, Tree};
use crate::manifest::GuardSet;
use crate::manifest::edit::{Part, Role};
use crate::metrics::{Component, Metrics};
use crate::options::LogSearch;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lazy::LazyArc;
use crate::tables::TableHandle;
use crate::value::{Owner, Value};
use crate::visibility::{Candidate, live, try_decide};
use evendb_storage::key_hash::{FilterHash, RamHash};
use evendb_storage::table::{Found, Table};
use evendb_storage::{Kind, Version};
use log_index::Candidates;
use search::{FALLBACK_RECORDS_MIN, FALLBACK_SECTIONS};
pub(crate) use search::{Search, SearchSettings};
use smallvec::SmallVec;

/// A run of the log.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) ordinal: u32,
    pub(crate) table: Arc<TableHandle>,
}

/// Sums over the tables of a funk.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) records: u64,
    /// Bytes of keys and values.
    pub(crate) data_bytes: u64,
    /// Bytes of keys and values of each chain.
    pub(crate) of_chains: SmallVec<[u64; 1]>,
}

/// A chunk on disk.
pub(crate) struct Funk {
    /// Disjoint, ascending by key. Empty where there is a tree.
    pub(crate) base: Vec<Arc<TableHandle>>,
    /// The tree of guards, in a keyspace of guards.
    pub(crate) tree: Option<Arc<Tree>>,
    /// Ascending by ordinal.
    pub(crate) runs: Vec<Run>,
    /// All runs have lower ordinals; the next run gets this one.
    pub(crate) run_end: u32,
    /// No record of the funk has a greater version. The same holds for a record in a munk of this
    /// funk that is newer than a range deletion of the view.
    pub(crate) max_version: Version,
    /// Sums over its tables, for seeks, which would not add them up each time.
    pub(crate) sums: Sums,
    /// Loaded on use; published by compare-and-swap, duplicates dropped.
    pub(crate) search: LazyArc<Search>,
    /// Used since the last search for memory to free.
    pub(crate) searched: AtomicBool,
    /// The log index also belongs to another funk (after a split): it is copied before it grows.
    pub(crate) search_shared: bool,
}

impl Funk {
    pub(crate) fn new(base: Vec<Arc<TableHandle>>, runs: Vec<Run>, run_end: u32) -> Funk {
        Funk {
            base,
            ..Funk::of_log(runs, run_end)
        }
        .counted()
    }

    /// The funk of a chunk with guards.
    pub(crate) fn guarded(tree: Arc<Tree>, runs: Vec<Run>, run_end: u32) -> Funk {
        Funk {
            tree: Some(tree),
            ..Funk::of_log(runs, run_end)
        }
        .counted()
    }

    /// A funk without tables; with these guards in a keyspace of guards.
    pub(crate) fn empty(guards: Option<&GuardSet>) -> Funk {
        match guards {
            Some(guards) => {
                let tree = Tree::default().with_seed(guards.seed);
                Funk::guarded(Arc::new(tree), Vec::new(), 0)
            }
            None => Funk::new(Vec::new(), Vec::new(), 0),
        }
    }

    /// The funk of these parts of a chunk, with these guards in a keyspace of guards. The error
    /// says what contradicts what.
    pub(crate) fn of_parts(
        parts: &[Part],
        guards: Option<&GuardSet>,
        run_end: u32,
        acquire: &dyn Fn(&Part) -> Arc<TableHandle>,
    ) -> std::result::Result<Funk, &'static str> {
        let (mut base, mut fragments, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let table = acquire(part);
            match part.role {
                Role::Base => base.push(table),
                Role::Run { ordinal } => runs.push(Run { ordinal, table }),
                Role::Fragment { level, age } => fragments.push((level, Fragment { age, table })),
            }
        }
        base.sort_by(|a, b| a.part.meta.min_key.cmp(&b.part.meta.min_key));
        runs.sort_by_key(|run| run.ordinal);
        match guards {
            Some(_) if !base.is_empty() => Err("a table of a base in a chunk with guards"),
            Some(guards) => {
                let tree = Tree::of_parts(fragments, guards.keys.clone())?;
                Ok(Funk::guarded(
                    Arc::new(tree.with_seed(guards.seed)),
                    runs,
                    run_end,
                ))
            }
            None if !fragments.is_empty() => Err("a table of a guard in a chunk without guards"),
            None => Ok(Funk::new(base, runs, run_end)),
        }
    }

    /// Its tables, as the manifest has them for this chunk.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let base = self.base.iter().map(|table| (table, Role::Base));
        let tree = self.tree.iter().flat_map(|tree| tree.fragments());
        let fragments = tree.map(|(level, fragment)| {
            let age = fragment.age;
            (&fragment.table, Role::Fragment { level, age })
        });
        let runs = self.runs.iter().map(|run| {
            let ordinal = run.ordinal;
            (&run.table, Role::Run { ordinal })
        });
        let all = base.chain(fragments).chain(runs);
        all.map(|(table, role)| Part {
            role,
            ..table.part.clone()
        })
        .collect()
    }

    /// Its guards, as the manifest has them.
    pub(crate) fn guard_set(&self) -> Option<GuardSet> {
        self.tree.as_ref().map(|tree| tree.guard_set())
    }

    /// This funk with another log.
    pub(crate) fn with_log(&self, runs: Vec<Run>, run_end: u32) -> Funk {
        match &self.tree {
            Some(tree) => Funk::guarded(tree.clone(), runs, run_end),
            None => Funk::new(self.base.clone(), runs, run_end),
        }
    }

    fn of_log(runs: Vec<Run>, run_end: u32) -> Funk {
        Funk {
            max_version: Version::ZERO,
            sums: Sums::default(),
            base: Vec::new(),
            tree: None,
            runs,
            run_end,
            search: LazyArc::new(),
            searched: AtomicBool::new(false),
            search_shared: false,
        }
    }

    /// The funk with the greatest version of its tables.
    pub(crate) fn counted(mut self) -> Funk {
        let newest = self.tables().map(|table| table.max_version()).max();
        self.max_version = newest.unwrap_or(Version::ZERO);
        let bytes_of = |table: &Arc<TableHandle>| table.part.meta.data_bytes;
        self.sums = Sums {
            records: self.tables().map(|table| table.part.meta.entries).sum(),
            data_bytes: self.tables().map(bytes_of).sum(),
            of_chains: self
                .chains()
                .map(|chain| chain.iter().map(bytes_of).sum())
                .collect(),
        };
        self
    }

    /// Whether its chunk has guards.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.tree.is_some()
    }

    /// Lists of disjoint tables, ascending by key, the newest list first. They are all older than
    /// the runs.
    #[inline]
    pub(crate) fn chains(&self) -> impl DoubleEndedIterator<Item = &[Arc<TableHandle>]> {
        (0..self.chain_count()).map(|chain| self.chain(chain))
    }

    pub(crate) fn chain_count(&self) -> usize {
        self.tree.as_ref().map_or(1, |tree| tree.chains().len())
    }

    /// The chain with this number; it has no tables if there is none.
    #[inline]
    pub(crate) fn chain(&self, chain: usize) -> &[Arc<TableHandle>] {
        match &self.tree {
            Some(tree) => tree.chains().get(chain).map_or(&[], |chain| chain),
            None => &self.base,
        }
    }

    /// The tables below the log.
    pub(crate) fn below_log(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.chains().flatten()
    }

    /// The contradiction in the order of base and log, if there is one. At opening, a contradiction
    /// is damage; elsewhere it is a bug.
    pub(crate) fn fault(&self) -> Option<String> {
        let ends_before = |left: &Arc<TableHandle>, right: &Arc<TableHandle>| {
            left.part.meta.max_key < right.part.meta.min_key
        };
        if !self.base.is_sorted_by(ends_before) {
            return Some("two tables of the base overlap".into());
        }
        if !self
            .runs
            .is_sorted_by(|left, right| left.ordinal < right.ordinal)
        {
            return Some("two runs of the log have one number".into());
        }
        let last = self.runs.last()?;
        (last.ordinal >= self.run_end).then(|| "a run lies beyond the end of the log".into())
    }

    /// The number of sorted runs of its log.
    pub(crate) fn sorted_runs(&self) -> usize {
        let runs = self.runs.chunk_by(|a, b| {
            let (a, b) = (a.table.part.checkpoint, b.table.part.checkpoint);
            a > 0 && a == b
        });
        runs.count()
    }

    /// Whether its log has at least `count` sorted runs. The tables that one checkpoint wrote are
    /// one run: they are disjoint, so a scan reads one of them at a time.
    pub(crate) fn has_sorted_runs(&self, count: usize) -> bool {
        // A log of fewer tables has fewer runs, and its tables are not looked at.
        self.runs.len() >= count && self.sorted_runs() >= count
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.table.part_len()).sum()
    }

    pub(crate) fn base_bytes(&self) -> u64 {
        self.below_log().map(|table| table.part_len()).sum()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        let runs = self.runs.iter().map(|run| &run.table);
        self.below_log().chain(runs)
    }

    /// Whether a search in it reads nothing.
    pub(crate) fn has_no_tables(&self) -> bool {
        self.tables().next().is_none()
    }

    fn run(&self, ordinal: u32) -> Option<&Run> {
        let at = self
            .runs
            .binary_search_by_key(&ordinal, |run| run.ordinal)
            .ok()?;
        self.runs.get(at)
    }

    /// The log's search structure; loads it from the runs on first use.
    pub(crate) fn search(&self, settings: &SearchSettings) -> Result<Arc<Search>> {
        if let Some(search) = self.search.get() {
            // Stored only if needed: other threads read this cache line.
            if !self.searched.load(Ordering::Relaxed) {
                self.searched.store(true, Ordering::Relaxed);
            }
            return Ok(search);
        }
        let mut search = settings.empty();
        self.runs.iter().for_each(|run| run.table.will_open());
        for run in &self.runs {
            let mut keys = Vec::new();
            run.table
                .open()?
                .for_each_hash(&mut |hash, block| keys.push((hash, block)))?;
            search = search.with_run(run.ordinal, run.table.part_len(), &keys, false);
        }
        let search = self.smaller(&search, settings).unwrap_or(search);
        Ok(self.search.set(Arc::new(search)))
    }

    /// The search structure to which a checkpoint adds its runs; none if it is not loaded, and none
    /// in a chunk with guards: its runs are few and tell their keys themselves.
    pub(crate) fn extensible_search(&self, settings: &SearchSettings) -> Option<Arc<Search>> {
        if self.is_guarded() {
            return None;
        }
        let loaded = self.search.get();
        loaded.or_else(|| self.runs.is_empty().then(|| Arc::new(settings.empty())))
    }

    /// A search that takes less memory than this one, while memory for searches is short.
    fn smaller(&self, search: &Search, settings: &SearchSettings) -> Option<Search> {
        if !settings.ledger.searches_are_short() {
            return None;
        }
        match search {
            Search::Index(index) if index.len() >= FALLBACK_RECORDS_MIN => {
                let runs = self.runs.iter();
                let runs = runs.map(|run| (run.ordinal, run.table.part_len()));
                let filter = settings.filter(FALLBACK_SECTIONS);
                Some(Search::Bloom(filter.of_index(index, runs, self.run_end)))
            }
            _ => None,
        }
    }

    /// Makes the search structure smaller, or drops it. With `harder` it does so even if the
    /// structure was used lately or cannot be made smaller. Returns the approximate bytes saved.
    pub(crate) fn shrink_search(&self, settings: &SearchSettings, harder: bool) -> usize {
        let used = self.searched.swap(false, Ordering::Relaxed);
        if used && !harder {
            return 0;
        }
        let Some(search) = self.search.get() else {
            return 0;
        };
        let before = search.bytes();
        match self.smaller(&search, settings) {
            Some(smaller) if smaller.bytes() < before => {
                let after = smaller.bytes();
                match self.search.replace(&search, Arc::new(smaller)) {
                    true => before - after,
                    false => 0,
                }
            }
            _ if harder && !used => self.search.clear().map_or(0, |_| before),
            _ => 0,
        }
    }

    /// Drops a filter that replaces an index and is used, so that the index is loaded again.
    /// Returns whether it did.
    pub(crate) fn restore_search(&self, settings: &SearchSettings) -> bool {
        let fallback = settings.search == LogSearch::Index
            && self.searched.load(Ordering::Relaxed)
            && matches!(self.search.get().as_deref(), Some(Search::Bloom(_)));
        fallback && self.search.clear().is_some()
    }

    /// The newest record of `key` with a version of at most `at`: first from the log, from its end
    /// backwards, then from the base. `metrics` count the reads of a get.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: RamHash,
        at: Version,
        settings: &SearchSettings,
        metrics: Option<&Metrics>,
    ) -> Result<Option<(Component, Found)>> {
        if let Some(found) = self.get_from_log(key, hash, at, settings, metrics)? {
            return Ok(Some((Component::Log, found)));
        }
        let found = self.get_from_base(key, at, metrics)?;
        Ok(found.map(|found| (Component::Sstable, found)))
    }

    fn get_from_base(
        &self,
        key: &[u8],
        at: Version,
        metrics: Option<&Metrics>,
    ) -> Result<Option<Found>> {
        let filter = FilterHash::of(key);
        try_decide(self.tables_below_for(key).map(|table| {
            let table = table.open()?;
            if !table.may_contain(filter) {
                return Ok(None);
            }
            let Some(block) = table.block_for(key) else {
                return Ok(None);
            };
            let found = table.get_from_block(block, key, at)?;
            count_read(metrics, found.as_ref());
            Ok(found)
        }))
    }

    /// The tables below the log in which the key may lie, as far as their least and greatest keys
    /// tell, newest first.
    fn tables_below_for(&self, key: &[u8]) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.chains().filter_map(|chain| {
            let after = chain.partition_point(|table| *table.part.meta.min_key <= *key);
            let table = &chain[after.checked_sub(1)?];
            (*key <= *table.part.meta.max_key).then_some(table)
        })
    }

    /// The runs in which the key may lie, as far as their least and greatest keys tell, newest
    /// first.
    fn runs_around(&self, key: &[u8]) -> impl Iterator<Item = &Run> {
        let runs = self.runs.iter().rev();
        runs.filter(move |run| run.table.part.meta.meets(key, key))
    }

    /// The runs that may have the key, open, newest first; `None` if one of them does not tell
    /// without a read whether it has the key.
    fn telling_runs(&self, key: &[u8]) -> Result<Option<SmallVec<[Arc<Table>; 8]>>> {
        // The disk reads all their ends at once.
        self.runs_around(key).for_each(|run| run.table.will_open());
        let mut open = SmallVec::new();
        for run in self.runs_around(key) {
            let table = run.table.open()?;
            if !table.tells_keys() {
                return Ok(None);
            }
            open.push(table);
        }
        Ok(Some(open))
    }

    fn get_from_log(
        &self,
        key: &[u8],
        hash: RamHash,
        at: Version,
        settings: &SearchSettings,
        metrics: Option<&Metrics>,
    ) -> Result<Option<Found>> {
        if self.runs.is_empty() {
            return Ok(None);
        }
        let read = |table: &Table, block: Option<usize>| -> Result<Option<Found>> {
            let Some(block) = block.or_else(|| table.block_for(key)) else {
                return Ok(None);
            };
            let found = table.get_from_block(block, key, at)?;
            count_read(metrics, found.as_ref());
            Ok(found)
        };
        if self.is_guarded() {
            self.runs_around(key).for_each(|run| run.table.will_open());
            // One after the other: the newest one may have it.
            let tables = self.runs_around(key).map(|run| run.table.open());
            return get_where_told(tables, key, read);
        }
        if !self.search.is_set()
            && settings.search == LogSearch::Index
            && let Some(tables) = self.telling_runs(key)?
        {
            return get_where_told(tables.into_iter().map(Ok), key, read);
        }
        match &*self.search(settings)? {
            Search::Index(index) => {
                let mut candidates = Candidates::default();
                index.candidates(hash, self.run_end, &mut candidates);
                try_decide(candidates.iter().map(|position| {
                    let Some(run) = self.run(position.run) else {
                        return Ok(None);
                    };
                    // The largest number stands for this block or a later one.
                    let block = (position.block < u16::MAX).then_some(position.block.into());
                    read(&*run.table.open()?, block)
                }))
            }
            Search::Bloom(bloom) => {
                let mut runs = Vec::new();
                bloom.candidates(hash, self.run_end, &mut runs);
                let runs = runs.into_iter().filter_map(|ordinal| self.run(ordinal));
                try_decide(runs.map(|run| {
                    if settings.reads_sections {
                        read_up_to(run, key, at)?;
                    }
                    read(&*run.table.open()?, None)
                }))
            }
        }
    }
}

/// The first record of the key that `read` finds in tables that tell whether they may have it.
fn get_where_told(
    tables: impl Iterator<Item = Result<Arc<Table>>>,
    key: &[u8],
    read: impl Fn(&Table, Option<usize>) -> Result<Option<Found>>,
) -> Result<Option<Found>> {
    let hash = FilterHash::of(key);
    try_decide(tables.map(|table| {
        let table = table?;
        match table.may_have(key, hash) {
            true => read(&table, None),
            false => Ok(None),
        }
    }))
}

/// Counts the read of a block, whether or not it had the record.
fn count_read(metrics: Option<&Metrics>, found: Option<&Found>) {
    if let Some(metrics) = metrics {
        metrics.block_reads.add(1);
        let bytes = found.map_or(0, |found| found.block.bytes().len());
        metrics.bytes_read.add(bytes as u64);
    }
}

/// Reads and searches the blocks of a run before the key's block, which cannot have the key: the
/// cost of searching a log with unsorted records. For comparison alone.
#[cold]
fn read_up_to(run: &Run, key: &[u8], at: Version) -> Result<()> {
    let table = run.table.open()?;
    for block in 0..table.block_for(key).unwrap_or(0) {
        table.get_from_block(block, key, at)?;
    }
    Ok(())
}

impl Candidate for Found {
    #[inline]
    fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    fn version(&self) -> Version {
        self.version
    }

    #[inline]
    fn stored_value(&self) -> &[u8] {
        &self.block.bytes()[self.value.clone()]
    }
}

impl Candidate for (Component, Found) {
    #[inline]
    fn kind(&self) -> Kind {
        self.1.kind
    }

    #[inline]
    fn version(&self) -> Version {
        self.1.version
    }

    #[inline]
    fn stored_value(&self) -> &[u8] {
        self.1.stored_value()
    }
}

/// The value of a found record for a get; `None` for a tombstone and for an expired record.
pub(crate) fn value_of(found: Found, time: ReadTime<'_>) -> Option<Value> {
    let found = live(found, time)?;
    let shown = found.value.start + found.kind.prefix_bytes()..found.value.end;
    let value = Value::new(Owner::Block(found.block), shown).of_kind(found.kind);
    // A value with the larger part of its block may keep the whole block.
    let most = 2 * value.stored().len() > value.pinned_bytes();
    Some(if most { value } else { value.detached() })
}
