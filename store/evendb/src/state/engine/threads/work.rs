//! The queue of background work, and the signals between its threads and the threads that wait for
//! them.
//!
//! The queue holds each chunk at most once per kind of job. It also holds requests to upkeep (a
//! checkpoint, a look), and the number of threads of each role ([`crate::engine::staff`]).
//!
//! Thread safety: any thread; the queue's mutex is a leaf. Not here: what a job does
//! ([`crate::worker`]).

use crate::chunk::Chunk;
use crate::engine::pool::{Pool, READERS_MAX};
use crate::engine::staff::Staff;
use crate::engine::staff::{ROLES, ThreadRole};
use crate::manifest::ChunkId;
use crate::memory::shared::Next;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Weak};
use crossbeam_utils::CachePadded;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The interval at which a busy thread looks around.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// The largest number of chunks that wait for the loading of spans.
const LOADS_QUEUED_MAX: usize = 16;

pub(crate) enum Job {
    Maintain(NamedChunk),
    /// Absorb only the durable deltas into the munk: puts wait for the memory of these deltas.
    Absorb(NamedChunk),
    Load(NamedChunk),
    /// Merge the runs of the logs of these chunks, which share a sync.
    Merge(Vec<NamedChunk>),
    /// Make the chunk smaller, while there is nothing else to do.
    Shrink(NamedChunk),
}

/// A chunk that may be gone when its turn comes.
pub(crate) struct NamedChunk {
    pub(crate) id: ChunkId,
    pub(crate) chunk: Weak<Chunk>,
}

impl NamedChunk {
    pub(crate) fn new(chunk: &Arc<Chunk>) -> NamedChunk {
        NamedChunk {
            id: chunk.id,
            chunk: Arc::downgrade(chunk),
        }
    }
}

/// The number of chunks whose merges share a sync: the least while other jobs wait, and the most.
/// Scans that wait do so only for the least number of chunks.
const MERGES_MIN: usize = 16;
const MERGES_MAX: usize = 128;
/// Other jobs between two turns of merges.
const OTHERS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct JobQueue {
    pub(crate) jobs: VecDeque<Job>,
    /// Short jobs that go before all others.
    pub(crate) absorbs: VecDeque<NamedChunk>,
    /// Chunks whose logs have too many runs.
    pub(crate) merges: VecDeque<NamedChunk>,
    /// Whether scans asked for some of these merges. Then all merges go before the jobs that are
    /// owed to space: those take minutes after a phase of puts, and until then each scan would read
    /// all runs.
    pub(crate) scans_wait: bool,
    /// The number of other jobs that were taken since merges had their turn. A job that changed a
    /// chunk counts like all jobs of a turn; maintenance usually finds nothing to do.
    pub(crate) others_since: usize,
    /// Chunks that wait: `queued` for maintenance, `absorbing` for absorbing, `loading` for
    /// loading, `merging` for a merge of runs. A chunk that waits for maintenance behind long jobs
    /// can have its deltas absorbed before that.
    pub(crate) queued: HashSet<ChunkId>,
    pub(crate) absorbing: HashSet<ChunkId>,
    pub(crate) loading: HashSet<ChunkId>,
    pub(crate) merging: HashSet<ChunkId>,
    /// The chunks in `queued` whose tables the system was already asked for.
    pub(crate) asked: HashSet<ChunkId>,
    pub(crate) running: usize,
    pub(crate) checkpoint_wanted: bool,
    /// The greatest number of a checkpoint that a write waits for and that has not begun.
    pub(crate) checkpoint_awaited: u64,
    /// Work for upkeep came while it rested.
    pub(crate) stirred: bool,
    /// The time at which upkeep's rest ends if no thread stirs it; `None` if never.
    pub(crate) rests_until: Option<Instant>,
    /// `present`: the number of threads of each role. `called`: the roles that were called since
    /// their thread began its turn. `waiting`: the number of workers that wait for a job.
    pub(crate) present: [usize; ROLES],
    pub(crate) called: [bool; ROLES],
    pub(crate) waiting: usize,
    /// The number of calls that wait until no job waits or runs.
    pub(crate) idle_awaited: usize,
    pub(crate) stop: bool,
    /// The database closes: calls that wait for jobs give up.
    pub(crate) closing: bool,
}

