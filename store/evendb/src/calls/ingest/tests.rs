//! The promises of a call of `ingest`, one by one, and that faults are noticed.

use crate::inspect::{self, InspectOptions, RepairOptions};
use crate::munk::Munk;
use crate::plant::Plant;
use crate::rebalance::spans;
use crate::{Db, Durability, ErrorKind, Options};
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Options of a small database without threads.
pub(crate) fn options(vfs: &SimVfs, plant: Plant) -> Options {
    let mut options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.commit_log_bytes(64 << 10).chunk_bytes(4096))
        .durability(Durability::Process)
        .workers(0)
        .vfs(Arc::new(vfs.clone()));
    options.plant = plant;
    options
}

fn open(vfs: &SimVfs, plant: Plant) -> Db {
    options(vfs, plant).open(DIR).expect("opens")
}

fn open_at(dir: &str, vfs: &SimVfs) -> Db {
    options(vfs, Plant::Nothing).open(dir).expect("opens")
}

fn key(number: usize) -> String {
    format!("k{number:05}")
}

fn records(range: std::ops::Range<usize>, value: u8) -> impl Iterator<Item = (String, Vec<u8>)> {
    range.map(move |number| (key(number), vec![value; 50]))
}

fn value(db: &Db, number: usize) -> Option<u8> {
    let value = db.get(key(number)).expect("gets")?;
    Some(value[0])
}

fn tables(vfs: &SimVfs) -> usize {
    let names = vfs.file_names(Path::new(DIR));
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn into_an_empty_keyspace_each_table_is_a_chunk_that_is_never_written_again() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::Nothing);
    let summary = db.ingest(records(0..2000, 1)).unwrap();
    assert_eq!((summary.records, summary.data_bytes), (2000, 2000 * 56));
    assert_eq!(summary.tables_overlapping, 0);
    assert!(summary.tables > 20, "{summary:?}");
    assert_eq!(db.stats().chunks, summary.tables);
    let before = db.stats().bytes_written.sstable;
    db.settle_debt().unwrap();
    assert_eq!(db.stats().bytes_written.sstable, before, "written again");
    assert_eq!(tables(&vfs) as u64, summary.tables);
    assert_eq!(db.iter().count(), 2000);
    assert_eq!(db.iter().rev().count(), 2000);
    assert_eq!(value(&db, 1234), Some(1));
    // Also behind it, and between two of its chunks.
    let more = db.ingest(records(3000..5000, 2)).unwrap();
    let between = db.ingest([("k00000a", "x"), ("k00000b", "y")]).unwrap();
    assert_eq!(more.tables_overlapping, 0);
    assert_eq!(between.tables_overlapping, 1, "a table lies there");
    assert_eq!(db.iter().count(), 4002);
    db.close().unwrap();
    assert_eq!(open(&vfs, Plant::Nothing).iter().count(), 4002);
}

/// Whether all records have their expected values, by gets and by a scan.
fn have_values(db: &Db, count: usize, of: impl Fn(usize) -> Option<u8>) -> Result<(), String> {
    for number in 0..count {
        let found = db.get(key(number)).map_err(|error| error.to_string())?;
        let found = found.map(|value| value[0]);
        if found != of(number) {
            return Err(format!("{number}: {found:?}"));
        }
    }
    let there = (0..count).filter(|number| of(*number).is_some()).count();
    match db.iter().count() {
        found if found == there => Ok(()),
        found => Err(format!("{found} records of {there}")),
    }
}

/// Ingested records above earlier puts and deletes, and below later ones.
fn newer_than_all_before(plant: Plant) -> Result<(), String> {
    let vfs = SimVfs::new(2);
    let db = open(&vfs, plant);
    for (key, value) in records(0..300, 1) {
        db.put(key, value).unwrap();
    }
    db.settle_debt().unwrap();
    // Some in memory, some deleted one by one or by ranges, in the manifest or not.
    db.delete_range(key(100)..key(150)).unwrap();
    db.flush().unwrap();
    db.delete_range(key(140)..key(200)).unwrap();
    db.put(key(7), [3; 9]).unwrap();
    db.delete(key(8)).unwrap();
    let summary = db.ingest(records(0..250, 2)).unwrap();
    assert!(summary.tables_overlapping > 0);
    let ingested = |number| Some(if number < 250 { 2 } else { 1 });
    have_values(&db, 300, ingested)?;
    let left = vfs.fork_state().crash(CrashMode::PowerLossNothing);
    have_values(&open(&left, Plant::Nothing), 300, ingested)?;
    db.settle_debt().unwrap();
    have_values(&db, 300, ingested)?;
    // Later puts are newer.
    db.put(key(9), [4; 9]).unwrap();
    db.delete_range(key(20)..key(30)).unwrap();
    let later = |number| match number {
        9 => Some(4),
        20..30 => None,
        _ => ingested(number),
    };
    have_values(&db, 300, later)?;
    db.settle_debt().unwrap();
    have_values(&db, 300, later)?;
    db.close().unwrap();
    have_values(&open(&vfs, Plant::Nothing), 300, later)
}

