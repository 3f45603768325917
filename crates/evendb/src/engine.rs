//! The engine: what all handles of an open database share.
//!
//! This file holds the state and the small questions everybody asks of it (may I write, may I
//! read, has it failed). What it does is elsewhere: [`crate::write`], [`crate::read`],
//! [`crate::checkpoint`], [`crate::rebalance`], [`crate::recovery`], [`crate::worker`].
//!
//! Locks, in the order in which they may be taken: making room, checkpoint mutex, catalog mutex,
//! chunk token, chunk latch, PO slot, ring latch, root mutex; then the leaves (dirty queue, manifest
//! queue, snapshot registry, row shards, admission queue, extent space, work queue).

use crate::ballast::Ballast;
use crate::cache::row::RowCache;
use crate::cache::sample::Sampler;
use crate::cache::split::Split;
use crate::chunk::Chunk;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::{self, Resident};
use crate::full_disk::FullDisk;
use crate::funk::SearchSettings;
use crate::funk::container::Container;
use crate::funk::tables::Tables;
use crate::keyspace::KeyspaceState;
use crate::manifest::writer::Manifest;
use crate::memory::{Ledger, LedgerOwner};
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::options::Options;
use crate::rebalance::idle::Idle;
use crate::rebalance::space::Space;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, OnceLock, Weak, epoch};
use crate::trace;
use crate::version::clock::Clock;
use crate::worker::Work;
use crate::write::admission::{Admission, Refused};
use crate::write::commit_log::{self, CommitLog, Lsn};
use crate::write::value_extents::ValueExtents;
use evendb_storage::TableId;
use evendb_storage::vfs::{LockGuard, Vfs};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything an open database is made of.
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Clock,
    /// None at relaxed level and when open for reading only.
    pub(crate) commit_log: Option<CommitLog>,
    pub(crate) admission: Arc<Admission>,
    /// None when open for reading only.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) tables: Tables,
    pub(crate) container: Arc<Container>,
    /// Room kept back for a full disk.
    pub(crate) ballast: Ballast,
    pub(crate) full_disk: FullDisk,
    pub(crate) row_cache: Option<RowCache>,
    pub(crate) sampler: Sampler,
    /// How munks and rows share memory; the policy's round has it.
    pub(crate) split: Mutex<Split>,
    pub(crate) search_settings: SearchSettings,
    ledger: LedgerOwner,
    pub(crate) metrics: Metrics,
    pub(crate) observer: Observer,
    pub(crate) catalog: Mutex<BTreeMap<String, Arc<KeyspaceState>>>,
    /// Chunks whose active delta took its first record, with that delta's checkpoint. Here and in all
    /// queues chunks are named weakly: one that others have replaced keeps its tables, and on a full
    /// disk those must go.
    pub(crate) dirty: Mutex<Vec<(Weak<Chunk>, u64)>>,
    /// One checkpoint at a time.
    pub(crate) checkpoint_mutex: Mutex<()>,
    /// Number of the last completed checkpoint; waiters on `progress`.
    pub(crate) completed: Mutex<u64>,
    pub(crate) progress: Condvar,
    /// Signalled when a chunk's pending run has been published or given up.
    pub(crate) run_cleared: Condvar,
    pub(crate) run_mutex: Mutex<()>,
    /// The bodies of writes that are too long for the commit log.
    pub(crate) value_extents: Arc<ValueExtents>,
    /// Delta bytes for which the log container surely has room.
    pub(crate) disk_room: AtomicU64,
    pub(crate) epoch: u64,
    /// Where this life's part of the commit log begins, whether it writes one or not.
    pub(crate) epoch_start: Lsn,
    /// Capacity of the commit log; 0 without one.
    ring_bytes: u64,
    /// The commit log found no room to grow, since the last checkpoint or look.
    pub(crate) log_is_stuck: AtomicBool,
    /// Somebody asked for the least: at its end it gives back what it kept for puts to come.
    pub(crate) shrinks_at_end: AtomicBool,
    /// The commit log holds records of an earlier life that no checkpoint has. What of them is in
    /// the page cache may be marked clean by a sync that failed then, so that syncing again would
    /// not write it: nothing is called durable before a checkpoint has them.
    pub(crate) inherits: AtomicBool,
    next_id: AtomicU64,
    failure: OnceLock<Error>,
    closed: AtomicBool,
    /// Chunks that the last munk round saw.
    pub(crate) round_chunks: AtomicU32,
    /// Users' values keep much of what munks have given up: they get copies for now.
    pub(crate) copies_values: AtomicBool,
    /// Chunks whose logs have many runs.
    pub(crate) log_merges: Mutex<Vec<Weak<Chunk>>>,
    pub(crate) work: Work,
    /// What the last look at all chunks found.
    pub(crate) space: Space,
    pub(crate) idle: Idle,
    /// Held for the life of the engine.
    pub(crate) lock: Mutex<Option<Box<dyn LockGuard>>>,
    /// Counted as open, until it is closed.
    pub(crate) resident: Mutex<Option<Resident>>,
}

