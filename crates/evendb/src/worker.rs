//! Background work: one thread for checkpoints and upkeep, one that touches the pages of a mapped
//! commit log ahead of its head, one that removes files and gives room back, and a small pool that
//! reorganises chunks.
//!
//! The queue holds each chunk at most once per kind of job. A panic in a worker latches the
//! database; nothing is called complete that was not. With no workers nothing here runs, and the
//! calls that need a checkpoint or a reorganisation do it themselves.

use crate::chunk::Chunk;
use crate::db::Handle;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::manifest::ChunkId;
use crate::memory::heap::HeapTrim;
use crate::observe;
use crate::rebalance::log_merge::CHUNKS_MERGED_MAX;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Weak, epoch, thread};
use crate::trace;
use crate::write::commit_log::CommitLog;
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How often upkeep looks around.
const TICK: Duration = Duration::from_millis(50);
/// The same while puts wait for memory that readers may still have pinned.
const TICK_WAITING: Duration = Duration::from_millis(1);
/// A checkpoint comes at the latest this long after a put. At relaxed level it bounds what a crash
/// loses; with a commit log it only bounds what the next opening replays, and each one costs every
/// chunk that was put to a run.
const CHECKPOINT_INTERVAL_RELAXED: Duration = Duration::from_secs(5);
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);
/// Much that is deleted does not wait longer than this for a checkpoint.
const DELETION_INTERVAL: Duration = Duration::from_secs(1);

enum Job {
    Maintain(Named),
    /// Only take the durable deltas into the munk: puts wait for their memory.
    Absorb(Named),
    Load(Named),
    /// Nothing else is to do: make it smaller.
    Shrink(Named),
}

impl Job {
    fn named(&self) -> &Named {
        match self {
            Job::Maintain(named) | Job::Absorb(named) => named,
            Job::Load(named) | Job::Shrink(named) => named,
        }
    }
}

/// A chunk that may be gone when its turn comes.
struct Named {
    id: ChunkId,
    chunk: Weak<Chunk>,
}

impl Named {
    fn new(chunk: &Arc<Chunk>) -> Named {
        Named {
            id: chunk.id,
            chunk: Arc::downgrade(chunk),
        }
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Short jobs that go before all others.
    absorbs: VecDeque<Named>,
    /// Chunks that wait for maintenance.
    queued: HashSet<ChunkId>,
    loading: HashSet<ChunkId>,
    running: usize,
    checkpoint_wanted: bool,
    /// The greatest checkpoint that a write waits for and nobody has begun.
    checkpoint_awaited: u64,
    stop: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.absorbs.is_empty()
    }
}

/// The work queue and the threads that empty it.
#[derive(Default)]
pub(crate) struct Work {
    queue: Mutex<Queue>,
    /// Jobs, or stop.
    jobs: Condvar,
    /// A checkpoint is wanted, or stop.
    upkeep: Condvar,
    /// The queue ran empty.
    idle: Condvar,
    /// Stop, for who only waits for time to pass.
    stopping: Condvar,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// A put found half of its room used, and upkeep has not looked since.
    half_full: AtomicBool,
}

impl Work {
    /// Has somebody look at the chunk.
    pub(crate) fn push_maintenance(&self, chunk: &Arc<Chunk>) {
        let mut queue = self.queue.lock();
        if queue.queued.insert(chunk.id) {
            queue.jobs.push_back(Job::Maintain(Named::new(chunk)));
            self.jobs.notify_one();
        }
    }

    /// The same for a chunk whose munk has deltas to absorb: that is done before anything else.
    pub(crate) fn push_absorb(&self, chunk: &Arc<Chunk>) {
        let mut queue = self.queue.lock();
        if queue.queued.insert(chunk.id) {
            queue.absorbs.push_back(Named::new(chunk));
            self.jobs.notify_one();
        }
    }

    /// Has the chunk's munk loaded.
    pub(crate) fn push_load(&self, chunk: &Arc<Chunk>) {
        let mut queue = self.queue.lock();
        if queue.loading.insert(chunk.id) {
            queue.jobs.push_back(Job::Load(Named::new(chunk)));
            self.jobs.notify_one();
        }
    }

