//! The state that a Raft log leads to, on a database of its own at level relaxed, without a commit
//! log: after a crash the Raft log replays what the last checkpoint lacks.
//!
//! ```text
//! keyspace `raft`          "applied"    -> index, log id      in the batch of the effects
//!                          "membership" -> bytes              in the same batch
//!                          "generation" -> u64                the keyspaces that count
//!                          "changes"    -> u64                changes above this index are kept
//! keyspace `changes`       index -> the effects of the entry
//! keyspace `7/users`       the user's keyspace `users` in generation 7
//! ```
//! **Generations.** A snapshot that is installed comes into keyspaces of the next generation, by
//! ingests that stream. Then one batch moves the generation, the applied index, the membership and
//! the start of the changes, at one moment for all keyspaces; a checkpoint makes it durable; and
//! the old keyspaces are dropped. Exchanging names two by two (`Db::swap_keyspaces`) would show a
//! part of the keyspaces before the others. Opening drops keyspaces of other generations: they are
//! left by a crash before or after that batch.
//!
//! Reads go on meanwhile: a [`Moment`] keeps what it sees, and reads through [`State::get`] look
//! the keyspace up again when it was dropped.
//!
//! Invariants: effects, applied index and membership change together ([`effects::Effects`]); at
//! most one apply or install runs at a time, which their owner sees to; keyspaces have no time to
//! live, because nodes have different clocks. Thread safety: any thread. Not here: what entries
//! mean, and files of snapshots ([`crate::snapshot`]).

pub mod changes;
pub mod effects;
mod install;

use effects::Effects;
use evendb::{Db, Error, ErrorKind, Iter, Keyspace, KeyspaceOptions, Result, Snapshot, Value};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::task::{Poll, Waker};

const APPLIED: &str = "applied";
const MEMBERSHIP: &str = "membership";
const GENERATION: &str = "generation";
const CHANGES_FROM: &str = "changes";
/// The start of changes where none are kept.
const NO_CHANGES: u64 = u64::MAX;

/// Up to where entries are applied, as their owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The index and the log id of the last entry; `None` before the first one.
    pub last: Option<(u64, Vec<u8>)>,
    /// The last membership; empty before the first one.
    pub membership: Vec<u8>,
}

/// A keyspace of the state, with its options.
#[derive(Debug, Clone)]
pub struct Declared {
    /// The name.
    pub name: String,
    /// The options that it is made with.
    pub options: KeyspaceOptions,
}

/// The keyspaces that count from one install to the next.
#[derive(Debug)]
pub(crate) struct Generation {
    number: u64,
    keyspaces: BTreeMap<String, Keyspace>,
}

/// The state, in a database at level relaxed.
pub struct State {
    db: Db,
    meta: Keyspace,
    changes: Keyspace,
    declared: Vec<Declared>,
    /// The number of last entries whose effects are kept as changes; 0 keeps none.
    changes_kept: u64,
    current: RwLock<Arc<Generation>>,
    progress: Mutex<Progress>,
}

struct Progress {
    applied: Applied,
    /// Changes of entries above this index are kept.
    changes_from: u64,
    waiting: Vec<Waker>,
}

/// The state at one moment. Later effects and installs do not touch it.
#[derive(Debug)]
pub struct Moment {
    snapshot: Snapshot,
    generation: Arc<Generation>,
    applied: Applied,
}

fn damaged(what: &str) -> Error {
    let message = format!("the state has {what} of a wrong form");
    Error::new(ErrorKind::Corruption, message)
}

fn unknown(name: &str) -> Error {
    let message =
        format!("the state has no keyspace {name:?}: declare it where the node is opened");
    Error::new(ErrorKind::NotFound, message)
}

fn number(bytes: &[u8], what: &str) -> Result<u64> {
    let bytes = bytes.try_into().map_err(|_| damaged(what))?;
    Ok(u64::from_le_bytes(bytes))
}

fn place(index: u64, id: &[u8]) -> Vec<u8> {
    let mut bytes = index.to_le_bytes().to_vec();
    bytes.extend_from_slice(id);
    bytes
}

fn read_applied(get: impl Fn(&str) -> Result<Option<Value>>) -> Result<Applied> {
    let last = match get(APPLIED)? {
        Some(bytes) => {
            let parts = bytes.split_first_chunk::<8>();
            let (index, id) = parts.ok_or_else(|| damaged("an index"))?;
            Some((u64::from_le_bytes(*index), id.to_vec()))
        }
        None => None,
    };
    let membership = get(MEMBERSHIP)?.map_or_else(Vec::new, |bytes| bytes.to_vec());
    Ok(Applied { last, membership })
}

/// Above which index changes are kept. A life that keeps none says so before it applies anything:
/// changes of later lives then begin where they begin.
fn start_of_changes(meta: &Keyspace, kept: u64, applied: u64) -> Result<u64> {
    let stored = meta.get(CHANGES_FROM)?;
    let stored = stored.map_or(Ok(0), |bytes| number(&bytes, "a start of changes"))?;
    let from = match (kept, stored) {
        (0, _) => NO_CHANGES,
        (_, NO_CHANGES) => applied,
        (_, stored) => stored,
    };
    if from != stored {
        meta.put(CHANGES_FROM, from.to_le_bytes())?;
    }
    Ok(from)
}

