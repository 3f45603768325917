//! The way of records from deltas to tables: which chunks are dirty, which checkpoint is complete,
//! and which threads wait for that.
//!
//! Thread safety: any. ARCHITECTURE.md, Locks, has the order of the locks. Not here: what a
//! checkpoint does ([`crate::checkpoint`]).

use crate::chunk::Chunk;
use crate::sync::{Arc, Condvar, Mutex, Weak};
use evendb_base::wakers::Wakers;

/// The futures that wait for a checkpoint, by its number, and the thread that wakes them.
#[derive(Default)]
pub(crate) struct CheckpointFutures {
    pub(crate) wakers: Wakers,
    /// A thread is there that looks at them before it goes.
    pub(crate) attended: bool,
    /// That thread is to go; and the last checkpoint is over.
    pub(crate) ended: bool,
    pub(crate) over: bool,
}

/// See the module.
pub(crate) struct Flow {
    /// Chunks whose active delta took its first record, with that delta's checkpoint. Here and in
    /// all queues, chunks are held by weak pointers: a chunk that was replaced would otherwise keep
    /// its tables, and on a full disk these must go.
    pub(crate) dirty: Mutex<Vec<(Weak<Chunk>, u64)>>,
    /// One checkpoint at a time.
    pub(crate) checkpoint_mutex: Mutex<()>,
    /// The number of the last completed checkpoint; threads wait for it on `progress`.
    pub(crate) completed: Mutex<u64>,
    pub(crate) progress: Condvar,
    /// The futures that wait for a checkpoint, in a database without a commit log. Its lock is
    /// taken under that of `completed`.
    pub(crate) futures: Mutex<CheckpointFutures>,
    /// Signalled when a run of a chunk has been published or given up.
    pub(crate) run_cleared: Condvar,
    pub(crate) run_mutex: Mutex<()>,
}

impl Flow {
    /// The flow after opening: checkpoint `completed` is on disk, and the deltas of the `dirty`
    /// chunks are not.
    pub(crate) fn new(completed: u64, dirty: Vec<(Weak<Chunk>, u64)>) -> Flow {
        Flow {
            dirty: Mutex::new(dirty),
            checkpoint_mutex: Mutex::new(()),
            completed: Mutex::new(completed),
            progress: Condvar::new(),
            futures: Mutex::default(),
            run_cleared: Condvar::new(),
            run_mutex: Mutex::new(()),
        }
    }

    /// The dirty chunks that have not been replaced.
    pub(crate) fn dirty_chunks(&self) -> Vec<Arc<Chunk>> {
        let dirty = self.dirty.lock();
        let there = dirty.iter().filter_map(|(chunk, _)| chunk.upgrade());
        there.collect()
    }

    /// Wakes all threads that wait for a checkpoint or a run.
    pub(crate) fn wake_all(&self) {
        drop(self.completed.lock());
        self.progress.notify_all();
        self.clear_run();
    }

    /// A run of a chunk has been published or given up.
    pub(crate) fn clear_run(&self) {
        // Under the mutex: a thread that found the run under way is waiting by now.
        drop(self.run_mutex.lock());
        self.run_cleared.notify_all();
    }
}
