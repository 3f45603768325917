//! A cursor over one table, in both directions.
//!
//! It holds one block, a [`Walk`] within it, and a window of blocks that one read has fetched
//! ahead, in the direction in which the cursor moves ([`ReadAhead`] says how many). From the second
//! window on to which it moves, it asks the system to read the next window while it walks through
//! this one. A step within a block neither allocates nor reads.
//!
//! A cursor belongs to one thread at a time. It sees the whole table: the caller filters versions.

use crate::table::block::Block;
use crate::table::reader::Table;
use crate::table::stored::Malformed;
use crate::table::walk::Walk;
use crate::table::window::{Reach, Window};
use crate::{EntryRef, Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The number of data blocks that a cursor fetches by one read, each at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAhead {
    /// For a seek.
    pub seek: usize,
    /// For the first window after the seek. Each later window has twice the blocks.
    pub next: usize,
    /// The limit.
    pub max: usize,
}

impl From<usize> for ReadAhead {
    /// One block for a seek, and `blocks` blocks when the cursor moves on.
    fn from(blocks: usize) -> ReadAhead {
        let next = blocks.max(1);
        ReadAhead {
            seek: 1,
            next,
            max: next,
        }
    }
}

/// From this window on to which a cursor moves, the system is asked for the next window meanwhile.
/// Scans are usually short.
const ASKS_FROM: u32 = 2;

/// A cursor over a table's records, in both directions; owns the table.
///
/// Errors leave the cursor invalid; the caller stops.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    readahead: ReadAhead,
    /// Blocks of the next window to which it will move.
    next: usize,
    /// Windows to which it has moved since the last seek.
    moved: u32,
    window: Window,
    block: Option<Block>,
    ordinal: usize,
    walk: Walk,
}

impl TableCursor {
    /// An unpositioned cursor.
    pub fn new(table: Arc<Table>, readahead: impl Into<ReadAhead>) -> TableCursor {
        let readahead = readahead.into();
        TableCursor {
            table,
            readahead,
            next: readahead.next,
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
        self.begin();
        let ordinal = self.table.first_block_at(key);
        if !self.load(ordinal, |own| Reach::Forward(own.readahead.seek))? {
            return Ok(());
        }
        if self.walk_in_block(|walk, block| walk.seek(block, key))? {
            return Ok(());
        }
        // The key is behind the block's last key, but not behind its separator. The next block's
        // first key is the answer.
        self.first_of(ordinal + 1, |own| Reach::Forward(own.readahead.seek))
    }

    /// To the last record with key `< key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        let ordinal = self.table.first_block_at(key);
        if ordinal == self.table.block_count() {
            return self.seek_last();
        }
        if !self.load(ordinal, |own| Reach::Backward(own.readahead.seek))? {
            return Ok(());
        }
        // A seek that finds nothing ends on the block's last record.
        if !self.walk_in_block(|walk, block| walk.seek(block, key))?
            || self.walk_in_block(Walk::retreat)?
        {
            return Ok(());
        }
        match ordinal.checked_sub(1) {
            Some(before) => self.last_of(before, |own| Reach::Backward(own.readahead.seek))?,
            None => self.clear(),
        }
        Ok(())
    }

    /// Moves to the first record of a block of a table that [is keyed](Table::is_keyed). A block
    /// without the key that the index names is corrupt. The block is read alone. If it is a
    /// neighbour of the cursor's block, it is read with the next blocks, or with `backward` with
    /// the blocks before it. Panics if there is no such block.
    pub fn seek_block(&mut self, ordinal: usize, backward: bool) -> Result<()> {
        self.begin();
        let goes_on = self.block.is_some() && self.ordinal.abs_diff(ordinal) == 1;
        self.first_of(ordinal, |own| {
            let blocks = if goes_on { own.readahead.seek } else { 1 };
            match backward {
                true => Reach::Backward(blocks),
                false => Reach::Forward(blocks),
            }
        })?;
        match self.table.is_key_of_block(ordinal, self.walk.key()) {
            true => Ok(()),
            false => Err(self.fail(Malformed("block without the key that the index names"))),
        }
    }

    /// Moves to the next record of the block. `false` if there is none: the cursor is then on no
    /// record.
    pub fn next_in_block(&mut self) -> Result<bool> {
        let moved = self.walk_in_block(Walk::advance)?;
        if !moved {
            self.clear();
        }
        Ok(moved)
    }

