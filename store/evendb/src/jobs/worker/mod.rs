//! Background work: the work of each kind of job, and the calls that wait for background work or do
//! it themselves.
//!
//! ```text
//!   puts, rounds, jobs --push--> queue (engine/threads/work.rs) --take--> workers, run_job --> rebalance,
//!                                                                                      making_room
//!   half of the room used --> upkeep (upkeep.rs) --> checkpoint, rounds    staff.rs starts threads
//!   no threads: the put does it, relieve    everything owed: settle_debt, idle_pass    end: close
//! ```
//!
//! * [`staff`]: the threads of an open database. One thread always runs; others are started when
//!   there is work for them, and end after it.
//! * [`serving`]: the threads that serve futures.
//! * [`upkeep`]: the work of the thread that always runs, and when it may sleep until it is woken.
//!
//! Invariants: the queue holds each chunk at most once per kind of job. A panic in a worker latches
//! the database, and the job still leaves the queue, so nothing waits for it for ever. A caller of
//! anything here holds no lock: a checkpoint takes the first locks in the order of locks.
//!
//! Thread safety: any thread. Not here: the queue itself ([`crate::engine::work`]); the effect of a
//! job on a chunk ([`crate::rebalance`]); how long jobs rest ([`crate::pace`]).

mod serving;
mod shared;
mod staff;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
mod upkeep;

use crate::commit_log::CommitLog;
use crate::engine::Engine;
use crate::engine::work::{Job, NamedChunk};
use crate::error::{Error, ErrorKind, Result};
use crate::rebalance::{guarded, idle, jobs, log_merge, munks, space, spans, tending, warm};
use crate::sync::atomic::Ordering;
use crate::{checkpoint, fork, log_room, making_room, observe, trace};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use serving::CheckpointWait;
pub(crate) use staff::start;

/// Does one job. A panic latches the database.
fn do_job(engine: &Engine, job: &Job) {
    // The job counts as done even if it unwinds: otherwise threads would wait for it for ever.
    let result = catch_unwind(AssertUnwindSafe(|| run_job(engine, job)));
    engine
        .work
        .done(result.as_ref().is_ok_and(|&worked| worked));
    if result.is_err() {
        engine.core.health.latch(Error::new(
            ErrorKind::Io,
            "a reorganising thread panicked; its message is on standard error",
        ));
    }
    engine.disk.collect_memory(&engine.core.health);
}

/// Whether the job has changed a chunk otherwise than by a merge.
fn run_job(engine: &Engine, job: &Job) -> bool {
    if engine.core.health.failure().is_some() {
        return false;
    }
    let there = |named: &NamedChunk| named.chunk.upgrade();
    match job {
        Job::Maintain(named) => there(named).is_some_and(|chunk| {
            // Errors mark the chunk, latch the database, or (no room) are for later.
            making_room::maintain_on_full_disk(engine, chunk).unwrap_or(false)
        }),
        Job::Absorb(named) => there(named).is_some_and(|chunk| {
            if let Some(_token) = chunk.try_token() {
                munks::absorb_or_evict(&engine.core, &engine.memory, &chunk);
            }
            engine.work.push_maintenance(&chunk);
            false
        }),
        Job::Load(named) => there(named).is_some_and(|chunk| {
            // A failure has marked the chunk.
            let _ = spans::load_wanted(&engine.jobs(), &chunk);
            false
        }),
        Job::Merge(named) => {
            let chunks: Vec<_> = named.iter().filter_map(there).collect();
            // A failure has latched. After any other error the next checkpoint asks again.
            let _ = log_merge::merge_logs(&engine.jobs(), &chunks);
            false
        }
        Job::Shrink(named) => {
            there(named).is_some_and(|chunk| idle::shrink(&engine.jobs(), &chunk).unwrap_or(false))
        }
    }
}

/// Makes the commit log durable up to its head.
pub(crate) fn flush_commit_log(engine: &Engine) -> Result<()> {
    let health = &engine.core.health;
    match &engine.log.commit_log {
        Some(log) => log.flush().map_err(|error| health.latch(error.into())),
        None => Ok(()),
    }
}

/// Asks for a checkpoint if half of the room is used. Each put calls it.
pub(crate) fn checkpoint_if_half_full(engine: &Engine) {
    if !engine.core.admission.half_full() {
        return;
    }
    if engine.core.manual() {
        log_room::grow_log_ahead(engine);
        if engine.core.admission.half_full() {
            relieve(engine);
        }
    } else {
        engine.work.want_checkpoint_for_room();
    }
}

