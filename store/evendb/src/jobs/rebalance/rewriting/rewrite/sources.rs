//! The durable content of a chunk, or of a part of it, as sources of a merge; and how many bytes
//! its tables have.
//!
//! ```text
//!   munk (a part of the keys)   |=====|      |====|
//!   funk (all keys)             |.....|======|....|===|     read only where the munk has nothing
//! ```
//! Thread safety: a view does not change; sources are one thread's own. Not here: the merge
//! ([`crate::merge`]), and range deletions.

use crate::chunk::{Chunk, KeyRange, View};
use crate::error::Result;
use crate::merge::{MunkSource, Source, TableSource};
use crate::sync::Arc;
use crate::tables::TableHandle;
use evendb_storage::table::TableMeta;

/// If a munk has more gaps than this, a job reads everything from the funk: each gap would be
/// sought in each table.
const ABSENT_SEGMENTS_MAX: usize = 12;

/// The durable content of a chunk within its range, newest source first: the part that its munk has
/// from there, the other part from the funk.
pub(crate) fn sources_of<'v>(chunk: &Chunk, view: &'v View) -> Result<Vec<Box<dyn Source + 'v>>> {
    let absorbed = !view.frozen.iter().any(|frozen| frozen.durable);
    let Some(munk) = view.munk.as_ref().filter(|_| absorbed) else {
        return funk_sources(chunk, view);
    };
    let absent = munk.absent_segments();
    if absent.len() > ABSENT_SEGMENTS_MAX || !munk.holds_any() {
        return funk_sources(chunk, view);
    }
    // No key is in two of these.
    let mut sources: Vec<Box<dyn Source + 'v>> = vec![Box::new(MunkSource::new(munk))];
    for (segment, share) in absent {
        let range = KeyRange {
            low: segment.low.map_or(chunk.range.low.clone(), Box::from),
            high: segment
                .high
                .map(Box::from)
                .or_else(|| chunk.range.high.clone()),
        };
        sources.extend(sources_within(view, &range, share)?);
    }
    Ok(sources)
}

/// The durable content of a chunk within its range, from its funk alone, newest source first.
pub(crate) fn funk_sources<'v>(chunk: &Chunk, view: &'v View) -> Result<Vec<Box<dyn Source + 'v>>> {
    // 256 KiB for a few sources; the buffers of many sources take 4 MiB together.
    let sources = view.funk.tables().count();
    let readahead_bytes = ((4 << 20) / sources.max(1)).clamp(16 << 10, 256 << 10);
    ask_for_tables(chunk, view);
    let runs = view.funk.runs.iter().rev().map(|run| &run.table);
    let mut sources: Vec<Box<dyn Source + 'v>> = Vec::new();
    for table in runs.chain(view.funk.below_log()) {
        let range = &chunk.range;
        let opened = table.open()?;
        let source = TableSource::new(opened, &range.low, range.high.as_deref(), readahead_bytes)?;
        sources.push(Box::new(source));
    }
    Ok(sources)
}

/// The durable content of a part of a chunk, from its funk alone. The part has about this `share`
/// of the chunk's records, and the disk is asked for only that share. Of a keyed run only blocks of
/// keys in the part are read.
pub(crate) fn sources_within<'v>(
    view: &'v View,
    range: &KeyRange,
    share: f64,
) -> Result<Vec<Box<dyn Source + 'v>>> {
    let runs = view.funk.runs.iter().rev().map(|run| &run.table);
    let all: Vec<_> = runs.chain(view.funk.below_log()).collect();
    let tables = all.into_iter().filter_map(|table| {
        let meta = &table.part.meta;
        let bytes = (4 << 10) + (meta.data_bytes as f64 * share) as usize;
        range
            .overlaps(meta)
            .then_some((table, bytes.min(256 << 10)))
    });
    // All reads are under way before the first one is awaited.
    let several = tables.clone().nth(1).is_some();
    tables
        .clone()
        .filter(|_| several)
        .for_each(|(table, _)| table.will_open());
    let (low, high) = (&range.low, range.high.as_deref());
    let mut needed = Vec::new();
    for (table, bytes) in tables {
        let table = table.open()?;
        if table.is_keyed() && !table.has_keys_between(Some(low), high) {
            continue;
        }
        match table.is_keyed() {
            true if several => table.will_need_keys(Some(low), high),
            false if several => table.will_need_from(Some(low), table.blocks_in(bytes)),
            _ => {}
        }
        needed.push((table, bytes));
    }
    let mut sources: Vec<Box<dyn Source + 'v>> = Vec::new();
    for (table, bytes) in needed {
        sources.push(Box::new(TableSource::new(table, low, high, bytes)?));
    }
    Ok(sources)
}

/// Makes the disk read all tables of the chunk at once, before any of them is awaited: opening a
/// table reads its index, and the merge begins with a block of each table.
pub(crate) fn ask_for_tables(chunk: &Chunk, view: &View) {
    for table in view.funk.tables() {
        if crate::rebalance::jobs::inside(chunk, table) {
            table.will_need();
        }
    }
}

/// Bytes of keys and values in the chunk's tables, as far as their figures tell.
pub(crate) fn data_bytes(view: &View) -> u64 {
    match view.whole_munk() {
        Some(munk) => munk.data_bytes() as u64,
        None => view
            .funk
            .tables()
            .map(|table| table.part.meta.data_bytes)
            .sum(),
    }
}

/// Bytes of keys and values in the tables of the base, and in those of the log.
pub(crate) fn base_and_log_bytes(view: &View) -> (u64, u64) {
    let bytes = |table: &Arc<TableHandle>| table.part.meta.data_bytes;
    let base = view.funk.below_log().map(bytes).sum();
    let runs = view.funk.runs.iter().map(|run| &run.table);
    (base, runs.map(bytes).sum())
}

/// Whether no table has any value.
pub(super) fn tombstones_only(view: &View) -> bool {
    let dead = |meta: &TableMeta| meta.deletes == meta.entries;
    view.whole_munk().is_none() && view.funk.tables().all(|table| dead(&table.part.meta))
}
