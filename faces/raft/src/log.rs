//! The Raft log on a database of its own, at level sync. Entries are bytes under their index.
//!
//! ```text
//! keyspace `entries`   index, u64 big-endian -> entry
//! keyspace `marks`     "vote", "committed" -> bytes;  "purged" -> index, u64 little-endian, and
//! log id
//!
//!   purged for readers          what the state holds durably           last
//!          |                                  |                          |
//! ---------+----------------------------------+--------------------------+
//!  deleted when the state holds it durably; until then only hidden
//! ```
//! **Appending.** The entries of a call are one batch. They can be read when the call returns;
//! [`Appended`] is ready when the sync of the batch's group is done, and no thread waits for it.
//!
//! **The committed index** stays in memory until the next append, whose batch takes it along: so it
//! costs no commit of its own.
//!
//! **Purging.** A state at level relaxed loses its last seconds in a crash, and the log replays
//! them. So a purge hides entries at once, and deletes them when the state has told
//! ([`Log::state_holds`]) that a checkpoint of it holds them. If the process ends between, the
//! entries are there again: it is as if the purge had not been asked for. A deletion is one range
//! deletion in one batch with the mark "purged".
//!
//! A purge may pass the end of the log, after a snapshot was taken from a leader. Entries that are
//! appended behind such a gap would be worthless if the snapshot were lost. So an append waits
//! until the state holds what the gap stands for.
//!
//! Invariants: what is stored between the mark "purged" and the last entry has no gap; a write
//! happens after all writes whose calls came before, because a commit's place is fixed at its first
//! poll, which is made under the lock. Thread safety: any thread; the owner makes one write after
//! the other, reads and purges that end in the background run beside them. Not here: what entries,
//! votes and log ids are.

use evendb::{CommitFuture, Db, Error, ErrorKind, Keyspace, Result};
use parking_lot::{Mutex, MutexGuard};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Bytes of entries after which [`Log::entries`] ends early, if it may.
pub const READ_BYTES: usize = 1 << 20;

/// The place of an entry: its index, and the log id as its owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The index.
    pub index: u64,
    /// The log id in the form of the consensus library.
    pub id: Vec<u8>,
}

/// A Raft log in a database at level sync.
pub struct Log {
    db: Db,
    entries: Keyspace,
    marks: Keyspace,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Entries up to here are hidden.
    purged: Option<Mark>,
    /// Whether entries that are hidden are not deleted yet.
    is_pending: bool,
    /// The last entry that is stored, hidden or not.
    last: Option<u64>,
    /// The last index that the state holds durably.
    held: Option<u64>,
    /// The committed index, until an append takes it along.
    committed: Option<Vec<u8>>,
    /// Why the state will never hold more.
    failure: Option<Error>,
    waiting: Vec<Waker>,
}

/// A write that has begun; ready when it survives power loss. Dropping it undoes nothing.
#[must_use = "nothing is known to be durable before it is ready"]
pub struct Appended {
    commit: CommitFuture,
    outcome: Option<Result<()>>,
}

impl Future for Appended {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Pin::new(&mut self.commit).poll(context),
        }
    }
}

/// Makes the write, if there is room for it, and fixes its place among all writes.
fn begin(mut commit: CommitFuture) -> Appended {
    let mut context = Context::from_waker(Waker::noop());
    let outcome = match Pin::new(&mut commit).poll(&mut context) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    };
    Appended { commit, outcome }
}

fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