#[test]
fn it_is_newer_than_all_that_was_put_and_deleted_before() {
    newer_than_all_before(Plant::Nothing).unwrap();
}

#[test]
fn p89_a_manifest_that_does_not_say_the_version_is_noticed() {
    newer_than_all_before(Plant::IngestNamedWithoutVersion).unwrap_err();
}

#[test]
fn unsorted_input_is_an_error_that_names_both_keys_and_leaves_nothing() {
    let vfs = SimVfs::new(3);
    let db = open(&vfs, Plant::Nothing);
    let input = records(0..500, 1).chain(records(499..500, 1));
    let error = db.ingest(input).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsorted);
    assert!(
        error.to_string().contains("\"k00499\" comes twice"),
        "{error}"
    );
    let input = records(0..500, 1).chain(records(17..18, 1));
    let error = db.ingest(input).unwrap_err().to_string();
    assert!(
        error.contains("\"k00017\" comes after \"k00499\""),
        "{error}"
    );
    assert_eq!((db.iter().count(), tables(&vfs)), (0, 0));
    let mut begun = db.default_keyspace().begin_ingest().unwrap();
    for (key, value) in records(0..500, 1) {
        begun.put(key, value).unwrap();
    }
    assert!(tables(&vfs) > 1, "they are written on the way");
    assert!(begun.put("a", "b").is_err());
    let error = begun.put("z", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "it is over");
    assert_eq!(tables(&vfs), 0);
    assert!(begun.finish().is_err());
    let mut begun = db.default_keyspace().begin_ingest().unwrap();
    for (key, value) in records(0..500, 1) {
        begun.put(key, value).unwrap();
    }
    drop(begun);
    assert_eq!(tables(&vfs), 0, "of one that was dropped");
    let none: [(&str, &str); 0] = [];
    assert_eq!(db.ingest(none).unwrap().records, 0);
    assert!(
        db.ingest(records(0..500, 1)).is_ok(),
        "nothing is left behind"
    );
}

/// The records that an older snapshot and an older iterator see.
fn older_moments_stay(plant: Plant) -> Result<(), String> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, plant);
    for (key, value) in records(0..100, 1) {
        db.put(key, value).unwrap();
    }
    db.settle_debt().unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut iter = db.iter();
    iter.next().unwrap().unwrap();
    db.ingest(records(50..400, 2)).unwrap();
    for _ in 0..2 {
        let seen = snapshot.iter(db.default_keyspace());
        let seen: Vec<u8> = seen.map(|item| item.unwrap().1[0]).collect();
        if seen != [1; 100] {
            return Err(format!("a snapshot sees {} records", seen.len()));
        }
        if snapshot
            .get(db.default_keyspace(), key(60))
            .unwrap()
            .unwrap()[0]
            != 1
        {
            return Err("a snapshot gets what came later".into());
        }
        if db
            .iter()
            .filter(|item| item.as_ref().unwrap().1[0] == 2)
            .count()
            != 350
        {
            return Err("a scan does not see all".into());
        }
        // Rewritten beside the snapshot.
        db.settle_debt().unwrap();
        db.compact().unwrap();
    }
    let rest: Vec<u8> = iter.map(|item| item.unwrap().1[0]).collect();
    if rest != [1; 99] {
        return Err(format!("an iterator goes on with {} records", rest.len()));
    }
    // The rewrites kept versions of a checkpoint that is not complete. The next life begins above
    // them.
    for life in 0..2 {
        let left = vfs.crash(CrashMode::Process);
        let db = open(&left, Plant::Nothing);
        db.put(key(60), [5]).unwrap();
        db.delete(key(61)).unwrap();
        db.settle_debt().unwrap();
        db.compact().unwrap();
        if (value(&db, 60), value(&db, 61)) != (Some(5), None) {
            return Err(format!("life {life}: a put is lost"));
        }
    }
    Ok(())
}