/// Asks for a checkpoint for a put that waits for room. It may be called again and again.
pub(crate) fn relieve(engine: &Engine) {
    if !engine.core.manual() {
        engine.work.want_checkpoint();
        return;
    }
    // Without threads the caller does it; it holds no lock. Any error except a full disk has
    // latched, and the caller finds out.
    let relieved =
        checkpoint_to_short_logs(engine).and_then(|()| making_room::maintain_all(engine));
    if relieved.is_ok() {
        tending::tend_memory(engine);
        tending::memory_round(&engine.jobs());
        space::space_round(&engine.jobs(), true);
        run_queued_jobs(engine);
    }
    for _ in 0..4 {
        engine.disk.collect(&engine.core.health);
    }
    if let Err(error) = relieved
        && engine.core.health.failure().is_none()
        && !making_room::retry_checkpoint(engine, false)
    {
        making_room::refuse_waiting(engine, &error);
    }
}

/// Runs a checkpoint, before which logs are merged, or compacted, that have the most runs that a
/// log may have.
pub(crate) fn checkpoint_to_short_logs(engine: &Engine) -> Result<()> {
    log_merge::merge_longest(&engine.jobs())?;
    guarded::relieve_level0(&engine.jobs())?;
    checkpoint::checkpoint(engine)
}

/// Does the jobs that wait in the queue, in this thread.
pub(crate) fn run_queued_jobs(engine: &Engine) {
    loop {
        let job = {
            let mut queue = engine.work.queue.lock();
            engine.work.take(&mut queue)
        };
        let Some(job) = job else { break };
        let worked = run_job(engine, &job);
        engine.work.done(worked);
    }
    if engine.space.takes_give_back() {
        while space::give_back_room(engine) > 0 {}
    }
}

/// Waits until checkpoint `number` is completed. Many callers may wait for the same checkpoint: it
/// covers everything that was put before it began.
pub(crate) fn wait_for_checkpoint(engine: &Engine, number: u64) -> Result<()> {
    if engine.core.manual() {
        let done = checkpoint_to_short_logs(engine);
        return done.map_err(Error::not_durable_yet);
    }
    let mut asked = false;
    let mut completed = engine.flow.completed.lock();
    let refusals = engine.disk.full_disk.refusals.count();
    while *completed < number {
        // A thread that wakes others after a failure or at closing takes this lock before: no
        // wake-up is missed. Closing waits for the caller, so a checkpoint still comes then.
        engine.core.health.check_healthy()?;
        if engine.disk.full_disk.refusals.count() != refusals {
            return Err(engine
                .disk
                .full_disk
                .refusals
                .last_error(&engine.disk.dir)
                .not_durable_yet());
        }
        if asked {
            engine.flow.progress.wait(&mut completed);
            continue;
        }
        drop(completed);
        engine.work.await_checkpoint(number);
        asked = true;
        completed = engine.flow.completed.lock();
    }
    Ok(())
}

/// Makes durable everything that was put before the call: it survives power loss when this returns.
/// The caller has entered.
pub(crate) fn persist(engine: &Engine) -> Result<()> {
    checkpoint::take_inherited(engine)?;
    match &engine.log.commit_log {
        Some(_) => flush_commit_log(engine),
        None => checkpoint_to_short_logs(engine),
    }
}

/// The largest number of searches for debt; another search follows while the last payment showed
/// more.
const SETTLING_ROUNDS: u32 = 4;

/// Runs a checkpoint, and all the reorganisation that is owed. The caller has entered.
pub(crate) fn settle_debt(engine: &Engine) -> Result<()> {
    checkpoint_to_short_logs(engine)?;
    if !engine.core.manual() {
        engine.work.wait_idle();
    }
    for _ in 0..SETTLING_ROUNDS {
        space::space_round(&engine.jobs(), true);
        making_room::maintain_all(engine)?;
        finish_jobs(engine, |engine| engine.disk.collect(&engine.core.health))?;
        // Rewrites found values to be dead that counted as live before.
        if !engine.core.value_files.is_any_to_be_emptied() {
            break;
        }
    }
    Ok(())
}

