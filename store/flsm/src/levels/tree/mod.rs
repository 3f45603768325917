//! [`Tree`]: a keyspace on disk. A published tree is immutable: an edit is applied to a clone,
//! which shares the unchanged parts.
//!
//! ```text
//!   level 0   tables, newest first; they overlap
//!   level i   guards: "" | "f" | "q"   sorted; the first begins with the empty key;
//!                                      a guard ends where the next begins
//!               tables of a guard, newest first (by age); tables of one age are a run:
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
//! A tree changes only by [`Tree::apply`], at run time and when a manifest is read. It refuses
//! edits that contradict the tree. After an error the tree must be thrown away.
//!
//! Thread safety: shared freely once it is published. Not here: files, decisions, the manifest's
//! bytes.

pub(crate) mod choose;
pub(crate) mod deserted;
mod edit;
mod guards;
pub(crate) mod looks;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod verify;

pub(crate) use edit::{GuardChange, Moved, TreeEdit};
pub(crate) use guards::{Guard, Guards};

use crate::tables::TableFile;
use crate::types::{LEVELS, Level};
use looks::Looks;
use std::cmp::Reverse;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Newest first.
    level0: Vec<Arc<TableFile>>,
    level0_looks: Looks,
    /// The levels from 1 on: `levels[i]` is level `i + 1`.
    levels: [Guards; LEVELS - 1],
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            level0: Vec::new(),
            level0_looks: Looks::default(),
            levels: std::array::from_fn(|_| Guards::default()),
        }
    }
}

impl Tree {
    /// Tables of level 0, newest first.
    pub(crate) fn level0(&self) -> &[Arc<TableFile>] {
        &self.level0
    }

    /// How often seeks looked into the tables of level 0.
    pub(crate) fn level0_looks(&self) -> u64 {
        self.level0_looks.count()
    }

    /// The guards of a level from 1 on.
    pub(crate) fn guards(&self, level: Level) -> &Guards {
        &self.levels[usize::from(level.0) - 1]
    }

    /// The levels with guards, from the top.
    pub(crate) fn guarded_levels() -> impl DoubleEndedIterator<Item = Level> {
        (1..LEVELS as u8).map(Level)
    }

    /// All tables with their levels: by level, then by guard, and in a guard newest first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Level, &Arc<TableFile>)> {
        let level0 = self.level0.iter().map(|table| (Level(0), table));
        level0.chain(Tree::guarded_levels().flat_map(|level| {
            let guards = self.guards(level).all().iter();
            guards.flat_map(move |guard| guard.tables.iter().map(move |table| (level, table)))
        }))
    }

    /// The tables that may have records of `key`, by their limits, in the order in which a reader
    /// looks into them: the first record that the reader may see decides.
    pub(crate) fn tables_for(&self, key: &[u8]) -> impl Iterator<Item = &Arc<TableFile>> {
        let guards = self.levels.iter().map(move |guards| guards.of(key));
        let below = guards.flat_map(|guard| guard.tables.iter());
        let tables = self.level0.iter().chain(below);
        tables.filter(move |table| table.covers(key))
    }

    /// The tables whose limits meet `[min, max]`, in any order. `min` must not be above `max`.
    pub(crate) fn tables_between(
        &self,
        min: &[u8],
        max: &[u8],
    ) -> impl Iterator<Item = &Arc<TableFile>> {
        let guards = self.levels.iter().flat_map(move |guards| {
            let (first, last) = (guards.find(min), guards.find(max));
            &guards.all()[first..=last]
        });
        let below = guards.flat_map(|guard| guard.tables.iter());
        let tables = self.level0.iter().chain(below);
        tables.filter(move |table| *table.meta.min_key <= *max && *min <= *table.meta.max_key)
    }

    /// The least level in which `key` is a guard, committed or not.
    pub(crate) fn guard_level(&self, key: &[u8]) -> Option<Level> {
        Tree::guarded_levels().find(|&level| self.guards(level).knows(key))
    }

    /// The keys that are guards of some level, committed or not, each with its least level. Sorted.
    pub(crate) fn guard_keys(&self) -> Vec<(Arc<[u8]>, Level)> {
        let deepest = &self.levels[LEVELS - 2];
        let keys = deepest.keys().into_iter();
        keys.filter_map(|key| self.guard_level(&key).map(|level| (key, level)))
            .collect()
    }

    /// Makes one change. The error says what contradicts the tree.
    pub(crate) fn apply(&mut self, edit: &TreeEdit) -> Result<(), &'static str> {
        let moved_from = edit.moved.iter().map(|moved| (&moved.from, &moved.old));
        let moved_to = edit.moved.iter().map(|moved| (&moved.to, &moved.new));
        let removed = edit.removed.iter().map(|(level, table)| (level, table));
        let removed = removed.chain(moved_from);
        let added = edit.added.iter().map(|(level, table)| (level, table));
        for (level, table) in removed.clone() {
            match level.0 {
                0 => self.remove_from_level0(table)?,
                _ => self.guards_mut(*level)?.remove(table)?,
            }
        }
        for (level, table) in added.chain(moved_to) {
            if table.meta.min_key > table.meta.max_key || table.meta.entries == 0 {
                return Err("a table without records, or with its limits the wrong way round");
            }
            match level.0 {
                0 => self.add_to_level0(table)?,
                _ => self.guards_mut(*level)?.add(table)?,
            }
        }
        for change in &edit.guards {
            self.change_guard(change)?;
        }
        // The removed table may have been the last one that straddled a key.
        for (level, table) in removed {
            if level.0 > 0 {
                let (low, high) = (&table.meta.min_key, &table.meta.max_key);
                self.guards_mut(*level)?.commit_between(low, high);
            }
        }
        debug_assert_eq!(verify::check(self), Ok(()));
        Ok(())
    }

    fn guards_mut(&mut self, level: Level) -> Result<&mut Guards, &'static str> {
        let at = usize::from(level.0).checked_sub(1);
        let guards = at.and_then(|at| self.levels.get_mut(at));
        guards.ok_or("a level that there is not")
    }

    fn add_to_level0(&mut self, table: &Arc<TableFile>) -> Result<(), &'static str> {
        let order = |own: &Arc<TableFile>| Reverse(own.age);
        match self.level0.binary_search_by_key(&Reverse(table.age), order) {
            Ok(_) => Err("two tables of one age in level 0"),
            Err(at) => {
                self.level0.insert(at, table.clone());
                Ok(())
            }
        }
    }

    fn remove_from_level0(&mut self, table: &Arc<TableFile>) -> Result<(), &'static str> {
        let at = self
            .level0
            .iter()
            .position(|own| own.number == table.number);
        self.level0
            .remove(at.ok_or("a table removed that is not there")?);
        self.level0_looks = Looks::default();
        Ok(())
    }

    fn change_guard(&mut self, change: &GuardChange) -> Result<(), &'static str> {
        if change.key.is_empty() {
            return Err("a guard with the empty key, which each level has");
        }
        if change.from.is_some_and(|from| from.0 == 0) {
            return Err("a guard of level 0");
        }
        for level in Tree::guarded_levels() {
            let is_guard = change.from.is_some_and(|from| from <= level);
            let guards = self.guards_mut(level)?;
            match is_guard {
                true => guards.choose(&change.key),
                false => guards.forget(&change.key),
            }
        }
        Ok(())
    }
}
