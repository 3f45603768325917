//! Many records at once: ingests, exports that another keyspace imports, backups.

use super::expiry::far;
use super::{Call, call};
use crate::common::oracle::Map;
use crate::common::varied;
use crate::world::{Effects, Outcome, World};
use evendb::{Backups, CopyCheck, CopyOptions, ErrorKind};
use std::path::Path;
use std::sync::Arc;

pub const CALLS: &[Call] = &[
    call("ingest", 12, ingest),
    call("give up an ingest", 3, give_up),
    call("export and import", 4, export),
    call("back up", 4, back_up),
];

const BACKUPS: &str = "/backups";
const BACKUPS_MAX: usize = 2;

impl World {
    /// Changes do not have ingested records, so consumers that follow them begin anew.
    fn nobody_follows(&mut self) {
        self.consumers.clear();
        for held in &mut self.snapshots {
            held.position = None;
        }
    }

    /// An ingest of records into a keyspace, as one write. All earlier writes are durable after it,
    /// unless it has no record.
    fn ingests(
        &mut self,
        generation: u32,
        records: &Map,
        act: impl FnOnce() -> evendb::Result<evendb::IngestSummary>,
    ) -> Outcome {
        self.nobody_follows();
        let mut effects = Effects::default();
        for (key, value) in records {
            effects.set((generation, key), Some(value));
        }
        let summary = self.write(effects, None, act)?;
        if !records.is_empty() {
            self.all_is_durable();
        }
        if !self.vfs.crashed() {
            assert_eq!(summary.records, records.len() as u64);
        }
        Ok(())
    }

    fn records(&mut self) -> Map {
        let count = *self.dice.pick(&[0, 1, 3, 20, 80]);
        let record = |_| (self.dice.key(), self.dice.value());
        (0..count).map(record).collect()
    }
}

fn ingest(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (records, form) = (world.records(), world.dice.below(4));
    let db = world.db().clone();
    match form {
        0 if generation == 0 => {
            world.did("Db::ingest");
            world.ingests(generation, &records, || db.ingest(&records))
        }
        1 => {
            world.did("Keyspace::begin_ingest");
            world.did("Ingest::put");
            world.did("Ingest::finish");
            world.ingests(generation, &records, || {
                let mut ingest = keyspace.begin_ingest()?;
                for (key, value) in &records {
                    ingest.put(key, value)?;
                }
                ingest.finish()
            })
        }
        2 => {
            world.did("Ingest::put_expiring_at");
            world.ingests(generation, &records, || {
                let mut ingest = keyspace.begin_ingest()?;
                for (key, value) in &records {
                    ingest.put_expiring_at(key, value, far())?;
                }
                ingest.finish()
            })
        }
        _ => {
            world.did("Keyspace::ingest");
            world.ingests(generation, &records, || keyspace.ingest(&records))
        }
    }
}

/// An ingest that is dropped, or out of order, leaves nothing.
fn give_up(world: &mut World) -> Outcome {
    let (keyspace, _) = world.keyspace()?;
    let records = world.records();
    world.did("Keyspace::begin_ingest");
    let mut ingest = keyspace.begin_ingest()?;
    for (key, value) in &records {
        ingest.put(key, value)?;
    }
    if let Some(first) = records.keys().next().filter(|_| world.dice.one_in(2)) {
        let refused = ingest.put(first, "again").expect_err("it is not ascending");
        assert!(
            refused.kind() == ErrorKind::Unsorted || world.vfs.crashed(),
            "{refused:?}"
        );
    }
    Ok(())
}

fn remove_all(world: &World, dir: &Path) {
    for name in world.vfs.file_names(dir) {
        world.vfs.remove_file(&dir.join(name));
    }
}

fn export(world: &mut World) -> Outcome {
    let (from, source) = world.keyspace()?;
    let (to, target) = world.keyspace()?;
    world.copies += 1;
    let dir = format!("/exports/{}", world.copies);
    let records = world.map(source).clone();
    world.did("Keyspace::export");
    let exported = from.export(&dir)?;
    if world.vfs.crashed() {
        return Ok(());
    }
    assert_eq!(exported.records, records.len() as u64);
    world.did("Keyspace::import");
    world.ingests(target, &records, || to.import(&dir))?;
    remove_all(world, Path::new(&dir));
    Ok(())
}

/// A backup holds the acknowledged writes; the one before stays whole.
fn back_up(world: &mut World) -> Outcome {
    let made = match world.dice.below(2) {
        0 => {
            world.did("Db::backup");
            world.db().backup(BACKUPS)?
        }
        _ => {
            world.did("Db::backup_with");
            let how = CopyOptions::new().verify(CopyCheck::All);
            world.db().backup_with(BACKUPS, &how)?
        }
    };
    world.all_is_durable();
    if world.vfs.crashed() {
        return Ok(());
    }
    let backups = Backups::at(BACKUPS).vfs(Arc::new(world.vfs.clone()));
    for call in [
        "Backups::at",
        "Backups::vfs",
        "Backups::list",
        "Backups::prune",
    ] {
        world.did(call);
    }
    let list = backups.list()?;
    if world.vfs.crashed() {
        return Ok(());
    }
    let last = list.last().expect("one at least");
    assert_eq!((last.number, last.bytes), (made.number, made.bytes));
    assert!(list.iter().all(|info| info.damage.is_none()), "{list:?}");
    let removed = backups.prune(BACKUPS_MAX)?;
    if world.vfs.crashed() {
        return Ok(());
    }
    assert_eq!(removed, list.len().saturating_sub(BACKUPS_MAX) as u64);
    // On a copy of the disk, on which nothing stops.
    let vfs = world.vfs.fork_state();
    vfs.set_crash_at(u64::MAX);
    let backups = Backups::at(BACKUPS).vfs(Arc::new(vfs.clone()));
    for call in ["Backups::verify", "Backups::restore"] {
        world.did(call);
    }
    for info in backups.list()? {
        assert_eq!(backups.verify(Some(info.number))?, info.number);
    }
    assert_eq!(backups.restore(None, "/restored")?, made.number);
    let restored = varied(&vfs, world.level, world.dice.below(64)).open("/restored")?;
    world.compare(&restored, "restored from a backup")
}
