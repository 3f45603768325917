//! [`TreeEdit`]: one change of a tree. It is made as a whole.

use crate::tables::TableFile;
use crate::types::Level;
use std::sync::Arc;

/// The level from which on a key is a guard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GuardChange {
    /// Not empty.
    pub(crate) key: Arc<[u8]>,
    /// The key is a guard of this level and of each deeper one, and of no other. `None`: of no
    /// level.
    pub(crate) from: Option<Level>,
}

/// A table that changes its place, and is not rewritten.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) from: Level,
    pub(crate) to: Level,
    /// The table at its old place.
    pub(crate) old: Arc<TableFile>,
    /// The same table at its new place.
    pub(crate) new: Arc<TableFile>,
}

/// Tables that are removed and added, and guards.
#[derive(Clone, Default, Debug)]
pub(crate) struct TreeEdit {
    /// The tables are found by their numbers, ages and limits.
    pub(crate) removed: Vec<(Level, Arc<TableFile>)>,
    pub(crate) added: Vec<(Level, Arc<TableFile>)>,
    pub(crate) moved: Vec<Moved>,
    pub(crate) guards: Vec<GuardChange>,
}

impl TreeEdit {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let tables = self.removed.len() + self.added.len() + self.moved.len();
        tables == 0 && self.guards.is_empty()
    }
}
