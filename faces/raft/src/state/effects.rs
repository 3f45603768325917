//! What entries do to the state: writes that become visible, and durable, with the applied index.
//!
//! ```text
//! for each entry:   reads and writes of the machine, then `applied`
//!                   after 64 writes, or a MiB of them: commit; the batch begins again
//! at the end:       commit
//! ```
//! A batch ends between two entries only. Reads see the writes that the batch has. A commit waits
//! for room without a thread, and for no disk: the level is relaxed.
//!
//! Thread safety: the owner's alone. Not here: conditions ([`crate::machine`]).

use super::{
    APPLIED, Applied, CHANGES_FROM, Generation, MEMBERSHIP, State, damaged, place, unknown,
};
use evendb::{Batch, BatchWrite, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of writes after which a batch is committed.
const WRITES_MAX: usize = 64;
/// The bytes of writes after which a batch is committed.
const BYTES_MAX: u64 = 1 << 20;

/// One write to the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Sets a key's value.
    Put {
        /// The keyspace's name.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a key.
    Delete {
        /// The keyspace's name.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Removes all keys from `from` up to below `until`, or to the end.
    DeleteRange {
        /// The keyspace's name.
        keyspace: String,
        /// The first key.
        from: Vec<u8>,
        /// The first key that stays.
        until: Option<Vec<u8>>,
    },
}

/// The effects of entries that are being applied.
pub struct Effects<'a> {
    state: &'a State,
    generation: Arc<Generation>,
    batch: Batch,
    /// What the next commit stores with the writes.
    applied: Applied,
    is_membership_new: bool,
    /// The writes of the entry that is being applied, if changes are kept.
    entry: Vec<Write>,
}

impl<'a> Effects<'a> {
    pub(super) fn new(state: &'a State) -> Effects<'a> {
        Effects {
            state,
            generation: state.generation(),
            batch: state.db.batch(),
            applied: state.applied(),
            is_membership_new: false,
            entry: Vec::new(),
        }
    }

    /// The value of a key, with the writes so far.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there, and those of reads.
    pub async fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let keyspace = self.generation.keyspace(keyspace)?;
        match self.batch.get(keyspace, key) {
            Some(BatchWrite::Put(value)) => Ok(Some(value.to_vec())),
            Some(_) => Ok(None),
            None => Ok(keyspace.get_async(key).await?.map(|value| value.to_vec())),
        }
    }

    /// Whether the state has this keyspace.
    pub fn has_keyspace(&self, keyspace: &str) -> bool {
        self.generation.keyspaces.contains_key(keyspace)
    }

    /// Adds a write.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there.
    pub fn write(&mut self, write: Write) -> Result<()> {
        let (generation, batch) = (&self.generation, &mut self.batch);
        match &write {
            Write::Put {
                keyspace,
                key,
                value,
            } => {
                batch.put(generation.keyspace(keyspace)?, key, value);
            }
            Write::Delete { keyspace, key } => {
                batch.delete(generation.keyspace(keyspace)?, key);
            }
            Write::DeleteRange {
                keyspace,
                from,
                until,
            } => {
                let keyspace = generation.keyspace(keyspace)?;
                match until {
                    Some(until) => batch.delete_range(keyspace, &from[..]..&until[..]),
                    None => batch.delete_range(keyspace, &from[..]..),
                };
            }
        }
        if self.state.changes_kept > 0 {
            self.entry.push(write);
        }
        Ok(())
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn put(&mut self, keyspace: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let (keyspace, key, value) = (keyspace.to_owned(), key.to_vec(), value.to_vec());
        self.write(Write::Put {
            keyspace,
            key,
            value,
        })
    }

    /// Removes a key.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn delete(&mut self, keyspace: &str, key: &[u8]) -> Result<()> {
        let (keyspace, key) = (keyspace.to_owned(), key.to_vec());
        self.write(Write::Delete { keyspace, key })
    }

    /// Says that the entry with this index and log id is applied: all writes so far are its or
    /// those of entries before it. A membership is given if the entry has one.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn applied(
        &mut self,
        index: u64,
        id: Vec<u8>,
        membership: Option<Vec<u8>>,
    ) -> Result<()> {
        if !self.entry.is_empty() {
            let writes = std::mem::take(&mut self.entry);
            let bytes = postcard::to_stdvec(&writes).map_err(|_| damaged("a change"))?;
            self.batch
                .put(&self.state.changes, index.to_be_bytes(), bytes);
        }
        self.applied.last = Some((index, id));
        if let Some(membership) = membership {
            self.applied.membership = membership;
            self.is_membership_new = true;
        }
        if self.batch.len() >= WRITES_MAX || self.batch.counted_bytes() >= BYTES_MAX {
            self.commit().await?;
        }
        Ok(())
    }

    /// Makes everything visible that was applied, and the applied index with it.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn finish(mut self) -> Result<()> {
        self.commit().await
    }

    async fn commit(&mut self) -> Result<()> {
        let mut batch = std::mem::replace(&mut self.batch, self.state.db.batch());
        let Some((index, id)) = &self.applied.last else {
            return Ok(());
        };
        let index = *index;
        batch.put(&self.state.meta, APPLIED, place(index, id));
        if self.is_membership_new {
            batch.put(&self.state.meta, MEMBERSHIP, &self.applied.membership);
            self.is_membership_new = false;
        }
        let from = self.forget_changes(&mut batch, index);
        batch.commit_async().await?;
        let applied = self.applied.clone();
        self.state.advance(|progress| {
            progress.applied = applied;
            progress.changes_from = progress.changes_from.max(from);
        });
        Ok(())
    }

    /// Deletes changes that are more than is kept, when an eighth more than that is there.
    fn forget_changes(&self, batch: &mut Batch, index: u64) -> u64 {
        let (kept, from) = (self.state.changes_kept, self.state.progress().changes_from);
        // If none are kept, `from` lies above every index.
        if index.saturating_sub(from) <= kept.saturating_add(kept / 8) {
            return from;
        }
        let from = index.saturating_sub(kept);
        batch.put(&self.state.meta, CHANGES_FROM, from.to_le_bytes());
        let end = from.saturating_add(1).to_be_bytes();
        batch.delete_range(&self.state.changes, ..end);
        from
    }
}

impl Effects<'_> {
    /// The error for a keyspace that the state does not have.
    pub fn unknown_keyspace(name: &str) -> evendb::Error {
        unknown(name)
    }
}

impl std::fmt::Debug for Effects<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effects").finish_non_exhaustive()
    }
}
