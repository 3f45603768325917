//! What a transaction has written and nobody else sees yet.
//!
//! ```text
//! keyspaces   one map each: key -> value, or that it was deleted        what its own reads see, and its commit writes
//!             one set each of ranges that were deleted; what is in the map came after them
//! undo        (keyspace, what was there before), oldest first           what a rollback to a savepoint puts back
//! marks       places in `undo`, oldest first                            the savepoints that are still there
//! ```
//! Nothing is noted for undoing before the first savepoint. A rollback takes the later marks away: writes that come
//! afterwards fill `undo` again, so a place alone would not show that it is another one.
//!
//! Thread safety: plain data. Not here: limits, and what lies below these writes.

use super::iter::Own;
use crate::catalog::KeyspaceState;
use crate::chunk::covers::range_record;
use crate::expiry::ReadTime;
use crate::op::Op;
use crate::range_set::{Added, RangeSet};
use crate::record::RecordRef;
use crate::sync::Arc;
use evendb_storage::codec::hash_key;
use evendb_storage::{EXPIRY_BYTES, Kind, Time, Version};
use std::collections::BTreeMap;

/// What was done with a key.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// It got a value, until a time if there is one.
    Put(Arc<[u8]>, Option<Time>),
    Deleted,
    DeletedOnce,
    /// Operands, as a record lists them, over what lies below the transaction's writes.
    Operands(Arc<[u8]>),
}

impl Written {
    /// The value that the transaction sees, whose time is `time`; none of operands.
    pub(super) fn live(&self, time: Time) -> Option<&Arc<[u8]>> {
        match self {
            Written::Put(_, Some(expires)) if ReadTime::At(time).is_past(*expires) => None,
            Written::Put(value, _) => Some(value),
            Written::Deleted | Written::DeletedOnce | Written::Operands(_) => None,
        }
    }

    /// What was put, or merged.
    pub(super) fn value(&self) -> &[u8] {
        match self {
            Written::Put(value, _) | Written::Operands(value) => value,
            Written::Deleted | Written::DeletedOnce => &[],
        }
    }

    /// Bytes of the value as it is stored.
    pub(super) fn stored_len(&self) -> usize {
        let expires = matches!(self, Written::Put(_, Some(_)));
        self.value().len() + if expires { EXPIRY_BYTES } else { 0 }
    }

    fn record(&self, key: &[u8]) -> RecordRef {
        let hash = hash_key(key);
        match self {
            Written::Put(value, expires) => RecordRef::put(key, value, *expires, hash),
            Written::Deleted => RecordRef::new(key, &[], Kind::Delete, hash),
            Written::DeletedOnce => RecordRef::new(key, &[], Kind::SingleDelete, hash),
            Written::Operands(operands) => RecordRef::new(key, operands, Kind::Merge, hash),
        }
    }
}

/// The writes to one keyspace, by key.
pub(super) type Writes = BTreeMap<Box<[u8]>, Written>;

/// See the module.
pub(super) struct OwnWrites {
    /// Tells the transaction from others: the version that it registered when it began.
    begun: Version,
    keyspaces: Vec<OwnKeyspace>,
    undo: Vec<Undo>,
    marks: Vec<Mark>,
    /// Marks given so far.
    marks_given: u64,
}

/// The writes to one keyspace.
struct OwnKeyspace {
    state: Arc<KeyspaceState>,
    writes: Writes,
    deleted: RangeSet,
}

/// Puts back what was there before a write.
struct Undo {
    keyspace: usize,
    what: UndoWhat,
}

enum UndoWhat {
    Key(Box<[u8]>, Option<Written>),
    /// A range deletion, and the writes that it took away.
    Range(Added, Writes),
}

/// A place to which the writes can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Of which transaction, and which of its marks.
    begun: Version,
    number: u64,
    /// The length of `undo`.
    undo: usize,
}

impl Mark {
    /// How many were given before it.
    pub(super) fn number(self) -> u64 {
        self.number
    }
}

