//! [`End`]: one end of a scan. It moves in one direction, over the merge of all sources of a view, and shows of each key
//! the record that the reader sees.
//!
//! ```text
//!   forward    a/9 a/4 | b/7 (delete) | c/8 c/2      at 8: a/9 is passed over, a/4 is shown; b is passed over; c/8 is shown, c/2 not
//!   backward   c/2 c/8 | b/7 (delete) | a/4 a/9      of each key the last one that is seen is remembered, then looked at
//! ```
//! Forward, what is shown is lent from the source. Backward, the versions of a key come oldest first, so the key and the newest version
//! so far are copied.
//!
//! Belongs to one thread at a time. After an error it is not used any more.

use super::looks::note_seek;
use crate::cursor::level::{level_cursor, table_cursor};
use crate::cursor::{EntryCursor, MergeCursor};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::View;
use crate::tables::TableFile;
use crate::tree::{Guard, Tree};
use evendb_base::sync::Arc;
use evendb_storage::table::ReadAhead;
use evendb_storage::{EntryRef, Kind, Version};

/// A seek reads one block of each table; who goes on gets more and more at once.
const READ_AHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 2,
    max: 32,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

pub(super) struct End {
    view: Arc<View>,
    at: Version,
    direction: Direction,
    /// Whether seeks tell the system what they will read.
    parallel: bool,
    cursor: MergeCursor,
    /// Whether the cursor is still on the record that was lent last (forward).
    is_lent: bool,
    /// The key that is shown, or was last.
    key: Vec<u8>,
    /// The value that is shown (backward).
    value: Vec<u8>,
}

impl End {
    /// On nothing: to be sought first.
    pub(super) fn new(engine: &Engine, view: Arc<View>, at: Version, direction: Direction) -> End {
        End {
            cursor: MergeCursor::new(sources(&view)),
            parallel: engine.options.advanced.parallel_seeks,
            view,
            at,
            direction,
            is_lent: false,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Forward: `next` is the first key at or above `key`. Backward: the last one below it. `None`: the first or last of all.
    pub(super) fn seek(&mut self, engine: &Engine, key: Option<&[u8]>) -> Result<()> {
        note_seek(engine, &self.view.tree, place_of(key, self.direction));
        if self.parallel {
            tell_of_seek(&self.view.tree, key, self.direction)?;
        }
        self.is_lent = false;
        match (self.direction, key) {
            (Direction::Forward, Some(key)) => self.cursor.seek(key)?,
            (Direction::Forward, None) => self.cursor.seek_first()?,
            (Direction::Backward, Some(key)) => self.cursor.seek_before(key)?,
            (Direction::Backward, None) => self.cursor.seek_last()?,
        }
        Ok(())
    }

    /// To the next key that has a value. Whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Forward => self.advance_forward(),
            Direction::Backward => self.advance_backward(),
        }
    }

    /// What it was advanced to.
    pub(super) fn current(&self) -> (&[u8], &[u8]) {
        match self.direction {
            Direction::Forward => {
                let entry = self.cursor.entry();
                (entry.key, entry.value)
            }
            Direction::Backward => (&self.key, &self.value),
        }
    }

    fn advance_forward(&mut self) -> Result<bool> {
        if self.is_lent {
            self.is_lent = false;
            self.take_key();
            self.pass_key()?;
        }
        while self.cursor.valid() {
            let entry = self.cursor.entry();
            if !entry.version.is_seen_at(self.at) {
                self.cursor.next()?;
                continue;
            }
            if is_value(entry)? {
                self.is_lent = true;
                return Ok(true);
            }
            self.take_key();
            self.pass_key()?;
        }
        Ok(false)
    }

    /// Remembers the key at hand.
    fn take_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.cursor.entry().key);
    }

    /// Behind all versions of the key that was remembered.
    fn pass_key(&mut self) -> Result<()> {
        self.cursor.next()?;
        while self.cursor.valid() && *self.cursor.entry().key == *self.key {
            self.cursor.next()?;
        }
        Ok(())
    }

    fn advance_backward(&mut self) -> Result<bool> {
        while self.cursor.valid() {
            self.take_key();
            let mut has_value = false;
            while self.cursor.valid() {
                let entry = self.cursor.entry();
                if *entry.key != *self.key {
                    break;
                }
                if entry.version.is_seen_at(self.at) {
                    has_value = is_value(entry)?;
                    self.value.clear();
                    self.value.extend_from_slice(entry.value);
                }
                self.cursor.prev()?;
            }
            if has_value {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is told of a seek: `None` is the last key.
fn place_of(key: Option<&[u8]>, direction: Direction) -> Option<&[u8]> {
    match direction {
        Direction::Forward => Some(key.unwrap_or_default()),
        Direction::Backward => key,
    }
}

fn is_value(entry: EntryRef<'_>) -> Result<bool> {
    match entry.kind {
        Kind::Put => Ok(true),
        Kind::Delete => Ok(false),
        other => {
            let message = format!("a record of kind {other:?}, which this engine does not have");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// All that a view is made of, newest first.
fn sources(view: &View) -> Vec<Box<dyn EntryCursor>> {
    let memories = view.memories.iter();
    let memories = memories.map(|(_, table)| Box::new(table.cursor()) as Box<dyn EntryCursor>);
    let level0 = view.tree.level0().iter();
    let level0 = level0.map(|table| table_cursor(table.clone(), READ_AHEAD));
    let used = Tree::guarded_levels().filter(|level| {
        let mut guards = view.tree.guards(*level).all().iter();
        guards.any(|guard| !guard.tables.is_empty())
    });
    let levels = used.map(|level| level_cursor(view.tree.clone(), level, READ_AHEAD));
    memories.chain(level0).chain(levels).collect()
}

/// Tells the system of the blocks that a seek will read, of all tables before the first is read: it reads them side by
/// side. One table more than is read may be told of where a run ends before the key.
fn tell_of_seek(tree: &Tree, key: Option<&[u8]>, direction: Direction) -> Result<()> {
    let tell = |table: &Arc<TableFile>| -> Result<()> {
        let table = table.open()?;
        match direction {
            Direction::Forward => table.will_need_from(key, 1),
            Direction::Backward => table.will_need_before(key, 1),
        }
        Ok(())
    };
    for table in tree.level0() {
        if reaches(table, key, direction) {
            tell(table)?;
        }
    }
    for level in Tree::guarded_levels() {
        let guards = tree.guards(level);
        let guard = match (key, direction) {
            (Some(key), _) => &guards.all()[guards.find(key)],
            (None, Direction::Forward) => &guards.all()[0],
            (None, Direction::Backward) => &guards.all()[guards.all().len() - 1],
        };
        for table in first_of_runs(guard, key, direction) {
            tell(table)?;
        }
    }
    Ok(())
}

/// Whether a seek finds something in the table.
fn reaches(table: &TableFile, key: Option<&[u8]>, direction: Direction) -> bool {
    key.is_none_or(|key| match direction {
        Direction::Forward => *table.meta.max_key >= *key,
        Direction::Backward => *table.meta.min_key < *key,
    })
}

/// Of each run of a guard the table that a seek begins in.
fn first_of_runs<'g>(
    guard: &'g Guard,
    key: Option<&'g [u8]>,
    direction: Direction,
) -> impl Iterator<Item = &'g Arc<TableFile>> {
    guard.runs().filter_map(move |run| match direction {
        Direction::Forward => run.iter().find(|table| reaches(table, key, direction)),
        Direction::Backward => run.iter().rfind(|table| reaches(table, key, direction)),
    })
}
