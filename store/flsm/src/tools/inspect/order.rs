//! Whether a reader finds every record. This invariant of a tree cannot be seen in one table alone.
//!
//! A reader looks into tables in one order (level 0 newest first, then each level's runs newest
//! first), and takes the first record that it may see. So the records of one key must become older
//! in that order:
//! ```text
//!   asked first  ->  k/9 k/7 | k/5 | | k/2            sound
//!                    k/9     | k/5 | k/7              k/7 is hidden: who reads at 8 gets k/5
//! ```
//! All tables are read once, side by side, as a merge of the places in the order of looking.

use crate::cursor::level::places_cursors;
use crate::cursor::{EntryCursor, MergeCursor};
use crate::tables::TableFile;
use crate::tree::Tree;
use evendb_base::sync::Arc;
use evendb_storage::table::ReadAhead;
use evendb_storage::{Result, TableId, Version};
use std::collections::BTreeSet;

/// The number of blocks that one read of a table fetches.
const READ_BLOCKS: usize = 16;
/// The number of records between two reports of progress.
const RECORDS_AT_ONCE: u64 = 1 << 14;

/// A record that a reader does not find.
pub(super) struct Hidden {
    pub(super) key: Vec<u8>,
    pub(super) version: Version,
    /// The table that has it.
    pub(super) table: Arc<TableFile>,
}

/// Looks at all records of a tree's tables. Calls `each` for the first hidden record of each table,
/// and `go_on` now and then.
///
/// # Errors
/// The error of a table that cannot be read. Nothing behind that place was looked at then.
pub(super) fn check(
    tree: &Arc<Tree>,
    each: &mut dyn FnMut(Hidden),
    go_on: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut cursor = MergeCursor::new(places_cursors(tree, ReadAhead::from(READ_BLOCKS)));
    cursor.seek_first()?;
    let (mut key, mut newer): (Vec<u8>, Option<(Version, usize)>) = (Vec::new(), None);
    let mut told = BTreeSet::new();
    let mut records = 0;
    while cursor.valid() {
        let (entry, place) = (cursor.entry(), cursor.source());
        if newer.is_some() && *entry.key == *key {
            // The merge gives newer records first. A record that occurs twice is hidden, too.
            if let Some((version, before)) = newer
                && (place < before || entry.version == version)
            {
                tell(tree, &key, version, &mut told, each)?;
            }
        } else {
            key.clear();
            key.extend_from_slice(entry.key);
        }
        newer = Some((entry.version, place));
        records += 1;
        if records == RECORDS_AT_ONCE {
            go_on(records);
            records = 0;
        }
        cursor.next()?;
    }
    go_on(records);
    Ok(())
}

/// Reports the last table that has the record, in the order of looking.
fn tell(
    tree: &Tree,
    key: &[u8],
    version: Version,
    told: &mut BTreeSet<TableId>,
    each: &mut dyn FnMut(Hidden),
) -> Result<()> {
    let mut last = None;
    for table in tree.tables_for(key) {
        let found = table.open()?.get(key, version)?;
        if found.is_some_and(|found| found.version == version) {
            last = Some(table);
        }
    }
    if let Some(table) = last
        && told.insert(table.number)
    {
        each(Hidden {
            key: key.to_vec(),
            version,
            table: table.clone(),
        });
    }
    Ok(())
}