/// What [`Engine::assemble`] is given by recovery.
pub(crate) struct Assembly {
    pub(crate) options: Options,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) commit_log: Option<CommitLog>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) tables: Tables,
    pub(crate) container: Arc<Container>,
    pub(crate) ballast: Ballast,
    pub(crate) catalog: BTreeMap<String, Arc<KeyspaceState>>,
    pub(crate) dirty: Vec<(Weak<Chunk>, u64)>,
    pub(crate) completed: u64,
    pub(crate) value_extents: Arc<ValueExtents>,
    pub(crate) epoch: u64,
    pub(crate) epoch_start: Lsn,
    pub(crate) ring_bytes: u64,
    pub(crate) first_id: u64,
    pub(crate) inherits: bool,
    pub(crate) search_settings: SearchSettings,
    pub(crate) ledger: LedgerOwner,
    /// None for a reader where there can be no writer.
    pub(crate) lock: Option<Box<dyn LockGuard>>,
}

impl Engine {
    pub(crate) fn assemble(parts: Assembly) -> Engine {
        let options = parts.options;
        let row_cache = options.row_cache.then(|| {
            RowCache::with_policy((options.memory_budget / 10) as usize, options.row_policy)
        });
        Engine {
            vfs: options.vfs.clone(),
            dir: parts.dir,
            clock: parts.clock,
            commit_log: parts.commit_log,
            admission: parts.admission,
            manifest: parts.manifest,
            tables: parts.tables,
            container: parts.container,
            ballast: parts.ballast,
            full_disk: FullDisk::default(),
            row_cache,
            sampler: Sampler::new(options.memory_budget),
            split: Mutex::new(Split::new(options.row_share())),
            search_settings: parts.search_settings,
            ledger: parts.ledger,
            metrics: Metrics::default(),
            observer: Observer::default(),
            catalog: Mutex::new(parts.catalog),
            dirty: Mutex::new(parts.dirty),
            checkpoint_mutex: Mutex::new(()),
            completed: Mutex::new(parts.completed),
            progress: Condvar::new(),
            run_cleared: Condvar::new(),
            run_mutex: Mutex::new(()),
            value_extents: parts.value_extents,
            disk_room: AtomicU64::new(0),
            epoch: parts.epoch,
            ring_bytes: parts.ring_bytes,
            log_is_stuck: AtomicBool::new(false),
            shrinks_at_end: AtomicBool::new(false),
            epoch_start: parts.epoch_start,
            inherits: AtomicBool::new(parts.inherits),
            next_id: AtomicU64::new(parts.first_id),
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            round_chunks: AtomicU32::new(0),
            copies_values: AtomicBool::new(false),
            log_merges: Mutex::new(Vec::new()),
            work: Work::default(),
            space: Space::default(),
            idle: Idle::default(),
            lock: Mutex::new(parts.lock),
            resident: Mutex::new(None),
            options,
        }
    }

    /// A number never given out before, in this life or an earlier one.
    pub(crate) fn new_id(&self) -> u64 {
        // Relaxed: uniqueness is all that is asked.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new_table_id(&self) -> TableId {
        TableId(self.new_id())
    }

