//! [`Db`]: the handle of an open database.

use crate::api::batch::Batch;
use crate::api::keyspace::Keyspace;
use crate::api::keyspaces::lifecycle::{create_keyspace, drop_keyspace};
use crate::api::snapshot::Snapshot;
use crate::api::transaction::{Transaction, transact};
use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceState};
use crate::compact::{self, CompactionSummary};
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::KeyspaceId;
use crate::metrics::Stats;
use crate::observe::{audit, gather};
use crate::options::{KeyspaceOptions, Options};
use crate::plant::planted;
use crate::read::cursor::{Cursor, Iter, Keys};
use crate::read::moment::Moment;
use crate::sync::{Arc, thread};
use crate::transaction::Session;
use crate::value::Value;
use crate::{encryption, fork, opening, trace, worker};
use std::ops::RangeBounds;
use std::path::Path;

/// An open database. Cheap to clone, `Send + Sync + 'static`.
///
/// It is closed by [`close`](Self::close), or silently when the last handle, keyspace, snapshot and
/// iterator of it are gone. The operations without a keyspace use the default one.
///
/// Handles belong to the process that opened the database. In a child that it forks, every call on
/// them, and on keyspaces, batches, snapshots, iterators and cursors, fails with
/// [`ErrorKind::Forked`] and touches nothing; [`stats`](Self::stats) and
/// [`keyspace_names`](Self::keyspace_names), which cannot fail, are empty. Dropping them there does
/// nothing, and the parent keeps the database open. Values that were read before keep their bytes.
/// A child can open databases if its parent had none open when it forked. After `exec`, and in a
/// [`std::process::Command`], it always can.
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
    default: Keyspace,
}

