//! One change of the feed: its writes, by number.

use super::changes::PositionHandle;
use crate::border::bytes::terminated;
use crate::border::handle::{call_own, free};
use crate::border::{ErrorPlace, Failure, Place, Result, Shared, Status, lent};
use crate::calls::writes::unix_millis;
use evendb::{Change, Durability, Write};
use std::ffi::{CString, c_char, c_void};
use std::ops::Bound;

/// `evendb_change`.
pub type ChangeHandle = Shared<Decoded>;

/// A change with its writes in reach.
pub struct Decoded {
    /// They borrow from `change`: declared before it, and so dropped before it.
    writes: Vec<One>,
    change: Box<Change>,
}

/// One write, with its name as a C text.
struct One {
    write: Write<'static>,
    keyspace: CString,
}

impl Decoded {
    pub(super) fn new(change: Change) -> Decoded {
        let change = Box::new(change);
        let each: &'static Change = {
            let there: *const Change = &*change;
            // SAFETY: the change is on the heap, is never changed, and lives until the writes are
            // dropped; none of them leaves this module with the longer lifetime.
            unsafe { &*there }
        };
        let one = |write: Write<'static>| One {
            keyspace: terminated(write.keyspace.as_bytes().to_vec()),
            write,
        };
        Decoded {
            writes: each.writes().map(one).collect(),
            change,
        }
    }

    fn at(&self, index: usize) -> Result<&One> {
        let found = self.writes.get(index);
        found.ok_or_else(|| {
            let count = self.writes.len();
            Failure::argument(format!(
                "the change has {count} writes, and {index} was asked for"
            ))
        })
    }
}

const PUT: i32 = 1;
const DELETE: i32 = 2;
const MERGE: i32 = 3;
const DELETE_RANGE: i32 = 4;

fn kind(write: &Write<'_>) -> i32 {
    match write {
        write if write.deleted_to.is_some() => DELETE_RANGE,
        write if write.operands.is_some() => MERGE,
        write if write.value.is_some() => PUT,
        _ => DELETE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_free(change: *mut ChangeHandle) {
    free(change);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_count(change: Option<&ChangeHandle>) -> usize {
    change.map_or(0, |change| change.inner().writes.len())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_position(
    change: Option<&ChangeHandle>,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    call_own(change, error, |change| {
        position.needed("position")?;
        position.fill(Shared::give(change.change.position()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_durability(change: Option<&ChangeHandle>) -> i32 {
    let durability = change.map(|change| change.inner().change.durability());
    match durability {
        None | Some(Durability::Relaxed) => 0,
        Some(Durability::Process) => 1,
        Some(Durability::Sync) => 2,
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_keyspace(
    change: Option<&ChangeHandle>,
    index: usize,
    name: Place<'_, *const c_char>,
    id: Place<'_, u32>,
    error: ErrorPlace<'_>,
) -> Status {
    let (name, id) = (name.cleared(), id.cleared());
    call_own(change, error, |change| {
        let one = change.at(index)?;
        name.fill(one.keyspace.as_ptr());
        id.fill(one.write.keyspace_id);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_write(
    change: Option<&ChangeHandle>,
    index: usize,
    kind: Place<'_, i32>,
    key: Place<'_, *const c_void>,
    key_size: Place<'_, usize>,
    value: Place<'_, *const c_void>,
    value_size: Place<'_, usize>,
    expires_unix_millis: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let (kind, expires) = (kind.cleared(), expires_unix_millis.cleared());
    let (key, key_size) = (key.cleared(), key_size.cleared());
    let (value, value_size) = (value.cleared(), value_size.cleared());
    call_own(change, error, |change| {
        let write = &change.at(index)?.write;
        kind.fill(self::kind(write));
        key.fill(lent(write.key));
        key_size.fill(write.key.len());
        let end = match write.deleted_to {
            Some(Bound::Included(end) | Bound::Excluded(end)) => Some(end),
            _ => None,
        };
        if let Some(bytes) = write.value.or(end) {
            value.fill(lent(bytes));
            value_size.fill(bytes.len());
        }
        expires.fill(write.expires.map_or(0, unix_millis));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_change_operand(
    change: Option<&ChangeHandle>,
    index: usize,
    operand: usize,
    data: Place<'_, *const c_void>,
    size: Place<'_, usize>,
    error: ErrorPlace<'_>,
) -> Status {
    let (data, size) = (data.cleared(), size.cleared());
    call_own(change, error, |change| {
        let operands = change.at(index)?.write.operands;
        let found = operands.and_then(|operands| operands.iter().nth(operand));
        if let Some(bytes) = found {
            data.fill(lent(bytes));
            size.fill(bytes.len());
        }
        Ok(())
    })
}
