//! The threads that serve futures: readers and the writer, which empty the pools, and the syncer,
//! which leads syncs for futures and wakes those whose write is durable.
//!
//! ```text
//!   with a commit log     the syncer leads syncs     (commit_log/writing/flush/awaiting.rs)
//!   without one           it waits for checkpoints, and wakes the futures that wait for them
//! ```
//! They come with the first job for them, and go when there was none for a while. All of them run
//! code of the application: wakers, and merge operators in reads. So they hold no lock then, and
//! they are marked as threads of the database: one that drops the last handle does not close, but
//! has another thread close.
//!
//! Invariants: while a future is registered, a thread attends, or has been called by it, or the
//! database is about to end and wakes it ([`end`], [`wake_left`]). A future and this thread look
//! and register under one lock.
//!
//! Thread safety: any thread. Not here: the pools ([`crate::engine::pool`]), what a job does.

use super::staff::LINGER;
use crate::engine::Engine;
use crate::engine::pool::{Handed, PoolJob};
use crate::engine::staff::ThreadRole;
use crate::error::{Error, Result};
use crate::sync::{Arc, Weak};
use evendb_base::wakers::{Due, Ticket, wake};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Does the jobs of a pool, and goes after there was none for a while.
pub(super) fn empty_pool(engine: &Engine, role: ThreadRole) {
    let work = &engine.work;
    let mut server = work.pool(role).serve();
    loop {
        while let Some(mut job) = server.take(LINGER) {
            work.turn_begins();
            loop {
                if server.take_lack() {
                    work.call(role);
                }
                let woken = job.run();
                engine.core.health.wake_due();
                // Before the job is dropped: it may be the last that keeps the database open.
                let next = server.done(woken);
                drop(job);
                match next {
                    Some(next) => job = next,
                    None => break,
                }
            }
        }
        if work.may_leave(role) {
            return;
        }
    }
}

/// The syncer's work.
pub(super) fn attend(engine: &Engine) {
    loop {
        engine.work.turn_begins();
        match &engine.log.commit_log {
            Some(log) => log.attend(LINGER),
            None => attend_checkpoints(engine, LINGER),
        }
        if engine.work.may_leave(ThreadRole::Syncer) {
            return;
        }
    }
}

/// The end of the database begins: the threads go, and the last steps wake what is left.
pub(super) fn end(engine: &Engine) {
    if let Some(log) = &engine.log.commit_log {
        log.end_attending();
    }
    let completed = engine.flow.completed.lock();
    engine.flow.futures.lock().ended = true;
    drop(completed);
    engine.flow.progress.notify_all();
}

/// The last checkpoint is complete, or has failed: wakes the futures that wait for one. (The log
/// wakes those that wait for it.)
pub(super) fn wake_left(engine: &Engine) {
    let completed = engine.flow.completed.lock();
    let mut futures = engine.flow.futures.lock();
    futures.over = true;
    let woken = futures.wakers.take_all();
    drop(futures);
    drop(completed);
    wake(woken);
    engine.core.health.wake_due();
}

/// Wakes what is due of feeds, in a reader: a waker may wait for a checkpoint, which upkeep makes.
struct WakesDue(Arc<Due>);

impl PoolJob for WakesDue {
    fn run(&self) -> Option<Waker> {
        self.0.wake();
        None
    }

    fn refuse(&self) {
        self.0.wake();
    }
}

/// Upkeep's part in waking feeds: what checkpoints, jobs and failures left.
#[derive(Default)]
pub(super) struct Waking(Weak<WakesDue>);

impl Waking {
    /// Has what is due woken, if anything is. The caller holds no lock.
    pub(super) fn tend(&mut self, engine: &Engine) {
        let health = &engine.core.health;
        let Some(due) = health.due() else { return };
        if self.0.strong_count() > 0 {
            // A reader is about to, or is in a waker; the next turn looks again.
            return;
        }
        let job = Arc::new(WakesDue(due.clone()));
        self.0 = Arc::downgrade(&job);
        match engine.work.hand_over(ThreadRole::Reader, job) {
            Handed::Queued(_) => {}
            Handed::NoThread | Handed::Closed => health.wake_due(),
        }
    }
}

