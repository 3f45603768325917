//! Makes tables from a generation, and removes its log.
//!
//! All memory tables of the generation leave by one edit, which also says that the log is not
//! needed. So a crash leaves either the log or all of the tables.

use super::making;
use super::show::commit;
use crate::compaction;
use crate::compaction::rewrite::{Rewritten, Stopped};
use crate::engine::Engine;
use crate::engine::work::Generation;
use crate::files::FileName;
use crate::keyspace::KeyspaceState;
use crate::manifest::state::Edit;
use crate::plant::planted;
use crate::types::FileNumber;
use evendb_base::sync::Arc;
use evendb_base::sync::atomic::Ordering::Relaxed;

/// Flushes the oldest waiting generation.
pub(super) fn flush(engine: &Engine, generation: &Generation) -> Result<(), Stopped> {
    let written = write_tables(engine, generation)?;
    let keyspaces: Vec<_> = generation
        .memories
        .iter()
        .map(|(keyspace, _)| keyspace.clone())
        .collect();
    if planted!(engine.options, LogRemovedEarly) {
        remove_logs(engine, generation);
    }
    let mut bytes = 0;
    commit(engine, &keyspaces, Some(generation.number), |state| {
        let mut trees = Vec::new();
        for (keyspace, rewritten) in written {
            // The tables of a keyspace that was dropped meanwhile are removed with `rewritten`.
            if state.keyspaces().contains_key(&keyspace.id) {
                let mut edit = rewritten.edit(&engine.making.numbers);
                if planted!(engine.options, GuardNotLogged) {
                    edit.guards.pop();
                }
                bytes += edit
                    .added
                    .iter()
                    .map(|(_, table)| table.meta.len)
                    .sum::<u64>();
                trees.push((keyspace.id, edit));
            }
        }
        Some(Edit {
            trees,
            last_version: match planted!(engine.options, LastVersionNotSaid) {
                true => None,
                false => Some(generation.last_version),
            },
            log_number: Some(match planted!(engine.options, LogNumberTooHigh) {
                true => FileNumber(generation.next.0 + 1),
                false => generation.next,
            }),
            ..Edit::default()
        })
    })?;
    engine.figures.flushed_bytes.fetch_add(bytes, Relaxed);
    engine.figures.flushes.fetch_add(1, Relaxed);
    remove_logs(engine, generation);
    engine.work.flushed(generation);
    Ok(())
}

/// Removes the generation's logs. If one stays, the next opening removes it.
fn remove_logs(engine: &Engine, generation: &Generation) {
    for log in &generation.logs {
        let path = FileName::Log(*log).path(&engine.dir);
        let _ = engine.options.vfs.remove(&path);
    }
}

/// Writes the tables of each keyspace that has records and was not dropped.
fn write_tables(
    engine: &Engine,
    generation: &Generation,
) -> Result<Vec<(Arc<KeyspaceState>, Rewritten)>, Stopped> {
    let (horizon, making) = (engine.clock.horizon(), making(engine));
    let mut written = Vec::new();
    for (keyspace, memory) in &generation.memories {
        if keyspace.is_dropped() {
            continue;
        }
        let tree = keyspace.view.load_full().tree.clone();
        let rewritten = compaction::flush::flush(
            &making,
            &tree,
            &engine.guards,
            &mut memory.cursor(),
            &horizon,
            &|| false,
        )?;
        if !rewritten.is_empty() {
            written.push((keyspace.clone(), rewritten));
        }
    }
    Ok(written)
}
