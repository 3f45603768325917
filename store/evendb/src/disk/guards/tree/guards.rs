//! [`Guards`]: one level of a tree; [`Guard`]: the fragments between two guard keys.
//!
//! The list is copied when it changes while an older tree shares it. The same is true for a guard.

use super::Fragment;
use super::looks::Looks;
use crate::manifest::Age;
use crate::sync::Arc;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Fragments whose keys lie in `[low, low of the next guard)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The least key that may be in it; empty for the first guard.
    pub(crate) low: Arc<[u8]>,
    /// Newest first; fragments of one age are ordered by key.
    pub(crate) fragments: Vec<Fragment>,
    /// How often seeks looked into its tables.
    pub(crate) looks: Looks,
}

impl Guard {
    /// Its runs, newest first. A run is the fragments of one age: they are sorted and do not
    /// overlap.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = &[Fragment]> {
        self.fragments.chunk_by(|a, b| a.age == b.age)
    }

    /// The runs that jobs may take, newest first: those above a table that could not be read. What
    /// is older than such a table stays below it, and the table stays where it is.
    pub(crate) fn free_runs(&self) -> impl Iterator<Item = &[Fragment]> {
        self.runs()
            .take_while(|run| !run.iter().any(Fragment::is_damaged))
    }

    /// Whether it has a table that could not be read, so that it cannot go down as a whole.
    pub(crate) fn is_stuck(&self) -> bool {
        self.fragments.iter().any(Fragment::is_damaged)
    }

    fn insert(&mut self, fragment: &Fragment) -> Result<(), &'static str> {
        let before = |own: &Fragment| order(own) < order(fragment);
        let at = self.fragments.partition_point(before);
        let neighbours = &self.fragments[at.saturating_sub(1)..self.fragments.len().min(at + 1)];
        let meta = fragment.meta();
        let overlaps = |own: &Fragment| {
            own.age == fragment.age && own.meta().meets(&meta.min_key, &meta.max_key)
        };
        if neighbours.iter().any(overlaps) {
            return Err("tables of one age overlap");
        }
        self.fragments.insert(at, fragment.clone());
        Ok(())
    }
}

/// The order of fragments in a guard.
fn order(fragment: &Fragment) -> (Reverse<Age>, &[u8]) {
    (Reverse(fragment.age), &fragment.meta().min_key)
}

/// Whether some keys of the fragment are below `key`, and some are not.
pub(super) fn straddles(fragment: &Fragment, key: &[u8]) -> bool {
    *fragment.meta().min_key < *key && *key <= *fragment.meta().max_key
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
        let chosen = match min < max {
            true => Some(self.chosen.range::<[u8], _>(within)),
            false => None,
        };
        sorted(committed.chain(chosen.into_iter().flatten()))
    }

    /// Adds a fragment. Guards that it straddles are not committed from then on, only chosen.
    pub(super) fn add(&mut self, fragment: &Fragment) -> Result<(), &'static str> {
        let meta = fragment.meta();
        let (first, last) = (self.find(&meta.min_key), self.find(&meta.max_key));
        if first < last {
            let straddled = Arc::make_mut(&mut self.guards).drain(first + 1..=last);
            let straddled: Vec<Arc<Guard>> = straddled.collect();
            let joined = self.guard_mut(first);
            for guard in &straddled {
                joined.fragments.extend(guard.fragments.iter().cloned());
            }
            joined.fragments.sort_by(|a, b| order(a).cmp(&order(b)));
            let keys = straddled.iter().map(|guard| guard.low.clone());
            Arc::make_mut(&mut self.chosen).extend(keys);
        }
        self.guard_mut(first).insert(fragment)
    }

    /// Removes a fragment. The caller has to call [`Guards::commit_between`] afterwards.
    pub(super) fn remove(&mut self, fragment: &Fragment) -> Result<(), &'static str> {
        let guard = self.find(&fragment.meta().min_key);
        let mut fragments = self.guards[guard].fragments.iter();
        let at = fragments.position(|own| own.id() == fragment.id());
        let at = at.ok_or("a table removed that is not there")?;
        let guard = self.guard_mut(guard);
        guard.fragments.remove(at);
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
        let fragments = &self.guards[at].fragments;
        if fragments.iter().any(|fragment| straddles(fragment, key)) {
            return;
        }
        let is_above = |fragment: &Fragment| *fragment.meta().min_key >= **key;
        let (above, below) = fragments.iter().cloned().partition(is_above);
        self.guard_mut(at).fragments = below;
        let guard = Guard {
            low: key.clone(),
            fragments: above,
            looks: Looks::default(),
        };
        Arc::make_mut(&mut self.guards).insert(at + 1, Arc::new(guard));
        Arc::make_mut(&mut self.chosen).remove(&**key);
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
