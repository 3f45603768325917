//! [`Fragment`]: a table in a tree. [`TreeEdit`]: one change of a tree, which is made as a whole.

use crate::manifest::{Age, GuardKey, Level};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::TableId;
use evendb_storage::table::TableMeta;
use std::fmt;

/// A table with its place in the order of its guard.
#[derive(Clone)]
pub(crate) struct Fragment {
    pub(crate) age: Age,
    pub(crate) table: Arc<TableHandle>,
}

impl Fragment {
    pub(crate) fn id(&self) -> TableId {
        self.table.part.table
    }

    /// Whether a job could not read it.
    pub(crate) fn is_damaged(&self) -> bool {
        self.table.is_damaged()
    }

    /// What the table says of itself.
    pub(crate) fn meta(&self) -> &TableMeta {
        &self.table.part.meta
    }
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = self.meta();
        let mut shown = f.debug_struct("Fragment");
        shown.field("id", &self.id()).field("age", &self.age);
        shown
            .field("min", &meta.min_key)
            .field("max", &meta.max_key);
        shown.finish()
    }
}

/// Fragments that go and come, and new guards. A fragment that changes its place goes and comes.
#[derive(Clone, Default, Debug)]
pub(crate) struct TreeEdit {
    /// They are found by their levels, ids and limits.
    pub(crate) removed: Vec<(Level, Fragment)>,
    pub(crate) added: Vec<(Level, Fragment)>,
    /// Keys that become guards, or guards of a level above. A guard is never forgotten.
    pub(crate) guards: Vec<GuardKey>,
    /// The runs of level 0 went down: looks into them are counted anew.
    pub(crate) level0_went: bool,
}
