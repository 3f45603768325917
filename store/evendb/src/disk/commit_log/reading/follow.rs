//! Readers of the log that follow its head: how far they may read, and how they wait for more.
//!
//! ```text
//!   reader:    count itself (ring latch, then sync mutex) -> gate: nothing new? wait <-+
//!   appender:  head moves (ring latch) -> record visible -> is a reader counted? ------+ gate,
//!   leader:    durable moves (sync mutex) ----------------> is a reader counted? ------+ notify
//! ```
//!
//! Invariants: no wake-up is lost. A reader counts itself under both locks under which head and
//! durable move. Either the critical section that moves them comes first, and then the reader finds
//! them moved; or it comes later, and then its thread finds the reader counted. That thread and the
//! reader meet at the gate. While no reader waits, an append costs one relaxed load for all of
//! this.
//!
//! A reader that waits is a thread at the gate, or a task whose [`Waker`] is kept there under a
//! [`Ticket`]. A task counts itself, leaves its waker at the gate, and looks again after
//! that. If the other thread comes to the gate first, its move comes before the look; else it finds
//! the waker. A wake-up is for all: it takes every waker, so a task that was woken and then dropped
//! keeps no other task asleep. Each waker at the gate is counted once; who takes it from the gate
//! takes back its count.
//!
//! Wakers are code of the application, which may call the database or drop a reader. A thread that
//! moves head or durable, or notes a failure, may hold latches or the mutex of checkpoints. So
//! [`CommitLog::wake_followers`] wakes threads, and only leaves the wakers of tasks with those that
//! are due ([`Due`]); they run when that thread's call ends (`engine/health.rs`), or in a thread of
//! the database between two pieces of its work. They are dropped while no lock is held, too.
//!
//! From the first reader on, gathered records that a checkpoint makes durable are not forgotten
//! ([`CommitLog::keep_for_readers`]): they go to the file all the same, with the next group or by
//! [`CommitLog::write_out`].
//!
//! Thread safety: any thread. Locks: the gate is a leaf, memory only. Not here: reading
//! ([`crate::commit_log::read_back`]), and when a get finds a record.

use crate::commit_log::append::CommitLog;
use crate::commit_log::{LogPlant, Lsn};
use crate::options::Writing;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use evendb_base::wakers::{Due, Ticket, Wakers};
use evendb_storage::Error;
use std::task::{Poll, Waker};
use std::time::Instant;

/// State that readers and appenders share.
pub(crate) struct Followers {
    /// The number of waiting readers. Raised under the ring latch; read Relaxed by threads that
    /// have held it since.
    waiting: AtomicUsize,
    /// The tasks that wait.
    gate: Mutex<Wakers>,
    more: Condvar,
    /// The wakers of tasks that may go on.
    due: Arc<Due>,
    /// Whether gathered records are kept for readers. Relaxed: a reader that comes late finds less.
    keeps: AtomicBool,
    /// If records are gathered, the end of what the file has. Raised AcqRel under the sync mutex,
    /// read Acquire.
    written: AtomicU64,
}

impl Followers {
    pub(crate) fn new(start: Lsn) -> Followers {
        Followers {
            waiting: AtomicUsize::new(0),
            gate: Mutex::default(),
            more: Condvar::new(),
            due: Arc::default(),
            keeps: AtomicBool::new(false),
            written: AtomicU64::new(start.0),
        }
    }

    /// Notes that the file has everything below `lsn`. The caller holds the sync mutex.
    pub(crate) fn written_up_to(&self, lsn: Lsn) {
        self.written.fetch_max(lsn.0, Ordering::AcqRel);
    }
}

impl CommitLog {
    /// Notes that there is a reader, now or soon.
    pub(crate) fn keep_for_readers(&self) {
        self.followers.keeps.store(true, Ordering::Relaxed);
    }

    pub(crate) fn keeps_for_readers(&self) -> bool {
        self.followers.keeps.load(Ordering::Relaxed)
    }

