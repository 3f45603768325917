//! Large values through the life of a database on the simulated disk: where they lie, which of them
//! crashes leave, when their files go; and planted faults in each, which must be noticed.

use super::emptying::{SealedFile, choose};
use super::reading::LONG_BYTES;
use super::*;
use crate::plant::Plant;
use crate::{Db, Durability, ErrorKind, KeyspaceOptions, Merges, Options, inspect};
use evendb_storage::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use std::time::Duration;

const DIR: &str = "/db";
const FROM: usize = 100;

fn options(vfs: &SimVfs, level: Durability, plant: Plant) -> Options {
    let mut options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
                .values_apart_from(Some(FROM as u32))
                .value_file_bytes(4096)
                .value_file_live_percent(50)
        })
        .durability(level)
        .workers(0)
        .vfs(std::sync::Arc::new(vfs.clone()));
    options.plant = plant;
    options
}

fn open(vfs: &SimVfs, level: Durability, plant: Plant) -> crate::Result<Db> {
    options(vfs, level, plant).open(DIR)
}

fn sound(vfs: &SimVfs, level: Durability) -> Db {
    open(vfs, level, Plant::Nothing).expect("opens")
}

fn key(number: usize) -> String {
    format!("key{number:04}")
}

/// The value of a key in a round; large if `len` is at least [`FROM`].
fn value(number: usize, round: usize, len: usize) -> Vec<u8> {
    let mut value = format!("{number}.{round}.").into_bytes();
    value.resize(len, (number * 31 + round) as u8);
    value
}

fn names(vfs: &SimVfs) -> Vec<String> {
    let names = vfs.list(Path::new(DIR)).expect("lists").into_iter();
    let names = names.filter_map(|name| name.into_string().ok());
    names.filter(|name| name.ends_with(".values")).collect()
}

/// Each key of `0..keys` has its value of this round, by every way of reading.
fn check(db: &Db, keys: usize, round: usize, len: usize) -> crate::Result<()> {
    let all: Vec<String> = (0..keys).map(key).collect();
    let expected: Vec<Vec<u8>> = (0..keys).map(|number| value(number, round, len)).collect();
    let snapshot = db.snapshot()?;
    let space = db.default_keyspace();
    for (key, value) in all.iter().zip(&expected) {
        assert_eq!(db.get(key)?.as_deref(), Some(&value[..]), "{key}");
        assert_eq!(
            snapshot.get(space, key)?.as_deref(),
            Some(&value[..]),
            "{key}"
        );
        assert!(db.contains_key(key)?);
    }
    let got: Vec<Vec<u8>> = db
        .multi_get(&all)?
        .into_iter()
        .map(|v| v.unwrap().to_vec())
        .collect();
    assert_eq!(got, expected);
    let items: Vec<_> = db.iter().collect::<crate::Result<_>>()?;
    let back: Vec<_> = db.iter().rev().collect::<crate::Result<_>>()?;
    assert_eq!(items.len(), keys);
    for (number, (own, value)) in items.iter().enumerate() {
        assert_eq!(
            (&own[..], &value[..]),
            (all[number].as_bytes(), &expected[number][..])
        );
        assert_eq!(&back[keys - 1 - number].1[..], &expected[number][..]);
    }
    let mut cursor = db.cursor::<&str>(..);
    for (own, value) in all.iter().zip(&expected) {
        assert_eq!(cursor.next()?, Some((own.as_bytes(), &value[..])));
    }
    assert_eq!(db.keys::<&str>(..).count(), keys);
    Ok(())
}

