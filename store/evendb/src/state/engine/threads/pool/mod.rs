//! Pools: jobs that futures hand over, because they wait for the disk or for room, and the threads
//! of the database that take them.
//!
//! ```text
//!   future --first poll--> push: numbered queue --take--> thread of the pool: the job, its result
//!      |                      |                                |
//!      | dropped              | closing                        | LINGER without a job: it goes
//!      v                      v                                v
//!   remove: it never runs   refuse: Closed, at once       started again by the next push
//! ```
//! There are two pools. **Readers** read for gets and scans: up to [`READERS_MAX`] jobs run at the
//! same time. One **writer** makes the writes that have to wait for room, in the order in which
//! they came.
//!
//! The queue and the rules by which threads sleep, wake each other and wake futures are in
//! [`queue`].
//!
//! Invariants: a job owns all that it uses, its buffers too, and goes on when its future is gone.
//! A job never waits for another job of a pool, so one thread is enough for any number of them. A
//! job is in the queue as long as its future lives and no thread has taken it, so the queue is
//! bounded by the living futures. No push is missed. A thread of the pool is counted as serving
//! from before it looks until it has found the queue empty, both under the lock of the queue; a
//! push that finds one serving relies on its next look, and any other push calls the role
//! ([`Work::may_leave`] has what a call does for a thread that is about to go).
//!
//! Thread safety: any thread; a pool's mutex is a leaf, and no job is run, refused or dropped under
//! it, and no waker is woken. Not here: what a job does, and its result ([`PoolJob`]).

mod queue;

use crate::engine::staff::ThreadRole;
use crate::engine::work::Work;
use crate::sync::{Arc, Condvar, Mutex};
use evendb_base::wakers::wake;
use queue::{Limits, Need, Queue, WATCH};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The largest number of reads for futures that are under way at the same time.
pub(crate) const READERS_MAX: usize = 16;

/// Work for a thread of a pool. Exactly one of the two is called, or neither if the future was
/// dropped first.
pub(crate) trait PoolJob: Send + Sync {
    /// Does it, and puts the result down for its future. Returns what has to be woken then, soon.
    /// It does not unwind.
    fn run(&self) -> Option<Waker>;
    /// The database closes: tells its future so.
    fn refuse(&self);
}

/// See the module.
pub(crate) struct Pool {
    queue: Mutex<Queue>,
    limits: Limits,
    /// Signals a job, or the end.
    came: Condvar,
}

/// The outcome of handing a job over.
pub(crate) enum Handed {
    /// A thread will do it, or has done it. Its number in the queue.
    Queued(u64),
    /// There are no threads, and none can be started: the caller does it.
    NoThread,
    /// The database is closed.
    Closed,
}

impl Pool {
    /// A pool that runs at most this number of jobs at the same time.
    pub(crate) fn new(running_max: usize) -> Pool {
        Pool {
            queue: Mutex::default(),
            limits: Limits::of(running_max),
            came: Condvar::default(),
        }
    }

    /// The number of threads that the pool may have.
    pub(crate) fn threads_max(&self) -> usize {
        self.limits.threads
    }

    /// Queues a job. Returns its number, and whether a thread has to be called.
    fn push(&self, job: Arc<dyn PoolJob>) -> Option<(u64, bool)> {
        let mut queue = self.queue.lock();
        if queue.ended {
            return None;
        }
        let number = queue.push(job);
        let need = queue.need(&self.limits);
        drop(queue);
        Some((number, self.meet(need)))
    }

    /// Wakes a thread, if one is needed and waits. Returns whether one has to be called. The caller
    /// has let go of the lock: a thread that is woken under it would wait for it at once.
    fn meet(&self, need: Need) -> bool {
        if need == Need::Wake {
            self.came.notify_one();
        }
        need == Need::Call
    }

    /// Takes a job back that no thread has taken. The caller drops it.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<dyn PoolJob>> {
        self.queue.lock().remove(number)
    }

    /// Whether any job waits or runs.
    pub(crate) fn is_busy(&self) -> bool {
        let queue = self.queue.lock();
        queue.running > 0 || queue.len() > 0
    }

    /// The next job, if there is one, for a caller that is no thread of the pool.
    fn take_now(&self) -> Option<Arc<dyn PoolJob>> {
        self.queue.lock().take()
    }

    /// A job that [`take_now`](Self::take_now) gave is done.
    fn done(&self) {
        self.queue.lock().running -= 1;
    }

    /// The database closes: jobs that wait are refused, and later ones too.
    pub(crate) fn end(&self) {
        let mut queue = self.queue.lock();
        queue.ended = true;
        let left = queue.take_all();
        let due = std::mem::take(&mut queue.due);
        drop(queue);
        self.came.notify_all();
        wake(due);
        left.iter().for_each(|job| job.refuse());
    }

    /// A thread begins to serve the pool.
    pub(crate) fn serve(&self) -> Server<'_> {
        Server {
            pool: self,
            counted: false,
            lacks: false,
            began: None,
        }
    }
}

