//! [`Room`]: blocks that are reserved behind the last edit of a manifest.
//!
//! ```text
//!   | edits | reserved: zeros |
//!           '- end of the log '- `reserved`
//! ```
//! An edit is written only where blocks are reserved for it. So a full disk refuses an edit before
//! anything is written, and it is known what the manifest holds. A step that gives room back on a
//! full disk (a compaction that drops records, the removal of a keyspace) needs an edit first. So
//! some room is reserved ahead, while the disk has any.
//!
//! Reading ends where no frame verifies, as in zeros. A file system that cannot reserve blocks
//! reports success. There a full disk is found by the write, and stops the manifest.

use evendb_storage::framed_log::FramedLogWriter;
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result};
use std::sync::Arc;

/// Bytes reserved ahead: the manifest's length divided by `AHEAD_PART`, within these limits. An
/// edit names the tables of its job, so its length grows with the manifest.
const AHEAD_PART: u64 = 4;
const AHEAD_BYTES_MIN: u64 = 64 << 10;
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// Reserved room ends at a multiple of this many bytes.
const BLOCK_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    file: Arc<dyn File>,
    reserved: u64,
}

impl Room {
    /// The room of a log whose file ends with the last frame.
    pub(super) fn new(file: Arc<dyn File>, log: &FramedLogWriter) -> Room {
        Room {
            file,
            reserved: log.end(),
        }
    }

    /// Makes sure that there are blocks for a payload of `payload` bytes. `NoSpace`: there are
    /// none, and nothing has changed.
    pub(super) fn reserve(&mut self, log: &FramedLogWriter, payload: usize) -> Result<()> {
        self.reserve_to(log.end() + log.frame_bytes(payload))
    }

    /// Reserves room for later edits, as far as the disk has any.
    pub(super) fn reserve_ahead(&mut self, log: &FramedLogWriter) {
        let ahead = (log.end() / AHEAD_PART).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        if self.reserved < log.end() + ahead / 2 {
            // An edit that does not fit into the reserved room returns the error.
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