    /// If records are gathered, the end of what the file has.
    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.followers.written.load(Ordering::Acquire))
    }

    /// Writes gathered records that a checkpoint made durable to the file.
    pub(crate) fn write_out(&self) -> Result<(), Error> {
        self.write_out_to(self.durable())
    }

    /// Whether every complete record reaches the file.
    pub(crate) fn is_all_written(&self) -> bool {
        self.writing != Writing::Gathered
    }

    /// Makes sure that the file has everything below `lsn`, which has been appended.
    pub(crate) fn write_out_to(&self, lsn: Lsn) -> Result<(), Error> {
        match self.writing {
            Writing::Gathered => self.wait_written(lsn),
            Writing::Mapped | Writing::Written => Ok(()),
        }
    }

    /// The position up to which a reader may read: the end of complete records, or with
    /// `durable_only` the end of records that survive power loss.
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

    /// Waits until there is something to read at or behind `at`, and then returns true; or until
    /// `ended` returns true or `until` has come. A thread that makes `ended` true calls
    /// [`wake_all_followers`](Self::wake_all_followers).
    pub(crate) fn wait_beyond(
        &self,
        at: Lsn,
        durable_only: bool,
        until: Option<Instant>,
        ended: &dyn Fn() -> bool,
    ) -> bool {
        self.begin_waiting();
        let more = self.wait_counted(at, durable_only, until, ended);
        self.end_waiting(1);
        more
    }

    /// What a look finds: `true` if there is something to read at or behind `at`, `false` if it
    /// has ended, `None` if the reader is to wait.
    fn look(&self, at: Lsn, durable_only: bool, ended: &dyn Fn() -> bool) -> Option<bool> {
        // The reader itself writes out records that are durable and only gathered.
        let end = match durable_only {
            true => self.durable(),
            false => self.readable(false),
        };
        match end > at {
            true => Some(true),
            false => ended().then_some(false),
        }
    }

    /// As [`wait_beyond`](Self::wait_beyond), for a task: it is ready, or `waker` is woken once
    /// when it may be. A later call with the same ticket replaces the waker.
    pub(crate) fn poll_beyond(
        &self,
        at: Lsn,
        durable_only: bool,
        ended: &dyn Fn() -> bool,
        ticket: &mut Ticket,
        waker: &Waker,
    ) -> Poll<bool> {
        if let Some(more) = self.look(at, durable_only, ended) {
            self.forget_task(ticket);
            return Poll::Ready(more);
        }
        self.register(ticket, waker);
        if self.is_planted(LogPlant::RegistersBlindly) {
            return Poll::Pending;
        }
        match self.look(at, durable_only, ended) {
            Some(more) => {
                self.forget_task(ticket);
                Poll::Ready(more)
            }
            None => Poll::Pending,
        }
    }

    /// Leaves a waker at the gate, counted.
    fn register(&self, ticket: &mut Ticket, waker: &Waker) {
        if self.followers.gate.lock().has(ticket, waker) {
            return;
        }
        let waker = waker.clone();
        self.begin_waiting();
        let before = (self.followers.gate.lock()).register(ticket, u64::MAX, waker);
        if before.is_some() {
            // The task is counted already, and was not woken since.
            self.end_waiting(1);
        }
    }

    /// Takes the task's waker from the gate, if it is still there. A reader that ends calls it.
    pub(crate) fn forget_task(&self, ticket: &mut Ticket) {
        let waker = self.followers.gate.lock().remove(ticket);
        if waker.is_some() {
            self.end_waiting(1);
        }
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
            if let Some(more) = self.look(at, durable_only, ended) {
                return more;
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

    fn end_waiting(&self, readers: usize) {
        // Relaxed: a thread that reads it late makes one unneeded wake-up.
        (self.followers.waiting).fetch_sub(readers, Ordering::Relaxed);
    }

    /// Wakes threads that wait, and leaves the wakers of tasks with those that are due. The caller
    /// has appended a record that is visible now, or has raised `durable`; it may hold locks.
    #[inline]
    pub(crate) fn wake_followers(&self) {
        // Relaxed: the module says which lock orders it.
        if self.followers.waiting.load(Ordering::Relaxed) != 0 {
            self.wake_all_followers();
        }
    }

    /// As [`wake_followers`](Self::wake_followers), whether or not it is known that one waits.
    #[cold]
    pub(crate) fn wake_all_followers(&self) {
        // A thread that found nothing new under the gate is waiting by now.
        let wakers = self.followers.gate.lock().take_all();
        self.followers.more.notify_all();
        self.end_waiting(wakers.len());
        self.followers.due.add(wakers);
    }

    /// The wakers of tasks that may go on.
    pub(crate) fn due(&self) -> &Arc<Due> {
        &self.followers.due
    }

    /// The number of counted readers.
    #[cfg(all(test, evendb_loom))]
    pub(crate) fn counted_followers(&self) -> usize {
        self.followers.waiting.load(Ordering::Relaxed)
    }
}
