//! [`Guards`]: one level of a tree, from level 1 on; [`Guard`]: the tables between two guard keys.
//!
//! The list is copied when it changes while an older tree shares it. The same is true for a guard.

use super::looks::Looks;
use crate::tables::TableFile;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// Tables whose keys lie in `[low, low of the next guard)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The least key that may be in it; empty for the first guard.
    pub(crate) low: Arc<[u8]>,
    /// Newest first; tables of one age are ordered by key.
    pub(crate) tables: Vec<Arc<TableFile>>,
    /// How often seeks looked into its tables.
    pub(crate) looks: Looks,
}

impl Guard {
    /// Its runs, newest first. A run is the tables of one age: they are sorted and do not overlap.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = &[Arc<TableFile>]> {
        self.tables.chunk_by(|a, b| a.age == b.age)
    }

    fn insert(&mut self, table: &Arc<TableFile>) -> Result<(), &'static str> {
        let at = self.tables.partition_point(|own| order(own) < order(table));
        let same_run = |own: &&Arc<TableFile>| own.age == table.age;
        let before = at.checked_sub(1).map(|before| &self.tables[before]);
        let overlaps = before
            .filter(same_run)
            .is_some_and(|own| own.meta.max_key >= table.meta.min_key)
            || self
                .tables
                .get(at)
                .filter(same_run)
                .is_some_and(|own| own.meta.min_key <= table.meta.max_key);
        if overlaps {
            return Err("tables of one age overlap");
        }
        self.tables.insert(at, table.clone());
        Ok(())
    }
}

/// The order of tables in a guard.
fn order(table: &TableFile) -> (Reverse<crate::types::Age>, &[u8]) {
    (Reverse(table.age), &table.meta.min_key)
}

/// Whether some keys of the table are below `key`, and some are not.
pub(super) fn straddles(table: &TableFile, key: &[u8]) -> bool {
    *table.meta.min_key < *key && *key <= *table.meta.max_key
}

/// A level's guards.
#[derive(Clone, Debug)]
pub(crate) struct Guards {
    /// The committed guards, sorted by `low`; the first one has the empty key.
    guards: Arc<Vec<Arc<Guard>>>,
    /// The keys that are not committed, because a table straddles them.
    chosen: Arc<BTreeSet<Arc<[u8]>>>,
}

impl Default for Guards {
    fn default() -> Guards {
        Guards {
            guards: Arc::new(vec![Arc::default()]),
            chosen: Arc::default(),
        }
    }
}

impl Guards {
    /// All committed guards, sorted.
    pub(crate) fn all(&self) -> &[Arc<Guard>] {
        &self.guards
    }

