//! A full disk: who is refused, who may go on, and how room is made.
//!
//! ```text
//!   put     needs new room  -> ballast whole again, or refused
//!   delete  needs new room  -> the deletes' part of the ballast -> makes room itself -> refused
//!   waiting for a checkpoint that found no room: room is made; if that fails too, refused
//!
//!   making room:  checkpoint -> chunks with garbage, those that write least first, one by one:
//!                 rewrite, edit durable, wait until the old tables are really gone -> checkpoint
//! ```
//! Each step of making room leaves more than it took, so the ballast it began with is there for the
//! next one; it ends when what was asked for fits, or when nothing gets smaller any more.
//!
//! What a job dropped is deleted when the last view that names it is gone, and views go when no pin of
//! that moment is left, of any database in the process. Pins are short (I17), so that takes
//! microseconds to milliseconds, but it is not done when the job is: whoever needs the room waits for
//! it, a bounded time ([`Engine::collect_for_room`]), since open iterators keep tables for as long as
//! they like.
//!
//! Nobody waits for ever: a checkpoint that found no room, after all of this, refuses those that wait
//! for it ([`Engine::refuse_waiting`]) with an error of kind `NoSpace` that names the file.
//!
//! Thread safety: any. One thread at a time makes room; its mutex is taken holding nothing, before
//! the checkpoint mutex. The error's mutex is a leaf.

use crate::ballast::Need;
use crate::chunk::Chunk;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::rebalance::jobs::{output_bytes, will_shrink};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Weak, thread};
use std::path::Path;
use std::time::Duration;

/// How often room is made anew as long as that gets further.
const PASSES_MAX: usize = 8;
/// Deletes after which a put makes room in any case, if it finds none.
const DELETES_MIN_MAX: u64 = 1023;
/// How long jobs of others are waited for that may give room back.
const JOBS_WAIT: Duration = Duration::from_secs(1);
/// How often is looked whether dropped tables are gone: at first at once, then after a rest each.
const LOOKS_MAX: usize = 64;
const LOOKS_WITHOUT_REST: usize = 24;
const REST: Duration = Duration::from_millis(1);

/// What is known of a disk that is full.
#[derive(Default)]
pub(crate) struct FullDisk {
    making_room: Mutex<()>,
    /// Deletes that had been written when a put last made room, and how many more it takes until the
    /// next one does: more each time in vain, since it looks at all chunks.
    deletes_before: AtomicU64,
    deletes_min: AtomicU64,
    /// How often those that wait were refused; only moves under the mutex of `completed`.
    refusals: AtomicU64,
    error: Mutex<Option<Error>>,
}

impl FullDisk {
    /// Changes when those that wait are refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Whether so much was deleted since the last attempt that a put should make room.
    fn is_promising(&self, deletes: u64) -> bool {
        let more = deletes.saturating_sub(self.deletes_before.load(Ordering::Relaxed));
        more > self.deletes_min.load(Ordering::Relaxed)
    }

    fn note_attempt(&self, deletes: u64, made: bool) {
        let least = match made {
            true => 0,
            false => 2 * self.deletes_min.load(Ordering::Relaxed) + 1,
        };
        self.deletes_before.store(deletes, Ordering::Relaxed);
        self.deletes_min
            .store(least.min(DELETES_MIN_MAX), Ordering::Relaxed);
    }

    /// What the last checkpoint said that found no room.
    pub(crate) fn last_error(&self, dir: &Path) -> Error {
        self.error.lock().clone().unwrap_or_else(|| {
            let message = format!("no storage space for a checkpoint in {}", dir.display());
            Error::new(ErrorKind::NoSpace, message)
        })
    }
}

fn is_full<T>(result: &Result<T>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::NoSpace)
}

