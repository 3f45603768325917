//! Transactions and batches that are larger than the memory budget: they are written whole or not
//! at all, at every level and in both layouts, and others go on.
//!
//! Everything replays from the numbers in the messages. `EVENDB_LARGE_CRASHES` sets the number of
//! operations of a large commit at which the machine stops (default 12 for each level and layout).

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::{DIR, LEVELS, count_from_env, scramble};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind, Layout, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

const LAYOUTS: [Layout; 2] = [Layout::Chunks, Layout::Guards];

/// Every layout at every level.
fn all() -> impl Iterator<Item = (Layout, Durability)> {
    let at = |layout| LEVELS.map(|level| (layout, level));
    LAYOUTS.into_iter().flat_map(at)
}

fn options(vfs: &SimVfs, layout: Layout, level: Durability) -> Options {
    Options::new()
        .layout(layout)
        .durability(level)
        .memory_budget(BUDGET)
        .vfs(Arc::new(vfs.clone()))
}

const BUDGET: u64 = 1 << 20;
/// Ten budgets.
const PAIRS: u32 = 10_000;

fn key(number: u32) -> String {
    format!("{:016x}", scramble(u64::from(number)))
}

/// About a kilobyte that is different for each number.
fn value(number: u32, round: u32) -> Vec<u8> {
    let seed = scramble(u64::from(number) << 8 | u64::from(round));
    let words = (0..128_u64).flat_map(|word| (seed ^ word).to_le_bytes());
    words.collect()
}

/// All pairs of a round are there, and nothing else but `others`.
fn check(db: &Db, round: u32, others: &[&str]) {
    for number in (0..PAIRS).step_by(97) {
        let got = db.get(key(number)).unwrap();
        assert_eq!(got.as_deref(), Some(&*value(number, round)), "{number}");
    }
    let mut keys: Vec<String> = (0..PAIRS).map(key).collect();
    keys.extend(others.iter().map(|&other| other.to_owned()));
    keys.sort();
    let found = db.iter().map(|item| item.unwrap().0.to_vec());
    assert!(
        found.eq(keys.into_iter().map(String::into_bytes)),
        "round {round}"
    );
}

fn extents(vfs: &SimVfs) -> usize {
    let names = vfs.file_names(Path::new(DIR));
    names.iter().filter(|name| name.ends_with(".val")).count()
}

/// Also over what is there already, and with threads and without them.
#[test]
fn ten_budgets_in_one_transaction_are_there_at_once_and_after_closing_and_crashes() {
    for (layout, level) in all() {
        // Each layout with threads and without them.
        let is_alone = (layout == Layout::Chunks) == (level == Durability::Process);
        let workers = if is_alone { 0 } else { 2 };
        let vfs = SimVfs::new(1);
        let open = |vfs: &SimVfs| {
            let options = options(vfs, layout, level).workers(workers);
            options.open(DIR).unwrap()
        };
        let db = open(&vfs);
        db.put("before", "1").unwrap();
        db.put("gone", "1").unwrap();
        for round in 0..2 {
            let before = db.snapshot().unwrap();
            commit_ten_budgets(&db, round);
            check(&db, round, &["before"]);
            let seen = before.iter(db.default_keyspace()).count();
            assert_eq!(seen, if round == 0 { 2 } else { 1 + PAIRS as usize });
        }
        // Behind the acknowledgement, before a checkpoint has passed the commit, or beside one.
        for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
            if is_promised(level, Durability::Relaxed, mode) {
                let db = open(&vfs.fork_state().crash(mode));
                check(&db, 1, &["before"]);
                db.close().unwrap();
            }
        }
        db.put("behind", "1").unwrap();
        db.close().unwrap();
        assert_eq!(extents(&vfs), 0);
        let db = open(&vfs);
        check(&db, 1, &["before", "behind"]);
        db.settle_debt().unwrap();
        check(&db, 1, &["before", "behind"]);
        db.close().unwrap();
    }
}

fn commit_ten_budgets(db: &Db, round: u32) {
    let keyspace = db.default_keyspace();
    let mut transaction = db.transaction().unwrap();
    for number in 0..PAIRS {
        let value = value(number, round);
        transaction.put(keyspace, key(number), value).unwrap();
    }
    transaction.delete(keyspace, "gone").unwrap();
    transaction.commit().unwrap();
}

