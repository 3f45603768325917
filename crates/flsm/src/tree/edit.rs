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

/// Tables that go, tables that come, guards.
#[derive(Clone, Default, Debug)]
pub(crate) struct TreeEdit {
    /// Found by their numbers, ages and limits.
    pub(crate) removed: Vec<(Level, Arc<TableFile>)>,
    pub(crate) added: Vec<(Level, Arc<TableFile>)>,
    pub(crate) guards: Vec<GuardChange>,
}

impl TreeEdit {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.guards.is_empty()
    }
}
