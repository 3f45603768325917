//! The commit log of an open database, if it has one.
//!
//! Thread safety: any; each part says its own. Not here: how the log works ([`crate::commit_log`]),
//! and when it grows ([`crate::log_room`]).

use crate::commit_log::{self, CommitLog, Lsn, Segment};
use crate::kept_changes::KeptChanges;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::value_extents::ValueExtents;
use evendb_storage::vfs::File;

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
    /// The commit log for those who read it back.
    pub(crate) history: History,
}

/// What reading the commit log back needs, whoever wrote it.
#[derive(Default)]
pub(crate) struct History {
    /// The ring's file, also where this life does not write it; none if there is none.
    pub(crate) file: Option<Arc<dyn File>>,
    /// Bytes of the ring.
    pub(crate) capacity: u64,
    /// Every life that the manifest knows, in order; this one, unless it only reads, is the last.
    pub(crate) lives: Vec<Segment>,
    /// Where replay began, and where the valid records of earlier lives end.
    pub(crate) replayed: (Lsn, Lsn),
    /// Whether this life only reads.
    pub(crate) read_only: bool,
    /// What is kept longer than the ring keeps it.
    pub(crate) kept: Option<KeptChanges>,
}

impl Log {
    /// Longest payload that goes into the ring itself.
    pub(crate) fn ring_record_bytes_max(&self) -> u64 {
        let sealed = self.commit_log.as_ref().map_or(0, CommitLog::seal_bytes) as u64;
        commit_log::record_bytes_max(self.ring_bytes) - CommitLog::record_bytes(0) - sealed - 8
    }

    /// Where the complete records end, if this life can read them back.
    pub(crate) fn end(&self) -> Option<Lsn> {
        match &self.commit_log {
            Some(log) => Some(log.head()),
            None if self.history.read_only => {
                self.history.file.as_ref().map(|_| self.history.replayed.1)
            }
            None => None,
        }
    }

    /// Where replay begins after a checkpoint that found the log's head here.
    pub(crate) fn replay_position(&self) -> Lsn {
        match &self.commit_log {
            Some(log) => log.head(),
            // A life without a commit log records where the next one may begin one. Positions only grow;
            // otherwise records of earlier laps would be read again. The step leaves a place where no record can be:
            // a reader of changes must not pass over what such a life wrote.
            None => Lsn(self.epoch_start.0 + u64::from(self.history.file.is_some()) * 8),
        }
    }
}
