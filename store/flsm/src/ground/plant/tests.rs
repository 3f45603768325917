//! For each planted fault that one thread can show, the test of its number notices it, and passes
//! without it. Faults in steps between threads are in `shuttle_tests/planted.rs`.

use super::Plant;
use crate::api::db::Db;
use crate::engine::Engine;
use crate::log::record::GroupBody;
use crate::options::Options;
use crate::tree::choose::Chooser;
use crate::tree::{Tree, verify};
use crate::types::Level;
use crate::write::{Request, write};
use crate::{opening, worker};
use evendb_base::Durability;
use evendb_storage::Kind;
use evendb_storage::vfs::{CrashMode, SimVfs, Vfs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYS: u32 = 400;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(vfs: &SimVfs, plant: Plant) -> Options {
    let mut options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .write_buffer_bytes(8192)
                .last_guard_bytes(900)
                .table_bytes_max(4096)
                .block_bytes(256)
                .level0_tables(2, 4, 6)
                .cache_bytes(0)
        });
    options.plant = plant;
    options
}

fn open(vfs: &SimVfs, plant: Plant) -> Db {
    options(vfs, plant).open(DIR).unwrap()
}

fn engine(db: &Db) -> &Engine {
    &db.default_keyspace().handle.engine
}

fn tree(db: &Db) -> Arc<Tree> {
    db.default_keyspace().state.view.load_full().tree.clone()
}

/// Puts all keys once more.
fn put_round(db: &Db, map: &mut Map, round: u32) {
    for number in 0..KEYS {
        let key = format!("key {:03}", number * 7 % KEYS).into_bytes();
        let value = format!("{round} {}", "v".repeat(30)).into_bytes();
        db.put(&key, &value).unwrap();
        map.insert(key, value);
    }
}

fn scan(db: &Db) -> crate::Result<Map> {
    db.iter()
        .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect()
}

/// Whether scans and gets return these records and no others, and whether the tables agree with
/// each other.
fn holds(db: &Db, map: &Map) -> bool {
    let gets = (0..KEYS).all(|number| {
        let key = format!("key {number:03}").into_bytes();
        let found = db.get(&key).ok().flatten();
        found.as_deref() == map.get(&key).map(|value| &value[..])
    });
    let mut sound = true;
    verify::verify(&tree(db), &mut |_, _, verified| sound &= verified.is_ok());
    gets && sound && scan(db).is_ok_and(|found| found == *map)
}

/// A test that passes without the fault and fails with it. The engine's threads take part, so one
/// run may miss the moment.
fn notices(plant: Plant, test: impl Fn(Plant) -> bool) {
    assert!(test(Plant::Nothing), "the test fails without a fault");
    let is_noticed = (0..20).any(|_| !test(plant));
    assert!(is_noticed, "{plant:?} is not noticed");
}

/// Whether the guards are the ones that the records demand, before and after reopening.
fn guards_follow_from_the_records(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.settle_debt().unwrap();
    let none = Tree::default();
    let mut chooser = Chooser::new(&none, &engine(&db).guards);
    for (key, value) in &map {
        chooser.look_at(key, value);
    }
    let called_for: Vec<(Arc<[u8]>, Level)> = chooser
        .finish()
        .into_iter()
        .filter_map(|change| Some((change.key, change.from?)))
        .collect();
    assert!(called_for.len() > 5, "{called_for:?}");
    let before = tree(&db).guard_keys();
    db.close().unwrap();
    let after = tree(&open(&vfs, Plant::Nothing)).guard_keys();
    before == called_for && after == called_for
}

#[test]
fn p63_a_guard_is_not_logged() {
    notices(Plant::GuardNotLogged, guards_follow_from_the_records);
}

/// Rounds of the same keys, each settled, with some deletes: the last put of each key is found.
fn the_last_put_counts(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    let mut well = true;
    for round in 0..3 {
        put_round(&db, &mut map, round);
        db.settle_debt().unwrap();
        well &= holds(&db, &map);
    }
    let deleted: Vec<Vec<u8>> = map.keys().step_by(3).cloned().collect();
    for key in deleted {
        db.delete(&key).unwrap();
        map.remove(&key);
    }
    db.settle_debt().unwrap();
    well &= holds(&db, &map);
    let deep = tree(&db);
    assert!(deep.tables().any(|(level, _)| level > Level(0)));
    well
}

