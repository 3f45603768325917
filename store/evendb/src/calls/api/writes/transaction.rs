//! [`Transaction`]: several reads and writes as one, refused if another write came between.

use crate::api::keyspace::Keyspace;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::expiry_at;
use crate::options::Durability;
use crate::read::cursor::{limits, prefix_end};
use crate::recording::Recording;
use crate::recording::scan::ScanRecord;
use crate::recording::transaction::TransactionRecord;
use crate::sync::Arc;
use crate::transaction::{
    RangeEnd, Retry, Savepoint, Session, TransactionIter, TransactionKeys, Written,
};
use crate::value::Value;
use evendb_storage::{Kind, Time};
use evendb_trace::{Call, Kind as Asked};
use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

/// Reads and writes over any keyspaces that take effect together, at [`commit`](Self::commit), as
/// if nothing else had happened between the first read and the last write: serializable.
///
/// It reads one moment of the database, and its own writes over that. Nobody sees the writes before
/// the commit. The commit is refused ([`ErrorKind::Conflict`](crate::ErrorKind::Conflict)) if
/// another transaction or any other write has meanwhile written a key that it read, or put a key
/// into a range that it scanned; then nothing was written. [`Db::transact`](crate::Db::transact)
/// tries again in that case. A transaction that only reads never conflicts, and costs a snapshot. A
/// transaction that is dropped has written nothing.
///
/// By default nothing is locked. Where the same keys are changed all the time,
/// [`get_for_update`](Self::get_for_update) locks a key for other transactions that ask for it in
/// the same way.
///
/// One thread at a time uses it (it is `Send`). Its writes count towards the limit of a
/// [`Batch`](crate::Batch), 64 memory budgets, and are in memory until it is committed. Its reads
/// are remembered by key or range: one range is cheaper than its keys. While it lives, versions
/// that it may read are kept, as for a [`Snapshot`](crate::Snapshot).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path())?;
/// let (users, by_mail) = (db.keyspace("users")?, db.keyspace("by mail")?);
/// // A unique index: of two that register the same address at once, one is refused.
/// let mut transaction = db.transaction()?;
/// assert!(!transaction.contains_key(&by_mail, "ada@example.org")?);
/// transaction.put(&by_mail, "ada@example.org", "7")?;
/// transaction.put(&users, "7", "Ada")?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    session: Session,
    durability: Durability,
    /// The part of a trace that it makes, if one is recorded.
    record: Option<TransactionRecord>,
}

impl Transaction {
    pub(crate) fn new(session: Session) -> Transaction {
        let record = recording_of(&session).transaction();
        Transaction {
            record,
            ..Transaction::unrecorded(session)
        }
    }

    /// A transaction that is in no trace.
    fn unrecorded(session: Session) -> Transaction {
        Transaction {
            session,
            durability: Durability::Relaxed,
            record: None,
        }
    }

