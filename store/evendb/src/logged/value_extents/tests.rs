//! Crashes around writes; some writes have extents, and some wait for the disk. Promised
//! writes are there, no later write comes back, and a log that is synced without its extents is
//! noticed.

use crate::plant::Plant;
use crate::{Db, Durability, ErrorKind, Options};
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimEventKind, SimVfs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
/// More than an eighth of the log.
const LARGE: usize = 9_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Large,
    Small,
    LargeSynced,
    SmallSynced,
    Persist,
    Checkpoint,
}
use Step::*;

/// Every order of an extent, a write beside it, and the step that makes both durable.
const RUNS: [&[Step]; 4] = [
    &[Large, Small, SmallSynced, Large, Small],
    &[Small, Large, Large, Persist, Large, Checkpoint, Small],
    &[Large, LargeSynced, Small, Large, SmallSynced],
    &[Large, Checkpoint, Large, Small, Persist, Large],
];

fn options(vfs: &SimVfs, level: Durability, plant: Plant, mapped: bool) -> Options {
    let mut options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .commit_log_mapped(mapped)
        })
        .durability(level)
        .workers(0)
        .vfs(Arc::new(vfs.clone()));
    options.plant = plant;
    options
}

/// The key and value of the write with this number.
fn record(number: usize, step: Step) -> (String, Vec<u8>) {
    let len = match step {
        Large | LargeSynced => LARGE + number,
        _ => 20,
    };
    (format!("{number:03}"), vec![number as u8; len])
}

/// Which writes of a run were begun, and which were promised to survive a power loss.
#[derive(Default, Clone)]
struct Told {
    begun: Vec<(String, Vec<u8>)>,
    /// Also promised to survive the death of the process.
    written: usize,
    durable: usize,
}

fn write(db: &Db, step: Step, told: &mut Told) -> crate::Result<()> {
    let level = match step {
        Large | Small => None,
        LargeSynced | SmallSynced => Some(Durability::Sync),
        Persist => return db.persist(),
        Checkpoint => return db.flush(),
    };
    let (key, value) = record(told.begun.len(), step);
    told.begun.push((key.clone(), value.clone()));
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), key, value);
    if let Some(level) = level {
        batch.durability(level);
    }
    batch.commit()
}

fn run(db: &Db, vfs: &SimVfs, level: Durability, steps: &[Step], told: &mut Told) {
    for &step in steps {
        if write(db, step, told).is_err() || vfs.crashed() {
            return;
        }
        told.written = told.begun.len();
        if level == Durability::Sync || !matches!(step, Large | Small) {
            told.durable = told.written;
        }
    }
}

/// Opens what a crash left; returns how many of the writes, in their order, are there.
fn found(db: &Db, told: &Told) -> Result<usize, String> {
    let mut here = Vec::new();
    for item in db.iter() {
        let (key, value) = item.map_err(|error| error.to_string())?;
        here.push((String::from_utf8_lossy(&key).into_owned(), value.to_vec()));
    }
    match told.begun.starts_with(&here) {
        true => Ok(here.len()),
        false => Err(format!("{} records that are no prefix", here.len())),
    }
}

/// Checks one crash: the state that is found, and that the next life, which writes and is cut off
/// as well, has exactly that state and its own writes.
fn look(machine: &SimVfs, level: Durability, told: &Told, promised: usize) -> Result<(), String> {
    let open = |vfs: &SimVfs| options(vfs, level, Plant::Nothing, true).open(DIR);
    let db = open(machine).map_err(|error| format!("opening: {error}"))?;
    let length = found(&db, told)?;
    if length < promised {
        return Err(format!("{length} of {promised} promised ones"));
    }
    let mut next = Told {
        begun: told.begun[..length].to_vec(),
        ..Told::default()
    };
    for step in [Small, Large, SmallSynced] {
        write(&db, step, &mut next).map_err(|error| format!("going on: {error}"))?;
    }
    let left = machine.crash(CrashMode::PowerLossNothing);
    drop(db);
    let db = open(&left).map_err(|error| format!("opening again: {error}"))?;
    match found(&db, &next)? == next.begun.len() {
        true => Ok(()),
        false => Err("what went on is not what is there".to_owned()),
    }
}

/// All crashes of all runs; returns their number, or the first one that broke a promise.
fn crashes(level: Durability, plant: Plant) -> Result<u64, String> {
    let mut count = 0;
    for (seed, steps) in RUNS.into_iter().enumerate() {
        for mapped in [true, false] {
            let whole = SimVfs::new(seed as u64);
            let opened = options(&whole, level, plant, mapped).open(DIR);
            run(
                &opened.expect("opens"),
                &whole,
                level,
                steps,
                &mut Told::default(),
            );
            for at in 0..whole.op_count() {
                let vfs = SimVfs::new(seed as u64);
                vfs.set_crash_at(at);
                let mut told = Told::default();
                let db = options(&vfs, level, plant, mapped).open(DIR);
                if let Ok(db) = &db {
                    run(db, &vfs, level, steps, &mut told);
                }
                drop(db);
                let random = (0..6).map(|number| CrashMode::PowerLossRandom(at * 6 + number));
                let modes = [
                    CrashMode::Process,
                    CrashMode::PowerLossNothing,
                    CrashMode::PowerLossAll,
                ];
                for mode in modes.into_iter().chain(random) {
                    let promised = match mode {
                        CrashMode::Process => told.written,
                        _ => told.durable,
                    };
                    count += 1;
                    look(&vfs.crash(mode), level, &told, promised).map_err(|what| {
                        format!(
                            "run {seed} mapped {mapped} {level:?} operation {at} {mode:?}: {what}"
                        )
                    })?;
                }
            }
        }
    }
    Ok(count)
}