    /// What its memory is charged to.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.ledger()
    }

    /// Whether there are no threads: checkpoints and jobs run inside the calls that need them.
    pub(crate) fn manual(&self) -> bool {
        self.options.workers == 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Pairs with the Release of `set_closed`.
        self.closed.load(Ordering::Acquire)
    }

    /// Whether this call closed it.
    pub(crate) fn set_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// The first thing that every public call does, before it takes a lock or allocates.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        fork::check()?;
        if self.is_closed() {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Whether a write may begin. Asked again after announcing, so that closing and failing can
    /// wait for the announced ones.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_readable()?;
        if self.manifest.is_none() {
            let message = format!(
                "the database in {} is open for reading only; open it without read_only to write",
                self.dir.display()
            );
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        self.check_healthy()
    }

    /// Has a checkpoint take what an earlier life left in the commit log, if none has yet.
    pub(crate) fn settle_inherited(&self) -> Result<()> {
        // Pairs with the Release of the checkpoint that took it.
        if self.inherits.load(Ordering::Acquire) {
            let _one_at_a_time = self.checkpoint_mutex.lock();
            // Whoever waited may find it done.
            if self.inherits.load(Ordering::Acquire) {
                self.checkpoint_locked()?;
            }
        }
        Ok(())
    }

    /// Whether the directory is still this engine's: somebody may have deleted the lock's file,
    /// and others then do not see the lock. Stops all writes if it is not.
    pub(crate) fn check_ownership(&self) -> Result<()> {
        let lock = self.lock.lock();
        let Some(lock) = &*lock else { return Ok(()) };
        // Not being able to tell is not a reason to stop: what is wrong with the disk shows in the
        // writes to come, and those latch.
        let held = lock.still_held().unwrap_or(true);
        if !held {
            let message = "was deleted or replaced: others may have opened the database, so all writes stop; \
                 close it everywhere, and open it again";
            let message = format!(
                "the lock file {} {message}",
                self.dir.join("LOCK").display()
            );
            return Err(self.latch_error(Error::new(ErrorKind::Locked, message)));
        }
        Ok(())
    }

    pub(crate) fn check_healthy(&self) -> Result<()> {
        match self.failure() {
            Some(cause) => Err(Error::latched(cause)),
            None => Ok(()),
        }
    }

    /// The manifest of a database that is open for writing.
    pub(crate) fn manifest(&self) -> &Manifest {
        self.manifest
            .as_ref()
            .expect("only called where writing has been allowed")
    }

    /// Stops all writes for good: the first failed write or sync. Wakes every waiter. Returns the
    /// error it was given.
    pub(crate) fn latch_error(&self, cause: Error) -> Error {
        if cause.kind() == ErrorKind::Latched || self.failure.set(cause.clone()).is_err() {
            return cause;
        }
        trace::event!(ERROR, "latched", cause = &*cause.to_string());
        self.admission.cancel();
        if let Some(log) = &self.commit_log {
            let source = std::io::Error::other(cause.to_string());
            log.fail(evendb_storage::Error::io(
                &self.dir,
                "go on after a failure",
                source,
            ));
        }
        self.wake_all();
        cause
    }

    pub(crate) fn wake_all(&self) {
        drop(self.completed.lock());
        self.progress.notify_all();
        drop(self.run_mutex.lock());
        self.run_cleared.notify_all();
        self.work.wake_all();
    }

    /// Why admission was refused: closed, or failed, or the disk is full.
    pub(crate) fn refusal(&self, refused: Refused) -> Error {
        match (self.check_healthy(), refused) {
            (Err(error), _) => error,
            (Ok(()), Refused::Dismissed) => self.full_disk.last_error(&self.dir),
            (Ok(()), Refused::Cancelled) => Error::closed(),
        }
    }

    /// A table of the chunk could not be read: its jobs stop, others go on.
    pub(crate) fn note_damage(&self, chunk: &Chunk) {
        chunk.damaged.store(true, Ordering::Relaxed);
    }

    /// Rows above this are not worth a place in the row cache.
    pub(crate) fn row_bytes_max(&self) -> usize {
        (self.options.memory_budget / 640) as usize
    }

    /// Longest payload that goes into the ring itself.
    pub(crate) fn ring_record_bytes_max(&self) -> u64 {
        let capacity = self.ring_capacity();
        commit_log::record_bytes_max(capacity) - CommitLog::record_bytes(0) - 8
    }

    pub(crate) fn ring_capacity(&self) -> u64 {
        self.ring_bytes
    }

    /// Bytes of the commit log's file that have blocks.
    pub(crate) fn ring_room(&self) -> u64 {
        match &self.commit_log {
            Some(log) => log.room(),
            None => self.ring_bytes,
        }
    }

    /// Frees what nobody sees any more, and the files and extents that held it.
    pub(crate) fn collect(&self) {
        self.collect_memory();
        while self.may_remove() && self.tables.remove_file() {}
        self.tables.let_go();
    }

    /// [`Engine::collect`] without the files, which take long: the reaper has those.
    pub(crate) fn collect_memory(&self) {
        epoch::collect();
        if self.may_remove() {
            self.tables.free_extents();
        }
    }

    /// Whether what no edit names may go: after a failure it is not known what the disk names.
    pub(crate) fn may_remove(&self) -> bool {
        self.failure().is_none() && self.manifest.is_some()
    }

    /// Every keyspace that is there.
    pub(crate) fn keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.catalog.lock().values().cloned().collect()
    }

    /// Every chunk of every keyspace, at this moment.
    pub(crate) fn chunks(&self) -> Vec<(Arc<KeyspaceState>, Arc<Chunk>)> {
        let mut chunks = Vec::new();
        for keyspace in self.keyspaces() {
            let index = keyspace.index.load_full();
            chunks.extend(
                index
                    .iter()
                    .map(|(_, chunk)| (keyspace.clone(), chunk.clone())),
            );
        }
        chunks
    }
}
