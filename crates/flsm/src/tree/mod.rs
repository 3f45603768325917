//! [`Tree`]: what a keyspace has on disk. Immutable: an edit makes a new one that shares what did not change.
//!
//! ```text
//!   level0   tables, newest first; they overlap
//!   levels   [1] guards: low "" | low "f" | low "q"      sorted by low; the first is "" always; a guard ends where the next begins
//!              tables of a guard, newest first (by age); each lies within its guard; tables of one age do not overlap
//!   chosen   [1] keys that are to become guards, and are not yet: a table straddles them
//! ```
//! Invariants (checked when a tree is made of a manifest, and after each edit in debug builds): as in the picture; a guard
//! of a level that is committed has no table of that level around it.
//! Thread safety: immutable. Not here: files, decisions, the manifest's bytes.

use crate::tables::TableFile;
use crate::types::{LEVELS, Level};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tables whose keys lie in `[low, low of the next guard)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// Least key that may be in it; empty for the first one.
    pub(crate) low: Arc<[u8]>,
    /// Newest first.
    pub(crate) tables: Vec<Arc<TableFile>>,
}

/// Level 1 and deeper.
#[derive(Clone, Debug)]
pub(crate) struct Guards {
    /// Sorted by `low`; never empty.
    guards: Vec<Arc<Guard>>,
    /// Guards that are not committed yet.
    chosen: Arc<BTreeSet<Arc<[u8]>>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    level0: Vec<Arc<TableFile>>,
    /// Of level 1 on: `levels[i]` is level `i + 1`.
    levels: [Guards; LEVELS - 1],
}

impl Default for Guards {
    fn default() -> Guards {
        Guards {
            guards: vec![Arc::default()],
            chosen: Arc::default(),
        }
    }
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            level0: Vec::new(),
            levels: std::array::from_fn(|_| Guards::default()),
        }
    }
}

impl Tree {
    /// Tables of level 0, newest first.
    pub(crate) fn level0(&self) -> &[Arc<TableFile>] {
        &self.level0
    }

    /// The guards of a level from 1 on.
    pub(crate) fn guards(&self, level: Level) -> &Guards {
        &self.levels[usize::from(level.0) - 1]
    }
}

impl Guards {
    /// All, sorted.
    pub(crate) fn all(&self) -> &[Arc<Guard>] {
        &self.guards
    }

    /// Which guard a key belongs to.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        self.guards.partition_point(|guard| *guard.low <= *key) - 1
    }

    /// Guards that are not committed yet.
    pub(crate) fn chosen(&self) -> &BTreeSet<Arc<[u8]>> {
        &self.chosen
    }
}