impl Engine {
    /// Makes sure that the deltas' runs will find room on the disk, before anything is logged.
    /// A full disk refuses puts; `deletes` may use what is kept back for them.
    pub(crate) fn reserve_disk(&self, delta_bytes: u64, deletes: bool) -> Result<()> {
        let need = self.admission.delta_to_write() + delta_bytes;
        // Relaxed: the room only shrinks at a checkpoint, which copes with finding too little.
        if need <= self.disk_room.load(Ordering::Relaxed) {
            return Ok(());
        }
        if deletes {
            return match self.ensure_room_for_deletes(need) {
                Err(error) if error.kind() == ErrorKind::NoSpace => self.make_room_for(delta_bytes),
                reserved => reserved,
            };
        }
        let reserved = self.ensure_room_for_puts(need);
        // What was deleted since the last attempt may not have been given back.
        let deletes = self.metrics.deletes.get();
        if is_full(&reserved) && self.full_disk.is_promising(deletes) {
            let enough =
                || self.ensure_room_for_puts(self.admission.delta_to_write() + delta_bytes);
            let made = self.make_room(&enough);
            self.full_disk.note_attempt(deletes, made.is_ok());
            return made;
        }
        reserved
    }

    fn ensure_room_for_puts(&self, need: u64) -> Result<()> {
        if self.ballast.is_owed()
            && !self.manifest().is_short()
            && self.container.free_bytes() >= need + self.ballast.deletes_bytes()
        {
            return Ok(());
        }
        self.check_ballast()?;
        // First what is kept back for so much more data, then the data's own room.
        if self.cover_data(need + self.room_step()).is_err() {
            self.cover_data(need)?;
        }
        self.ensure_disk_room(need)
    }

    fn ensure_room_for_deletes(&self, need: u64) -> Result<()> {
        self.with_ballast(Need::Deletes, || {
            if self.container.free_bytes() < need {
                self.ballast.keep_for_jobs()?;
            }
            self.ensure_disk_room(need)
        })
    }

