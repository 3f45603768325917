//! [`End`]: one end of a scan. It moves in one direction over the merge of all sources of a view,
//! and shows for each key the record that the reader sees.
//!
//! ```text
//!   forward    a/9 a/4 | b/7 (delete) | c/8 c/2
//!              at 8: a/9 is passed over, a/4 is shown; b is passed over; c/8 is shown, c/2 is not
//!   backward   c/2 c/8 | b/7 (delete) | a/4 a/9
//!              for each key the last record that is seen is remembered, then looked at
//! ```
//! Forward, the source lends the record that is shown. Backward, the versions of a key come oldest
//! first, so the key and the newest version so far are copied.
//!
//! An end belongs to one thread at a time. After an error it is not used any more.

use super::looks::{is_sampled, note_seek};
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

/// A seek reads `SEEK_BLOCKS` blocks of each table. A scan that goes on reads the number of pages
/// that scans are expected to need ([`ScanLengths`](crate::scan_lengths::ScanLengths)), and then
/// more and more, up to `PAGES_MAX` pages.
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
    /// Bytes of the keys and values that were shown since the last seek.
    shown_bytes: u64,
    /// Whether the cursor is still on the record that was lent last (forward).
    is_lent: bool,
    /// The key that is shown, or that was shown last.
    key: Vec<u8>,
    /// The value that is shown (backward).
    value: Vec<u8>,
}

impl End {
    /// An end on no record, which needs a seek first. It moves in one direction, and reads nothing
    /// ahead behind `bound`.
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

    /// Moves before the first key at or above `key` (forward), or behind the last key below it
    /// (backward). `None`: before the first key of all, or behind the last.
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

    /// Moves to the next key that has a value. Returns whether there is one.
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

    /// Notes the length of the scan since the last seek.
    fn note_length(&mut self) {
        let shown = std::mem::take(&mut self.shown_bytes);
        if shown > 0 && is_sampled() {
            self.view.scans.note(shown);
        }
    }

    /// The record to which it has moved.
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

    /// Copies the current key.
    fn take_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.cursor.entry().key);
    }

    /// Passes all versions of the key that was copied.
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

/// The place of a seek for the counters: `None` is the last key.
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

/// All sources of a view, newest first. They read nothing ahead behind `bound`.
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
