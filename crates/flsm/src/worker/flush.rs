//! A generation becomes tables of level 0, and its log goes.
//!
//! All its memory tables leave by one edit, which also says that the log is not needed: a crash finds either the log, or all
//! of the tables.

use super::show::{commit, discard};
use crate::compaction;
use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::engine::work::Generation;
use crate::files::FileName;
use crate::manifest::state::Edit;
use crate::tree::TreeEdit;
use crate::types::KeyspaceId;
use evendb_base::sync::atomic::Ordering::Relaxed;

/// Flushes the oldest generation that waits.
pub(super) fn flush(engine: &Engine, generation: &Generation) -> Result<(), Stopped> {
    let mut trees = Vec::new();
    if let Err(stopped) = write_tables(engine, generation, &mut trees) {
        trees.iter().for_each(|(_, edit)| discard(edit));
        return Err(stopped);
    }
    let tables = trees.iter().flat_map(|(_, edit)| &edit.added);
    let bytes: u64 = tables.map(|(_, table)| table.meta.len).sum();
    let edit = Edit {
        trees,
        last_version: Some(generation.last_version),
        log_number: Some(generation.next),
        ..Edit::default()
    };
    let keyspaces: Vec<_> = generation
        .memories
        .iter()
        .map(|(keyspace, _)| keyspace.clone())
        .collect();
    commit(engine, edit, &keyspaces, Some(generation.number))?;
    engine.figures.flushed_bytes.fetch_add(bytes, Relaxed);
    engine.figures.flushes.fetch_add(1, Relaxed);
    for log in &generation.logs {
        // If it stays, the next opening removes it.
        let _ = engine
            .options
            .vfs
            .remove(&FileName::Log(*log).path(&engine.dir));
    }
    engine.work.flushed(generation);
    Ok(())
}

fn write_tables(
    engine: &Engine,
    generation: &Generation,
    trees: &mut Vec<(KeyspaceId, TreeEdit)>,
) -> Result<(), Stopped> {
    let horizon = engine.clock.horizon();
    for (keyspace, memory) in &generation.memories {
        if keyspace.is_dropped() {
            continue;
        }
        let tree = keyspace.view.load_full().tree.clone();
        let edit = compaction::flush::flush(
            &engine.making,
            &tree,
            engine.options.last_guard_bytes(),
            &mut memory.cursor(),
            &horizon,
            &|| false,
        )?;
        trees.push((keyspace.id, edit));
    }
    Ok(())
}