#[test]
fn values_apart_are_read_by_every_way_wherever_their_records_are() {
    for level in [Durability::Relaxed, Durability::Process, Durability::Sync] {
        let vfs = SimVfs::new(1);
        let db = sound(&vfs, level);
        for round in 0..3 {
            for number in 0..40 {
                db.put(key(number), value(number, round, 300)).unwrap();
            }
            check(&db, 40, round, 300).unwrap();
            db.flush().unwrap();
            check(&db, 40, round, 300).unwrap();
        }
        db.compact().unwrap();
        check(&db, 40, 2, 300).unwrap();
        let stats = db.stats();
        assert!(stats.bytes_written.value_files >= 3 * 40 * 300);
        assert!(
            stats.bytes_written.commit_log < 3 * 40 * 150,
            "values are not in the log"
        );
        db.close().unwrap();
        let db = sound(&vfs, level);
        check(&db, 40, 2, 300).unwrap();
        db.close().unwrap();
        let options = inspect::InspectOptions::new().vfs(std::sync::Arc::new(vfs.clone()));
        let report = inspect::verify(DIR, options).unwrap();
        assert!(
            report.is_sound() && report.checked.values >= 40,
            "{:?}",
            report.findings
        );
    }
}

#[test]
fn short_values_stay_and_a_keyspace_may_say_otherwise() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    db.put("short", vec![7; FROM - 1]).unwrap();
    assert!(names(&vfs).is_empty());
    let never = KeyspaceOptions::new().values_apart_from(u32::MAX);
    let never = db.keyspace_with("never", &never).unwrap();
    never.put("long", vec![7; 5000]).unwrap();
    assert!(names(&vfs).is_empty());
    let early = KeyspaceOptions::new().values_apart_from(10);
    let early = db.keyspace_with("early", &early).unwrap();
    early.put("short", vec![7; 10]).unwrap();
    assert_eq!(names(&vfs).len(), 1);
    assert_eq!(early.get("short").unwrap().unwrap().to_vec(), vec![7; 10]);
    // Values apart can still be read after the keyspace's option has changed.
    early
        .set_options(&KeyspaceOptions::new().values_apart_from(1000))
        .unwrap();
    db.flush().unwrap();
    assert_eq!(early.get("short").unwrap().unwrap().to_vec(), vec![7; 10]);
}

#[test]
fn merges_expiry_single_deletes_and_transactions_over_values_apart() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    let appends = KeyspaceOptions::new().merge_operator(Merges::Append);
    let appends = db.keyspace_with("appends", &appends).unwrap();
    let base = vec![b'b'; 500];
    let mut expected = base.clone();
    appends.put("k", &base).unwrap();
    appends
        .put_with_ttl("t", &base, Duration::from_secs(1 << 30))
        .unwrap();
    for round in 0..4 {
        appends.merge("k", [b'0' + round]).unwrap();
        expected.push(b'0' + round);
        for _ in 0..2 {
            assert_eq!(appends.get("k").unwrap().unwrap().to_vec(), expected);
            let items: Vec<_> = appends.iter().collect::<crate::Result<_>>().unwrap();
            assert_eq!(items[0].1.to_vec(), expected);
            assert_eq!(items[1].1.to_vec(), base);
            assert_eq!(appends.keys::<&str>(..).count(), 2);
            db.flush().unwrap();
        }
        db.compact().unwrap();
    }
    let swapped = appends
        .compare_and_swap("k", Some(&expected), Some(&base))
        .unwrap();
    assert!(swapped.is_ok());
    let mut transaction = db.transaction().unwrap();
    let read = transaction.get(&appends, "k").unwrap().unwrap();
    assert_eq!(read.to_vec(), base);
    transaction.put(&appends, "k", vec![1; 700]).unwrap();
    assert_eq!(
        transaction.get(&appends, "k").unwrap().unwrap().to_vec(),
        vec![1; 700]
    );
    transaction.commit().unwrap();
    let plain = db.default_keyspace();
    plain.put("once", vec![3; 900]).unwrap();
    db.flush().unwrap();
    plain.single_delete("once").unwrap();
    assert_eq!(plain.get("once").unwrap(), None);
    db.compact().unwrap();
    assert_eq!(plain.get("once").unwrap(), None);
    appends.delete_range("k".."l").unwrap();
    assert_eq!(appends.get("k").unwrap(), None);
    assert_eq!(appends.pop_first().unwrap().unwrap().1.to_vec(), base);
}

