//! The queue of a pool, and the rules by which its threads sleep and are woken.
//!
//! ```text
//!                      jobs that take microseconds (fast)     others
//!   run at a time      twice the number of processors         all that may
//!   a push wakes       when work has piled up, or nobody      a thread for each job that waits
//!                      is awake
//!   done: wakes        at once; together with up to 31 others while many jobs wait, in both cases
//! ```
//! A read from the system's cache takes less time than waking a thread. So while reads are fast,
//! few threads stay awake for all of them, and a thread that finds them at work sleeps. Which kind
//! the reads are is measured, job by job.
//!
//! **The watcher.** A thread that sleeps while others run jobs looks again after [`WATCH`], and one
//! thread at a time does. It wakes what others have left to be woken, and if nothing was taken from
//! the queue since its last look, the reads are slow: it takes a job itself, and calls others. So a
//! read that hangs holds up no other for longer than that, although few threads are awake.
//!
//! Invariants: nothing is left to be woken ([`Queue::due`]) unless a thread watches. A job that
//! waits has a thread that is awake, or that watches, or that is being called. `woken` is never
//! more than the number of threads that wait and are about to come back: it grows with each
//! notification, while more threads wait, and each thread that comes back takes one off.
//!
//! Thread safety: plain data under the pool's mutex.

use super::PoolJob;
use crate::sync::{Arc, OnceLock};
use std::collections::VecDeque;
use std::num::NonZero;
use std::task::Waker;
use std::time::Duration;

/// The time after which the watcher looks again.
pub(super) const WATCH: Duration = Duration::from_millis(1);

/// While at least this number of jobs wait, futures are woken together: each of them has waited
/// for that many jobs already.
const TOGETHER_FROM: usize = 64;
/// The number of futures that are woken together.
const TOGETHER: usize = 32;

/// The number of fast jobs that wait for each thread that is awake before another one is woken.
const PILE: usize = 16;

/// The numbers of jobs and threads of a pool.
pub(super) struct Limits {
    /// Jobs that run at the same time, and those while they are fast.
    running: usize,
    fast: usize,
    /// Threads: one more, the watcher, where several jobs may run.
    pub(super) threads: usize,
}

impl Limits {
    pub(super) fn of(running: usize) -> Limits {
        Limits::with_processors(running, processors())
    }

    pub(super) fn with_processors(running: usize, processors: usize) -> Limits {
        Limits {
            running,
            // Twice, because one that waits for a lock, or wakes futures, leaves its processor.
            fast: running.min(2 * processors),
            threads: running + usize::from(running > 1),
        }
    }
}

fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}

/// What is known of the time that jobs take.
pub(super) struct Pace {
    /// From 0 to [`Pace::MOST`]; fast from the half on.
    score: u32,
}

impl Pace {
    /// A job that takes less is fast: it does not wait for a device.
    const FAST: Duration = Duration::from_micros(12);
    const MOST: u32 = 64;

    pub(super) fn note(&mut self, took: Duration) {
        self.score = match took < Pace::FAST {
            true => (self.score + 1).min(Pace::MOST),
            false => self.score.saturating_sub(4),
        };
    }

    /// Jobs were seen to take long.
    pub(super) fn is_slow(&mut self) {
        self.score = 0;
    }

    fn is_fast(&self) -> bool {
        self.score >= Pace::MOST / 2
    }
}

impl Default for Pace {
    fn default() -> Pace {
        // A model has no time, and the rules for fast jobs are the ones to be tried.
        let fast = cfg!(any(evendb_loom, evendb_shuttle));
        Pace {
            score: if fast { Pace::MOST } else { 0 },
        }
    }
}

/// Who has to be roused for the jobs that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Nobody,
    /// A thread that waits.
    Wake,
    /// A new thread.
    Call,
}

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    /// With their numbers, in the order in which they came; `None` where one was taken back.
    jobs: VecDeque<(u64, Option<Arc<dyn PoolJob>>)>,
    /// The number of those that were taken back.
    gaps: usize,
    /// The number of the job that came last.
    last: u64,
    /// The number of jobs that were taken to be run.
    pub(super) taken: u64,
    /// Threads that serve; of them those that wait for a job; of those the ones that were notified.
    pub(super) serving: usize,
    waiting: usize,
    woken: usize,
    /// The number of jobs that run.
    pub(super) running: usize,
    /// Whether one of the threads that wait is the watcher.
    watched: bool,
    /// Futures whose results are there, to be woken soon.
    pub(super) due: Vec<Waker>,
    pub(super) pace: Pace,
    pub(super) ended: bool,
}

