//! Batches: several writes, seen and recovered whole or not at all.

use crate::chunk::record::RecordRef;
use crate::db::Handle;
use crate::error::{Error, Result};
use crate::fork;
use crate::keyspace::{Keyspace, KeyspaceState};
use crate::options::Durability;
use crate::sync::Arc;
use crate::write::{Op, check_limits};
use evendb_storage::Kind;
use evendb_storage::codec::hash_key;

/// Writes to any keys of any keyspaces that take effect together, at [`commit`](Self::commit).
///
/// Gets, scans, snapshots and recovery see all of them or none. Of several writes to one key the
/// last counts. A batch may count a quarter of the memory budget at most: of each key that it writes the
/// key, the last value, and 64 bytes.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// let edges = db.keyspace("edges").unwrap();
/// let mut batch = db.batch();
/// batch.put(db.default_keyspace(), "node/1", "a").put(&edges, "1->2", "");
/// batch.commit().unwrap();
/// assert!(edges.contains_key("1->2").unwrap());
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    handle: Arc<Handle>,
    ops: Vec<(Arc<KeyspaceState>, RecordRef)>,
    durability: Durability,
    error: Option<Error>,
}

impl Batch {
    pub(crate) fn new(handle: Arc<Handle>) -> Batch {
        Batch {
            handle,
            ops: Vec::new(),
            durability: Durability::Relaxed,
            error: None,
        }
    }

    /// Adds a put. A key or value over the limits, or a keyspace that is not of the batch's database (or
    /// of an earlier opening of it), makes [`commit`](Self::commit) fail.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.add(keyspace, key.as_ref(), value.as_ref(), Kind::Put)
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.add(keyspace, key.as_ref(), &[], Kind::Delete)
    }

    fn add(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8], kind: Kind) -> &mut Self {
        // Before the record takes memory, which takes a lock.
        let checked = fork::check()
            .and_then(|()| self.handle.check_own(keyspace, "batch"))
            .and_then(|()| check_limits(key, value))
            .and_then(|()| self.handle.engine.check_value_size(key.len(), value.len()));
        match checked {
            Ok(()) => {
                let record = RecordRef::new(key, value, kind, hash_key(key));
                self.ops.push((keyspace.state.clone(), record));
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
        self
    }

    /// Raises the durability of this batch above the database's; it is never lowered.
    ///
    /// In a database at [`Durability::Relaxed`] a raised batch waits for a checkpoint. If that
    /// fails, for want of room say, [`commit`](Self::commit) returns the error although the batch
    /// can be seen: it is then as durable as an ordinary one.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// Writes added so far.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Writes everything, or nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`], and `BatchTooLarge`, `InvalidArgument`.
    pub fn commit(mut self) -> Result<()> {
        fork::check()?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        // A stable sort keeps the writes of one key in order; the last of each key stays.
        self.ops
            .sort_by(|a, b| (a.0.id, a.1.key()).cmp(&(b.0.id, b.1.key())));
        self.ops.reverse();
        self.ops
            .dedup_by(|a, b| a.0.id == b.0.id && a.1.key() == b.1.key());
        self.ops.reverse();
        let (keyspaces, records): (Vec<_>, Vec<_>) = self.ops.into_iter().unzip();
        let mut ops: Vec<Op<'_>> = keyspaces
            .iter()
            .zip(records)
            .map(|(keyspace, record)| Op { keyspace, record })
            .collect();
        self.handle.engine.write(&mut ops, self.durability)
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} writes)", self.ops.len())
    }
}
