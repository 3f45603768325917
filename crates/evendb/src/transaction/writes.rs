//! What a transaction has written and nobody else sees yet.
//!
//! ```text
//! keyspaces   one map each: key -> value, or nothing for a delete       what its own reads see, and its commit writes
//! undo        (keyspace, key, what was there before), oldest first      what a rollback to a savepoint puts back
//! ```
//! Nothing is noted for undoing before the first savepoint.
//!
//! Thread safety: plain data. Not here: limits, and what lies below these writes.

use crate::catalog::KeyspaceState;
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

/// A value, or nothing where the key was deleted.
pub(super) type Written = Option<Arc<[u8]>>;

/// The writes to one keyspace, by key.
type Writes = BTreeMap<Box<[u8]>, Written>;

/// See the module.
#[derive(Default)]
pub(super) struct OwnWrites {
    keyspaces: Vec<(Arc<KeyspaceState>, Writes)>,
    undo: Vec<Undo>,
    savepoints: bool,
}

/// Puts back what was there before a write.
struct Undo {
    keyspace: usize,
    key: Box<[u8]>,
    before: Option<Written>,
}

/// A place to which the writes can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark(usize);

impl OwnWrites {
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
        if self.savepoints {
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
        self.savepoints = true;
        Mark(self.undo.len())
    }

    /// Takes back what was written since the mark. Whether the mark is one of writes that are still there.
    pub(super) fn roll_back(&mut self, mark: Mark) -> bool {
        if mark.0 > self.undo.len() {
            return false;
        }
        while self.undo.len() > mark.0
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
