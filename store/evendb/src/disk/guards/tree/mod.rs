//! [`Tree`]: the levels of a keyspace with guards, below the runs of its log. A published tree is
//! immutable: an edit is applied to a clone, which shares the unchanged parts.
//!
//! ```text
//!   level 0   none of the tree: the runs of the chunk's log
//!   level i   guards: "" | "f" | "q"   sorted; the first begins with the empty key;
//!                                      a guard ends where the next begins
//!               fragments of a guard, newest first (by age); those of one age are a run:
//!               they are sorted and do not overlap
//!             chosen: "c"              becomes a guard when no table of the level straddles it
//! ```
//! A table straddles a key if some of its keys are below and some are not. A chosen key that is in
//! force as a guard is called committed. The tables decide that: a key is committed when the last
//! table that straddles it goes. It is only chosen again when a table comes that straddles it.
//! (That is rare: the table's writer began before the key was chosen.) So each table lies within
//! one guard, whatever the order of edits, and edits need not say which keys are committed.
//!
//! A key that is chosen for a level is also chosen for each deeper level.
//!
//! A tree changes only by [`Tree::apply`], at run time and when a manifest is read
//! ([`Tree::of_parts`]). It refuses edits that contradict the tree, whatever bytes they came from.
//! After an error the tree must be thrown away.
//!
//! Thread safety: shared freely once it is published. Not here: files, decisions, the manifest's
//! bytes.

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
pub(crate) mod bare;
mod chains;
pub(crate) mod choose;
mod edit;
mod guards;
pub(crate) mod looks;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
mod verify;

pub(crate) use chains::Chain;
pub(crate) use edit::{Fragment, TreeEdit};
pub(crate) use guards::{Guard, Guards};

use crate::manifest::{Age, GuardKey, GuardSet, LEVELS, Level};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::TableId;
use looks::Looks;
use std::collections::HashSet;

/// A manifest's ages are below this one. So there is always a next one.
const MANIFEST_AGE_END: Age = Age(1 << 62);

/// See the module.
#[derive(Clone)]
pub(crate) struct Tree {
    /// The secret of the hash that chooses guards.
    seed: u64,
    level0_looks: Looks,
    /// `levels[i]` is level `i + 1`.
    levels: [Guards; LEVELS - 1],
    /// All tables of `levels`.
    chains: Arc<[Chain]>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            seed: 0,
            level0_looks: Looks::default(),
            levels: std::array::from_fn(|_| Guards::default()),
            chains: Arc::default(),
        }
    }
}

