//! The threads of an open database.
//!
//! ```text
//!   upkeep      always there; waits until it is woken while nothing is owed   (upkeep.rs)
//!   workers     come with jobs that find nobody who waits for one
//!   helpers     reaper, log, stats: called by upkeep while calls come or something is owed
//!                 '-- each goes when it had nothing to do for a while: LINGER
//! ```
//! So a database that is left alone has one thread, which waits. Where none can be started nothing is
//! lost: upkeep does the jobs and the reaper's work itself, and the others' can be left out.
//!
//! Invariants: threads of a role are counted under the queue's lock, by who starts them, and by
//! themselves when they go; a worker goes only if no job waits, looked at under the same lock. None
//! starts after [`Work::stop`] has begun to wait for them. A panic in one latches the database.

use super::{TICK, Work, upkeep};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::heap::HeapTrim;
use crate::observe;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, OnceLock, Weak, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a thread that has nothing to do stays.
const LINGER: Duration = match cfg!(evendb_shuttle) {
    // A model has no time.
    true => Duration::ZERO,
    false => Duration::from_secs(1),
};

/// What a thread is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Checkpoints, the memory policy, and whatever is owed.
    Upkeep = 0,
    /// Jobs.
    Worker = 1,
    /// Makes edits durable, removes files, gives room back.
    Reaper = 2,
    /// Looks after the mapped commit log.
    Log = 3,
    /// Writes the figures for other processes.
    Stats = 4,
}

pub(super) const ROLES: usize = 5;

/// The threads, for who waits for their end.
#[derive(Default)]
pub(super) struct Staff {
    /// Set where there may be threads.
    engine: OnceLock<Weak<Engine>>,
    workers_max: std::sync::OnceLock<usize>,
    started: Mutex<Vec<Started>>,
    /// Starting a thread fails, but for the first one.
    #[cfg(test)]
    pub(super) refuses: std::sync::atomic::AtomicBool,
}

struct Started {
    handle: thread::JoinHandle<()>,
    /// It does no more.
    ended: Arc<AtomicBool>,
}

/// Starts the one thread that a newly opened database needs.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    if engine.manual() || engine.manifest.is_none() {
        return Ok(());
    }
    if let Some(log) = &engine.commit_log {
        log.begin_slowly();
    }
    let staff = &engine.work.staff;
    // Set once: a database is opened once.
    let _ = staff.workers_max.set(engine.options.workers);
    let _ = staff.engine.set(Arc::downgrade(engine));
    engine.work.queue.lock().present[Role::Upkeep as usize] += 1;
    engine.work.spawn(Role::Upkeep).map_err(|source| {
        let what = "start the thread evendb-upkeep (the process, its user or its container may have no more, \
                    or there is no memory for its stack: raise that limit)";
        evendb_storage::Error::io(&engine.dir, what, source).into()
    })
}

impl Staff {
    /// An error where a test wants the system to have no more threads.
    fn refused(&self) -> std::io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    /// Workers there may be.
    pub(super) fn workers_max(&self) -> usize {
        self.workers_max.get().copied().unwrap_or(0)
    }

    /// Waits for all of them.
    pub(super) fn join(&self) {
        let started = std::mem::take(&mut *self.started.lock());
        for thread in started {
            // Its panic has latched the database already.
            let _ = thread.handle.join();
        }
    }

    /// Frees what is kept of those that have ended.
    pub(super) fn sweep(&self) {
        let mut started = self.started.lock();
        let ended = started.extract_if(.., |thread| thread.ended.load(Ordering::Acquire));
        for thread in ended {
            let _ = thread.handle.join();
        }
    }
}