impl Generation {
    fn keyspace(&self, name: &str) -> Result<&Keyspace> {
        self.keyspaces.get(name).ok_or_else(|| unknown(name))
    }
}

fn stored_name(generation: u64, name: &str) -> String {
    format!("{generation}/{name}")
}

impl State {
    /// The state in this database, which must be at level relaxed. Drops what an interrupted
    /// install left. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a keyspace with a time to live, and the errors of opening keyspaces
    /// and of reads.
    pub fn new(db: Db, declared: Vec<Declared>, changes_kept: u64) -> Result<State> {
        for keyspace in &declared {
            if keyspace
                .options
                .chosen()
                .any(|(name, _)| name.contains("ttl"))
            {
                let message = format!(
                    "the keyspace {:?} has a time to live: nodes have different clocks, so replicas \
                     would differ; delete by entries of the log",
                    keyspace.name
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        let (meta, changes) = (db.keyspace("raft")?, db.keyspace("changes")?);
        let generation = meta.get(GENERATION)?;
        let generation = generation.map_or(Ok(0), |bytes| number(&bytes, "a generation"))?;
        install::drop_others(&db, generation)?;
        let keyspaces = install::open_generation(&db, generation, &declared)?;
        let applied = read_applied(|name| meta.get(name))?;
        let index = applied.last.as_ref().map_or(0, |(index, _)| *index);
        let changes_from = start_of_changes(&meta, changes_kept, index)?;
        let progress = Progress {
            applied,
            changes_from,
            waiting: Vec::new(),
        };
        Ok(State {
            db,
            meta,
            changes,
            declared,
            changes_kept,
            current: RwLock::new(Arc::new(keyspaces)),
            progress: Mutex::new(progress),
        })
    }

    /// The database. Writes of its own would make replicas differ.
    pub fn db(&self) -> &Db {
        &self.db
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    fn generation(&self) -> Arc<Generation> {
        self.current.read().clone()
    }

    /// Up to where entries are applied.
    pub fn applied(&self) -> Applied {
        self.progress().applied.clone()
    }

    /// The index of the last entry that is applied.
    pub fn applied_index(&self) -> Option<u64> {
        self.progress()
            .applied
            .last
            .as_ref()
            .map(|(index, _)| *index)
    }

    /// Ready when the entry with this index is applied.
    pub async fn wait_applied(&self, index: u64) {
        poll_fn(|context| {
            let mut progress = self.progress();
            if progress
                .applied
                .last
                .as_ref()
                .is_some_and(|(applied, _)| *applied >= index)
            {
                return Poll::Ready(());
            }
            // Registered under the lock under which progress is made, so no wake-up is lost.
            progress.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        let woken = {
            let mut progress = self.progress();
            change(&mut progress);
            std::mem::take(&mut progress.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Begins to apply entries.
    pub fn effects(&self) -> Effects<'_> {
        Effects::new(self)
    }

    /// Makes a checkpoint, and returns the last index that it holds. Waits without a thread.
    ///
    /// # Errors
    /// Those of `Db::persist`.
    pub async fn persist(&self) -> Result<Option<u64>> {
        let applied = self.applied_index();
        self.db.persist_async().await?;
        Ok(applied)
    }

    /// The value of a key now. Waits for a read of a file without a thread.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there, and those of reads.
    pub async fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Value>> {
        loop {
            let generation = self.generation();
            match generation.keyspace(keyspace)?.get_async(key).await {
                // An install has replaced it meanwhile.
                Err(error) if error.kind() == ErrorKind::KeyspaceDropped => {
                    if self.generation().number == generation.number {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// The state at this moment.
    ///
    /// # Errors
    /// `Closed`, and those of reads.
    pub fn moment(&self) -> Result<Moment> {
        // An install moves the generation under the write lock.
        let current = self.current.read();
        let (snapshot, generation) = (self.db.snapshot()?, current.clone());
        drop(current);
        let applied = read_applied(|name| snapshot.get(&self.meta, name))?;
        Ok(Moment {
            snapshot,
            generation,
            applied,
        })
    }
}

impl Moment {
    /// Up to where entries are applied in it.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// The names of the keyspaces.
    pub fn keyspaces(&self) -> impl Iterator<Item = &str> {
        self.generation.keyspaces.keys().map(String::as_str)
    }

    /// The value of a key. May block for a read of a file.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there, and those of reads.
    pub fn get(&self, keyspace: &str, key: &[u8]) -> Result<Option<Value>> {
        self.snapshot.get(self.generation.keyspace(keyspace)?, key)
    }

    /// The records of a range of keys, in their order. May block for reads of files.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        keyspace: &str,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        Ok(self
            .snapshot
            .range(self.generation.keyspace(keyspace)?, range))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}
