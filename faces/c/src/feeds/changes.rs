//! The change feed, and positions in it.

use super::change::{ChangeHandle, Decoded};
use crate::border::handle::{argument, call_own, free, free_slot};
use crate::border::{Bytes, ErrorPlace, Place, Shared, Slot, Status, call, call_mut, plain};
use crate::calls::database::DbHandle;
use crate::calls::reads::{ValueHandle, give_bytes};
use crate::calls::snapshot::SnapshotHandle;
use evendb::{Changes, Position};
use std::time::Duration;

/// `evendb_changes`.
pub type ChangesHandle = Slot<Changes>;
/// `evendb_position`.
pub type PositionHandle = Shared<Position>;

#[unsafe(no_mangle)]
extern "C" fn evendb_position_now(
    db: Option<&DbHandle>,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    call(db, error, |db| {
        position.needed("position")?;
        position.fill(Shared::give(db.position()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_position_oldest(
    db: Option<&DbHandle>,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    call(db, error, |db| {
        position.needed("position")?;
        position.fill(Shared::give(db.oldest_position()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_snapshot_position(
    snapshot: Option<&SnapshotHandle>,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    call(snapshot, error, |snapshot| {
        position.needed("position")?;
        position.fill(Shared::give(snapshot.position()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_position_to_bytes(
    position: Option<&PositionHandle>,
    bytes: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let bytes = bytes.cleared();
    call_own(position, error, |position| {
        bytes.needed("bytes")?;
        bytes.fill(give_bytes(Some(position.to_bytes())));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_position_from_bytes(
    bytes: Bytes,
    size: usize,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    plain(error, || {
        position.needed("position")?;
        let known = Position::from_bytes(bytes.of(size, "bytes")?)?;
        position.fill(Shared::give(known));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_position_free(position: *mut PositionHandle) {
    free(position);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_changes_open(
    db: Option<&DbHandle>,
    position: Option<&PositionHandle>,
    changes: Place<'_, *mut ChangesHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let changes = changes.cleared();
    call(db, error, |db| {
        changes.needed("changes")?;
        let position = argument(position, "position")?;
        changes.fill(Slot::give(db.changes_since(position)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_changes_position(
    changes: Option<&ChangesHandle>,
    position: Place<'_, *mut PositionHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let position = position.cleared();
    call_mut(changes, error, |changes| {
        position.needed("position")?;
        position.fill(Shared::give(Changes::position(changes)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_changes_next(
    changes: Option<&ChangesHandle>,
    timeout_millis: u64,
    change: Place<'_, *mut ChangeHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let change = change.cleared();
    call_mut(changes, error, |changes| {
        change.needed("change")?;
        if let Some(found) = changes.next_timeout(Duration::from_millis(timeout_millis))? {
            change.fill(Shared::give(Decoded::new(found)));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_changes_lag(
    changes: Option<&ChangesHandle>,
    bytes: Place<'_, u64>,
    error: ErrorPlace<'_>,
) -> Status {
    let bytes = bytes.cleared();
    call_mut(changes, error, |changes| {
        bytes.needed("bytes")?;
        bytes.fill(changes.lag());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_changes_free(changes: *mut ChangesHandle) {
    free_slot(changes);
}
