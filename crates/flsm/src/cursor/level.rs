//! Cursors over parts of a tree: a table, a run, a guard, a level.
//!
//! ```text
//!   level = chain of guards;   guard = merge of its runs;   run = chain of tables;   place = chain of runs
//! ```
//! How they read stands in one [`Reading`]: compactions read past the cache of blocks, scans through it.
//! A guard's tables are opened when the cursor gets to the guard, and a table when it gets to the table. A cursor holds the
//! tree's tables, so their files stay.

use super::chain::{Chain, Links};
use super::{EntryCursor, MergeCursor};
use crate::tables::TableFile;
use crate::tree::{Guard, Tree};
use crate::types::Level;
use evendb_storage::Result;
use evendb_storage::table::{BlockSource, PAGE_BYTES, ReadAhead, Table, TableCursor};
use std::sync::Arc;

/// How tables are read.
#[derive(Clone, Debug)]
pub(crate) enum Reading {
    /// From the files alone, so many blocks at once: compactions.
    Past(ReadAhead),
    /// Through blocks in memory: scans.
    Through(Through),
}

/// How scans read.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    /// What is read at once, in pages, because blocks may be much smaller than they were wanted; by a seek in blocks.
    pub(crate) pages: ReadAhead,
    pub(crate) blocks: Arc<dyn BlockSource>,
    /// Keys outside are not wanted: no step reads what has no others.
    pub(crate) low: Option<Arc<[u8]>>,
    pub(crate) high: Option<Arc<[u8]>>,
}

impl From<ReadAhead> for Reading {
    fn from(readahead: ReadAhead) -> Reading {
        Reading::Past(readahead)
    }
}

impl Reading {
    fn cursor(&self, table: Arc<Table>) -> TableCursor {
        match self {
            Reading::Past(blocks) => TableCursor::new(table, *blocks),
            Reading::Through(through) => through.cursor(table),
        }
    }

    /// Whether keys from `low` on are all behind what is wanted.
    fn ends_before(&self, low: &[u8]) -> bool {
        self.wanted(|wanted| wanted.high.as_deref().is_some_and(|end| low >= end))
    }

    /// Whether keys are all in front of what is wanted; `is_below` says it for the least key that is.
    fn begins_above(&self, is_below: impl Fn(&[u8]) -> bool) -> bool {
        self.wanted(|wanted| wanted.low.as_deref().is_some_and(&is_below))
    }

    fn wanted(&self, is_so: impl Fn(&Through) -> bool) -> bool {
        match self {
            Reading::Past(_) => false,
            Reading::Through(wanted) => is_so(wanted),
        }
    }
}

impl Through {
    fn cursor(&self, table: Arc<Table>) -> TableCursor {
        let in_pages = |pages: usize| table.blocks_in(pages * PAGE_BYTES);
        let readahead = ReadAhead {
            seek: self.pages.seek,
            next: in_pages(self.pages.next),
            max: in_pages(self.pages.max),
        };
        TableCursor::new(table, readahead)
            .asking_from(ASKS_FROM)
            .within(self.low.as_deref(), self.high.as_deref())
            .through(self.blocks.clone())
    }
}

/// A scan that comes to its window of so many is a long one: the system is asked for the next one meanwhile.
const ASKS_FROM: u32 = 4;

/// Over one table, which is opened by the first move.
pub(crate) fn table_cursor(
    table: Arc<TableFile>,
    reading: impl Into<Reading>,
) -> Box<dyn EntryCursor> {
    run_cursor(vec![table], reading)
}

/// Over a run: tables that do not overlap, sorted.
pub(crate) fn run_cursor(
    tables: Vec<Arc<TableFile>>,
    reading: impl Into<Reading>,
) -> Box<dyn EntryCursor> {
    let reading = reading.into();
    Box::new(Chain::new(Run { tables, reading }))
}

fn guard_cursor(guard: &Guard, reading: &Reading) -> Option<Box<dyn EntryCursor>> {
    let mut runs: Vec<_> = guard
        .runs()
        .map(|tables| run_cursor(tables.to_vec(), reading.clone()))
        .collect();
    match runs.len() {
        0 | 1 => runs.pop(),
        _ => Some(Box::new(MergeCursor::new(runs))),
    }
}

