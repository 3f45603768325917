//! Background work: the queue of jobs, and who empties it.
//!
//! * [`staff`]: the threads of an open database. One is always there; others come when there is
//!   something for them to do, and go.
//! * [`upkeep`]: what that one does, and when it may wait until it is woken.
//!
//! The queue holds each chunk at most once per kind of job. A panic in a worker latches the
//! database; nothing is called complete that was not. With no workers nothing here runs, and the
//! calls that need a checkpoint or a reorganisation do it themselves.

#[cfg(all(test, evendb_loom))]
mod models;
mod staff;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
mod upkeep;

use crate::chunk::Chunk;
use crate::db::Handle;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::manifest::ChunkId;
use crate::observe;
use crate::rebalance::log_merge::CHUNKS_MERGED_MAX;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Weak};
use crate::trace;
use crossbeam_utils::CachePadded;
use staff::{ROLES, Role, Staff};
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub(crate) use staff::start;

/// How often those look around that have something to do.
const TICK: Duration = Duration::from_millis(50);

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
    /// Something happened while upkeep rested.
    stirred: bool,
    /// When its rest ends if nobody stirs; none if never.
    rests_until: Option<Instant>,
    /// Threads of each role; those that were called since they began their turn; and workers that wait
    /// for a job.
    present: [usize; ROLES],
    called: [bool; ROLES],
    waiting: usize,
    stop: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.jobs.len() + self.absorbs.len()
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
    /// Stop, for who only waits for time to pass; and that upkeep rests.
    stopping: Condvar,
    /// A put found half of its room used, and upkeep has not looked since.
    half_full: AtomicBool,
    /// Upkeep waits until somebody stirs it, or until something is due. A line of its own: every
    /// call reads it.
    resting: CachePadded<AtomicBool>,
    /// Times that a thread of the database began a turn of its work.
    turns: AtomicU64,
    staff: Staff,
}

