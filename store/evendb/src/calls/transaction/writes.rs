//! The writes of a transaction that nobody else sees yet.
//!
//! ```text
//! keyspaces   a map for each: key -> value, or deleted     for its own reads and its commit
//!             a set for each of deleted ranges; the writes in the map came after them
//!             operands of a key are kept as lists, so that a further one copies few (operands.rs)
//! undo        (keyspace, the state before), oldest first   what a rollback to a savepoint restores
//! marks       indexes in `undo`, oldest first              the savepoints that still exist
//! ```
//! Nothing is noted for undoing before the first savepoint. A rollback removes the later marks.
//! Writes that come afterwards fill `undo` again, so an index alone would not show that it belongs
//! to another mark.
//!
//! Thread safety: plain data. Not here: limits, and the records below these writes.

use super::iter::Own;
use super::operands::Operands;
use crate::catalog::KeyspaceState;
use crate::chunk::covers::range_record;
use crate::error::Result;
use crate::expiry::ReadTime;
use crate::folding;
use crate::manifest::KeyspaceId;
use crate::op::Op;
use crate::range_set::{Added, RangeSet};
use crate::read::merges;
use crate::record::RecordRef;
use crate::sync::Arc;
use crate::value::Value;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EXPIRY_BYTES, Kind, Time, Version};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A value that was put, and the time at which it expires, if it does.
pub(super) type Base = (Arc<[u8]>, Option<Time>);

/// The write to a key.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Put(Base),
    Deleted,
    DeletedOnce,
    /// Operands over a value that the transaction has put, or, without one, over the value below
    /// its writes.
    Merged(Option<Base>, Operands),
}

impl Written {
    /// Whether its result depends on the value below the transaction's writes.
    pub(super) fn lies_on_more(&self) -> bool {
        matches!(self, Written::Merged(None, _))
    }

    /// The value that the transaction sees at the time `time`. `below` gives the value below its
    /// writes, and is called only if that counts.
    pub(super) fn seen(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        time: Time,
        below: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        match self {
            // A value expires together with the operands that were merged into it.
            Written::Put((_, Some(expires))) | Written::Merged(Some((_, Some(expires))), _)
                if ReadTime::At(time).is_past(*expires) =>
            {
                Ok(None)
            }
            Written::Put((value, _)) => Ok(Some(Value::of_bytes(value.clone()))),
            Written::Deleted | Written::DeletedOnce => Ok(None),
            Written::Merged(Some((value, _)), operands) => {
                merges::over(keyspace, key, Some(value), &operands.lists())
            }
            Written::Merged(None, operands) => {
                merges::over(keyspace, key, below()?.as_deref(), &operands.lists())
            }
        }
    }

    /// The value that was put.
    pub(super) fn value(&self) -> &[u8] {
        match self {
            Written::Put((value, _)) => value,
            Written::Deleted | Written::DeletedOnce | Written::Merged(..) => &[],
        }
    }

    /// Bytes of the value as it is stored; if operands are still to be folded, the bytes of
    /// everything that is kept.
    pub(super) fn stored_len(&self) -> usize {
        let of_base = |(value, expires): &Base| value.len() + expires.map_or(0, |_| EXPIRY_BYTES);
        match self {
            Written::Put(base) => of_base(base),
            Written::Deleted | Written::DeletedOnce => 0,
            Written::Merged(base, operands) => base.as_ref().map_or(0, of_base) + operands.len(),
        }
    }

    fn record(&self, keyspace: &KeyspaceState, key: &[u8]) -> Result<RecordRef> {
        let hash = RamHash::of(key);
        Ok(match self {
            Written::Put((value, expires)) => RecordRef::put(key, value, *expires, hash),
            Written::Deleted => RecordRef::new(key, &[], Kind::Delete, hash),
            Written::DeletedOnce => RecordRef::new(key, &[], Kind::SingleDelete, hash),
            Written::Merged(None, operands) => {
                let operator = keyspace.merge_operator.get();
                let value = folding::joined(operator, key, &operands.lists());
                RecordRef::new(key, &value, Kind::Merge, hash)
            }
            Written::Merged(Some((value, expires)), operands) => {
                match merges::over(keyspace, key, Some(value), &operands.lists())? {
                    Some(value) => RecordRef::put(key, &value, *expires, hash),
                    None => RecordRef::new(key, &[], Kind::Delete, hash),
                }
            }
        })
    }
}

