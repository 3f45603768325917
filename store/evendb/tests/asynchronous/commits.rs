//! Commits: when they are ready, their order, and back-pressure.

use super::executor::{at_once, block_on, drive, poll_once, until};
use super::files::{Files, key};
use crate::common::{self, DIR};
use evendb::{Batch, Change, CommitFuture, Db, Durability, ErrorKind};
use std::thread;

fn put(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), key, value);
    batch
}

fn synced(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> CommitFuture {
    let mut batch = put(db, key, value);
    batch.durability(Durability::Sync);
    batch.commit_async()
}

#[test]
fn at_process_level_the_first_poll_is_the_last() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    let mut batch = put(&db, "a", "1");
    let other = db.keyspace("other").unwrap();
    batch.put(&other, "b", "2").delete_range(&other, "x".."y");
    at_once(batch.commit_async()).unwrap();
    at_once(db.batch().commit_async()).unwrap();
    let mut transaction = db.transaction().unwrap();
    assert_eq!(transaction.get(&other, "b").unwrap().unwrap(), "2");
    transaction.put(&other, "b", "3").unwrap();
    at_once(transaction.commit_async()).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    assert_eq!(other.get("b").unwrap().unwrap(), "3");
    let error = at_once(put(&db, vec![0; 70_000], "").commit_async()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyTooLarge);
}

/// The write is there, for every reader, before its sync; the future is ready after it, and no
/// thread of the caller stands meanwhile.
#[test]
fn at_sync_level_the_future_is_ready_after_the_sync() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    files.hold_syncs(true);
    let mut commit = synced(&db, "a", "1");
    assert!(poll_once(&mut commit).is_pending());
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    let mut persist = db.persist_async();
    assert!(poll_once(&mut persist).is_pending());
    until("the sync stands", || files.standing() > 0);
    assert!(poll_once(&mut commit).is_pending());
    files.hold_syncs(false);
    block_on(commit).unwrap();
    block_on(persist).unwrap();
    let crashed = files.sim.crash(evendb::vfs::CrashMode::PowerLossNothing);
    let again = common::options()
        .vfs(std::sync::Arc::new(crashed))
        .open(DIR)
        .unwrap();
    assert_eq!(again.get("a").unwrap().unwrap(), "1");
}

/// A22: one poll to begin, and one for the sync; none without progress.
#[test]
fn a22_a_commit_is_polled_twice_however_long_its_sync_takes() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    let lets_go = {
        let files = files.clone();
        thread::spawn(move || {
            until("a sync stands", || files.standing() > 0);
            files.hold_syncs(false);
        })
    };
    let commits = (0..100)
        .map(|n| put(&db, key(n), "1").commit_async())
        .collect();
    let (done, polls) = drive(commits);
    assert!(done.into_iter().all(|done| done.is_ok()));
    assert!(polls <= 200, "{polls} polls");
    lets_go.join().unwrap();
}

