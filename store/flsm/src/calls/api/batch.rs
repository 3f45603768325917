//! [`Batch`]: writes that happen together, or not at all.

use crate::api::keyspace::Keyspace;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::KeyspaceState;
use crate::log::record::{GroupBody, put_record};
use crate::write::limits::{check_batch, check_record, counted};
use crate::write::{Request, write};
use evendb_base::sync::Arc;
use evendb_base::{Durability, fork};
use evendb_storage::Kind;

/// Writes to any keyspaces of one database that happen together. A reader sees all of them or none
/// of them, and the same is true for an opening after a crash. If a batch writes a key several
/// times, the last write counts.
///
/// ```
/// # fn main() -> evendb_flsm::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path())?;
/// let (users, index) = (db.keyspace("users")?, db.keyspace("index")?);
/// let mut batch = db.batch();
/// batch.put(&users, "7", "Ada").put(&index, "Ada", "7");
/// batch.commit()?;
/// assert_eq!(index.get("Ada")?.unwrap(), "7");
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    handle: Arc<Handle>,
    keyspaces: Vec<Arc<KeyspaceState>>,
    /// Records as the log has them.
    encoded: Vec<u8>,
    records: u32,
    has_puts: bool,
    user_bytes: u64,
    counted_bytes: u64,
    durability: Durability,
    /// The first write that cannot be done; `commit` returns it.
    error: Option<Error>,
}

impl Batch {
    pub(crate) fn new(handle: Arc<Handle>) -> Batch {
        Batch {
            durability: handle.engine.options.durability,
            handle,
            keyspaces: Vec::new(),
            encoded: Vec::new(),
            records: 0,
            has_puts: false,
            user_bytes: 0,
            counted_bytes: 0,
            error: None,
        }
    }

    /// Adds a put. If something is wrong with it, [`commit`](Self::commit) returns the error.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.add(keyspace, Kind::Put, key.as_ref(), value.as_ref());
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.add(keyspace, Kind::Delete, key.as_ref(), &[]);
        self
    }

    fn add(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) {
        if self.error.is_some() {
            return;
        }
        let options = &self.handle.engine.options;
        let checked = match Arc::ptr_eq(&self.handle, &keyspace.handle) {
            true => check_record(options, key, value)
                .and_then(|()| check_batch(options, self.counted_bytes + counted(key, value))),
            false => {
                let message = "the keyspace is of another database than the batch";
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        };
        if let Err(error) = checked {
            self.error = Some(error);
            return;
        }
        if !self.keyspaces.iter().any(|own| own.id == keyspace.state.id) {
            self.keyspaces.push(keyspace.state.clone());
        }
        put_record(&mut self.encoded, keyspace.state.id, kind, key, value);
        self.records += 1;
        self.has_puts |= kind == Kind::Put;
        self.user_bytes += (key.len() + value.len()) as u64;
        self.counted_bytes += counted(key, value);
    }

    /// Sets what the batch has to survive, if that is more than the database's level.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability.max(self.handle.engine.options.durability);
        self
    }

    /// The number of its writes.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    /// Whether it has no writes.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Does all of its writes at once. An empty batch does nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `BatchTooLarge`; `InvalidArgument` for a keyspace of another database.
    /// After an error none of the writes took effect.
    pub fn commit(self) -> Result<()> {
        fork::check()?;
        if let Some(error) = self.error {
            return Err(error);
        }
        let engine = &self.handle.engine;
        if self.records == 0 {
            return engine.health.check_writable();
        }
        write(
            engine,
            &Request {
                keyspaces: &self.keyspaces,
                user_bytes: self.user_bytes,
                has_puts: self.has_puts,
                durability: self.durability,
                append: &|group: &mut GroupBody| group.append(self.records, &self.encoded),
            },
        )
    }
}
