//! Ingests of sorted records.

use super::summary::Summary;
use crate::border::handle::free_slot;
use crate::border::{Bytes, ErrorPlace, Place, Slot, Status, call, call_mut, call_take};
use crate::calls::keyspace::KeyspaceHandle;
use crate::calls::writes::time_of_day;
use evendb::Ingest;

/// `evendb_ingest`.
pub type IngestHandle = Slot<Ingest>;

#[unsafe(no_mangle)]
extern "C" fn evendb_ingest_begin(
    keyspace: Option<&KeyspaceHandle>,
    ingest: Place<'_, *mut IngestHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let ingest = ingest.cleared();
    call(keyspace, error, |keyspace| {
        ingest.needed("ingest")?;
        ingest.fill(Slot::give(keyspace.begin_ingest()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_ingest_put(
    ingest: Option<&IngestHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(ingest, error, |ingest| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        Ok(ingest.put(key, value)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_ingest_put_expiring_at(
    ingest: Option<&IngestHandle>,
    key: Bytes,
    key_size: usize,
    value: Bytes,
    value_size: usize,
    at_unix_millis: u64,
    error: ErrorPlace<'_>,
) -> Status {
    call_mut(ingest, error, |ingest| {
        let (key, value) = (key.of(key_size, "key")?, value.of(value_size, "value")?);
        let at = time_of_day(at_unix_millis);
        Ok(ingest.put_expiring_at(key, value, at)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_ingest_finish(
    ingest: Option<&IngestHandle>,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call_take(ingest, error, |ingest| {
        let done = ingest.finish()?;
        summary.give(|| Summary::of_ingest(&done));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_ingest_free(ingest: *mut IngestHandle) {
    free_slot(ingest);
}
