//! Gathers [`Stats`] from the counters and from the chunks.

use crate::engine::Engine;
use crate::manifest::edit::Place;
use crate::memory::Use;
use crate::metrics::Stats;
use crate::metrics::pauses::Waits;
use crate::rebalance::{jobs, space};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::tables::{TableHandle, file_blocks};
use evendb_storage::TableId;
use std::collections::HashMap;

pub(crate) fn stats(engine: &Engine) -> Stats {
    let mut stats = Stats::default();
    let admission = &engine.core.admission;
    let waits = [&admission.room, &admission.pace, &admission.debt].map(Waits::stats);
    engine.core.metrics.fill(&mut stats, waits);
    stats.bytes_written.value_files = engine.core.value_files.written.get();
    let memory = &mut stats.memory;
    memory.budget = engine.memory.budget();
    memory.deltas = engine.core.admission.delta_used();
    memory.row_cache = engine.memory.row_bytes();
    stats.spans_to_warm = engine.memory.spans_to_warm();
    memory.commit_log = match &engine.log.commit_log {
        Some(log) if log.is_mapped() => log.bytes_in_memory(),
        _ => 0,
    };
    let ledger = engine.core.ledger();
    memory.log_indexes = ledger.bytes(Use::Searches);
    memory.block_indexes = ledger.bytes(Use::Tables);
    memory.metadata = ledger.bytes(Use::Metadata);
    memory.buffers = ledger.bytes(Use::Buffers);
    stats.open_files = engine.disk.tables.open_files();
    stats.debt_bytes = engine.core.admission.delta_used();
    for keyspace in engine.catalog.keyspaces() {
        stats.memory.metadata += keyspace.index.load_full().bytes() as u64;
    }
    // Chunks may share a table.
    let mut files: HashMap<TableId, u64> = HashMap::new();
    for (keyspace, chunk) in engine.catalog.chunks() {
        let view = chunk.view.load_full();
        stats.chunks += 1;
        if let Some(munk) = &view.munk {
            stats.munks += 1;
            stats.memory.munks += munk.bytes() as u64;
        }
        let is_left_out = |table: &&Arc<TableHandle>| table.is_damaged();
        stats.damaged += u64::from(chunk.damaged.load(Ordering::Relaxed));
        stats.damaged += view.funk.tables().filter(is_left_out).count() as u64;
        let runs = view.funk.runs.len() as u64;
        stats.log_runs += runs;
        stats.log_runs_most = stats.log_runs_most.max(runs);
        stats.log_bytes += view.funk.log_bytes();
        stats.sstable_bytes += view.funk.base_bytes();
        stats.data_bytes += view
            .funk
            .tables()
            .map(|table| table.part.meta.data_bytes)
            .sum::<u64>();
        stats.debt_bytes += jobs::debt_of(&engine.jobs(), &keyspace, &chunk, &view);
        let tables = view.funk.tables().map(|table| &table.part);
        let in_files = tables.filter(|part| part.place == Place::File);
        files.extend(in_files.map(|part| (part.table, file_blocks(part.meta.len))));
    }
    space::fill_space(engine, &mut stats.space, files.values().sum());
    // A munk's pages stay until no reader uses them and the user has dropped their values.
    let pages = engine.core.ledger().bytes(Use::Munks);
    stats.memory.unreclaimed =
        pages.saturating_sub(stats.memory.munks) + crate::memory::slab::slack_bytes();
    stats
}