impl Work {
    /// Has somebody look at the chunk.
    pub(crate) fn push_maintenance(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            let new = queue.queued.insert(chunk.id);
            if new {
                queue.jobs.push_back(Job::Maintain(Named::new(chunk)));
            }
            new
        });
    }

    /// The same for a chunk whose munk has deltas to absorb: that is done before anything else.
    pub(crate) fn push_absorb(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            let new = queue.queued.insert(chunk.id);
            if new {
                queue.absorbs.push_back(Named::new(chunk));
            }
            new
        });
    }

    /// Has the chunk's munk loaded.
    pub(crate) fn push_load(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            let new = queue.loading.insert(chunk.id);
            if new {
                queue.jobs.push_back(Job::Load(Named::new(chunk)));
            }
            new
        });
    }

    /// Has the chunk made smaller. There is one such job at a time.
    pub(crate) fn push_shrink(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            queue.jobs.push_back(Job::Shrink(Named::new(chunk)));
            true
        });
    }

    /// Adds a job, if `add` has one, and sees to it that somebody does it: a worker that waits, a new
    /// one, or one that is at work; and, where no thread can be started, upkeep.
    fn push(&self, add: impl FnOnce(&mut Queue) -> bool) {
        let mut queue = self.queue.lock();
        if !add(&mut queue) {
            return;
        }
        self.jobs.notify_one();
        self.rouse(&mut queue);
        let short = queue.len() > queue.waiting;
        if short && queue.present[Role::Worker as usize] < self.staff.workers_max() {
            drop(queue);
            self.call(Role::Worker);
        }
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

    /// Whether jobs wait and there is nobody who does them.
    fn lacks_worker(&self) -> bool {
        let queue = self.queue.lock();
        !queue.is_empty() && queue.present[Role::Worker as usize] == 0
    }

    fn done(&self) {
        let mut queue = self.queue.lock();
        queue.running -= 1;
        if queue.running == 0 && queue.is_empty() {
            self.idle.notify_all();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.rouse(&mut self.queue.lock());
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

    /// Whether upkeep waits until it is woken.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// From now on upkeep is to be woken by whoever leaves something for it. It looks once more for
    /// what was left before this, and then calls [`Work::rest`].
    fn begin_rest(&self) {
        let queue = self.queue.lock();
        self.resting.store(true, Ordering::Relaxed);
        drop(queue);
        // Helpers that wait for a long time may go.
        self.stopping.notify_all();
    }

    /// Waits until somebody stirs, a checkpoint is wanted, the time comes, or the threads are to stop.
    fn rest(&self, until: Option<Instant>) {
        let mut queue = self.queue.lock();
        queue.rests_until = until;
        while !queue.stop && !queue.stirred && !self.is_wanted(&queue) {
            let Some(until) = until else {
                self.upkeep.wait(&mut queue);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.upkeep.wait_for(&mut queue, left).timed_out() {
                break;
            }
        }
        queue.stirred = false;
        self.resting.store(false, Ordering::Relaxed);
    }

    /// Whether a checkpoint is asked for.
    fn is_wanted(&self, queue: &Queue) -> bool {
        queue.checkpoint_wanted
            || queue.checkpoint_awaited > 0
            || self.half_full.load(Ordering::Relaxed)
    }

    /// Ends upkeep's rest, if it rests: something was left that it has to look at, now or later.
    ///
    /// It is not missed, whatever it is: the lock was taken either after upkeep began to rest, and
    /// this wakes it; or before, and then upkeep finds what was left. [L11]
    pub(crate) fn stir(&self) {
        self.rouse(&mut self.queue.lock());
    }

    /// The same for calls that wait for nobody and leave nothing that must not wait: where upkeep
    /// begins to rest at this moment, or the lock is taken, it is left to the next call.
    #[inline]
    pub(crate) fn stir_gently(&self) {
        if self.is_resting() {
            self.try_stir();
        }
    }

    #[cold]
    fn try_stir(&self) {
        if let Some(mut queue) = self.queue.try_lock() {
            self.rouse(&mut queue);
        }
    }

    fn rouse(&self, queue: &mut Queue) {
        // Only ever written under the lock.
        if self.resting.swap(false, Ordering::Relaxed) {
            queue.stirred = true;
            self.upkeep.notify_one();
        }
    }

    /// Tells the threads to stop and waits for them.
    pub(crate) fn stop(&self) {
        self.queue.lock().stop = true;
        self.wake_all();
        self.staff.join();
    }
}

impl Engine {
    /// Does one job, and what came of jobs before it. A panic latches the database.
    fn do_job(&self, job: &Job) {
        // Counted as done even if it unwinds: nobody may wait for it for ever.
        let result = catch_unwind(AssertUnwindSafe(|| self.run_job(job)));
        let merged = catch_unwind(AssertUnwindSafe(|| {
            // Many at once share a sync; the few that are left when there is nothing else to do too.
            let noted = self.log_merges.lock().len();
            if noted >= CHUNKS_MERGED_MAX || (noted > 0 && !self.work.has_jobs()) {
                // A failure has latched; else they are noted again by the next checkpoint.
                let _ = self.merge_logs();
            }
        }));
        self.work.done();
        if result.is_err() || merged.is_err() {
            self.latch_error(Error::new(
                ErrorKind::Io,
                "a reorganising thread panicked; its message is on standard error",
            ));
        }
        self.collect_memory();
    }

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

    /// Asks for a checkpoint if half of the room is used. Each put calls this.
    pub(crate) fn checkpoint_if_half_full(&self) {
        if !self.admission.half_full() {
            return;
        }
        if self.manual() {
            self.grow_log_ahead();
            if self.admission.half_full() {
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
        observe::end(self);
        let mut result = Ok(());
        if let Some(manifest) = &self.manifest
            && self.failure().is_none()
        {
            let shrinks = self.shrinks_at_end.load(Ordering::Relaxed);
            result = match shrinks {
                true => self.checkpoint_at_lap(),
                false => self.checkpoint(),
            };
            result = result.and_then(|()| match manifest.seal(true) {
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