#[test]
fn p64_a_fragment_is_lost() {
    notices(Plant::FragmentLost, the_last_put_counts);
}

#[test]
fn p66_the_filter_of_another_table_is_asked() {
    notices(Plant::OtherFilter, the_last_put_counts);
}

#[test]
fn p67_what_comes_counts_as_older() {
    notices(Plant::CountsAsOlder, the_last_put_counts);
}

#[test]
fn p68_a_tombstone_goes_early() {
    notices(Plant::TombstoneEarly, the_last_put_counts);
}

/// A process dies at each operation of flushing and compacting the log's records: no record is
/// lost.
fn kills_beside_jobs_lose_nothing(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::Nothing);
    let mut map = Map::new();
    for round in 0..3 {
        for number in 0..20 {
            let key = format!("key {number:03}").into_bytes();
            let value = vec![round; 30];
            db.put(&key, &value).unwrap();
            map.insert(key, value);
        }
        // The last round is in the log.
        if round < 2 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    for at in 0.. {
        let machine = vfs.fork_state();
        machine.set_crash_at(machine.op_count() + at);
        if let Ok(db) = options(&machine, plant).open(DIR) {
            let _ = db.settle_debt();
        }
        let was_cut = machine.crashed();
        let left = machine.crash(CrashMode::Process);
        match options(&left, Plant::Nothing).open(DIR) {
            Ok(db) if scan(&db).is_ok_and(|found| found == map) => {}
            _ => return false,
        }
        if !was_cut {
            assert!(at > 20, "{at} operations are no flush and no compaction");
            break;
        }
    }
    true
}

#[test]
fn p65_inputs_are_removed_early() {
    notices(Plant::InputsRemovedEarly, kills_beside_jobs_lose_nothing);
}

#[test]
fn p71_a_log_is_removed_early() {
    notices(Plant::LogRemovedEarly, kills_beside_jobs_lose_nothing);
}

/// Writes one record, in an engine without threads.
fn put_one(engine: &Engine, key: &[u8], level: Durability) {
    let keyspace = engine.keyspaces().remove(0);
    let request = Request {
        keyspaces: std::slice::from_ref(&keyspace),
        user_bytes: key.len() as u64,
        has_puts: true,
        durability: level,
        append: &|group: &mut GroupBody| group.put(keyspace.id, Kind::Put, key, b"value"),
    };
    write(engine, &request).unwrap();
}

/// A synced write survives a power failure. So do the records of an older generation that is not
/// flushed.
fn a_sync_is_of_all_generations(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let engine = opening::open(Path::new(DIR), options(&vfs, plant)).unwrap();
    put_one(&engine, b"older", Durability::Process);
    engine.writes.writer.lock().rotate(&engine).unwrap();
    put_one(&engine, b"synced", Durability::Sync);
    let db = open(&vfs.crash(CrashMode::PowerLossNothing), Plant::Nothing);
    ["older", "synced"]
        .iter()
        .all(|key| db.contains_key(key).unwrap())
}

#[test]
fn p70_older_logs_are_not_synced() {
    notices(Plant::OlderLogsNotSynced, a_sync_is_of_all_generations);
}

