//! A cursor over one table, in both directions.
//!
//! It holds one block, a [`Walk`] within it, and a window of blocks that one read has fetched
//! ahead, in the direction in which the cursor moves ([`ReadAhead`] says how many). From the second
//! window on to which it moves, it asks the system to read the next window while it walks through
//! this one. A step within a block neither allocates nor reads.
//!
//! A cursor with a [`BlockSource`] asks it for each block that is not in the window, and reads only
//! the blocks that the source lacks. It offers the source the block that a seek read, and more
//! blocks if the source already had the seek's block.
//!
//! A caller that seeks in several tables can aim all cursors first: then the system reads for all
//! of them at once.
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

/// The destination of a seek.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'k> {
    /// To the first record with key `>=` this one.
    From(&'k [u8]),
    /// To the last record with key `<` this one.
    Before(&'k [u8]),
    /// To the first record.
    First,
    /// To the last record.
    Last,
}

/// Blocks in memory.
pub trait BlockSource: std::fmt::Debug + Send + Sync {
    /// A block of the table, if the source has it.
    fn get(&self, table: &Table, ordinal: usize) -> Option<Block>;
    /// Offers a block that a cursor has read. [`Block::detached`] separates it from its neighbours.
    fn offer(&self, table: &Table, ordinal: usize, block: &Block);
}

/// A cursor offers this many of the blocks that it reads from a seek on, so that a long scan does
/// not drive out the blocks of other readers. If the seek found its block in memory, others have
/// read here, and the next blocks are worth the room.
const OFFERED: u32 = 1;
const OFFERED_WHERE_KNOWN: u32 = 8;

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
    asks_from: u32,
    /// The blocks in which the cursor may be.
    wanted: Range<usize>,
    window: Window,
    block: Option<Block>,
    ordinal: usize,
    walk: Walk,
    blocks: Option<Arc<dyn BlockSource>>,
    /// Blocks that it may offer before the next seek.
    offers: u32,
    /// The block that [`TableCursor::aim`] found in the index.
    aimed: Option<usize>,
    /// The block that was asked for and is not in memory.
    missing: Option<usize>,
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
            asks_from: ASKS_FROM,
            wanted: 0..usize::MAX,
            window: Window::default(),
            block: None,
            ordinal: 0,
            walk: Walk::default(),
            blocks: None,
            offers: 0,
            aimed: None,
            missing: None,
        }
    }

    /// The same cursor, which asks `blocks` before it reads.
    #[must_use]
    pub fn through(mut self, blocks: Arc<dyn BlockSource>) -> TableCursor {
        self.blocks = Some(blocks);
        self
    }

    /// The same cursor, which first asks the system for the next window when it has moved to this
    /// many windows. For windows that begin large.
    #[must_use]
    pub fn asking_from(mut self, windows: u32) -> TableCursor {
        self.asks_from = windows;
        self
    }

    /// The same cursor for the range from `low` to below `high`. A step reads no block that has
    /// only keys outside, and the table ends there. A seek may go anywhere.
    #[must_use]
    pub fn within(mut self, low: Option<&[u8]>, high: Option<&[u8]>) -> TableCursor {
        let place = |key| self.table.first_block_at(key);
        self.wanted = low.map_or(0, place)..high.map_or(usize::MAX, |key| place(key) + 1);
        self
    }

    /// Whether it is on a record.
    #[inline]
    pub fn valid(&self) -> bool {
        self.walk.valid()
    }

    /// Prepares a seek, which has to be the next move: finds the block in which it begins, and
    /// takes it from memory if it is there. Returns whether the block has to be read. Until the
    /// seek the cursor is on no record.
    pub fn aim(&mut self, target: Target<'_>) -> bool {
        self.clear();
        let Some(last) = self.table.block_count().checked_sub(1) else {
            return false;
        };
        let found = match target {
            Target::From(key) | Target::Before(key) => self.table.first_block_at(key),
            Target::First => 0,
            Target::Last => last,
        };
        self.aimed = Some(found);
        let ordinal = match target {
            Target::Before(_) => found.min(last),
            _ => found,
        };
        if ordinal > last || (self.block.is_some() && self.ordinal == ordinal) {
            return false;
        }
        self.block = self.in_memory(ordinal);
        self.ordinal = ordinal;
        if self.block.is_some() {
            return false;
        }
        self.missing = Some(ordinal);
        self.table.whole().is_none() && !self.window.holds(ordinal)
    }

    /// Asks the system for the block at which the cursor was aimed, if it has to be read.
    pub fn will_need_aimed(&self) {
        if let Some(ordinal) = self.missing {
            self.table.will_need_block(ordinal);
        }
    }

    /// The block in which a seek to `key` begins.
    fn first_block_at(&mut self, key: &[u8]) -> usize {
        match self.aimed.take() {
            Some(ordinal) => {
                debug_assert_eq!(ordinal, self.table.first_block_at(key), "aimed elsewhere");
                ordinal
            }
            None => self.table.first_block_at(key),
        }
    }

    /// To the first record with key `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        let ordinal = self.first_block_at(key);
        if !self.load(ordinal, |own| Reach::Forward(own.readahead.seek))? {
            return Ok(());
        }
        self.note_origin();
        if self.walk_in_block(|walk, block| walk.seek(block, key))? {
            return Ok(());
        }
        // The key is behind the block's last key, but not behind its separator. The next block's
        // first key is the answer.
        match ordinal + 1 < self.wanted.end {
            true => self.first_of(ordinal + 1, |own| Reach::Forward(own.readahead.seek)),
            false => {
                self.clear();
                Ok(())
            }
        }
    }

    /// To the last record with key `< key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.begin();
        let ordinal = self.first_block_at(key);
        if ordinal == self.table.block_count() {
            return self.seek_last();
        }
        if !self.load(ordinal, |own| Reach::Backward(own.readahead.seek))? {
            return Ok(());
        }
        self.note_origin();
        // A seek that finds nothing ends on the block's last record.
        if !self.walk_in_block(|walk, block| walk.seek(block, key))?
            || self.walk_in_block(Walk::retreat)?
        {
            return Ok(());
        }
        match ordinal > self.wanted.start {
            true => self.last_of(ordinal - 1, |own| Reach::Backward(own.readahead.seek))?,
            false => self.clear(),
        }
        Ok(())
    }

    /// Moves to the first record of a block of a table that [is keyed](Table::is_keyed). A block
    /// without the key that the index names is corrupt. The block is read alone. If it is a
    /// neighbour of the cursor's block, it is read with the next blocks, or with `backward` with
    /// the blocks before it. Panics if there is no such block.
    pub fn seek_block(&mut self, ordinal: usize, backward: bool) -> Result<()> {
        self.aimed = None;
        self.begin();
        let goes_on = self.block.is_some() && self.ordinal.abs_diff(ordinal) == 1;
        self.first_of(ordinal, |own| {
            let blocks = if goes_on { own.readahead.seek } else { 1 };
            match backward {
                true => Reach::Backward(blocks),
                false => Reach::Forward(blocks),
            }
        })?;
        self.note_origin();
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
        self.aimed = None;
        self.begin();
        self.first_of(0, |own| Reach::Forward(own.readahead.seek))?;
        self.note_origin();
        Ok(())
    }

    /// To the last record.
    pub fn seek_last(&mut self) -> Result<()> {
        self.aimed = None;
        self.begin();
        match self.table.block_count() {
            0 => self.clear(),
            count => self.last_of(count - 1, |own| Reach::Backward(own.readahead.seek))?,
        }
        self.note_origin();
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
            ordinal if ordinal <= self.wanted.start => self.clear(),
            ordinal => self.last_of(ordinal - 1, |own| {
                let (blocks, then) = own.blocks_ahead(ordinal - 1);
                let begin = own.wanted.start;
                let end = ordinal.saturating_sub(blocks).max(begin);
                let next = end.saturating_sub(then).max(begin)..end;
                own.table.will_need_blocks(next);
                Reach::Backward(ordinal.saturating_sub(end).max(1))
            })?,
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
        self.offers = OFFERED;
        (self.next, self.moved) = (self.readahead.next, 0);
    }

    /// Notes that a seek has its block. If the block was not read, the source had it.
    fn note_origin(&mut self) {
        if self.offers == OFFERED {
            self.offers = OFFERED_WHERE_KNOWN;
        }
    }

    fn next_block(&mut self) -> Result<()> {
        let ordinal = self.ordinal + 1;
        if ordinal >= self.wanted.end {
            self.clear();
            return Ok(());
        }
        self.first_of(ordinal, |own| {
            let (blocks, then) = own.blocks_ahead(ordinal);
            let end = own.table.block_count().min(own.wanted.end);
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
            moved if moved < self.asks_from => 0,
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
            let block = match self.missing.take() == Some(ordinal) {
                true => None,
                false => self.in_memory(ordinal),
            };
            self.block = Some(match block {
                Some(block) => block,
                None => self.read(ordinal, reach)?,
            });
            self.ordinal = ordinal;
        }
        Ok(true)
    }

    /// The block from the source.
    fn in_memory(&self, ordinal: usize) -> Option<Block> {
        let blocks = self.blocks.as_ref()?;
        match self.window.holds(ordinal) {
            true => None,
            false => blocks.get(&self.table, ordinal),
        }
    }

    /// The block from the window or the file.
    fn read(&mut self, ordinal: usize, reach: impl FnOnce(&mut Self) -> Reach) -> Result<Block> {
        let reach = reach(self);
        let block = self.window.block(&self.table, ordinal, reach)?;
        if let Some(blocks) = &self.blocks
            && self.offers > 0
        {
            self.offers -= 1;
            blocks.offer(&self.table, ordinal, &block);
        }
        Ok(block)
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