impl Work {
    /// Sees to it that there is a thread of the role: another one, of workers. Whether there is, or the
    /// database closes and needs none.
    pub(super) fn call(&self, role: Role) -> bool {
        let most = match role {
            Role::Worker => self.staff.workers_max(),
            _ => 1,
        };
        {
            let mut queue = self.queue.lock();
            if queue.stop || self.staff.engine.get().is_none() {
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
    pub(super) fn has(&self, role: Role) -> bool {
        self.queue.lock().present[role as usize] > 0
    }

    /// Starts a thread that has been counted already.
    fn spawn(&self, role: Role) -> std::io::Result<()> {
        // Held until the thread is noted: who stops the threads waits for this one, or it is not
        // started any more.
        let mut started = self.staff.started.lock();
        let engine = self.staff.engine.get().and_then(Weak::upgrade);
        let Some(engine) = engine.filter(|_| !self.queue.lock().stop) else {
            self.left(role);
            return Ok(());
        };
        let ended = Arc::new(AtomicBool::new(false));
        let own = ended.clone();
        let body = move || {
            let done = catch_unwind(AssertUnwindSafe(|| perform(role, &engine)));
            if done.is_err() {
                engine.work.left(role);
                engine.latch_error(Error::new(
                    ErrorKind::Io,
                    "a background thread panicked; its message is on standard error",
                ));
            }
            drop(engine);
            own.store(true, Ordering::Release);
        };
        let refused = self.staff.refused();
        match refused.and_then(|()| new_thread(role, body)) {
            Ok(handle) => {
                started.push(Started { handle, ended });
                Ok(())
            }
            Err(error) => {
                self.left(role);
                Err(error)
            }
        }
    }

    fn left(&self, role: Role) {
        self.queue.lock().present[role as usize] -= 1;
    }

    /// A turn of some thread's work begins.
    pub(super) fn turn_begins(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn new_thread(
    role: Role,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(role.name().to_owned())
        .spawn(body)
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Upkeep => "evendb-upkeep",
            Role::Worker => "evendb-work",
            Role::Reaper => "evendb-reaper",
            Role::Log => "evendb-log",
            Role::Stats => "evendb-stats",
        }
    }
}

fn perform(role: Role, engine: &Engine) {
    match role {
        Role::Upkeep => upkeep::run(engine),
        Role::Worker => worker(engine),
        Role::Reaper => reaper(engine),
        Role::Log => tend(engine),
        Role::Stats => stats(engine),
    }
}

/// The wait of a helper between two turns.
struct Lingering {
    role: Role,
    /// Since when it has had nothing to do, and upkeep has rested.
    since: Option<Instant>,
}

impl Lingering {
    fn new(role: Role) -> Lingering {
        Lingering { role, since: None }
    }

    /// Waits for its next turn, `rest` from now. False if the helper is to go: it is counted as gone.
    fn goes_on(&mut self, work: &Work, rest: Duration, has_work: bool) -> bool {
        if has_work || !work.is_resting() {
            self.since = None;
        } else {
            self.since.get_or_insert_with(Instant::now);
        }
        let until = Instant::now() + rest;
        let mut queue = work.queue.lock();
        loop {
            let idle = self.since.filter(|_| work.is_resting());
            let spent = idle.is_some_and(|since| since.elapsed() >= LINGER);
            if queue.stop || (spent && !queue.called[self.role as usize]) {
                queue.present[self.role as usize] -= 1;
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            // Upkeep's rest is news to one that would wait for long.
            let told = !has_work && self.since.is_none() && work.is_resting();
            if left.is_zero() || told || spent {
                queue.called[self.role as usize] = false;
                work.turn_begins();
                return true;
            }
            let left = idle.map_or(left, |since| {
                left.min(LINGER.saturating_sub(since.elapsed()))
            });
            work.stopping.wait_for(&mut queue, left);
            if cfg!(evendb_shuttle) {
                // A model has no time.
                return true;
            }
        }
    }
}

/// Does jobs, and goes when there was none for a while.
fn worker(engine: &Engine) {
    let work = &engine.work;
    loop {
        let job = {
            let mut queue = work.queue.lock();
            let mut spent = false;
            loop {
                if queue.stop {
                    queue.present[Role::Worker as usize] -= 1;
                    return;
                }
                if let Some(job) = work.take(&mut queue) {
                    break job;
                }
                if spent {
                    queue.present[Role::Worker as usize] -= 1;
                    return;
                }
                queue.waiting += 1;
                spent = work.jobs.wait_for(&mut queue, LINGER).timed_out();
                queue.waiting -= 1;
            }
        };
        work.turn_begins();
        engine.do_job(&job);
    }
}

/// Looks after the mapped commit log.
fn tend(engine: &Engine) {
    let mut lingering = Lingering::new(Role::Log);
    let Some(log) = &engine.commit_log else {
        return;
    };
    let mut tending = log.take_tending(Instant::now());
    loop {
        let pause = log.tend(&mut tending, Instant::now());
        let busy = log.needs_tending(&tending);
        if !busy {
            // Before it may be counted as gone: the next one goes on with this.
            log.keep_tending(&tending);
        }
        if !lingering.goes_on(&engine.work, pause, busy) {
            return;
        }
    }
}

/// The state of what the reaper does.
pub(super) struct Reaping {
    last_flush: Instant,
    more: bool,
    heap: HeapTrim,
}

impl Reaping {
    pub(super) fn new() -> Reaping {
        Reaping {
            last_flush: Instant::now(),
            more: false,
            heap: HeapTrim::new(),
        }
    }

    /// A turn; whether the next one should follow at once.
    pub(super) fn turn(&mut self, engine: &Engine) -> bool {
        // First of all: until an edit is durable it holds the tables that it drops, in memory too.
        if self.last_flush.elapsed() >= TICK && engine.failure().is_none() {
            self.last_flush = Instant::now();
            if engine.manifest().queued() > 0 {
                // A failure latches; without room the edits wait.
                let _ = engine.flush_manifest();
            }
            self.more |= engine.space.takes_give_back();
        }
        self.heap.tend(engine);
        let removed = engine.may_remove() && engine.tables.remove_file();
        engine.tables.let_go();
        if self.more && !removed {
            self.more = engine.give_back_room() > 0;
        }
        removed || self.more
    }
}

/// Makes queued edits durable, removes the files that they drop, and gives room back: what waits for
/// the disk and for which nobody waits. A thread of its own, because behind the writes of
/// reorganisation each of these may take from milliseconds to a second.
fn reaper(engine: &Engine) {
    let mut lingering = Lingering::new(Role::Reaper);
    let mut reaping = Reaping::new();
    loop {
        let more = reaping.turn(engine);
        let rest = if more { Duration::ZERO } else { TICK };
        let busy = more || engine.owes_reaper();
        if !lingering.goes_on(&engine.work, rest, busy) {
            return;
        }
    }
}

/// Writes the figures, again and again.
fn stats(engine: &Engine) {
    let mut lingering = Lingering::new(Role::Stats);
    while let Some(rest) = observe::look(engine) {
        if !lingering.goes_on(&engine.work, rest, false) {
            observe::last_look(engine);
            return;
        }
    }
    engine.work.left(Role::Stats);
}

impl Engine {
    /// Whether anything waits for the reaper.
    pub(super) fn owes_reaper(&self) -> bool {
        self.failure().is_none()
            && (self.manifest().queued() > 0
                || self.tables.has_unneeded()
                || self.space.owes_give_back())
    }
}
