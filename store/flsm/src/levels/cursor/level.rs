//! Cursors over parts of a tree: a table, a run, a guard, a level.
//!
//! ```text
//!   level = chain of guards;  guard = merge of its runs;  run = chain of tables
//!   place = chain of runs
//! ```
//! A [`Reading`] says how they read: compactions read past the cache of blocks, scans read through
//! it. A guard's tables are opened when the cursor gets to the guard, and a table when it gets to
//! the table. A cursor holds the tree's tables, so their files stay.

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
    /// From the files alone, with this many blocks at once: compactions.
    Past(ReadAhead),
    /// Through blocks in memory: scans.
    Through(Through),
}

/// How scans read.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    /// How much one read fetches: `next` and `max` in pages, because blocks may be much smaller
    /// than was asked for, and `seek` in blocks.
    pub(crate) pages: ReadAhead,
    pub(crate) blocks: Arc<dyn BlockSource>,
    /// The keys that are wanted lie from `low` to below `high`. Tables without such keys are not
    /// read.
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

    /// Whether the keys from `low` on are all behind the wanted keys.
    fn ends_before(&self, low: &[u8]) -> bool {
        self.wanted(|wanted| wanted.high.as_deref().is_some_and(|end| low >= end))
    }

    /// Whether a table's keys are all in front of the wanted keys. `is_below` tells whether they
    /// are all below the least wanted key.
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

/// A scan that has moved to this many windows is a long one. From then on the system is asked for
/// the next window while the scan reads the current one.
const ASKS_FROM: u32 = 4;

/// A cursor over one table, which its first move opens.
pub(crate) fn table_cursor(
    table: Arc<TableFile>,
    reading: impl Into<Reading>,
) -> Box<dyn EntryCursor> {
    run_cursor(vec![table], reading)
}

/// A cursor over a run: sorted tables that do not overlap.
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

/// A cursor over a level from 1 on.
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

/// A cursor for each place at which a reader looks for a key, in the order of looking: each table
/// of level 0, then for each level the newest runs of all guards, then the second newest runs, and
/// so on.
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

/// The runs that are number `run` in their guards.
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
