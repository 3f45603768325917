//! Batches: writes that take effect together.

use super::database::DbHandle;
use super::keyspace::KeyspaceHandle;
use super::writes::time_of_day;
use crate::border::handle::{argument, free_slot};
use crate::border::range::KeyRange;
use crate::border::{
    Bytes, ErrorPlace, Failure, Place, Result, Slot, Status, call, call_mut, call_take,
};
use evendb::{Batch, Durability};
use std::time::Duration;

/// `evendb_batch`.
pub type BatchHandle = Slot<Batch>;

/// A level of durability from its number.
pub(super) fn durability(number: i32) -> Result<Durability> {
    match number {
        0 => Ok(Durability::Relaxed),
        1 => Ok(Durability::Process),
        2 => Ok(Durability::Sync),
        _ => Err(Failure::argument(format!(
            "there is no durability {number}"
        ))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_create(
    db: Option<&DbHandle>,
    batch: Place<'_, *mut BatchHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let batch = batch.cleared();
    call(db, error, |db| {
        batch.needed("batch")?;
        batch.fill(Slot::give(db.batch()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_free(batch: *mut BatchHandle) {
    free_slot(batch);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_put(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        batch.put(keyspace, key, value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_put_with_ttl(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    ttl_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        batch.put_with_ttl(keyspace, key, value, Duration::from_millis(ttl_millis));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_put_expiring_at(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    at_unix_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        batch.put_expiring_at(keyspace, key, value, time_of_day(at_unix_millis));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_merge(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    operand: Bytes,
    operand_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        let (key, operand) = (
            key.of(key_size, "key")?,
            operand.of(operand_size, "operand")?,
        );
        batch.merge(keyspace, key, operand);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_delete(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        batch.delete(keyspace, key.of(key_size, "key")?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_single_delete(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        batch.single_delete(keyspace, key.of(key_size, "key")?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_delete_range(
    batch: Option<&BatchHandle>,
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        let keyspace = argument(keyspace, "keyspace")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        batch.delete_range::<&[u8]>(keyspace, range.bounds());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_durability(
    batch: Option<&BatchHandle>,
    durability: i32,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(batch, error, |batch| {
        batch.durability(self::durability(durability)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_size(
    batch: Option<&BatchHandle>,
    writes: Place<'_, usize>,
    counted_bytes: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let (writes, counted_bytes) = (writes.cleared(), counted_bytes.cleared());
    call_mut(batch, error, |batch| {
        writes.fill(batch.len());
        counted_bytes.fill(batch.counted_bytes());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_clear(batch: Option<&BatchHandle>, error: ErrorPlace<'_>) -> Status {
    call_mut(batch, error, |batch| {
        batch.clear();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_commit(batch: Option<&BatchHandle>, error: ErrorPlace<'_>) -> Status {
    call_take(batch, error, |batch| Ok(batch.commit()?))
}
