//! Cursors over the tables of a funk, key by key: the newest record of each key at a version.
//!
//! [`TableKeys`] is one run; [`BaseKeys`] the disjoint tables of the base, end to end. Both move in
//! one direction, chosen at the seek.
//!
//! A key is left behind only when the next one is asked for ([`TableKeys::leave`],
//! [`TableKeys::settle`]). Forward, the first visible record of a key decides, and the next key may
//! lie in a block that nobody wants. Backward, the versions of a key rise, so the newest one is
//! known only behind them, or where a block begins with the key.
//!
//! The index of a keyed table has all its keys. There a seek and a step read nothing; a block is
//! read when the record of its key is taken. So a scan reads of such runs only the records that it
//! gives out.

use crate::error::Result;
use crate::funk::Funk;
use crate::sync::Arc;
use crate::visibility::Candidate;
use evendb_storage::table::{Block, PAGE_BYTES, ReadAhead, Table, TableCursor};
use evendb_storage::{Kind, Version};
use std::ops::Range;

/// Which way a cursor moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The visible record of the key a cursor is on.
#[derive(Clone)]
pub(crate) struct TableHit {
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) block: Block,
    pub(crate) value: Range<usize>,
}

impl Candidate for TableHit {
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

impl TableHit {
    /// The value as the caller put it, within the block's bytes.
    #[inline]
    pub(crate) fn shown(&self) -> Range<usize> {
        self.value.start + self.kind.prefix_bytes()..self.value.end
    }
}

/// One table, key by key.
pub(crate) struct TableKeys {
    cursor: TableCursor,
    direction: Direction,
    at: Version,
    key: Vec<u8>,
    /// `None` when the cursor has run out.
    hit: Option<Option<TableHit>>,
    /// The cursor may still be on a record of `key`.
    within_key: bool,
    /// `key` is done with, but the next key was not asked for yet.
    left: bool,
    /// Only in a keyed table: the block of `key`, and whether it is still to be read.
    block: Option<usize>,
    unread: bool,
}

/// The blocks that a seek in a table reads at once, if nothing behind `until` is wanted.
/// `readahead` is in pages, the result in blocks.
pub(crate) fn read_until(
    table: &Table,
    from: Option<&[u8]>,
    until: Option<&[u8]>,
    direction: Direction,
    readahead: ReadAhead,
) -> ReadAhead {
    let (low, high) = match direction {
        Direction::Forward => (from, until),
        Direction::Backward => (until, from),
    };
    let blocks = |pages: usize| table.blocks_in(pages.saturating_mul(PAGE_BYTES));
    let seek = match blocks(readahead.seek) {
        1 => 1,
        seek => seek.min(table.blocks_between(low, high).max(1)),
    };
    ReadAhead {
        seek,
        next: blocks(readahead.next),
        max: blocks(readahead.max),
    }
}

impl TableKeys {
    /// On the first key at or after `from` (forward), or the last key before `from` (backward);
    /// without `from` on the first or last key. Nothing behind `until` is wanted for now, so it is
    /// not read ahead.
    pub(crate) fn seek(
        table: Arc<Table>,
        from: Option<&[u8]>,
        until: Option<&[u8]>,
        direction: Direction,
        at: Version,
        readahead: ReadAhead,
    ) -> Result<TableKeys> {
        let readahead = read_until(&table, from, until, direction, readahead);
        let is_keyed = table.is_keyed();
        let mut keys = TableKeys {
            cursor: TableCursor::new(table, readahead),
            direction,
            at,
            key: Vec::new(),
            hit: None,
            within_key: false,
            left: false,
            block: None,
            unread: false,
        };
        match is_keyed {
            true => keys.seek_by_index(from),
            false => keys.seek_by_cursor(from)?,
        }
        Ok(keys)
    }

    fn seek_by_cursor(&mut self, from: Option<&[u8]>) -> Result<()> {
        match (self.direction, from) {
            (Direction::Forward, Some(key)) => self.cursor.seek(key)?,
            (Direction::Forward, None) => self.cursor.seek_first()?,
            (Direction::Backward, Some(key)) => self.cursor.seek_before(key)?,
            (Direction::Backward, None) => self.cursor.seek_last()?,
        }
        self.gather()
    }

    /// Seeks in a keyed table, without reading it.
    fn seek_by_index(&mut self, from: Option<&[u8]>) {
        let table = self.cursor.table();
        let behind = from.map(|key| table.first_block_at(key));
        self.block = match self.direction {
            Direction::Forward => Some(behind.unwrap_or(0)),
            Direction::Backward => behind.unwrap_or(table.block_count()).checked_sub(1),
        };
        self.name_block();
    }

    /// Sets the key to the key of `block`, without reading it.
    fn name_block(&mut self) {
        let table = self.cursor.table();
        self.block = self.block.filter(|&block| block < table.block_count());
        self.unread = self.block.is_some();
        self.hit = self.block.map(|block| {
            table.key_of_block(block, &mut self.key);
            None
        });
    }

    /// Reads the visible record of a key that is known from the index alone.
    fn read_named(&mut self, block: usize) -> Result<Option<TableHit>> {
        let backward = self.direction == Direction::Backward;
        self.cursor.seek_block(block, backward)?;
        loop {
            let hit = self.seen_here();
            if hit.is_some() || !self.cursor.next_in_block()? {
                return Ok(hit);
            }
        }
    }

    /// The cursor's record, if it is visible.
    fn seen_here(&self) -> Option<TableHit> {
        let entry = self.cursor.entry();
        entry.version.is_seen_at(self.at).then(|| {
            let (block, value) = self.cursor.value_block();
            TableHit {
                version: entry.version,
                kind: entry.kind,
                block: block.clone(),
                value,
            }
        })
    }

