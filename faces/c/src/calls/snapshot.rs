//! Snapshots, and reads at them.

use super::database::DbHandle;
use super::keyspace::KeyspaceHandle;
use super::reads::{ValueHandle, give, give_all, keys, part};
use crate::border::bytes::Room;
use crate::border::handle::{argument, free};
use crate::border::{Bytes, ErrorPlace, Many, Place, Shared, Status, call};
use evendb::Snapshot;

/// `evendb_snapshot`.
pub type SnapshotHandle = Shared<Snapshot>;

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_create(
    db: Option<&DbHandle>,
    snapshot: Place<'_, *mut SnapshotHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let snapshot = snapshot.cleared();
    call(db, error, |db| {
        snapshot.needed("snapshot")?;
        snapshot.fill(Shared::give(db.snapshot()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_free(snapshot: *mut SnapshotHandle) {
    free(snapshot);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_get(
    snapshot: Option<&SnapshotHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call(snapshot, error, |snapshot| {
        value.needed("value")?;
        let keyspace = argument(keyspace, "keyspace")?;
        value.fill(give(snapshot.get(keyspace, key.of(key_size, "key")?)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_get_part(
    snapshot: Option<&SnapshotHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    offset: u64,
    length: u64,
    value: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let value = value.cleared();
    call(snapshot, error, |snapshot| {
        value.needed("value")?;
        let keyspace = argument(keyspace, "keyspace")?;
        let key = key.of(key_size, "key")?;
        value.fill(give(snapshot.get_part(
            keyspace,
            key,
            part(offset, length),
        )?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_contains(
    snapshot: Option<&SnapshotHandle>,
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    found: Place<'_, i32>,
    error: ErrorPlace<'_>,
) -> Status {
    let found = found.cleared();
    call(snapshot, error, |snapshot| {
        found.needed("found")?;
        let keyspace = argument(keyspace, "keyspace")?;
        let is_there = snapshot.contains_key(keyspace, key.of(key_size, "key")?)?;
        found.fill(i32::from(is_there));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_multi_get(
    snapshot: Option<&SnapshotHandle>,
    keyspace: Option<&KeyspaceHandle>,
    count: usize,
    keys: Many<Bytes>,
    key_sizes: Many<usize>,
    values: Room<*mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call(snapshot, error, |snapshot| {
        give_all(values, count, || {
            let keyspace = argument(keyspace, "keyspace")?;
            let keys = self::keys(keys, key_sizes, count)?;
            Ok(snapshot.multi_get(keyspace, &keys)?)
        })
    })
}
