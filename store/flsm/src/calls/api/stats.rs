//! Gathers [`Stats`], and the [`TableInfo`] of all tables.

use crate::engine::Engine;
use crate::figures::Stats;
use crate::files::FileName;
use crate::tree::Tree;
use crate::types::LEVELS;
use crate::worker;

/// A table of an open database.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableInfo {
    /// The keyspace.
    pub keyspace: String,
    /// The level: 0 is the newest, and its tables overlap.
    pub level: usize,
    /// The file's name in the directory.
    pub file: String,
    /// Bytes of the file.
    pub bytes: u64,
}

/// All tables, ordered by keyspace, level, guard and age, the newest first.
pub(super) fn tables(engine: &Engine) -> Vec<TableInfo> {
    let mut tables = Vec::new();
    for keyspace in engine.keyspaces() {
        let tree = keyspace.view.load_full().tree.clone();
        tables.extend(tree.tables().map(|(level, table)| TableInfo {
            keyspace: keyspace.name.clone(),
            level: usize::from(level.0),
            file: FileName::Table(table.number).name(),
            bytes: table.meta.len,
        }));
    }
    tables
}

pub(super) fn gather(engine: &Engine) -> Stats {
    let mut tables = vec![0; LEVELS];
    let mut level_bytes = vec![0; LEVELS];
    let mut guards = vec![0; LEVELS];
    let mut runs = vec![0; LEVELS];
    let mut chosen_guards = 0;
    for keyspace in engine.keyspaces() {
        let tree = keyspace.view.load_full().tree.clone();
        for (level, table) in tree.tables() {
            tables[usize::from(level.0)] += 1;
            level_bytes[usize::from(level.0)] += table.meta.len;
        }
        runs[0] = runs[0].max(tree.level0().len() as u64);
        for level in Tree::guarded_levels() {
            let at = usize::from(level.0);
            let all = tree.guards(level).all();
            guards[at] += all.len() as u64;
            let most = all.iter().map(|guard| guard.runs().count() as u64).max();
            runs[at] = runs[at].max(most.unwrap_or(0));
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
        memory_budget: engine.options.memory_budget,
        memory_bytes: memory_bytes.sum(),
        cache_bytes: engine.cache.bytes(),
        table_bytes: engine.making.place.resident_bytes(),
        open_files: engine.making.place.open_tables(),
        cache_hits: engine.cache.hits(),
        cache_misses: engine.cache.misses(),
        debt_bytes: waiting_bytes + worker::level0_due_bytes(engine),
        tables,
        level_bytes,
        runs,
        guards,
        chosen_guards,
        set_aside: engine.work.set_aside(),
        readers: engine.clock.readers() as u64,
        ..engine.figures.stats()
    }
}
