//! Transactions: reads of one moment, writes that nobody else sees, and a commit that happens only
//! if the reads have not changed.
//!
//! ```text
//! begin     a registered moment                                       read/moment.rs
//! get       own writes, else the moment; the key is noted             writes.rs
//! range     own writes over the moment; what was seen is noted        iter.rs
//! put       noted                                                     writes.rs
//! pop       locks a range, then deletes its first or last record      pop/mod.rs
//! lock      waits for the key, then brings the moment up to it        state/key_locks
//! commit    own writes as one write, if no read has changed           write/reads.rs
//! ```
//! **Why that is serializable.** While a transaction commits it has the latches of all chunks that
//! it read or wrote. If nothing that it read has changed since its moment, all its reads would give
//! the same at its commit: it is as if all of it happened there. So transactions, and single puts,
//! act one after the other, in the order of their records in the commit log; a crash leaves a
//! prefix of that order. A transaction that writes nothing acts at its moment.
//!
//! **A moment can be moved forward** ([`Session::renew`]): a newer one is registered, and the reads
//! are compared at both. That is done if a commit cannot tell from RAM, because a checkpoint came
//! between, and if a locked key is newer than the moment.
//!
//! Thread safety: one thread at a time has a session. Not here: the public handle
//! ([`crate::Transaction`]).

mod iter;
mod operands;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod planted;
mod pop;
mod retry;
mod writes;

pub use iter::{TransactionIter, TransactionKeys};
pub(crate) use pop::RangeEnd;
pub(crate) use retry::Retry;
pub(crate) use writes::Written;

use crate::catalog::KeyspaceState;
use crate::engine::handle::Handle;
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::{ExpiryClock, ReadPoint};
use crate::key_locks::{LockOwner, LockedKey, NotLocked};
use crate::op::{Op, OpKind, check_limits, range_limits};
use crate::options::Durability;
use crate::read::cursor::{Cursor, Iter, Keys};
use crate::read::get;
use crate::read::merges;
use crate::read::moment::Moment;
use crate::sync::Arc;
use crate::value::Value;
use crate::write::reads::{Found, Read, ReadSpan, Reads};
use crate::write::{Outcome, Patience, Pending};
use crate::{fork, write};
use evendb_storage::{Kind, Time, Version, push_operand};
use operands::Operands;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use writes::{Mark, OwnWrites};

/// A longer value that the transaction has put is not copied for each merge into it: its operands
/// are kept beside it.
const FOLDED_AT_ONCE_BYTES: usize = 4096;

/// The reads of a transaction.
pub(crate) type ReadList = Vec<Read>;

/// The time for which a transaction waits for a key that another transaction has locked.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The longest time that it can be told to wait, 68 years: a clock does not reach the end of every
/// duration.
const LOCK_PATIENCE_MAX: Duration = Duration::from_secs(1 << 31);
/// The number of times that the moment is moved forward before a call gives up: each time a
/// checkpoint, or a put to this very key, must have come between.
const RENEWALS_MAX: u32 = 8;

/// See the module.
pub(crate) struct Session {
    handle: Arc<Handle>,
    moment: RefCell<Arc<Moment>>,
    writes: OwnWrites,
    reads: RefCell<ReadList>,
    /// Set once it has asked for a lock.
    owner: Cell<Option<LockOwner>>,
    locked: RefCell<Vec<LockedKey>>,
    patience: Duration,
    /// Every key is locked before it is got.
    locks_gets: bool,
    /// A call has found that the transaction can only be tried again from the beginning.
    failed: Cell<bool>,
}

/// A state to which [`Transaction::rollback_to`](crate::Transaction::rollback_to) goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(Mark);

impl Savepoint {
    /// Its number within the transaction, from 1 on.
    pub(crate) fn number(self) -> u64 {
        self.0.number() + 1
    }
}

impl Session {
    pub(crate) fn begin(handle: &Arc<Handle>) -> Result<Session> {
        fork::check()?;
        let moment = Moment::now(handle)?;
        Ok(Session {
            handle: handle.clone(),
            writes: OwnWrites::new(moment.version()),
            moment: RefCell::new(moment),
            reads: RefCell::default(),
            owner: Cell::new(None),
            locked: RefCell::default(),
            patience: LOCK_PATIENCE,
            locks_gets: false,
            failed: Cell::new(false),
        })
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// From now on every key is locked before it is got, as by [`lock`](Self::lock).
    pub(crate) fn lock_gets(&mut self) {
        self.locks_gets = true;
    }

    fn version(&self) -> Version {
        self.moment.borrow().version()
    }

    /// The time by which records expire for it.
    fn time(&self) -> Time {
        self.moment.borrow().time()
    }

    /// Whether a call has failed for a reason that a new attempt would not have.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience.min(LOCK_PATIENCE_MAX);
    }

