//! The threads of an open database: starting, counting and joining them.
//!
//! Invariants: threads of a role are counted under the queue's lock, by the thread that starts
//! them, and by themselves when they end. None starts after [`Work::stop`] has begun to wait for
//! them.
//!
//! Thread safety: any thread; the list of threads is locked before the queue. Not here: what the
//! threads do, which [`Work::begin`] is given, and what happens when one panics.

use crate::engine::work::Work;
use crate::memory::shared::{Member, Turn};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, start_thread, thread};

/// The task of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThreadRole {
    /// Checkpoints, the memory policy, and all other work that is owed.
    Upkeep = 0,
    /// Jobs.
    Worker = 1,
    /// Makes edits durable, removes files, gives room back.
    Reaper = 2,
    /// Looks after the mapped commit log.
    Log = 3,
    /// Writes the figures for other processes.
    Stats = 4,
    /// Loads the spans that were in RAM before the database was opened, and notes which spans are.
    Heat = 5,
    /// Reads for futures.
    Reader = 6,
    /// Makes the writes of futures that wait for room.
    Writer = 7,
    /// Syncs the commit log for futures, and wakes them.
    Syncer = 8,
}

pub(crate) const ROLES: usize = 9;

/// The number of threads that load at the same time, which is the number of reads in flight.
pub(crate) const HEAT_THREADS: usize = 4;

/// The threads, for joining them at the end.
#[derive(Default)]
pub(crate) struct Staff {
    /// Set where there may be threads. It is not a lock of the seam: it is set before there is a
    /// second thread.
    plan: std::sync::OnceLock<Plan>,
    started: Mutex<Vec<Started>>,
    /// In a test: starting any thread except the first one fails.
    #[cfg(test)]
    pub(crate) refuses: std::sync::atomic::AtomicBool,
}

/// The work of a role: of a thread from beginning to end, or turn by turn of threads that many
/// databases share.
pub(crate) enum Body {
    Thread(Box<dyn FnOnce() + Send>),
    Turns(Turn),
}

/// The largest number of threads, and their work; `None` once the database is gone.
struct Plan {
    workers_max: usize,
    /// The place in a shared budget, whose threads run turns.
    member: Option<Arc<Member>>,
    body_of: Box<dyn Fn(ThreadRole) -> Option<Body> + Send + Sync>,
}

struct Started {
    handle: thread::JoinHandle<()>,
    /// Set when the thread has done its work.
    ended: Arc<AtomicBool>,
}

impl Staff {
    /// An error if a test asks for a system that starts no more threads.
    fn refused(&self) -> std::io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    /// The largest number of workers.
    pub(crate) fn workers_max(&self) -> usize {
        self.plan.get().map_or(0, |plan| plan.workers_max)
    }

    fn member(&self) -> Option<&Arc<Member>> {
        self.plan.get()?.member.as_ref()
    }

    /// Makes turns of a role due, if threads that many databases share run them.
    pub(crate) fn hasten(&self, role: ThreadRole) {
        if let Some(member) = self.member() {
            member.hasten(Some(role as u8));
        }
    }

    /// Makes the turns of all roles due.
    pub(crate) fn hasten_all(&self) {
        if let Some(member) = self.member() {
            member.hasten(None);
        }
    }

    /// Waits for all threads, and for all turns.
    pub(crate) fn join(&self) {
        let started = std::mem::take(&mut *self.started.lock());
        if let Some(member) = self.member() {
            member.end_turns();
        }
        for thread in started {
            // A panic of the thread has latched the database already.
            let _ = thread.handle.join();
        }
    }

    /// Joins the threads that have ended.
    pub(crate) fn sweep(&self) {
        let mut started = self.started.lock();
        let ended = started.extract_if(.., |thread| thread.ended.load(Ordering::Acquire));
        for thread in ended {
            let _ = thread.handle.join();
        }
    }
}