    /// To the first record.
    pub fn seek_first(&mut self) -> Result<()> {
        self.begin();
        self.first_of(0, |own| Reach::Forward(own.readahead.seek))?;
        Ok(())
    }

    /// To the last record.
    pub fn seek_last(&mut self) -> Result<()> {
        self.begin();
        match self.table.block_count() {
            0 => self.clear(),
            count => self.last_of(count - 1, |own| Reach::Backward(own.readahead.seek))?,
        }
        Ok(())
    }

    /// To the next record in order. A cursor that is invalid stays so.
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

    /// To the previous record. A cursor that is invalid stays so.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid() || self.walk_in_block(Walk::retreat)? {
            return Ok(());
        }
        match self.ordinal {
            0 => self.clear(),
            ordinal => self.last_of(ordinal - 1, |own| {
                let (blocks, then) = own.blocks_ahead(ordinal - 1);
                let end = ordinal.saturating_sub(blocks);
                own.table.will_need_blocks(end.saturating_sub(then)..end);
                Reach::Backward(ordinal.saturating_sub(end).max(1))
            })?,
        }
        Ok(())
    }

    /// The record it is on. Panics if not valid.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        let entry = self.block.as_ref().and_then(|block| self.walk.entry(block));
        // Field by field: a record that is moved whole is read back from memory in other pieces
        // than it was written in, and the processor waits for that. It took a sixth of a rewrite.
        let EntryRef {
            key,
            version,
            kind,
            value,
        } = entry.expect("entry of a cursor that is on no record");
        EntryRef {
            key,
            version: self.table.assigned().unwrap_or(version),
            kind,
            value,
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

    /// Whether the previous record has another key or does not exist, as far as that is known
    /// without a read: at the beginning of a block.
    pub fn begins_key(&self) -> bool {
        let goes_on = |before| self.table.continues(before, self.walk.key());
        self.walk.is_first() && !self.ordinal.checked_sub(1).is_some_and(goes_on)
    }

    /// The table it walks.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn clear(&mut self) {
        self.walk.clear();
    }

    /// Begins a seek.
    fn begin(&mut self) {
        (self.next, self.moved) = (self.readahead.next, 0);
    }

    fn next_block(&mut self) -> Result<()> {
        let ordinal = self.ordinal + 1;
        self.first_of(ordinal, |own| {
            let (blocks, then) = own.blocks_ahead(ordinal);
            let end = own.table.block_count();
            let start = (ordinal + blocks).min(end);
            own.table.will_need_blocks(start..(start + then).min(end));
            Reach::Forward(start.saturating_sub(ordinal).max(1))
        })
    }

    /// How many blocks to read when the cursor moves on to block `ordinal`, and how many blocks
    /// behind them the system should read meanwhile.
    fn blocks_ahead(&mut self, ordinal: usize) -> (usize, usize) {
        let blocks = self.next;
        if self.window.holds(ordinal) {
            return (blocks, 0);
        }
        self.next = (2 * blocks).min(self.readahead.max).max(blocks);
        self.moved = self.moved.saturating_add(1);
        let then = match self.moved {
            moved if moved < ASKS_FROM => 0,
            _ => self.next,
        };
        (blocks, then)
    }

    fn first_of(&mut self, ordinal: usize, reach: impl FnOnce(&mut Self) -> Reach) -> Result<()> {
        if self.load(ordinal, reach)? {
            self.walk_in_block(|walk, block| walk.first(block).map(|()| true))?;
        }
        Ok(())
    }

    fn last_of(&mut self, ordinal: usize, reach: impl FnOnce(&mut Self) -> Reach) -> Result<()> {
        if self.load(ordinal, reach)? {
            self.walk_in_block(|walk, block| walk.last(block).map(|()| true))?;
        }
        Ok(())
    }

    /// Makes `ordinal` the current block, on no record of it yet; `false` if there is no such
    /// block. `reach` is asked if it has to be read.
    fn load(&mut self, ordinal: usize, reach: impl FnOnce(&mut Self) -> Reach) -> Result<bool> {
        self.clear();
        if ordinal >= self.table.block_count() {
            return Ok(false);
        }
        if self.block.is_none() || self.ordinal != ordinal {
            // The window's buffer is let go first, so that it can be filled again.
            self.block = None;
            let reach = reach(self);
            self.block = Some(self.window.block(&self.table, ordinal, reach)?);
            self.ordinal = ordinal;
        }
        Ok(true)
    }

    /// Moves within the current block. If its rows make no sense, the cursor becomes invalid.
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
