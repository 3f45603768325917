//! Passes over a whole table: key hashes for a log index, and a full check.

use crate::key_hash::{FilterHash, RamHash};
use crate::table::footer::Properties;
use crate::table::reader::Table;
use crate::table::stored::Malformed;
use crate::table::walk::Walk;
use crate::table::window::{Reach, Window};
use crate::{EntryRef, Result, Version};

/// The number of blocks that one read of a pass fetches.
const PASS_BLOCKS: usize = 64;

impl Table {
    /// Calls `each(hash, block ordinal)` for every key in order, once for each block that holds
    /// records of the key. A log index is built from these. Of a [keyed](Table::is_keyed) table
    /// nothing is read.
    pub fn for_each_hash(&self, each: &mut dyn FnMut(RamHash, usize)) -> Result<()> {
        if self.is_keyed() {
            let mut key = Vec::new();
            for ordinal in 0..self.block_count() {
                self.key_of_block(ordinal, &mut key);
                each(RamHash::of(&key), ordinal);
            }
            return Ok(());
        }
        let mut window = Window::default();
        let mut walk = Walk::default();
        let mut last_key = Vec::new();
        for ordinal in 0..self.block_count() {
            let block = window.block(self, ordinal, Reach::Forward(PASS_BLOCKS))?;
            let malformed = |malformed| self.corrupt_block(ordinal, malformed);
            walk.first(&block).map_err(malformed)?;
            let mut first = true;
            loop {
                if first || last_key != walk.key() {
                    each(RamHash::of(walk.key()), ordinal);
                    last_key.clear();
                    last_key.extend_from_slice(walk.key());
                    first = false;
                }
                if !walk.advance(&block).map_err(malformed)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the whole table and makes the checks that opening and single reads leave out: order of
    /// records, their numbers, the blocks' checksums against the properties, index and filter
    /// against the records.
    pub fn verify(&self) -> Result<()> {
        self.verify_each(&mut |_| {})
    }

    /// The same, which also gives `each` every record.
    pub fn verify_each(&self, each: &mut dyn FnMut(EntryRef<'_>)) -> Result<()> {
        let mut window = Window::default();
        let mut walk = Walk::default();
        let mut seen = Properties::default();
        let mut last: Option<(Vec<u8>, Version)> = None;
        for ordinal in 0..self.block_count() {
            let bad = |detail| self.corrupt_block(ordinal, Malformed(detail));
            let malformed = |malformed| self.corrupt_block(ordinal, malformed);
            let block = window.block(self, ordinal, Reach::Forward(PASS_BLOCKS))?;
            seen.add_block_checksum(window.block_checksum(self, ordinal));
            walk.first(&block).map_err(malformed)?;
            while let Some(entry) = walk.entry(&block) {
                if let Some((key, version)) = &mut last {
                    let newer = key.as_slice() == entry.key && entry.version >= *version;
                    if newer || key.as_slice() > entry.key {
                        return Err(bad("records out of order"));
                    }
                    key.clear();
                    key.extend_from_slice(entry.key);
                    *version = entry.version;
                } else {
                    seen.meta.min_key = entry.key.to_vec();
                    last = Some((entry.key.to_vec(), entry.version));
                }
                let place = self.first_block_at(entry.key);
                let reachable =
                    place == ordinal || (place < ordinal && self.continues(ordinal - 1, entry.key));
                if !reachable || !self.may_contain(FilterHash::of(entry.key)) {
                    return Err(bad("record that index or filter do not know"));
                }
                seen.count(entry);
                each(entry);
                if !walk.advance(&block).map_err(malformed)? {
                    break;
                }
            }
        }
        seen.meta.max_key = last.map(|(key, _)| key).unwrap_or_default();
        seen.meta.len = self.meta().len;
        seen.meta.checksum = self.meta().checksum;
        if seen.meta != *self.meta() || seen.data_checksum != self.data_checksum() {
            return Err(self.corrupt_at(0, Malformed("records do not sum up to the properties")));
        }
        Ok(())
    }
}