impl Db {
    /// Opens the database in directory `path` with default [`Options`], creating it if need be.
    ///
    /// # Errors
    /// The errors of [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    pub(crate) fn open_with(path: &Path, options: Options) -> Result<Db> {
        let job = trace::job!("open", directory = &*path.to_string_lossy());
        let resident = fork::enter()?;
        let engine = opening::open(path, options)?.share();
        audit::assert_charged(&engine);
        engine.claim.begin(resident);
        let handle = Arc::new(Handle::new(engine, worker::close));
        let known = handle.engine.catalog.lock().get(DEFAULT_KEYSPACE).cloned();
        let state = match known {
            Some(state) => state,
            // Its creator died between the first edit and this keyspace's edit. Nothing is in it.
            None if handle.engine.core.options.read_only => {
                let id = KeyspaceId(u32::MAX);
                let (state, _) = opening::keyspace::empty_keyspace(
                    &handle.engine.core,
                    &handle.engine.disk,
                    DEFAULT_KEYSPACE,
                    id,
                    None,
                );
                let mut catalog = handle.engine.catalog.lock();
                catalog.insert(DEFAULT_KEYSPACE.to_owned(), state.clone());
                state
            }
            None => create_keyspace(&handle.engine, DEFAULT_KEYSPACE, &KeyspaceOptions::new())?,
        };
        handle.set_default_keyspace(&state);
        worker::start(&handle.engine)?;
        let default = Keyspace {
            handle: handle.clone(),
            state,
        };
        trace::event!(
            INFO,
            "opened",
            directory = &*path.to_string_lossy(),
            read_only = handle.engine.core.options.read_only,
            duration_micros = job.micros()
        );
        Ok(Db { handle, default })
    }

    /// The keyspace that always exists.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    /// Opens the keyspace `name`, creating it if need be. Creation is durable on return.
    ///
    /// # Errors
    /// `InvalidArgument` for a name of 0 or more than 255 bytes, and for a keyspace with a merge
    /// operator that was not given ([`keyspace_with`](Self::keyspace_with)); `ReadOnly` if it would
    /// have to be created, and the errors of writes.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let options = KeyspaceOptions::new();
        self.engine().core.recording.other("keyspace", || {
            let keyspace =
                self.open_keyspace(name, |engine| create_keyspace(engine, name, &options))?;
            keyspace.check_provided()?;
            Ok(keyspace)
        })
    }

    /// The keyspace `name`; `create` creates it if it is missing.
    pub(super) fn open_keyspace(
        &self,
        name: &str,
        create: impl FnOnce(&Engine) -> Result<Arc<KeyspaceState>>,
    ) -> Result<Keyspace> {
        if name.is_empty() || name.len() > 255 {
            let message = "a keyspace's name has 1 to 255 bytes";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let core = &self.engine().core;
        let enters = !planted!(core.options, KeyspacesOutside);
        let _inside = enters.then(|| core.health.enter()).transpose()?;
        let known = self.engine().catalog.lock().get(name).cloned();
        let state = match known {
            Some(state) => state,
            None => {
                let created = create(self.engine())?;
                let recording = &self.engine().core.recording;
                recording.slot.name_keyspace(created.id.0, name);
                created
            }
        };
        Ok(Keyspace {
            handle: self.handle.clone(),
            state,
        })
    }

    /// Whether there is a keyspace `name`; [`keyspace`](Self::keyspace) then opens it and creates
    /// nothing. `false` in a forked child (see [`Db`]).
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// assert!(!db.keyspace_exists("edges"));
    /// db.keyspace("edges")?;
    /// assert!(db.keyspace_exists("edges"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keyspace_exists(&self, name: &str) -> bool {
        !fork::is_child() && self.engine().catalog.lock().contains_key(name)
    }

    /// Names of all keyspaces, sorted. None in a forked child (see [`Db`]).
    pub fn keyspace_names(&self) -> Vec<String> {
        if fork::is_child() {
            return Vec::new();
        }
        self.engine().catalog.lock().keys().cloned().collect()
    }

    /// Removes a keyspace and all it holds. Everything put earlier, into any keyspace, becomes
    /// durable before the removal does: copying A to B and dropping A never loses both. The default
    /// keyspace cannot be dropped.
    ///
    /// When this has returned, every new call through a handle of the keyspace is refused with
    /// `KeyspaceDropped`, reading or writing, and so are reads of it in snapshots taken after the
    /// drop. Older snapshots, iterators and cursors go on and keep what they see, and the
    /// keyspace's files with them. A keyspace made under the same name is another one: old handles
    /// stay refused. If this returns an error, nothing was dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for the default keyspace or one that is not there, and the errors of
    /// writes.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        if name == DEFAULT_KEYSPACE {
            let message = "the default keyspace cannot be dropped";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let drop = || drop_keyspace(self.engine(), name);
        self.engine().core.recording.other("drop_keyspace", drop)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    /// See [`Keyspace::put`].
    ///
    /// # Errors
    /// The same errors.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default.put(key, value)
    }

    /// See [`Keyspace::get`].
    ///
    /// # Errors
    /// The same errors.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.default.get(key)
    }

    /// See [`Keyspace::merge`].
    ///
    /// # Errors
    /// The same errors.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default.merge(key, operand)
    }

    /// See [`Keyspace::delete`].
    ///
    /// # Errors
    /// The same errors.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete(key)
    }

    /// See [`Keyspace::contains_key`].
    ///
    /// # Errors
    /// The same errors.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default.contains_key(key)
    }

    /// See [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// The same errors.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.default.multi_get(keys)
    }

    /// The values of keys of several keyspaces, in the order of the keys, all of one moment.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let (users, sizes) = (db.keyspace("users")?, db.keyspace("sizes")?);
    /// users.put("ada", "Ada")?;
    /// let found = db.multi_get_across(&[(&users, "ada"), (&sizes, "ada")])?;
    /// assert_eq!(found[0].as_deref(), Some(&b"Ada"[..]));
    /// assert!(found[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`]; the error of one key is the error of the whole call.
    #[doc(alias = "multi_get_cf")]
    pub fn multi_get_across<K: AsRef<[u8]>>(
        &self,
        keys: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Value>>> {
        self.now()?.get_across(keys, false)
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

    /// See [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// The same errors.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.default.delete_range(range)
    }

    /// See [`Keyspace::delete_prefix`].
    ///
    /// # Errors
    /// The same errors.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.default.delete_prefix(prefix)
    }

    /// A new, empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle.clone())
    }

    /// A new transaction, which reads the database as it is now.
    ///
    /// # Errors
    /// `Closed`.
    pub fn transaction(&self) -> Result<Transaction> {
        Ok(Transaction::new(Session::begin(&self.handle)?))
    }

    /// Runs `body` in a transaction and commits it. If another write came between, it runs `body`
    /// again in a new transaction, up to 64 times with random pauses. From the third attempt on,
    /// keys are locked when they are got, so that transactions over the same keys take turns.
    ///
    /// `body` may run several times, so it does nothing except read and write through its argument.
    /// An error that it returns ends the transaction, which then has written nothing. It is tried
    /// again if a call of that attempt had failed with `Conflict`, `LockTimeout` or `Deadlock`. A
    /// body that ends with `Ok(..)` names the error type that it returns:
    /// `Ok::<(), evendb::Error>(())`.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let accounts = db.keyspace("accounts")?;
    /// accounts.put("ada", "70")?;
    /// db.transact(|transaction| {
    ///     let balance = transaction.get(&accounts, "ada")?.unwrap();
    ///     let balance: u64 = std::str::from_utf8(&balance).unwrap().parse().unwrap();
    ///     transaction.put(&accounts, "ada", (balance - 20).to_string())?;
    ///     transaction.put(&accounts, "ben", "20")
    /// })?;
    /// assert_eq!(accounts.get("ada")?.unwrap(), "50");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of `body`; `Conflict`, `LockTimeout` or `Deadlock` after the last attempt; and as
    /// [`Transaction::commit`].
    pub fn transact<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        transact(&self.handle, body)
    }

    /// See [`Keyspace::compare_and_swap`].
    ///
    /// # Errors
    /// The same errors.
    pub fn compare_and_swap<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<std::result::Result<(), Option<Value>>> {
        self.default.compare_and_swap(key, expected, new)
    }

    /// See [`Keyspace::fetch_update`].
    ///
    /// # Errors
    /// The same errors.
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        self.default.fetch_update(key, update)
    }

    /// A snapshot of the whole database at this moment.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let recording = &self.engine().core.recording;
        recording.other("snapshot", || self.now())
    }

    fn now(&self) -> Result<Snapshot> {
        let moment = Moment::now_in_log(&self.handle)?;
        Ok(Snapshot { moment })
    }

    pub(super) fn shared_handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Everything acknowledged so far survives power loss when this returns.
    ///
    /// # Errors
    /// `Io` if a sync failed, `Latched`, `ReadOnly`, `Closed`.
    #[doc(alias = "sync")]
    #[doc(alias = "sync_wal")]
    pub fn persist(&self) -> Result<()> {
        let recording = &self.engine().core.recording;
        recording.other("persist", || {
            let _inside = self.engine().core.health.enter_writable()?;
            worker::persist(self.engine())
        })
    }

    /// Writes what is in memory to the chunks' logs, after which the commit log is recycled: a
    /// checkpoint. The next opening then has little to replay. For durability alone
    /// [`persist`](Self::persist) is enough, and costs less where there is a commit log.
    ///
    /// # Errors
    /// The errors of [`persist`](Self::persist), and `NoSpace`, after which nothing is lost.
    pub fn flush(&self) -> Result<()> {
        let core = &self.engine().core;
        core.recording.other("flush", || {
            let _inside = match planted!(core.options, FlushesOutside) {
                true => core.health.check_writable().map(|()| None),
                false => core.health.enter_writable().map(Some),
            }?;
            if planted!(core.options, FlushesOutside) {
                thread::yield_now();
            }
            worker::checkpoint_to_short_logs(self.engine())
        })
    }

    /// Encrypts the key of an encrypted database by the current key of its provider
    /// ([`Advanced::encryption`](crate::Advanced::encryption)), durably. From then on the previous
    /// key no longer opens the database. Nothing else is written; earlier copies and backups keep
    /// the key that they have.
    ///
    /// # Errors
    /// `NotEncrypted`; `NeedsKey` and `WrongKey` if the provider has no current key; `ReadOnly`,
    /// `NoSpace`, `Io`, after which one of the two keys opens it.
    pub fn rotate_key(&self) -> Result<()> {
        let engine = self.engine();
        let _inside = engine.core.health.enter_writable()?;
        // Only one rotation runs at a time.
        let _no_other = engine.flow.checkpoint_mutex.lock();
        let provider = engine.core.options.advanced.encryption.as_ref();
        let rotate = || encryption::rotate(&engine.disk.vfs, &engine.disk.dir, provider);
        engine.core.recording.other("rotate_key", rotate)
    }

    /// Flushes, does all reorganisation that is owed, and waits for it: everything written so far
    /// is then paid for. Write amplification should be measured after this.
    ///
    /// # Errors
    /// The errors of [`flush`](Self::flush).
    #[doc(alias = "wait_for_compact")]
    pub fn settle_debt(&self) -> Result<()> {
        let settle = || {
            let _inside = self.engine().core.health.enter_writable()?;
            worker::settle_debt(self.engine())
        };
        self.engine().core.recording.other("settle_debt", settle)
    }

    /// Settles the debt, and then does at once everything that an idle database does, whether or
    /// not puts have come lately: for tests. Returns the number of chunks rewritten.
    #[doc(hidden)]
    pub fn idle_pass(&self) -> Result<u64> {
        let _inside = self.engine().core.health.enter_writable()?;
        worker::idle_pass(self.engine())
    }

    /// What the database did since it was opened, and what it holds. All zero in a forked child
    /// (see [`Db`]).
    pub fn stats(&self) -> Stats {
        match fork::is_child() {
            true => Stats::default(),
            false => gather::stats(self.engine()),
        }
    }

    /// Latencies of gets by the component that answered, for the lab: the upper ends of steps in
    /// nanoseconds, and how many gets were in each step since the database was opened. Of the gets
    /// that RAM answered, one in 64 is timed. Of the gets that the disk answered, the search on
    /// disk is timed each time.
    #[doc(hidden)]
    pub fn get_latencies(&self) -> Vec<(&'static str, Vec<(u64, u64)>)> {
        match fork::is_child() {
            true => Vec::new(),
            false => self.engine().core.metrics.get_latencies(),
        }
    }

    /// Gives all of [`stats`](Self::stats) to the recorder of the `metrics` facade that this thread
    /// or process has installed: gauges and counters `evendb_*`, labelled `db` with the database's
    /// directory; docs/metrics.md lists them. An open database does so by itself every
    /// [`stats_interval`](Options::stats_interval); this call does it at another moment.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        if !fork::is_child() {
            crate::observe::publish_metrics(self.engine());
        }
    }

    /// Makes the database as small as it can be: runs a checkpoint and all reorganisation that is
    /// owed, and rewrites every chunk of every keyspace that has a log or garbage. See
    /// [`Keyspace::compact`]. Room that is reserved for future puts goes when the database is
    /// closed: nearly all of the commit log, free room of the logs, and the reserve for more data
    /// than there is.
    ///
    /// # Errors
    /// The errors of [`Keyspace::compact`].
    pub fn compact(&self) -> Result<CompactionSummary> {
        let compact = || {
            let _inside = self.engine().core.health.enter_writable()?;
            compact::compact_all(self.engine())
        };
        self.engine().core.recording.other("compact", compact)
    }

    /// Closes the database: waits for the calls of all threads that are under way, runs a
    /// checkpoint, and gives the directory free. From then on other handles get `Closed`, and
    /// nothing of this opening reads or writes a file in the directory, so it may be opened again
    /// at once. Long calls under way (compactions, copies, waiting for room) end early, with
    /// `Closed`; every other call ends as if nobody closed. Open snapshots, iterators, transactions
    /// and ingests are not waited for; their later calls are refused.
    ///
    /// If several threads close at once, one does it, the others wait for it, and all get its
    /// result. A later call gets the same result.
    ///
    /// # Errors
    /// The first failure of the checkpoint, or the one that latched the database before: it is
    /// closed all the same. `InvalidArgument` in a merge operator, a compaction filter or other
    /// code that the database calls: close would wait for ever for the call under way, so the
    /// database stays open. If the last handle is dropped there, it is closed in a thread of its
    /// own.
    pub fn close(self) -> Result<()> {
        let close = || worker::close(self.engine());
        self.engine().core.recording.other("close", close)
    }
}

impl Options {
    /// Opens the database in directory `path`, or creates it.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if it is open elsewhere, [`ErrorKind::NotFound`],
    /// [`ErrorKind::AlreadyExists`], [`ErrorKind::Corruption`], [`ErrorKind::Unsupported`],
    /// [`ErrorKind::Io`] (also if a thread cannot be started; nothing is left running then),
    /// [`ErrorKind::NoSpace`], and [`ErrorKind::InvalidArgument`] for an option outside of its
    /// limits, which the message names, and for a backup that is not opened for reading only:
    /// [`Backups::restore`](crate::Backups::restore) makes a database of it.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        Db::open_with(path.as_ref(), self)
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.engine().disk.dir.display())
    }
}
