//! What a store must have before a replay, so that its reads find what they found.
//!
//! The first operation of a key says whether it was there: a read that found it. Such keys are put first, with the length that
//! was found. Where a trace begins with the filling of a store ([`Part::load`](super::Part)), its puts and deletions are done too. Memory: 16 bytes for each key, of which a hash of 64 bits is kept; of two keys with the same hash
//! the second one may be left out.

use std::collections::HashSet;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use evendb_trace::{InOrder, Kind, Operation, Outcome, Reader, value_hash};

use super::ReplaySettings;
use super::plan::{Bytes, VALUE_BYTES_MAX, key_in_store};
use super::worker::value_of;
use crate::recorder::RunError;
use crate::store::Store;

/// Puts what the trace finds before it puts it; how many records that are.
///
/// # Errors
/// The store's; `Input` if the trace cannot be read.
pub fn prepare<R: Read>(
    reader: Reader<R>,
    store: &dyn Store,
    settings: &ReplaySettings,
    stop: &AtomicBool,
) -> Result<u64, RunError> {
    let with_keyspaces = reader.keyspaces().len() > 1;
    let mut seen = HashSet::new();
    let (mut put, mut value) = (0, Vec::new());
    let until = usize::try_from(settings.part.until).unwrap_or(usize::MAX);
    let operations = InOrder::new(reader, settings.order_bytes).take(until);
    for (number, operation) in (0..).zip(operations) {
        let mut operation = operation.map_err(|error| RunError::Input(error.to_string()))?;
        let kind = operation.kind;
        if !kind.is_point_read() && !kind.is_point_write() {
            continue;
        }
        let key = std::mem::take(&mut operation.key);
        let key = key_in_store(with_keyspaces, operation.keyspace, key);
        if number < settings.part.load {
            put += u64::from(fill(store, &key, &mut operation, (settings, &mut value))?);
        }
        if !seen.insert(value_hash(&key)) {
            continue;
        }
        if let (Outcome::Present { len, .. }, true) = (operation.outcome, kind.is_point_read()) {
            let len = len.unwrap_or(settings.value_bytes as u64);
            if len > VALUE_BYTES_MAX {
                continue;
            }
            store.put(&key, value_of(&mut value, &key, &Bytes::Len(len as usize)))?;
            put += 1;
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    store.settle_debt()?;
    Ok(put)
}

/// Does what an operation of a filling writes; whether it puts.
fn fill(
    store: &dyn Store,
    key: &[u8],
    operation: &mut Operation,
    (settings, made): (&ReplaySettings, &mut Vec<u8>),
) -> Result<bool, RunError> {
    let len = operation.value_len.unwrap_or(settings.value_bytes as u64);
    let bytes = match operation.value.take() {
        Some(value) => Bytes::Known(value),
        None => Bytes::Len(len.min(VALUE_BYTES_MAX) as usize),
    };
    match operation.kind {
        Kind::Put | Kind::Ingest => store.put(key, value_of(made, key, &bytes))?,
        Kind::Delete | Kind::SingleDelete => store.delete(key)?,
        _ => {}
    }
    Ok(matches!(operation.kind, Kind::Put | Kind::Ingest))
}
