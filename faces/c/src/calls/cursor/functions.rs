//! The functions of cursors.

use super::{End, Source, Walk, own};
use crate::border::bytes::Room;
use crate::border::handle::{argument, argument_mut, free_slot};
use crate::border::range::KeyRange;
use crate::border::{
    Bytes, ErrorPlace, Failure, Place, Result, Slot, Status, call, call_mut, lent, plain,
};
use crate::calls::keyspace::KeyspaceHandle;
use crate::calls::reads::too_small;
use crate::calls::snapshot::SnapshotHandle;
use crate::calls::transaction::TransactionHandle;
use std::ffi::c_void;

/// `evendb_cursor`.
pub type CursorHandle = Slot<Walk>;

/// The cursor leaves values alone.
const KEYS_ONLY: u32 = 1;

fn keys_only(flags: u32) -> Result<bool> {
    match flags {
        0 => Ok(false),
        KEYS_ONLY => Ok(true),
        _ => Err(Failure::argument(format!(
            "there are no flags {flags} of a cursor"
        ))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_open(
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    flags: u32,
    cursor: Place<'_, *mut CursorHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let cursor = cursor.cleared();
    call(keyspace, error, |keyspace| {
        cursor.needed("cursor")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let keys_only = keys_only(flags)?;
        let over = keyspace.cursor::<&[u8]>(range.bounds());
        cursor.fill(Slot::give(Walk::over(over, keys_only)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_cursor(
    snapshot: Option<&SnapshotHandle>,
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    flags: u32,
    cursor: Place<'_, *mut CursorHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let cursor = cursor.cleared();
    call(snapshot, error, |snapshot| {
        cursor.needed("cursor")?;
        let keyspace = argument(keyspace, "keyspace")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let keys_only = keys_only(flags)?;
        let over = snapshot.cursor::<&[u8]>(keyspace, range.bounds());
        cursor.fill(Slot::give(Walk::over(over, keys_only)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_cursor(
    transaction: Option<&TransactionHandle>,
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    flags: u32,
    cursor: Place<'_, *mut CursorHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let cursor = cursor.cleared();
    plain(error, || {
        evendb_base::fork::check()?;
        cursor.needed("cursor")?;
        let transaction = argument_mut(transaction, "transaction")?;
        let keyspace = argument(keyspace, "keyspace")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let keys_only = keys_only(flags)?;
        // A transaction that has ended, or another database's keyspace, is refused now.
        transaction.enter(|open| {
            open.transaction.keys::<&[u8]>(keyspace, ..)?;
            Ok(())
        })?;
        let high = range.high.map(|high| high.into_owned());
        let range = (range.low.to_vec(), high);
        let walk = own::Walk::new(transaction.counted(), keyspace.clone(), range, keys_only);
        cursor.fill(Slot::give(Walk::new(Source::Own(Box::new(walk)))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_free(cursor: *mut CursorHandle) {
    free_slot(cursor);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_limit(
    cursor: Option<&CursorHandle>,
    records: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(cursor, error, |cursor| {
        cursor.limit(records);
        Ok(())
    })
}

/// Where the parts of a record go.
struct Parts<'p> {
    key: Place<'p, *const c_void>,
    key_size: Place<'p, usize>,
    value: Place<'p, *const c_void>,
    value_size: Place<'p, usize>,
}

impl Parts<'_> {
    #[inline]
    fn step(self, walk: &mut Walk, end: End) -> Result<()> {
        self.key.needed("key")?;
        if let Some((key, value)) = walk.step(end)? {
            self.key.fill(lent(key));
            self.key_size.fill(key.len());
            self.value.fill(lent(value));
            self.value_size.fill(value.len());
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_next(
    cursor: Option<&CursorHandle>,
    key: Place<'_, *const c_void>,
    key_size: Place<'_, usize>,
    value: Place<'_, *const c_void>,
    value_size: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let parts = Parts {
        key: key.cleared(),
        key_size: key_size.cleared(),
        value: value.cleared(),
        value_size: value_size.cleared(),
    };
    call_mut(cursor, error, |walk| parts.step(walk, End::Front))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_next_back(
    cursor: Option<&CursorHandle>,
    key: Place<'_, *const c_void>,
    key_size: Place<'_, usize>,
    value: Place<'_, *const c_void>,
    value_size: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let parts = Parts {
        key: key.cleared(),
        key_size: key_size.cleared(),
        value: value.cleared(),
        value_size: value_size.cleared(),
    };
    call_mut(cursor, error, |walk| parts.step(walk, End::Back))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_seek(
    cursor: Option<&CursorHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(cursor, error, |walk| {
        walk.seek(End::Front, key.of(key_size, "key")?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_seek_back(
    cursor: Option<&CursorHandle>,
    key: Bytes,
    key_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(cursor, error, |walk| {
        walk.seek(End::Back, key.of(key_size, "key")?)
    })
}

fn fill(
    walk: &mut Walk,
    end: End,
    (buffer, capacity): (Room<u8>, usize),
    used: Place<'_, usize>,
    records: Place<'_, usize>,
) -> Result<()> {
    used.needed("used")?;
    let room = buffer.of(capacity, "buffer")?;
    match walk.fill(end, room)? {
        Ok(filled) => {
            used.fill(filled.bytes);
            records.fill(filled.records);
            Ok(())
        }
        Err(bytes) => {
            used.fill(bytes);
            Err(too_small(bytes, capacity))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_fill(
    cursor: Option<&CursorHandle>,
    buffer: Room<u8>,
    capacity: usize,
    used: Place<'_, usize>,
    records: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let (used, records) = (used.cleared(), records.cleared());
    call_mut(cursor, error, |walk| {
        fill(walk, End::Front, (buffer, capacity), used, records)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_cursor_fill_back(
    cursor: Option<&CursorHandle>,
    buffer: Room<u8>,
    capacity: usize,
    used: Place<'_, usize>,
    records: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let (used, records) = (used.cleared(), records.cleared());
    call_mut(cursor, error, |walk| {
        fill(walk, End::Back, (buffer, capacity), used, records)
    })
}
