//! Groups written past the system's cache, as whole blocks.
//!
//! A lone record of 1 KiB that is written and synced through the cache costs the kernel a fifth
//! more time than the block around it handed to the disk directly (median of 25 runs in turn: 8.0
//! and 9.4 thousand a second). So the block in which the last group ended is written again together
//! with the following bytes:
//!
//! ```text
//!    block            block            block
//!    |.......[last group.....|..][this group....|......000000|
//!                            `-- kept in memory         `-- free: nobody's record
//!                            |<------- one write ----------->|
//! ```
//!
//! Invariants: bytes below a group's start are written as they are in the file, so that a write
//! torn between sectors changes none of them; bytes behind its end are free, in the ring's sense.
//!
//! Belongs to the leader: one thread at a time. Not here: which bytes are written, and what a
//! failure means.

use evendb_storage::vfs::{BLOCK_BYTES, File, read_exact_at};
use std::io;
use std::sync::Arc;

/// The largest number of bytes of memory that is kept for the next group.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The way past the cache, if there is one.
#[derive(Default)]
enum Way {
    #[default]
    Unknown,
    Open(Arc<dyn File>),
    Closed,
}

#[derive(Default)]
pub(crate) struct Blocks {
    way: Way,
    /// Room for aligned blocks.
    memory: Vec<u8>,
    /// The bytes before `end`, up to its block's start.
    rest: Vec<u8>,
    /// The end of the last group. A group that begins there follows it: LSNs only grow, so no group
    /// was written in between in another way.
    end: u64,
}

impl Blocks {
    /// Writes `bytes` to their place at `lsn`, durably. `Ok(false)` means that this group, or any
    /// group of this file, cannot be written in this way; nothing was written. `bytes` do not cross
    /// the end of a lap.
    pub(crate) fn write(
        &mut self,
        file: &dyn File,
        bytes: &[u8],
        lsn: u64,
        capacity: u64,
        tail: u64,
    ) -> io::Result<bool> {
        let block = BLOCK_BYTES as u64;
        let start = lsn - lsn % block;
        let end = lsn + bytes.len() as u64;
        let blocks_end = end.next_multiple_of(block);
        // Behind its end lie records of the last lap that recovery needs. (If there is a reader,
        // the group itself may lie below the tail.)
        if blocks_end.saturating_sub(tail) > capacity {
            return Ok(false);
        }
        if let Way::Unknown = self.way {
            self.way = file.past_cache().map_or(Way::Closed, Way::Open);
        }
        let Way::Open(direct) = &self.way else {
            return Ok(false);
        };
        let len = (blocks_end - start) as usize;
        self.memory.clear();
        self.memory.resize(len + BLOCK_BYTES, 0);
        let aligned = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        let whole = &mut self.memory[aligned..aligned + len];
        let (before, at) = whole.split_at_mut((lsn - start) as usize);
        if self.end == lsn {
            before.copy_from_slice(&self.rest);
        } else {
            read_exact_at(file, before, start % capacity)?;
        }
        at[..bytes.len()].copy_from_slice(bytes);
        match direct.write_at_durable(whole, start % capacity) {
            Ok(()) => {}
            // Any such failure counts as if the file system had no way past the cache.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.way = Way::Closed;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let used = (end - start) as usize;
        self.rest.clear();
        self.rest
            .extend_from_slice(&whole[used - used % BLOCK_BYTES..used]);
        self.end = end;
        if self.memory.len() > SPARE_BYTES_MAX {
            self.memory = Vec::new();
        }
        Ok(true)
    }
}
