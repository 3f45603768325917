//! [`Value`]: bytes that a read has returned.

use evendb_storage::table::Block;
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

evendb_base::value_bytes!(Value);
