//! The commit log of an open database, if it has one.
//!
//! Thread safety: any thread; each part has its own rules. Not here: how the log works
//! ([`crate::commit_log`]), and when it grows ([`crate::log_room`]).

use crate::commit_log::{self, CommitLog, Lsn, Segment};
use crate::kept_changes::KeptChanges;
use crate::manifest::KeyspaceId;
use crate::manifest::beside::Beside;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Arc, Mutex};
use crate::value_extents::ValueExtents;
use evendb_storage::vfs::File;
use evendb_storage::{Error, Result};

/// See the module.
pub(crate) struct Log {
    /// `None` at relaxed level and when open for reading only. Shared with the memory policy, which
    /// lends its memory.
    pub(crate) commit_log: Option<Arc<CommitLog>>,
    /// The bodies of writes that are too long for the commit log.
    pub(crate) value_extents: Arc<ValueExtents>,
    /// The begin of this life's part of the commit log, whether it writes one or not.
    pub(crate) epoch_start: Lsn,
    /// Capacity of the commit log in bytes; 0 without one.
    pub(crate) ring_bytes: u64,
    /// Whether the log found no room to grow since the last checkpoint or look.
    pub(crate) is_stuck: AtomicBool,
    /// Whether the log holds records of an earlier life that no checkpoint has. A sync that failed
    /// in that life may have marked their pages as clean, and then a further sync would not write
    /// them. So nothing is called durable before a checkpoint has these records.
    pub(crate) inherits: AtomicBool,
    /// The commit log for readers of it.
    pub(crate) history: History,
}

/// The data for reading the commit log back, whichever life wrote it.
#[derive(Default)]
pub(crate) struct History {
    /// The ring's file, even if this life does not write it; `None` if there is none.
    pub(crate) file: Option<Arc<dyn File>>,
    /// Bytes of the ring.
    pub(crate) capacity: u64,
    /// Every life that the manifest knows, in order; this one, unless it only reads, is the last.
    pub(crate) lives: Vec<Segment>,
    /// The begin of the replay, and the end of the valid records of earlier lives.
    pub(crate) replayed: (Lsn, Lsn),
    /// Whether this life only reads.
    pub(crate) read_only: bool,
    /// Changes that are kept longer than in the ring.
    pub(crate) kept: Option<KeptChanges>,
    /// What is known of a log that another process writes.
    pub(crate) found: Option<Found>,
}

/// A log that another process writes, as far as this one has read it.
pub(crate) struct Found {
    pub(crate) beside: Arc<Beside>,
    /// Keyspaces from this number on are newer than the moment.
    pub(crate) next_keyspace: u32,
    pub(crate) seen: Mutex<Seen>,
}

/// How far a log that another process writes was read.
pub(crate) struct Seen {
    /// The end of the records that verify.
    end: Lsn,
    /// The end at the last look at the manifest.
    looked: Lsn,
}

impl Seen {
    pub(crate) fn at(end: Lsn) -> Seen {
        Seen { end, looked: end }
    }
}

impl Found {
    /// The end of the records that verify.
    pub(crate) fn end(&self) -> Lsn {
        self.seen.lock().end
    }
}

/// The keyspaces whose fate a reader of another process's log wants to know.
#[derive(Clone, Copy)]
pub(crate) enum Followed {
    /// It asks for the place of a moment, which has all of them.
    None,
    All,
    One(KeyspaceId),
}

impl History {
    /// Looks how far the log goes that another process writes: the end of the records that verify.
    /// A log that goes on in another life, or has gone round meanwhile, is `Stale`; so is a moment
    /// with a followed keyspace that was dropped or renamed since. The writer's manifest says so:
    /// it is read when nothing more is found, and after each quarter of a lap.
    pub(crate) fn look_further(&self, found: &Found, followed: Followed) -> Result<Lsn> {
        let mut seen = found.seen.lock();
        let Some(file) = &self.file else {
            return Ok(seen.end);
        };
        let known = seen.end;
        let lives = self.lives.iter();
        let lives = lives.filter(|life| life.closed_at.is_none_or(|closed| life.start < closed));
        let lives: Vec<Segment> = lives.copied().collect();
        let find = || commit_log::recover(&**file, self.capacity, known, &lives, &mut |_| Ok(()));
        seen.end = find()?;
        if seen.end > known && seen.end.0 - seen.looked.0 < self.capacity / 4 {
            return Ok(seen.end);
        }
        let stale = |detail| {
            let offset = known.0 % self.capacity.max(1);
            Err(Error::stale(file.path(), offset, detail))
        };
        let now = found.beside.look()?;
        let has_lost = match followed {
            Followed::None => false,
            Followed::All => found.beside.has_lost(&now, None),
            Followed::One(keyspace) => found.beside.has_lost(&now, Some(keyspace)),
        };
        if has_lost {
            return stale("a keyspace of this moment was dropped or renamed; refresh");
        }
        seen.looked = seen.end;
        // If nothing more is there, it was not written yet, or something else was written over it.
        let last = self.lives.last().map_or(0, |life| life.epoch);
        if seen.end == known && (now.replay_from > known || now.last_epoch > last) {
            // Unless both the records and their checkpoint came between the two looks.
            seen.end = find()?;
            if seen.end == known {
                return stale("the log went on elsewhere");
            }
        }
        Ok(seen.end)
    }
}

impl Log {
    /// The longest payload in bytes that goes into the ring itself.
    pub(crate) fn ring_record_bytes_max(&self) -> u64 {
        let sealed = self.commit_log.as_deref();
        let sealed = sealed.map_or(0, CommitLog::seal_bytes) as u64;
        commit_log::record_bytes_max(self.ring_bytes) - CommitLog::record_bytes(0) - sealed - 8
    }

    /// The end of the complete records, if this life can read them back.
    pub(crate) fn end(&self) -> Option<Lsn> {
        match &self.commit_log {
            Some(log) => Some(log.head()),
            None if self.history.read_only => {
                let found = self.history.found.as_ref();
                let end = found.map_or(self.history.replayed.1, Found::end);
                self.history.file.as_ref().map(|_| end)
            }
            None => None,
        }
    }

    /// The begin of a replay after a checkpoint that found the log's head here.
    pub(crate) fn replay_position(&self) -> Lsn {
        match &self.commit_log {
            Some(log) => log.head(),
            // A life without a commit log records where the next one may begin one. Positions only
            // grow; otherwise records of earlier laps would be read again. The step of 8 leaves a
            // place where no record can be, because a reader of changes must not pass over the
            // writes of such a life.
            None => Lsn(self.epoch_start.0 + u64::from(self.history.file.is_some()) * 8),
        }
    }
}
