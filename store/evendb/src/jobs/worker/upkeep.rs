//! The work of the thread that is always there: checkpoints when they are due, rounds that look at
//! everything again and again, and resting.
//!
//! ```text
//!   rounds every 50 ms     calls come, or something is owed; and QUIET_ROUNDS more
//!   rest                   until a thread stirs this one, or until the first of these
//!        a time-based checkpoint, if anything is dirty
//!        the database counts as idle, and has something to give back (rebalance/idle.rs)
//!        a look at tables that a reader still held
//!        a table in which everything has expired by then
//!      else for ever
//! ```
//! **What stirs.** A put that makes a chunk dirty, a job that is queued, an edit that is queued or
//! made durable: these must be seen ([`Work::stir`]). Every other put, get, refill of a scan and
//! end of a snapshot should be seen, because the memory policy depends on them: each looks at one
//! flag, and the first one that finds it set wakes this thread, once ([`Work::stir_gently`]). While
//! rounds are made the flag is down, so no call wakes this thread; the rounds see by the counters
//! that calls came.
//!
//! [`Work::stir`]: super::Work::stir
//! [`Work::stir_gently`]: super::Work::stir_gently

use super::serving::Waking;
use super::staff::Reaping;
use crate::engine::Engine;
use crate::engine::staff::ThreadRole;
use crate::engine::work::{JobQueue, TICK, Work};
use crate::memory::shared::Next;
use crate::rebalance::{expired_tables, idle, space, tending, warm};
use crate::sync::atomic::Ordering;
use crate::sync::reclaim;
use crate::worker::{self, staff};
use crate::{checkpoint, log_room, making_room, observe};
use std::time::{Duration, Instant};

/// The time between two looks while puts wait for memory that readers may still have pinned.
const TICK_WAITING: Duration = Duration::from_millis(1);
/// A checkpoint comes at the latest this long after a put. At relaxed level it bounds what a crash
/// loses; with a commit log it only bounds what the next opening replays. Each checkpoint costs a
/// run in every chunk that got a put.
const CHECKPOINT_INTERVAL_RELAXED: Duration = Duration::from_secs(5);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);
/// Many deletions wait at most this long for a checkpoint.
const DELETION_INTERVAL: Duration = Duration::from_secs(1);
/// The number of successive rounds without any event before upkeep rests.
const QUIET_ROUNDS: u32 = 4;
/// The time between two looks at tables that are only waiting for a reader.
const HELD_INTERVAL: Duration = Duration::from_secs(1);

/// The state from turn to turn.
struct Upkeep {
    interval: Duration,
    last_checkpoint: Instant,
    last_round: Instant,
    last_memory_round: Instant,
    deletes_before: u64,
    covered_before: u64,
    /// The counters in the last round; when they last changed or something was owed; and the number
    /// of rounds since then.
    activity: u64,
    last_active: Instant,
    quiet: u32,
    /// The reaper's work, which upkeep does where no thread can be started.
    reaping: Reaping,
    waking: Waking,
}

/// The requests of other threads.
struct Wanted {
    checkpoint: bool,
    awaited: u64,
}

/// Runs until the work is stopped.
pub(super) fn run(engine: &Engine) {
    let mut upkeep = Upkeep::new(engine);
    observe::look(engine);
    loop {
        if upkeep.may_rest(engine) {
            upkeep.rest(engine);
        }
        let Some(wanted) = engine.work.wait_for_tick(engine) else {
            return;
        };
        upkeep.turn(engine, &wanted);
    }
}

/// The same work turn by turn, for threads that many databases share: where [`run`] waits, a turn
/// ends.
pub(super) fn turns() -> impl FnMut(&Engine) -> Next {
    let mut state = None;
    let mut rests = false;
    move |engine| {
        let upkeep = state.get_or_insert_with(|| {
            let upkeep = Upkeep::new(engine);
            observe::look(engine);
            upkeep
        });
        if std::mem::take(&mut rests) {
            engine.work.end_rest();
            upkeep.end_rest(engine);
        }
        let Some(wanted) = engine.work.take_wanted(&mut engine.work.queue.lock()) else {
            return Next::Ended;
        };
        upkeep.turn(engine, &wanted);
        if !upkeep.may_rest(engine) {
            return Next::Again(Instant::now() + tick(engine));
        }
        rests = true;
        let until = upkeep.begin_rest(engine);
        engine.work.next_after_rest(until)
    }
}

/// The time until the next turn, if no checkpoint is asked for.
fn tick(engine: &Engine) -> Duration {
    match engine.core.admission.is_waited_for() {
        true => TICK_WAITING,
        false => TICK,
    }
}

