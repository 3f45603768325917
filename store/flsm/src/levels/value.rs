//! [`Value`]: bytes that a read has returned.

use evendb_storage::table::Block;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

#[derive(Clone)]
enum Owner {
    Bytes(Arc<[u8]>),
    Block(Block, Range<usize>),
}

/// A value or key that a read has returned; dereferences to its bytes. It outlives iterators,
/// snapshots and the database. A value that was read from a table may share the memory of its
/// block.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let db = evendb_flsm::Db::open(dir.path()).unwrap();
/// db.put("k", "v").unwrap();
/// let value = db.get("k").unwrap().unwrap();
/// assert_eq!(&*value, b"v");
/// ```
#[derive(Clone)]
pub struct Value(Owner);

impl Value {
    pub(crate) fn copied(bytes: &[u8]) -> Value {
        Value(Owner::Bytes(Arc::from(bytes)))
    }

    /// The bytes of a block in this range. They are copied if they are a small part of the memory
    /// that would be kept for them.
    pub(crate) fn in_block(block: Block, range: Range<usize>) -> Value {
        const PART: usize = 8;
        match range.len() < block.pinned_bytes() / PART {
            true => Value::copied(&block.bytes()[range]),
            false => Value(Owner::Block(block, range)),
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
        match &self.0 {
            Owner::Bytes(bytes) => bytes,
            Owner::Block(block, range) => &block.bytes()[range.clone()],
        }
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
