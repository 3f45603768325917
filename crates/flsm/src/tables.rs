//! [`TableFile`]: a table of the tree, open or not yet, whose file goes with its last user.

use crate::types::Age;
use evendb_storage::TableId;
use evendb_storage::table::TableMeta;

/// A table of a tree.
#[derive(Debug)]
pub(crate) struct TableFile {
    /// The number in its name.
    pub(crate) number: TableId,
    /// How new it is.
    pub(crate) age: Age,
    /// What the manifest says of it.
    pub(crate) meta: TableMeta,
}