impl Work {
    /// Waits between two turns: for a tick, or until a checkpoint is asked for. `None` once the
    /// threads must stop.
    fn wait_for_tick(&self, engine: &Engine) -> Option<Wanted> {
        let mut queue = self.queue.lock();
        if !queue.stop && !self.is_wanted(&queue) {
            self.upkeep.wait_for(&mut queue, tick(engine));
        }
        self.take_wanted(&mut queue)
    }

    /// What is asked for; `None` once the threads must stop.
    fn take_wanted(&self, queue: &mut JobQueue) -> Option<Wanted> {
        if queue.stop {
            return None;
        }
        Some(Wanted {
            checkpoint: std::mem::take(&mut queue.checkpoint_wanted),
            awaited: std::mem::take(&mut queue.checkpoint_awaited),
        })
    }
}

impl Upkeep {
    fn new(engine: &Engine) -> Upkeep {
        let now = Instant::now();
        Upkeep {
            interval: match engine.log.commit_log {
                Some(_) => CHECKPOINT_INTERVAL,
                None => CHECKPOINT_INTERVAL_RELAXED,
            },
            last_checkpoint: now,
            last_round: now,
            last_memory_round: now,
            deletes_before: 0,
            covered_before: 0,
            // A call may have come before this thread did.
            activity: 0,
            last_active: now,
            quiet: 0,
            reaping: Reaping::new(),
            waking: Waking::default(),
        }
    }

    /// One turn.
    fn turn(&mut self, engine: &Engine, wanted: &Wanted) {
        engine.work.turn_begins();
        match engine.core.health.failure() {
            Some(_) => self.give_up(engine),
            None => self.look(engine, wanted),
        }
        self.waking.tend(engine);
    }

    fn look(&mut self, engine: &Engine, wanted: &Wanted) {
        log_room::grow_log_ahead(engine);
        self.checkpoint_if_due(engine, wanted);
        if engine.core.admission.is_waited_for() {
            reclaim::collect();
        }
        if self.last_round.elapsed() >= TICK {
            self.round(engine);
        }
    }

    fn checkpoint_if_due(&mut self, engine: &Engine, wanted: &Wanted) {
        // A put that set the flag during the last checkpoint may have got room since.
        let is_full = engine.work.half_full.swap(false, Ordering::Relaxed)
            && engine.core.admission.half_full();
        // A request from before the last checkpoint moved the version is served by that checkpoint.
        let is_wanted =
            wanted.checkpoint || is_full || wanted.awaited > *engine.flow.completed.lock();
        let deletes = engine.core.metrics.deletes.get();
        let covered = engine.core.metrics.bytes_covered.get();
        if !is_wanted
            && self
                .checkpoint_due(engine)
                .is_none_or(|due| Instant::now() < due)
        {
            return;
        }
        (self.deletes_before, self.covered_before) = (deletes, covered);
        // A failure has latched. On a full disk the checkpoint is tried again, after the waiting
        // threads have been told.
        if let Err(error) = worker::checkpoint_to_short_logs(engine)
            && engine.core.health.failure().is_none()
            && !making_room::retry_checkpoint(engine, wanted.awaited > 0)
            && engine.core.health.failure().is_none()
        {
            making_room::refuse_waiting(engine, &error);
            engine.work.wait_for_stop(TICK);
            engine.work.want_checkpoint();
        }
        self.last_checkpoint = Instant::now();
        engine.disk.collect_memory(&engine.core.health);
    }

    /// When time alone asks for a checkpoint; `None` while nothing is dirty.
    fn checkpoint_due(&self, engine: &Engine) -> Option<Instant> {
        if engine.flow.dirty.lock().is_empty() {
            return None;
        }
        // The room of deleted records comes back soon, before puts ask for a checkpoint.
        let deletes = engine.core.metrics.deletes.get() - self.deletes_before;
        let covered = engine.core.metrics.bytes_covered.get() - self.covered_before;
        let interval = match space::worth_deleting(&engine.jobs(), deletes, covered) {
            true => self.interval.min(DELETION_INTERVAL),
            false => self.interval,
        };
        Some(self.last_checkpoint + interval)
    }

    /// One look at everything.
    fn round(&mut self, engine: &Engine) {
        self.last_round = Instant::now();
        space::room_ahead(engine);
        tending::tend_memory(engine);
        let since = self.last_memory_round.elapsed();
        if engine.memory.is_round_due(since) {
            self.last_memory_round = Instant::now();
            tending::memory_round(&engine.jobs());
        }
        space::space_round(&engine.jobs(), false);
        idle::idle_round(&engine.jobs());
        engine.disk.collect_memory(&engine.core.health);
        if engine.disk.full_disk.is_owed() {
            checkpoint::tend_full_disk(engine);
        }
        let activity = activity(engine);
        let is_active = activity != self.activity || owes_upkeep(engine);
        self.activity = activity;
        self.quiet += 1;
        if is_active {
            (self.last_active, self.quiet) = (Instant::now(), 0);
        }
        self.call_others(engine, is_active);
    }