/// Pays the debt, and then does the work of an idle database at once and in this thread: for tests,
/// and for databases without threads, which never notice that they are idle. Returns the number of
/// rewritten chunks.
pub(crate) fn idle_pass(engine: &Engine) -> Result<u64> {
    settle_debt(engine)?;
    let rewritten = idle::shrink_all(&engine.jobs())?;
    finish_jobs(engine, making_room::collect_for_room)?;
    Ok(rewritten)
}

/// Ends a call that did much of the background work: does the jobs that the call has queued, makes
/// their edits durable, removes with `collect` the files that these edits drop, gives room back,
/// and looks for further work.
fn finish_jobs(engine: &Engine, collect: fn(&Engine)) -> Result<()> {
    run_queued_jobs(engine);
    jobs::flush_manifest(&engine.jobs())?;
    collect(engine);
    while space::give_back_room(engine) > 0 {}
    space::space_round(&engine.jobs(), true);
    Ok(())
}

/// Closes the database: refuses calls, waits for calls under way, runs a checkpoint, seals the
/// manifest, and unlocks. If several threads close at once, one does it, and the others wait for it
/// and get its result.
pub(crate) fn close(engine: &Engine) -> Result<()> {
    fork::check()?;
    let wake = || {
        engine.core.admission.cancel();
        engine.work.begin_closing();
        engine.work.end_pools();
        engine.wake_all();
        engine.core.health.wake_due();
    };
    engine.core.health.close(wake, || end(engine))
}

/// The last steps of a database. No call is under way, and none will come.
fn end(engine: &Engine) -> Result<()> {
    let job = trace::job!("close");
    serving::end(engine);
    engine.work.stop();
    observe::end(engine);
    let mut result = Ok(());
    if let Some(manifest) = &engine.disk.manifest
        && engine.core.health.failure().is_none()
    {
        let shrinks = engine.disk.shrinks_at_end.load(Ordering::Relaxed);
        result = match shrinks {
            true => checkpoint_at_lap(engine),
            false => checkpoint::checkpoint(engine),
        };
        result = result.and_then(|()| match manifest.seal(true) {
            // The record that sealing would write only helps to tell damage from a torn end.
            Err(error) if error.kind() == evendb_storage::ErrorKind::NoSpace => Ok(()),
            sealed => sealed.map_err(|error| engine.core.health.latch(error.into())),
        });
        if result.is_ok() {
            observe::audit::assert_agree(engine);
            warm::save(engine);
        }
        if engine.core.health.failure().is_none() && result.is_err() {
            // There is no room for a checkpoint: at least the contents of the commit log are made
            // durable.
            let _ = flush_commit_log(engine);
        }
    }
    if let Some(log) = &engine.log.commit_log {
        // This comes before the lock is given up: after that, this process does not write to the
        // file.
        log.close();
    }
    serving::wake_left(engine);
    for _ in 0..4 {
        engine.disk.collect(&engine.core.health);
    }
    // Files that no edit names any more are removed now, even if other databases of the process
    // still hold pins.
    making_room::collect_for_room(engine);
    if engine.core.health.failure().is_none()
        && result.is_ok()
        && engine.disk.shrinks_at_end.load(Ordering::Relaxed)
    {
        give_all_back(engine);
    }
    engine.claim.give_up();
    let result = match engine.core.health.failure() {
        Some(cause) if result.is_ok() => Err(Error::latched(cause)),
        _ => result,
    };
    trace::event!(
        INFO,
        "closed",
        clean = result.is_ok(),
        duration_micros = job.micros()
    );
    result
}

/// The last checkpoint of a database that shall be as small as possible: it leaves the ring empty
/// at the start of a lap. All writes have ended.
pub(crate) fn checkpoint_at_lap(engine: &Engine) -> Result<()> {
    let begins = |engine: &Engine| {
        engine
            .log
            .commit_log
            .as_deref()
            .is_none_or(CommitLog::begin_lap)
    };
    if !begins(engine) {
        // The live part crosses the border of a lap; after this checkpoint it does not.
        checkpoint::checkpoint(engine)?;
        begins(engine);
    }
    checkpoint::checkpoint(engine)
}

/// Gives back at the end the room that was kept ahead for puts, and the part of the ballast that
/// the data does not require. The log has ended.
pub(crate) fn give_all_back(engine: &Engine) {
    let disk = &engine.disk;
    if let Some(log) = &engine.log.commit_log {
        log.give_back();
    }
    disk.full_disk.shrink_to_data(&engine.catalog);
    while disk.container.give_excess_back(0, usize::MAX, &|_| true) > 0 {}
}