#[test]
fn what_was_promised_survives_with_its_extents() {
    for level in [Durability::Process, Durability::Sync] {
        let count = crashes(level, Plant::Nothing).unwrap_or_else(|what| panic!("{what}"));
        assert!(count > 1_000, "{count} crashes");
    }
}

#[test]
fn p17_a_log_that_is_synced_without_its_extents_is_caught() {
    let what = crashes(Durability::Process, Plant::NoExtentsSynced).expect_err("is noticed");
    // The record says that the extent was durable, so a missing extent is even called damage.
    assert!(
        what.contains("promised") || what.contains("damaged"),
        "{what}"
    );
}

fn syncs_of_extents(vfs: &SimVfs) -> usize {
    let events = vfs.take_trace();
    let of_extent = |path: &Path| path.extension().is_some_and(|end| end == "val");
    let is_sync = |event: &&evendb_storage::vfs::SimEvent| {
        event.kind == SimEventKind::SyncData && of_extent(&event.path)
    };
    events.iter().filter(is_sync).count()
}

#[test]
fn extents_are_synced_once_and_only_where_something_waits_for_the_disk() {
    let vfs = SimVfs::new(1);
    let db = options(&vfs, Durability::Process, Plant::Nothing, true).open(DIR);
    let db = db.expect("opens");
    let mut told = Told::default();
    let mut write = |step| write(&db, step, &mut told).expect("writes");
    vfs.trace(true);
    for (step, expected) in [
        (Large, 0),
        (Large, 0),
        // A checkpoint has them.
        (Checkpoint, 0),
        (Persist, 0),
        (Large, 0),
        (Small, 0),
        (Large, 0),
        (SmallSynced, 2),
        (Persist, 0),
        (Large, 0),
        // First its own extent, then the one before.
        (LargeSynced, 2),
        (Persist, 0),
    ] {
        write(step);
        assert_eq!(syncs_of_extents(&vfs), expected, "{step:?}");
    }
    let listed = || db.engine().log.value_extents.listed.lock().len();
    assert_eq!(listed(), 4);
    write(Checkpoint);
    assert_eq!(listed(), 0);
}

#[test]
fn no_more_than_so_many_are_left_unsynced() {
    let vfs = SimVfs::new(1);
    let extents = super::ValueExtents::new(Arc::new(vfs.clone()), Path::new("/"), &[]);
    let is_synced = |id| {
        let written = extents.write(id, &[], false).expect("writes");
        written.extent_name().expect("an extent").is_synced
    };
    let bound = super::UNSYNCED_MAX as u64;
    assert!((0..bound).all(|id| !is_synced(id)));
    assert!(is_synced(bound));
    super::SyncedFirst::sync(&extents).expect("syncs");
    assert!(!is_synced(bound + 1));
}

/// A failed sync of an extent, or of its name, is a failed sync of the log: it stops all writes,
/// and the writes that it should have made durable are not acknowledged.
#[test]
fn a_failed_sync_of_an_extent_stops_all_writes() {
    for (on, path) in [(FaultOn::Sync, ".val"), (FaultOn::Change, DIR)] {
        for kind in [FaultKind::SyncFailsThenClean, FaultKind::Eio] {
            let vfs = SimVfs::new(3);
            let db = options(&vfs, Durability::Process, Plant::Nothing, true).open(DIR);
            let db = db.expect("opens");
            let mut told = Told::default();
            write(&db, Large, &mut told).expect("writes");
            // Among the operations on the directory and its files, the sync of the extent is the
            // first.
            let at = u64::from(on == FaultOn::Change);
            vfs.inject(Fault {
                at,
                on,
                kind,
                sticky: false,
                path_contains: Some(path.to_owned()),
            });
            let error = write(&db, SmallSynced, &mut told).expect_err("not durable");
            assert_ne!(error.kind(), ErrorKind::Latched, "{error}");
            let error = write(&db, Small, &mut told).expect_err("latched");
            assert_eq!(error.kind(), ErrorKind::Latched, "{error}");
            assert!(db.persist().is_err());
            drop(db);
            for mode in [CrashMode::PowerLossNothing, CrashMode::PowerLossRandom(7)] {
                look(&vfs.crash(mode), Durability::Process, &told, 0).expect("a prefix");
            }
        }
    }
}