/// Wakes futures that wait for a checkpoint, until none has waited for this time. Returns at once
/// if another thread does this: that one leaves only when none waits.
fn attend_checkpoints(engine: &Engine, patience: Duration) {
    let flow = &engine.flow;
    let refusals = || engine.disk.full_disk.refusals.count();
    let mut completed = flow.completed.lock();
    let mut refusals_seen = refusals();
    if std::mem::replace(&mut flow.futures.lock().attended, true) {
        return;
    }
    loop {
        let mut futures = flow.futures.lock();
        let is_over = engine.core.health.failure().is_some() || refusals() != refusals_seen;
        refusals_seen = refusals();
        let woken = match is_over {
            true => futures.wakers.take_all(),
            false => futures.wakers.take_up_to(*completed),
        };
        let (is_idle, ended) = (futures.wakers.is_empty(), futures.ended);
        drop(futures);
        if !woken.is_empty() {
            drop(completed);
            wake(woken);
            completed = flow.completed.lock();
            continue;
        }
        if ended {
            break;
        }
        if !is_idle {
            flow.progress.wait(&mut completed);
            continue;
        }
        let timed_out = flow.progress.wait_for(&mut completed, patience).timed_out();
        if timed_out && flow.futures.lock().wakers.is_empty() {
            break;
        }
    }
    // Futures register under the lock of `completed`, which this thread has held since it looked.
    flow.futures.lock().attended = false;
}

/// A future's wait for a checkpoint.
pub(crate) struct CheckpointWait {
    number: u64,
    ticket: Ticket,
    /// The refusals of a full disk when it began to wait; `None` before that.
    refusals: Option<u64>,
}

impl CheckpointWait {
    pub(crate) fn new(number: u64) -> CheckpointWait {
        CheckpointWait {
            number,
            ticket: Ticket::default(),
            refusals: None,
        }
    }

    /// Whether the checkpoint is complete, as [`super::wait_for_checkpoint`] says it; if not, the
    /// future is woken then.
    pub(crate) fn poll(&mut self, engine: &Engine, waker: &Waker) -> Poll<Result<()>> {
        if !engine.work.may_have_threads() {
            return Poll::Ready(super::wait_for_checkpoint(engine, self.number));
        }
        let own = waker.clone();
        let completed = engine.flow.completed.lock();
        let is_first = self.refusals.is_none();
        if let Some(answer) = self.answer(engine, *completed) {
            return Poll::Ready(answer);
        }
        let mut futures = engine.flow.futures.lock();
        if futures.over {
            return Poll::Ready(Err(Error::closed()));
        }
        let before = futures.wakers.register(&mut self.ticket, self.number, own);
        let attended = futures.attended;
        drop(futures);
        drop(completed);
        drop(before);
        if is_first {
            engine.work.await_checkpoint(self.number);
        }
        if !attended && !engine.work.call(ThreadRole::Syncer) {
            // No thread can be started. Other futures may have relied on it, so this thread does
            // its work for all of them until none waits.
            attend_checkpoints(engine, Duration::ZERO);
            let completed = engine.flow.completed.lock();
            if let Some(answer) = self.answer(engine, *completed) {
                return Poll::Ready(answer);
            }
            let attended = engine.flow.futures.lock().attended;
            drop(completed);
            if !attended {
                // The database ends.
                return Poll::Ready(super::wait_for_checkpoint(engine, self.number));
            }
        }
        Poll::Pending
    }

    /// The result, if the wait is over with this number of the last checkpoint.
    fn answer(&mut self, engine: &Engine, completed: u64) -> Option<Result<()>> {
        if completed >= self.number {
            return Some(Ok(()));
        }
        if let Err(error) = engine.core.health.check_healthy() {
            return Some(Err(error));
        }
        let full = &engine.disk.full_disk.refusals;
        if *self.refusals.get_or_insert(full.count()) != full.count() {
            let error = full.last_error(&engine.disk.dir);
            return Some(Err(error.not_durable_yet()));
        }
        None
    }

    /// The future waits no longer.
    pub(crate) fn forget(&mut self, engine: &Engine) {
        let mut futures = engine.flow.futures.lock();
        let waker = futures.wakers.remove(&mut self.ticket);
        drop(futures);
        drop(waker);
    }
}
