//! Watches: the change feed of a range of one keyspace. What is given is a feed like any other
//! ([`super::changes`]).

use super::changes::{ChangesHandle, PositionHandle};
use crate::border::handle::argument;
use crate::border::range::KeyRange;
use crate::border::{Bytes, ErrorPlace, Place, Result, Slot, Status, call};
use crate::calls::keyspace::KeyspaceHandle;
use evendb::Changes;

/// The watch, from a position of the caller's on if there is one.
fn begin(
    since: Option<&PositionHandle>,
    watch: impl FnOnce() -> evendb::Result<Changes>,
) -> Result<*mut ChangesHandle> {
    let since = since
        .map(|since| argument(Some(since), "since"))
        .transpose()?;
    let begun = match since {
        Some(position) => watch()?.since(position),
        None => watch(),
    };
    Ok(Slot::give(begun?))
}

#[unsafe(no_mangle)]
extern "C" fn evendb_watch_range(
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    since: Option<&PositionHandle>,
    changes: Place<'_, *mut ChangesHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let changes = changes.cleared();
    call(keyspace, error, |keyspace| {
        changes.needed("changes")?;
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        changes.fill(begin(since, || keyspace.watch::<&[u8]>(range.bounds()))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_watch_prefix(
    keyspace: Option<&KeyspaceHandle>,
    prefix: Bytes,
    prefix_size: usize,
    since: Option<&PositionHandle>,
    changes: Place<'_, *mut ChangesHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let changes = changes.cleared();
    call(keyspace, error, |keyspace| {
        changes.needed("changes")?;
        let prefix = prefix.of(prefix_size, "prefix")?;
        changes.fill(begin(since, || keyspace.watch_prefix(prefix))?);
        Ok(())
    })
}
