//! [`Work`]: what a store of the lab is asked for an operation of a trace.
//!
//! Not here: how it follows from the operation (`plan`), and how a store is asked (`worker`).

use evendb_trace::{Kind, Outcome};

use crate::purposes::RangeEnd;

/// What the store is asked.
pub(super) struct Work {
    /// When it is due, in nanoseconds since the start. 0 if operations are not due at times.
    pub(super) due_nanos: u64,
    /// The kind that counts it.
    pub(super) kind: Kind,
    pub(super) ask: Ask,
    pub(super) keyspace: u32,
    /// Bytes in front of each key that are not the trace's.
    pub(super) prefix: usize,
    /// Its result in the trace, as far as that can be compared.
    pub(super) expected: Outcome,
    /// It may find nothing, or no record: the trace says so, or the trace saw another moment or a
    /// transaction's own writes.
    pub(super) may_miss: bool,
    /// The bytes that it finds may be made up.
    pub(super) may_be_made_up: bool,
}

impl Work {
    /// A key of it as in the trace.
    pub(super) fn bare_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix..).unwrap_or_default()
    }
}

pub(super) enum Ask {
    Get(Vec<u8>),
    /// A value, and its time of expiry in nanoseconds from the beginning of the trace, if it does
    /// not stay for ever.
    Put(Vec<u8>, Bytes, Option<u64>),
    Delete(Vec<u8>),
    /// From a key to below another key, or to the last one of all.
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
    Merge(Vec<u8>, Bytes),
    /// The value of this key has expired, by the time to live in the trace.
    Expire(Vec<u8>),
    /// The record at an end of a range.
    Pop(Range, RangeEnd),
    /// A batch or transaction: its parts, in their order.
    Parts(Vec<Part>),
    /// At most `limit` records of the range, from this end of it on. The trace had `expected`
    /// records.
    Scan {
        range: Range,
        begins: RangeEnd,
        limit: u64,
        expected: Option<u64>,
    },
}

/// From a key on, to below another one.
pub(super) struct Range {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

impl Range {
    /// The limits in the form that stores take.
    pub(super) fn limits(&self) -> (&[u8], Option<&[u8]>) {
        (&self.low, self.high.as_deref())
    }
}

/// A value: that of the trace, or a made-up one of this length.
pub(super) enum Bytes {
    Known(Vec<u8>),
    Len(usize),
}

impl Bytes {
    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Known(value) => value.len(),
            Bytes::Len(len) => *len,
        }
    }
}

/// One write of a batch or transaction.
pub(super) enum Part {
    Put(Vec<u8>, Bytes, Option<u64>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Bytes),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Part {
    /// The key that it writes, if it writes a single one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Part::Put(key, ..) | Part::Delete(key) | Part::Merge(key, _) => Some(key),
            Part::DeleteRange(..) => None,
        }
    }

    /// The estimated bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let known = |bytes: &Bytes| match bytes {
            Bytes::Known(value) => value.len(),
            Bytes::Len(_) => 0,
        };
        size_of::<Part>()
            + match self {
                Part::Put(key, value, _) | Part::Merge(key, value) => key.len() + known(value),
                Part::Delete(key) => key.len(),
                Part::DeleteRange(low, high) => low.len() + high.as_ref().map_or(0, Vec::len),
            }
    }
}