impl JobQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len() + self.absorbs.len() + self.merges.len()
    }

    /// The merges of the next chunks, if it is their turn. While no scan waits, other jobs take
    /// turns with them, and a few chunks wait for other chunks to share a sync with.
    fn take_merges(&mut self) -> Option<Job> {
        let most = match self.scans_wait {
            true => MERGES_MIN,
            false => MERGES_MAX,
        };
        let is_turn = self.others_since >= OTHERS_MAX && self.merges.len() >= MERGES_MIN;
        if self.merges.is_empty() || !(self.scans_wait || is_turn || self.jobs.is_empty()) {
            return None;
        }
        let chunks: Vec<_> = self.merges.drain(..most.min(self.merges.len())).collect();
        for chunk in &chunks {
            self.merging.remove(&chunk.id);
        }
        self.scans_wait &= !self.merges.is_empty();
        Some(Job::Merge(chunks))
    }
}

/// The work queue and the threads that empty it.
pub(crate) struct Work {
    pub(crate) queue: Mutex<JobQueue>,
    /// Signals a job, or a stop.
    pub(crate) jobs: Condvar,
    /// Signals that a checkpoint is wanted, or a stop.
    pub(crate) upkeep: Condvar,
    /// Signals that the queue ran empty.
    pub(crate) idle: Condvar,
    /// Signals a stop to threads that only wait for time to pass; also signals that upkeep rests.
    pub(crate) stopping: Condvar,
    /// A put found half of its room used, and upkeep has not looked since.
    pub(crate) half_full: AtomicBool,
    /// Upkeep waits until a thread stirs it, or until something is due. In a cache line of its own,
    /// because every call reads it.
    pub(crate) resting: CachePadded<AtomicBool>,
    /// The number of turns of work that threads of the database began.
    pub(crate) turns: AtomicU64,
    pub(crate) staff: Staff,
    /// Reads that futures wait for, and their writes that wait for room.
    pub(crate) readers: Pool,
    pub(crate) writer: Pool,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            queue: Mutex::default(),
            jobs: Condvar::default(),
            upkeep: Condvar::default(),
            idle: Condvar::default(),
            stopping: Condvar::default(),
            half_full: AtomicBool::default(),
            resting: CachePadded::default(),
            turns: AtomicU64::default(),
            staff: Staff::default(),
            readers: Pool::new(READERS_MAX),
            writer: Pool::new(1),
        }
    }
}