    /// The value of `key`: the one that this transaction put, or the one that was there at its
    /// moment.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`](crate::Snapshot::get). Under
    /// [`Db::transact`](crate::Db::transact) also the errors of
    /// [`get_for_update`](Self::get_for_update): from the third attempt on every key is locked.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.look_up(Asked::Get, keyspace, key.as_ref())
    }

    /// One lookup, with or without a lock.
    fn look_up(&self, asked: Asked, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Value>> {
        let look_up = || {
            self.check_own(keyspace)?;
            match asked {
                Asked::GetForUpdate => self.session.lock(&keyspace.state, key),
                _ => self.session.get(&keyspace.state, key),
            }
        };
        let Some(record) = &self.record else {
            return look_up();
        };
        let began = record.begin(key);
        let found = look_up();
        if let Some(began) = began {
            let call = record.call(asked, keyspace.id(), key);
            recording_of(&self.session).got(began, call, &found);
        }
        found
    }

    /// Makes a write, and records it for a trace.
    fn recorded<'k>(
        &mut self,
        (asked, keyspace, key): (Asked, &Keyspace, &'k [u8]),
        describe: impl FnOnce(&mut Call<'k>),
        write: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<()> {
        let began = self.record.as_ref().and_then(|record| record.begin(key));
        let written = self
            .check_own(keyspace)
            .and_then(|()| write(&mut self.session));
        if let (Some(began), Some(record)) = (began, &mut self.record) {
            let mut call = record.call(asked, keyspace.id(), key);
            describe(&mut call);
            record.wrote(began, call, &written);
        }
        written
    }

    fn scan_record(
        &self,
        keyspace: &Keyspace,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<Box<ScanRecord>> {
        let record = self.record.as_ref()?;
        record.scan(recording_of(&self.session), keyspace.id(), low, high)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        let found = self.look_up(Asked::Contains, keyspace, key.as_ref())?;
        Ok(found.is_some())
    }

    /// The values of `keys`, in their order.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let each = keys.iter().map(AsRef::as_ref);
        each.map(|key| self.look_up(Asked::MultiGet, keyspace, key))
            .collect()
    }

    /// The newest value of `key`. Until this transaction ends, other transactions that use this
    /// method wait for it; this call itself waits for one that has asked before, up to
    /// [`lock_timeout`](Self::lock_timeout).
    ///
    /// The transaction then reads a later moment, if that is needed to see the value. Writes that
    /// take no locks (puts, batches, transactions without locks) are not held up, and still make
    /// the commit fail.
    ///
    /// # Errors
    /// `LockTimeout`; `Deadlock` where waiting would never end; `Conflict` if a key that was read
    /// before has changed since; and the errors of [`get`](Self::get).
    pub fn get_for_update(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.look_up(Asked::GetForUpdate, keyspace, key.as_ref())
    }

    /// Sets the time for which [`get_for_update`](Self::get_for_update) waits for a key: a second,
    /// if this is not called.
    pub fn lock_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.session.set_patience(timeout);
        self
    }

    /// The records of a key range, own writes included, from both ends. The part of the range that
    /// it passes over counts as read.
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace is not of the transaction's database; other errors of
    /// [`get`](Self::get) come as an item.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionIter<'_>> {
        self.check_own(keyspace)?;
        Ok(self.scan(keyspace, limits(&range)))
    }

    fn scan(
        &self,
        keyspace: &Keyspace,
        (low, high): (Vec<u8>, Option<Vec<u8>>),
    ) -> TransactionIter<'_> {
        let record = self.scan_record(keyspace, &low, high.as_deref());
        let records = self.session.range(&keyspace.state, low, high);
        records.recorded(record)
    }

    /// The records whose keys begin with `prefix`: like [`range`](Self::range).
    ///
    /// # Errors
    /// The errors of [`range`](Self::range).
    pub fn prefix(
        &self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> Result<TransactionIter<'_>> {
        self.check_own(keyspace)?;
        let low = prefix.as_ref().to_vec();
        let high = prefix_end(&low);
        Ok(self.scan(keyspace, (low, high)))
    }

    /// All records of a keyspace: like [`range`](Self::range).
    ///
    /// # Errors
    /// The errors of [`range`](Self::range).
    pub fn iter(&self, keyspace: &Keyspace) -> Result<TransactionIter<'_>> {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// The keys of a range, own writes included, without their values: see [`Keys`](crate::Keys).
    /// The part of the range that it passes over counts as read, as with [`range`](Self::range).
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let keyspace = db.default_keyspace();
    /// for key in ["a", "c", "e"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut transaction = db.transaction()?;
    /// transaction.put(keyspace, "d", "")?;
    /// let mut keys = transaction.keys::<&str>(keyspace, ..)?.limit(2);
    /// keys.seek("b");
    /// assert_eq!(keys.collect::<evendb::Result<Vec<_>>>()?, ["c", "d"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`range`](Self::range).
    pub fn keys<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionKeys<'_>> {
        self.check_own(keyspace)?;
        let (low, high) = limits(&range);
        let record = self.scan_record(keyspace, &low, high.as_deref());
        let keys = self.session.keys(&keyspace.state, low, high);
        Ok(keys.recorded(record))
    }

    /// Sets the value of `key` at the commit. This transaction sees it at once.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `ReadOnly`, `Latched`, `Closed`, and `InvalidArgument` if
    /// the keyspace is not of the transaction's database. The transaction goes on without this put.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.set(keyspace, key.as_ref(), Some(value.as_ref()))
    }

    /// Merges `operand` into the value of `key` at the commit, as
    /// [`Keyspace::merge`](crate::Keyspace::merge). This transaction sees it at once. It does not
    /// count as a read: two transactions that merge into one key both commit. Over a value that
    /// this transaction has put, the operand becomes a part of that value, and expires with it.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put), `InvalidArgument` if the keyspace has no merge operator,
    /// and `MergeFailed` if the operator fails over a value that this transaction itself has put.
    /// If that value has more than 4 KiB, it is not copied for each merge: then reads of the key
    /// and the commit fail with `MergeFailed`, and the commit with `ValueTooLarge` if the operands
    /// make the value too long.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.recorded(
            (Asked::Merge, keyspace, key),
            |call| describe_value(call, Some(operand)),
            |session| session.merge(&keyspace.state, key, operand),
        )
    }

    /// Sets the value of `key` at the commit, for `ttl` from this call on: see
    /// [`Keyspace::put_with_ttl`]. This transaction judges by the time at which it began.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires = self.session.expiry().expiry_after(ttl);
        self.put_until(keyspace, key.as_ref(), value.as_ref(), expires)
    }

    fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires: Time,
    ) -> Result<()> {
        let ttl_millis = self.session.expiry().millis_until(expires);
        let written = Written::Put((value.into(), Some(expires)));
        self.recorded(
            (Asked::Put, keyspace, key),
            |call| {
                describe_value(call, Some(value));
                call.ttl_millis = Some(ttl_millis);
            },
            |session| session.write_down(&keyspace.state, key, written),
        )
    }

    /// Sets the value of `key` at the commit, until a time of day. See
    /// [`put_with_ttl`](Self::put_with_ttl).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_expiring_at(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        at: SystemTime,
    ) -> Result<()> {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), expiry_at(at))
    }

    /// Removes `key`, which was put once, at the commit: see [`Keyspace::single_delete`]. A put of
    /// the same key that follows in this transaction is refused (`InvalidArgument`): only the put
    /// would be left of the two, and the next single delete would remove that put alone.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn single_delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let written = match keyspace.state.kind_of_single_delete() {
            Kind::SingleDelete => Written::DeletedOnce,
            _ => Written::Deleted,
        };
        let key = key.as_ref();
        self.recorded(
            (Asked::SingleDelete, keyspace, key),
            |_| {},
            |session| session.write_down(&keyspace.state, key, written),
        )
    }

    /// Removes `key` at the commit, if it is there then.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.set(keyspace, key.as_ref(), None)
    }

    /// Removes all keys of a range at the commit, as one record: also keys that others put there
    /// meanwhile. Later puts of this transaction into the range stay. It reads nothing, so it meets
    /// no conflict by itself.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        let (low, high) = limits(&range);
        self.delete_between(keyspace, &low, high.as_deref())
    }

    fn delete_between<'k>(
        &mut self,
        keyspace: &Keyspace,
        low: &'k [u8],
        high: Option<&'k [u8]>,
    ) -> Result<()> {
        self.recorded(
            (Asked::DeleteRange, keyspace, low),
            |call| call.end_key = high,
            |session| session.delete_range(&keyspace.state, low, high),
        )
    }

    /// Removes all keys that begin with `prefix`, as [`delete_range`](Self::delete_range).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        let low = prefix.as_ref();
        let high = prefix_end(low);
        self.delete_between(keyspace, low, high.as_deref())
    }

    /// A put, or a delete where there is no value.
    pub(crate) fn set(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let asked = match value {
            Some(_) => Asked::Put,
            None => Asked::Delete,
        };
        self.recorded(
            (asked, keyspace, key),
            |call| describe_value(call, value),
            |session| session.set(&keyspace.state, key, value),
        )
    }

    /// Takes the record at an end of a range, in a transaction that has read and written nothing
    /// yet.
    pub(crate) fn pop(
        &mut self,
        keyspace: &Keyspace,
        range: (&[u8], Option<&[u8]>),
        end: RangeEnd,
    ) -> Result<Option<(Value, Value)>> {
        self.check_own(keyspace)?;
        self.session.pop(&keyspace.state, range, end)
    }

    /// A state to go back to: see [`rollback_to`](Self::rollback_to).
    pub fn savepoint(&mut self) -> Savepoint {
        let savepoint = self.session.savepoint();
        if let Some(record) = &mut self.record {
            record.savepoint(savepoint.number());
        }
        savepoint
    }

    /// Takes back the puts and deletes since the savepoint, which stays usable. Reads still count,
    /// and locks stay.
    ///
    /// # Errors
    /// `InvalidArgument` if the transaction was rolled back to before the savepoint, or the
    /// savepoint is of another transaction.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let done = self.session.roll_back_to(savepoint);
        if let Some(record) = &mut self.record {
            record.rolled_back_to(savepoint.number(), &done);
        }
        done
    }

    /// Distinct keys written so far, and ranges deleted.
    pub fn len(&self) -> usize {
        self.session.writes()
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Raises the durability of the commit above the database's; it is never lowered. See
    /// [`Batch::durability`](crate::Batch::durability).
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// Writes everything as one if nothing that was read has changed; otherwise it writes nothing.
    /// Gets, scans, snapshots and recovery see all of it or none.
    ///
    /// # Errors
    /// `Conflict` (nothing was written), and the errors of [`Batch::commit`](crate::Batch::commit).
    pub fn commit(self) -> Result<()> {
        let Some(record) = self.record else {
            return self.session.commit(self.durability);
        };
        let (began, writes) = (record.begin_commit(), self.session.writes());
        let committed = self.session.commit(self.durability);
        record.committed(began, writes, &committed);
        committed
    }

    /// Its parts, for a commit that is a future.
    pub(crate) fn into_parts(self) -> (Session, Durability, Option<TransactionRecord>) {
        (self.session, self.durability, self.record)
    }

    /// Ends the transaction without writing anything, as dropping it does.
    pub fn rollback(self) {}

    fn check_own(&self, keyspace: &Keyspace) -> Result<()> {
        let other = &keyspace.handle.engine;
        let handle = self.session.handle();
        handle.check_own(other, keyspace.name(), "transaction")
    }
}