impl Work {
    /// Allows threads, which run what `body_of` gives. Called once.
    pub(crate) fn allow(
        &self,
        workers_max: usize,
        member: Option<Arc<Member>>,
        body_of: impl Fn(ThreadRole) -> Option<Body> + Send + Sync + 'static,
    ) {
        let body_of = Box::new(body_of);
        let _ = self.staff.plan.set(Plan {
            workers_max,
            member,
            body_of,
        });
    }

    /// Whether there may be threads.
    pub(crate) fn may_have_threads(&self) -> bool {
        self.staff.plan.get().is_some()
    }

    /// Starts the thread that is always there. Called once, after [`Work::allow`].
    pub(crate) fn begin(&self) -> std::io::Result<()> {
        self.queue.lock().present[ThreadRole::Upkeep as usize] += 1;
        self.spawn(ThreadRole::Upkeep)
    }

    /// Makes sure that a thread of the role exists; for workers it starts one more, up to the
    /// maximum. Returns true if there is one now, or if the database closes and needs none.
    pub(crate) fn call(&self, role: ThreadRole) -> bool {
        let most = match role {
            ThreadRole::Worker => self.staff.workers_max(),
            ThreadRole::Heat => HEAT_THREADS,
            ThreadRole::Reader => self.readers.threads_max(),
            _ => 1,
        };
        {
            let mut queue = self.queue.lock();
            if queue.stop || self.staff.plan.get().is_none() {
                return true;
            }
            queue.called[role as usize] = true;
            let present = &mut queue.present[role as usize];
            if *present >= most {
                return true;
            }
            *present += 1;
        }
        self.spawn(role).is_ok()
    }

    /// Whether there is a thread of the role.
    pub(crate) fn has(&self, role: ThreadRole) -> bool {
        self.queue.lock().present[role as usize] > 0
    }

    /// Starts a thread that has been counted already.
    fn spawn(&self, role: ThreadRole) -> std::io::Result<()> {
        // Held until the thread is noted. So the thread that stops all either waits for this one,
        // or this one is not started.
        let mut started = self.staff.started.lock();
        let body = self.staff.plan.get().and_then(|plan| (plan.body_of)(role));
        let Some(body) = body.filter(|_| !self.queue.lock().stop) else {
            self.left(role);
            return Ok(());
        };
        let refused = self.staff.refused();
        let begun = refused.and_then(|()| match (body, self.staff.member()) {
            (Body::Turns(turn), Some(member)) => {
                let is_job = matches!(role, ThreadRole::Worker | ThreadRole::Heat);
                member.add_turns(role as u8, is_job, turn)
            }
            (Body::Turns(_), None) => Err(std::io::ErrorKind::Unsupported.into()),
            (Body::Thread(body), _) => {
                let ended = Arc::new(AtomicBool::new(false));
                let own = ended.clone();
                let handle = start_thread(role.name(), move || {
                    body();
                    own.store(true, Ordering::Release);
                })?;
                started.push(Started { handle, ended });
                Ok(())
            }
        });
        if begun.is_err() {
            self.left(role);
        }
        begun
    }

    /// Notes that a thread of the role is gone.
    pub(crate) fn left(&self, role: ThreadRole) {
        self.queue.lock().present[role as usize] -= 1;
    }

    /// Counts a turn of work that a thread of the database begins.
    pub(crate) fn turn_begins(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

impl ThreadRole {
    fn name(self) -> &'static str {
        match self {
            ThreadRole::Upkeep => "evendb-upkeep",
            ThreadRole::Worker => "evendb-work",
            ThreadRole::Reaper => "evendb-reaper",
            ThreadRole::Log => "evendb-log",
            ThreadRole::Stats => "evendb-stats",
            ThreadRole::Heat => "evendb-heat",
            ThreadRole::Reader => "evendb-reader",
            ThreadRole::Writer => "evendb-writer",
            ThreadRole::Syncer => "evendb-syncer",
        }
    }
}