/// What a database holds.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn pair(item: evendb::Result<(evendb::Value, evendb::Value)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = item.unwrap();
    (key.to_vec(), value.to_vec())
}

fn contents(db: &Db) -> Map {
    db.iter().map(pair).collect()
}

/// About three budgets: overwrites what is there, deletes a key and a range, and adds keys.
fn three_budgets(db: &Db) -> evendb::Batch {
    let mut batch = db.batch();
    let keyspace = db.default_keyspace();
    batch.delete_range(keyspace, "0".."2");
    for number in 0..200 {
        let long = value(number, 1).repeat(16);
        batch.put(keyspace, key(number), long);
    }
    batch.delete(keyspace, key(300));
    batch
}

/// A machine with a closed database of some records, what it holds, and what it holds after
/// [`three_budgets`].
fn prepared(layout: Layout, level: Durability) -> (SimVfs, Map, Map) {
    let vfs = SimVfs::new(7);
    let db = options(&vfs, layout, level).workers(0).open(DIR).unwrap();
    for number in 100..400 {
        db.put(key(number), value(number, 0)).unwrap();
    }
    let before = contents(&db);
    let mut after = before.clone();
    after.retain(|key, _| !(&b"0"[..]..&b"2"[..]).contains(&&**key));
    for number in 0..200 {
        after.insert(key(number).into_bytes(), value(number, 1).repeat(16));
    }
    after.remove(key(300).as_bytes());
    db.close().unwrap();
    (vfs, before, after)
}

/// Whether a commit that was acknowledged survives.
fn is_promised(level: Durability, asked: Durability, mode: CrashMode) -> bool {
    match (level.max(asked), mode) {
        (Durability::Sync, _) => true,
        (Durability::Process, CrashMode::Process) => level == Durability::Process,
        _ => false,
    }
}

/// A life until the machine stops: a large commit, and the checkpoint that follows. Returns whether
/// the commit was acknowledged, and the number of operations.
fn live(options: Options, vfs: &SimVfs, asked: Durability, stops_at: Option<u64>) -> (bool, u64) {
    let db = options.open(DIR).unwrap();
    let first = vfs.op_count();
    if let Some(at) = stops_at {
        vfs.set_crash_at(first + at);
    }
    let mut batch = three_budgets(&db);
    batch.durability(asked);
    // A mapped write does not fail when the machine stops.
    let acknowledged = batch.commit().is_ok() && !vfs.crashed();
    let _ = db.flush();
    let _ = db.settle_debt();
    (acknowledged, vfs.op_count() - first)
}

/// What is found after a crash, by two openings.
fn found(options: impl Fn() -> Options, place: &str) -> Map {
    let look = || {
        let db = options().open(DIR).unwrap();
        let found = contents(&db);
        db.settle_debt().unwrap();
        assert!(contents(&db) == found, "{place}: changed after opening");
        db.close().unwrap();
        found
    };
    let first = look();
    assert!(look() == first, "{place}: changed by closing");
    first
}

#[test]
fn a_crash_at_any_operation_leaves_all_of_a_large_commit_or_nothing() {
    let crashes = count_from_env("EVENDB_LARGE_CRASHES", 12);
    let modes = [
        CrashMode::Process,
        CrashMode::PowerLossNothing,
        CrashMode::PowerLossAll,
        CrashMode::PowerLossRandom(5),
    ];
    let (mut whole, mut nothing, mut promised) = (0, 0, 0);
    for (layout, level) in all() {
        let (machine, before, after) = prepared(layout, level);
        let options = |vfs: &SimVfs| options(vfs, layout, level).workers(0);
        let undisturbed = machine.fork_state();
        let (acknowledged, operations) = live(
            options(&undisturbed),
            &undisturbed,
            Durability::Relaxed,
            None,
        );
        assert!(acknowledged);
        for number in 0..crashes {
            let part = operations / crashes;
            let at = number * part + scramble(number) % part.max(1);
            let asked = [Durability::Relaxed, Durability::Sync][number as usize % 2];
            let mode = modes[(number / 2) as usize % modes.len()];
            let place = format!("{layout:?} {level:?} asked {asked:?}: {mode:?} at {at}");
            let vfs = machine.fork_state();
            let (acknowledged, _) = live(options(&vfs), &vfs, asked, Some(at));
            let left = vfs.crash(mode);
            let found = found(|| options(&left), &place);
            let is_whole = found == after;
            assert!(is_whole || found == before, "{place}: a part");
            let is_promised = acknowledged && is_promised(level, asked, mode);
            assert!(is_whole || !is_promised, "{place}: was acknowledged");
            assert_eq!(extents(&left), 0, "{place}");
            whole += u32::from(is_whole);
            nothing += u32::from(!is_whole);
            promised += u32::from(is_promised);
        }
    }
    let all_seen = whole > 0 && nothing > 0 && promised > 0;
    assert!(all_seen, "{whole} {nothing} {promised}");
}