    /// The index of the committed guard of a key.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        self.guards.partition_point(|guard| *guard.low <= *key) - 1
    }

    /// The last committed guard that may have a key below this one; none is below the empty key.
    pub(crate) fn find_below(&self, key: &[u8]) -> Option<usize> {
        let behind = self.guards.partition_point(|guard| *guard.low < *key);
        behind.checked_sub(1)
    }

    /// The committed guard of a key.
    pub(crate) fn of(&self, key: &[u8]) -> &Guard {
        &self.guards[self.find(key)]
    }

    /// Keys that are not committed yet.
    pub(crate) fn chosen(&self) -> &BTreeSet<Arc<[u8]>> {
        &self.chosen
    }

    /// Whether `key` is a guard, committed or not. The empty key does not count as a guard.
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        let committed = !key.is_empty() && *self.of(key).low == *key;
        committed || self.chosen.contains(key)
    }

    /// All guard keys except the empty one, committed or not, sorted.
    pub(crate) fn keys(&self) -> Vec<Arc<[u8]>> {
        let committed = self.guards[1..].iter().map(|guard| &guard.low);
        sorted(committed.chain(self.chosen.iter()))
    }

    /// The guard keys in `(min, max]`, committed or not, sorted. Records between these limits have
    /// to be cut there, so that no table straddles a guard key. `min` must not be above `max`.
    pub(crate) fn keys_within(&self, min: &[u8], max: &[u8]) -> Vec<Arc<[u8]>> {
        // The first guard's key, which is empty, is above no `min`.
        let from = self.guards.partition_point(|guard| *guard.low <= *min);
        let behind = self.guards[from..].iter().map(|guard| &guard.low);
        let committed = behind.take_while(|key| ***key <= *max);
        let within = (Bound::Excluded(min), Bound::Included(max));
        sorted(committed.chain(self.chosen.range::<[u8], _>(within)))
    }

    /// Adds a table. Guards that it straddles are not committed from then on, only chosen.
    pub(super) fn add(&mut self, table: &Arc<TableFile>) -> Result<(), &'static str> {
        let first = self.find(&table.meta.min_key);
        let last = self.find(&table.meta.max_key);
        for at in (first + 1..=last).rev() {
            let key = self.guards[at].low.clone();
            self.join_with_previous(at);
            Arc::make_mut(&mut self.chosen).insert(key);
        }
        self.guard_mut(first).insert(table)
    }

    /// Removes a table. The caller has to call [`Guards::commit_between`] afterwards.
    pub(super) fn remove(&mut self, table: &TableFile) -> Result<(), &'static str> {
        let guard = self.find(&table.meta.min_key);
        let tables = &self.guards[guard].tables;
        let at = tables.iter().position(|own| own.number == table.number);
        let at = at.ok_or("a table removed that is not there")?;
        let guard = self.guard_mut(guard);
        guard.tables.remove(at);
        guard.looks = Looks::default();
        Ok(())
    }

    /// Makes `key` a guard, if it is not one.
    pub(super) fn choose(&mut self, key: &Arc<[u8]>) {
        if !self.knows(key) {
            Arc::make_mut(&mut self.chosen).insert(key.clone());
            self.commit(key);
        }
    }

    /// Removes the guard `key`. Its tables then belong to the guard before it.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let at = self.find(key);
        if at > 0 && *self.guards[at].low == *key {
            self.join_with_previous(at);
        } else if self.chosen.contains(key) {
            Arc::make_mut(&mut self.chosen).remove(key);
        }
    }

    /// Commits the chosen keys in `(low, high]`, as far as possible: a table with these limits is
    /// gone.
    pub(super) fn commit_between(&mut self, low: &[u8], high: &[u8]) {
        let within = (Bound::Excluded(low), Bound::Included(high));
        if low < high {
            let keys: Vec<_> = self.chosen.range::<[u8], _>(within).cloned().collect();
            keys.iter().for_each(|key| self.commit(key));
        }
    }

    /// Commits a chosen key, unless a table straddles it.
    fn commit(&mut self, key: &Arc<[u8]>) {
        let at = self.find(key);
        let tables = &self.guards[at].tables;
        if tables.iter().any(|table| straddles(table, key)) {
            return;
        }
        let is_above = |table: &Arc<TableFile>| *table.meta.min_key >= **key;
        let (above, below) = tables.iter().cloned().partition(is_above);
        self.guard_mut(at).tables = below;
        let guard = Guard {
            low: key.clone(),
            tables: above,
            looks: Looks::default(),
        };
        Arc::make_mut(&mut self.guards).insert(at + 1, Arc::new(guard));
        Arc::make_mut(&mut self.chosen).remove(&**key);
    }

    fn join_with_previous(&mut self, at: usize) {
        let guard = Arc::make_mut(&mut self.guards).remove(at);
        let previous = self.guard_mut(at - 1);
        previous.tables.extend(guard.tables.iter().cloned());
        previous.tables.sort_by(|a, b| order(a).cmp(&order(b)));
    }

    fn guard_mut(&mut self, at: usize) -> &mut Guard {
        Arc::make_mut(&mut Arc::make_mut(&mut self.guards)[at])
    }
}

fn sorted<'k>(keys: impl Iterator<Item = &'k Arc<[u8]>>) -> Vec<Arc<[u8]>> {
    let mut keys: Vec<Arc<[u8]>> = keys.cloned().collect();
    keys.sort_unstable();
    keys
}