impl Queue {
    /// The number of jobs that wait.
    pub(super) fn len(&self) -> usize {
        self.jobs.len() - self.gaps
    }

    /// Puts a job at the end, and returns its number.
    pub(super) fn push(&mut self, job: Arc<dyn PoolJob>) -> u64 {
        self.last += 1;
        self.jobs.push_back((self.last, Some(job)));
        self.last
    }

    /// Takes the first job to be run.
    pub(super) fn take(&mut self) -> Option<Arc<dyn PoolJob>> {
        while let Some((_, job)) = self.jobs.pop_front() {
            let Some(job) = job else {
                self.gaps -= 1;
                continue;
            };
            self.running += 1;
            self.taken += 1;
            return Some(job);
        }
        None
    }

    /// Takes a job out that has not been taken.
    pub(super) fn remove(&mut self, number: u64) -> Option<Arc<dyn PoolJob>> {
        let place = self.jobs.binary_search_by_key(&number, |entry| entry.0);
        let job = self.jobs[place.ok()?].1.take()?;
        self.gaps += 1;
        // So the queue is at most twice as long as the jobs that wait, at a constant cost for each.
        if self.gaps > self.jobs.len() / 2 {
            self.jobs.retain(|(_, job)| job.is_some());
            self.gaps = 0;
        }
        Some(job)
    }

    /// The places that the queue takes.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.jobs.len()
    }

    /// Takes all jobs, which are not going to be run.
    pub(super) fn take_all(&mut self) -> Vec<Arc<dyn PoolJob>> {
        self.gaps = 0;
        self.jobs.drain(..).filter_map(|(_, job)| job).collect()
    }

    /// Whether one more job may run.
    pub(super) fn may_take(&self, limits: &Limits) -> bool {
        let most = match self.pace.is_fast() {
            true => limits.fast,
            false => limits.running,
        };
        self.running < most
    }

    /// Who has to be roused for the jobs that wait. A thread that is to be woken is counted so.
    pub(super) fn need(&mut self, limits: &Limits) -> Need {
        let jobs = self.len();
        if jobs == 0 {
            return Need::Nobody;
        }
        let awake = self.running + self.woken;
        let lacks_hands = match self.pace.is_fast() && self.watched {
            true => awake == 0 || (awake < limits.fast && jobs > PILE * awake),
            false => awake < limits.running && jobs > self.woken,
        };
        let lacks_watcher =
            limits.running > 1 && !self.watched && self.woken == 0 && jobs >= TOGETHER_FROM;
        if !lacks_hands && !lacks_watcher {
            return Need::Nobody;
        }
        if self.waiting > self.woken {
            self.woken += 1;
            return Need::Wake;
        }
        match self.serving < limits.threads {
            true => Need::Call,
            false => Need::Nobody,
        }
    }

    /// A thread begins to wait; returns whether it is the watcher.
    pub(super) fn begin_wait(&mut self, limits: &Limits) -> bool {
        self.waiting += 1;
        let watches = !self.watched && limits.running > 1 && (self.running > 0 || self.len() > 0);
        self.watched |= watches;
        watches
    }

    /// Its wait is over. Returns what nobody watches over any more: the caller wakes it.
    pub(super) fn end_wait(&mut self, watched: bool) -> Vec<Waker> {
        self.waiting -= 1;
        self.woken = self.woken.saturating_sub(1);
        if !watched {
            return Vec::new();
        }
        self.watched = false;
        std::mem::take(&mut self.due)
    }

    /// What a thread that has finished a job wakes now; nothing if it may be left for later.
    pub(super) fn due_now(&mut self) -> Vec<Waker> {
        let is_for_later = self.watched && self.due.len() < TOGETHER && self.len() >= TOGETHER_FROM;
        match is_for_later {
            true => Vec::new(),
            false => std::mem::take(&mut self.due),
        }
    }
}
