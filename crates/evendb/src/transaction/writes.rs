//! What a transaction has written and nobody else sees yet.
//!
//! ```text
//! keyspaces   one map each: key -> value, or nothing for a delete       what its own reads see, and its commit writes
//! undo        (keyspace, key, what was there before), oldest first      what a rollback to a savepoint puts back
//! marks       places in `undo`, oldest first                            the savepoints that are still there
//! ```
//! Nothing is noted for undoing before the first savepoint. A rollback takes the later marks away: writes that come
//! afterwards fill `undo` again, so a place alone would not show that it is another one.
//!
//! Thread safety: plain data. Not here: limits, and what lies below these writes.

use crate::catalog::KeyspaceState;
use crate::sync::Arc;
use evendb_storage::Version;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

/// A value, or nothing where the key was deleted.
pub(super) type Written = Option<Arc<[u8]>>;

/// The writes to one keyspace, by key.
type Writes = BTreeMap<Box<[u8]>, Written>;

/// See the module.
pub(super) struct OwnWrites {
    /// Tells the transaction from others: the version that it registered when it began.
    begun: Version,
    keyspaces: Vec<(Arc<KeyspaceState>, Writes)>,
    undo: Vec<Undo>,
    marks: Vec<Mark>,
    /// Marks given so far.
    marks_given: u64,
}

/// Puts back what was there before a write.
struct Undo {
    keyspace: usize,
    key: Box<[u8]>,
    before: Option<Written>,
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
        self.keyspaces.iter().all(|(_, writes)| writes.is_empty())
    }

    /// Distinct keys written.
    pub(super) fn len(&self) -> usize {
        self.keyspaces.iter().map(|(_, writes)| writes.len()).sum()
    }

    /// The place of a keyspace that was written to.
    fn place(&self, keyspace: &KeyspaceState) -> Option<usize> {
        let mut known = self.keyspaces.iter();
        known.position(|(known, _)| known.id == keyspace.id)
    }

    pub(super) fn set(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8], written: Written) {
        let place = self.place(keyspace).unwrap_or_else(|| {
            self.keyspaces.push((keyspace.clone(), Writes::new()));
            self.keyspaces.len() - 1
        });
        let before = self.keyspaces[place].1.insert(key.into(), written);
        if !self.marks.is_empty() {
            self.undo.push(Undo {
                keyspace: place,
                key: key.into(),
                before,
            });
        }
    }

    /// What was written to the key, if anything.
    pub(super) fn get(&self, keyspace: &KeyspaceState, key: &[u8]) -> Option<&Written> {
        let (_, writes) = &self.keyspaces[self.place(keyspace)?];
        writes.get(key)
    }

    /// The writes to keys from `low` to below `high`.
    pub(super) fn range(
        &self,
        keyspace: &KeyspaceState,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Option<Range<'_, Box<[u8]>, Written>> {
        let (_, writes) = &self.keyspaces[self.place(keyspace)?];
        let end = match high {
            // A map would panic.
            Some(high) if high <= low => return None,
            Some(high) => Bound::Excluded(high),
            None => Bound::Unbounded,
        };
        Some(writes.range::<[u8], _>((Bound::Included(low), end)))
    }

    /// All writes, in the order of keyspaces' ids and of keys.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&Arc<KeyspaceState>, &[u8], &Written)> {
        let mut keyspaces: Vec<_> = self.keyspaces.iter().collect();
        keyspaces.sort_by_key(|(keyspace, _)| keyspace.id);
        keyspaces.into_iter().flat_map(|(keyspace, writes)| {
            let each = writes.iter();
            each.map(move |(key, written)| (keyspace, &**key, written))
        })
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
            let writes = &mut self.keyspaces[undo.keyspace].1;
            match undo.before {
                Some(before) => writes.insert(undo.key, before),
                None => writes.remove(&undo.key),
            };
        }
        true
    }
}
