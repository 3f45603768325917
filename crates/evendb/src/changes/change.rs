//! [`Change`]: one record of the commit log, as a consumer sees it.
//!
//! A change owns the record's payload; its writes point into it.

use super::position::Position;
use crate::expiry::time_of_day;
use crate::folding::operands_of;
use crate::options::Durability;
use crate::sync::Arc;
use evendb_storage::Time;
use std::fmt;
use std::ops::{Bound, Range};
use std::time::SystemTime;

/// One write of a [`Change`], in its payload.
pub(super) struct Place {
    pub(super) keyspace: Arc<str>,
    pub(super) keyspace_id: u32,
    pub(super) key: Range<usize>,
    /// None if the key was deleted, or merged.
    pub(super) value: Option<Range<usize>>,
    /// When the value expires, if it does.
    pub(super) expires: Option<Time>,
    /// Of a range deletion, the first key behind it; empty for the end of the keyspace.
    pub(super) behind: Option<Range<usize>>,
    /// Of a merge, the list of its operands.
    pub(super) operands: Option<Range<usize>>,
}

/// What one put, delete, batch or transaction wrote, whole.
pub struct Change {
    pub(super) position: Position,
    pub(super) durability: Durability,
    pub(super) payload: Vec<u8>,
    pub(super) places: Vec<Place>,
}

/// One write of a [`Change`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Write<'a> {
    /// The keyspace's name.
    pub keyspace: &'a str,
    /// Its number. A keyspace that is dropped and made again under the same name has another one.
    pub keyspace_id: u32,
    /// The key; of a range deletion the least one.
    pub key: &'a [u8],
    /// The value that was put, or `None` if the key was deleted, or a range, or merged.
    pub value: Option<&'a [u8]>,
    /// The operands, if this is a merge. To merge them in their order gives what the database has.
    pub operands: Option<Operands<'a>>,
    /// When the value that was put expires, if it does. That it has expired is no change of its own.
    pub expires: Option<SystemTime>,
    /// Up to where keys were deleted, if this is the deletion of a range: below a key, or to the end of the keyspace.
    pub deleted_to: Option<Bound<&'a [u8]>>,
}

/// The operands of a merge, oldest first, at least one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Operands<'a>(&'a [u8]);

impl<'a> Operands<'a> {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        operands_of(self.0)
    }
}

impl fmt::Debug for Operands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The writes of a [`Change`].
pub struct Writes<'a> {
    payload: &'a [u8],
    places: std::slice::Iter<'a, Place>,
}

impl Change {
    /// The position after this change. A consumer that has taken it in keeps this, and goes on from there.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What the change survives for certain: [`Durability::Sync`] if it was known to survive power loss when it was
    /// read, else [`Durability::Process`].
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// What was written: first the ranges that were deleted, then puts and deletes of keys, each ordered by keyspace and key,
    /// each key once. Carried out in this order they give what the database has. At least one write.
    pub fn writes(&self) -> Writes<'_> {
        Writes {
            payload: &self.payload,
            places: self.places.iter(),
        }
    }

    /// How many writes it has.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has none: never.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl<'a> IntoIterator for &'a Change {
    type Item = Write<'a>;
    type IntoIter = Writes<'a>;

    fn into_iter(self) -> Writes<'a> {
        self.writes()
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Write<'a>;

    fn next(&mut self) -> Option<Write<'a>> {
        let place = self.places.next()?;
        // The ranges were made from this payload.
        let bytes = |range: &Range<usize>| self.payload.get(range.clone()).unwrap_or_default();
        Some(Write {
            keyspace: &place.keyspace,
            keyspace_id: place.keyspace_id,
            key: bytes(&place.key),
            value: place.value.as_ref().map(bytes),
            operands: place.operands.as_ref().map(bytes).map(Operands),
            expires: place.expires.map(time_of_day),
            deleted_to: place.behind.as_ref().map(bytes).map(|behind| match behind {
                [] => Bound::Unbounded,
                behind => Bound::Excluded(behind),
            }),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl ExactSizeIterator for Writes<'_> {}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("position", &self.position)
            .field("writes", &self.places.len())
            .finish_non_exhaustive()
    }
}