/// Overwrites and deletes until nearly all files are dead; returns the files and figures that it
/// finds.
fn churn(vfs: &SimVfs, db: &Db) {
    for round in 0..12 {
        for number in 0..60 {
            // Some values are never overwritten: they are moved.
            if round == 0 || number % 10 > 0 {
                db.put(key(number), value(number, round, 400)).unwrap();
            }
        }
        db.flush().unwrap();
        db.settle_debt().unwrap();
    }
    db.compact().unwrap();
    db.settle_debt().unwrap();
    db.flush().unwrap();
    let _ = vfs;
}

fn check_churned(db: &Db) -> crate::Result<bool> {
    let mut right = true;
    for number in 0..60 {
        let round = if number % 10 > 0 { 11 } else { 0 };
        let found = db.get(key(number))?;
        right &= found.as_deref() == Some(&value(number, round, 400)[..]);
    }
    Ok(right)
}

#[test]
fn files_of_dead_values_go_and_what_lives_is_moved() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    churn(&vfs, &db);
    assert!(check_churned(&db).unwrap());
    let (bytes, live, files) = db.engine().core.value_files.totals();
    assert!(
        db.engine().core.value_files.moved.get() > 0,
        "nothing was moved"
    );
    assert!(db.engine().core.value_files.removed.get() > 10);
    assert!(
        bytes < 4 * 60 * 400,
        "{bytes} bytes in {files} files, {live} live"
    );
    assert_eq!(names(&vfs).len() as u64, files);
    drop(db);
    let db = sound(&vfs, Durability::Process);
    assert!(check_churned(&db).unwrap());
}

#[test]
fn a_snapshot_and_an_iterator_read_on_while_files_go() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    for number in 0..60 {
        db.put(key(number), value(number, 0, 400)).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let mut begun = db.iter();
    assert!(begun.next().is_some());
    churn(&vfs, &db);
    for number in 0..60 {
        let found = snapshot
            .get(db.default_keyspace(), key(number))
            .unwrap()
            .unwrap();
        assert_eq!(found.to_vec(), value(number, 0, 400));
    }
    for (number, item) in begun.enumerate() {
        assert_eq!(item.unwrap().1.to_vec(), value(number + 1, 0, 400));
    }
    drop(snapshot);
}

#[test]
fn what_is_read_of_a_dropped_keyspace_stays() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    let doomed = db.keyspace("doomed").unwrap();
    for number in 0..20 {
        doomed.put(key(number), value(number, 0, 400)).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    db.drop_keyspace("doomed").unwrap();
    churn(&vfs, &db);
    for number in 0..20 {
        let found = snapshot.get(&doomed, key(number)).unwrap().unwrap();
        assert_eq!(found.to_vec(), value(number, 0, 400));
    }
}

/// A machine that has lost its power after a checkpoint. Returns whether the values can be read.
fn after_power_loss(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Durability::Process, plant).unwrap();
    for number in 0..8 {
        db.put(key(number), value(number, 0, 300)).unwrap();
    }
    db.flush().unwrap();
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop(db);
    let db = sound(&machine, Durability::Process);
    (0..8).all(|number| {
        let found = db.get(key(number));
        matches!(found, Ok(Some(found)) if *found == value(number, 0, 300)[..])
    })
}

#[test]
fn values_that_are_not_synced_before_the_checkpoint_are_noticed() {
    assert!(after_power_loss(Plant::Nothing));
    assert!(!after_power_loss(Plant::ValuesNotSynced), "P46");
}

#[test]
fn a_file_that_goes_although_tables_name_it_is_noticed() {
    let run = |plant: Plant| {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, Durability::Process, plant).unwrap();
        for number in 0..40 {
            db.put(key(number), value(number, 0, 300)).unwrap();
        }
        db.flush().unwrap();
        db.settle_debt().unwrap();
        db.flush().unwrap();
        (0..40).all(|number| db.get(key(number)).is_ok())
    };
    assert!(run(Plant::Nothing));
    assert!(!run(Plant::ValueFileNotNeeded), "P47");
}

