//! [`LogStore`]: openraft's log storage and log reader.
//!
//! **A leader that comes back.** openraft 0.9 has a leader that was restarted go on leading, in its
//! old term, if its stored vote says that a quorum had granted it. It then takes reads for
//! linearizable once everything up to the committed index that it *stored* is applied. That index
//! is written without a sync of its own, and the state has lost its last seconds: a read would find
//! what later acknowledged writes have replaced. So a vote is read as one that is not granted yet.
//! The node leads again only when it is elected, in a new term, whose first entry comes behind all
//! acknowledged ones; reads wait for that entry. This costs an election after a restart, and saves
//! a sync for each commit. It is safe: a vote that is not granted promises the same, to vote for
//! nobody lower; only its candidate may act on the difference, and does not.

use super::{Types, any, decode, encode, place, unreadable};
use crate::log::{Mark, READ_BYTES};
use crate::store::Store;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AsyncRuntime, LogId, OptionalSend, RaftLogId, RaftLogReader, StorageError, StorageIOError, Vote,
};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

type Outcome<C, T> = Result<T, StorageError<<C as openraft::RaftTypeConfig>::NodeId>>;

/// The log of a node, for `openraft::Raft::new`. Clones read the same log.
pub struct LogStore<C> {
    store: Arc<Store>,
    types: PhantomData<fn() -> C>,
}

impl<C> Clone for LogStore<C> {
    fn clone(&self) -> LogStore<C> {
        LogStore::new(self.store.clone())
    }
}

impl<C> LogStore<C> {
    pub(super) fn new(store: Arc<Store>) -> LogStore<C> {
        LogStore {
            store,
            types: PhantomData,
        }
    }

    /// The node's storage.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl<C: Types> LogStore<C> {
    async fn read(
        &self,
        range: std::ops::Range<u64>,
        bytes: Option<usize>,
    ) -> evendb::Result<Vec<C::Entry>> {
        let stored = self.store.log.entries(range, bytes).await?;
        let decoded = stored.into_iter().map(|(index, bytes)| {
            let entry: C::Entry = decode(&bytes, "an entry")?;
            match entry.log_id.index == index {
                true => Ok(entry),
                false => Err(unreadable(
                    "an entry",
                    "its index is another one than its key",
                )),
            }
        });
        decoded.collect()
    }

    async fn state(&self) -> evendb::Result<LogState<C>> {
        let purged = self.store.log.purged();
        let purged = purged
            .map(|mark| decode(&mark.id, "the purged log id"))
            .transpose()?;
        let last = match self.store.log.last().await? {
            Some((_, bytes)) => {
                let entry: C::Entry = decode(&bytes, "an entry")?;
                Some(entry.get_log_id().clone())
            }
            None => purged.clone(),
        };
        Ok(LogState {
            last_purged_log_id: purged,
            last_log_id: last,
        })
    }

    async fn store_vote(&self, vote: &Vote<C::NodeId>) -> evendb::Result<()> {
        self.store.log.set("vote", &encode(vote)?).await
    }

    async fn stored_vote(&self) -> evendb::Result<Option<Vote<C::NodeId>>> {
        let bytes = self.store.log.mark("vote").await?;
        bytes.map(|bytes| decode(&bytes, "vote")).transpose()
    }

    async fn stored_committed(&self) -> evendb::Result<Option<LogId<C::NodeId>>> {
        match self.store.log.committed().await? {
            Some(bytes) => decode(&bytes, "committed"),
            None => Ok(None),
        }
    }

    async fn purge_to(&self, log_id: &LogId<C::NodeId>) -> evendb::Result<()> {
        let (index, id) = place(log_id)?;
        if self.store.purge(Mark { index, id }).await? {
            return Ok(());
        }
        // If the index is not applied yet, a snapshot is being installed, which ends with a
        // checkpoint of its own.
        if self.store.state.applied_index() >= Some(index) {
            let store = self.store.clone();
            drop(C::AsyncRuntime::spawn(async move {
                // What fails here is purged with a later purge; a failed disk fails appends, too.
                let _ = store.checkpoint().await;
            }));
        }
        Ok(())
    }
}

impl<C: Types> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<C, Vec<C::Entry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let read = self.read(start..end, None).await;
        read.map_err(|error| StorageIOError::read_logs(any(&error)).into())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Outcome<C, Vec<C::Entry>> {
        let read = self.read(start..end, Some(READ_BYTES)).await;
        read.map_err(|error| StorageIOError::read_logs(any(&error)).into())
    }
}

impl<C: Types> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogStore<C>;

    async fn get_log_state(&mut self) -> Outcome<C, LogState<C>> {
        self.state()
            .await
            .map_err(|error| StorageIOError::read_logs(any(&error)).into())
    }

    async fn get_log_reader(&mut self) -> LogStore<C> {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Outcome<C, ()> {
        let stored = self.store_vote(vote).await;
        stored.map_err(|error| StorageIOError::write_vote(any(&error)).into())
    }

    /// As one that no quorum has granted yet: see [the module](self).
    async fn read_vote(&mut self) -> Outcome<C, Option<Vote<C::NodeId>>> {
        let vote = self.stored_vote().await;
        let mut vote = vote.map_err(|error| StorageIOError::read_vote(any(&error)))?;
        if let Some(vote) = &mut vote {
            vote.committed = false;
        }
        Ok(vote)
    }

    /// Written by the next append: a committed index that a crash takes back is told by the leader
    /// again.
    async fn save_committed(&mut self, committed: Option<LogId<C::NodeId>>) -> Outcome<C, ()> {
        let encoded = encode(&committed);
        let encoded = encoded.map_err(|error| StorageIOError::write_logs(any(&error)))?;
        self.store.log.set_committed(encoded);
        Ok(())
    }

    async fn read_committed(&mut self) -> Outcome<C, Option<LogId<C::NodeId>>> {
        let committed = self.stored_committed().await;
        committed.map_err(|error| StorageIOError::read_logs(any(&error)).into())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Outcome<C, ()>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encoded = entries
            .into_iter()
            .map(|entry| Ok((entry.log_id.index, encode(&entry)?)));
        let encoded: evendb::Result<Vec<_>> = encoded.collect();
        let failed = |error: evendb::Error| StorageIOError::write_logs(any(&error));
        let appended = self
            .store
            .log
            .append(encoded.map_err(failed)?)
            .await
            .map_err(failed)?;
        // A task waits for the group's sync, and no thread does.
        drop(C::AsyncRuntime::spawn(async move {
            callback.log_io_completed(appended.await.map_err(io::Error::other));
        }));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Outcome<C, ()> {
        let truncated = self.store.log.truncate(log_id.index).await;
        truncated.map_err(|error| StorageIOError::write_logs(any(&error)).into())
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Outcome<C, ()> {
        let purged = self.purge_to(&log_id).await;
        purged.map_err(|error| StorageIOError::write_logs(any(&error)).into())
    }
}

impl<C> std::fmt::Debug for LogStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").finish_non_exhaustive()
    }
}