    /// Has the chunk made smaller. There is one such job at a time.
    pub(crate) fn push_shrink(&self, chunk: &Arc<Chunk>) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Job::Shrink(Named::new(chunk)));
        self.jobs.notify_one();
    }

    /// Whether any job or checkpoint waits, or a job runs.
    pub(crate) fn is_busy(&self) -> bool {
        let queue = self.queue.lock();
        queue.running > 0
            || !queue.is_empty()
            || queue.checkpoint_wanted
            || self.half_full.load(Ordering::Relaxed)
    }

    fn take(&self, queue: &mut Queue) -> Option<Job> {
        let absorb = queue.absorbs.pop_front().map(Job::Absorb);
        let job = absorb.or_else(|| queue.jobs.pop_front())?;
        match &job {
            Job::Maintain(chunk) | Job::Absorb(chunk) => queue.queued.remove(&chunk.id),
            Job::Load(chunk) => queue.loading.remove(&chunk.id),
            Job::Shrink(_) => true,
        };
        queue.running += 1;
        Some(job)
    }

    fn has_jobs(&self) -> bool {
        !self.queue.lock().jobs.is_empty()
    }

    fn done(&self) {
        let mut queue = self.queue.lock();
        queue.running -= 1;
        if queue.running == 0 && queue.is_empty() {
            self.idle.notify_all();
        }
    }

    pub(crate) fn wake_all(&self) {
        drop(self.queue.lock());
        self.jobs.notify_all();
        self.upkeep.notify_all();
        self.idle.notify_all();
        self.stopping.notify_all();
    }

    /// Waits that long, or until the threads have been told to stop; whether they have.
    pub(crate) fn wait_for_stop(&self, rest: Duration) -> bool {
        let until = Instant::now() + rest;
        let mut queue = self.queue.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if queue.stop || left.is_zero() {
                return queue.stop;
            }
            self.stopping.wait_for(&mut queue, left);
        }
    }

    /// Waits until no job waits or runs, or the threads have been told to stop.
    fn wait_idle(&self) {
        let mut queue = self.queue.lock();
        while !queue.stop && (queue.running > 0 || !queue.is_empty()) {
            self.idle.wait_for(&mut queue, TICK);
        }
    }

    /// The same for no longer than `limit`; whether there was anything to wait for.
    pub(crate) fn wait_idle_for(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut queue = self.queue.lock();
        let mut waited = false;
        while !queue.stop && (queue.running > 0 || !queue.is_empty()) && Instant::now() < until {
            waited = true;
            self.idle.wait_for(&mut queue, TICK);
        }
        waited
    }

    /// Tells the threads to stop and waits for them.
    pub(crate) fn stop(&self) {
        self.queue.lock().stop = true;
        self.wake_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A worker's panic has latched the database already.
            let _ = thread.join();
        }
    }
}

/// What a thread does until the work is stopped.
type Body = fn(&Engine);

