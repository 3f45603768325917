//! Deleting a range gives its tables back without reading them.
//!
//! ```text
//!   tables of the chunks inside the range are noted             t
//!   a cursor registers version s > all versions in them         s
//!   every record it finds gets a tombstone                      versions > s
//!   the chunks are marked: those tables are covered
//!   ...the tombstones are in a completed checkpoint, no snapshot is registered:
//!      one edit drops the tables; the tombstones go with the next rebalance
//! ```
//! Why this is correct: each record in a noted table has a version below s. If it was its key's newest
//! at s, the key has a tombstone now. If not, a newer record hid it then, and hides it now or has a
//! tombstone itself. What is put meanwhile has a version above s and is in no noted table. Readers to
//! come are above the tombstones. On a full disk the cursor may be opened anew on the way: it then has a
//! later s, and all of this holds for it too. A crash before the edit leaves tables and tombstones; the
//! marks are in memory only, and without them the picker rewrites the chunk for its tombstones.
//!
//! Thread safety: a chunk's mark is a leaf lock; acting on it needs the chunk's token.

use crate::catalog::KeyspaceState;
use crate::chunk::{Chunk, Covered};
use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::engine::flow::Flow;
use crate::error::Result;
use crate::rebalance::layout;
use crate::sync::Arc;
use crate::version::clock::checkpoint_of;
use evendb_storage::TableId;
use std::collections::HashSet;

/// The tables of all chunks that lie within `low..high`. Taken before the cursor that finds
/// what to delete.
pub(crate) fn tables_inside(
    keyspace: &KeyspaceState,
    low: &[u8],
    high: Option<&[u8]>,
) -> HashSet<TableId> {
    let mut tables = HashSet::new();
    for chunk in chunks_inside(keyspace, low, high) {
        let view = chunk.view.load_full();
        tables.extend(view.funk.tables().map(|table| table.part.table));
    }
    tables
}

/// Notes that every record that `tables` had of `low..high` has been deleted.
pub(crate) fn mark(
    core: &Core,
    keyspace: &KeyspaceState,
    low: &[u8],
    high: Option<&[u8]>,
    tables: &HashSet<TableId>,
) {
    if tables.is_empty() {
        return;
    }
    let checkpoint = checkpoint_of(core.clock.now());
    for chunk in chunks_inside(keyspace, low, high) {
        let view = chunk.view.load_full();
        let own = view.funk.tables().map(|table| table.part.table);
        let tables: HashSet<TableId> = own.filter(|id| tables.contains(id)).collect();
        if !tables.is_empty() {
            *chunk.covered.lock() = Some(Covered { tables, checkpoint });
        }
    }
}

/// Drops the chunk's covered tables, if it may. The caller holds the token.
pub(crate) fn drop_covered(
    core: &Core,
    disk: &Disk,
    flow: &Flow,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<bool> {
    // Not in one expression with the lock below: completed is no leaf.
    let completed = *flow.completed.lock();
    let mut mark = chunk.covered.lock();
    let ready = |covered: &Covered| covered.checkpoint <= completed;
    if !mark.as_ref().is_some_and(ready) || core.clock.snapshot_count() > 0 {
        return Ok(false);
    }
    let covered = mark.take();
    drop(mark);
    // Under the registry's mutex, and after the tombstones: later snapshots are above them.
    let Some(covered) = covered.filter(|_| core.clock.horizon().snapshots.is_empty()) else {
        return Ok(false);
    };
    layout::drop_tables(core, disk, flow, keyspace, chunk, &|table| {
        covered.tables.contains(&table.part.table)
    })
}

fn chunks_inside(keyspace: &KeyspaceState, low: &[u8], high: Option<&[u8]>) -> Vec<Arc<Chunk>> {
    let root = keyspace.index.load_full();
    let inside = |chunk: &Chunk| {
        *chunk.range.low >= *low
            && match (&chunk.range.high, high) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(own), Some(high)) => **own <= *high,
            }
    };
    let chunks = root.iter().map(|(_, chunk)| chunk);
    chunks.filter(|chunk| inside(chunk)).cloned().collect()
}
