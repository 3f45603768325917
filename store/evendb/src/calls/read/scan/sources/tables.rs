//! Cursors over the tables of a funk, key by key: the newest record of each key at a version.
//!
//! [`TableKeys`] is one table; [`ChainKeys`] a chain of disjoint tables, end to end: the base, or
//! one of the chains of a tree of guards. Both move in one direction, chosen at the seek. A chain
//! reads a table only when a scan comes to its keys.
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
use crate::tables::TableHandle;
use crate::visibility::Candidate;
use evendb_storage::table::{Block, PAGE_BYTES, ReadAhead, Table, TableCursor, TableMeta};
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

/// The table of a chain in which a scan begins. There may be no table with that index.
pub(crate) fn chain_index(
    tables: &[Arc<TableHandle>],
    from: Option<&[u8]>,
    direction: Direction,
) -> Option<usize> {
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

/// Whether a scan need not read a table when it begins: the table has no key at the beginning, so
/// its figures tell the next key; or, where the scan begins at an end, no key before `until`.
pub(crate) fn is_ahead(
    meta: &TableMeta,
    from: Option<&[u8]>,
    until: Option<&[u8]>,
    direction: Direction,
) -> bool {
    match (direction, from, until) {
        (Direction::Forward, Some(from), _) => *from < *meta.min_key,
        (Direction::Backward, Some(from), _) => *from > *meta.max_key,
        (Direction::Forward, None, Some(until)) => *until <= *meta.min_key,
        (Direction::Backward, None, Some(until)) => *meta.max_key < *until,
        (_, None, None) => false,
    }
}

/// Where a scan of a chain begins, and how it reads.
#[derive(Clone, Copy)]
pub(crate) struct ChainSeek<'a> {
    pub(crate) from: Option<&'a [u8]>,
    /// Nothing behind it is wanted for now, so it is not read ahead.
    pub(crate) until: Option<&'a [u8]>,
    pub(crate) direction: Direction,
    pub(crate) at: Version,
    pub(crate) readahead: ReadAhead,
}

/// The tables of a chain, one after the other.
pub(crate) struct ChainKeys {
    funk: Arc<Funk>,
    /// Which chain of the funk it is.
    chain: usize,
    /// The table that it is in.
    index: usize,
    current: Current,
    direction: Direction,
    at: Version,
    readahead: ReadAhead,
}

/// The table that a chain is in.
#[expect(
    clippy::large_enum_variant,
    reason = "most chains are in a table, and none is moved"
)]
enum Current {
    /// The scan has come to its keys.
    Open(TableKeys),
    /// The scan has not come to its first key, which the table's figures tell. Nothing was read.
    Ahead,
    /// The chain has no more keys.
    Ended,
}

impl ChainKeys {
    /// Like [`TableKeys::seek`], in the chain with this number.
    pub(crate) fn seek(funk: Arc<Funk>, chain: usize, seek: &ChainSeek<'_>) -> Result<ChainKeys> {
        let index = chain_index(funk.chain(chain), seek.from, seek.direction);
        let mut keys = ChainKeys {
            funk,
            chain,
            index: index.unwrap_or(usize::MAX),
            current: Current::Ended,
            direction: seek.direction,
            at: seek.at,
            readahead: seek.readahead,
        };
        let Some(table) = keys.table(keys.index) else {
            return Ok(keys);
        };
        match is_ahead(&table.part.meta, seek.from, seek.until, seek.direction) {
            true => keys.current = Current::Ahead,
            false => {
                keys.open(seek.from, seek.until)?;
                keys.skip_exhausted();
            }
        }
        Ok(keys)
    }

    fn table(&self, index: usize) -> Option<&Arc<TableHandle>> {
        self.funk.chain(self.chain).get(index)
    }

    fn open(&mut self, from: Option<&[u8]>, until: Option<&[u8]>) -> Result<()> {
        let Some(table) = self.table(self.index) else {
            return Ok(());
        };
        let (table, direction, at) = (table.open()?, self.direction, self.at);
        let keys = TableKeys::seek(table, from, until, direction, at, self.readahead)?;
        self.current = Current::Open(keys);
        Ok(())
    }

    /// Goes to the next table, without reading it, if the current one has no more keys.
    fn skip_exhausted(&mut self) {
        let is_exhausted = |keys: &TableKeys| keys.key().is_none();
        if !matches!(&self.current, Current::Open(keys) if is_exhausted(keys)) {
            return;
        }
        let next = match self.direction {
            Direction::Forward => self.index.checked_add(1),
            Direction::Backward => self.index.checked_sub(1),
        };
        let next = next.filter(|&next| self.table(next).is_some());
        self.current = next.map_or(Current::Ended, |_| Current::Ahead);
        self.index = next.unwrap_or(usize::MAX);
    }

    /// The current key. The caller has settled a key that was left ([`settle`](Self::settle)).
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match &self.current {
            Current::Open(keys) => keys.key(),
            Current::Ahead => self.table(self.index).map(|table| match self.direction {
                Direction::Forward => &*table.part.meta.min_key,
                Direction::Backward => &*table.part.meta.max_key,
            }),
            Current::Ended => None,
        }
    }

    /// Opens the table, if the scan has come to its first key.
    fn arrive(&mut self) -> Result<Option<&mut TableKeys>> {
        if matches!(self.current, Current::Ahead) {
            self.open(None, None)?;
        }
        Ok(match &mut self.current {
            Current::Open(keys) => Some(keys),
            Current::Ahead | Current::Ended => None,
        })
    }

    /// Like [`TableKeys::take_hit`].
    pub(crate) fn take_hit(&mut self) -> Result<Option<TableHit>> {
        self.arrive()?.map_or(Ok(None), TableKeys::take_hit)
    }

    /// Like [`TableKeys::leave`]; it may read, if the scan has just come to a table.
    pub(crate) fn leave(&mut self) -> Result<()> {
        if let Some(keys) = self.arrive()? {
            keys.leave();
        }
        Ok(())
    }

    /// Like [`TableKeys::settle`].
    pub(crate) fn settle(&mut self) -> Result<()> {
        if let Current::Open(keys) = &mut self.current {
            keys.settle()?;
            self.skip_exhausted();
        }
        Ok(())
    }
}