/// The body of the commit finds no room, or the runs of its records would find none: it is refused,
/// and everything goes on.
#[test]
fn a_large_commit_that_the_disk_has_no_room_for_is_refused_and_loses_nothing() {
    for (layout, level) in all() {
        let (machine, before, after) = prepared(layout, level);
        let mut refused = 0;
        for mib in [1, 2, 4, 6, 64] {
            let place = format!("{layout:?} {level:?} {mib} MiB");
            let vfs = machine.fork_state();
            let db = options(&vfs, layout, level).workers(0).open(DIR).unwrap();
            vfs.set_capacity(vfs.used_bytes() + (mib << 20));
            let committed = three_budgets(&db).commit();
            let expected = match &committed {
                Ok(()) => &after,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error}");
                    assert_eq!(extents(&vfs), 0, "{place}");
                    refused += 1;
                    &before
                }
            };
            assert!(contents(&db) == *expected, "{place}");
            db.put("further", "1").unwrap();
            assert!(db.contains_key("further").unwrap(), "{place}");
            db.delete("further").unwrap();
            vfs.set_capacity(u64::MAX);
            three_budgets(&db).commit().unwrap();
            assert!(contents(&db) == after, "{place}: with room again");
            db.close().unwrap();
            let db = options(&vfs, layout, level).workers(0).open(DIR).unwrap();
            assert!(contents(&db) == after, "{place}: opened again");
        }
        assert!(
            (1..5).contains(&refused),
            "{layout:?} {level:?}: {refused} refused"
        );
    }
}

/// From the log, and from kept changes after the checkpoint that follows.
#[test]
fn a_feed_tells_a_large_commit_as_one_change() {
    for layout in LAYOUTS {
        for level in [Durability::Process, Durability::Sync] {
            let vfs = SimVfs::new(2);
            let options = options(&vfs, layout, level).workers(0);
            let options = options.advanced(|advanced| advanced.keep_changes_bytes(64 << 10));
            let db = options.open(DIR).unwrap();
            db.put("first", "1").unwrap();
            let position = db.position().unwrap();
            three_budgets(&db).commit().unwrap();
            db.put("last", "1").unwrap();
            for is_passed in [false, true] {
                if is_passed {
                    db.settle_debt().unwrap();
                    assert_eq!(extents(&vfs), 0, "a checkpoint has passed it");
                }
                let mut changes = db.changes_since(&position).unwrap();
                let change = changes.next().unwrap().unwrap();
                assert_eq!(change.len(), 202, "{layout:?} {level:?} {is_passed}");
                let puts: Vec<_> = change.writes().filter_map(|write| write.value).collect();
                assert!(puts.iter().all(|value| value.len() == 16 << 10));
                assert_eq!(puts.len(), 200);
                let last = changes.next().unwrap().unwrap();
                assert_eq!(last.writes().next().unwrap().key, b"last");
                assert!(changes.next().is_none());
            }
            db.close().unwrap();
        }
    }
}

