//! Stored blocks that lie together, fetched by one read: for cursors and whole passes.
//!
//! The window lends uncompressed blocks from its buffer without a copy. The buffer is filled again
//! once nobody else holds it, so that a scan allocates next to nothing. A window belongs to one
//! thread at a time.

use crate::Result;
use crate::table::block::Block;
use crate::table::reader::Table;
use crate::table::stored::crc_of;
use crate::table::stored::{self, Malformed};
use std::ops::Range;
use std::sync::Arc;

/// A window of several blocks has at most this many bytes.
const WINDOW_BYTES_MAX: u64 = 2 << 20;

/// The blocks that a window fetches when it has to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// This block and the blocks behind it, at most this many in all.
    Forward(usize),
    /// This block and the blocks before it, at most this many in all.
    Backward(usize),
}

/// Stored blocks that lie together, fetched by one read.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Arc<[u8]>,
    blocks: Range<usize>,
    start: u64,
    /// Blocks of an encrypted table that were fetched and did not open.
    failed: Vec<(usize, Malformed)>,
}

impl Window {
    /// Block `ordinal`, from the window or after moving the window there. An uncompressed block
    /// shares the window's buffer, which is used again once nobody else holds it.
    pub(crate) fn block(&mut self, table: &Table, ordinal: usize, reach: Reach) -> Result<Block> {
        if !self.holds(ordinal) {
            self.fetch(table, ordinal, reach)?;
        }
        if let Some((_, malformed)) = self.failed.iter().find(|(failed, _)| *failed == ordinal) {
            return Err(table.corrupt_block(ordinal, *malformed));
        }
        let place = table.place(ordinal);
        let start = (place.start - self.start) as usize;
        let end = (place.end - self.start) as usize;
        table.block_in(&self.buffer, start..end, place.start)
    }

    /// Whether a block is in the window.
    pub(crate) fn holds(&self, ordinal: usize) -> bool {
        self.blocks.contains(&ordinal)
    }

    /// The stored checksum of a block in the window.
    pub(crate) fn block_checksum(&self, table: &Table, ordinal: usize) -> u32 {
        let place = table.place(ordinal);
        crc_of(&self.buffer[..(place.end - self.start) as usize])
    }

    fn fetch(&mut self, table: &Table, ordinal: usize, reach: Reach) -> Result<()> {
        if let Some(whole) = table.whole() {
            self.buffer = Arc::clone(whole);
            self.failed.clear();
            (self.blocks, self.start) = (0..table.block_count(), 0);
            return Ok(());
        }
        let mut blocks = ordinal..ordinal + 1;
        let mut place = table.place(ordinal);
        let mut left = match reach {
            Reach::Forward(count) => count.min(table.block_count() - ordinal),
            Reach::Backward(count) => count.min(ordinal + 1),
        };
        while left > 1 {
            let mut wider = place.clone();
            match reach {
                Reach::Forward(_) => wider.end = table.place(blocks.end).end,
                Reach::Backward(_) => wider.start = table.place(blocks.start - 1).start,
            }
            if wider.end - wider.start > WINDOW_BYTES_MAX {
                break;
            }
            match reach {
                Reach::Forward(_) => blocks.end += 1,
                Reach::Backward(_) => blocks.start -= 1,
            }
            place = wider;
            left -= 1;
        }
        self.blocks = 0..0;
        let len = table.memory_len(&place)?;
        let reusable = self.buffer.len() >= len && Arc::get_mut(&mut self.buffer).is_some();
        if !reusable {
            self.buffer = stored::zeroed(len);
        }
        if let Some(buffer) = Arc::get_mut(&mut self.buffer) {
            table.read_stored(&mut buffer[..len], place.start)?;
            self.failed = table.open_all(&mut buffer[..len], blocks.clone());
            (self.blocks, self.start) = (blocks, place.start);
        }
        Ok(())
    }
}