impl Tree {
    /// The tree with these fragments and guards, which a manifest has. The error says what
    /// contradicts what.
    pub(crate) fn of_parts(
        fragments: Vec<(Level, Fragment)>,
        guards: Vec<GuardKey>,
    ) -> Result<Tree, &'static str> {
        let mut ages = fragments.iter().map(|(_, fragment)| fragment.age);
        if ages.any(|age| age >= MANIFEST_AGE_END) {
            return Err("a table with an age that no tree reaches");
        }
        let mut tree = Tree::default();
        tree.apply(&TreeEdit {
            added: fragments,
            guards,
            ..TreeEdit::default()
        })?;
        Ok(tree)
    }

    /// The same tree, in which a hash with this secret chooses guards.
    pub(crate) fn with_seed(self, seed: u64) -> Tree {
        Tree { seed, ..self }
    }

    /// The secret of the hash that chooses guards.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Its guards, as the manifest keeps them.
    pub(crate) fn guard_set(&self) -> GuardSet {
        GuardSet {
            seed: self.seed,
            keys: self.guard_keys(),
        }
    }

    /// The tree with these guards, too.
    pub(crate) fn with_guards(&self, guards: &[GuardKey]) -> Result<Tree, &'static str> {
        let mut tree = self.clone();
        tree.apply(&TreeEdit {
            guards: guards.to_vec(),
            ..TreeEdit::default()
        })?;
        Ok(tree)
    }

    /// The tree without the tables for which `goes` returns true.
    pub(crate) fn without(
        &self,
        goes: &dyn Fn(&TableHandle) -> bool,
    ) -> Result<Tree, &'static str> {
        let gone = self.fragments().filter(|(_, own)| goes(&own.table));
        let removed = gone.map(|(level, own)| (level, own.clone())).collect();
        let mut tree = self.clone();
        tree.apply(&TreeEdit {
            removed,
            ..TreeEdit::default()
        })?;
        Ok(tree)
    }

    /// How often seeks looked into the runs of level 0 since it went down the last time.
    pub(crate) fn level0_looks(&self) -> u64 {
        self.level0_looks.count()
    }

    /// The guards of a level, which is not level 0.
    pub(crate) fn guards(&self, level: Level) -> &Guards {
        &self.levels[usize::from(level.0) - 1]
    }

    /// The levels with guards, from the top.
    pub(crate) fn guarded_levels() -> impl DoubleEndedIterator<Item = Level> {
        (1..LEVELS as u8).map(Level)
    }

    /// All fragments with their levels: by level, then by guard, and in a guard newest first.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = (Level, &Fragment)> {
        Tree::guarded_levels().flat_map(|level| {
            let guards = self.guards(level).all().iter();
            guards.flat_map(move |guard| guard.fragments.iter().map(move |own| (level, own)))
        })
    }

    /// All tables as sorted chains, for readers, newest first. For each key, the tables that may
    /// have it stand in the order in which a reader asks them: the first record that the reader may
    /// see decides.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Turns the chains round, until the next change. It serves a planted fault.
    pub(crate) fn turn_chains(&mut self) {
        self.chains = self.chains.iter().rev().cloned().collect();
    }

    /// The least level in which `key` is a guard, committed or not.
    pub(crate) fn guard_level(&self, key: &[u8]) -> Option<Level> {
        Tree::guarded_levels().find(|&level| self.guards(level).knows(key))
    }

    /// The keys that are guards of some level, committed or not, sorted.
    pub(crate) fn guard_keys(&self) -> Vec<GuardKey> {
        let deepest = &self.levels[LEVELS - 2];
        let keys = deepest.keys().into_iter();
        let guard = |key: Arc<[u8]>| {
            let level = self.guard_level(&key)?;
            Some(GuardKey { key, level })
        };
        keys.filter_map(guard).collect()
    }

    /// The age of a run that comes now: it is greater than all ages of the tree.
    ///
    /// It must be taken of the tree to which the edit is applied. A job that takes it of the tree
    /// for which it was planned could get the age of a run that a checkpoint added meanwhile.
    pub(crate) fn next_age(&self) -> Age {
        let ages = self.fragments().map(|(_, fragment)| fragment.age);
        // Ages of a manifest are below `MANIFEST_AGE_END`, so there is a next one.
        Age(ages.max().unwrap_or_default().0.saturating_add(1))
    }

    /// Makes one change. The error says what contradicts the tree.
    pub(crate) fn apply(&mut self, edit: &TreeEdit) -> Result<(), &'static str> {
        for (level, fragment) in &edit.removed {
            self.guards_mut(*level)?.remove(fragment)?;
        }
        self.check_ids(edit)?;
        // New guards come first: where no table is yet, committing one costs nothing.
        for guard in &edit.guards {
            self.choose(guard)?;
        }
        for (level, fragment) in &edit.added {
            let meta = fragment.meta();
            if meta.min_key > meta.max_key || meta.entries == 0 {
                return Err("a table without records, or with its limits the wrong way round");
            }
            self.guards_mut(*level)?.add(fragment)?;
        }
        // The removed table may have been the last one that straddled a key.
        for (level, fragment) in &edit.removed {
            let (low, high) = (&fragment.meta().min_key, &fragment.meta().max_key);
            self.guards_mut(*level)?.commit_between(low, high);
        }
        if edit.level0_went {
            self.level0_looks = Looks::default();
        }
        self.chains = chains::chains_of(&self.levels);
        debug_assert_eq!(verify::check(self), Ok(()));
        Ok(())
    }

    fn guards_mut(&mut self, level: Level) -> Result<&mut Guards, &'static str> {
        let at = usize::from(level.0).checked_sub(1);
        let guards = at.and_then(|at| self.levels.get_mut(at));
        guards.ok_or("a level that there is not")
    }

    /// Checks that no table that is added is there, or is added twice.
    fn check_ids(&self, edit: &TreeEdit) -> Result<(), &'static str> {
        let ids = edit.added.iter().map(|(_, fragment)| fragment.id());
        let added: HashSet<TableId> = ids.collect();
        let is_there = |own: &Fragment| added.contains(&own.id());
        let is_twice = added.len() < edit.added.len();
        match is_twice || self.fragments().any(|(_, own)| is_there(own)) {
            true => Err("one table at two places"),
            false => Ok(()),
        }
    }

    fn choose(&mut self, guard: &GuardKey) -> Result<(), &'static str> {
        if guard.key.is_empty() {
            return Err("a guard with the empty key, which each level has");
        }
        if !(1..LEVELS).contains(&usize::from(guard.level.0)) {
            return Err("a guard of a level that there is not");
        }
        for guards in &mut self.levels[usize::from(guard.level.0) - 1..] {
            guards.choose(&guard.key);
        }
        Ok(())
    }
}