    fn ensure_disk_room(&self, need: u64) -> Result<()> {
        let step = match self.ballast.is_owed() {
            true => 0,
            false => self.room_step(),
        };
        let wanted = need + step;
        match self
            .container
            .ensure_room(wanted)
            .or_else(|_| self.container.ensure_room(need))
        {
            Ok(()) => {
                self.note_disk_room();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The room that puts have without asking: on a full disk not what deletes will need.
    pub(crate) fn note_disk_room(&self) {
        let free = self.container.free_bytes().min(self.covered_room());
        let owed_room = || match self.manifest().is_short() {
            true => 0,
            false => free.saturating_sub(self.ballast.deletes_bytes()),
        };
        let room = match self.ballast.is_owed() {
            true => owed_room(),
            false => free,
        };
        self.disk_room.store(room, Ordering::Relaxed);
        // Somebody may have given the ballast up meanwhile, and set it to nothing before.
        if self.ballast.is_owed() {
            self.disk_room.fetch_min(owed_room(), Ordering::Relaxed);
        }
    }

    /// Has enough kept back for `delta_bytes` that are on their way to tables, beside the tables there
    /// are. The error is a full disk.
    pub(crate) fn cover_data(&self, delta_bytes: u64) -> Result<()> {
        if self.ballast.covers_any() {
            return Ok(());
        }
        Ok(self.ballast.cover(self.table_bytes() + delta_bytes)?)
    }

    /// Bytes of deltas for which enough is kept back.
    fn covered_room(&self) -> u64 {
        match self.ballast.covers_any() {
            true => u64::MAX,
            // Where there is much data it covers any.
            false => self.ballast.covered().saturating_sub(self.table_bytes()),
        }
    }

    /// Bytes in tables, as far as it matters for what is kept back: of much data only that it is much.
    /// Tables that chunks share count for each.
    pub(crate) fn table_bytes(&self) -> u64 {
        let much = self.ballast.data_bytes_max();
        let mut sum = 0;
        for keyspace in self.keyspaces() {
            for (_, chunk) in keyspace.index.load_full().iter() {
                let view = chunk.view.load_full();
                sum += view
                    .funk
                    .tables()
                    .map(|table| table.part_len())
                    .sum::<u64>();
                if sum > much {
                    return sum;
                }
            }
        }
        sum
    }

    /// A delete on a full disk that has used up what was kept for deletes: does what frees space,
    /// until there is room.
    pub(crate) fn make_room_for(&self, delta_bytes: u64) -> Result<()> {
        let need = || self.admission.delta_to_write() + delta_bytes;
        let made = self.make_room(&|| self.ensure_room_for_deletes(need()));
        match is_full(&made) {
            // There is nothing left to do for jobs: whatever there is, and what is kept for them. What
            // this deletes gives them something to do.
            true => {
                self.checkpoint_for_room()?;
                self.with_ballast(Need::Jobs, || self.ensure_disk_room(need()))
            }
            false => made,
        }
    }

    /// Does what frees space, until `enough` says so, or until nothing does any more.
    pub(crate) fn make_room(&self, enough: &dyn Fn() -> Result<()>) -> Result<()> {
        let _one_at_a_time = self.full_disk.making_room.lock();
        for _ in 0..PASSES_MAX {
            self.check_readable()?;
            self.shrink_manifest()?;
            // Deltas ask for more room than their runs take. Without room for those either, jobs first.
            let written = self.checkpoint_for_room();
            if written.is_err() && !is_full(&written) {
                return written;
            }
            if written.is_ok() && enough().is_ok() {
                return Ok(());
            }
            let worked = self.give_back_garbage(&|| written.is_ok() && enough().is_ok())?;
            // Another thread's jobs may have given room back just now.
            let waited = !self.manual() && self.work.wait_idle_for(JOBS_WAIT);
            self.collect_for_room();
            if !worked && !waited {
                break;
            }
        }
        self.checkpoint_for_room()?;
        enough()
    }

    /// A checkpoint, and if there is no room for it or for its edit, once more with what is lent.
    fn checkpoint_for_room(&self) -> Result<()> {
        let written = self.checkpoint();
        match is_full(&written) && self.lend_room() {
            true => self.checkpoint(),
            false => written,
        }
    }

    /// What the container has free beyond what the deltas will need is of no use to deletes while
    /// edits and tables find no room: those make more of it. Whether there was any.
    fn lend_room(&self) -> bool {
        let lent = self.container.lend(self.admission.delta_to_write()) > 0;
        self.note_disk_room();
        lent
    }

    /// Rewrites what gives room back, until `enough`. Whether anything was done.
    fn give_back_garbage(&self, enough: &dyn Fn() -> bool) -> Result<bool> {
        let mut worked = false;
        for also_unneeded in [false, true] {
            let named = |chunk: &Arc<Chunk>| {
                let bytes = output_bytes(&chunk.view.load_full());
                (bytes, Arc::downgrade(chunk))
            };
            // Weakly: what is replaced meanwhile must go.
            let mut chunks: Vec<(u64, Weak<Chunk>)> = {
                let chunks = self.chunks();
                chunks.iter().map(|(_, chunk)| named(chunk)).collect()
            };
            // Those that take least first: what they free is room for the others.
            chunks.sort_by_key(|(bytes, _)| *bytes);
            for chunk in chunks.iter().filter_map(|(_, chunk)| chunk.upgrade()) {
                self.check_readable()?;
                let done = match also_unneeded {
                    false => self.maintain_on_full_disk(chunk),
                    true => self.rewrite_for_room(chunk),
                };
                match done {
                    Ok(done) => {
                        worked |= done;
                        if done && enough() {
                            return Ok(true);
                        }
                    }
                    // Another chunk may need less, or be there still.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NoSpace | ErrorKind::Corruption | ErrorKind::KeyspaceDropped
                        ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(worked)
    }

    /// [`maintain`](Self::maintain), and if there is no room for it, once more with what can be had:
    /// files that queued edits drop, and, where the chunk will shrink, what is kept back. Other jobs
    /// do not get that, or they would use it up while the disk fills.
    pub(crate) fn maintain_on_full_disk(&self, chunk: Arc<Chunk>) -> Result<bool> {
        let mut done = self.maintain(&chunk);
        if is_full(&done) {
            self.give_room_back()?;
            // The view is not kept over the job: it names what the job drops.
            let shrinks = will_shrink(&chunk.view.load_full());
            done = match shrinks {
                true => self.with_ballast(Need::Jobs, || self.maintain(&chunk)),
                false => self.maintain(&chunk),
            };
            if shrinks && is_full(&done) && self.lend_room() {
                done = self.maintain(&chunk);
            }
        }
        // If it was replaced, its tables can go only now.
        drop(chunk);
        if self.ballast.is_owed() && done.as_ref().is_ok_and(|&worked| worked) {
            self.give_room_back()?;
            self.tend_ballast();
        }
        done
    }

    /// Rewrites a chunk that needs it not, if that gives room back: on a full disk nothing may lie
    /// idle. Whether it did.
    fn rewrite_for_room(&self, chunk: Arc<Chunk>) -> Result<bool> {
        let (Some(keyspace), Some(token)) = (self.keyspace_of(&chunk), chunk.try_token()) else {
            return Ok(false);
        };
        let view = chunk.view.load_full();
        let all: u64 = view.funk.tables().map(|table| table.part_len()).sum();
        let useful = output_bytes(&view) * 4 / 3 < all;
        drop(view);
        let damaged = chunk.damaged.load(Ordering::Relaxed);
        if !useful || damaged || chunk.latch.lock().retired {
            return Ok(false);
        }
        self.absorb(&chunk);
        let rewritten = self.with_ballast(Need::Jobs, || {
            let parts = self.rewrite(&keyspace, std::slice::from_ref(&chunk))?;
            self.finish_layout(&parts)
        });
        drop(token);
        drop(chunk);
        self.give_room_back()?;
        self.tend_ballast();
        rewritten.map(|()| true)
    }

    /// Makes queued edits durable, deletes what they drop, and gives the file system what the
    /// container has too much of.
    fn give_room_back(&self) -> Result<()> {
        self.shrink_manifest()?;
        self.flush_manifest()?;
        self.collect_for_room();
        if self.ballast.is_owed() {
            let keep = self.admission.delta_to_write() + self.ballast.deletes_bytes();
            self.container.give_back(keep, 1024, &|_| true);
        }
        Ok(())
    }

    /// Old edits of the manifest are garbage like other.
    fn shrink_manifest(&self) -> Result<()> {
        let shrink = || Ok(self.manifest().shrink()?);
        match self.with_ballast(Need::Jobs, shrink) {
            Err(error) if error.kind() != ErrorKind::NoSpace => Err(self.latch_error(error)),
            _ => Ok(()),
        }
    }

    /// Collects until every table that no edit names is gone, or for a bounded time.
    pub(crate) fn collect_for_room(&self) {
        for look in 0..LOOKS_MAX {
            self.collect();
            if self.tables.pending_bytes() == 0 || self.failure().is_some() {
                break;
            }
            match look < LOOKS_WITHOUT_REST {
                true => thread::yield_now(),
                false => thread::sleep(REST),
            }
        }
    }

    /// A checkpoint found no room. If somebody waits for one, room is made; whether it is complete now.
    pub(crate) fn retry_checkpoint(&self, awaited: bool) -> bool {
        (awaited || self.admission.is_waited_for()) && self.make_room(&|| Ok(())).is_ok()
    }

    /// Nothing more can be done for those that wait for a checkpoint, or for room that it would
    /// make: they are told why.
    pub(crate) fn refuse_waiting(&self, error: &Error) {
        *self.full_disk.error.lock() = Some(error.clone());
        self.admission.dismiss();
        let _completed = self.completed.lock();
        self.full_disk.refusals.fetch_add(1, Ordering::Relaxed);
        self.progress.notify_all();
    }
}
