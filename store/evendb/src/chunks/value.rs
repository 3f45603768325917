//! [`Value`]: bytes of a record, without a copy.
//!
//! A value holds a counted reference to the part of the store with its bytes (a record of a delta,
//! a page of a munk, a row), and the range within it. Bytes that were read from a table are copied
//! out of their block. A value pins at most a page or a record. It outlives iterators, snapshots
//! and the database itself, and does not keep the database open.
//!
//! A page that a value keeps stays charged to the memory budget. When values keep many such pages,
//! values in pages are copied, too.

use crate::munk::PageArc;
use crate::record::RecordRef;
use evendb_storage::table::Block;
use evendb_storage::{Apart, Kind};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The owner of a value's bytes.
#[derive(Clone)]
pub(crate) enum Owner {
    Record(RecordRef),
    Page(PageArc),
    Block(Block),
    Bytes(Arc<[u8]>),
}

/// A value or key that a read returned; dereferences to its bytes.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb::Db::open(dir.path()).unwrap();
/// db.put("k", "v").unwrap();
/// let value = db.get("k").unwrap().unwrap();
/// assert_eq!(&*value, b"v");
/// ```
#[derive(Clone)]
pub struct Value {
    owner: Owner,
    range: Range<usize>,
    /// The bytes are the place of the value. Such a value does not leave the engine before the
    /// bytes at that place replace it (`read/large_values.rs`).
    is_apart: bool,
}

/// Values up to this number of bytes are not worth a copy of their parts.
const SHORT_BYTES: usize = 4 << 10;

impl Owner {
    #[inline]
    pub(crate) fn slice(&self, range: &Range<usize>) -> &[u8] {
        match self {
            // The range of a record covers its key bytes followed by its value bytes.
            Owner::Record(record) => {
                let key = record.key();
                if range.start < key.len() || range.end <= key.len() {
                    &key[range.clone()]
                } else {
                    &record.value()[range.start - key.len()..range.end - key.len()]
                }
            }
            Owner::Page(page) => &page.bytes()[range.clone()],
            Owner::Block(block) => &block.bytes()[range.clone()],
            Owner::Bytes(bytes) => &bytes[range.clone()],
        }
    }
}

impl Value {
    pub(crate) fn new(owner: Owner, range: Range<usize>) -> Value {
        Value {
            owner,
            range,
            is_apart: false,
        }
    }

    /// Marks the value as a record of this kind has it: if the kind says so, the bytes are a place
    /// apart.
    #[inline]
    pub(crate) fn of_kind(mut self, kind: Kind) -> Value {
        self.is_apart = kind.is_apart();
        self
    }

    /// Whether the bytes are only the place of the value.
    #[inline]
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The place of a value that [is apart](Self::is_apart). Empty bytes give `None`: the place is
    /// unknown.
    pub(crate) fn place_apart(&self) -> Option<Apart> {
        Apart::decode(self.stored())
    }

    /// A value that is apart, at an unknown place: its reader asks for its key again.
    pub(crate) fn to_be_asked() -> Value {
        Value::of_bytes(Arc::from(&[][..])).of_kind(Kind::PutApart)
    }

    /// The bytes as in the record.
    #[inline]
    pub(crate) fn stored(&self) -> &[u8] {
        self.owner.slice(&self.range)
    }

    /// The value of a record of a delta.
    #[inline]
    pub(crate) fn of_record(record: RecordRef) -> Value {
        let (range, kind) = (record.shown(), record.kind());
        if range.is_empty() {
            return Value::new(Owner::Bytes(Arc::from(&[][..])), 0..0);
        }
        Value::new(Owner::Record(record), range).of_kind(kind)
    }

    pub(crate) fn of_bytes(bytes: Arc<[u8]>) -> Value {
        let range = 0..bytes.len();
        Value::new(Owner::Bytes(bytes), range)
    }

    /// The bytes at `part`, which is within the value. A short part does not keep a long value in
    /// memory.
    pub(crate) fn part(mut self, part: Range<usize>) -> Value {
        let whole = self.range.len();
        self.range = self.range.start + part.start..self.range.start + part.end;
        match whole > SHORT_BYTES && part.len() < whole / 2 {
            true => Value::of_bytes(Arc::from(self.stored())),
            false => self,
        }
    }

    /// The bytes of the allocation that it keeps, if that is a block.
    pub(crate) fn pinned_bytes(&self) -> usize {
        match &self.owner {
            Owner::Block(block) => block.bytes().len(),
            _ => self.range.len(),
        }
    }

    /// The same bytes in an allocation of their own, so that it keeps nothing else in memory.
    pub(crate) fn detached(self) -> Value {
        match &self.owner {
            Owner::Page(_) | Owner::Block(_) => Value {
                is_apart: self.is_apart,
                ..Value::of_bytes(Arc::from(self.stored()))
            },
            Owner::Record(_) | Owner::Bytes(_) => self,
        }
    }
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        assert!(!self.is_apart, "a value is read before it is given out");
        self.stored()
    }
}

evendb_base::value_bytes!(Value);