/// A11: many threads, many futures each, several databases, blocked commits among them.
#[test]
fn a11_eight_threads_with_64_commits_each() {
    let files: Vec<Files> = (0..2).map(|_| Files::new()).collect();
    let open = |files: &Files| files.open(Durability::Sync);
    let dbs: Vec<Db> = files.iter().map(open).collect();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let dbs = dbs.clone();
            thread::spawn(move || {
                for round in 0..4 {
                    let name = |n: usize| format!("{thread}/{round}/{n}");
                    let commit = |n| put(&dbs[n % 2], name(n), "1").commit_async();
                    let (done, _) = drive((0..64).map(commit).collect());
                    assert!(done.into_iter().all(|done| done.is_ok()));
                    dbs[thread % 2]
                        .put(format!("{thread}/{round}"), "")
                        .unwrap();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let count: usize = dbs.iter().map(|db| db.iter().count()).sum();
    assert_eq!(count, 8 * 4 * (64 + 1));
}

#[test]
fn ten_thousand_commits_on_one_thread() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    let commits = (0..10_000)
        .map(|n| put(&db, key(n), "1").commit_async())
        .collect();
    let (done, polls) = drive(commits);
    assert!(done.into_iter().all(|done| done.is_ok()));
    // One more for a commit for which files had to be made longer.
    assert!(polls <= 30_000, "{polls}");
    assert_eq!(db.iter().count(), 10_000);
}

/// The keys that were put, in the order of the change stream.
fn order(db: &Db) -> Vec<Vec<u8>> {
    let begin = db.oldest_position().unwrap();
    let changes = db.changes_since(&begin).unwrap();
    let keys = |change: Change| -> Vec<Vec<u8>> {
        let puts = change
            .writes()
            .filter(|write| write.value.is_some() && write.key != b"room");
        puts.map(|write| write.key.to_vec()).collect()
    };
    changes.flat_map(|change| keys(change.unwrap())).collect()
}

/// A17: the order is that of the first polls, whatever the order of the calls.
#[test]
fn a17_the_order_is_that_of_the_first_polls() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    let mut first = put(&db, "a", "1").commit_async();
    let mut second = put(&db, "b", "1").commit_async();
    assert!(poll_once(&mut second).is_pending());
    assert!(poll_once(&mut first).is_pending());
    block_on(first).unwrap();
    block_on(second).unwrap();
    assert_eq!(order(&db), [b"b".to_vec(), b"a".to_vec()]);
}

/// Back-pressure: a commit that finds no room is pending, and its thread is free. Later commits
/// queue behind it (A17, A2), and what was polled before is written before.
#[test]
fn a02_a17_commits_that_wait_for_room_keep_their_order() {
    let files = Files::new();
    let (db, before) = files.full();
    let mut waiting: Vec<CommitFuture> = (0..50)
        .map(|n| put(&db, format!("w{n:02}"), [1; 500]).commit_async())
        .collect();
    for commit in &mut waiting {
        assert!(poll_once(commit).is_pending());
    }
    let mut small = put(&db, "x", "").commit_async();
    assert!(
        poll_once(&mut small).is_pending(),
        "it went ahead of those that wait"
    );
    // Reads, and what memory knows, are not held up.
    assert!(at_once(db.get_async(key(0))).is_ok());
    files.hold_syncs(false);
    let (done, _) = drive(waiting);
    assert!(done.into_iter().all(|done| done.is_ok()));
    block_on(small).unwrap();
    let expected: Vec<Vec<u8>> = (0..50).map(|n| format!("w{n:02}").into_bytes()).collect();
    let order = order(&db);
    let kept: Vec<_> = order
        .into_iter()
        .filter(|key| key[0] == b'w' || key[0] == b'x')
        .collect();
    assert_eq!(kept[..kept.len() - 1], expected);
    assert_eq!(kept.last().unwrap(), b"x");
    assert!(drive(before).0.into_iter().all(|done| done.is_ok()));
}

/// A13: commits that were called off while they waited leave the room as it was, and the next ones
/// get it.
#[test]
fn a13_room_that_was_waited_for_in_vain_is_there_for_others() {
    let files = Files::new();
    let (db, before) = files.full();
    for round in 0..200 {
        let mut commits: Vec<CommitFuture> = (0..4)
            .map(|n| put(&db, format!("w{round}/{n}"), [1; 500]).commit_async())
            .collect();
        for commit in &mut commits {
            assert!(poll_once(commit).is_pending());
        }
        drop(commits);
    }
    drop(before);
    files.hold_syncs(false);
    block_on(put(&db, "last", [1; 500]).commit_async()).unwrap();
    db.flush().unwrap();
    // All of the room is there again: as many bytes go in as before.
    for round in 0..2000 {
        block_on(put(&db, key(round), [2; 1000]).commit_async()).unwrap();
    }
    assert_eq!(*db.get(key(7)).unwrap().unwrap(), [2; 1000]);
    db.close().unwrap();
}

/// A16: commits that nobody waits for count for admission, too: memory stays in its budget.
#[test]
fn a16_commits_that_nobody_waits_for_stay_within_the_room() {
    let files = Files::new();
    let options = files.small(Durability::Sync);
    let db = options.open(DIR).unwrap();
    files.hold_syncs(true);
    for number in 0..20_000 {
        let commit = put(&db, key(number), [7; 1000]).commit_async();
        let _ = poll_once(commit);
    }
    let memory = db.stats().memory;
    assert!(memory.deltas <= 1 << 20, "{memory:?}");
    files.hold_syncs(false);
    db.close().unwrap();
}

/// A1: what a transaction has read is checked when it is written, whatever is dropped.
#[test]
fn a01_a_dropped_commit_is_checked_or_never_happens() {
    for first_is_dropped in [true, false] {
        let files = Files::new();
        let db = files.open(Durability::Sync);
        db.put("x", "0").unwrap();
        files.hold_syncs(true);
        let transaction = |value| {
            let mut transaction = db.transaction().unwrap();
            let of = db.default_keyspace();
            assert_eq!(transaction.get(of, "x").unwrap().unwrap(), "0");
            transaction.put(of, "x", value).unwrap();
            transaction.commit_async()
        };
        let (mut one, mut two) = (transaction("1"), transaction("2"));
        assert!(poll_once(&mut one).is_pending());
        if first_is_dropped {
            drop(one);
        }
        let error = at_once(&mut two).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        files.hold_syncs(false);
        assert_eq!(db.get("x").unwrap().unwrap(), "1");
        db.close().unwrap();
    }
}

/// A database without a commit log: a commit that is to survive waits for a checkpoint.
#[test]
fn without_a_log_a_commit_waits_for_a_checkpoint() {
    let files = Files::new();
    let db = files.open(Durability::Relaxed);
    at_once(put(&db, "relaxed", "1").commit_async()).unwrap();
    let commits = (0..20).map(|n| synced(&db, key(n), "1")).collect();
    let (done, polls) = drive(commits);
    assert!(done.into_iter().all(|done| done.is_ok()));
    assert!(polls <= 40, "{polls} polls");
    db.put("more", "1").unwrap();
    block_on(db.persist_async()).unwrap();
    let crashed = files.sim.crash(evendb::vfs::CrashMode::PowerLossNothing);
    let options = common::options().durability(Durability::Relaxed);
    let again = options.vfs(std::sync::Arc::new(crashed)).open(DIR).unwrap();
    assert_eq!(again.iter().count(), 22);
}

/// What an earlier life left unsynced is taken first, by the writer.
#[test]
fn a_commit_after_a_crash_takes_what_was_left() {
    let files = Files::new();
    let db = files.open(Durability::Process);
    db.put("left", "1").unwrap();
    let crashed = Files::of(files.sim.crash(evendb::vfs::CrashMode::Process));
    let again = crashed.options(Durability::Process, 1).open(DIR).unwrap();
    block_on(synced(&again, "new", "1")).unwrap();
    block_on(again.persist_async()).unwrap();
    let options = common::options();
    let last = crashed.sim.crash(evendb::vfs::CrashMode::PowerLossNothing);
    let last = options.vfs(std::sync::Arc::new(last)).open(DIR).unwrap();
    assert_eq!(last.iter().count(), 2);
}
