//! Keyed tables: each block has the versions of one key, and this key is its separator, so that the
//! index has all keys.
//!
//! A reader that has such a table open knows its keys without a read, and reads a block only for
//! its values. The index then holds a key for each record, so this is for tables with few records
//! ([`TableWriter::keyed`]). A search that treats the table like other tables is right, too.
//!
//! Immutable, as the table is. Not here: how such a table is written, and its cursor
//! ([`TableCursor::seek_block`]).
//!
//! [`TableWriter::keyed`]: crate::table::TableWriter::keyed
//! [`TableCursor::seek_block`]: crate::table::TableCursor::seek_block

use crate::key_hash::FilterHash;
use crate::table::Table;
use std::ops::Range;

impl Table {
    /// Whether the index has all keys of the table: each block holds one.
    pub fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    /// Whether the open table tells without a read which keys it has: it is keyed, it has a filter,
    /// or all of it is in RAM.
    pub fn tells_keys(&self) -> bool {
        self.is_keyed || self.has_filter() || self.is_in_ram()
    }

    /// `false` if the open table has no record of `key`, as far as it [tells](Table::tells_keys).
    pub fn may_have(&self, key: &[u8], hash: FilterHash) -> bool {
        if !self.is_keyed {
            return self.may_contain(hash);
        }
        let block = self.first_block_at(key);
        block < self.block_count() && self.is_key_of_block(block, key)
    }

    /// Replaces `out` by the one key of a block of a table that [is keyed](Table::is_keyed). It
    /// reads nothing. Panics if there is no such block.
    pub fn key_of_block(&self, ordinal: usize, out: &mut Vec<u8>) {
        debug_assert!(self.is_keyed, "a block of several keys");
        self.index.separator_into(ordinal, out);
    }

    /// Whether this is the key by which the index names the block.
    pub(crate) fn is_key_of_block(&self, ordinal: usize, key: &[u8]) -> bool {
        self.index.is_separator(ordinal, key)
    }

    /// Whether a [keyed](Table::is_keyed) table has keys from `low` to below `high`. It reads
    /// nothing.
    pub fn has_keys_between(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> bool {
        debug_assert!(self.is_keyed, "the index does not have all keys");
        !self.blocks_of_keys(low, high).is_empty()
    }

    /// The blocks with keys from `low` to below `high`.
    fn blocks_of_keys(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Range<usize> {
        let place = |key| self.index.find(key);
        low.map_or(0, place)..high.map_or(self.index.len(), place)
    }

    /// Tells the system that the blocks with keys from `low` to below `high` will be read soon.
    /// There may be none.
    pub fn will_need_keys(&self, low: Option<&[u8]>, high: Option<&[u8]>) {
        self.will_need_blocks(self.blocks_of_keys(low, high));
    }
}
