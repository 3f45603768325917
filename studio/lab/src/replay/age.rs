//! Makes a store as old as one that has served a load for long: the records that a trace writes
//! over are put again, without the trace's reads.
//!
//! A store that was just filled has no garbage, and collects none. The costs of garbage begin after
//! much has been written over, which may be later than the end of a measurement. Writing alone is
//! many times as fast as a replay with its reads, and growth on disk comes from writes.
//!
//! Every record is put again unchanged, in the order of the trace's writes. So the store has the
//! same records afterwards, and a replay finds what it would have found. Writes of keys that the
//! store does not have are passed over, since they would make other records. Deletions are passed
//! over too.
//!
//! Memory: one record. Used by one thread.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use evendb_trace::{InOrder, Kind, Outcome, Reader};

use super::plan::key_in_store;
use super::{ReplaySettings, has_several_keyspaces};
use crate::recorder::RunError;
use crate::store::Store;

/// The writes of a trace are repeated at most this number of times: if it has few writes, the rest
/// of the time goes into reading it.
const PASSES_MAX: u32 = 16;

/// Puts again what the trace writes over, until `bytes` bytes of keys and values have been put.
/// Returns the number of these bytes. It is lower if the trace writes little, or only keys that the
/// store does not have. `open` gives the trace from its beginning.
///
/// # Errors
/// The store's; `Input` if the trace cannot be read.
pub fn age<R: Read>(
    open: &dyn Fn() -> Result<Reader<R>, RunError>,
    store: &dyn Store,
    (settings, bytes): (&ReplaySettings, u64),
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let (mut put, mut value) = (0, Vec::new());
    for _ in 0..PASSES_MAX {
        let before = put;
        let reader = open()?;
        let with_keyspaces = has_several_keyspaces(&reader, settings);
        let until = usize::try_from(settings.part.until).unwrap_or(usize::MAX);
        let filling = usize::try_from(settings.part.load).unwrap_or(usize::MAX);
        let operations = InOrder::new(reader, settings.order_bytes).take(until);
        for operation in operations.skip(filling) {
            if put >= bytes || stop.load(Ordering::Relaxed) {
                break;
            }
            let operation = operation?;
            let is_done = !matches!(operation.outcome, Outcome::Failed(_));
            if !is_done || !matches!(operation.kind, Kind::Put | Kind::Ingest | Kind::Merge) {
                continue;
            }
            let key = key_in_store(with_keyspaces, operation.keyspace, operation.key);
            let found = store.get(&key, &mut |present| {
                value.clear();
                value.extend_from_slice(present);
            })?;
            if found {
                store.put(&key, &value)?;
                put += (key.len() + value.len()) as u64;
            }
        }
        if put == before || put >= bytes {
            break;
        }
    }
    store.settle_debt()?;
    Ok(put)
}