#[test]
fn snapshots_and_iterators_of_before_do_not_see_it() {
    older_moments_stay(Plant::Nothing).unwrap();
}

#[test]
fn p31_records_without_a_version_are_noticed() {
    older_moments_stay(Plant::IngestWithoutVersion).unwrap_err();
}

/// Records of an ingest that returned without an error are there after each kind of crash.
fn survives(plant: Plant) -> Result<(), String> {
    for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
        let vfs = SimVfs::new(5);
        let db = open(&vfs, plant);
        db.put(key(3), [9]).unwrap();
        db.ingest(records(10..400, 2)).unwrap();
        let left = vfs.crash(mode);
        let db = options(&left, Plant::Nothing).open(DIR);
        let db = db.map_err(|error| format!("{mode:?}: {error}"))?;
        let count = db.iter().take_while(|item| item.is_ok()).count();
        if count != 391 {
            return Err(format!("{mode:?}: {count} records"));
        }
    }
    Ok(())
}

#[test]
fn it_survives_power_loss_on_return() {
    survives(Plant::Nothing).unwrap();
}

#[test]
fn p29_tables_that_are_not_synced_are_noticed() {
    survives(Plant::IngestNotSynced).unwrap_err();
}

/// Nothing is visible of an ingest whose edit could not be written.
fn fails_unseen(plant: Plant) -> Result<(), String> {
    let mut failed = 0;
    for at in 0..12 {
        let vfs = SimVfs::new(6);
        let db = open(&vfs, plant);
        db.flush().unwrap();
        vfs.inject(Fault {
            at,
            on: FaultOn::Change,
            kind: FaultKind::Eio,
            sticky: true,
            path_contains: Some("MANIFEST".to_owned()),
        });
        let Err(error) = db.ingest(records(10..40, 2)) else {
            continue;
        };
        failed += 1;
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Latched));
        let seen = db.iter().count();
        if seen > 0 {
            return Err(format!("{seen} records of a failed ingest"));
        }
    }
    assert!(failed > 0, "no fault met the manifest");
    Ok(())
}

#[test]
fn an_ingest_whose_edit_fails_is_not_seen() {
    fails_unseen(Plant::Nothing).unwrap();
}

#[test]
fn p30_shown_before_the_edit_is_durable_is_noticed() {
    fails_unseen(Plant::IngestShownEarly).unwrap_err();
}

/// A full disk, or a write error, in the middle: the error is typed, nothing is visible, the files
/// are gone, and the database goes on.
#[test]
fn a_failed_write_leaves_nothing_and_does_not_latch() {
    let mut gone_on = 0;
    for (kind, expected) in [
        (FaultKind::Eio, ErrorKind::Io),
        (FaultKind::NoSpace, ErrorKind::NoSpace),
    ] {
        for at in 0..30 {
            let vfs = SimVfs::new(7);
            let db = open(&vfs, Plant::Nothing);
            db.put(key(0), [1]).unwrap();
            db.flush().unwrap();
            let mut begun = db.default_keyspace().begin_ingest().unwrap();
            vfs.inject(Fault {
                at,
                on: FaultOn::Change,
                kind,
                sticky: false,
                path_contains: Some(".sst".to_owned()),
            });
            let failed = records(1..3000, 2).find_map(|(key, value)| begun.put(key, value).err());
            let error = failed.expect("a fault");
            assert_eq!(error.kind(), expected, "{error}");
            assert_eq!(db.iter().count(), 1);
            if db.put(key(0), [1]).is_err() {
                // A sync failed.
                continue;
            }
            assert_eq!(tables(&vfs), 0);
            vfs.clear_faults();
            db.ingest(records(1..300, 2)).expect("goes on");
            assert_eq!(db.iter().count(), 300);
            gone_on += 1;
        }
    }
    assert!(gone_on > 30, "{gone_on}");
}

