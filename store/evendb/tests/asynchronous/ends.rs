//! Closing, failures, and what the types promise.

use super::executor::{at_once, drive, poll_once, until};
use super::files::{Files, key};
use evendb::{
    CommitFuture, Db, Durability, ErrorKind, GetFuture, Keyspace, MultiGetFuture, NextChunk,
    PersistFuture, RangeChunks, Snapshot,
};
use std::thread;

/// A26: futures may move to any thread, and own what they need; handles are shared.
#[test]
fn a26_futures_are_send_and_static() {
    fn send_and_static<T: Send + Unpin + 'static>() {}
    fn send<T: Send + Unpin>(_: Option<T>) {}
    fn shared<T: Send + Sync + Clone + 'static>() {}
    send_and_static::<GetFuture>();
    send_and_static::<MultiGetFuture>();
    send_and_static::<CommitFuture>();
    send_and_static::<PersistFuture>();
    send_and_static::<RangeChunks>();
    // The next chunk borrows its range.
    send::<NextChunk<'_>>(None);
    shared::<Db>();
    shared::<Keyspace>();
    shared::<Snapshot>();
}

fn put(db: &Db, key: &str) -> CommitFuture {
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), key, "1");
    batch.commit_async()
}

/// A14 (i): reads that wait when the database closes are refused at once, those that have begun are
/// done; commits that are written become durable by the closing. Nothing hangs.
#[test]
fn a14_closing_resolves_all() {
    let files = Files::new();
    let db = files.cold(200, || files.options(Durability::Sync, 1));
    files.hold_reads(true);
    files.hold_syncs(true);
    let mut gets: Vec<GetFuture> = (0..100).map(|n| db.get_async(key(n))).collect();
    for get in &mut gets {
        assert!(poll_once(get).is_pending());
    }
    until("reads stand", || files.standing() >= 16);
    let mut commits: Vec<CommitFuture> = (0..16).map(|n| put(&db, &key(n))).collect();
    for commit in &mut commits {
        assert!(poll_once(commit).is_pending());
    }
    let late = db.get_async(key(150));
    let late_commit = put(&db, "late");
    let late_persist = db.persist_async();
    let closing = {
        let db = db.clone();
        thread::spawn(move || db.close())
    };
    // Those that wait behind the ones that stand are told at once, while reads are still held.
    let behind = gets.split_off(16);
    let (told, _) = drive(behind);
    for told in told {
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Closed);
    }
    files.hold_syncs(false);
    files.hold_reads(false);
    closing.join().unwrap().unwrap();
    let (read, _) = drive(gets);
    for read in read {
        let is_closed = |error: &evendb::Error| error.kind() == ErrorKind::Closed;
        assert!(
            read.is_ok() || read.as_ref().is_err_and(is_closed),
            "{read:?}"
        );
    }
    let (written, _) = drive(commits);
    assert!(written.into_iter().all(|written| written.is_ok()));
    assert_eq!(at_once(late).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(at_once(late_commit).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(at_once(late_persist).unwrap_err().kind(), ErrorKind::Closed);
    drop(db);
    let again = files.open(Durability::Sync);
    for number in 0..16 {
        assert_eq!(again.get(key(number)).unwrap().unwrap(), "1");
    }
    assert!(again.get("late").unwrap().is_none());
}

/// A14 (ii): a failed sync is told to every commit that waits, and none claims success.
#[test]
fn a14_a_failed_sync_resolves_all() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    let mut commits: Vec<CommitFuture> = (0..16).map(|n| put(&db, &key(n))).collect();
    for commit in &mut commits {
        assert!(poll_once(commit).is_pending());
    }
    let mut persist = db.persist_async();
    assert!(poll_once(&mut persist).is_pending());
    files.fail_syncs_of("COMMIT");
    files.hold_syncs(false);
    for told in drive(commits).0.into_iter().chain(drive(vec![persist]).0) {
        let kind = told.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::Io | ErrorKind::Latched),
            "{kind:?}"
        );
    }
    assert_eq!(
        at_once(put(&db, "k")).unwrap_err().kind(),
        ErrorKind::Latched
    );
    // Reads go on.
    assert_eq!(at_once(db.get_async(key(1))).unwrap().unwrap(), "1");
    assert!(db.close().is_err());
}

/// A14: commits that wait for room are told when the database closes or fails.
#[test]
fn a14_commits_that_wait_for_room_are_told() {
    for fails in [false, true] {
        let files = Files::new();
        // Those of `before` were polled before, so the writer does not come to these.
        let (db, before) = files.full();
        let mut waiting: Vec<CommitFuture> = (0..16).map(|n| put(&db, &key(n))).collect();
        for commit in &mut waiting {
            assert!(poll_once(commit).is_pending());
        }
        let closing = {
            let (db, files) = (db.clone(), files.clone());
            thread::spawn(move || {
                if fails {
                    files.fail_syncs_of("");
                    files.hold_syncs(false);
                    until("it has failed", || db.put("x", "1").is_err());
                }
                db.close()
            })
        };
        if !fails {
            // Closing begins while nothing makes room: those that wait are told so at once.
            let (told, _) = drive(waiting);
            for told in told {
                assert_eq!(told.unwrap_err().kind(), ErrorKind::Closed);
            }
            files.hold_syncs(false);
            closing.join().unwrap().unwrap();
            drop(before);
            continue;
        }
        let (told, _) = drive(waiting);
        for told in told {
            let kind = told.unwrap_err().kind();
            let allowed = [ErrorKind::Closed, ErrorKind::Latched, ErrorKind::Io];
            assert!(allowed.contains(&kind), "{kind:?}");
        }
        assert!(closing.join().unwrap().is_err());
    }
}

/// The threads that serve futures come with the first of them, and go.
#[test]
fn a_database_without_futures_has_no_threads_for_them() {
    let named = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| {
            let path = task.unwrap().path().join("comm");
            std::fs::read_to_string(path).ok()
        });
        names.filter(|task| task.trim() == name).count()
    };
    if !common_is_alone() {
        return;
    }
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Sync, 1));
    db.get(key(1)).unwrap();
    db.put("k", "v").unwrap();
    assert_eq!(named("evendb-reader") + named("evendb-syncer"), 0);
    let gets: Vec<GetFuture> = (0..100).map(|n| db.get_async(key(n))).collect();
    let _ = drive(gets);
    let _ = drive(vec![put(&db, "l")]);
    let readers = named("evendb-reader");
    // 16 of them read at the same time, and one more watches.
    assert!((1..=17).contains(&readers), "{readers}");
    assert_eq!(named("evendb-syncer"), 1);
    until("they go", || {
        named("evendb-reader") + named("evendb-syncer") == 0
    });
    // And they come again.
    let _ = drive(vec![put(&db, "m")]);
    db.close().unwrap();
}

fn common_is_alone() -> bool {
    crate::common::alone::is_alone(
        "asynchronous::ends::a_database_without_futures_has_no_threads_for_them",
    )
}