/// Two threads commit more than the budget again and again, others put, get and scan. Each look at
/// the database sees each large commit whole.
#[test]
fn gets_puts_and_scans_of_others_go_on_beside_large_commits() {
    for (layout, level) in all() {
        let vfs = SimVfs::new(4);
        let db = options(&vfs, layout, level).open(DIR).unwrap();
        let is_done = AtomicBool::new(false);
        let (db, is_done) = (&db, &is_done);
        thread::scope(|scope| {
            let commits = ["a", "b"].map(|name| scope.spawn(move || commit_rounds(db, name)));
            let put = scope.spawn(move || {
                let mut puts = 0_u32;
                while !is_done.load(Ordering::Acquire) || puts < 100 {
                    let key = format!("single/{puts:09}");
                    db.put(&key, "1").unwrap();
                    assert!(db.contains_key(&key).unwrap());
                    puts += 1;
                }
                puts
            });
            scope.spawn(move || {
                while !is_done.load(Ordering::Acquire) {
                    let _ = ["a", "b"].map(|name| round_of(db, name));
                }
            });
            commits
                .into_iter()
                .for_each(|commit| commit.join().unwrap());
            is_done.store(true, Ordering::Release);
            let puts = put.join().unwrap();
            assert_eq!(db.prefix("single/").count() as u32, puts);
        });
        let rounds = ["a", "b"].map(|name| round_of(db, name));
        assert_eq!(rounds, [Some(ROUNDS - 1); 2], "{layout:?} {level:?}");
    }
}

const ROUNDS: u32 = 3;
const OWN: u32 = 3_000;

/// Three budgets in each round.
fn commit_rounds(db: &Db, name: &str) {
    for round in 0..ROUNDS {
        let mut batch = db.batch();
        for number in 0..OWN {
            let key = format!("{name}/{}", key(number));
            batch.put(db.default_keyspace(), key, value(number, round));
        }
        batch.commit().unwrap();
    }
}

/// The round of the commit that a scan sees, which has all of its pairs and no others.
fn round_of(db: &Db, name: &str) -> Option<u32> {
    let found: Map = db.prefix(format!("{name}/")).map(pair).collect();
    let of = |number| found.get(format!("{name}/{}", key(number)).as_bytes());
    let round = (0..8).find(|&round| of(0) == Some(&value(0, round)))?;
    assert_eq!(found.len() as u32, OWN);
    for number in 0..OWN {
        assert_eq!(
            of(number),
            Some(&value(number, round)),
            "{number} of {round}"
        );
    }
    Some(round)
}

/// Each of many own writes is read back, by a get and by scans that begin there, while more are
/// made: a step over all own writes for each read would not end.
#[test]
fn own_writes_are_read_back_without_a_step_for_all_of_them() {
    const WRITES: u32 = 40_000;
    let vfs = SimVfs::new(5);
    let options = options(&vfs, Layout::Chunks, Durability::Process);
    let db = options.open(DIR).unwrap();
    let keyspace = db.default_keyspace();
    let mut transaction = db.transaction().unwrap();
    for number in 0..WRITES {
        let own = key(number);
        let value = number.to_le_bytes();
        transaction.put(keyspace, &own, value).unwrap();
        if number % 16 == 0 {
            transaction.savepoint();
        }
        let got = transaction.get(keyspace, &own).unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]));
        let mut from = transaction.range(keyspace, own.as_str()..).unwrap();
        assert_eq!(&*from.next().unwrap().unwrap().0, own.as_bytes());
        drop(from);
        let mut to = transaction.range(keyspace, ..=own.as_str()).unwrap();
        assert_eq!(&*to.next_back().unwrap().unwrap().0, own.as_bytes());
    }
    transaction.commit().unwrap();
    assert_eq!(db.iter().count() as u32, WRITES);
}

struct Unparks(thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_large_commit_by_a_future_is_made_by_a_thread_that_may_wait() {
    for level in LEVELS {
        let (vfs, _, after) = prepared(Layout::Chunks, level);
        let db = options(&vfs, Layout::Chunks, level).open(DIR).unwrap();
        let mut commit = Box::pin(three_budgets(&db).commit_async());
        let waker = Waker::from(Arc::new(Unparks(thread::current())));
        let committed = loop {
            match commit.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(committed) => break committed,
                Poll::Pending => thread::park(),
            }
        };
        committed.unwrap();
        assert!(contents(&db) == after, "{level:?}");
        db.close().unwrap();
    }
}
