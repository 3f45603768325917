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

/// One write of a [`Change`], by its places in the payload.
pub(super) struct Place {
    pub(super) keyspace: Arc<str>,
    pub(super) keyspace_id: u32,
    pub(super) key: Range<usize>,
    /// `None` if the key was deleted or merged.
    pub(super) value: Option<Range<usize>>,
    /// The time at which the value expires, if it does.
    pub(super) expires: Option<Time>,
    /// In a range deletion, the first key behind the range; empty for the end of the keyspace.
    pub(super) behind: Option<Range<usize>>,
    /// In a merge, the list of its operands.
    pub(super) operands: Option<Range<usize>>,
}

/// All writes of one put, delete, batch or transaction.
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
    /// The name that the keyspace has now.
    pub keyspace: &'a str,
    /// The keyspace's number. A keyspace that is dropped and created again with the same name has a
    /// new number.
    pub keyspace_id: u32,
    /// The key; in a range deletion the lowest key.
    pub key: &'a [u8],
    /// The value that was put; `None` for a delete, a range deletion or a merge.
    pub value: Option<&'a [u8]>,
    /// The operands, if this is a merge. Merged in their order, they give the database's value.
    pub operands: Option<Operands<'a>>,
    /// The time at which the value that was put expires, if it does. The expiry itself is no
    /// change.
    pub expires: Option<SystemTime>,
    /// The end of a range deletion: below a key, or the end of the keyspace. `None` for other
    /// writes.
    pub deleted_to: Option<Bound<&'a [u8]>>,
}

/// The operands of a merge, the oldest first; there is at least one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Operands<'a>(&'a [u8]);

impl<'a> Operands<'a> {
    /// The operands one by one.
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
    /// The position after this change. A consumer that has applied the change stores this position,
    /// and continues from it.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What the change certainly survives: [`Durability::Sync`] if the database knew, when the
    /// change was read, that it survives power loss; otherwise [`Durability::Process`].
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The writes: first range deletions, then puts, merges and deletes of keys, each group ordered
    /// by keyspace and key, with each key once. Applied in this order they give the database's
    /// state. There is at least one write.
    pub fn writes(&self) -> Writes<'_> {
        Writes {
            payload: &self.payload,
            places: self.places.iter(),
        }
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no write: never true.
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