fn index_of(key: &[u8]) -> Result<u64> {
    let bytes = key.try_into().map_err(|_| damaged("a key of an entry"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Corruption,
        format!("the Raft log has {what} of a wrong form"),
    )
}

fn decode_mark(bytes: &[u8]) -> Result<Mark> {
    let parts = bytes.split_first_chunk::<8>();
    let (index, id) = parts.ok_or_else(|| damaged("a mark"))?;
    let (index, id) = (u64::from_le_bytes(*index), id.to_vec());
    Ok(Mark { index, id })
}

impl Log {
    /// The log in this database, which must be at level sync. `held` is the last index that the
    /// state holds durably. Blocks for reads of the database.
    ///
    /// # Errors
    /// Those of opening keyspaces and of reads.
    pub fn new(db: Db, held: Option<u64>) -> Result<Log> {
        let (entries, marks) = (db.keyspace("entries")?, db.keyspace("marks")?);
        let purged = marks.get("purged")?;
        let purged = purged.map(|bytes| decode_mark(&bytes)).transpose()?;
        let last = entries.last()?;
        let last = last.map(|(key, _)| index_of(&key)).transpose()?;
        let inner = Inner {
            purged,
            is_pending: false,
            last,
            held,
            committed: None,
            failure: None,
            waiting: Vec::new(),
        };
        Ok(Log {
            db,
            entries,
            marks,
            inner: Mutex::new(inner),
        })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Stores a record beside the entries, for example the vote. Durable when the result is ready.
    ///
    /// # Errors
    /// The result gives those of commits.
    pub fn set(&self, name: &str, value: &[u8]) -> Appended {
        let _order = self.lock();
        let mut batch = self.db.batch();
        batch.put(&self.marks, name, value);
        begin(batch.commit_async())
    }

    /// A record that [`set`](Self::set) stored.
    ///
    /// # Errors
    /// Those of reads.
    pub async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let value = self.marks.get_async(name).await?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Keeps the committed index. It is written with the next append, and durable with it; a crash
    /// before leaves the one that an append took along last.
    pub fn set_committed(&self, value: Vec<u8>) {
        self.lock().committed = Some(value);
    }

    /// What [`set_committed`](Self::set_committed) was given last.
    ///
    /// # Errors
    /// Those of reads.
    pub async fn committed(&self) -> Result<Option<Vec<u8>>> {
        let kept = self.lock().committed.clone();
        match kept {
            Some(kept) => Ok(Some(kept)),
            None => self.mark("committed").await,
        }
    }

    /// Up to where entries are purged.
    pub fn purged(&self) -> Option<Mark> {
        self.lock().purged.clone()
    }

    /// The index of the last entry that is stored.
    pub(crate) fn last_stored(&self) -> Option<u64> {
        self.lock().last
    }

    /// Appends entries as one batch, in the order of their indexes. When the call returns, they can
    /// be read; they are durable when its result is ready. Waits for room, and behind a gap for
    /// the state.
    ///
    /// # Errors
    /// Those of commits, and the state's failure if the log waits for it.
    pub async fn append(&self, entries: Vec<(u64, Vec<u8>)>) -> Result<Appended> {
        let Some((last, _)) = entries.last() else {
            return Ok(Appended {
                commit: self.db.batch().commit_async(),
                outcome: None,
            });
        };
        let last = *last;
        self.close_gap().await?;
        let appended = {
            let mut inner = self.lock();
            let mut batch = self.db.batch();
            for (index, entry) in &entries {
                batch.put(&self.entries, key(*index), entry);
            }
            if let Some(committed) = inner.committed.take() {
                batch.put(&self.marks, "committed", committed);
            }
            inner.last = Some(last);
            begin(batch.commit_async())
        };
        // A commit that waits for room has not happened yet.
        let stored = self.entries.try_get(key(last))?;
        let is_stored = matches!(&stored, Ok(Some(value)) if Some(&**value) ==
        entries.last().map(|(_, entry)| &entry[..]));
        if is_stored {
            return Ok(appended);
        }
        let outcome = appended.await;
        Ok(Appended {
            commit: self.db.batch().commit_async(),
            outcome: Some(outcome),
        })
    }

    /// Deletes the entries from this index on, durably on return.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn truncate(&self, from: u64) -> Result<()> {
        let truncated = {
            let mut inner = self.lock();
            let mut batch = self.db.batch();
            batch.delete_range(&self.entries, key(from)..);
            let truncated = begin(batch.commit_async());
            inner.last = match inner.last {
                Some(last) if last >= from => from.checked_sub(1),
                other => other,
            };
            truncated
        };
        truncated.await
    }

    /// Purges entries up to this one: they are hidden when the call returns. They are deleted when
    /// the state holds them durably, which may be now. Returns whether the deletion is done or has
    /// begun; if not, [`state_holds`](Self::state_holds) and [`settle`](Self::settle) do it later.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn purge(&self, mark: Mark) -> Result<bool> {
        {
            let mut inner = self.lock();
            if inner
                .purged
                .as_ref()
                .is_some_and(|purged| purged.index >= mark.index)
            {
                return Ok(!inner.is_pending);
            }
            inner.purged = Some(mark);
            inner.is_pending = true;
        }
        self.settle().await?;
        Ok(!self.lock().is_pending)
    }

    /// Tells that the state holds everything up to this index durably.
    pub fn state_holds(&self, index: Option<u64>) {
        let mut inner = self.lock();
        inner.held = inner.held.max(index);
        for waker in std::mem::take(&mut inner.waiting) {
            waker.wake();
        }
    }

    /// Tells that the state failed: what waits for it gets this error.
    pub fn state_failed(&self, error: Error) {
        let mut inner = self.lock();
        inner.failure = Some(error);
        for waker in std::mem::take(&mut inner.waiting) {
            waker.wake();
        }
    }

    /// Deletes what was purged, if the state holds it durably.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn settle(&self) -> Result<()> {
        let (deleted, mark) = {
            let mut inner = self.lock();
            if !inner.is_pending {
                return Ok(());
            }
            let Some(mark) = inner.purged.clone() else {
                return Ok(());
            };
            if inner.held.is_none_or(|held| held < mark.index) {
                return Ok(());
            }
            let mut batch = self.db.batch();
            // The first index above, or no bound behind the last one.
            match mark.index.checked_add(1) {
                Some(end) => batch.delete_range(&self.entries, ..key(end)),
                None => batch.delete_range::<[u8; 8]>(&self.entries, ..),
            };
            let mut bytes = mark.index.to_le_bytes().to_vec();
            bytes.extend_from_slice(&mark.id);
            batch.put(&self.marks, "purged", bytes);
            inner.last = inner.last.filter(|last| *last > mark.index);
            inner.is_pending = false;
            (begin(batch.commit_async()), mark)
        };
        let outcome = deleted.await;
        if outcome.is_err() {
            let mut inner = self.lock();
            inner.is_pending = inner.purged.as_ref().is_some_and(|purged| *purged == mark);
        }
        outcome
    }

    /// Ready when no purge reaches behind the last stored entry without being done.
    async fn close_gap(&self) -> Result<()> {
        poll_fn(|context| {
            let mut inner = self.lock();
            let purged = inner.purged.as_ref().map(|purged| purged.index);
            let is_gap = inner.is_pending && purged > inner.last;
            if !is_gap || inner.held >= purged {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = &inner.failure {
                return Poll::Ready(Err(error.clone()));
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await?;
        self.settle().await
    }

    /// The last entry that is not purged.
    ///
    /// # Errors
    /// Those of reads.
    pub async fn last(&self) -> Result<Option<(u64, Vec<u8>)>> {
        let from = self.first_shown();
        let mut chunks = self.entries.range_async(key(from)..).rev().chunk_records(1);
        let Some(chunk) = chunks.next_chunk().await? else {
            return Ok(None);
        };
        let found = chunk.into_iter().next();
        found
            .map(|(key, value)| Ok((index_of(&key)?, value.to_vec())))
            .transpose()
    }

    fn first_shown(&self) -> u64 {
        let inner = self.lock();
        inner
            .purged
            .as_ref()
            .map_or(0, |purged| purged.index.saturating_add(1))
    }

    /// The entries of a range of indexes that are there, in their order. With `bytes` it ends after
    /// the first entry with which it has at least that many bytes.
    ///
    /// # Errors
    /// Those of reads.
    pub async fn entries(
        &self,
        range: Range<u64>,
        bytes: Option<usize>,
    ) -> Result<Vec<(u64, Vec<u8>)>> {
        let from = range.start.max(self.first_shown());
        let mut found = Vec::new();
        if from >= range.end {
            return Ok(found);
        }
        let mut taken = 0;
        let mut chunks = self.entries.range_async(key(from)..key(range.end));
        while let Some(chunk) = chunks.next_chunk().await? {
            for (key, value) in chunk {
                taken += value.len();
                found.push((index_of(&key)?, value.to_vec()));
                if bytes.is_some_and(|bytes| taken >= bytes) {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
