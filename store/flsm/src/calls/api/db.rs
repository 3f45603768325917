//! [`Db`]: the handle of an open database.

use crate::api::batch::Batch;
use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::api::stats::{self, TableInfo};
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::figures::Stats;
use crate::generation::flush_all;
use crate::keyspace::{DEFAULT_KEYSPACE, KeyspaceState};
use crate::manifest::state::Edit;
use crate::options::Options;
use crate::plant::planted;
use crate::read::cursor::Cursor;
use crate::read::iter::{Iter, Keys};
use crate::value::Value;
use crate::{opening, worker, write};
use evendb_base::ballast::Need;
use evendb_base::sync::{Arc, thread};
use evendb_base::{Durability, fork};
use std::ops::RangeBounds;
use std::path::Path;

/// An open database. Cheap to clone, `Send + Sync + 'static`.
///
/// [`close`](Self::close) closes it. Otherwise it is closed silently when the last handle,
/// keyspace, snapshot and iterator of it are gone. The operations without a keyspace work on the
/// default one.
///
/// A process that is forked while a database is open has copies of its handles that cannot be used.
/// There every call that can fail is refused with [`ErrorKind::Forked`] and touches nothing, and
/// dropping the handles does nothing. A child can open databases if its parent had none open when
/// it forked, and any process can after `exec`.
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
    default: Keyspace,
}

