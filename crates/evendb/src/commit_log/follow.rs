//! Readers of the log that follow its head: how far they may read, and how they wait for more.
//!
//! ```text
//!   reader:    count itself (ring latch, then sync mutex) --> gate: nothing new? wait <--+
//!   appender:  head moves (ring latch) --> record visible --> is a reader counted? ------+ gate, notify
//!   leader:    durable moves (sync mutex) -----------------> is a reader counted? -------+
//! ```
//!
//! Invariants: no wake-up is lost. A reader counts itself under both locks under which what it waits for
//! moves. So either the lock's critical section that moves it comes first, and then the reader finds it moved, or
//! it comes later, and then its thread finds the reader counted. That thread and the reader meet at the gate.
//! While no reader waits, an append costs one relaxed load for all of this.
//!
//! From the first reader on, what is gathered and what a checkpoint makes durable is not forgotten
//! ([`CommitLog::keep_for_readers`]): it goes to the file all the same, with the next group or by
//! [`CommitLog::write_out`].
//!
//! Thread safety: any. Locks: the gate is a leaf, memory only. Not here: reading ([`super::read_back`]), and
//! when a record can be found by a get.

use super::append::CommitLog;
use super::{LogPlant, Lsn};
use crate::options::Writing;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use evendb_storage::Error;
use std::time::Instant;

/// What readers and appenders share.
pub(super) struct Followers {
    /// Readers that wait. Raised under the ring latch; read Relaxed by threads that have held it since.
    waiting: AtomicUsize,
    gate: Mutex<()>,
    more: Condvar,
    /// Whether what is gathered is kept for readers. Relaxed: one that comes late finds less.
    keeps: AtomicBool,
    /// Where records are gathered, how far the file has them. Raised AcqRel under the sync mutex, read
    /// Acquire.
    written: AtomicU64,
}

impl Followers {
    pub(super) fn new(start: Lsn) -> Followers {
        Followers {
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            more: Condvar::new(),
            keeps: AtomicBool::new(false),
            written: AtomicU64::new(start.0),
        }
    }

    /// The file has everything below `lsn`. The caller holds the sync mutex.
    pub(super) fn written_up_to(&self, lsn: Lsn) {
        self.written.fetch_max(lsn.0, Ordering::AcqRel);
    }
}

impl CommitLog {
    /// There is a reader, now or soon.
    pub(crate) fn keep_for_readers(&self) {
        self.followers.keeps.store(true, Ordering::Relaxed);
    }

    pub(super) fn keeps_for_readers(&self) -> bool {
        self.followers.keeps.load(Ordering::Relaxed)
    }

    /// Where records are gathered, how far the file has them.
    pub(super) fn written(&self) -> Lsn {
        Lsn(self.followers.written.load(Ordering::Acquire))
    }

    /// Has the file take what a checkpoint made durable while it was gathered.
    pub(crate) fn write_out(&self) -> Result<(), Error> {
        self.write_out_to(self.durable())
    }

    /// Whether every complete record reaches the file.
    pub(crate) fn is_all_written(&self) -> bool {
        self.writing != Writing::Gathered
    }

    /// Has the file take everything below `lsn`, which has been appended.
    pub(crate) fn write_out_to(&self, lsn: Lsn) -> Result<(), Error> {
        match self.writing {
            Writing::Gathered => self.wait_written(lsn),
            Writing::Mapped | Writing::Written => Ok(()),
        }
    }

    /// How far a reader may read: what is complete, or with `durable_only` what survives power loss.
    pub(crate) fn readable(&self, durable_only: bool) -> Lsn {
        let end = match durable_only {
            true => self.durable(),
            false => self.head(),
        };
        match self.writing {
            Writing::Gathered => end.min(self.written()),
            Writing::Mapped | Writing::Written => end,
        }
    }

    /// Waits until there is something to read at or behind `at`: `true`; or until `ended` says so, or `until`
    /// has come. A thread that makes `ended` true calls [`wake_all_followers`](Self::wake_all_followers).
    pub(crate) fn wait_beyond(
        &self,
        at: Lsn,
        durable_only: bool,
        until: Option<Instant>,
        ended: &dyn Fn() -> bool,
    ) -> bool {
        self.begin_waiting();
        let more = self.wait_counted(at, durable_only, until, ended);
        // Relaxed: a thread that reads it late makes one wake-up that no reader needs.
        self.followers.waiting.fetch_sub(1, Ordering::Relaxed);
        more
    }

    fn wait_counted(
        &self,
        at: Lsn,
        durable_only: bool,
        until: Option<Instant>,
        ended: &dyn Fn() -> bool,
    ) -> bool {
        let mut gate = self.followers.gate.lock();
        loop {
            // What is durable and only gathered is written out by the reader.
            let end = match durable_only {
                true => self.durable(),
                false => self.readable(false),
            };
            if end > at {
                return true;
            }
            if ended() {
                return false;
            }
            match until {
                None => self.followers.more.wait(&mut gate),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.followers.more.wait_for(&mut gate, left);
                }
            }
        }
    }

    fn begin_waiting(&self) {
        let ring = (!self.is_planted(LogPlant::CountsOutside)).then(|| self.ring.lock());
        self.followers.waiting.fetch_add(1, Ordering::Relaxed);
        drop(ring);
        self.pass_sync_mutex();
    }

    /// Wakes readers, if any waits. The caller has appended a record that is visible now, or raised what is
    /// durable.
    #[inline]
    pub(crate) fn wake_followers(&self) {
        // Relaxed: the module says which lock orders it.
        if self.followers.waiting.load(Ordering::Relaxed) != 0 {
            self.wake_all_followers();
        }
    }

    /// Wakes readers whether or not one is known to wait.
    #[cold]
    pub(crate) fn wake_all_followers(&self) {
        // A reader that found nothing under the gate waits by now.
        drop(self.followers.gate.lock());
        self.followers.more.notify_all();
    }
}
