//! A cursor over one table, in both directions.
//!
//! It holds one block, a [`Walk`] within it, and a window of blocks read ahead, by one read for as many
//! as [`ReadAhead`] says, towards where the cursor moves. From the second move on the system is asked to read
//! the next window while this one is walked. A step within a block neither allocates nor
//! reads.
//!
//! Belongs to one thread at a time. Sees the whole table: versions are the caller's to filter.

use super::block::Block;
use super::reader::Table;
use super::stored::Malformed;
use super::walk::Walk;
use super::window::{Reach, Window};
use crate::{EntryRef, Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// How many data blocks a cursor fetches by one read, each at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAhead {
    /// When it seeks.
    pub seek: usize,
    /// When it first moves on from there; then twice as many each time.
    pub next: usize,
    /// At most.
    pub max: usize,
}

impl From<usize> for ReadAhead {
    /// One block for a seek, so many when it moves on.
    fn from(blocks: usize) -> ReadAhead {
        let next = blocks.max(1);
        ReadAhead {
            seek: 1,
            next,
            max: next,
        }
    }
}

/// A cursor over a table's records, in both directions; owns the table.
///
/// Errors leave the cursor invalid; the caller stops.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    readahead: ReadAhead,
    /// Windows that it moved on to since it was made.
    moved: u32,
    window: Window,
    block: Option<Block>,
    ordinal: usize,
    walk: Walk,
}

impl TableCursor {
    /// An unpositioned cursor.
    pub fn new(table: Arc<Table>, readahead: impl Into<ReadAhead>) -> TableCursor {
        TableCursor {
            table,
            readahead: readahead.into(),
            moved: 0,
            window: Window::default(),
            block: None,
            ordinal: 0,
            walk: Walk::default(),
        }
    }

    /// Whether it is on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        self.walk.valid()
    }

    /// To the first record with key `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let ordinal = self.table.first_block_at(key);
        if !self.load(ordinal, Reach::Forward(self.readahead.seek))? {
            return Ok(());
        }
        if self.walk_in_block(|walk, block| walk.seek(block, key))? {
            return Ok(());
        }
        // Behind the block's last key, but not behind its separator: the next block's first key.
        self.next_block()
    }

    /// To the last record with key `< key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let ordinal = self.table.first_block_at(key);
        if ordinal == self.table.block_count() {
            return self.seek_last();
        }
        if !self.load(ordinal, Reach::Backward(self.readahead.seek))? {
            return Ok(());
        }
        if self.walk_in_block(|walk, block| walk.seek(block, key))? {
            return self.prev();
        }
        // A seek that finds nothing ends on the block's last record.
        Ok(())
    }

    /// To the first record.
    pub fn seek_first(&mut self) -> Result<()> {
        self.first_of(0, self.readahead.seek)
    }

    /// To the last record.
    pub fn seek_last(&mut self) -> Result<()> {
        match self.table.block_count() {
            0 => self.clear(),
            count => self.last_of(count - 1, self.readahead.seek)?,
        }
        Ok(())
    }

    /// To the next record in order. Stays invalid if it is.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends, an iterator gives away"
    )]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid() || self.walk_in_block(Walk::advance)? {
            return Ok(());
        }
        self.next_block()
    }

    /// To the record before. Stays invalid if it is.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid() || self.walk_in_block(Walk::retreat)? {
            return Ok(());
        }
        match self.ordinal {
            0 => self.clear(),
            ordinal => {
                let (blocks, then) = self.blocks_ahead(ordinal - 1);
                let end = ordinal.saturating_sub(blocks);
                self.table.will_need_blocks(end.saturating_sub(then)..end);
                self.last_of(ordinal - 1, blocks)?;
            }
        }
        Ok(())
    }

    /// The record it is on. Panics if not valid.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        let entry = self
            .block
            .as_ref()
            .and_then(|block| self.walk.entry(block))
            .expect("entry of a cursor that is on no record");
        match self.table.assigned() {
            Some(version) => EntryRef { version, ..entry },
            None => entry,
        }
    }

    /// The block that holds the record's value, and the value's range within its bytes. Panics if
    /// not valid.
    pub fn value_block(&self) -> (&Block, Range<usize>) {
        self.block
            .as_ref()
            .zip(self.walk.value())
            .expect("value of a cursor that is on no record")
    }

    /// The table it walks.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn clear(&mut self) {
        self.walk.clear();
    }

    fn next_block(&mut self) -> Result<()> {
        let ordinal = self.ordinal + 1;
        let (blocks, then) = self.blocks_ahead(ordinal);
        let count = self.table.block_count();
        let start = (ordinal + blocks).min(count);
        self.table
            .will_need_blocks(start..(start + then).min(count));
        self.first_of(ordinal, blocks)
    }

    /// How many blocks to read when the cursor moves on to block `ordinal`, and how many behind these the system should
    /// read meanwhile: none before it moved on twice, because most scans are short.
    fn blocks_ahead(&mut self, ordinal: usize) -> (usize, usize) {
        let blocks = self.readahead.next;
        if self.window.holds(ordinal) {
            return (blocks, 0);
        }
        self.readahead.next = (2 * blocks).min(self.readahead.max).max(blocks);
        self.moved = self.moved.saturating_add(1);
        let then = match self.moved {
            0..=1 => 0,
            _ => self.readahead.next,
        };
        (blocks, then)
    }

    fn first_of(&mut self, ordinal: usize, blocks: usize) -> Result<()> {
        if self.load(ordinal, Reach::Forward(blocks))? {
            self.walk_in_block(|walk, block| walk.first(block).map(|()| true))?;
        }
        Ok(())
    }

    fn last_of(&mut self, ordinal: usize, blocks: usize) -> Result<()> {
        if self.load(ordinal, Reach::Backward(blocks))? {
            self.walk_in_block(|walk, block| walk.last(block).map(|()| true))?;
        }
        Ok(())
    }

    /// Makes `ordinal` the block at hand, on no record of it yet; `false` if there is none.
    fn load(&mut self, ordinal: usize, reach: Reach) -> Result<bool> {
        self.clear();
        if ordinal >= self.table.block_count() {
            return Ok(false);
        }
        if self.block.is_none() || self.ordinal != ordinal {
            // Let go of the window's buffer first, so that it can be filled again.
            self.block = None;
            self.block = Some(self.window.block(&self.table, ordinal, reach)?);
            self.ordinal = ordinal;
        }
        Ok(true)
    }

    /// Moves within the block at hand; leaves the cursor invalid if its rows make no sense.
    #[inline]
    fn walk_in_block(
        &mut self,
        step: impl FnOnce(&mut Walk, &Block) -> std::result::Result<bool, Malformed>,
    ) -> Result<bool> {
        match &self.block {
            Some(block) => match step(&mut self.walk, block) {
                Ok(moved) => Ok(moved),
                Err(malformed) => Err(self.fail(malformed)),
            },
            None => Ok(false),
        }
    }

    #[cold]
    fn fail(&mut self, malformed: Malformed) -> Error {
        self.clear();
        self.table.corrupt_block(self.ordinal, malformed)
    }
}
