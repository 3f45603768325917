//! The end of a write: it has happened, and its caller waits until it is durable, in a thread
//! ([`Pending::wait`]) or as a future ([`Awaiting`]).
//!
//! Dropping the wait changes nothing about the write.
//!
//! Thread safety: any thread; nothing is held. Not here: who syncs ([`crate::commit_log`]), and who
//! wakes a future (`worker/serving.rs`).

use crate::checkpoint;
use crate::commit_log::{Awaited, CommitLog, Lsn};
use crate::engine::Engine;
use crate::engine::staff::ThreadRole;
use crate::error::Result;
use crate::options::Durability;
use crate::sync::atomic::Ordering;
use crate::version::clock::checkpoint_of;
use crate::worker::{self, CheckpointWait};
use evendb_base::wakers::Ticket;
use evendb_storage::Version;
use std::task::{Poll, Waker};
use std::time::Duration;

/// What a write that has happened waits for.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// The end of its record in the commit log, its version, and the level that it needs.
    end: Lsn,
    version: Version,
    durability: Durability,
}

impl Pending {
    pub(super) fn new(end: Lsn, version: Version, durability: Durability) -> Pending {
        Pending {
            end,
            version,
            durability,
        }
    }

    /// A write of nothing.
    pub(crate) fn nothing() -> Pending {
        Pending::new(Lsn(0), Version::ZERO, Durability::Relaxed)
    }

    /// All that was written before the call, by any thread. `None` if that needs a checkpoint of
    /// records that an earlier life left.
    pub(crate) fn all_written(engine: &Engine) -> Option<Pending> {
        let inherits = engine.log.inherits.load(Ordering::Acquire);
        let end = engine.log.commit_log.as_deref().map(CommitLog::head);
        let (end, version) = (end.unwrap_or(Lsn(0)), engine.core.clock.now());
        (!inherits).then(|| Pending::new(end, version, Durability::Sync))
    }

    /// Waits in this thread.
    pub(crate) fn wait(self, engine: &Engine) -> Result<()> {
        match (&engine.log.commit_log, self.durability) {
            (Some(log), Durability::Sync) => log
                .wait_durable(self.end)
                .map_err(|error| engine.core.health.latch(error.into())),
            (None, Durability::Process | Durability::Sync) => {
                worker::wait_for_checkpoint(engine, checkpoint_of(self.version))
            }
            _ => Ok(()),
        }
    }

    /// The wait of a future.
    pub(crate) fn awaiting(self) -> Awaiting {
        Awaiting {
            pending: self,
            ticket: Ticket::default(),
            checkpoint: None,
        }
    }
}

/// A future's wait until a write is durable. [`forget`](Self::forget) ends it.
pub(crate) struct Awaiting {
    pending: Pending,
    /// Its place among those that wait for the commit log.
    ticket: Ticket,
    /// Its wait for a checkpoint, where there is no commit log.
    checkpoint: Option<CheckpointWait>,
}

impl Awaiting {
    /// Whether the write is durable. If not, the future is woken then, or at the failure.
    pub(crate) fn poll(&mut self, engine: &Engine, waker: &Waker) -> Poll<Result<()>> {
        match (&engine.log.commit_log, self.pending.durability) {
            (Some(log), Durability::Sync) => self.poll_log(engine, log, waker),
            (None, Durability::Process | Durability::Sync) => {
                let number = checkpoint_of(self.pending.version);
                let wait = || CheckpointWait::new(number);
                self.checkpoint.get_or_insert_with(wait).poll(engine, waker)
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_log(&mut self, engine: &Engine, log: &CommitLog, waker: &Waker) -> Poll<Result<()>> {
        let may_wait = engine.work.may_have_threads();
        let awaited = match may_wait {
            true => log.poll_durable(self.pending.end, &mut self.ticket, waker),
            false => Awaited::Ready(log.wait_durable(self.pending.end)),
        };
        let answer = match awaited {
            Awaited::Ready(answer) => answer,
            Awaited::Attended => return Poll::Pending,
            Awaited::Unattended => match engine.work.call(ThreadRole::Syncer) {
                true => return Poll::Pending,
                // No thread can be started. Other futures may have relied on it, so this thread
                // does its work for all of them until none waits.
                false => {
                    log.attend(Duration::ZERO);
                    match log.poll_durable(self.pending.end, &mut self.ticket, waker) {
                        Awaited::Ready(answer) => answer,
                        Awaited::Attended => return Poll::Pending,
                        // The log ends.
                        Awaited::Unattended => log.wait_durable(self.pending.end),
                    }
                }
            },
        };
        engine.core.health.call_ends();
        Poll::Ready(answer.map_err(|error| engine.core.health.latch(error.into())))
    }

    /// The future waits no longer.
    pub(crate) fn forget(&mut self, engine: &Engine) {
        match (&engine.log.commit_log, &mut self.checkpoint) {
            (_, Some(checkpoint)) => checkpoint.forget(engine),
            (Some(log), None) if self.pending.durability == Durability::Sync => {
                log.forget(&mut self.ticket);
            }
            _ => {}
        }
    }
}

/// Whether a sync has to begin with a checkpoint of what an earlier life left.
pub(super) fn inherits(engine: &Engine, durability: Durability) -> bool {
    durability == Durability::Sync && engine.log.inherits.load(Ordering::Acquire)
}

/// Takes what an earlier life left, before a write that is to be synced.
pub(super) fn take_inherited(engine: &Engine, durability: Durability) -> Result<()> {
    match inherits(engine, durability) {
        true => checkpoint::take_inherited(engine),
        false => Ok(()),
    }
}