impl Work {
    /// Queues a look at the chunk.
    pub(crate) fn push_maintenance(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            let new = queue.queued.insert(chunk.id);
            if new {
                queue.jobs.push_back(Job::Maintain(NamedChunk::new(chunk)));
            }
            new
        });
    }

    /// Queues a chunk whose munk has deltas to absorb, before all other jobs.
    pub(crate) fn push_absorb(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            let new = queue.absorbing.insert(chunk.id);
            if new {
                queue.absorbs.push_back(NamedChunk::new(chunk));
            }
            new
        });
    }

    /// Queues the merge of the chunk's runs, because there are many of them or because a scan asks.
    pub(crate) fn push_merge(&self, chunk: &Arc<Chunk>, for_scan: bool) {
        self.push(|queue| {
            queue.scans_wait |= for_scan;
            let new = queue.merging.insert(chunk.id);
            match for_scan {
                true if new => queue.merges.push_front(NamedChunk::new(chunk)),
                false if new => queue.merges.push_back(NamedChunk::new(chunk)),
                _ => {}
            }
            new
        });
    }

    /// Queues the loading of spans of the chunk, unless many loads wait already: later misses then
    /// ask again. Returns whether the chunk is queued.
    pub(crate) fn push_load(&self, chunk: &Arc<Chunk>) -> bool {
        let mut queued = false;
        self.push(|queue| {
            queued = queue.loading.contains(&chunk.id);
            let new = !queued && queue.loading.len() < LOADS_QUEUED_MAX;
            if new {
                queue.loading.insert(chunk.id);
                queue.jobs.push_back(Job::Load(NamedChunk::new(chunk)));
                queued = true;
            }
            new
        });
        queued
    }

    /// Queues a job that makes the chunk smaller. There is one such job at a time.
    pub(crate) fn push_shrink(&self, chunk: &Arc<Chunk>) {
        self.push(|queue| {
            queue.jobs.push_back(Job::Shrink(NamedChunk::new(chunk)));
            true
        });
    }

    /// Adds a job, if `add` has one, and makes sure that a thread does it: a waiting worker, a new
    /// one, or one that is at work. If no thread can be started, upkeep does it.
    pub(crate) fn push(&self, add: impl FnOnce(&mut JobQueue) -> bool) {
        let mut queue = self.queue.lock();
        if !add(&mut queue) {
            return;
        }
        self.jobs.notify_one();
        self.rouse(&mut queue);
        let short = queue.len() > queue.waiting;
        if short && queue.present[ThreadRole::Worker as usize] < self.staff.workers_max() {
            drop(queue);
            self.call(ThreadRole::Worker);
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

    pub(crate) fn take(&self, queue: &mut JobQueue) -> Option<Job> {
        let absorb = queue.absorbs.pop_front().map(Job::Absorb);
        let short = absorb.or_else(|| queue.take_merges());
        let job = short.or_else(|| queue.jobs.pop_front())?;
        queue.others_since = match job {
            Job::Merge(_) => 0,
            _ => queue.others_since + 1,
        };
        match &job {
            Job::Maintain(chunk) => {
                queue.asked.remove(&chunk.id);
                queue.queued.remove(&chunk.id)
            }
            Job::Absorb(chunk) => queue.absorbing.remove(&chunk.id),
            Job::Load(chunk) => queue.loading.remove(&chunk.id),
            Job::Merge(_) | Job::Shrink(_) => true,
        };
        queue.running += 1;
        Some(job)
    }

    /// The first chunk in the next `most` jobs that waits for maintenance and whose tables were not
    /// asked for. From now on it counts as asked for, until its job is taken; at most `most` chunks
    /// count so. Returns `None` while no call waits for jobs: `behind` is false, and no call waits
    /// for all jobs to be done.
    pub(crate) fn next_to_ask(&self, most: usize, behind: bool) -> Option<Arc<Chunk>> {
        let mut queue = self.queue.lock();
        let is_awaited = behind || queue.idle_awaited > 0;
        let JobQueue { jobs, asked, .. } = &mut *queue;
        if !is_awaited || asked.len() >= most {
            return None;
        }
        let next = jobs.iter().take(most).find_map(|job| match job {
            Job::Maintain(named) if !asked.contains(&named.id) => Some(named),
            _ => None,
        })?;
        asked.insert(next.id);
        next.chunk.upgrade()
    }

    /// Whether jobs wait and there is no worker to do them.
    pub(crate) fn lacks_worker(&self) -> bool {
        let queue = self.queue.lock();
        !queue.is_empty() && queue.present[ThreadRole::Worker as usize] == 0
    }

    /// A job that was taken is done. `worked`: it has changed a chunk, and was no merge.
    pub(crate) fn done(&self, worked: bool) {
        let mut queue = self.queue.lock();
        if worked {
            queue.others_since = OTHERS_MAX;
        }
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
        self.staff.hasten_all();
    }

    fn wake_upkeep(&self) {
        self.upkeep.notify_one();
        self.staff.hasten(ThreadRole::Upkeep);
    }

    /// Waits for this time, or until the threads have been told to stop; returns whether they have.
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

    /// Waits until no job waits or runs, or the database closes.
    pub(crate) fn wait_idle(&self) {
        let mut queue = self.queue.lock();
        queue.idle_awaited += 1;
        self.jobs.notify_all();
        self.staff.hasten(ThreadRole::Worker);
        while !queue.closing && (queue.running > 0 || !queue.is_empty()) {
            self.idle.wait_for(&mut queue, TICK);
        }
        queue.idle_awaited -= 1;
    }

    /// Like [`Work::wait_idle`], but at most for `limit`; returns whether there was anything to
    /// wait for.
    pub(crate) fn wait_idle_for(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut queue = self.queue.lock();
        let mut waited = false;
        while !queue.closing && (queue.running > 0 || !queue.is_empty()) && Instant::now() < until {
            waited = true;
            self.idle.wait_for(&mut queue, TICK);
        }
        waited
    }

    /// Whether upkeep waits until it is woken.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// From now on a thread that leaves work for upkeep wakes it. Upkeep looks once more for work
    /// that was left before this call, and then calls [`Work::rest`].
    pub(crate) fn begin_rest(&self) {
        let queue = self.queue.lock();
        self.resting.store(true, Ordering::Relaxed);
        drop(queue);
        // Helper threads that wait for a long time may end.
        self.stopping.notify_all();
        for helper in [ThreadRole::Reaper, ThreadRole::Log, ThreadRole::Stats] {
            self.staff.hasten(helper);
        }
    }

    /// What [`Work::rest`] waits for, as the next turn of an upkeep that many databases share
    /// threads for: at once if there is work, or at this time, or when it is stirred.
    pub(crate) fn next_after_rest(&self, until: Option<Instant>) -> Next {
        let mut queue = self.queue.lock();
        queue.rests_until = until;
        match queue.stop || queue.stirred || self.is_wanted(&queue) {
            true => Next::Again(Instant::now()),
            false => until.map_or(Next::Asleep, Next::Again),
        }
    }

    /// Ends such a rest.
    pub(crate) fn end_rest(&self) {
        let mut queue = self.queue.lock();
        queue.stirred = false;
        self.resting.store(false, Ordering::Relaxed);
    }

    /// Waits until a thread stirs upkeep, a checkpoint is wanted, the time comes, or the threads
    /// are to stop.
    pub(crate) fn rest(&self, until: Option<Instant>) {
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
    pub(crate) fn is_wanted(&self, queue: &JobQueue) -> bool {
        queue.checkpoint_wanted
            || queue.checkpoint_awaited > 0
            || self.half_full.load(Ordering::Relaxed)
    }

    /// Asks upkeep for a checkpoint soon.
    pub(crate) fn want_checkpoint(&self) {
        let mut queue = self.queue.lock();
        if !queue.checkpoint_wanted {
            queue.checkpoint_wanted = true;
            self.wake_upkeep();
        }
    }

    /// Asks upkeep for a checkpoint because half of the room is used. Each put may call this.
    pub(crate) fn want_checkpoint_for_room(&self) {
        if !self.half_full.load(Ordering::Relaxed) && !self.half_full.swap(true, Ordering::Relaxed)
        {
            // Under the lock: upkeep saw the note before it began to wait, or it is waiting now.
            let _queue = self.queue.lock();
            self.wake_upkeep();
        }
    }

    /// Notes that a write waits for checkpoint `number`. Once is enough: upkeep goes on until the
    /// checkpoint completes, fails for good, or finds no room.
    pub(crate) fn await_checkpoint(&self, number: u64) {
        let mut queue = self.queue.lock();
        queue.checkpoint_awaited = queue.checkpoint_awaited.max(number);
        drop(queue);
        self.wake_upkeep();
    }

    /// Ends upkeep's rest, if it rests: there is work that it has to look at, now or later.
    ///
    /// Such work is never missed. If the lock was taken after upkeep began to rest, this call wakes
    /// it; if before, upkeep finds the work. [L11]
    pub(crate) fn stir(&self) {
        self.rouse(&mut self.queue.lock());
    }

    /// Like [`Work::stir`], for calls whose work may wait: if upkeep begins to rest at this moment,
    /// or another thread has the lock, waking it is left to the next call.
    #[inline]
    pub(crate) fn stir_gently(&self) {
        if self.is_resting() {
            self.try_stir();
        }
    }

    #[cold]
    pub(crate) fn try_stir(&self) {
        if let Some(mut queue) = self.queue.try_lock() {
            self.rouse(&mut queue);
        }
    }

    pub(crate) fn rouse(&self, queue: &mut JobQueue) {
        // It is written only under the lock.
        if self.resting.swap(false, Ordering::Relaxed) {
            queue.stirred = true;
            self.wake_upkeep();
        }
    }

    /// Called when the database closes: calls that wait for jobs end. The threads go on, because a
    /// call under way may wait for their work.
    pub(crate) fn begin_closing(&self) {
        self.queue.lock().closing = true;
        self.idle.notify_all();
    }

    /// Tells the threads to stop and waits for them.
    pub(crate) fn stop(&self) {
        self.queue.lock().stop = true;
        self.wake_all();
        self.staff.join();
    }
}