#[test]
fn a_file_that_goes_although_deltas_name_it_is_noticed() {
    let run = |plant: Plant| {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, Durability::Process, plant).unwrap();
        // In one write, so that no checkpoint comes between, and in several files.
        let mut batch = db.batch();
        for number in 0..40 {
            batch.put(db.default_keyspace(), key(number), value(number, 0, 300));
        }
        batch.commit().unwrap();
        assert!(names(&vfs).len() > 2);
        // Like a helper that has nothing else to do.
        let engine = db.engine();
        engine.disk.collect(&engine.core.health);
        let is_there = |number| {
            let found = db.get(key(number));
            matches!(found, Ok(Some(found)) if *found == value(number, 0, 300)[..])
        };
        (0..40).all(is_there)
    };
    assert!(run(Plant::Nothing));
    assert!(!run(Plant::RecordsNotNoted), "P92");
}

/// Whether everything is there after power was lost behind `rounds` rounds of overwriting and
/// moving.
fn moved_through_power_loss(rounds: usize, plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let options = options(&vfs, Durability::Process, plant);
    let options = options.advanced(|advanced| advanced.value_file_live_percent(90));
    let db = options.open(DIR).unwrap();
    for round in 0..rounds {
        for number in (0..60).filter(|number| round == 0 || number % 10 > 0) {
            db.put(key(number), value(number, round, 400)).unwrap();
        }
        db.settle_debt().unwrap();
    }
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop(db);
    let db = sound(&machine, Durability::Process);
    (0..60).all(|number| {
        let round = if number % 10 > 0 { rounds - 1 } else { 0 };
        let found = db.get(key(number));
        matches!(found, Ok(Some(found)) if *found == value(number, round, 400)[..])
    })
}

#[test]
fn moved_values_that_are_not_synced_are_noticed() {
    assert!((1..12).all(|rounds| moved_through_power_loss(rounds, Plant::Nothing)));
    let planted = |rounds| moved_through_power_loss(rounds, Plant::MovesNotSynced);
    assert!(!(1..12).all(planted), "P53");
}

/// The largest number of bytes of files with live values in rounds of overwriting, divided by the
/// bytes of data. (A file without live values goes when the last reader of this process lets go of
/// it, which may be a reader of another test.)
fn space_of_overwriting(plant: Plant) -> f64 {
    let vfs = SimVfs::new(1);
    let options = options(&vfs, Durability::Process, plant);
    // Nothing else asks for a rewrite.
    let options = options.advanced(|advanced| {
        let wide = advanced.chunk_bytes(64 << 10).value_file_bytes(8 << 10);
        wide.log_bytes_limits(1 << 20, 1 << 20)
    });
    let db = options.open(DIR).unwrap();
    let mut most: f64 = 0.0;
    for round in 0..24 {
        for number in (0..100).filter(|number| round % 3 == 0 || number % 3 > 0) {
            db.put(key(number), value(number, round, 2000)).unwrap();
        }
        db.settle_debt().unwrap();
        let known = db.engine().core.value_files.known.lock();
        let files = known.files.values().map(|file| file.bytes());
        let bytes: u64 = files.filter(|file| file.1 > 0).map(|file| file.0).sum();
        most = most.max(bytes as f64 / 200_000.0);
    }
    most
}

#[test]
fn values_that_are_overwritten_are_found_soon() {
    let sound = space_of_overwriting(Plant::Nothing);
    assert!(sound < 2.5, "{sound} times the data");
    // Merges of runs find some of these values, too.
    let planted = space_of_overwriting(Plant::OverwrittenNotLooked);
    assert!(planted > 3.2, "P54: {planted} times the data");
}