/// A thread of a pool.
pub(crate) struct Server<'p> {
    pool: &'p Pool,
    /// Whether the thread is counted as serving.
    counted: bool,
    /// Whether it has seen that one more thread has to be called.
    lacks: bool,
    /// When its job began.
    began: Option<Instant>,
}

/// Now; `None` in a model, which has no time.
fn now() -> Option<Instant> {
    cfg!(not(any(evendb_loom, evendb_shuttle))).then(Instant::now)
}

impl Server<'_> {
    /// The next job; `None` if none came for a while, or at the end. Then the thread is no longer
    /// counted as serving.
    pub(crate) fn take(&mut self, patience: Duration) -> Option<Arc<dyn PoolJob>> {
        let pool = self.pool;
        let mut queue = pool.queue.lock();
        if !self.counted {
            queue.serving += 1;
            self.counted = true;
        }
        loop {
            if queue.may_take(&pool.limits)
                && let Some(job) = queue.take()
            {
                // One thread wakes the next, as long as there is more to do than threads do.
                let need = queue.need(&pool.limits);
                drop(queue);
                self.lacks |= pool.meet(need);
                self.began = now();
                return Some(job);
            }
            if queue.ended {
                break;
            }
            let watches = queue.begin_wait(&pool.limits);
            let time = if watches { WATCH } else { patience };
            let taken = queue.taken;
            let timed_out = pool.came.wait_for(&mut queue, time).timed_out();
            let due = queue.end_wait(watches);
            if watches && timed_out && queue.taken == taken {
                // The jobs that run take longer than reads from the system's cache.
                queue.pace.is_slow();
            }
            if !due.is_empty() {
                drop(queue);
                wake(due);
                queue = pool.queue.lock();
                continue;
            }
            // In a model, which has no time, every wait is over at once.
            let has_waited = !watches || cfg!(any(evendb_loom, evendb_shuttle));
            if timed_out && has_waited && queue.len() == 0 {
                break;
            }
        }
        queue.serving -= 1;
        self.counted = false;
        None
    }

    /// The job that was taken is done, with what it wants woken. Wakes that, now or together with
    /// others. The caller still has the job: it may be the last that keeps the database open, and
    /// from here on closing does not wait for it. Returns the next job, if there is one and nothing
    /// had to be woken before.
    pub(crate) fn done(&mut self, woken: Option<Waker>) -> Option<Arc<dyn PoolJob>> {
        let pool = self.pool;
        let end = now();
        let mut queue = pool.queue.lock();
        queue.running -= 1;
        if let (Some(began), Some(end)) = (self.began, end) {
            queue.pace.note(end.duration_since(began));
        }
        queue.due.extend(woken);
        let due = queue.due_now();
        if !due.is_empty() {
            // A waker may take its time: nothing is taken that would wait for it.
            drop(queue);
            wake(due);
            return None;
        }
        let next = match queue.may_take(&pool.limits) {
            true => queue.take(),
            false => None,
        };
        let need = queue.need(&pool.limits);
        drop(queue);
        self.lacks |= pool.meet(need);
        self.began = end;
        next
    }

    /// Whether one more thread has to be called, by the caller.
    pub(crate) fn take_lack(&mut self) -> bool {
        std::mem::take(&mut self.lacks)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.pool.queue.lock().serving -= 1;
        }
    }
}

impl Work {
    /// The pool that threads of this role empty.
    pub(crate) fn pool(&self, role: ThreadRole) -> &Pool {
        match role {
            ThreadRole::Writer => &self.writer,
            _ => &self.readers,
        }
    }

    /// Hands a job to the pool of a role, and makes sure that a thread takes it.
    pub(crate) fn hand_over(&self, role: ThreadRole, job: Arc<dyn PoolJob>) -> Handed {
        if !self.may_have_threads() {
            return Handed::NoThread;
        }
        let pool = self.pool(role);
        let Some((number, is_short)) = pool.push(job) else {
            return Handed::Closed;
        };
        if is_short && !self.call(role) && !self.has(role) {
            let own = pool.remove(number);
            // No thread can be started. While one was to be, others may have left jobs and relied
            // on it: each put its job down before it asked, and asked before that thread was
            // counted as gone. So they are seen here, and the caller does them all.
            while let Some(job) = pool.take_now() {
                let woken = job.run();
                pool.done();
                wake(woken);
            }
            if own.is_some() {
                return Handed::NoThread;
            }
        }
        Handed::Queued(number)
    }

    /// Asked by a thread that found nothing to do. `false` if its role was called meanwhile: then
    /// it looks once more. If it may go, it is counted as gone.
    pub(crate) fn may_leave(&self, role: ThreadRole) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stop && std::mem::take(&mut queue.called[role as usize]) {
            return false;
        }
        queue.present[role as usize] -= 1;
        true
    }

    /// The database closes: what waits in the pools is refused at once.
    pub(crate) fn end_pools(&self) {
        self.readers.end();
        self.writer.end();
    }
}

#[cfg(all(test, evendb_loom))]
mod models;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
