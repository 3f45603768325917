//! What a store must have before a replay, so that its reads find what they found.
//!
//! The first operation of a key says whether it was there: a read that found it. Such keys are put first, with the length that
//! was found. Memory: 16 bytes for each key, of which a hash of 64 bits is kept; of two keys with the same hash
//! the second one may be left out.

use std::collections::HashSet;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use evendb_trace::{InOrder, Outcome, Reader, value_hash};

use super::plan::{Bytes, VALUE_BYTES_MAX, key_in_store};
use super::worker::value_of;
use super::{ORDER_BYTES_MAX, ReplaySettings};
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
    for operation in InOrder::new(reader, ORDER_BYTES_MAX) {
        let mut operation = operation.map_err(|error| RunError::Input(error.to_string()))?;
        let kind = operation.kind;
        if !kind.is_point_read() && !kind.is_point_write() {
            continue;
        }
        let key = std::mem::take(&mut operation.key);
        let key = key_in_store(with_keyspaces, operation.keyspace, key);
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
