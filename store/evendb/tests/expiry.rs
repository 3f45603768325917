//! Records that expire, against an ordered map with a clock of its own: by every read, across
//! checkpoints, rewrites, openings and crashes; tables that go unread; single deletes; and filters.

mod common;
mod expiring;

use common::{DIR, number_from_env, on_sim, scramble};
use evendb::inspect::{InspectOptions, RepairOptions, repair, verify};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{CompactionFilter, Db, Durability, FilterDecision, Iter, Keyspace, KeyspaceOptions};
use evendb::{Merges, Options, Snapshot, WallClock};
use expiring::model::{Entry, Model};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A clock that tests set, in seconds.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Hands {
    fn at(seconds: u64) -> Arc<Hands> {
        Arc::new(Hands(AtomicU64::new(seconds)))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

fn day(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

impl WallClock for Hands {
    fn now(&self) -> SystemTime {
        day(self.0.load(Ordering::Relaxed))
    }
}

fn by(options: Options, hands: &Arc<Hands>) -> Options {
    let hands = hands.clone();
    options.advanced(|advanced| advanced.wall_clock(hands))
}

fn open(vfs: &SimVfs, hands: &Arc<Hands>) -> Db {
    let options = on_sim(vfs, Durability::Process, 0);
    by(options, hands).open(DIR).expect("opens")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pairs(items: Iter) -> Vec<(Vec<u8>, Vec<u8>)> {
    let each = items.map(|item| item.expect("no error"));
    each.map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn get(keyspace: &Keyspace, key: &str) -> Option<Vec<u8>> {
    keyspace.get(key).expect("gets").map(|value| value.to_vec())
}

/// The result of each kind of read of a key.
fn reads(db: &Db, key: &str) -> Vec<Option<Vec<u8>>> {
    let keyspace = db.default_keyspace();
    let own = |items: Iter| {
        let found = pairs(items)
            .into_iter()
            .find(|(own, _)| *own == key.as_bytes());
        found.map(|(_, value)| value)
    };
    let snapshot = db.snapshot().expect("a snapshot");
    let transaction = db.transaction().expect("a transaction");
    let copied = |value: Option<evendb::Value>| value.map(|value| value.to_vec());
    let both = keyspace.multi_get(&[key, "nothing"]).expect("gets");
    let mut cursor = keyspace.cursor(key..);
    let next = cursor
        .next()
        .expect("scans")
        .filter(|(own, _)| *own == key.as_bytes());
    let next = next.map(|(_, value)| value.to_vec());
    let in_transaction = transaction.iter(keyspace).expect("scans");
    let mut in_transaction = in_transaction.map(|item| item.expect("scans"));
    let in_transaction = in_transaction.find(|(own, _)| *own == key);
    let answers = vec![
        get(keyspace, key),
        copied(both[0].clone()),
        own(keyspace.iter()),
        own(keyspace.prefix(key)),
        next,
        copied(snapshot.get(keyspace, key).expect("gets")),
        own(snapshot.iter(keyspace)),
        copied(transaction.get(keyspace, key).expect("gets")),
        in_transaction.map(|(_, value)| value.to_vec()),
    ];
    let there = answers[0].is_some();
    assert_eq!(keyspace.contains_key(key).expect("gets"), there);
    assert_eq!(keyspace.keys(key..=key).count(), usize::from(there));
    assert_eq!(keyspace.range(key..=key).rev().count(), usize::from(there));
    assert_eq!(snapshot.contains_key(keyspace, key).expect("gets"), there);
    answers
}

fn check(db: &Db, key: &str, expected: Option<&str>, what: &str) {
    for (number, answer) in reads(db, key).into_iter().enumerate() {
        let expected = expected.map(|value| value.as_bytes().to_vec());
        assert_eq!(answer, expected, "{key}, {what}, read {number}");
    }
}

/// The number of records in tables, as `verify` counts them in the files that a kill would leave.
fn records(vfs: &SimVfs, db: &Db) -> u64 {
    // Queued edits are in the manifest then.
    db.flush().expect("a checkpoint");
    let inspect = InspectOptions::new().vfs(Arc::new(vfs.fork_state()));
    let report = verify(DIR, inspect).expect("verifies");
    assert!(report.is_sound(), "{report:?}");
    report.checked.records
}

#[test]
fn every_read_hides_what_has_expired_wherever_it_lies() {
    let vfs = SimVfs::new(1);
    let hands = Hands::at(1_000);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    db.put("b", "older").expect("puts");
    db.flush().expect("a checkpoint");
    keyspace
        .put_with_ttl("a", "by life", seconds(100))
        .expect("puts");
    keyspace
        .put_expiring_at("b", "till then", day(1_200))
        .expect("puts");
    db.put("c", "stays").expect("puts");
    let stages: [(&str, &dyn Fn()); 4] = [
        ("in a delta", &|| {}),
        ("in a run", &|| db.flush().expect("a checkpoint")),
        ("settled", &|| db.settle_debt().expect("settles")),
        ("again, out of caches", &|| {}),
    ];
    for (what, step) in stages {
        step();
        check(&db, "a", Some("by life"), what);
        check(&db, "b", Some("till then"), what);
        check(&db, "c", Some("stays"), what);
    }
    hands.set(1_100);
    check(&db, "a", None, "at its time");
    check(&db, "b", Some("till then"), "before its time");
    assert_eq!(keyspace.first().expect("scans").expect("one").0, "b");
    hands.set(1_200);
    check(&db, "b", None, "over an older one");
    let (first, last) = (keyspace.first(), keyspace.last());
    assert_eq!(first.expect("scans").expect("one").0, "c");
    assert_eq!(last.expect("scans").expect("one").0, "c");
    assert_eq!(keyspace.pop_first().expect("pops").expect("one").1, "stays");
    assert!(keyspace.pop_last().expect("pops").is_none());
    // A clock that goes back.
    hands.set(900);
    check(&db, "a", None, "after the clock went back");
    check(&db, "b", None, "after the clock went back");
    db.compact().expect("compacts");
    check(&db, "b", None, "compacted");
    assert_eq!(records(&vfs, &db), 0, "something is left");
    // A put counts now from the time that is in force.
    keyspace
        .put_with_ttl("a", "anew", seconds(1))
        .expect("puts");
    check(&db, "a", Some("anew"), "put again");
    hands.set(1_201);
    check(&db, "a", None, "put again");
}

#[test]
fn a_snapshot_an_iterator_and_a_transaction_see_one_time() {
    let vfs = SimVfs::new(2);
    let hands = Hands::at(10);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    for number in 0..300 {
        let key = format!("{number:03}");
        keyspace
            .put_with_ttl(key, "value", seconds(10))
            .expect("puts");
    }
    db.put("010", "older than the snapshot, newer than others")
        .expect("puts");
    let snapshot = db.snapshot().expect("a snapshot");
    let mut iter = keyspace.iter();
    let mut transaction = db.transaction().expect("a transaction");
    assert!(iter.next().is_some());
    hands.set(50);
    assert_eq!(keyspace.iter().count(), 1);
    for _ in 0..2 {
        assert_eq!(snapshot.iter(keyspace).count(), 300);
        assert_eq!(snapshot.iter(keyspace).rev().count(), 300);
        assert!(snapshot.get(keyspace, "299").expect("gets").is_some());
        assert!(transaction.get(keyspace, "299").expect("gets").is_some());
        // Rewrites keep what the snapshot sees.
        db.compact().expect("compacts");
    }
    assert_eq!(iter.count(), 299);
    // The transaction's own writes, by its own time.
    transaction
        .put_with_ttl(keyspace, "own", "value", seconds(5))
        .expect("notes");
    transaction
        .put_expiring_at(keyspace, "gone", "value", day(10))
        .expect("notes");
    assert_eq!(
        transaction
            .get(keyspace, "own")
            .expect("gets")
            .expect("own"),
        "value"
    );
    assert!(transaction.get(keyspace, "gone").expect("gets").is_none());
    let seen = transaction.iter(keyspace).expect("scans");
    assert_eq!(seen.count(), 301);
    transaction.commit().expect("that it expired was no write");
    assert_eq!(get(keyspace, "own"), Some(b"value".to_vec()));
    hands.set(55);
    assert_eq!(get(keyspace, "own"), None);
    drop(snapshot);
    db.compact().expect("compacts");
    assert_eq!(keyspace.iter().count(), 1);
    assert_eq!(records(&vfs, &db), 1);
}

#[test]
fn a_keyspace_has_a_time_to_live_of_its_own() {
    let vfs = SimVfs::new(3);
    let hands = Hands::at(100);
    let options = KeyspaceOptions::new().ttl(seconds(60));
    let db = open(&vfs, &hands);
    let events = db.keyspace_with("events", &options).expect("creates");
    let put_all = |db: &Db, events: &Keyspace| {
        events.put("put", "").expect("puts");
        events
            .put_with_ttl("longer", "", seconds(600))
            .expect("puts");
        let mut batch = db.batch();
        batch
            .put(events, "batch", "")
            .put(db.default_keyspace(), "other", "");
        batch.commit().expect("commits");
        let add =
            |transaction: &mut evendb::Transaction| transaction.put(events, "transaction", "");
        db.transact(add).expect("commits");
        events
            .fetch_update("updated", |_| Some(""))
            .expect("updates");
    };
    put_all(&db, &events);
    assert_eq!(events.iter().count(), 5);
    hands.set(160);
    assert_eq!(pairs(events.iter()), [(b"longer".to_vec(), Vec::new())]);
    assert!(db.contains_key("other").expect("gets"));
    let refused = events.set_options(&KeyspaceOptions::new().ttl(Duration::from_micros(1)));
    assert!(refused.is_err(), "less than a millisecond is none");
    db.close().expect("closes");
    // The reopened database remembers it.
    let db = open(&vfs, &hands);
    let events = db.keyspace("events").expect("there");
    let there = common::layout::recorded(options);
    assert_eq!(events.options().expect("options"), there);
    put_all(&db, &events);
    hands.set(220);
    assert_eq!(events.iter().count(), 1);
    events.set_options(&KeyspaceOptions::new()).expect("sets");
    put_all(&db, &events);
    hands.set(10_000);
    assert_eq!(events.iter().count(), 4, "puts without one stay now");
}

#[test]
fn tables_in_which_all_has_expired_go_unread() {
    for with_snapshot in [false, true] {
        let vfs = SimVfs::new(4);
        let hands = Hands::at(0);
        let db = open(&vfs, &hands);
        let keyspace = db.default_keyspace();
        // An event log, and a record in between that stays.
        for number in 0..2_000 {
            let key = format!("event/{number:06}");
            let ttl = seconds(100 + number / 20);
            keyspace.put_with_ttl(key, [b'e'; 60], ttl).expect("puts");
        }
        db.put("event/000300", "stays").expect("puts");
        db.settle_debt().expect("settles");
        let before = records(&vfs, &db);
        assert!(before >= 2_000);
        let snapshot = with_snapshot.then(|| db.snapshot().expect("a snapshot"));
        let read = db.stats().bytes_read;
        hands.set(150);
        // Like upkeep, without a write or a read.
        db.settle_debt().expect("settles");
        assert_eq!(db.stats().bytes_read, read, "something was read");
        if let Some(snapshot) = snapshot {
            assert_eq!(records(&vfs, &db), before, "the snapshot sees them");
            assert_eq!(snapshot.iter(keyspace).count(), 2_000);
            drop(snapshot);
            db.settle_debt().expect("settles");
        }
        let half = records(&vfs, &db);
        assert!(half < before * 7 / 10, "{half} of {before}");
        assert!(db.stats().tables_dropped_unread > 0);
        assert_eq!(keyspace.iter().count(), 980 + 1);
        hands.set(1_000);
        db.settle_debt().expect("settles");
        let after = records(&vfs, &db);
        assert!(after < 200, "{after} of {before}");
        assert_eq!(keyspace.iter().count(), 1);
        assert_eq!(get(keyspace, "event/000300"), Some(b"stays".to_vec()));
        db.compact().expect("compacts");
        assert_eq!(records(&vfs, &db), 1);
    }
}

#[test]
fn changes_tell_when_a_value_expires() {
    let vfs = SimVfs::new(5);
    let hands = Hands::at(100);
    let db = open(&vfs, &hands);
    let from = db.position().expect("a position");
    let keyspace = db.default_keyspace();
    keyspace
        .put_with_ttl("a", "value", seconds(7))
        .expect("puts");
    db.put("a", "for ever").expect("puts");
    keyspace.single_delete("a").expect("deletes");
    let mut seen = Vec::new();
    for change in db.changes_since(&from).expect("changes") {
        for write in &change.expect("no error") {
            seen.push((write.value.map(<[u8]>::to_vec), write.expires));
        }
    }
    let expected = [
        (Some(b"value".to_vec()), Some(day(107))),
        (Some(b"for ever".to_vec()), None),
        (None, None),
    ];
    assert_eq!(seen, expected);
}

/// In one write a merge becomes a part of the put before it. A merge in a later write does not
/// expire.
#[test]
fn a_merge_expires_with_a_put_of_its_own_write_only() {
    for (number, settled) in [(1, false), (2, true)] {
        let vfs = SimVfs::new(number);
        let hands = Hands::at(100);
        let db = open(&vfs, &hands);
        let keyspace = db.default_keyspace();
        let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
        keyspace.set_options(&merging).expect("sets");
        let settle = || {
            if settled {
                db.settle_debt().expect("settles");
            }
        };
        let mut batch = db.batch();
        batch.put_with_ttl(keyspace, "batch", "a", seconds(10));
        batch.merge(keyspace, "batch", "b");
        batch.commit().expect("commits");
        let mut transaction = db.transaction().expect("begins");
        transaction
            .put_with_ttl(keyspace, "transaction", "a", seconds(10))
            .expect("notes");
        transaction
            .merge(keyspace, "transaction", "b")
            .expect("notes");
        transaction.commit().expect("commits");
        keyspace
            .put_with_ttl("apart", "a", seconds(10))
            .expect("puts");
        settle();
        keyspace.merge("apart", "b").expect("merges");
        // Over an earlier put of the same kind, which has expired by then.
        keyspace
            .put_with_ttl("late", "a", seconds(5))
            .expect("puts");
        settle();
        for key in ["batch", "transaction", "apart"] {
            check(&db, key, Some("ab"), "before its time");
        }
        hands.set(109);
        let mut batch = db.batch();
        batch.merge(keyspace, "late", "b");
        batch.commit().expect("commits");
        settle();
        for key in ["batch", "transaction", "apart"] {
            check(&db, key, Some("ab"), "just before its time");
        }
        check(&db, "late", Some("b"), "merged into when it had expired");
        hands.set(110);
        for _ in 0..2 {
            check(&db, "batch", None, "at its time");
            check(&db, "transaction", None, "at its time");
            check(&db, "apart", Some("b"), "when its put has expired");
            check(&db, "late", Some("b"), "when its put has expired");
            db.compact().expect("compacts");
        }
        assert_eq!(records(&vfs, &db), 2);
    }
}

/// A clock that counts how often it is asked.
#[derive(Debug, Default)]
struct Asked(AtomicU64);

impl WallClock for Asked {
    fn now(&self) -> SystemTime {
        self.0.fetch_add(1, Ordering::Relaxed);
        day(100)
    }
}

#[test]
fn what_does_not_expire_asks_for_no_time() {
    let vfs = SimVfs::new(9);
    let clock = Arc::new(Asked::default());
    let wall_clock = clock.clone();
    let options = on_sim(&vfs, Durability::Process, 0);
    let db = options
        .advanced(|advanced| advanced.wall_clock(wall_clock))
        .open(DIR)
        .expect("opens");
    let keyspace = db.default_keyspace();
    let asked = || clock.0.load(Ordering::Relaxed);
    let gets = || {
        for number in 0..200 {
            assert!(db.contains_key(format!("{number:03}")).expect("gets"));
        }
    };
    for number in 0..200 {
        db.put(format!("{number:03}"), "value").expect("puts");
    }
    gets();
    db.settle_debt().expect("settles");
    gets();
    assert_eq!(keyspace.iter().count(), 200);
    assert_eq!(keyspace.iter().rev().count(), 200);
    keyspace.multi_get(&["000", "none"]).expect("gets");
    let snapshot = db.snapshot().expect("a snapshot");
    assert_eq!(snapshot.iter(keyspace).count(), 200);
    let mut transaction = db.transaction().expect("begins");
    transaction.get(keyspace, "000").expect("gets");
    transaction.put(keyspace, "000", "new").expect("notes");
    transaction.commit().expect("commits");
    drop(snapshot);
    db.compact().expect("compacts");
    assert_eq!(asked(), 0, "nothing expires");
    // Beside expiring records, gets and puts of others ask the clock just as rarely.
    keyspace
        .put_with_ttl("expires", "", seconds(9))
        .expect("puts");
    let before = asked();
    gets();
    db.put("001", "new").expect("puts");
    assert_eq!(asked(), before);
    assert!(keyspace.contains_key("expires").expect("gets"));
    assert_eq!(asked(), before + 1);
    db.settle_debt().expect("settles");
    let before = asked();
    gets();
    db.put("002", "new").expect("puts");
    assert_eq!(asked(), before, "in tables");
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        scramble(self.0) % most
    }
}

fn check_model(db: &Db, model: &Model, time: u64, what: &str) {
    let keyspace = db.default_keyspace();
    let expected = model.live(time);
    assert!(pairs(keyspace.iter()) == expected, "{what}");
    let mut backward: Vec<_> = pairs_back(keyspace);
    backward.reverse();
    assert!(backward == expected, "{what}, backward");
}

fn pairs_back(keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let each = keyspace.iter().rev().map(|item| item.expect("no error"));
    each.map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Makes the database look at its clock, which it does when something expires.
fn tell(keyspace: &Keyspace, model: &mut Model, time: u64) {
    keyspace.put_with_ttl("~", "", seconds(1)).expect("puts");
    model
        .0
        .insert(b"~".to_vec(), Entry::put(Vec::new(), Some(time + 1)));
}

/// One run: random operations, with a clock that now and then jumps, also back.
fn run(seed: u64, steps: u64) {
    let mut vfs = SimVfs::new(seed);
    let hands = Hands::at(1_000);
    let mut random = Random(seed << 32);
    let open = |vfs: &SimVfs| {
        // Operands over a separately stored value stay beside it, and count too at the end.
        let options = common::varied(vfs, Durability::Process, seed)
            .advanced(|advanced| advanced.values_apart_from(None));
        by(options, &hands).open(DIR).expect("opens")
    };
    let mut db = open(&vfs);
    let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
    db.default_keyspace().set_options(&merging).expect("sets");
    let mut model = Model::default();
    tell(db.default_keyspace(), &mut model, 1_000);
    // The time that is in force.
    let mut time = 1_000;
    let mut snapshots: Vec<(Snapshot, Model, u64)> = Vec::new();
    for step in 0..steps {
        let keyspace = db.default_keyspace().clone();
        let key = format!("k{:03}", random.below(150)).into_bytes();
        let value = vec![b'v'; random.below(80) as usize];
        let what = format!("seed {seed}, step {step}");
        match random.below(100) {
            0..12 => {
                keyspace.put(&key, &value).expect("puts");
                model.0.insert(key, Entry::put(value, None));
            }
            12..32 => {
                let ttl = 1 + random.below(60);
                keyspace
                    .put_with_ttl(&key, &value, seconds(ttl))
                    .expect("puts");
                model.0.insert(key, Entry::put(value, Some(time + ttl)));
            }
            32..52 => {
                let operand = format!("+{step}");
                keyspace.merge(&key, &operand).expect("merges");
                model.merge(key, operand.as_bytes());
            }
            52..55 => {
                // In one write a merge becomes a part of the put before it, and expires with it.
                let (operand, expires) = (format!("+{step}"), time + random.below(40));
                if step % 2 == 0 {
                    let mut batch = db.batch();
                    batch.put_expiring_at(&keyspace, &key, &value, day(expires));
                    batch.merge(&keyspace, &key, &operand);
                    batch.commit().expect("commits");
                } else {
                    let mut transaction = db.transaction().expect("begins");
                    transaction
                        .put_expiring_at(&keyspace, &key, &value, day(expires))
                        .expect("puts");
                    transaction
                        .merge(&keyspace, &key, &operand)
                        .expect("merges");
                    transaction.commit().expect("commits");
                }
                let value = [&value[..], operand.as_bytes()].concat();
                model.0.insert(key, Entry::put(value, Some(expires)));
            }
            55..57 => {
                keyspace.single_delete(&key).expect("deletes");
                model.0.remove(&key);
            }
            57..62 => {
                keyspace.delete(&key).expect("deletes");
                model.0.remove(&key);
            }
            62..68 => {
                let mut batch = db.batch();
                for number in 0..4 {
                    let key = [&key[..], &[b'0' + number]].concat();
                    let expires = time + random.below(40);
                    batch.put_expiring_at(&keyspace, &key, &value, day(expires));
                    model
                        .0
                        .insert(key, Entry::put(value.clone(), Some(expires)));
                }
                batch.commit().expect("commits");
            }
            68..80 => {
                let expected = model.0.get(&key).and_then(|entry| entry.at(time));
                assert_eq!(
                    keyspace.get(&key).expect("gets").as_deref(),
                    expected.as_deref(),
                    "{what}"
                );
            }
            80..86 => {
                time += random.below(12);
                hands.set(time);
                tell(&keyspace, &mut model, time);
                check_model(&db, &model, time, &what);
            }
            86..88 => {
                hands.set(time.saturating_sub(random.below(500)));
                check_model(&db, &model, time, &what);
            }
            88..91 => db.flush().expect("a checkpoint"),
            91..93 => db.settle_debt().expect("settles"),
            93..94 => drop(db.compact().expect("compacts")),
            94..97 => {
                let snapshot = db.snapshot().expect("a snapshot");
                snapshots.push((snapshot, model.clone(), time));
                if snapshots.len() > 3 {
                    snapshots.remove(0);
                }
            }
            97..99 => {
                for (snapshot, model, time) in &snapshots {
                    let seen = pairs(snapshot.iter(&keyspace));
                    assert!(seen == model.live(*time), "{what}, a snapshot");
                }
            }
            _ => {
                snapshots.clear();
                drop(keyspace);
                // The time of a new life is its clock's time.
                hands.set(time);
                if random.below(2) == 0 {
                    db.close().expect("closes");
                } else {
                    let machine = vfs.crash(CrashMode::Process);
                    drop(db);
                    vfs = machine;
                }
                db = open(&vfs);
                tell(db.default_keyspace(), &mut model, time);
                check_model(&db, &model, time, &what);
            }
        }
    }
    check_model(&db, &model, time, "at the end");
    run_on(vfs.fork_state(), &model, time, seed);
    time += 100;
    hands.set(time);
    model.0.retain(|_, entry| entry.at(time).is_some());
    check_model(&db, &model, time, "at the end, when all has expired");
    snapshots.clear();
    db.compact().expect("compacts");
    check_model(&db, &model, time, "compacted");
    assert_eq!(records(&vfs, &db), model.0.len() as u64);
}

/// After a crash: the same records, and no expired one comes back; and a repair saves them with
/// their times.
fn run_on(vfs: SimVfs, model: &Model, time: u64, seed: u64) {
    let hands = Hands::at(time);
    let open = || {
        let options = common::varied(&vfs, Durability::Process, seed);
        by(options, &hands).open(DIR).expect("opens")
    };
    let db = open();
    check_model(&db, model, time, "after a crash");
    db.settle_debt().expect("settles");
    check_model(&db, model, time, "after a crash, settled");
    db.close().expect("closes");
    let inspect = || InspectOptions::new().vfs(Arc::new(vfs.clone()));
    let report = verify(DIR, inspect()).expect("verifies");
    assert!(report.is_sound(), "{report:?}");
    let inspect = inspect().wall_clock(hands.clone());
    let report = repair(DIR, "/saved", RepairOptions::default(), inspect).expect("repairs");
    assert_eq!(report.records(), model.live(time).len() as u64);
    let options = on_sim(&vfs, Durability::Process, 0);
    let saved = by(options, &hands).open("/saved").expect("opens");
    check_model(&saved, model, time, "saved");
    hands.set(time + 30);
    check_model(&saved, model, time + 30, "saved, later");
}

#[test]
fn random_operations_agree_with_a_map_that_has_a_clock() {
    let seeds = number_from_env("EVENDB_EXPIRY_SEEDS", 24);
    for seed in 0..seeds {
        run(seed, 700);
    }
}

/// Drops keys that begin with `d`, doubles values of keys that begin with `r`, panics at the key
/// `p`.
struct ByName;

impl CompactionFilter for ByName {
    fn filter(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        match key.first() {
            Some(b'd') => FilterDecision::Drop,
            Some(b'r') if value.len() < 16 => FilterDecision::Replace([value, value].concat()),
            Some(b'p') => panic!("a filter of a test panics"),
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn a_filter_decides_at_rewrites_only_and_not_for_what_a_snapshot_sees() {
    for variant in 0..6 {
        let vfs = SimVfs::new(7);
        let hands = Hands::at(100);
        let options = common::varied(&vfs, Durability::Process, variant);
        let db = by(options, &hands).open(DIR).expect("opens");
        let keyspace = db.default_keyspace();
        let fill = || {
            for number in 0..100 {
                for first in ["d", "k", "r"] {
                    db.put(format!("{first}{number:03}"), "12345678")
                        .expect("puts");
                }
            }
            keyspace
                .put_with_ttl("r/expires", "1234", seconds(50))
                .expect("puts");
        };
        fill();
        db.compact().expect("compacts");
        keyspace
            .set_compaction_filter(Some(Arc::new(ByName)))
            .expect("sets");
        // Brings rows and spans into RAM.
        for _ in 0..3 {
            assert_eq!(keyspace.iter().count(), 301);
            assert_eq!(get(keyspace, "d001"), Some(b"12345678".to_vec()));
        }
        let snapshot = db.snapshot().expect("a snapshot");
        db.compact().expect("compacts");
        assert_eq!(keyspace.iter().count(), 301, "a snapshot sees them");
        assert_eq!(snapshot.iter(keyspace).count(), 301);
        // Records newer than the snapshot are filtered, and hide the records that it sees.
        fill();
        db.compact().expect("compacts");
        assert_eq!(snapshot.iter(keyspace).count(), 301);
        let check = |what: &str| {
            assert_eq!(keyspace.iter().count(), 201, "{what}");
            assert_eq!(get(keyspace, "d001"), None, "{what}");
            assert_eq!(get(keyspace, "k001"), Some(b"12345678".to_vec()), "{what}");
            assert_eq!(
                get(keyspace, "r001"),
                Some(b"1234567812345678".to_vec()),
                "{what}"
            );
        };
        check("with a snapshot");
        drop(snapshot);
        db.compact().expect("compacts");
        db.compact().expect("compacts");
        check("without a snapshot");
        assert_eq!(records(&vfs, &db), 201);
        hands.set(150);
        assert_eq!(
            keyspace.iter().count(),
            200,
            "a new value expires as the old one did"
        );
    }
}

#[test]
fn a_filter_that_panics_loses_nothing() {
    let vfs = SimVfs::new(8);
    let hands = Hands::at(100);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    for key in ["d", "k", "p", "rest/d", "r"] {
        db.put(key, "value").expect("puts");
    }
    keyspace
        .set_compaction_filter(Some(Arc::new(ByName)))
        .expect("sets");
    db.compact().expect("compacts");
    assert!(db.stats().compaction_filter_panics > 0);
    let keys: Vec<_> = keyspace
        .keys::<&str>(..)
        .map(|key| key.expect("scans").to_vec())
        .collect();
    assert_eq!(keys, [&b"k"[..], b"p", b"r", b"rest/d"]);
    assert_eq!(
        get(keyspace, "r"),
        Some(b"value".to_vec()),
        "it was not asked any more"
    );
    db.put("new", "value").expect("it is not latched");
    keyspace.set_compaction_filter(None).expect("sets");
    db.compact().expect("compacts");
    assert_eq!(keyspace.iter().count(), 5);
}