/// The tables of a tree that somebody holds exist, whatever became of them. They are removed when
/// nobody holds the tree.
fn tables_stay_for_readers(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.settle_debt().unwrap();
    let view = db.default_keyspace().state.view.load_full();
    let paths: Vec<_> = view.tree.tables().map(|(_, table)| table.path()).collect();
    put_round(&db, &mut map, 1);
    db.settle_debt().unwrap();
    let is_there = |path: &std::path::PathBuf| vfs.exists(path).unwrap();
    let stayed = paths.iter().all(is_there);
    let replaced = tree(&db);
    let now: Vec<_> = replaced.tables().map(|(_, table)| table.path()).collect();
    assert!(paths.iter().any(|path| !now.contains(path)));
    drop(view);
    // Other threads, also of other tests, may hold unneeded files back for a while.
    let all_went = || {
        evendb_base::sync::reclaim::collect();
        let mut paths = paths.iter();
        paths.all(|path| now.contains(path) || !is_there(path))
    };
    let went = (0..1000).any(|_| {
        let went = all_went();
        if !went {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        went
    });
    stayed && went
}

#[test]
fn p74_tables_go_under_their_readers() {
    notices(Plant::RemovedUnderReaders, tables_stay_for_readers);
}

/// A snapshot sees the old records, whatever is put over them, flushed and compacted.
fn a_snapshot_stays(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.settle_debt().unwrap();
    let (snapshot, seen) = (db.snapshot().unwrap(), map.clone());
    put_round(&db, &mut map, 1);
    db.settle_debt().unwrap();
    let items = snapshot.iter(db.default_keyspace());
    let found: Map = items
        .map(|item| {
            item.map(|(key, value)| (key.to_vec(), value.to_vec()))
                .unwrap()
        })
        .collect();
    found == seen && holds(&db, &map)
}

#[test]
fn p78_jobs_forget_the_snapshots() {
    notices(Plant::SnapshotsForgotten, a_snapshot_stays);
}

/// The flushes of a life meet tables of level 0: the last put of each key is found.
fn level0_is_newer(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let mut map = Map::new();
    let db = open(&vfs, Plant::Nothing);
    put_round(&db, &mut map, 0);
    db.compact().unwrap();
    for key in ["key 001", "key 399"] {
        db.put(key, "newer").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(tree(&db).level0().len(), 1);
    db.close().unwrap();
    let db = open(&vfs, plant);
    for key in ["key 001", "key 399"] {
        db.put(key, "newest").unwrap();
        map.insert(key.into(), b"newest".to_vec());
    }
    db.flush().unwrap();
    holds(&db, &map)
}

#[test]
fn p79_a_flush_goes_below_what_is_older() {
    notices(Plant::FlushedBelow, level0_is_newer);
}

#[test]
fn p80_a_sync_is_left_out() {
    notices(Plant::SyncLeftOut, a_sync_is_of_all_generations);
}

/// Two keyspaces, each with records in the log, come back after the process was killed.
fn all_keyspaces_come_back(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let other = db.keyspace("other").unwrap();
    for number in 0..10 {
        db.put(format!("key {number}"), "own").unwrap();
        other.put(format!("key {number}"), "other").unwrap();
    }
    let db = open(&vfs.crash(CrashMode::Process), plant);
    let other = db.keyspace("other").unwrap();
    (0..10).all(|number| {
        let key = format!("key {number}");
        let found = (db.get(&key).unwrap(), other.get(&key).unwrap());
        let text = |value: &Option<crate::Value>| value.as_deref().map(<[u8]>::to_vec);
        (text(&found.0), text(&found.1)) == (Some(b"own".to_vec()), Some(b"other".to_vec()))
    })
}

#[test]
fn p81_a_keyspace_is_not_replayed() {
    notices(Plant::KeyspaceNotReplayed, all_keyspaces_come_back);
}

/// A database whose first table is damaged, opened, and the records that were put.
fn damaged(plant: Plant) -> (Db, Map) {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::Nothing);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.compact().unwrap();
    let first = tree(&db).tables().next().unwrap().1.path();
    db.close().unwrap();
    let mut bytes = vfs.read_file(&first);
    bytes[20] ^= 1;
    vfs.write_file(&first, bytes);
    (open(&vfs, plant), map)
}

/// A table is damaged: its guard stays as it is, and everything else is written and compacted.
fn damage_stays_where_it_is(plant: Plant) -> bool {
    let (db, map) = damaged(plant);
    if !map.keys().all(|key| db.put(key, "over it").is_ok()) {
        return false;
    }
    assert!(db.compact().is_err(), "the damage is not found");
    db.put("key 399", "behind it").is_ok()
}

#[test]
fn p82_damage_in_a_guard_latches() {
    notices(Plant::DamageLatches, damage_stays_where_it_is);
}

/// A table is damaged: the tables that are set aside with it stay so, however much is compacted
/// beside them.
fn what_is_set_aside_stays(plant: Plant) -> bool {
    let (db, map) = damaged(plant);
    let mut set_aside = Vec::new();
    for round in 1..5 {
        let value = [round; 30];
        if !map.keys().all(|key| db.put(key, value).is_ok()) {
            return false;
        }
        // The first round compacts everything, so that the damage is found.
        let told = match round {
            1 => db.compact().map(|_| ()),
            _ => db.settle_debt(),
        };
        let is_told = told.is_err_and(|error| error.kind() == crate::ErrorKind::Corruption);
        set_aside.push((is_told, db.stats().set_aside));
    }
    let first = set_aside[0];
    first.1 > 0 && set_aside.iter().all(|now| *now == (true, first.1))
}

#[test]
fn p96_what_was_set_aside_is_given_free() {
    notices(Plant::SetAsideGivenFree, what_is_set_aside_stays);
}

#[test]
fn p83_deletes_are_not_flushed() {
    notices(Plant::DeletesNotFlushed, the_last_put_counts);
}

/// Records written after a flush are found after a kill, and the next life goes on behind them.
fn lives_go_on_behind_a_flush(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.flush().unwrap();
    db.put("key 001", "behind the flush").unwrap();
    map.insert(b"key 001".to_vec(), b"behind the flush".to_vec());
    let db = open(&vfs.crash(CrashMode::Process), plant);
    if !holds(&db, &map) {
        return false;
    }
    // A life that begins with tables only.
    let vfs = SimVfs::new(2);
    let db = open(&vfs, plant);
    put_round(&db, &mut map, 1);
    db.flush().unwrap();
    let left = vfs.crash(CrashMode::Process);
    holds(&open(&left, plant), &map)
}

#[test]
fn p84_the_log_at_hand_is_taken_for_one_that_is_not_needed() {
    notices(Plant::LogNumberTooHigh, lives_go_on_behind_a_flush);
}

#[test]
fn p85_a_flush_does_not_say_its_last_version() {
    notices(Plant::LastVersionNotSaid, lives_go_on_behind_a_flush);
}

#[test]
fn p86_a_get_goes_on_to_older_tables() {
    notices(Plant::GoesOnToOlder, the_last_put_counts);
}

#[test]
fn p87_scans_leave_out_level_0() {
    notices(Plant::ScansWithoutLevel0, the_last_flush_is_seen);
}

/// Flushed records are seen before anything is compacted.
fn the_last_flush_is_seen(plant: Plant) -> bool {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, plant);
    let mut map = Map::new();
    put_round(&db, &mut map, 0);
    db.settle_debt().unwrap();
    put_one(engine(&db), b"key 200", Durability::Process);
    map.insert(b"key 200".to_vec(), b"value".to_vec());
    db.flush().unwrap();
    holds(&db, &map)
}