#[test]
fn the_deadest_files_are_emptied_and_no_more_than_needed() {
    let files = |each: &[(u64, u64)]| {
        let each = (0..).zip(each);
        let each = each.map(|(id, &(bytes, live))| SealedFile { id, bytes, live });
        each.collect::<Vec<_>>()
    };
    let numbers = |chosen: &BTreeSet<u64>| chosen.iter().copied().collect::<Vec<_>>();
    let mut chosen = BTreeSet::new();
    assert!(!choose(&files(&[(100, 50); 4]), &mut chosen, 50));
    assert!(chosen.is_empty());
    // 500 bytes, 180 live: at most 360 may stay, and 310 do.
    let some = files(&[(100, 90), (100, 10), (100, 0), (100, 60), (100, 20)]);
    assert!(!choose(&some, &mut chosen, 0));
    assert!(choose(&some, &mut chosen, 50));
    assert_eq!(numbers(&chosen), [1, 2]);
    // A file whose emptying has begun is emptied to the end; a file that is gone is forgotten.
    let later = files(&[(100, 90), (100, 5)]);
    assert!(choose(&later, &mut chosen, 20));
    assert_eq!(numbers(&chosen), [1]);
    assert!(!choose(&files(&[(100, 90), (100, 0)]), &mut chosen, 50));
    // Files that are all live give nothing back.
    let mut none = BTreeSet::new();
    assert!(!choose(&files(&[(100, 100); 3]), &mut none, 90));
    assert!(none.is_empty());
}

#[test]
fn compaction_leaves_files_that_are_nearly_full_of_live_values() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    let other = db.keyspace("other").unwrap();
    for round in 0..3 {
        for number in (0..60).filter(|number| round == 0 || number % 3 == round) {
            db.put(key(number), value(number, round, 400)).unwrap();
            other.put(key(number), value(number, round, 400)).unwrap();
        }
        db.flush().unwrap();
    }
    // Files with values of both keyspaces stay when one of the two is compacted: there is no room
    // to be had.
    let bytes = || db.engine().core.value_files.totals().0;
    other.compact().unwrap();
    let before = bytes();
    db.compact().unwrap();
    let data = 2 * 60 * 400;
    assert!(before > data * 5 / 4, "{before}");
    assert!(bytes() <= data * 10 / 9, "{}", bytes());
    let round = |number: usize| [0, 1, 2][number % 3];
    for number in 0..60 {
        let expected = value(number, round(number), 400);
        assert_eq!(*db.get(key(number)).unwrap().unwrap(), *expected);
        assert_eq!(*other.get(key(number)).unwrap().unwrap(), *expected);
    }
    let moved = db.engine().core.value_files.moved.get();
    db.compact().unwrap();
    assert_eq!(db.engine().core.value_files.moved.get(), moved);
}

/// Whether power losses leave a prefix of the puts, all of it readable.
fn prefixes_are_left(plant: Plant) -> bool {
    (0..60).all(|seed| {
        let vfs = SimVfs::new(seed);
        let db = sound(&vfs, Durability::Process);
        for number in 0..12 {
            db.put(key(number), value(number, 0, 300)).unwrap();
        }
        let machine = vfs.crash(CrashMode::PowerLossRandom(seed));
        drop(db);
        let db = open(&machine, Durability::Process, plant).expect("opens");
        let mut here = Vec::new();
        for item in db.iter() {
            let Ok((own, value)) = item else {
                return false;
            };
            here.push((own.to_vec(), value.to_vec()));
        }
        let expected = |at: usize| (key(at).into_bytes(), value(at, 0, 300));
        here.iter()
            .enumerate()
            .all(|(at, found)| *found == expected(at))
    })
}

#[test]
fn a_record_whose_value_is_lost_ends_the_log() {
    assert!(prefixes_are_left(Plant::Nothing));
    assert!(!prefixes_are_left(Plant::ValuesNotLookedAt), "P48");
}