impl OwnWrites {
    pub(super) fn new(begun: Version) -> OwnWrites {
        OwnWrites {
            begun,
            keyspaces: Vec::new(),
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
        let each = self.keyspaces.iter();
        each.map(|own| own.writes.len() + own.deleted.len()).sum()
    }

    /// The writes to a keyspace, if there are any.
    fn own(&self, keyspace: &KeyspaceState) -> Option<&OwnKeyspace> {
        let mut known = self.keyspaces.iter();
        known.find(|known| known.state.id == keyspace.id)
    }

    /// The place of a keyspace that is written to.
    fn place(&mut self, keyspace: &Arc<KeyspaceState>) -> usize {
        let mut known = self.keyspaces.iter();
        let known = known.position(|known| known.state.id == keyspace.id);
        known.unwrap_or_else(|| {
            self.keyspaces.push(OwnKeyspace {
                state: keyspace.clone(),
                writes: Writes::new(),
                deleted: RangeSet::default(),
            });
            self.keyspaces.len() - 1
        })
    }

    fn note(&mut self, keyspace: usize, what: UndoWhat) {
        if !self.marks.is_empty() {
            self.undo.push(Undo { keyspace, what });
        }
    }

    pub(super) fn set(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8], written: Written) {
        let place = self.place(keyspace);
        let before = self.keyspaces[place].writes.insert(key.into(), written);
        self.note(place, UndoWhat::Key(key.into(), before));
    }

    /// Deletes the keys from `low` to below `high`, which are not none.
    pub(super) fn delete_range(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        low: &[u8],
        high: Option<&[u8]>,
    ) {
        let place = self.place(keyspace);
        let own = &mut self.keyspaces[place];
        let added = own.deleted.add(low, high);
        let mut gone = own.writes.split_off(low);
        let behind = high.map(|high| gone.split_off(high));
        own.writes.extend(behind.into_iter().flatten());
        self.note(place, UndoWhat::Range(added, gone));
    }

    /// What was written to the key, if anything: nothing but a delete where a range was deleted.
    pub(super) fn get(&self, keyspace: &KeyspaceState, key: &[u8]) -> Option<Written> {
        let own = self.own(keyspace)?;
        let written = own.writes.get(key).cloned();
        written.or_else(|| own.deleted.contains(key).then_some(Written::Deleted))
    }

    /// The writes to a keyspace by key, and the ranges that were deleted before them, if any.
    pub(super) fn of(&self, keyspace: &KeyspaceState, time: Time) -> Own<'_> {
        let own = self.own(keyspace);
        let writes = own.map(|own| &own.writes);
        let deleted = own.map(|own| &own.deleted);
        (
            writes.filter(|writes| !writes.is_empty()),
            deleted.filter(|deleted| !deleted.is_empty()),
            time,
        )
    }

    /// All writes as one write has them: first the ranges that were deleted, then all others; each in the order of
    /// keyspaces' ids and of keys.
    pub(super) fn ops(&self) -> Vec<Op<'_>> {
        let mut keyspaces: Vec<&OwnKeyspace> = self.keyspaces.iter().collect();
        keyspaces.sort_by_key(|own| own.state.id);
        let ranges = keyspaces.iter().flat_map(|own| {
            let each = own.deleted.iter();
            each.map(|(low, high)| Op::range(&own.state, range_record(low, high)))
        });
        let ones = keyspaces.iter().flat_map(|own| {
            let each = own.writes.iter();
            each.map(|(key, written)| Op::one(&own.state, written.record(key)))
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

    /// Takes back what was written since the mark. Whether the mark is one of those that are still there.
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
            let own = &mut self.keyspaces[undo.keyspace];
            match undo.what {
                UndoWhat::Key(key, Some(before)) => drop(own.writes.insert(key, before)),
                UndoWhat::Key(key, None) => drop(own.writes.remove(&key)),
                UndoWhat::Range(added, mut gone) => {
                    own.deleted.take_back(added);
                    own.writes.append(&mut gone);
                }
            }
        }
        true
    }
}
