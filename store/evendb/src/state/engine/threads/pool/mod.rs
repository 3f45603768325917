//! Pools: jobs that futures hand over, because they wait for the disk or for room, and the queue
//! from which threads of the database take them.
//!
//! ```text
//!   future --first poll--> push: numbered queue --take--> thread of the pool: the job, its result
//!      |                      |                                |
//!      | dropped              | closing                        | LINGER without a job: it goes
//!      v                      v                                v
//!   remove: it never runs   refuse: Closed, at once       started again by the next push
//! ```
//! There are two pools. **Readers** read for gets and scans: up to [`READERS_MAX`] threads, so that
//! many reads are under way at once. One **writer** makes the writes that have to wait for room, in
//! the order in which they came.
//!
//! Invariants: a job owns all that it uses, its buffers too, and goes on when its future is gone.
//! A job never waits for another job of a pool, so one thread is enough for any number of them. A
//! job is in the queue as long as its future lives and no thread has taken it, so the queue is
//! never longer than the living futures. No push is missed: a thread that wants to go asks, under
//! the lock of the work queue, whether it was called since it looked ([`Work::may_leave`]); a push
//! puts the job down before it calls.
//!
//! Thread safety: any thread; a pool's mutex is a leaf, and no job is run, refused or dropped under
//! it. Not here: what a job does, and its result ([`PoolJob`]).

use crate::engine::staff::ThreadRole;
use crate::engine::work::Work;
use crate::sync::{Arc, Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Duration;

/// The largest number of threads that read for futures.
pub(crate) const READERS_MAX: usize = 16;

/// Work for a thread of a pool. Exactly one of the two is called, or neither if the future was
/// dropped first.
pub(crate) trait PoolJob: Send + Sync {
    /// Does it, and tells its future. It does not unwind.
    fn run(&self);
    /// The database closes: tells its future so.
    fn refuse(&self);
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pool {
    queue: Mutex<Queue>,
    /// Signals a job, or the end.
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    /// By their numbers, in the order in which they came.
    jobs: BTreeMap<u64, Arc<dyn PoolJob>>,
    /// The number of the job that came last.
    last: u64,
    /// The number of threads that wait for a job, and of jobs that run.
    waiting: usize,
    running: usize,
    ended: bool,
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
    /// Queues a job. Returns its number, and whether more threads are needed.
    fn push(&self, job: Arc<dyn PoolJob>) -> Option<(u64, bool)> {
        let mut queue = self.queue.lock();
        if queue.ended {
            return None;
        }
        queue.last += 1;
        let number = queue.last;
        queue.jobs.insert(number, job);
        self.came.notify_one();
        Some((number, queue.jobs.len() > queue.waiting))
    }

    /// Takes a job back that no thread has taken. The caller drops it.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<dyn PoolJob>> {
        self.queue.lock().jobs.remove(&number)
    }

    /// Whether any job waits or runs.
    pub(crate) fn is_busy(&self) -> bool {
        let queue = self.queue.lock();
        queue.running > 0 || !queue.jobs.is_empty()
    }

    /// The next job for a thread of the pool; `None` if none came for a while, or at the end.
    pub(crate) fn take(&self, patience: Duration) -> Option<Arc<dyn PoolJob>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some((_, job)) = queue.jobs.pop_first() {
                queue.running += 1;
                return Some(job);
            }
            if queue.ended {
                return None;
            }
            queue.waiting += 1;
            let timed_out = self.came.wait_for(&mut queue, patience).timed_out();
            queue.waiting -= 1;
            if timed_out && queue.jobs.is_empty() {
                return None;
            }
        }
    }

    /// The next job, if there is one.
    fn take_now(&self) -> Option<Arc<dyn PoolJob>> {
        let mut queue = self.queue.lock();
        let (_, job) = queue.jobs.pop_first()?;
        queue.running += 1;
        Some(job)
    }

    /// A job that was taken is done.
    pub(crate) fn done(&self) {
        self.queue.lock().running -= 1;
    }

    /// The database closes: jobs that wait are refused, and later ones too.
    pub(crate) fn end(&self) {
        let mut queue = self.queue.lock();
        queue.ended = true;
        let left = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.came.notify_all();
        left.values().for_each(|job| job.refuse());
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
                job.run();
                pool.done();
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
mod tests {
    use super::*;
    use crate::engine::staff::Body;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl PoolJob for Counted {
        fn run(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn refuse(&self) {}
    }

    /// Otherwise the future of the first job would wait for ever.
    #[test]
    fn a_caller_that_gets_no_thread_does_the_jobs_that_relied_on_it() {
        let work = Work::default();
        work.allow(1, None, |_| Some(Body::Thread(Box::new(|| {}))));
        work.staff.refuses.store(true, Ordering::Relaxed);
        let (first, second) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        // It came while a thread was to be started.
        assert!(work.writer.push(first.clone()).is_some());
        let handed = work.hand_over(ThreadRole::Writer, second.clone());
        assert!(
            matches!(handed, Handed::NoThread),
            "the caller does its own"
        );
        assert_eq!(first.0.load(Ordering::Relaxed), 1);
        assert_eq!(second.0.load(Ordering::Relaxed), 0);
        assert!(!work.writer.is_busy());
    }
}
