//! Gathers [`Stats`].

use crate::engine::Engine;
use crate::figures::Stats;
use crate::tree::Tree;
use crate::types::LEVELS;
use crate::worker;

pub(super) fn gather(engine: &Engine) -> Stats {
    let mut tables = vec![0; LEVELS];
    let mut level_bytes = vec![0; LEVELS];
    let mut guards = vec![0; LEVELS];
    let mut chosen_guards = 0;
    for keyspace in engine.keyspaces() {
        let tree = keyspace.view.load_full().tree.clone();
        for (level, table) in tree.tables() {
            tables[usize::from(level.0)] += 1;
            level_bytes[usize::from(level.0)] += table.meta.len;
        }
        for level in Tree::guarded_levels() {
            guards[usize::from(level.0)] += tree.guards(level).all().len() as u64;
            chosen_guards += tree.guards(level).chosen().len() as u64;
        }
    }
    let waiting_bytes = engine.work.waiting_bytes();
    let views = engine.keyspaces();
    let memory_bytes = views.iter().map(|keyspace| {
        let view = keyspace.view.load_full();
        let bytes = view.memories.iter();
        bytes
            .map(|(_, table)| table.allocated_bytes() as u64)
            .sum::<u64>()
    });
    Stats {
        memory_bytes: memory_bytes.sum(),
        cache_bytes: engine.cache.bytes(),
        table_bytes: engine.making.place.resident_bytes(),
        open_files: engine.making.place.open_tables(),
        cache_hits: engine.cache.hits(),
        cache_misses: engine.cache.misses(),
        debt_bytes: waiting_bytes + worker::level0_due_bytes(engine),
        tables,
        level_bytes,
        guards,
        chosen_guards,
        readers: engine.clock.readers() as u64,
        ..engine.figures.stats()
    }
}