#[test]
fn values_that_move_to_a_wrong_place_are_noticed() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Durability::Process, Plant::MovesLoseNewest).unwrap();
    churn(&vfs, &db);
    assert!(!check_churned(&db).unwrap(), "P49");
}

#[test]
fn damage_is_told_for_the_key_alone_and_repair_saves_the_others() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    for number in 0..10 {
        db.put(key(number), value(number, 0, 300)).unwrap();
    }
    db.close().unwrap();
    let name = &names(&vfs)[0];
    let path = Path::new(DIR).join(name);
    let file = vfs.open(&path, true).unwrap();
    file.write_at(b"damage", 310).unwrap();
    let db = sound(&vfs, Durability::Process);
    for number in 0..10 {
        match db.get(key(number)) {
            Ok(found) => assert_eq!(found.unwrap().to_vec(), value(number, 0, 300)),
            Err(error) => {
                assert_eq!((number, error.kind()), (1, ErrorKind::Corruption));
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
    assert!(db.get(key(1)).is_err());
    let refused = db.iter().find_map(|item| item.err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    assert_eq!(db.keys::<&str>(..).count(), 10);
    db.compact().unwrap();
    db.close().unwrap();
    let inspected = || inspect::InspectOptions::new().vfs(std::sync::Arc::new(vfs.clone()));
    let report = inspect::verify(DIR, inspected()).unwrap();
    assert!(!report.is_sound());
}

#[test]
fn a_full_disk_refuses_the_put_and_loses_nothing() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    for number in 0..10 {
        db.put(key(number), value(number, 0, 300)).unwrap();
    }
    vfs.set_capacity(0);
    let refused = (0..400).find_map(|number| db.put(key(number), vec![1; 3000]).err());
    assert_eq!(refused.expect("no room").kind(), ErrorKind::NoSpace);
    for number in 0..10 {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    vfs.set_capacity(u64::MAX);
    db.put("more", vec![2; 3000]).unwrap();
    assert_eq!(db.get("more").unwrap().unwrap().to_vec(), vec![2; 3000]);
}

/// A checkpoint that finds no room at one of its operations is made again. The second one is
/// durable, with everything that the first had done, including the names of files whose values it
/// had synced.
#[test]
fn a_checkpoint_after_one_that_found_no_room_is_durable() {
    for kind in [FaultKind::NoSpace, FaultKind::SyncFullThenClean] {
        let mut refused = 0;
        for at in 0.. {
            let vfs = SimVfs::new(1);
            let db = sound(&vfs, Durability::Relaxed);
            db.put(key(0), value(0, 0, 300)).unwrap();
            let operations = vfs.op_count();
            vfs.inject(Fault {
                at,
                on: FaultOn::Change,
                kind,
                sticky: false,
                path_contains: None,
            });
            let first = db.flush();
            let all = vfs.op_count() - operations;
            vfs.clear_faults();
            refused += u64::from(first.is_err());
            // A failed sync is not tried again, whatever its error: then the database stops.
            if db.flush().is_ok() {
                let machine = vfs.crash(CrashMode::PowerLossNothing);
                let again = sound(&machine, Durability::Relaxed);
                check(&again, 1, 0, 300).unwrap_or_else(|error| panic!("{kind:?} {at}: {error}"));
            }
            if first.is_ok() && at > all {
                break;
            }
        }
        assert!(refused > 2, "{kind:?}: {refused} refused");
    }
}

#[test]
fn changes_copies_and_backups_have_the_values() {
    let vfs = SimVfs::new(1);
    let db = sound(&vfs, Durability::Process);
    let position = db.position().unwrap();
    for number in 0..20 {
        db.put(key(number), value(number, 0, 300)).unwrap();
    }
    let mut seen = Vec::new();
    for change in db.changes_since(&position).unwrap() {
        for write in change.unwrap().writes() {
            seen.push((write.key.to_vec(), write.value.unwrap().to_vec()));
        }
        if seen.len() == 20 {
            break;
        }
    }
    for (number, (own, found)) in seen.iter().enumerate() {
        assert_eq!(
            (own, found),
            (&key(number).into_bytes(), &value(number, 0, 300))
        );
    }
    db.copy_to("/copy").unwrap();
    db.backup("/backups").unwrap();
    db.put(key(3), value(3, 1, 300)).unwrap();
    let second = db.backup("/backups").unwrap();
    assert!(second.bytes_shared >= 20 * 300, "{second:?}");
    let backups = crate::Backups::at("/backups").vfs(std::sync::Arc::new(vfs.clone()));
    backups.verify(None).unwrap();
    backups.restore(Some(1), "/restored").unwrap();
    churn(&vfs, &db);
    backups.verify(None).unwrap();
    backups.verify(Some(1)).unwrap();
    for dir in ["/copy", "/restored"] {
        let copy = options(&vfs, Durability::Process, Plant::Nothing)
            .open(dir)
            .unwrap();
        check(&copy, 20, 0, 300).unwrap();
        churn(&vfs, &copy);
        assert!(check_churned(&copy).unwrap());
    }
    assert!(check_churned(&db).unwrap());
}

/// A length that was not verified takes no memory, neither before the first read nor later.
#[test]
fn a_long_value_beyond_its_file_is_refused_before_it_is_read() {
    let vfs = SimVfs::new(1);
    let path = Path::new("/values");
    vfs.write_file(path, vec![7; 1000]);
    let file = vfs.open(path, false).unwrap();
    for len in [LONG_BYTES, LONG_BYTES + 4096] {
        let apart = Apart {
            file: 1,
            offset: 0,
            len,
            checksum: 0,
        };
        let before = vfs.read_count();
        let refused = read_stored(&*file, path, &apart).unwrap_err();
        assert_eq!(refused.kind(), evendb_storage::ErrorKind::Corruption);
        assert_eq!(
            vfs.read_count(),
            before,
            "it was read, so there was a buffer"
        );
    }
}

/// Two cases: a number that is drawn again after its file was removed, and a number that two lives
/// draw which began from one copy.
#[cfg(feature = "encryption")]
#[test]
fn a_number_that_is_drawn_again_encrypts_in_another_way() {
    use evendb_storage::sealing::{Key, Secrets};
    use evendb_storage::vfs::SealedVfs;
    let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    let secrets = || Secrets::new(Key::new([1; 32])).unwrap();
    let open = |secrets: Secrets| {
        let sim = SimVfs::new(1);
        sim.create_dir_all(Path::new(DIR)).unwrap();
        let sealed = SealedVfs::new(std::sync::Arc::new(sim.clone()), secrets);
        let values = ValueFiles::new(Arc::new(sealed), Path::new(DIR), 4096, 0);
        (sim, values)
    };
    let [one_life, other_life] = [open(secrets()), open(secrets())];
    let texts = [b'a', b'b', b'c'].map(|letter| vec![letter; 300]);
    let append = |(sim, values): &(SimVfs, ValueFiles), text: &[u8]| {
        let (apart, needed) = values.append(Origin::Put, text, || Ok(7)).unwrap();
        assert_eq!((apart.file, apart.offset), (7, 0));
        values.seal();
        drop(needed);
        assert_eq!(values.read(&apart).unwrap().unwrap().to_vec(), text);
        let stored = sim.read_file(&file_path(Path::new(DIR), 7));
        values.remove_unneeded();
        assert_eq!(values.read(&apart).unwrap(), None);
        stored
    };
    let stored = [
        append(&one_life, &texts[0]),
        append(&one_life, &texts[1]),
        append(&other_life, &texts[2]),
    ];
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let told = xor(&texts[a], &texts[b]);
        let both = xor(&stored[a], &stored[b]);
        let is_told = both.windows(told.len()).any(|window| *window == told);
        assert!(!is_told, "{a} and {b} are encrypted by the same bytes");
    }
}