    /// Distinct keys written, and ranges deleted.
    pub(crate) fn writes(&self) -> usize {
        self.writes.len()
    }

    pub(crate) fn get(&self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Result<Option<Value>> {
        fork::check()?;
        let below = || self.get_below(keyspace, key);
        match self.writes.get(keyspace, key) {
            Some(written) => written.seen(keyspace, key, self.time(), below),
            None => below(),
        }
    }

    /// The value below the own writes.
    fn get_below(&self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Result<Option<Value>> {
        if self.locks_gets {
            return self.lock_below(keyspace, key);
        }
        self.reads.borrow_mut().push(Read::of_key(keyspace, key));
        self.get_now(keyspace, key)
    }

    fn get_now(&self, keyspace: &KeyspaceState, key: &[u8]) -> Result<Option<Value>> {
        let point = self.moment.borrow().point();
        self.get_at(keyspace, key, point)
    }

    fn get_at(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        point: ReadPoint<'_>,
    ) -> Result<Option<Value>> {
        get::get_at(&self.handle.engine, keyspace, key, point)
    }

    pub(crate) fn range(
        &self,
        keyspace: &Arc<KeyspaceState>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> TransactionIter<'_> {
        let moment = Iter::new(self.cursor(keyspace, low.clone(), high.clone()));
        let own = self.writes.of(keyspace, self.time());
        TransactionIter::new(keyspace, (low, high), moment, own, &self.reads)
    }

    pub(crate) fn keys(
        &self,
        keyspace: &Arc<KeyspaceState>,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
    ) -> TransactionKeys<'_> {
        let moment = Keys::new(self.cursor(keyspace, low.clone(), high.clone()));
        let own = self.writes.of(keyspace, self.time());
        TransactionKeys::new(keyspace, (low, high), moment, own, &self.reads)
    }

    fn cursor(&self, keyspace: &Arc<KeyspaceState>, low: Vec<u8>, high: Option<Vec<u8>>) -> Cursor {
        let moment = self.moment.borrow().clone();
        Cursor::new(Ok(moment), keyspace.clone(), low, high)
    }

    /// Notes a put, or a delete if there is no value.
    pub(crate) fn set(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let written = match value {
            Some(value) => Written::Put((value.into(), keyspace.expiry_of_put(self.expiry()))),
            None => Written::Deleted,
        };
        self.write_down(keyspace, key, written)
    }

    /// The time by which the database's records expire.
    pub(crate) fn expiry(&self) -> &ExpiryClock {
        &self.handle.engine.core.clock.expiry
    }

    /// Notes the caller's write to a key.
    pub(crate) fn write_down(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        written: Written,
    ) -> Result<()> {
        if let Written::Put((value, _)) = &written {
            merges::check_value(keyspace, key, value)?;
        }
        self.note(keyspace, key, written)
    }

    /// Notes what the commit will do with a key.
    fn note(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8], written: Written) -> Result<()> {
        fork::check()?;
        let core = &self.handle.engine.core;
        core.health.check_writable()?;
        check_limits(key, written.value())?;
        write::check_value_size(core, key.len(), written.stored_len())?;
        if matches!(written, Written::Put(..))
            && keyspace.kind_of_single_delete() == Kind::SingleDelete
            && matches!(self.writes.get(keyspace, key), Some(Written::DeletedOnce))
        {
            return Err(Error::put_after_single_delete(key));
        }
        self.writes.set(keyspace, key, written);
        Ok(())
    }

    /// Notes a merge, which reads nothing. Over an own write of the key it is folded now, unless
    /// the result is long.
    pub(crate) fn merge(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        fork::check()?;
        merges::check_operand(keyspace, key, operand)?;
        check_limits(key, operand)?;
        let mut list = Vec::with_capacity(operand.len() + 2);
        push_operand(&mut list, operand);
        let over = |existing: Option<&[u8]>, expires| -> Result<Written> {
            let value = merges::over(keyspace, key, existing, &[&list])?;
            Ok(value.map_or(Written::Deleted, |value| {
                Written::Put((Arc::from(&*value), expires))
            }))
        };
        let written = match self.writes.get(keyspace, key) {
            None => Written::Merged(None, Operands::of(list)),
            Some(Written::Merged(base, mut operands)) => {
                operands.push(keyspace.merge_operator.get(), key, list);
                Written::Merged(base, operands)
            }
            // The value expires as its put says, whatever was merged into it.
            Some(Written::Put((value, expires))) => {
                match value.len() + operand.len() <= FOLDED_AT_ONCE_BYTES {
                    true => over(Some(&value), expires)?,
                    false => Written::Merged(Some((value, expires)), Operands::of(list)),
                }
            }
            Some(Written::Deleted | Written::DeletedOnce) => over(None, None)?,
        };
        self.note(keyspace, key, written)
    }

