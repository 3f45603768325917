//! Writes of single records, of ranges, and writes that depend on what is there.

use super::reads::{ValueHandle, give};
use crate::border::range::KeyRange;
use crate::border::{Bytes, ErrorPlace, Failure, Place, Result, Shared, Status, call};
use evendb::{Keyspace, Value};
use std::time::{Duration, SystemTime};

type Handle = Shared<Keyspace>;

/// A time of day from milliseconds since the beginning of 1970.
pub(crate) fn time_of_day(unix_millis: u64) -> SystemTime {
    let since = Duration::from_millis(unix_millis);
    SystemTime::UNIX_EPOCH + since
}

/// Milliseconds since the beginning of 1970, rounded down.
pub(crate) fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_put(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(keyspace.put(key, value)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_put_with_ttl(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    ttl_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(keyspace.put_with_ttl(key, value, Duration::from_millis(ttl_millis))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_put_expiring_at(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    at_unix_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(keyspace.put_expiring_at(key, value, time_of_day(at_unix_millis))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    operand: Bytes,
    operand_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let (key, operand) = (
            key.of(key_size, "key")?,
            operand.of(operand_size, "operand")?,
        );
        Ok(keyspace.merge(key, operand)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_delete(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        Ok(keyspace.delete(key.of(key_size, "key")?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_single_delete(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        Ok(keyspace.single_delete(key.of(key_size, "key")?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_delete_range(
    keyspace: Option<&Handle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        Ok(keyspace.delete_range::<&[u8]>(range.bounds())?)
    })
}

/// What a compare-and-swap expects or sets: a value, or none.
fn maybe<'a>(is_there: i32, bytes: Bytes, size: usize, name: &str) -> Result<Option<&'a [u8]>> {
    let bytes = bytes.of(size, name)?;
    match is_there {
        0 if bytes.is_empty() => Ok(None),
        0 => Err(Failure::argument(format!(
            "`{name}` is said to be no value, and has bytes"
        ))),
        _ => Ok(Some(bytes)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_compare_and_swap(
    keyspace: Option<&Handle>,
    key: Bytes,
    key_size: usize,
    has_expected: i32,
    expected: Bytes,
    expected_size: usize,
    has_new: i32,
    new: Bytes,
    new_size: usize,
    swapped: Place<'_, i32>,
    found: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let (swapped, found) = (swapped.cleared(), found.cleared());
    call(keyspace, error, |keyspace| {
        swapped.needed("swapped")?;
        let key = key.of(key_size, "key")?;
        let expected = maybe(has_expected, expected, expected_size, "expected_value")?;
        let new = maybe(has_new, new, new_size, "new_value")?;
        match keyspace.compare_and_swap(key, expected, new)? {
            Ok(()) => swapped.fill(1),
            Err(other) if found.is_wanted() => found.fill(give(other)),
            Err(_) => {}
        }
        Ok(())
    })
}

/// Gives a record that was taken or looked at.
fn give_record(
    record: Option<(Value, Value)>,
    key: Place<'_, *mut ValueHandle>,
    value: Place<'_, *mut ValueHandle>,
) {
    let Some((its_key, its_value)) = record else {
        return;
    };
    if key.is_wanted() {
        key.fill(give(Some(its_key)));
    }
    if value.is_wanted() {
        value.fill(give(Some(its_value)));
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_pop_first(
    keyspace: Option<&Handle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    key: Place<'_, *mut ValueHandle>,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let (key, value) = (key.cleared(), value.cleared());
    call(keyspace, error, |keyspace| {
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        give_record(
            keyspace.pop_first_range::<&[u8]>(range.bounds())?,
            key,
            value,
        );
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_pop_last(
    keyspace: Option<&Handle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    key: Place<'_, *mut ValueHandle>,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let (key, value) = (key.cleared(), value.cleared());
    call(keyspace, error, |keyspace| {
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        give_record(
            keyspace.pop_last_range::<&[u8]>(range.bounds())?,
            key,
            value,
        );
        Ok(())
    })
}
