//! Transactions.

use super::batch::durability;
use super::database::DbHandle;
use super::keyspace::KeyspaceHandle;
use super::reads::{ValueHandle, give, give_all, keys};
use super::writes::time_of_day;
use crate::border::bytes::Room;
use crate::border::handle::{argument, free_slot};
use crate::border::range::KeyRange;
use crate::border::{
    Bytes, ErrorPlace, Failure, Many, Place, Slot, Status, call, call_mut, call_take,
};
use evendb::{Savepoint, Transaction};
use std::time::Duration;

/// `evendb_transaction`.
pub type TransactionHandle = Slot<Open>;

/// A transaction that has not ended.
pub struct Open {
    pub(crate) transaction: Transaction,
    /// Counts what changes its own writes: cursors over it gather again then.
    pub(super) changes: u64,
    /// The number of a savepoint is its place here.
    savepoints: Vec<Savepoint>,
}

impl Open {
    /// The transaction, which is about to write.
    fn writing(&mut self) -> &mut Transaction {
        self.changes += 1;
        &mut self.transaction
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_begin(
    db: Option<&DbHandle>,
    transaction: Place<'_, *mut TransactionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let place = transaction.cleared();
    call(db, error, |db| {
        place.needed("transaction")?;
        place.fill(Slot::give(Open {
            transaction: db.transaction()?,
            changes: 0,
            savepoints: Vec::new(),
        }));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_free(transaction: *mut TransactionHandle) {
    free_slot(transaction);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_get(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call_mut(transaction, error, |open| {
        value.needed("value")?;
        let (keyspace, key) = (argument(keyspace, "keyspace")?, key.of(key_size, "key")?);
        value.fill(give(open.transaction.get(keyspace, key)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_get_for_update(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call_mut(transaction, error, |open| {
        value.needed("value")?;
        let (keyspace, key) = (argument(keyspace, "keyspace")?, key.of(key_size, "key")?);
        let found = open.transaction.get_for_update(keyspace, key)?;
        // It may read a later moment from now on.
        open.changes += 1;
        value.fill(give(found));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_contains(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    found: Place<'_, i32>,
    error: ErrorPlace<'_>,
) -> Status {
    let found = found.cleared();
    call_mut(transaction, error, |open| {
        found.needed("found")?;
        let (keyspace, key) = (argument(keyspace, "keyspace")?, key.of(key_size, "key")?);
        found.fill(i32::from(open.transaction.contains_key(keyspace, key)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_multi_get(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    count: usize,
    keys: Many<Bytes>,
    key_sizes: Many<usize>,
    values: Room<*mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        give_all(values, count, || {
            let keyspace = argument(keyspace, "keyspace")?;
            let keys = self::keys(keys, key_sizes, count)?;
            Ok(open.transaction.multi_get(keyspace, &keys)?)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_lock_timeout(
    transaction: Option<&TransactionHandle>,
    timeout_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let timeout = Duration::from_millis(timeout_millis);
        open.transaction.lock_timeout(timeout);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_put(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(open.writing().put(keyspace, key, value)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_put_with_ttl(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    ttl_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        let ttl = Duration::from_millis(ttl_millis);
        Ok(open.writing().put_with_ttl(keyspace, key, value, ttl)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_put_expiring_at(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    at_unix_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        let at = time_of_day(at_unix_millis);
        Ok(open.writing().put_expiring_at(keyspace, key, value, at)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_merge(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    operand: Bytes,
    operand_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, operand) = (
            key.of(key_size, "key")?,
            operand.of(operand_size, "operand")?,
        );
        Ok(open.writing().merge(keyspace, key, operand)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_delete(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        Ok(open.writing().delete(keyspace, key.of(key_size, "key")?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_single_delete(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let (keyspace, key) = (argument(keyspace, "keyspace")?, key.of(key_size, "key")?);
        Ok(open.writing().single_delete(keyspace, key)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_delete_range(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let keyspace = argument(keyspace, "keyspace")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let writing = open.writing();
        Ok(writing.delete_range::<&[u8]>(keyspace, range.bounds())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_savepoint(
    transaction: Option<&TransactionHandle>,
    savepoint: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let savepoint = savepoint.cleared();
    call_mut(transaction, error, |open| {
        savepoint.needed("savepoint")?;
        open.savepoints.push(open.transaction.savepoint());
        savepoint.fill(open.savepoints.len() as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_rollback_to(
    transaction: Option<&TransactionHandle>,
    savepoint: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        let index = savepoint.checked_sub(1);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let known = index.and_then(|index| open.savepoints.get(index).copied());
        let known = known.ok_or_else(|| {
            Failure::argument(format!("this transaction has no savepoint {savepoint}"))
        })?;
        Ok(open.writing().rollback_to(known)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_size(
    transaction: Option<&TransactionHandle>,
    writes: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let writes = writes.cleared();
    call_mut(transaction, error, |open| {
        writes.fill(open.transaction.len());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_durability(
    transaction: Option<&TransactionHandle>,
    durability: i32,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(transaction, error, |open| {
        open.transaction.durability(self::durability(durability)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_commit(
    transaction: Option<&TransactionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call_take(transaction, error, |open| Ok(open.transaction.commit()?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_rollback(
    transaction: Option<&TransactionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call_take(transaction, error, |open| {
        open.transaction.rollback();
        Ok(())
    })
}
