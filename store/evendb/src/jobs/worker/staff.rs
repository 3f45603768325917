//! The threads of an open database.
//!
//! ```text
//!   upkeep      always there; waits until it is woken while nothing is owed   (upkeep.rs)
//!   workers     come with jobs for which no worker waits
//!   helpers     reaper, log, stats, heat: called by upkeep while calls come or something is owed
//!   for futures readers, writer, syncer: come with the first job for them   (serving.rs)
//!                 '-- each goes after it had nothing to do for a while: LINGER
//! ```
//! So a database that is left alone has one thread, which waits. Where no thread can be started
//! nothing is lost: upkeep does the jobs and the reaper's work itself, and the others' work can be
//! left out.
//!
//! The databases of a shared budget have no threads of their own: the same work is done turn by
//! turn by threads that they share (`shared.rs`).
//!
//! Invariants: threads of a role are counted under the queue's lock, by the thread that starts
//! them, and by themselves when they end; a worker goes only if no job waits, checked under the
//! same lock. No thread starts after [`Work::stop`] has begun to wait for them. A panic in a thread
//! latches the database.

use super::{serving, shared, upkeep};
use crate::engine::Engine;
use crate::engine::staff::{Body, ThreadRole};
use crate::engine::work::{Job, JobQueue, TICK, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::heap::HeapTrim;
use crate::rebalance::{jobs, space, warm};
use crate::sync::Arc;
use crate::{observe, pace, worker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a thread stays that has nothing to do.
pub(super) const LINGER: Duration = match cfg!(evendb_shuttle) {
    // A model has no time.
    true => Duration::ZERO,
    false => Duration::from_secs(1),
};

/// Starts the one thread that a newly opened database needs.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    if engine.core.manual() {
        return Ok(());
    }
    if let Some(log) = &engine.log.commit_log {
        log.begin_slowly();
    }
    let weak = Arc::downgrade(engine);
    if let Some(member) = engine.memory.member() {
        let weak = weak.clone();
        member.set_wake(move || {
            if let Some(engine) = weak.upgrade() {
                engine.work.stir();
            }
        });
    }
    let member = engine.memory.member().cloned();
    let shares = member.is_some();
    let body_of = move |role| {
        let engine = weak.upgrade()?;
        let turns = shares.then(|| shared::turns_of(role, &engine)).flatten();
        Some(match turns {
            Some(turns) => Body::Turns(turns),
            None => Body::Thread(Box::new(move || run_thread(role, &engine))),
        })
    };
    if engine.disk.manifest.is_none() {
        // Nothing is written, so there is no work but that of readers.
        engine.work.allow(0, member, body_of);
        return Ok(());
    }
    let workers = engine.core.options.workers;
    engine.work.allow(workers, member, body_of);
    engine.work.begin().map_err(|source| {
        let what = "start the thread evendb-upkeep (the process, its user or its container may have no more, \
                    or there is no memory for its stack: raise that limit)";
        evendb_storage::Error::io(&engine.disk.dir, what, source).into()
    })
}

/// Runs a thread of a role from beginning to end. A panic latches the database.
fn run_thread(role: ThreadRole, engine: &Engine) {
    let _own = engine.core.health.mark();
    let done = catch_unwind(AssertUnwindSafe(|| perform(role, engine)));
    if done.is_err() {
        note_panic(role, engine);
    }
}

/// A thread of the role is gone, because it panicked.
pub(super) fn note_panic(role: ThreadRole, engine: &Engine) {
    engine.work.left(role);
    engine.core.health.latch(Error::new(
        ErrorKind::Io,
        "a background thread panicked; its message is on standard error",
    ));
}

fn perform(role: ThreadRole, engine: &Engine) {
    match role {
        ThreadRole::Upkeep => upkeep::run(engine),
        ThreadRole::Worker => worker(engine),
        ThreadRole::Reaper | ThreadRole::Log | ThreadRole::Stats | ThreadRole::Heat => {
            help(role, engine);
        }
        ThreadRole::Reader | ThreadRole::Writer => serving::empty_pool(engine, role),
        ThreadRole::Syncer => serving::attend(engine),
    }
}

/// The wait of a helper between two turns.
struct Lingering {
    role: ThreadRole,
    /// Since when the helper has had nothing to do while upkeep rests.
    since: Option<Instant>,
}

impl Lingering {
    fn new(role: ThreadRole) -> Lingering {
        Lingering { role, since: None }
    }