/// The number of tables in level 0 is noted again when a keyspace is dropped with its tables.
#[test]
fn a_dropped_keyspace_stops_no_writers() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::Nothing);
    db.keyspace("doomed").unwrap().put("k", "v").unwrap();
    engine(&db).work.set_level0(100);
    db.drop_keyspace("doomed").unwrap();
    assert_eq!(engine(&db).work.level0(), 0);
}

/// A latched database lets its threads end, though compactions are due.
#[test]
fn compactors_end_when_the_database_is_latched() {
    let vfs = SimVfs::new(1);
    let never =
        |options: Options| options.advanced(|advanced| advanced.level0_tables(1000, 1000, 1000));
    let db = never(options(&vfs, Plant::Nothing)).open(DIR).unwrap();
    put_round(&db, &mut Map::new(), 0);
    db.flush().unwrap();
    assert!(tree(&db).level0().len() >= 2);
    db.close().unwrap();
    let engine = opening::open(Path::new(DIR), options(&vfs, Plant::Nothing)).unwrap();
    let engine = Arc::new(engine);
    engine.latch(&crate::Error::new(crate::ErrorKind::Io, "a test"));
    worker::start(&engine).unwrap();
    engine.work.join_threads();
    let refused = worker::settle(&engine).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Latched);
}
