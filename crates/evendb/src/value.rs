//! [`Value`]: bytes of a record, without a copy.
//!
//! A value names the part of the store that holds its bytes (a record of a delta, a page of a
//! munk, a row) by a counted reference and the range within it; what was read from a table is copied
//! out of its block. It pins at most a page or a record, outlives iterators, snapshots and the
//! database itself, and does not keep the database open.
//!
//! A page that a value keeps stays charged to the memory budget. When such pages are many, values of
//! pages are copied too.

use crate::munk::PageArc;
use crate::record::RecordRef;
use evendb_storage::table::Block;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What keeps a value's bytes alive.
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
}

impl Owner {
    #[inline]
    pub(crate) fn slice(&self, range: &Range<usize>) -> &[u8] {
        match self {
            // A record's range is over its key bytes followed by its value bytes.
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
        Value { owner, range }
    }

    /// The value of a record of a delta.
    pub(crate) fn of_record(record: RecordRef) -> Value {
        let range = record.shown();
        if range.is_empty() {
            return Value::new(Owner::Bytes(Arc::from(&[][..])), 0..0);
        }
        Value::new(Owner::Record(record), range)
    }

    pub(crate) fn of_bytes(bytes: Arc<[u8]>) -> Value {
        let range = 0..bytes.len();
        Value::new(Owner::Bytes(bytes), range)
    }

    /// Bytes of the allocation that it keeps, if that is a block.
    pub(crate) fn pinned_bytes(&self) -> usize {
        match &self.owner {
            Owner::Block(block) => block.bytes().len(),
            _ => self.len(),
        }
    }

    /// The same bytes in an allocation of their own, so that nothing else is kept for them.
    pub(crate) fn detached(self) -> Value {
        match &self.owner {
            Owner::Page(_) | Owner::Block(_) => Value::of_bytes(Arc::from(&*self)),
            Owner::Record(_) | Owner::Bytes(_) => self,
        }
    }

    /// The bytes, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        (**self).to_vec()
    }
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.owner.slice(&self.range)
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.to_vec()
    }
}
