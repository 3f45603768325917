//! One record to write, and its limits.

use crate::catalog::KeyspaceState;
use crate::error::{Error, ErrorKind, Result};
use crate::record::RecordRef;
use evendb_storage::Kind;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// What a record counts beside its key and value towards the largest write: about what is kept with it in
/// memory. A number of the interface, said in its documentation; what is reserved is counted exactly.
pub(crate) const COUNTED_BYTES: u64 = 64;

/// One record to write.
pub(crate) struct Op<'a> {
    pub(crate) keyspace: &'a KeyspaceState,
    pub(crate) record: RecordRef,
}

/// What a record takes of a page of its delta: 11 bytes where the page is full, 21 where a split has just
/// halved it, and a little of the directory. The first records of a delta take more, which is charged
/// when they are linked.
const INDEX_BYTES: u64 = 24;

/// What is reserved for a record: itself and its part of the delta's pages.
pub(crate) fn memory_bytes(record: &RecordRef) -> u64 {
    record.memory_bytes() as u64 + INDEX_BYTES
}

/// What the records of one write come to, counted once for all that ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) deletes: u64,
    /// Bytes of keys and values.
    pub(crate) data_bytes: u64,
    /// What is reserved of the deltas' memory.
    pub(crate) memory_bytes: u64,
}

impl Totals {
    pub(crate) fn of(ops: &[Op<'_>]) -> Totals {
        let mut totals = Totals::default();
        for Op { record, .. } in ops {
            totals.records += 1;
            totals.deletes += u64::from(record.kind() == Kind::Delete);
            totals.data_bytes += record.data_bytes() as u64;
            totals.memory_bytes += memory_bytes(record);
        }
        totals
    }

    /// Whether the write gives space back in the end: then it may use what is kept back for a full disk.
    pub(crate) fn deletes_only(&self) -> bool {
        self.deletes == self.records
    }

    /// What counts towards the largest write.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.data_bytes + COUNTED_BYTES * self.records
    }
}

/// Rejects keys and values that are over the limits.
pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!(
            "a key of {} bytes; at most {KEY_BYTES_MAX} are allowed",
            key.len()
        );
        return Err(Error::new(ErrorKind::KeyTooLarge, message));
    }
    if u32::try_from(value.len()).is_err() {
        let message = format!(
            "a value of {} bytes; at most 4 GiB - 1 are allowed",
            value.len()
        );
        return Err(Error::new(ErrorKind::ValueTooLarge, message));
    }
    Ok(())
}
