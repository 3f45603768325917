//! [`Room`]: blocks that are reserved behind the last edit of a manifest.
//!
//! ```text
//!   | edits | reserved: zeros |
//!           '- end of the log '- `reserved`
//! ```
//! An edit is written where blocks are reserved for it, and nowhere else. So a disk that is full refuses it before anything is
//! written, and it is known what the manifest holds. What gives room back on a full disk (a compaction that drops records, a
//! keyspace that goes) needs an edit first: some room is reserved ahead, while there is any.
//!
//! Reading ends where no frame verifies, as it does in zeros. A file system that cannot reserve takes it for done; there a full disk
//! is found by the write, and stops the manifest.

use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result};
use std::sync::Arc;

/// Reserved ahead are a part of the manifest's length, at least and at most so much: an edit names what a job has of the tables.
const AHEAD_PART: u64 = 4;
const AHEAD_BYTES_MIN: u64 = 64 << 10;
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// What is reserved ends at a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    file: Arc<dyn File>,
    reserved: u64,
}

impl Room {
    /// Of a log's file that has no more than what was appended.
    pub(super) fn new(file: Arc<dyn File>, log: &FramedLogWriter) -> Room {
        Room {
            file,
            reserved: log.end(),
        }
    }

    /// Makes sure that there are blocks for a payload of so many bytes. `NoSpace`: there are none, and nothing has changed.
    pub(super) fn reserve(&mut self, log: &FramedLogWriter, payload: usize) -> Result<()> {
        self.reserve_to(log.end() + log.frame_bytes(payload))
    }

    /// Reserves room for the edits to come, as far as there is some.
    pub(super) fn reserve_ahead(&mut self, log: &FramedLogWriter) {
        let ahead = (log.end() / AHEAD_PART).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        if self.reserved < log.end() + ahead / 2 {
            // An edit that needs more than there is says so.
            let _ = self.reserve_to(log.end() + ahead);
        }
    }

    fn reserve_to(&mut self, end: u64) -> Result<()> {
        if end <= self.reserved {
            return Ok(());
        }
        let end = end.next_multiple_of(BLOCK_BYTES);
        let reserved = self.file.preallocate(self.reserved, end - self.reserved);
        let path = self.file.path();
        reserved.map_err(|source| Error::io(path, "reserve room for an edit", source))?;
        self.reserved = end;
        Ok(())
    }
}