    /// Notes the deletion of the keys from `low` to below `high`.
    pub(crate) fn delete_range(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<()> {
        fork::check()?;
        let core = &self.handle.engine.core;
        core.health.check_writable()?;
        if let Some((low, high)) = range_limits(low, high) {
            write::check_value_size(core, low.len(), high.as_ref().map_or(0, Vec::len))?;
            self.writes.delete_range(keyspace, &low, high.as_deref());
        }
        Ok(())
    }

    pub(crate) fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.writes.mark())
    }

    pub(crate) fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        match self.writes.roll_back(savepoint.0) {
            true => Ok(()),
            false => {
                let message = "this savepoint is gone: the transaction was rolled back to one \
                               before it, or the savepoint is of another transaction";
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }

    /// Locks the key until the transaction ends, and reads its present value. If an iterator is
    /// open, its whole range is among the reads that are compared when the moment moves, so it goes
    /// on as it would from the new moment.
    pub(crate) fn lock(&self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Result<Option<Value>> {
        fork::check()?;
        let below = || self.lock_below(keyspace, key);
        let Some(written) = self.writes.get(keyspace, key) else {
            return below();
        };
        if !written.lies_on_more() {
            self.lock_alone(keyspace, key)?;
        }
        written.seen(keyspace, key, self.time(), below)
    }

    fn lock_alone(&self, keyspace: &KeyspaceState, key: &[u8]) -> Result<()> {
        check_limits(key, &[])?;
        self.lock_key((keyspace.id, key.into()))
            .map_err(|why| self.not_locked(keyspace, key, why))
    }

    /// Locks the key, and reads the value below the own writes.
    fn lock_below(&self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Result<Option<Value>> {
        self.lock_alone(keyspace, key)?;
        let read = Read::of_key(keyspace, key);
        let mut renewals = 0;
        let core = &self.handle.engine.core;
        while read.look((self.version(), self.time()), core) != Found::Same {
            // A key that is put again and again is not worth waiting for.
            if renewals == RENEWALS_MAX {
                break;
            }
            renewals += 1;
            self.renew()?;
        }
        self.reads.borrow_mut().push(read);
        self.get_now(keyspace, key)
    }

    fn lock_key(&self, key: LockedKey) -> std::result::Result<(), NotLocked> {
        let locks = &self.handle.engine.key_locks;
        let owner = self.owner.get().unwrap_or_else(|| locks.owner());
        self.owner.set(Some(owner));
        if locks.lock(owner, &key, self.patience)? {
            self.locked.borrow_mut().push(key);
        }
        Ok(())
    }

    fn not_locked(&self, keyspace: &KeyspaceState, key: &[u8], why: NotLocked) -> Error {
        self.failed.set(true);
        let (key, name) = (key.escape_ascii(), keyspace.name());
        match why {
            NotLocked::TimedOut => {
                let patience = self.patience;
                let message = format!(
                    "key \"{key}\" of keyspace {name:?} was locked by another transaction for {patience:?}; \
                     nothing was written: try the transaction again, or wait longer (lock_timeout)"
                );
                Error::new(ErrorKind::LockTimeout, message)
            }
            NotLocked::Deadlock => {
                let message = format!(
                    "waiting for key \"{key}\" of keyspace {name:?} would never end, because the transaction \
                     that has it waits for this one; nothing was written: try the transaction again"
                );
                Error::new(ErrorKind::Deadlock, message)
            }
        }
    }

    /// Moves the moment forward, if the reads give the same there.
    fn renew(&self) -> Result<()> {
        let old = self.moment.borrow().clone();
        let new = Moment::now(&self.handle)?;
        for read in self.reads.borrow().iter() {
            // First the new moment, then the look: if the look finds no change, there is none at
            // that moment.
            let found = read.look((old.version(), old.time()), &self.handle.engine.core);
            // Records that expired between the two moments were not written.
            let same = found == Found::Same && old.time() == new.time();
            if !same && !self.is_equal(read, &old, &new)? {
                return Err(self.conflict(Some(read)));
            }
        }
        *self.moment.borrow_mut() = new;
        Ok(())
    }

    /// Whether a read has the same keys and values at both moments.
    fn is_equal(&self, read: &Read, old: &Arc<Moment>, new: &Arc<Moment>) -> Result<bool> {
        let keyspace = &read.keyspace;
        match &read.span {
            ReadSpan::Key(key) => {
                let get = |moment: &Moment| self.get_at(keyspace, key, moment.point());
                Ok(get(old)? == get(new)?)
            }
            ReadSpan::Range(low, high) => {
                let cursor = |moment: &Arc<Moment>| {
                    let (low, high) = (low.to_vec(), high.as_deref().map(<[u8]>::to_vec));
                    Cursor::new(Ok(moment.clone()), keyspace.clone(), low, high)
                };
                let (mut old, mut new) = (cursor(old), cursor(new));
                loop {
                    let (old, new) = (old.next()?, new.next()?);
                    if old != new || old.is_none() {
                        return Ok(old == new);
                    }
                }
            }
        }
    }

    /// The error of a conflict; `read` is the read that has changed, if it is known.
    fn conflict(&self, read: Option<&Read>) -> Error {
        self.failed.set(true);
        self.handle.engine.core.metrics.transaction_conflicts.add(1);
        let what = read.map_or_else(String::new, |read| {
            let name = read.keyspace.name();
            match &read.span {
                ReadSpan::Key(key) => {
                    format!(" (key \"{}\" of keyspace {name:?})", key.escape_ascii())
                }
                ReadSpan::Range(low, _) => format!(
                    " (keys from \"{}\" on, of keyspace {name:?})",
                    low.escape_ascii()
                ),
            }
        });
        let message = format!(
            "another write has changed what this transaction read{what}; nothing was written: try the \
             transaction again"
        );
        Error::new(ErrorKind::Conflict, message)
    }

    /// Writes everything, if no read has changed.
    pub(crate) fn commit(self, durability: Durability) -> Result<()> {
        let engine = &self.handle.clone().engine;
        fork::check()?;
        if self.writes.is_empty() {
            return engine.core.health.check_readable();
        }
        // Closing waits for the sync, too.
        let _inside = engine.core.health.enter_writable()?;
        // Dropped before the call ends: its locks go before any waker runs.
        let session = self;
        match session.commit_inside(durability, Patience::Waits)? {
            Some(pending) => pending.wait(engine),
            None => unreachable!("it has waited"),
        }
    }

    /// Writes everything, if no read has changed, up to the wait for durability. `None` if it would
    /// have to wait before that, or to read, and there is no patience: nothing is written, and it
    /// can be attempted again.
    pub(crate) fn attempt(
        &self,
        durability: Durability,
        patience: Patience,
    ) -> Result<Option<Pending>> {
        let core = &self.handle.engine.core;
        fork::check()?;
        if self.writes.is_empty() {
            core.health.check_readable()?;
            return Ok(Some(Pending::nothing()));
        }
        let _inside = core.health.enter_writable()?;
        self.commit_inside(durability, patience)
    }

    fn commit_inside(&self, durability: Durability, patience: Patience) -> Result<Option<Pending>> {
        for _ in 0..RENEWALS_MAX {
            match self.write(durability, patience)? {
                Outcome::Written(pending) => {
                    self.handle.engine.core.metrics.transactions.add(1);
                    return Ok(Some(pending));
                }
                Outcome::WouldWait => return Ok(None),
                Outcome::Refused(Found::Unknown) if patience == Patience::Never => return Ok(None),
                Outcome::Refused(Found::Unknown) => self.renew()?,
                Outcome::Refused(Found::Changed | Found::Same) => break,
            }
        }
        Err(self.conflict(None))
    }

    fn write(&self, durability: Durability, patience: Patience) -> Result<Outcome> {
        let core = &self.handle.engine.core;
        let mut ops = self.writes.ops()?;
        // The length of folded operands is known only now.
        for Op { record, .. } in ops.iter().filter(|op| op.kind() != OpKind::RangeDelete) {
            write::check_value_size(core, record.key().len(), record.value().len())?;
        }
        let reads = Reads {
            all: &self.reads.borrow(),
            since: self.version(),
            time: self.time(),
        };
        let engine = &self.handle.engine;
        write::perform(engine, &mut ops, durability, Some(reads), patience)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.get()
            && !fork::is_child()
        {
            let keys = self.locked.take();
            self.handle.engine.key_locks.unlock(owner, keys);
        }
    }
}
