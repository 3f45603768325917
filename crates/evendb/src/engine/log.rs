//! The commit log of an open database, if it has one.
//!
//! Thread safety: any; each part says its own. Not here: how the log works ([`crate::commit_log`]),
//! and when it grows ([`crate::log_room`]).

use crate::commit_log::{self, CommitLog, Lsn};
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::value_extents::ValueExtents;

/// See the module.
pub(crate) struct Log {
    /// None at relaxed level and when open for reading only.
    pub(crate) commit_log: Option<CommitLog>,
    /// The bodies of writes that are too long for the commit log.
    pub(crate) value_extents: Arc<ValueExtents>,
    /// Where this life's part of the commit log begins, whether it writes one or not.
    pub(crate) epoch_start: Lsn,
    /// Capacity of the commit log; 0 without one.
    pub(crate) ring_bytes: u64,
    /// Whether it found no room to grow since the last checkpoint or look.
    pub(crate) is_stuck: AtomicBool,
    /// Whether it holds records of an earlier life that no checkpoint has. A sync that failed in that
    /// life may have marked their pages as clean, and then syncing again would not write them. So
    /// nothing is called durable before a checkpoint has them.
    pub(crate) inherits: AtomicBool,
}

impl Log {
    /// Longest payload that goes into the ring itself.
    pub(crate) fn ring_record_bytes_max(&self) -> u64 {
        commit_log::record_bytes_max(self.ring_bytes) - CommitLog::record_bytes(0) - 8
    }

    /// Bytes of the commit log's file that have blocks.
    pub(crate) fn ring_room(&self) -> u64 {
        match &self.commit_log {
            Some(log) => log.room(),
            None => self.ring_bytes,
        }
    }
}
