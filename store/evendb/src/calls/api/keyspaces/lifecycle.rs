//! How a keyspace comes into being, and how it is dropped: one edit of the manifest each.

use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::full_disk::Need;
use crate::manifest::edit::Change;
use crate::options::KeyspaceOptions;
use crate::plant::planted;
use crate::sync::Arc;
use crate::tables::TableHandle;
use crate::{opening, worker};

/// Writes one edit about keyspaces, durably. A full disk or a lack of descriptors leaves everything
/// as it was; any other failure latches the database.
pub(super) fn flush(engine: &Engine, changes: Vec<Change>) -> Result<()> {
    let flushed = engine.disk.manifest().flush(changes);
    let bytes = flushed.map_err(|error| engine.core.health.latch_unless_full(error))?;
    engine.core.metrics.bytes_manifest.add(bytes);
    Ok(())
}

/// The keyspace with this name, created if there is none.
pub(crate) fn create_keyspace(
    engine: &Engine,
    name: &str,
    options: &KeyspaceOptions,
) -> Result<Arc<KeyspaceState>> {
    engine.core.health.check_writable()?;
    engine.disk.full_disk.check(&engine.catalog)?;
    let mut catalog = engine.catalog.lock();
    if let Some(known) = catalog.get(name) {
        return Ok(known.clone());
    }
    let (core, disk) = (&engine.core, &engine.disk);
    let options = &options.of_new(&core.options);
    let (keyspace, changes) = opening::keyspace::new_keyspace(core, disk, name, options)?;
    flush(engine, changes)?;
    core.choices.set(keyspace.id, options.clone());
    keyspace.follow(options);
    catalog.insert(name.to_owned(), keyspace.clone());
    Ok(keyspace)
}

/// Drops a keyspace. Its tables go once no reader needs them.
pub(crate) fn drop_keyspace(engine: &Engine, name: &str) -> Result<()> {
    let enters = !planted!(engine.core.options, KeyspacesOutside);
    let enter = || engine.core.health.enter_writable();
    let _inside = enters.then(enter).transpose()?;
    // First: what was put earlier is durable before the removal.
    worker::persist(engine)?;
    // No checkpoint may run meanwhile: it could name a chunk that is no longer there.
    let no_checkpoint = engine.flow.checkpoint_mutex.lock();
    let mut catalog = engine.catalog.lock();
    let Some(keyspace) = catalog.get(name).cloned() else {
        let message = format!("there is no keyspace {name:?}");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    };
    keyspace.set_dropped(true);
    // Writes that were announced earlier have finished; later ones see the mark.
    engine.core.clock.wait_all_idle_once();
    // Snapshots may still read records of it that only deltas have, and no checkpoint takes these
    // any more.
    let in_deltas = engine.core.value_files.not_completed();
    *keyspace.kept_value_files.lock() = in_deltas;
    let change = Change::DropKeyspace { id: keyspace.id };
    let tables = last_tables(&keyspace);
    let drop_it = || flush(engine, vec![change.clone()]);
    let dropped = engine.disk.full_disk.with(Need::Jobs, drop_it);
    dropped.inspect_err(|_| {
        // It is not dropped after all, unless nothing may be written any more.
        keyspace.set_dropped(false);
        keyspace.kept_value_files.lock().clear();
    })?;
    // Otherwise a snapshot taken before the drop could read first, and be refused.
    let clock = &engine.core.clock;
    match planted!(engine.core.options, EndsBesideSnapshots) {
        true => keyspace.end_reading(clock.now()),
        false => clock.between_snapshots(|now| keyspace.end_reading(now)),
    }
    let mut dirty = engine.flow.dirty.lock();
    dirty.retain(|(chunk, _)| {
        chunk
            .upgrade()
            .is_some_and(|chunk| chunk.keyspace != keyspace.id)
    });
    drop(dirty);
    catalog.remove(name);
    engine.core.choices.set(keyspace.id, KeyspaceOptions::new());
    engine.disk.tables.registry().release(tables);
    drop(keyspace);
    drop(catalog);
    drop(no_checkpoint);
    // Watches of the keyspace end. No lock is held: wakers are code of the application.
    if let Some(log) = &engine.log.commit_log {
        log.wake_all_followers();
    }
    engine.work.stir();
    Ok(())
}

/// The tables of a keyspace that is marked as dropped. Jobs that change the layout look at the mark
/// under the latches, before they queue an edit. So the chunks that are latched here all at once,
/// with none of them retired, are the last layout.
fn last_tables(keyspace: &KeyspaceState) -> Vec<Arc<TableHandle>> {
    loop {
        let index = keyspace.index.load_full();
        let latched: Vec<_> = index.iter().map(|(_, chunk)| chunk.latch.lock()).collect();
        if latched.iter().all(|writer| !writer.retired) {
            return index
                .iter()
                .flat_map(|(_, chunk)| {
                    let view = chunk.view.load_full();
                    view.funk.tables().cloned().collect::<Vec<_>>()
                })
                .collect();
        }
    }
}