/// The writes to one keyspace, by key.
pub(super) type Writes = BTreeMap<Box<[u8]>, Written>;

/// See the module.
pub(super) struct OwnWrites {
    /// Identifies the transaction: the version that it registered when it began.
    begun: Version,
    keyspaces: BTreeMap<KeyspaceId, OwnKeyspace>,
    undo: Vec<Undo>,
    marks: Vec<Mark>,
    /// The number of marks given so far.
    marks_given: u64,
}

/// The writes to one keyspace.
struct OwnKeyspace {
    state: Arc<KeyspaceState>,
    writes: Writes,
    deleted: RangeSet,
}

/// Restores the state before a write.
struct Undo {
    keyspace: KeyspaceId,
    what: UndoWhat,
}

enum UndoWhat {
    Key(Box<[u8]>, Option<Written>),
    /// A range deletion, and the writes that it removed.
    Range(Added, Vec<(Box<[u8]>, Written)>),
}

/// A point to which the writes can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// The transaction, and the number of the mark in it.
    begun: Version,
    number: u64,
    /// The length of `undo`.
    undo: usize,
}

impl Mark {
    /// The number of marks that were given before it.
    pub(super) fn number(self) -> u64 {
        self.number
    }
}

impl OwnWrites {
    pub(super) fn new(begun: Version) -> OwnWrites {
        OwnWrites {
            begun,
            keyspaces: BTreeMap::new(),
            undo: Vec::new(),
            marks: Vec::new(),
            marks_given: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Distinct keys written, and ranges deleted.
    pub(super) fn len(&self) -> usize {
        let each = self.keyspaces.values();
        each.map(|own| own.writes.len() + own.deleted.len()).sum()
    }

    /// The writes to a keyspace; makes an empty entry if there are none.
    fn of_keyspace(&mut self, keyspace: &Arc<KeyspaceState>) -> &mut OwnKeyspace {
        let own = self.keyspaces.entry(keyspace.id);
        own.or_insert_with(|| OwnKeyspace {
            state: keyspace.clone(),
            writes: Writes::new(),
            deleted: RangeSet::default(),
        })
    }

    fn note(&mut self, keyspace: KeyspaceId, what: UndoWhat) {
        if !self.marks.is_empty() {
            self.undo.push(Undo { keyspace, what });
        }
    }

    pub(super) fn set(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8], written: Written) {
        let own = self.of_keyspace(keyspace);
        let before = own.writes.insert(key.into(), written);
        self.note(keyspace.id, UndoWhat::Key(key.into(), before));
    }

    /// Deletes the keys from `low` to below `high`; the range is not empty.
    pub(super) fn delete_range(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        low: &[u8],
        high: Option<&[u8]>,
    ) {
        let own = self.of_keyspace(keyspace);
        let added = own.deleted.add(low, high);
        let gone = take_out(&mut own.writes, low, high);
        self.note(keyspace.id, UndoWhat::Range(added, gone));
    }

    /// The write to the key, if there is one; a delete if the key is in a deleted range.
    pub(super) fn get(&self, keyspace: &KeyspaceState, key: &[u8]) -> Option<Written> {
        let own = self.keyspaces.get(&keyspace.id)?;
        let written = own.writes.get(key).cloned();
        written.or_else(|| own.deleted.contains(key).then_some(Written::Deleted))
    }

    /// The writes to a keyspace by key, and the ranges that were deleted before them, if any.
    pub(super) fn of(&self, keyspace: &KeyspaceState, time: Time) -> Own<'_> {
        let own = self.keyspaces.get(&keyspace.id);
        let writes = own.map(|own| &own.writes);
        let deleted = own.map(|own| &own.deleted);
        (
            writes.filter(|writes| !writes.is_empty()),
            deleted.filter(|deleted| !deleted.is_empty()),
            time,
        )
    }