    /// The current key. The caller has settled a key that was left ([`settle`](Self::settle)).
    pub(crate) fn key(&self) -> Option<&[u8]> {
        debug_assert!(!self.left, "the next key was not asked for");
        self.hit.as_ref().map(|_| &self.key[..])
    }

    /// The visible record of the key, given out once. If the key is known from the index alone, the
    /// record is read now.
    pub(crate) fn take_hit(&mut self) -> Result<Option<TableHit>> {
        match self.block.filter(|_| std::mem::take(&mut self.unread)) {
            Some(block) => self.read_named(block),
            None => Ok(self.hit.as_mut().and_then(Option::take)),
        }
    }

    /// Whether a block was read by the seek, or for the record of the key.
    pub(crate) fn has_read(&self) -> bool {
        self.block.is_none() || !self.unread
    }

    /// Marks the key as done with. Nothing is read for it.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Goes to the next key, if the current one was left.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if std::mem::take(&mut self.left) {
            if let Some(block) = self.block {
                self.block = match self.direction {
                    Direction::Forward => Some(block + 1),
                    Direction::Backward => block.checked_sub(1),
                };
                self.name_block();
                return Ok(());
            }
            self.pass_key()?;
            self.gather()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.cursor.next()?,
            Direction::Backward => self.cursor.prev()?,
        }
        Ok(())
    }

    /// Moves behind the records of the key.
    fn pass_key(&mut self) -> Result<()> {
        if std::mem::take(&mut self.within_key) {
            self.step()?;
            while self.is_on_key() {
                self.step()?;
            }
        }
        Ok(())
    }

    fn is_on_key(&self) -> bool {
        self.cursor.valid() && *self.cursor.entry().key == *self.key
    }

    /// Looks for the visible record of the cursor's key, and leaves the cursor on it or behind the
    /// key.
    fn gather(&mut self) -> Result<()> {
        self.hit = None;
        if !self.cursor.valid() {
            return Ok(());
        }
        self.key.clear();
        self.key.extend_from_slice(self.cursor.entry().key);
        let mut hit: Option<TableHit> = None;
        loop {
            if let Some(seen) = self.seen_here() {
                hit = Some(seen);
            }
            let is_last = match self.direction {
                // The versions fall, so no later one is newer.
                Direction::Forward => hit.is_some(),
                Direction::Backward => self.cursor.begins_key(),
            };
            if is_last {
                self.within_key = true;
                break;
            }
            self.step()?;
            if !self.is_on_key() {
                break;
            }
        }
        self.hit = Some(hit);
        Ok(())
    }
}

/// The table of the base in which a scan begins.
pub(crate) fn base_index(funk: &Funk, from: Option<&[u8]>, direction: Direction) -> Option<usize> {
    let tables = &funk.base;
    match (direction, from) {
        (Direction::Forward, None) => Some(0),
        (Direction::Forward, Some(key)) => {
            Some(tables.partition_point(|table| *table.part.meta.max_key < *key))
        }
        (Direction::Backward, None) => tables.len().checked_sub(1),
        (Direction::Backward, Some(key)) => tables
            .partition_point(|table| *table.part.meta.min_key < *key)
            .checked_sub(1),
    }
}

/// The base's tables, one after the other.
pub(crate) struct BaseKeys {
    funk: Arc<Funk>,
    /// The table of `current`.
    index: usize,
    current: Option<TableKeys>,
    direction: Direction,
    at: Version,
    readahead: ReadAhead,
}

impl BaseKeys {
    /// Like [`TableKeys::seek`].
    pub(crate) fn seek(
        funk: Arc<Funk>,
        from: Option<&[u8]>,
        until: Option<&[u8]>,
        direction: Direction,
        at: Version,
        readahead: ReadAhead,
    ) -> Result<BaseKeys> {
        let index = base_index(&funk, from, direction);
        let mut keys = BaseKeys {
            funk,
            index: 0,
            current: None,
            direction,
            at,
            readahead,
        };
        if let Some(index) = index {
            keys.index = index;
            keys.open(from, until)?;
        }
        Ok(keys)
    }

    fn open(&mut self, from: Option<&[u8]>, until: Option<&[u8]>) -> Result<()> {
        self.current = match self.funk.base.get(self.index) {
            Some(table) => Some(TableKeys::seek(
                table.open()?,
                from,
                until,
                self.direction,
                self.at,
                self.readahead,
            )?),
            None => None,
        };
        self.skip_exhausted()
    }

    fn skip_exhausted(&mut self) -> Result<()> {
        while self
            .current
            .as_ref()
            .is_some_and(|keys| keys.key().is_none())
        {
            let next = match self.direction {
                Direction::Forward => Some(self.index + 1),
                Direction::Backward => self.index.checked_sub(1),
            };
            let Some(table) = next.and_then(|next| self.funk.base.get(next)) else {
                self.current = None;
                break;
            };
            self.index = next.unwrap_or_default();
            self.current = Some(TableKeys::seek(
                table.open()?,
                None,
                None,
                self.direction,
                self.at,
                self.readahead,
            )?);
        }
        Ok(())
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.current.as_ref().and_then(TableKeys::key)
    }

    /// Like [`TableKeys::take_hit`].
    pub(crate) fn take_hit(&mut self) -> Result<Option<TableHit>> {
        let current = self.current.as_mut();
        current.map_or(Ok(None), TableKeys::take_hit)
    }

    /// Like [`TableKeys::leave`].
    pub(crate) fn leave(&mut self) {
        if let Some(current) = &mut self.current {
            current.leave();
        }
    }

    /// Like [`TableKeys::settle`].
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.settle()?;
        }
        self.skip_exhausted()
    }
}
