//! What the index of an open table tells without a block: what the system should read ahead, where
//! a stretch of the table begins or ends, where the table may be cut, and which share of it lies
//! where.
//!
//! Nothing here waits for the disk, and an answer may be wrong by a block. Thread safety: as that
//! of [`Table`]. Not here: opening, and reading of blocks ([`crate::table::reader`]).

use crate::table::index::share_below;
use crate::table::reader::Table;
use std::ops::Range;

impl Table {
    /// Tells the system that all stored blocks will be read soon. See
    /// [`File::will_need`](crate::vfs::File::will_need).
    pub fn will_need(&self) {
        if self.whole.is_none() {
            self.file.will_need(self.offset, self.meta().len);
        }
    }

    /// Tells the system that a seek to `key`, or to the first record, will read `count` blocks
    /// forward. See [`File::will_need`](crate::vfs::File::will_need).
    pub fn will_need_from(&self, key: Option<&[u8]>, count: usize) {
        let first = key.map_or(0, |key| self.index.find(key));
        self.will_need_blocks(first..first.saturating_add(count).min(self.index.len()));
    }

    /// Tells the system that a seek to the last record below `key`, or to the last of all, will
    /// read `count` blocks backward.
    pub fn will_need_before(&self, key: Option<&[u8]>, count: usize) {
        let blocks = self.index.len();
        let end = key.map_or(blocks, |key| (self.index.find(key) + 1).min(blocks));
        self.will_need_blocks(end.saturating_sub(count)..end);
    }

    /// Tells the system that all blocks that may have keys from `low` to below `high` will be read
    /// soon. Returns the number of their bytes.
    pub fn will_need_between(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> u64 {
        let first = low.map_or(0, |low| self.index.find(low));
        let end = self.last_block_below(high).map_or(0, |last| last + 1);
        if first >= end || self.whole.is_some() {
            return 0;
        }
        self.will_need_blocks(first..end);
        self.place(end - 1).end - self.place(first).start
    }

    /// The end of a stretch of about `bytes` that begins with the key `low`: the least key of a
    /// block. `None` if the table ends before.
    pub fn stretch_end(&self, low: Option<&[u8]>, bytes: u64) -> Option<Vec<u8>> {
        let first = low.map_or(0, |low| self.index.find(low));
        let mut behind = first + 1..self.index.len();
        let cut = behind.find(|&next| self.place(next).start - self.place(first).start >= bytes)?;
        Some(self.cut_before(cut))
    }

    /// The beginning of a stretch of about `bytes` that ends below the key `high`. `None` if the
    /// table begins behind that.
    pub fn stretch_begin(&self, high: Option<&[u8]>, bytes: u64) -> Option<Vec<u8>> {
        let last = self.last_block_below(high)?;
        let end = self.place(last).end;
        let mut before = (1..=last).rev();
        let cut = before.find(|&first| end - self.place(first).start >= bytes)?;
        Some(self.cut_before(cut))
    }

    /// The last block that may have keys below `high`.
    fn last_block_below(&self, high: Option<&[u8]>) -> Option<usize> {
        let last = self.index.len().checked_sub(1)?;
        let Some(high) = high else {
            return Some(last);
        };
        let found = self.index.find(high);
        match found > last {
            true => Some(last),
            // If a stretch was cut at `high`, the block behind the cut has no key below it.
            false if found > 0 && *self.cut_before(found) == *high => Some(found - 1),
            false => Some(found),
        }
    }

    /// The least key above the previous block: all versions of that block's last key are below it.
    fn cut_before(&self, ordinal: usize) -> Vec<u8> {
        let mut cut = self.index.separator(ordinal - 1);
        cut.push(0);
        cut
    }

    /// Tells the system that these blocks will be read soon.
    pub(crate) fn will_need_blocks(&self, blocks: Range<usize>) {
        if self.whole.is_some() || blocks.is_empty() {
            return;
        }
        let (first, last) = (self.place(blocks.start), self.place(blocks.end - 1));
        let len = last.end.saturating_sub(first.start);
        self.file.will_need(self.offset + first.start, len);
    }

    /// Keys that cut the table's data into parts of about `bytes`; ascending, behind its first key
    /// and not behind its last one, whose versions may fill several blocks. Each part begins with a
    /// block. The last part may have fewer bytes, and a part with a long block may have more.
    pub fn cuts(&self, bytes: u64) -> Vec<Vec<u8>> {
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        let mut begin = 0;
        for ordinal in 1..self.index.len() {
            let place = self.index.block(ordinal);
            if place.start - begin < bytes {
                continue;
            }
            let cut = self.cut_before(ordinal);
            if *cut > *self.meta().max_key {
                break;
            }
            if cuts.last().is_none_or(|last| *last < cut) {
                cuts.push(cut);
                begin = place.start;
            }
        }
        cuts
    }

    /// About which share of the table's data, from 0 to 1, belongs to the keys from `low` to below
    /// `high`. It reads nothing. At each end it is off by less than a block, within which keys are
    /// assumed to lie evenly.
    pub fn share_between(&self, low: &[u8], high: Option<&[u8]>) -> f64 {
        let data_bytes = self.index.data_bytes();
        if data_bytes == 0 {
            return 0.0;
        }
        let begin = self.bytes_below(low);
        let end = high.map_or(data_bytes as f64, |high| self.bytes_below(high));
        ((end - begin) / data_bytes as f64).clamp(0.0, 1.0)
    }

    /// About how many bytes of blocks have keys below `key`.
    fn bytes_below(&self, key: &[u8]) -> f64 {
        if *key <= *self.meta().min_key {
            return 0.0;
        }
        let ordinal = self.index.find(key);
        if ordinal == self.index.len() {
            return self.index.data_bytes() as f64;
        }
        let before = match ordinal.checked_sub(1) {
            Some(before) => self.index.separator(before),
            None => self.meta().min_key.clone(),
        };
        let place = self.index.block(ordinal);
        let within = share_below(key, &before, &self.index.separator(ordinal));
        place.start as f64 + within * (place.end - place.start) as f64
    }

    /// The first block that can hold `key` or a key after it; [`Table::block_count`] for none.
    pub fn first_block_at(&self, key: &[u8]) -> usize {
        self.index.find(key)
    }

    /// The number of blocks that hold the keys from `low` to the first key at or above `high`.
    /// Without a limit the range goes to the end.
    pub fn blocks_between(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> usize {
        let first = low.map_or(0, |key| self.index.find(key));
        let end = high.map_or(usize::MAX, |key| self.index.find(key).saturating_add(1));
        end.min(self.index.len()).saturating_sub(first)
    }
}