/// Starts the threads of a newly opened database.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    if engine.manual() || engine.manifest.is_none() {
        return Ok(());
    }
    let mut bodies: Vec<(String, Body)> = vec![
        ("evendb-upkeep".into(), upkeep),
        ("evendb-reaper".into(), reaper),
    ];
    if engine.commit_log.as_ref().is_some_and(CommitLog::is_mapped) {
        bodies.push(("evendb-log".into(), tend));
    }
    if !engine.options.stats_interval.is_zero() {
        bodies.push(("evendb-stats".into(), observe::run));
    }
    for number in 0..engine.options.workers {
        bodies.push((format!("evendb-work-{number}"), worker));
    }
    for (name, body) in bodies {
        let own = engine.clone();
        let what = format!(
            "start the thread {name} (the process, its user or its container may have no more, or there is \
             no memory for its stack: raise that limit, or ask for fewer workers)"
        );
        let started = thread::Builder::new().name(name).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| body(&own))).is_err() {
                own.latch_error(Error::new(
                    ErrorKind::Io,
                    "a background thread panicked; its message is on standard error",
                ));
            }
        });
        match started {
            Ok(thread) => engine.work.threads.lock().push(thread),
            Err(source) => {
                engine.work.stop();
                let error = evendb_storage::Error::io(&engine.dir, &what, source);
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Looks after the mapped commit log.
fn tend(engine: &Engine) {
    let Some(log) = &engine.commit_log else {
        return;
    };
    let mut tending = log.tending(Instant::now());
    loop {
        let pause = log.tend(&mut tending, Instant::now());
        if engine.work.wait_for_stop(pause) {
            return;
        }
    }
}

/// Makes queued edits durable, removes the files that they drop, and gives room back: what waits for
/// the disk and for which nobody waits. A thread of its own, because behind the writes of
/// reorganisation each of these may take from milliseconds to a second.
fn reaper(engine: &Engine) {
    let mut last_flush = Instant::now();
    let mut more = false;
    let mut heap = HeapTrim::new();
    loop {
        // First of all: until an edit is durable it holds the tables that it drops, in memory too.
        if last_flush.elapsed() >= TICK && engine.failure().is_none() {
            last_flush = Instant::now();
            if engine.manifest().queued() > 0 {
                // A failure latches; without room the edits wait.
                let _ = engine.flush_manifest();
            }
            more |= engine.space.takes_give_back();
        }
        heap.tend(engine);
        let removed = engine.may_remove() && engine.tables.remove_file();
        engine.tables.let_go();
        if more && !removed {
            more = engine.give_back_room() > 0;
        }
        let rest = if removed || more {
            Duration::ZERO
        } else {
            TICK
        };
        if engine.work.wait_for_stop(rest) {
            return;
        }
    }
}

fn upkeep(engine: &Engine) {
    let mut last_checkpoint = Instant::now();
    let mut last_round = Instant::now();
    let mut deletes_before = 0;
    let mut last_munk_round = Instant::now();
    let interval = match engine.commit_log {
        Some(_) => CHECKPOINT_INTERVAL,
        None => CHECKPOINT_INTERVAL_RELAXED,
    };
    loop {
        let (wanted, awaited) = {
            let mut queue = engine.work.queue.lock();
            if queue.stop {
                return;
            }
            let is_wanted = queue.checkpoint_wanted || queue.checkpoint_awaited > 0;
            if !is_wanted && !engine.work.half_full.load(Ordering::Relaxed) {
                let tick = match engine.admission.is_waited_for() {
                    true => TICK_WAITING,
                    false => TICK,
                };
                engine.work.upkeep.wait_for(&mut queue, tick);
            }
            if queue.stop {
                return;
            }
            (
                std::mem::take(&mut queue.checkpoint_wanted),
                std::mem::take(&mut queue.checkpoint_awaited),
            )
        };
        engine.grow_log_ahead();
        // Who noted it during the last checkpoint may have found room that came free since.
        let is_full = engine.work.half_full.swap(false, Ordering::Relaxed) && engine.is_half_full();
        // Those who came before the last one moved the version are served by it.
        let wanted = wanted || is_full || awaited > *engine.completed.lock();
        if engine.failure().is_some() {
            engine.work.wait_for_stop(TICK);
            continue;
        }
        // What was deleted is given back soon, not with the next checkpoint that puts ask for.
        let deletes = engine.metrics.deletes.get();
        let deleted = last_checkpoint.elapsed() >= DELETION_INTERVAL
            && engine.worth_deleting(deletes - deletes_before);
        let due = deleted || last_checkpoint.elapsed() >= interval;
        if wanted || (due && !engine.dirty.lock().is_empty()) {
            deletes_before = deletes;
            // A failure has latched; a full disk is tried again, after those have been told that wait.
            if let Err(error) = engine.checkpoint()
                && engine.failure().is_none()
                && !engine.retry_checkpoint(awaited > 0)
                && engine.failure().is_none()
            {
                engine.refuse_waiting(&error);
                engine.work.wait_for_stop(TICK);
                engine.request_checkpoint();
            }
            last_checkpoint = Instant::now();
            engine.collect_memory();
        }
        if engine.admission.is_waited_for() {
            epoch::collect();
        }
        if last_round.elapsed() >= TICK {
            last_round = Instant::now();
            engine.room_ahead();
            engine.tend_memory();
            let since = last_munk_round.elapsed();
            if engine.munk_round_due(since) {
                last_munk_round = Instant::now();
                engine.munk_round();
            }
            engine.space_round(false);
            engine.idle_round();
            engine.collect_memory();
            if engine.ballast.is_owed() {
                engine.tend_ballast();
            }
        }
    }
}

fn worker(engine: &Engine) {
    loop {
        let job = {
            let mut queue = engine.work.queue.lock();
            loop {
                if queue.stop {
                    return;
                }
                match engine.work.take(&mut queue) {
                    Some(job) => break job,
                    None => engine.work.jobs.wait(&mut queue),
                }
            }
        };
        // Counted as done even if it unwinds: nobody may wait for it for ever.
        let result = catch_unwind(AssertUnwindSafe(|| engine.run_job(&job)));
        let merged = catch_unwind(AssertUnwindSafe(|| {
            // Many at once share a sync; the few that are left when there is nothing else to do too.
            let noted = engine.log_merges.lock().len();
            if noted >= CHUNKS_MERGED_MAX || (noted > 0 && !engine.work.has_jobs()) {
                // A failure has latched; else they are noted again by the next checkpoint.
                let _ = engine.merge_logs();
            }
        }));
        engine.work.done();
        if result.is_err() || merged.is_err() {
            engine.latch_error(Error::new(
                ErrorKind::Io,
                "a reorganising thread panicked; its message is on standard error",
            ));
        }
        engine.collect_memory();
    }
}

impl Engine {
    fn run_job(&self, job: &Job) {
        if self.failure().is_some() {
            return;
        }
        let Some(chunk) = job.named().chunk.upgrade() else {
            return;
        };
        match job {
            // Errors mark the chunk, latch the database, or (no room) are for later.
            Job::Maintain(_) => drop(self.maintain_on_full_disk(chunk)),
            Job::Absorb(_) => {
                if let Some(_token) = chunk.try_token() {
                    self.absorb(&chunk);
                }
                self.work.push_maintenance(&chunk);
            }
            Job::Load(_) => {
                if let Some(_token) = chunk.try_token() {
                    drop(self.load_if_room(&chunk));
                }
            }
            Job::Shrink(_) => drop(self.shrink(&chunk)),
        }
    }

    /// Makes the commit log durable up to its head.
    pub(crate) fn flush_commit_log(&self) -> Result<()> {
        match &self.commit_log {
            Some(log) => log.flush().map_err(|error| self.latch_error(error.into())),
            None => Ok(()),
        }
    }

    /// Asks for a checkpoint soon.
    pub(crate) fn request_checkpoint(&self) {
        if self.manual() {
            self.relieve();
            return;
        }
        let mut queue = self.work.queue.lock();
        if !queue.checkpoint_wanted {
            queue.checkpoint_wanted = true;
            self.work.upkeep.notify_one();
        }
    }

    /// Whether puts have used half of the room they have for new records.
    fn is_half_full(&self) -> bool {
        // Relaxed: a checkpoint more or less does no harm.
        self.admission
            .half_full(self.carried_bytes.load(Ordering::Relaxed))
    }

    /// Asks for a checkpoint if half of the room is used. Each put calls this.
    pub(crate) fn checkpoint_if_half_full(&self) {
        if !self.is_half_full() {
            return;
        }
        if self.manual() {
            self.grow_log_ahead();
            if self.is_half_full() {
                self.relieve();
            }
        } else if !self.work.half_full.load(Ordering::Relaxed)
            && !self.work.half_full.swap(true, Ordering::Relaxed)
        {
            // Under the lock: upkeep saw the note before it began to wait, or waits now.
            let _queue = self.work.queue.lock();
            self.work.upkeep.notify_one();
        }
    }

    /// What a put that waits for room asks for. May be asked again and again.
    pub(crate) fn relieve(&self) {
        if !self.manual() {
            self.request_checkpoint();
            return;
        }
        // No threads: the caller does it, holding nothing. Any error but a full disk has latched, and
        // the caller finds out.
        let relieved = self.checkpoint().and_then(|()| self.settle());
        if relieved.is_ok() {
            self.tend_memory();
            self.munk_round();
            self.space_round(true);
            self.run_queued_jobs();
        }
        for _ in 0..4 {
            self.collect();
        }
        if let Err(error) = relieved
            && self.failure().is_none()
            && !self.retry_checkpoint(false)
        {
            self.refuse_waiting(&error);
        }
    }

    /// Does in this thread what waits in the queue.
    pub(crate) fn run_queued_jobs(&self) {
        loop {
            let job = {
                let mut queue = self.work.queue.lock();
                self.work.take(&mut queue)
            };
            let Some(job) = job else { break };
            self.run_job(&job);
            self.work.done();
        }
        // A failure has latched.
        let _ = self.merge_logs();
        if self.space.takes_give_back() {
            while self.give_back_room() > 0 {}
        }
    }

    /// Waits until checkpoint `number` is completed. Many wait for one: it takes along all that was
    /// put before it began.
    pub(crate) fn wait_for_checkpoint(&self, number: u64) -> Result<()> {
        if self.manual() {
            let done = self.checkpoint();
            return done.map_err(Error::not_durable_yet);
        }
        let mut asked = false;
        let mut completed = self.completed.lock();
        let refusals = self.full_disk.refusals();
        while *completed < number {
            // Under the lock that who fails or closes takes before it wakes: none is missed.
            self.check_healthy()?;
            self.check_readable()?;
            if self.full_disk.refusals() != refusals {
                return Err(self.full_disk.last_error(&self.dir).not_durable_yet());
            }
            if asked {
                self.progress.wait(&mut completed);
                continue;
            }
            drop(completed);
            // Once is enough: upkeep goes on until it completes, fails for good, or finds no room.
            let mut queue = self.work.queue.lock();
            queue.checkpoint_awaited = queue.checkpoint_awaited.max(number);
            drop(queue);
            self.work.upkeep.notify_one();
            asked = true;
            completed = self.completed.lock();
        }
        Ok(())
    }

    /// Everything put before the call survives power loss when it returns.
    pub(crate) fn persist(&self) -> Result<()> {
        self.check_writable()?;
        self.settle_inherited()?;
        match &self.commit_log {
            Some(_) => self.flush_commit_log(),
            None => self.checkpoint(),
        }
    }

    /// A checkpoint, and all the reorganisation that is owed.
    pub(crate) fn settle_debt(&self) -> Result<()> {
        self.check_writable()?;
        self.checkpoint()?;
        if !self.manual() {
            self.work.wait_idle();
        }
        self.space_round(true);
        self.settle()?;
        self.run_queued_jobs();
        self.flush_manifest()?;
        self.collect();
        while self.give_back_room() > 0 {}
        self.space_round(true);
        Ok(())
    }

    /// Closes: no more writes; waits for those under way; checkpoint; seals the manifest; unlocks.
    pub(crate) fn close(&self) -> Result<()> {
        fork::check()?;
        if !self.set_closed() {
            return Ok(());
        }
        let job = trace::job!("close");
        self.admission.cancel();
        // Announced writes finish; later ones see that it is closed.
        self.clock.wait_all_idle_once();
        self.work.stop();
        let mut result = Ok(());
        if let Some(manifest) = &self.manifest
            && self.failure().is_none()
        {
            let shrinks = self.shrinks_at_end.load(Ordering::Relaxed);
            result = match shrinks {
                true => self.checkpoint_at_lap(),
                false => self.checkpoint(),
            };
            result = result.and_then(|()| match manifest.seal() {
                // What it would have recorded only helps to tell damage from a torn end.
                Err(error) if error.kind() == evendb_storage::ErrorKind::NoSpace => Ok(()),
                sealed => sealed.map_err(|error| self.latch_error(error.into())),
            });
            if self.failure().is_none() && result.is_err() {
                // No room for a checkpoint: at least what the commit log holds is made durable.
                let _ = self.flush_commit_log();
            }
        }
        if let Some(log) = &self.commit_log {
            // Before the lock goes: nobody writes to the file after that.
            log.close();
        }
        if self.failure().is_none() && result.is_ok() && self.shrinks_at_end.load(Ordering::Relaxed)
        {
            self.give_all_back();
        }
        for _ in 0..4 {
            self.collect();
        }
        // What no edit names any more goes now, though others of the process may pin an epoch still.
        self.collect_for_room();
        self.wake_all();
        drop(self.lock.lock().take());
        drop(self.resident.lock().take());
        let result = match self.failure() {
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
}

impl Drop for Handle {
    fn drop(&mut self) {
        if fork::is_child() {
            // The parent has it open. What it is made of stays, with locks that nobody gives back.
            std::mem::forget(self.engine.clone());
            return;
        }
        // The last handle closes silently; `Db::close` tells of errors.
        let _ = self.engine.close();
    }
}
