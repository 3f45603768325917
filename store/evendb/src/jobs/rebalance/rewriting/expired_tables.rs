//! Tables in which everything has expired go without being read.
//!
//! ```text
//!   time 50  runs   [ b: last 40 ]  [ a: last 60 ]
//!            base   [ c: last 30 ]  [ d: last 45 ]  [ e: 20, and records that stay ]
//!   gone            c, then b
//!   kept            a keeps d back: d is older, and a may hide some of it; e stays
//! ```
//! A table tells how many of its records expire, and when the last of them does. If all the others
//! are tombstones, and every reader, present or future, judges by that time or a later one, the
//! table reads like an empty one. Still it may hide older records. So tables are looked at from the
//! oldest on, and a table goes if no older table that stays has keys between its least and its
//! greatest key.
//!
//! Images of spans, rows and deltas may still have these records, which have expired for every
//! reader. So they may stay.
//!
//! Thread safety: any; acting on it needs the chunk's token. Not here: when a chunk is looked at
//! ([`crate::rebalance::space`], and upkeep, which wakes for it: [`expiry_due`]).

use crate::catalog::{Catalog, KeyspaceState};
use crate::chunk::{Chunk, View};
use crate::engine::JobContext;
use crate::error::Result;
use crate::rebalance::layout::{self, Spent};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::version::clock::Clock;
use evendb_storage::table::TableMeta;
use evendb_storage::{TableId, Time, Version};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// An idle database looks again this long after the awaited expiry, and at the latest after
/// [`LOOK_AT_THE_LATEST`]: the clock may jump.
const LOOK_AFTER: Duration = Duration::from_secs(1);
const LOOK_AT_THE_LATEST: Duration = Duration::from_secs(3600);

/// The time from which on all of the table has expired, if there is one.
fn dead_from(meta: &TableMeta) -> Option<Time> {
    let all = meta.expiring > 0 && meta.expiring + meta.deletes == meta.entries;
    all.then_some(meta.last_expiry)
}

/// The tables of a view that may go; the number of tables that stay.
fn plan(clock: &Clock, view: &View) -> Option<(HashSet<TableId>, usize)> {
    if !clock.expiry.is_in_use() {
        return None;
    }
    let some = view
        .funk
        .tables()
        .filter_map(|table| dead_from(&table.part.meta));
    let earliest = some.min()?;
    let time = clock.horizon().least_time();
    if earliest > time {
        return None;
    }
    let mut gone = HashSet::new();
    let mut left: Vec<&TableMeta> = Vec::new();
    let runs = view.funk.runs.iter().map(|run| &run.table);
    let below = view.funk.chains().rev().flatten();
    for table in below.chain(runs) {
        let meta = &*table.part.meta;
        let is_dead = dead_from(meta).is_some_and(|from| from <= time);
        match is_dead
            && !left
                .iter()
                .any(|older| older.meets(&meta.min_key, &meta.max_key))
        {
            true => drop(gone.insert(table.part.table)),
            false => left.push(meta),
        }
    }
    (!gone.is_empty()).then_some((gone, left.len()))
}

/// Whether anything of the chunk may go unread.
pub(crate) fn has_expired(clock: &Clock, view: &View) -> bool {
    plan(clock, view).is_some()
}

/// Drops the tables that may go unread, and returns whether there were any. The caller holds the
/// token.
pub(crate) fn drop_expired(
    context: &JobContext<'_>,
    keyspace: &KeyspaceState,
    chunk: &Arc<Chunk>,
) -> Result<bool> {
    let core = context.core;
    let Some((gone, left)) = plan(&core.clock, &chunk.view.load_full()) else {
        return Ok(false);
    };
    let spent = Spent {
        table: &|table| gone.contains(&table.part.table),
        // No range deletion leaves because of these tables.
        limit: Version::ZERO,
        stretch: &|_| false,
    };
    layout::drop_spent(context, keyspace, chunk, &spent)?;
    if left == 0 {
        // The growth of the chunk is gone: it may be merged with its neighbours.
        chunk.joined_at.store(0, Ordering::Relaxed);
    }
    core.metrics.tables_dropped_unread.add(gone.len() as u64);
    Ok(true)
}

/// When a database without calls has to look for tables that expire, if there are any.
pub(crate) fn expiry_due(clock: &Clock, catalog: &Catalog) -> Option<Instant> {
    if !clock.expiry.is_in_use() {
        return None;
    }
    let now = clock.expiry.now();
    let chunks = catalog.chunks();
    let each = chunks.iter().filter_map(|(_, chunk)| {
        let view = chunk.view.load_full();
        let of_view = view
            .funk
            .tables()
            .filter_map(|table| dead_from(&table.part.meta));
        // The last look has already handled tables that expired before `now`.
        of_view.filter(|&from| from > now).min()
    });
    let next = each.min()?;
    let wait = Duration::from_millis(next.0 - now.0).saturating_add(LOOK_AFTER);
    Some(Instant::now() + wait.min(LOOK_AT_THE_LATEST))
}
