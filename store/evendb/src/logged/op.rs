//! One record to write, one range to delete, and their limits.

use crate::catalog::KeyspaceState;
use crate::error::{Error, ErrorKind, Result};
use crate::record::RecordRef;
use evendb_storage::{EXPIRY_BYTES, Kind};

pub(crate) use evendb_keys::prefix_end;

/// The greatest length of a key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// The bytes that a record adds, beside its key and value, to the size that limits a write: about
/// its overhead in memory. The interface documents this number; reservations are exact.
pub(crate) const COUNTED_BYTES: u64 = 64;

/// The effect of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpKind {
    /// A record of one key.
    One(Kind),
    /// A range deletion (`chunk/covers/mod.rs`); the record's key and value are its limits.
    RangeDelete,
}

/// One record to write.
pub(crate) struct Op<'a> {
    pub(crate) keyspace: &'a KeyspaceState,
    pub(crate) record: RecordRef,
    /// The record that is linked instead: a merge's record folded with the records that it meets,
    /// or a plain delete for a single delete beside a merge operator.
    pub(crate) folded: Option<RecordRef>,
    is_range: bool,
}

impl<'a> Op<'a> {
    /// A put or delete of one key.
    pub(crate) fn one(keyspace: &'a KeyspaceState, record: RecordRef) -> Op<'a> {
        Op {
            keyspace,
            record,
            folded: None,
            is_range: false,
        }
    }

    /// A range deletion, by its record.
    pub(crate) fn range(keyspace: &'a KeyspaceState, record: RecordRef) -> Op<'a> {
        Op {
            keyspace,
            record,
            folded: None,
            is_range: true,
        }
    }

    /// The record that readers will see.
    pub(crate) fn linked(&self) -> &RecordRef {
        self.folded.as_ref().unwrap_or(&self.record)
    }

    pub(crate) fn kind(&self) -> OpKind {
        match self.is_range {
            true => OpKind::RangeDelete,
            false => OpKind::One(self.record.kind()),
        }
    }
}

/// The number of range deletions among `ops`: they come first.
pub(crate) fn ranges_of(ops: &[Op<'_>]) -> usize {
    ops.iter().take_while(|op| op.is_range).count()
}

/// The bytes of a record in a page of its delta: 11 if the page is full, 21 after a split has
/// halved it, and a part of the directory. The first records of a delta take more; that is charged
/// when they are linked.
const INDEX_BYTES: u64 = 24;

/// The bytes that a range deletion reserves in addition: about the size of the copies of lists and
/// views until no reader uses the old ones. Where puts are slowed by the byte, range deletions wait
/// in proportion to this.
const RANGE_BYTES: u64 = 1024;

/// The bytes that a record reserves: its own and its part of the delta's pages.
pub(crate) fn memory_bytes(record: &RecordRef) -> u64 {
    record.memory_bytes() as u64 + INDEX_BYTES
}

/// Sums over the records of one write, counted once for all users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) deletes: u64,
    /// The single deletes among the deletes.
    pub(crate) single_deletes: u64,
    /// Puts with an expiry.
    pub(crate) expiring: u64,
    pub(crate) range_deletes: u64,
    pub(crate) merges: u64,
    /// The bytes of keys and values.
    pub(crate) data_bytes: u64,
    /// The reserved bytes of the deltas' memory.
    pub(crate) memory_bytes: u64,
}

impl Totals {
    pub(crate) fn of(ops: &[Op<'_>]) -> Totals {
        let mut totals = Totals::default();
        for op in ops {
            let record = &op.record;
            totals.records += 1;
            match op.kind() {
                OpKind::One(Kind::Put | Kind::PutApart) => {}
                OpKind::One(Kind::Delete) => totals.deletes += 1,
                OpKind::One(Kind::Merge) => totals.merges += 1,
                OpKind::One(Kind::SingleDelete) => {
                    totals.deletes += 1;
                    totals.single_deletes += 1;
                }
                OpKind::One(Kind::PutUntil | Kind::PutUntilApart) => totals.expiring += 1,
                OpKind::RangeDelete => {
                    totals.range_deletes += 1;
                    totals.memory_bytes += RANGE_BYTES;
                }
            }
            totals.data_bytes += record.data_bytes() as u64;
            totals.memory_bytes += memory_bytes(record);
        }
        totals
    }

    /// Whether the write gives space back in the end: then it may use the room kept for a full
    /// disk.
    pub(crate) fn deletes_only(&self) -> bool {
        self.deletes + self.range_deletes == self.records
    }

    /// The bytes that count towards the limit of a write.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.data_bytes + COUNTED_BYTES * self.records
    }
}

/// The limits of a range as keys that can be put: a limit that is longer than any key is replaced
/// by the first key behind it. `None` if the range has no key; the inner `None` stands for no upper
/// limit.
pub(crate) fn range_limits(low: &[u8], high: Option<&[u8]>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let fit = |key: &[u8]| match key.get(..KEY_BYTES_MAX) {
        Some(front) if key.len() > KEY_BYTES_MAX => prefix_end(front),
        _ => Some(key.to_vec()),
    };
    let low = fit(low)?;
    let high = high.and_then(fit);
    let empty = high.as_ref().is_some_and(|high| *high <= low);
    (!empty).then_some((low, high))
}

/// Rejects keys and values over the limits. The time of an expiry may make a value longer.
pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!(
            "a key of {} bytes; at most {KEY_BYTES_MAX} are allowed",
            key.len()
        );
        return Err(Error::new(ErrorKind::KeyTooLarge, message));
    }
    if u32::try_from(value.len().saturating_add(EXPIRY_BYTES)).is_err() {
        let message = format!(
            "a value of {} bytes; at most 4 GiB - 9 are allowed",
            value.len()
        );
        return Err(Error::new(ErrorKind::ValueTooLarge, message));
    }
    Ok(())
}
