//! The engine: the state that all handles of an open database share, in groups that are handed to
//! the functions that use them. The rooms above do the work; this one only holds the state.
//!
//! ```text
//! core      options, health, clock, admission, counters, ledger     what everything uses
//! disk      file seam, tables, container, manifest, full disk        what lies in files
//! log       commit log, value extents
//! flow      dirty chunks, checkpoints under way and complete
//! memory    what is in RAM: the row cache, and the policy of memory
//! catalog   keyspaces and their chunks
//! key locks the keys that transactions hold
//! work      the queue of jobs, and the threads that empty it
//! space, idle, observer     the memory of their rounds
//! claim     the lock of the directory
//! ```
//!
//! The locks and their order: ARCHITECTURE.md, section Locks. A chunk's token is tried, and not
//! waited for. Only an ingest waits for tokens, in the order of keys and before it takes any lock.

mod groups;
pub(crate) mod handle;
pub(crate) mod health;
mod threads;
pub(crate) use groups::{choices, core, disk, flow, log, space};
pub(crate) use threads::{idle, pool, staff, work};

use crate::catalog::Catalog;
use crate::error::Error;
use crate::figures::observer::Observer;
use crate::key_locks::KeyLocks;
use crate::memory_policy::MemoryPolicy;
use crate::sync::Arc;
use core::Core;
use disk::Disk;
use evendb_base::claim::Claim;
use flow::Flow;
use idle::Idle;
use log::Log;
use space::Space;
use work::Work;

/// Everything an open database is made of.
pub(crate) struct Engine {
    pub(crate) core: Core,
    pub(crate) disk: Disk,
    pub(crate) log: Log,
    pub(crate) flow: Flow,
    pub(crate) memory: MemoryPolicy,
    pub(crate) catalog: Catalog,
    /// The keys that transactions hold.
    pub(crate) key_locks: KeyLocks,
    pub(crate) work: Work,
    /// The results of the last look at all chunks.
    pub(crate) space: Space,
    pub(crate) idle: Idle,
    pub(crate) observer: Observer,
    pub(crate) claim: Claim,
}

/// The parts of the engine that the jobs that reorganise chunks use: all but the commit log and
/// what calls alone need.
#[derive(Clone, Copy)]
pub(crate) struct JobContext<'e> {
    pub(crate) core: &'e Core,
    pub(crate) disk: &'e Disk,
    pub(crate) flow: &'e Flow,
    pub(crate) memory: &'e MemoryPolicy,
    pub(crate) catalog: &'e Catalog,
    pub(crate) work: &'e Work,
    pub(crate) space: &'e Space,
    pub(crate) idle: &'e Idle,
}

impl Engine {
    /// The parts that a job uses.
    pub(crate) fn jobs(&self) -> JobContext<'_> {
        JobContext {
            core: &self.core,
            disk: &self.disk,
            flow: &self.flow,
            memory: &self.memory,
            catalog: &self.catalog,
            work: &self.work,
            space: &self.space,
            idle: &self.idle,
        }
    }

    /// Makes the engine shared between handles and threads; from now on a failure wakes all waiting
    /// threads.
    pub(crate) fn share(self) -> Arc<Engine> {
        let engine = Arc::new(self);
        if let Some(log) = &engine.log.commit_log {
            engine.core.health.set_due(log.due().clone());
        }
        let weak = Arc::downgrade(&engine);
        engine.core.health.when_failed(move |cause| {
            // While a thread waits, a handle exists.
            if let Some(engine) = weak.upgrade() {
                engine.fail(cause);
            }
        });
        engine
    }

    fn fail(&self, cause: &Error) {
        self.core.admission.cancel();
        if let Some(log) = &self.log.commit_log {
            let source = std::io::Error::other(cause.to_string());
            let what = "go on after a failure";
            log.fail(evendb_storage::Error::io(&self.disk.dir, what, source));
        }
        self.wake_all();
    }

    /// Wakes every waiting thread, which then finds that the database has failed or is closed; the
    /// wakers of feeds are due. The caller may hold locks.
    pub(crate) fn wake_all(&self) {
        self.flow.wake_all();
        self.work.wake_all();
        if let Some(log) = &self.log.commit_log {
            log.wake_all_followers();
        }
    }
}