impl Db {
    /// Opens the database in directory `path` with default [`Options`], and creates it if it does
    /// not exist.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    pub(crate) fn open_with(path: &Path, options: Options) -> Result<Db> {
        let resident = fork::enter()?;
        let engine = Arc::new(opening::open(path, options)?);
        engine.claim.begin(resident);
        let handle = Handle::new(engine, worker::close);
        worker::start(&handle.engine)?;
        let known = handle.engine.catalog.lock().get(DEFAULT_KEYSPACE).cloned();
        let state = known.ok_or_else(|| {
            let message = "the default keyspace is missing";
            Error::new(ErrorKind::Corruption, message)
        })?;
        let default = Keyspace::new(&handle, state);
        Ok(Db { handle, default })
    }

    /// The keyspace that is always there.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    /// Opens the keyspace `name`, and creates it if it does not exist. Creation is durable on
    /// return.
    ///
    /// # Errors
    /// `InvalidArgument` for a name of 0 or more than 255 bytes, and the errors of writes.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        if name.is_empty() || name.len() > 255 {
            let message = "a keyspace's name has 1 to 255 bytes";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let engine = &self.handle.engine;
        engine.health.check_readable()?;
        let mut catalog = engine.catalog.lock();
        if let Some(known) = catalog.get(name) {
            return Ok(Keyspace::new(&self.handle, known.clone()));
        }
        let enters = !planted!(engine.options, KeyspacesOutside);
        let _inside = enters.then(|| engine.health.enter()).transpose()?;
        let mut manifest = engine.manifest.lock();
        engine.check_claim()?;
        let id = manifest.state().next_keyspace;
        let created = manifest.commit(Edit {
            created: vec![(id, name.to_owned())],
            ..Edit::default()
        });
        created.map_err(|error| engine.failed(error))?;
        let state = KeyspaceState::new(id, name.to_owned(), Arc::default());
        catalog.insert(name.to_owned(), state.clone());
        Ok(Keyspace::new(&self.handle, state))
    }

    /// Whether a keyspace `name` exists; [`keyspace`](Self::keyspace) then opens it and creates
    /// nothing.
    ///
    /// ```
    /// # fn main() -> evendb_flsm::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb_flsm::Db::open(dir.path())?;
    /// assert!(!db.keyspace_exists("edges"));
    /// db.keyspace("edges")?;
    /// assert!(db.keyspace_exists("edges"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspace_exists(&self, name: &str) -> bool {
        !fork::is_child() && self.handle.engine.catalog.lock().contains_key(name)
    }

    /// Names of all keyspaces, sorted. There are none in a forked child (see [`Db`]).
    pub fn keyspace_names(&self) -> Vec<String> {
        match fork::is_child() {
            true => Vec::new(),
            false => self.handle.engine.catalog.lock().keys().cloned().collect(),
        }
    }

    /// Removes a keyspace and all that it holds. Everything put earlier, into any keyspace, is
    /// durable before the removal is: copying A to B and dropping A never loses both. The default
    /// keyspace cannot be dropped.
    ///
    /// After the return, every new read or write through a handle of the keyspace is refused with
    /// `KeyspaceDropped`. So is a read of it from a snapshot that was taken after the drop. Older
    /// snapshots, iterators and cursors keep what they see. They keep its files too, and so does a
    /// handle of the keyspace. A keyspace that is made later under the same name is another one. If
    /// this returns an error, nothing was dropped, unless the database is latched.
    ///
    /// # Errors
    /// `InvalidArgument` for the default keyspace or for one that does not exist, and the errors of
    /// writes.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        if name == DEFAULT_KEYSPACE {
            let message = "the default keyspace cannot be dropped";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let engine = &self.handle.engine;
        let enters = !planted!(engine.options, KeyspacesOutside);
        let _inside = enters.then(|| engine.health.enter()).transpose()?;
        self.persist()?;
        self.drop_durable(name)?;
        // The files are removed now and do not wait for a later job.
        self.handle.engine.full_disk.tend();
        Ok(())
    }

    fn drop_durable(&self, name: &str) -> Result<()> {
        let engine = &self.handle.engine;
        let mut writer = engine.writes.writer.lock();
        engine.health.check_latched()?;
        let mut catalog = engine.catalog.lock();
        let Some(state) = catalog.get(name).cloned() else {
            let message = format!("there is no keyspace {name:?}");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        let mut manifest = engine.manifest.lock();
        engine.check_claim()?;
        let dropped = engine.full_disk.with(Need::Jobs, || {
            manifest.commit(Edit {
                dropped: vec![state.id],
                ..Edit::default()
            })
        });
        dropped.map_err(|error| engine.failed(error))?;
        writer.mark_dropped(engine, &state);
        engine.note_tables(manifest.state());
        catalog.remove(name);
        Ok(())
    }

    /// See [`Keyspace::put`].
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// See [`Keyspace::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.default.get(key)
    }

    /// See [`Keyspace::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// See [`Keyspace::contains_key`].
    ///
    /// # Errors
    /// As there.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.contains_key(key)
    }

    /// See [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As there.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.default.multi_get(keys)
    }

    /// See [`Keyspace::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.default.range(range)
    }

    /// See [`Keyspace::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.default.prefix(prefix)
    }

    /// See [`Keyspace::iter`].
    pub fn iter(&self) -> Iter {
        self.default.iter()
    }

    /// See [`Keyspace::keys`].
    pub fn keys<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Keys {
        self.default.keys(range)
    }

    /// See [`Keyspace::cursor`].
    pub fn cursor<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Cursor {
        self.default.cursor(range)
    }

    /// A new, empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle.clone())
    }

    /// The database as it is now. The snapshot keeps that state as long as it lives.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(&self.handle)
    }

    /// Makes all earlier writes durable: it syncs the log, or flushes if there is no log (relaxed).
    ///
    /// # Errors
    /// `NoSpace`, `Latched`, `Closed`, `Io`.
    pub fn persist(&self) -> Result<()> {
        match self.handle.engine.options.durability {
            Durability::Relaxed => self.flush(),
            _ => write::sync_log(&self.handle.engine),
        }
    }

    /// Writes all earlier writes to tables, durably.
    ///
    /// # Errors
    /// As [`persist`](Self::persist).
    pub fn flush(&self) -> Result<()> {
        let engine = &self.handle.engine;
        let _inside = match planted!(engine.options, FlushesOutside) {
            true => engine.health.check_writable().map(|()| None),
            false => engine.health.enter().map(Some),
        }?;
        if planted!(engine.options, FlushesOutside) {
            thread::yield_now();
        }
        flush_all(engine)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    /// Flushes, does all compactions that are due, and waits for them. After that, all writes so
    /// far have been paid for, and write amplification can be measured.
    ///
    /// # Errors
    /// As [`persist`](Self::persist). `Corruption` if a table is damaged and its guard therefore
    /// stays as it is; everything else is done then.
    pub fn settle_debt(&self) -> Result<()> {
        let _inside = self.handle.engine.health.enter()?;
        worker::settle(&self.handle.engine)
    }

    /// All tables of the database, for people and tools. There are none in a forked child (see
    /// [`Db`]).
    pub fn tables(&self) -> Vec<TableInfo> {
        match fork::is_child() {
            true => Vec::new(),
            false => stats::tables(&self.handle.engine),
        }
    }

    /// What the database did since it was opened, and what it holds. All figures are zero in a
    /// forked child (see [`Db`]).
    pub fn stats(&self) -> Stats {
        match fork::is_child() {
            true => Stats::default(),
            false => stats::gather(&self.handle.engine),
        }
    }

    /// Closes the database: waits for the running calls of all threads, makes all writes durable,
    /// and unlocks the directory. After that, other handles get `Closed`. Nothing of this opening
    /// writes to the directory any more, so it may be opened again at once. Compactions that calls
    /// wait for end early, and those calls get `Closed`; every other call ends as it would without
    /// the close. Open snapshots and iterators are not waited for.
    ///
    /// If several threads close at once, one of them does it, the others wait, and all get its
    /// result. A later call gets it too.
    ///
    /// # Errors
    /// The first failure, or the one that latched the database before. The database is closed all
    /// the same.
    pub fn close(self) -> Result<()> {
        fork::check()?;
        self.handle.close()
    }
}

impl Options {
    /// Opens the database in directory `path`, or creates it.
    ///
    /// # Errors
    /// `Locked` if it is open elsewhere; `AlreadyExists` for a directory with other files;
    /// `NotFound` and `AlreadyExists` as [`create_if_missing`](Self::create_if_missing) and
    /// [`error_if_exists`](Self::error_if_exists) say; `Unsupported` for a database of another
    /// engine or format; `Forked` in a child whose parent had a database open when it forked;
    /// `Corruption`, `Io`, `NoSpace`, `InvalidArgument`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(path.as_ref(), self)
    }
}
