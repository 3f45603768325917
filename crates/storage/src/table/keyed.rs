//! Keyed tables: each block has the versions of one key, which is its separator, so that the index has all keys.
//!
//! Whoever has such a table open knows its keys without a read, and reads a block only for its values. The index then
//! takes the place of a key for each record, so that this is for tables of few records ([`TableWriter::keyed`]). A search that
//! takes the table for one like others is right, too.
//!
//! Immutable, as the table is. Not here: how such a table is written, and the cursor ([`TableCursor::seek_block`]).
//!
//! [`TableWriter::keyed`]: super::TableWriter::keyed
//! [`TableCursor::seek_block`]: super::TableCursor::seek_block

use super::Table;

impl Table {
    /// Whether the index has all keys of the table: each block holds one.
    pub fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    /// The one key of a block of a table that [is keyed](Table::is_keyed), in place of what `out` holds. Nothing is read for
    /// it. Panics if there is no such block.
    pub fn key_of_block(&self, ordinal: usize, out: &mut Vec<u8>) {
        debug_assert!(self.is_keyed, "a block of several keys");
        self.index.separator_into(ordinal, out);
    }

    /// Whether this is the key by which the index names the block.
    pub(super) fn is_key_of_block(&self, ordinal: usize, key: &[u8]) -> bool {
        self.index.is_separator(ordinal, key)
    }

    /// Tells the system that the blocks with keys from `low` to below `high`, which may be none, will be read soon.
    pub fn will_need_keys(&self, low: Option<&[u8]>, high: Option<&[u8]>) {
        let place = |key| self.index.find(key);
        self.will_need_blocks(low.map_or(0, place)..high.map_or(self.index.len(), place));
    }
}