    /// Waits for the helper's next turn, `rest` from now. Returns false if the helper must go: it
    /// is counted as gone.
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
            // A helper that waits for a long time must notice that upkeep rests.
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

/// Does jobs, and goes after there was none for a while.
///
/// While no call waits for jobs, only a third of the workers take some: where puts wait for a
/// checkpoint, more workers would take the disk and the processors from it.
fn worker(engine: &Engine) {
    let work = &engine.work;
    loop {
        let job = {
            let mut queue = work.queue.lock();
            let mut spent = false;
            loop {
                if queue.stop {
                    queue.present[ThreadRole::Worker as usize] -= 1;
                    return;
                }
                let enough = is_enough(engine, &queue);
                if !enough && let Some(job) = work.take(&mut queue) {
                    break job;
                }
                if spent {
                    queue.present[ThreadRole::Worker as usize] -= 1;
                    return;
                }
                queue.waiting += 1;
                let time = if enough { TICK } else { LINGER };
                spent = work.jobs.wait_for(&mut queue, time).timed_out() && queue.is_empty();
                queue.waiting -= 1;
            }
        };
        work.turn_begins();
        worker::do_job(engine, &job);
    }
}

/// Whether enough workers work already.
pub(super) fn is_enough(engine: &Engine, queue: &JobQueue) -> bool {
    // Each reader waits for its own load, and readers read less of merged runs.
    let loads = matches!(queue.jobs.front(), Some(Job::Load(_)));
    let readers_wait = loads || queue.scans_wait;
    queue.running >= gentle_workers(engine)
        && !readers_wait
        && queue.idle_awaited == 0
        && !pace::waits_for_jobs(&engine.core.admission, !queue.absorbs.is_empty())
}

/// The number of workers that work while reorganisation keeps up.
fn gentle_workers(engine: &Engine) -> usize {
    match cfg!(evendb_shuttle) {
        // A model has no time, so a worker that waits for it would spin.
        true => usize::MAX,
        false => engine.core.options.workers.div_ceil(3),
    }
}

/// The state of the reaper's work.
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

    /// One turn; returns whether the next one should follow at once.
    pub(super) fn turn(&mut self, engine: &Engine) -> bool {
        // The edits come first: until an edit is durable the tables that it drops stay, in memory
        // too.
        if self.last_flush.elapsed() >= TICK && engine.core.health.failure().is_none() {
            self.last_flush = Instant::now();
            if engine.disk.manifest().queued() > 0 {
                // A failure latches; on a full disk the edits wait.
                let _ = jobs::flush_manifest(&engine.jobs());
            }
            self.more |= engine.space.takes_give_back();
        }
        match engine.memory.member() {
            Some(member) => member.tend_heap(),
            None => self.heap.tend(engine.core.options.memory_budget),
        }
        let removed = engine.core.health.may_remove() && engine.disk.tables.remove_file();
        engine.disk.tables.let_go();
        if self.more && !removed {
            self.more = space::give_back_room(engine) > 0;
        }
        removed || self.more
    }
}

/// A turn of a helper, again and again: the rest until the next one, and whether there is work
/// besides what upkeep and calls make. `None` once there is nothing more to do.
pub(super) type HelperTurn = Box<dyn FnMut(&Engine) -> Option<(Duration, bool)> + Send>;

/// The turns of a helper:
/// * The reaper makes queued edits durable, removes the files that they drop, and gives room back.
///   This work waits for the disk, and no call waits for it. So no other work stands behind it:
///   behind the writes of reorganisation each step may take from milliseconds to a second.
/// * The log's helper tends the mapped commit log.
/// * The one for statistics writes the figures.
/// * The one for heat loads the spans that were in RAM in the last life, or notes those of now.
pub(super) fn helper_turn(role: ThreadRole) -> HelperTurn {
    match role {
        ThreadRole::Reaper => {
            let mut reaping = Reaping::new();
            Box::new(move |engine| {
                let more = reaping.turn(engine);
                let rest = if more { Duration::ZERO } else { TICK };
                Some((rest, more || owes_reaper(engine)))
            })
        }
        ThreadRole::Log => {
            let mut tending = None;
            Box::new(move |engine| {
                let log = engine.log.commit_log.as_ref()?;
                let now = Instant::now();
                let tending = tending.get_or_insert_with(|| log.take_tending(now));
                log.tend(tending, now);
                let busy = log.needs_tending(tending);
                if !busy {
                    // Kept before the helper is counted as gone: the next one continues with it.
                    log.keep_tending(tending);
                }
                Some((TICK, busy))
            })
        }
        ThreadRole::Stats => Box::new(|engine| observe::look(engine).map(|rest| (rest, false))),
        ThreadRole::Heat => Box::new(|engine| warm::turn(engine).map(|rest| (rest, true))),
        _ => Box::new(|_| None),
    }
}

/// A helper has gone while it had more to do; it is counted as gone already.
pub(super) fn helper_left(role: ThreadRole, engine: &Engine) {
    if role == ThreadRole::Stats {
        observe::last_look(engine);
    }
}

/// Makes a helper's turns until it has nothing to do.
fn help(role: ThreadRole, engine: &Engine) {
    let mut lingering = Lingering::new(role);
    let mut turn = helper_turn(role);
    while let Some((rest, busy)) = turn(engine) {
        if !lingering.goes_on(&engine.work, rest, busy) {
            helper_left(role, engine);
            return;
        }
    }
    engine.work.left(role);
}

/// Whether any work waits for the reaper.
pub(crate) fn owes_reaper(engine: &Engine) -> bool {
    engine.core.health.failure().is_none()
        && (engine.disk.manifest().queued() > 0
            || engine.disk.tables.has_unneeded()
            || engine.space.owes_give_back())
}
