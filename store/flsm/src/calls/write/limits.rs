//! Refuses records and batches that are too large, before anything is written.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use evendb_storage::table::KEY_BYTES_MAX;

/// Bytes that a record counts in addition to key and value.
pub(crate) const RECORD_BYTES: u64 = 64;
/// The limit of all engines: 9 bytes less than 4 GiB.
const VALUE_BYTES_MAX: u64 = (1 << 32) - 9;

/// Refuses a record that is too large by itself.
pub(crate) fn check_record(options: &Options, key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!(
            "a key of {} bytes; at most {KEY_BYTES_MAX} are allowed",
            key.len()
        );
        return Err(Error::new(ErrorKind::KeyTooLarge, message));
    }
    let counted = counted(key, value);
    let most = options.batch_bytes_max();
    if counted > most || value.len() as u64 > VALUE_BYTES_MAX {
        let message = format!(
            "a key and a value of {} bytes; at most {} are allowed with this memory budget",
            key.len() + value.len(),
            (most - RECORD_BYTES).min(VALUE_BYTES_MAX),
        );
        return Err(Error::new(ErrorKind::ValueTooLarge, message));
    }
    Ok(())
}

/// The bytes that a record counts in a batch.
pub(crate) fn counted(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + RECORD_BYTES
}

/// Refuses a batch that counts too many bytes.
pub(crate) fn check_batch(options: &Options, counted: u64) -> Result<()> {
    let most = options.batch_bytes_max();
    if counted > most {
        let message = format!(
            "a batch that counts {counted} bytes (keys, values and {RECORD_BYTES} for each record); at most {most} are \
             allowed with this memory budget"
        );
        return Err(Error::new(ErrorKind::BatchTooLarge, message));
    }
    Ok(())
}
