//! The feed of changes: the effects of the last entries, in the order of the Raft log.
//!
//! A position is an index of the Raft log, so it means the same on every node. The state keeps the
//! effects of as many last entries as it was opened for. A position before them is `ChangesGone`,
//! never a silent gap; so is every position before a snapshot that was installed.
//!
//! Thread safety: the owner's alone. Not here: keeping and forgetting ([`super::effects`]).

use super::State;
use super::effects::Write;
use evendb::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The effects of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The entry's index: the position after the change.
    pub index: u64,
    /// The writes, in their order.
    pub writes: Vec<Write>,
}

/// A feed that follows the state.
#[derive(Debug)]
pub struct Changes {
    state: Arc<State>,
    position: u64,
}

impl State {
    /// The changes of entries above this index.
    pub fn changes_since(self: &Arc<State>, position: u64) -> Changes {
        Changes {
            state: self.clone(),
            position,
        }
    }
}

fn gone(position: u64, from: u64) -> Error {
    let message = format!(
        "changes after position {position} are not kept any more, but those after {from}: read the \
         state at a moment, and follow from its applied index"
    );
    Error::new(ErrorKind::ChangesGone, message)
}

impl Changes {
    /// Up to where changes were given; everything else was looked at and has none.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next change that is there, or `None`. Waits for a read of a file without a thread.
    ///
    /// # Errors
    /// `ChangesGone`; `Corruption`, and those of reads.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        // Asked first: what is applied by then is in the keyspace, or forgotten.
        let applied = self.state.applied_index();
        let after = self.position.saturating_add(1).to_be_bytes();
        let mut chunks = self.state.changes.range_async(after..).chunk_records(1);
        let chunk = chunks.next_chunk().await?;
        // Asked last: what was forgotten before the read has moved this mark, or moves it now.
        let from = self.state.progress().changes_from;
        if self.position < from {
            return Err(gone(self.position, from));
        }
        let Some((key, value)) = chunk.into_iter().flatten().next() else {
            self.position = self.position.max(applied.unwrap_or(0));
            return Ok(None);
        };
        let index = <[u8; 8]>::try_from(&*key).map_err(|_| super::damaged("a position"))?;
        let index = u64::from_be_bytes(index);
        let writes = postcard::from_bytes(&value).map_err(|_| super::damaged("a change"))?;
        self.position = index;
        Ok(Some(Change { index, writes }))
    }

    /// The next change, when it is there.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub async fn wait(&mut self) -> Result<Change> {
        loop {
            let seen = self.state.applied_index();
            if let Some(change) = self.next().await? {
                return Ok(change);
            }
            self.state
                .wait_applied(seen.map_or(0, |seen| seen + 1))
                .await;
        }
    }
}