    /// Starts the threads that have something to do; if one cannot be started, does its work.
    fn call_others(&mut self, engine: &Engine, is_active: bool) {
        let work = &engine.work;
        if work.lacks_worker() && !work.call(ThreadRole::Worker) {
            worker::run_queued_jobs(engine);
        }
        // While calls come the reaper also looks after the heap.
        if (is_active || staff::owes_reaper(engine)) && !work.call(ThreadRole::Reaper) {
            while self.reaping.turn(engine) && !engine.work.wait_for_stop(Duration::ZERO) {}
        }
        let log = engine.log.commit_log.as_ref();
        if log.is_some_and(|log| log.is_untended()) {
            // Without a thread, puts take the log's page faults.
            work.call(ThreadRole::Log);
        }
        if is_active && !engine.core.options.stats_interval.is_zero() {
            // Without a thread the figures stay those of the last rest.
            work.call(ThreadRole::Stats);
        }
        for _ in 0..warm::threads_due(engine, is_active) {
            // Without a thread nothing is loaded before it is read.
            let _ = work.call(ThreadRole::Heat);
        }
    }

    /// After a failure of the database: all that is left is to report it, and to wait for the end.
    fn give_up(&mut self, engine: &Engine) {
        engine.work.half_full.store(false, Ordering::Relaxed);
        if !engine.core.options.stats_interval.is_zero() && !engine.work.call(ThreadRole::Stats) {
            observe::last_look(engine);
        }
        self.quiet = QUIET_ROUNDS;
    }

    /// Whether rounds may end for now. In a large database the rounds that look at all chunks are
    /// rarer; one of them must have seen the last calls.
    fn may_rest(&self, engine: &Engine) -> bool {
        if engine.core.health.failure().is_some() {
            return self.quiet >= QUIET_ROUNDS && engine.core.health.due().is_none();
        }
        self.quiet >= QUIET_ROUNDS
            && self.last_memory_round > self.last_active
            && space::last_space_round(&engine.space) > Some(self.last_active)
            && !owes_upkeep(engine)
    }

    /// Rests, if a last look finds nothing to do.
    fn rest(&mut self, engine: &Engine) {
        let until = self.begin_rest(engine);
        engine.work.rest(until);
        self.end_rest(engine);
    }

    /// Begins to rest. Returns when the rest ends if no thread stirs.
    fn begin_rest(&mut self, engine: &Engine) -> Option<Instant> {
        engine.work.begin_rest();
        let mut until = None;
        if engine.core.health.failure().is_none() {
            self.call_others(engine, false);
            if owes_upkeep(engine) || activity(engine) != self.activity {
                engine.work.stir();
            }
            until = self.next_look(engine);
        }
        engine.work.staff.sweep();
        if !engine.work.has(ThreadRole::Stats) && !observe::has_looked_last(engine) {
            observe::last_look(engine);
        }
        until
    }

    fn end_rest(&mut self, engine: &Engine) {
        engine.work.turn_begins();
        // The next round looks at the event that ended the rest, and the later rounds at its
        // consequences.
        self.quiet = 0;
    }

    /// When something is due for which no thread will stir.
    fn next_look(&self, engine: &Engine) -> Option<Instant> {
        let held = (engine.disk.tables.pending_bytes() > 0).then(|| Instant::now() + HELD_INTERVAL);
        [
            self.checkpoint_due(engine),
            idle::idle_due(&engine.jobs()),
            expired_tables::expiry_due(&engine.core.clock, &engine.catalog),
            held,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// A number that changes with every step of calls, jobs and checkpoints.
fn activity(engine: &Engine) -> u64 {
    let metrics = &engine.core.metrics;
    let others = [&metrics.scans, &metrics.munk_loads, &metrics.munk_evictions];
    let others: u64 = others.iter().map(|count| count.get()).sum();
    metrics
        .operations()
        .wrapping_add(metrics.jobs_done())
        .wrapping_add(others)
}

/// Whether there is work that the next rounds have to look after.
fn owes_upkeep(engine: &Engine) -> bool {
    engine.work.is_busy()
        || engine.core.health.due().is_some()
        || engine.disk.full_disk.is_owed()
        || engine.core.admission.is_waited_for()
}