    /// All writes in the order of a write: first the deleted ranges, then all others; each in the
    /// order of keyspaces' ids and of keys.
    ///
    /// # Errors
    /// `MergeFailed` for operands over a value that was put.
    pub(super) fn ops(&self) -> Result<Vec<Op<'_>>> {
        let ranges = self.keyspaces.values().flat_map(|own| {
            let each = own.deleted.iter();
            each.map(|(low, high)| Ok(Op::range(&own.state, range_record(low, high))))
        });
        let ones = self.keyspaces.values().flat_map(|own| {
            let each = own.writes.iter();
            each.map(|(key, written)| Ok(Op::one(&own.state, written.record(&own.state, key)?)))
        });
        ranges.chain(ones).collect()
    }

    pub(super) fn mark(&mut self) -> Mark {
        let mark = Mark {
            begun: self.begun,
            number: self.marks_given,
            undo: self.undo.len(),
        };
        self.marks_given += 1;
        self.marks.push(mark);
        mark
    }

    /// Takes back the writes since the mark. Returns whether the mark still exists.
    pub(super) fn roll_back(&mut self, mark: Mark) -> bool {
        let by_number = |other: &Mark| other.number.cmp(&mark.number);
        let place = self.marks.binary_search_by(by_number);
        let Some(place) = place.ok().filter(|&place| self.marks[place] == mark) else {
            return false;
        };
        self.marks.truncate(place + 1);
        while self.undo.len() > mark.undo
            && let Some(undo) = self.undo.pop()
        {
            let Some(own) = self.keyspaces.get_mut(&undo.keyspace) else {
                continue;
            };
            match undo.what {
                UndoWhat::Key(key, Some(before)) => drop(own.writes.insert(key, before)),
                UndoWhat::Key(key, None) => drop(own.writes.remove(&key)),
                UndoWhat::Range(added, gone) => {
                    own.deleted.take_back(added);
                    own.writes.extend(gone);
                }
            }
        }
        true
    }
}

/// Removes the entries of a map from `low` to below `high`, and moves no other entry.
fn take_out<K: Ord + Borrow<[u8]> + Clone, V>(
    map: &mut BTreeMap<K, V>,
    low: &[u8],
    high: Option<&[u8]>,
) -> Vec<(K, V)> {
    let high = high.map_or(Bound::Unbounded, Bound::Excluded);
    let inside = map.range::<[u8], _>((Bound::Included(low), high));
    let keys: Vec<K> = inside.map(|(key, _)| key.clone()).collect();
    let gone = keys.iter().filter_map(|key| map.remove_entry(key.borrow()));
    gone.collect()
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    std::thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// A key that counts how often keys in a map are compared.
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct Counted(Vec<u8>);

    impl Ord for Counted {
        fn cmp(&self, other: &Counted) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Borrow<[u8]> for Counted {
        fn borrow(&self) -> &[u8] {
            &self.0
        }
    }

    /// A range deletion in a transaction costs the writes that it deletes, and not all writes of
    /// the transaction.
    #[test]
    fn what_a_range_has_is_taken_out_and_put_back_without_a_step_for_the_rest() {
        let key = |number: u32| Counted(format!("{number:08}").into_bytes());
        let mut map: BTreeMap<Counted, u32> = (0..10_000).map(|n| (key(n), n)).collect();
        let whole = map.clone();
        COMPARED.set(0);
        for number in 0..1_000 {
            let (low, high) = (key(5 * number), key(5 * number + 2));
            let gone = take_out(&mut map, &low.0, Some(&high.0));
            assert_eq!(
                gone.iter().map(|(_, n)| *n).collect::<Vec<_>>(),
                [5 * number, 5 * number + 1]
            );
            map.extend(gone);
        }
        let compared = COMPARED.get();
        assert!(compared <= 2_000 * 60, "{compared} comparisons");
        assert_eq!(map, whole);
        assert_eq!(take_out(&mut map, &key(9_000).0, None).len(), 1_000);
        assert_eq!(map.len(), 9_000);
    }
}
