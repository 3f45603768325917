//! Reads of keyspaces, and values.

use super::database::DbHandle;
use crate::border::bytes::{Room, copy_into};
use crate::border::handle::{argument, free};
use crate::border::range::KeyRange;
use crate::border::{
    Bytes, ErrorPlace, Failure, Many, Place, Result, Shared, Status, call, lent, status,
};
use evendb::{Keyspace, Value};
use std::ffi::c_void;

/// `evendb_value`.
pub type ValueHandle = Shared<Held>;

/// Bytes that a handle keeps.
pub enum Held {
    /// Where the engine has them.
    Value(Value),
    /// Of the handle itself.
    Bytes(Vec<u8>),
}

impl Held {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Value(value) => value,
            Held::Bytes(bytes) => bytes,
        }
    }
}

/// A new handle of a value, or NULL.
#[inline]
pub(crate) fn give(value: Option<Value>) -> *mut ValueHandle {
    value.map_or(std::ptr::null_mut(), |value| {
        Shared::give(Held::Value(value))
    })
}

/// A new handle of bytes that no record has.
pub(crate) fn give_bytes(bytes: Option<Vec<u8>>) -> *mut ValueHandle {
    bytes.map_or(std::ptr::null_mut(), |bytes| {
        Shared::give(Held::Bytes(bytes))
    })
}

/// The keys of a call of many.
pub(super) fn keys<'a>(
    keys: Many<Bytes>,
    sizes: Many<usize>,
    count: usize,
) -> Result<Vec<&'a [u8]>> {
    let (keys, sizes) = (keys.of(count, "keys")?, sizes.of(count, "key_sizes")?);
    let each = keys.iter().zip(sizes);
    each.map(|(key, &size)| key.of(size, "keys")).collect()
}

/// Gives many values, each one or NULL.
pub(super) fn give_all(
    values: Room<*mut ValueHandle>,
    count: usize,
    read: impl FnOnce() -> Result<Vec<Option<Value>>>,
) -> Result<()> {
    let places = values.of(count, "values")?;
    for place in &mut *places {
        place.write(std::ptr::null_mut());
    }
    for (place, value) in places.iter_mut().zip(read()?) {
        place.write(give(value));
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_value_data(value: Option<&ValueHandle>) -> *const c_void {
    value.map_or(std::ptr::null(), |value| lent(value.inner().bytes()))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_value_size(value: Option<&ValueHandle>) -> usize {
    value.map_or(0, |value| value.inner().bytes().len())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_value_free(value: *mut ValueHandle) {
    free(value);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_get(
    keyspace: Option<&Shared<Keyspace>>,
    key: Bytes,
    key_size: usize,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call(keyspace, error, |keyspace| {
        value.needed("value")?;
        value.fill(give(keyspace.get(key.of(key_size, "key")?)?));
        Ok(())
    })
}

/// The offsets of a part of a value.
pub(super) fn part(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset..offset.saturating_add(length)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_get_part(
    keyspace: Option<&Shared<Keyspace>>,
    key: Bytes,
    key_size: usize,
    offset: u64,
    length: u64,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call(keyspace, error, |keyspace| {
        value.needed("value")?;
        let key = key.of(key_size, "key")?;
        value.fill(give(keyspace.get_part(key, part(offset, length))?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_get_into(
    keyspace: Option<&Shared<Keyspace>>,
    key: Bytes,
    key_size: usize,
    buffer: Room<u8>,
    capacity: usize,
    size: Place<'_, usize>,
    found: Place<'_, i32>,
    error: ErrorPlace<'_>,
) -> Status {
    let (size, found) = (size.cleared(), found.cleared());
    call(keyspace, error, |keyspace| {
        found.needed("found")?;
        size.needed("size")?;
        let buffer = buffer.of(capacity, "buffer")?;
        let Some(value) = keyspace.get(key.of(key_size, "key")?)? else {
            return Ok(());
        };
        found.fill(1);
        size.fill(value.len());
        match buffer.get_mut(..value.len()) {
            Some(room) => {
                copy_into(room, &value);
                Ok(())
            }
            None => Err(too_small(value.len(), capacity)),
        }
    })
}

#[cold]
pub(super) fn too_small(needed: usize, capacity: usize) -> Box<Failure> {
    let message = format!("{needed} bytes are needed, and the buffer has {capacity}");
    Failure::new(status::BUFFER_TOO_SMALL, message)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_contains(
    keyspace: Option<&Shared<Keyspace>>,
    key: Bytes,
    key_size: usize,
    found: Place<'_, i32>,
    error: ErrorPlace<'_>,
) -> Status {
    let found = found.cleared();
    call(keyspace, error, |keyspace| {
        found.needed("found")?;
        let is_there = keyspace.contains_key(key.of(key_size, "key")?)?;
        found.fill(i32::from(is_there));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_multi_get(
    keyspace: Option<&Shared<Keyspace>>,
    count: usize,
    keys: Many<Bytes>,
    key_sizes: Many<usize>,
    values: Room<*mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        give_all(values, count, || {
            let keys = self::keys(keys, key_sizes, count)?;
            Ok(keyspace.multi_get(&keys)?)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_multi_get_across(
    db: Option<&DbHandle>,
    count: usize,
    keyspaces: Many<Option<&Shared<Keyspace>>>,
    keys: Many<Bytes>,
    key_sizes: Many<usize>,
    values: Room<*mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call(db, error, |db| {
        give_all(values, count, || {
            let keyspaces = keyspaces.of(count, "keyspaces")?.iter();
            let keys = self::keys(keys, key_sizes, count)?;
            let pairs = keyspaces.zip(keys).map(|(keyspace, key)| {
                let keyspace = argument(*keyspace, "keyspaces")?;
                Ok((keyspace, key))
            });
            let pairs = pairs.collect::<Result<Vec<_>>>()?;
            Ok(db.multi_get_across(&pairs)?)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_approximate_size(
    keyspace: Option<&Shared<Keyspace>>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    records: Place<'_, u64>,
    bytes: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let (records, bytes) = (records.cleared(), bytes.cleared());
    call(keyspace, error, |keyspace| {
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let size = keyspace.approximate_size::<&[u8]>(range.bounds())?;
        records.fill(size.records);
        bytes.fill(size.bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_approximate_len(
    keyspace: Option<&Shared<Keyspace>>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    records: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let records = records.cleared();
    call(keyspace, error, |keyspace| {
        records.needed("records")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        records.fill(keyspace.approximate_len::<&[u8]>(range.bounds())?);
        Ok(())
    })
}