struct Run {
    tables: Vec<Arc<TableFile>>,
    reading: Reading,
}

impl Links for Run {
    fn count(&self) -> usize {
        self.tables.len()
    }
    fn find(&self, key: &[u8]) -> usize {
        self.tables
            .partition_point(|table| *table.meta.max_key < *key)
    }
    fn find_below(&self, key: &[u8]) -> Option<usize> {
        let behind = self
            .tables
            .partition_point(|table| *table.meta.min_key < *key);
        behind.checked_sub(1)
    }
    fn is_outside(&self, at: usize) -> bool {
        let meta = &self.tables[at].meta;
        let is_below = |wanted: &[u8]| *meta.max_key < *wanted;
        self.reading.ends_before(&meta.min_key) || self.reading.begins_above(is_below)
    }
    fn open(&self, at: usize) -> Result<Option<Box<dyn EntryCursor>>> {
        let table = self.tables[at].open()?;
        Ok(Some(Box::new(self.reading.cursor(table))))
    }
}

/// Over a level from 1 on.
pub(crate) fn level_cursor(
    tree: Arc<Tree>,
    level: Level,
    reading: impl Into<Reading>,
) -> Box<dyn EntryCursor> {
    Box::new(Chain::new(LevelGuards {
        tree,
        level,
        reading: reading.into(),
    }))
}

struct LevelGuards {
    tree: Arc<Tree>,
    level: Level,
    reading: Reading,
}

impl Links for LevelGuards {
    fn count(&self) -> usize {
        self.tree.guards(self.level).all().len()
    }
    fn find(&self, key: &[u8]) -> usize {
        self.tree.guards(self.level).find(key)
    }
    fn find_below(&self, key: &[u8]) -> Option<usize> {
        self.tree.guards(self.level).find_below(key)
    }
    fn is_outside(&self, at: usize) -> bool {
        let guards = self.tree.guards(self.level).all();
        let next = guards.get(at + 1);
        let is_below = |wanted: &[u8]| next.is_some_and(|next| *next.low <= *wanted);
        self.reading.ends_before(&guards[at].low) || self.reading.begins_above(is_below)
    }
    fn open(&self, at: usize) -> Result<Option<Box<dyn EntryCursor>>> {
        let guard = &self.tree.guards(self.level).all()[at];
        Ok(guard_cursor(guard, &self.reading))
    }
}

/// Over each place at which a reader looks for a key, in the order of looking: each table of level 0, then of each level the
/// newest runs of all guards, the second newest ones, and so on.
pub(crate) fn places_cursors(tree: &Arc<Tree>, readahead: ReadAhead) -> Vec<Box<dyn EntryCursor>> {
    let level0 = tree.level0().iter();
    let level0 = level0.map(|table| table_cursor(table.clone(), readahead));
    let places = Tree::guarded_levels().flat_map(|level| {
        let guards = tree.guards(level).all().iter();
        let runs = guards.map(|guard| guard.runs().count()).max();
        (0..runs.unwrap_or(0)).map(move |run| {
            Box::new(Chain::new(Place {
                tree: tree.clone(),
                level,
                run,
                readahead,
            })) as Box<dyn EntryCursor>
        })
    });
    level0.chain(places).collect()
}

/// The runs that are `run`th in their guards.
struct Place {
    tree: Arc<Tree>,
    level: Level,
    run: usize,
    readahead: ReadAhead,
}

impl Links for Place {
    fn count(&self) -> usize {
        self.tree.guards(self.level).all().len()
    }
    fn find(&self, key: &[u8]) -> usize {
        self.tree.guards(self.level).find(key)
    }
    fn find_below(&self, key: &[u8]) -> Option<usize> {
        self.tree.guards(self.level).find_below(key)
    }
    fn open(&self, at: usize) -> Result<Option<Box<dyn EntryCursor>>> {
        let guard = &self.tree.guards(self.level).all()[at];
        let run = guard.runs().nth(self.run);
        Ok(run.map(|tables| run_cursor(tables.to_vec(), self.readahead)))
    }
}
