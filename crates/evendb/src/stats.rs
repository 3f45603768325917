//! Gathering [`Stats`] from the counters and from the chunks.

use crate::engine::Engine;
use crate::funk::tables::file_blocks;
use crate::manifest::edit::Place;
use crate::memory::Use;
use crate::metrics::Stats;
use crate::pauses::Waits;
use crate::write::commit_log::Writing;
use evendb_storage::TableId;
use std::collections::HashMap;

impl Engine {
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        let admission = &self.admission;
        let waits = [&admission.room, &admission.pace, &admission.debt].map(Waits::stats);
        self.metrics.fill(&mut stats, waits);
        let memory = &mut stats.memory;
        memory.budget = self.options.memory_budget;
        memory.deltas = self.admission.delta_used();
        memory.row_cache = self
            .row_cache
            .as_ref()
            .map_or(0, |rows| rows.bytes() as u64);
        memory.commit_log = match (&self.commit_log, self.options.commit_log_writing()) {
            (Some(_), Writing::Mapped) => self.ring_room(),
            _ => 0,
        };
        let ledger = self.ledger();
        memory.log_indexes = ledger.bytes(Use::Searches);
        memory.block_indexes = ledger.bytes(Use::Tables);
        memory.metadata = ledger.bytes(Use::Metadata);
        memory.buffers = ledger.bytes(Use::Buffers);
        stats.open_files = self.tables.open_files();
        stats.debt_bytes = self.admission.delta_used();
        for keyspace in self.keyspaces() {
            stats.memory.metadata += keyspace.index.load_full().bytes() as u64;
        }
        // Chunks may share a table.
        let mut files: HashMap<TableId, u64> = HashMap::new();
        for (keyspace, chunk) in self.chunks() {
            let view = chunk.view.load_full();
            stats.chunks += 1;
            if let Some(munk) = &view.munk {
                stats.munks += 1;
                stats.memory.munks += munk.bytes() as u64;
            }
            stats.log_bytes += view.funk.log_bytes();
            stats.sstable_bytes += view.funk.base_bytes();
            stats.data_bytes += view
                .funk
                .tables()
                .map(|table| table.part.meta.data_bytes)
                .sum::<u64>();
            stats.debt_bytes += self.debt_of(&keyspace, &chunk, &view);
            let tables = view.funk.tables().map(|table| &table.part);
            let in_files = tables.filter(|part| part.place == Place::File);
            files.extend(in_files.map(|part| (part.table, file_blocks(part.meta.len))));
        }
        self.fill_space(&mut stats.space, files.values().sum());
        // Pages outlive their munks until nobody reads them, or a user drops its value.
        let pages = self.ledger().bytes(Use::Munks);
        stats.memory.unreclaimed =
            pages.saturating_sub(stats.memory.munks) + crate::memory::slab::slack_bytes();
        stats
    }
}
