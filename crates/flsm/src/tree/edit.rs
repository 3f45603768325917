//! [`TreeEdit`]: one change of a tree, made as a whole.

use crate::tables::TableFile;
use crate::types::Level;
use std::sync::Arc;

/// From which level on a key is a guard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GuardChange {
    /// Not empty.
    pub(crate) key: Arc<[u8]>,
    /// It is one of this level and each deeper one, and of no other. `None`: of none.
    pub(crate) from: Option<Level>,
}

/// A table that changes its place, and stays as it is.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) from: Level,
    pub(crate) to: Level,
    /// The table where it was.
    pub(crate) old: Arc<TableFile>,
    /// The same where it is.
    pub(crate) new: Arc<TableFile>,
}

/// Tables that go, tables that come, guards.
#[derive(Clone, Default, Debug)]
pub(crate) struct TreeEdit {
    /// Found by their numbers, ages and limits.
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