/// The drop comes when the ingest has made its first checkpoint and has all tokens, and waits for
/// the mutex that the drop has.
#[test]
fn a_keyspace_that_is_dropped_while_an_ingest_waits_takes_none() {
    let vfs = SimVfs::new(11);
    let db = open(&vfs, Plant::Nothing);
    let doomed = db.keyspace("doomed").unwrap();
    doomed.put(key(3), [1]).unwrap();
    let mut begun = doomed.begin_ingest().unwrap();
    for (key, value) in records(0..40, 2) {
        begun.put(key, value).unwrap();
    }
    let flow = &db.engine().flow;
    let chunk = doomed.state.index.load_full().find(b"").clone();
    let token = chunk.try_token().expect("there are no threads");
    let completed = *flow.completed.lock();
    std::thread::scope(|scope| {
        let finishing = scope.spawn(move || begun.finish());
        while *flow.completed.lock() == completed {
            std::thread::yield_now();
        }
        let mutex = flow.checkpoint_mutex.lock();
        drop(token);
        while chunk.try_token().is_some() {
            std::thread::yield_now();
        }
        doomed.state.set_dropped(true);
        drop(mutex);
        let error = finishing.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyspaceDropped, "{error}");
    });
    doomed.state.set_dropped(false);
    assert_eq!(doomed.iter().count(), 1, "nothing of it is there");
    assert_eq!(tables(&vfs), 0);
}

#[test]
fn transactions_that_read_the_range_conflict() {
    let vfs = SimVfs::new(8);
    let db = open(&vfs, Plant::Nothing);
    for (key, value) in records(0..40, 1) {
        db.put(key, value).unwrap();
    }
    let keyspace = db.default_keyspace();
    for reads_range in [false, true] {
        let mut transaction = db.transaction().unwrap();
        match reads_range {
            false => drop(transaction.get(keyspace, key(5)).unwrap()),
            true => drop(transaction.range(keyspace, key(2)..key(9)).unwrap().count()),
        }
        transaction.put(keyspace, "elsewhere", "1").unwrap();
        let mut other = db.transaction().unwrap();
        other.get(keyspace, key(30)).unwrap();
        other.put(keyspace, "other", "1").unwrap();
        let value = if reads_range { 3 } else { 2 };
        db.ingest(records(4..8, value)).unwrap();
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        other.commit().expect("what it read is the same");
    }
}

/// Brings all spans of all chunks to RAM.
fn load_all(db: &Db) {
    let engine = db.engine();
    let absent = |munk: &Munk| {
        let all = 0..munk.span_count();
        all.filter(|&span| !munk.has_span(span)).collect()
    };
    for (_, chunk) in engine.catalog.chunks() {
        let _token = chunk.try_token().expect("there are no threads");
        spans::load_spans(&engine.core, &chunk, &absent).unwrap();
        let munk = chunk.view.load_full().munk.clone();
        assert!(munk.is_some_and(|munk| munk.holds_any()));
    }
}

/// Ingests over records that are in RAM.
fn over_rows_and_munks(plant: Plant) -> Result<(), String> {
    let vfs = SimVfs::new(9);
    let db = open(&vfs, plant);
    for (key, value) in records(0..200, 1) {
        db.put(key, value).unwrap();
    }
    db.settle_debt().unwrap();
    for round in 2..6 {
        // Rows and spans come to RAM.
        for _ in 0..40 {
            for number in 0..200 {
                db.get(key(number)).unwrap();
            }
            db.settle_debt().unwrap();
        }
        load_all(&db);
        db.ingest(records(round as usize * 10..150, round)).unwrap();
        have_values(&db, 200, |number| {
            let own = (2..=round).filter(|own| (*own as usize * 10..150).contains(&number));
            own.max().or(Some(1))
        })?;
    }
    Ok(())
}

#[test]
fn rows_and_munks_of_the_range_are_right() {
    over_rows_and_munks(Plant::Nothing).unwrap();
}

#[test]
fn p88_images_of_before_that_stay_are_noticed() {
    over_rows_and_munks(Plant::IngestKeepsImages).unwrap_err();
}

#[test]
fn verify_finds_it_sound_and_repair_saves_it() {
    let vfs = SimVfs::new(10);
    let db = open(&vfs, Plant::Nothing);
    for (key, value) in records(0..100, 1) {
        db.put(key, value).unwrap();
    }
    db.settle_debt().unwrap();
    db.delete_range(key(20)..key(40)).unwrap();
    db.flush().unwrap();
    // As a run over older records and a range deletion; not merged before the end of the process.
    db.ingest(records(10..200, 2)).unwrap();
    let files = vfs.crash(CrashMode::Process);
    let options = || InspectOptions::new().vfs(Arc::new(files.clone()));
    let report = inspect::verify(DIR, options()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    inspect::repair(DIR, "/saved", RepairOptions::default(), options()).unwrap();
    let saved = open_at("/saved", &files);
    assert_eq!(saved.iter().count(), 200);
    for number in 0..200 {
        let expected = if number < 10 { 1 } else { 2 };
        assert_eq!(value(&saved, number), Some(expected), "{number}");
    }
}