fn describe_value<'k>(call: &mut Call<'k>, value: Option<&'k [u8]>) {
    call.value_len = value.map(|value| value.len() as u64);
    call.value = value;
}

fn recording_of(session: &Session) -> &Recording {
    &session.handle().engine.core.recording
}

/// Runs `body` in a transaction and commits it; after a conflict it does so again in a new one.
pub(crate) fn transact<T, E: From<Error>>(
    handle: &Arc<Handle>,
    body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    transact_in(handle, Transaction::new, body)
}

/// Like [`transact`], in transactions that are in no trace.
pub(crate) fn transact_unrecorded<T, E: From<Error>>(
    handle: &Arc<Handle>,
    body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    transact_in(handle, Transaction::unrecorded, body)
}

fn transact_in<T, E: From<Error>>(
    handle: &Arc<Handle>,
    begin: fn(Session) -> Transaction,
    mut body: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let mut retry = Retry::new();
    loop {
        let mut transaction = begin(Session::begin(handle)?);
        if retry.locks_gets() {
            transaction.session.lock_gets();
        }
        let done = body(&mut transaction);
        let refused = match done {
            Ok(value) => match transaction.commit() {
                Ok(()) => return Ok(value),
                Err(error) if error.kind() == ErrorKind::Conflict => error.into(),
                Err(error) => return Err(error.into()),
            },
            Err(error) if transaction.session.has_failed() => {
                drop(transaction);
                error
            }
            Err(error) => return Err(error),
        };
        // The transaction has ended here, and its locks are free.
        if !retry.wait() {
            return Err(refused);
        }
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({} writes)", self.len())
    }
}
