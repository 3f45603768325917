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
use crate::cursor::level::{Reading, Through, level_cursor, table_cursor};
use crate::cursor::{EntryCursor, MergeCursor, Reads};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::View;
use crate::plant::planted;
use crate::tree::Tree;
use crate::types::Level;
use evendb_base::sync::Arc;
use evendb_storage::table::{ReadAhead, Target};
use evendb_storage::{EntryRef, Kind, Version};

/// A seek reads one block of each table. Who goes on reads as many pages as scans are expected to need
/// ([`ScanLengths`](super::lengths::ScanLengths)), then more and more, up to this many.
const SEEK_BLOCKS: usize = 1;
const PAGES_MAX: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

pub(super) struct End {
    view: Arc<View>,
    at: Version,
    direction: Direction,
    cursor: MergeCursor,
    /// Bytes of keys and values since the last seek.
    shown_bytes: u64,
    /// Whether the cursor is still on the record that was lent last (forward).
    is_lent: bool,
    /// The key that is shown, or was last.
    key: Vec<u8>,
    /// The value that is shown (backward).
    value: Vec<u8>,
}

impl End {
    /// On nothing: to be sought first. It moves in one direction, and what lies behind `bound` there is not read ahead.
    pub(super) fn new(
        engine: &Engine,
        view: Arc<View>,
        at: Version,
        direction: Direction,
        bound: Option<&[u8]>,
    ) -> End {
        End {
            cursor: MergeCursor::new(sources(engine, &view, direction, bound)),
            shown_bytes: 0,
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
        self.is_lent = false;
        self.note_length();
        let target = match (self.direction, key) {
            (Direction::Forward, Some(key)) => Target::From(key),
            (Direction::Forward, None) => Target::First,
            (Direction::Backward, Some(key)) => Target::Before(key),
            (Direction::Backward, None) => Target::Last,
        };
        if engine.options.advanced.parallel_seeks {
            self.cursor.aim(target, &mut Reads::default())?;
        }
        self.cursor.seek_to(target)?;
        Ok(())
    }

    /// To the next key that has a value. Whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let is_there = match self.direction {
            Direction::Forward => self.advance_forward(),
            Direction::Backward => self.advance_backward(),
        }?;
        if is_there {
            let (key, value) = self.current();
            self.shown_bytes += (key.len() + value.len()) as u64;
        }
        Ok(is_there)
    }

    /// What was shown since the last seek was a scan.
    fn note_length(&mut self) {
        let shown = std::mem::take(&mut self.shown_bytes);
        if shown > 0 {
            self.view.scans.note(shown);
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

impl Drop for End {
    fn drop(&mut self) {
        self.note_length();
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

/// All that a view is made of, newest first. Nothing is read ahead behind `bound`.
fn sources(
    engine: &Engine,
    view: &View,
    direction: Direction,
    bound: Option<&[u8]>,
) -> Vec<Box<dyn EntryCursor>> {
    let (low, high) = match (direction, bound) {
        (Direction::Forward, high) => (None, high),
        (Direction::Backward, low) => (low, None),
    };
    let level0 = view.tree.level0();
    let is_used = |level: &Level| {
        let mut guards = view.tree.guards(*level).all().iter();
        guards.any(|guard| !guard.tables.is_empty())
    };
    let levels: Vec<Level> = Tree::guarded_levels().filter(is_used).collect();
    let reading = Reading::Through(Through {
        pages: ReadAhead {
            seek: SEEK_BLOCKS,
            next: view.scans.first_window(level0.len() + levels.len()),
            max: PAGES_MAX,
        },
        blocks: engine.cache.clone(),
        low: low.map(std::sync::Arc::from),
        high: high.map(std::sync::Arc::from),
    });
    let memories = view.memories.iter();
    let memories = memories.map(|(_, table)| Box::new(table.cursor()) as Box<dyn EntryCursor>);
    let level0 = match planted!(engine.options, ScansWithoutLevel0) {
        true => [].iter(),
        false => level0.iter(),
    };
    let level0 = level0.map(|table| table_cursor(table.clone(), reading.clone()));
    let levels = levels.into_iter();
    let levels = levels.map(|level| level_cursor(view.tree.clone(), level, reading.clone()));
    memories.chain(level0).chain(levels).collect()
}
