//! Forked children: every call to their parent's database is refused at once, dropping their copies
//! harms nobody, and the parent goes on. The children are real ones, as in the first engine's
//! tests.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::forking::{Calls, Stop, Who, files, first, fork, leave, not_refused};
use common::tiny;
use evendb_flsm::{Db, Durability, ErrorKind, Keyspace, Result, Snapshot};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// One test at a time: each must know how many databases its process has open.
static ALONE: Mutex<()> = Mutex::new(());

/// Every public call of a database that can fail.
fn calls_of_db(db: &Db, dir: &Path) -> Calls {
    vec![
        ("keyspace", db.keyspace("edges").map(drop)),
        ("new keyspace", db.keyspace("new").map(drop)),
        ("drop_keyspace", db.drop_keyspace("edges")),
        ("snapshot", db.snapshot().map(drop)),
        ("persist", db.persist()),
        ("flush", db.flush()),
        ("settle_debt", db.settle_debt()),
        ("compact", db.compact().map(drop)),
        ("empty batch", db.batch().commit()),
        ("open", tiny(1).open(dir).map(drop)),
        ("open another", Db::open(dir.join("other")).map(drop)),
        ("destroy", evendb_flsm::destroy(dir)),
        ("close", db.clone().close()),
    ]
}

/// Every public call of a keyspace that can fail.
fn calls_of_keyspace(db: &Db, keyspace: &Keyspace) -> Calls {
    let mut cursor = keyspace.cursor::<&str>(..);
    let mut batch = db.batch();
    batch.put(keyspace, "k", "child").delete(keyspace, "l");
    let none: [&str; 0] = [];
    vec![
        ("put", keyspace.put("k", "child")),
        ("delete", keyspace.delete("k")),
        ("get", keyspace.get("k").map(drop)),
        ("contains_key", keyspace.contains_key("k").map(drop)),
        ("multi_get", keyspace.multi_get(&["k", "l"]).map(drop)),
        ("multi_get of nothing", keyspace.multi_get(&none).map(drop)),
        ("range", first(keyspace.range("a".."z"))),
        ("prefix", first(keyspace.prefix("k"))),
        ("iter", first(keyspace.iter())),
        ("keys", first(keyspace.keys::<&str>(..))),
        ("cursor", cursor.next().map(drop)),
        ("cursor, backward", cursor.next_back().map(drop)),
        ("size", keyspace.approximate_size("a".."z").map(drop)),
        ("compact_range", keyspace.compact_range("a".."z").map(drop)),
        ("batch", batch.commit()),
    ]
}

/// Every public call of a snapshot that can fail.
fn calls_of_snapshot(snapshot: &Snapshot, keyspace: &Keyspace) -> Calls {
    let mut cursor = snapshot.cursor::<&str>(keyspace, ..);
    let none: [&str; 0] = [];
    let multi_get = |keys: &[&str]| snapshot.multi_get(keyspace, keys).map(drop);
    vec![
        ("snapshot.get", snapshot.get(keyspace, "k").map(drop)),
        ("snapshot.multi_get", multi_get(&["k", "l"])),
        ("snapshot.multi_get of nothing", multi_get(&none)),
        ("snapshot.range", first(snapshot.range(keyspace, "a".."z"))),
        ("snapshot.prefix", first(snapshot.prefix(keyspace, "k"))),
        ("snapshot.iter", first(snapshot.iter(keyspace))),
        ("snapshot.cursor", cursor.next().map(drop)),
    ]
}

/// Records in tables and in memory, in two keyspaces.
fn fill(db: &Db) -> Keyspace {
    let edges = db.keyspace("edges").unwrap();
    for keyspace in [db.default_keyspace(), &edges] {
        for number in 0..500 {
            keyspace.put(format!("k{number:03}"), [1; 100]).unwrap();
        }
    }
    db.settle_debt().unwrap();
    db.put("k", "parent").unwrap();
    edges.put("k", "parent").unwrap();
    edges
}

#[test]
fn a_childs_calls_are_refused_and_its_drops_touch_nothing() {
    let _alone = ALONE.lock();
    for durability in [Durability::Relaxed, Durability::Process, Durability::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let options = || tiny(1).durability(durability);
        let db = options().open(dir.path()).unwrap();
        let edges = fill(&db);
        // Everything that can be begun before the fork and continued in the child. The old iterator
        // and the snapshot are the last readers of tables that no edit names any more. In the child
        // they are dropped, and the files must stay.
        let snapshot = db.snapshot().unwrap();
        let (mut iter, mut cursor) = (db.iter(), edges.cursor::<&str>(..));
        iter.next().unwrap().unwrap();
        cursor.next_back().unwrap().unwrap();
        db.compact().unwrap();
        let mut batch = db.batch();
        batch.put(&edges, "k", "child").put(&edges, "l", "child");
        let values = [edges.get("k"), edges.get("k123")];
        let values = values.map(|value| value.unwrap().unwrap());
        let before = files(dir.path());

        let child = match fork() {
            Who::Child(sink) => {
                let mut wrong = not_refused(calls_of_db(&db, dir.path()));
                wrong.extend(not_refused(calls_of_keyspace(&db, db.default_keyspace())));
                wrong.extend(not_refused(calls_of_keyspace(&db, &edges)));
                wrong.extend(not_refused(calls_of_snapshot(&snapshot, &edges)));
                wrong.extend(not_refused(vec![
                    ("cursor begun", cursor.next().map(drop)),
                    ("cursor begun, backward", cursor.next_back().map(drop)),
                    ("batch begun", batch.commit()),
                    ("iterator begun", first(iter)),
                ]));
                if db.keyspace_exists("edges")
                    || !db.keyspace_names().is_empty()
                    || !db.tables().is_empty()
                    || db.stats().memory_budget != 0
                {
                    wrong.push("figures in the child".to_owned());
                }
                if values[0] != "parent" || values[1] != [1; 100][..] {
                    wrong.push("values lost their bytes".to_owned());
                }
                // The last handle of each kind is dropped here.
                drop((cursor, values, snapshot, edges, db));
                leave(sink, &wrong);
            }
            Who::Parent(child) => child,
        };
        child.expect_content();
        assert!(files(dir.path()) == before, "the child touched files");
        // The files that the child dropped are still read here.
        assert_eq!(snapshot.iter(&edges).map(Result::unwrap).count(), 501);
        assert_eq!(iter.map(Result::unwrap).count(), 500);
        // The directory is still the parent's, and only the parent's.
        let again = options().open(dir.path()).err().unwrap();
        assert_eq!(again.kind(), ErrorKind::Locked);
        drop((cursor, values, snapshot, batch));
        db.put("after", "parent").unwrap();
        edges.put("after", "parent").unwrap();
        db.close().unwrap();
        let db = options().open(dir.path()).unwrap();
        let edges = db.keyspace("edges").unwrap();
        for keyspace in [db.default_keyspace(), &edges] {
            assert_eq!(keyspace.iter().map(Result::unwrap).count(), 502);
            assert_eq!(keyspace.get("k").unwrap().unwrap(), "parent");
        }
        db.close().unwrap();
    }
}

/// A fork while the parent's threads hold any locks.
#[test]
fn a_child_of_a_busy_parent_never_waits() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    let edges = fill(&db);
    let stop = AtomicBool::new(false);
    let until_stopped = |work: &dyn Fn(u64)| {
        let on = (0..).take_while(|_| !stop.load(Ordering::Relaxed));
        on.for_each(work);
    };
    std::thread::scope(|scope| {
        // Stops the threads also when something fails here.
        let stopping = Stop(&stop);
        scope.spawn(|| {
            until_stopped(&|turn| {
                let value = vec![3; (turn % 300) as usize];
                edges.put(format!("k{:03}", turn % 500), value).unwrap();
            });
        });
        scope.spawn(|| {
            until_stopped(&|turn| {
                let key = format!("k{:03}", turn % 500);
                let mut batch = db.batch();
                batch.put(db.default_keyspace(), &key, [2; 100]);
                batch.put(db.default_keyspace(), "k", "parent");
                batch.commit().unwrap();
                drop(db.get(key).unwrap());
            });
        });
        scope.spawn(|| {
            until_stopped(&|_| {
                let snapshot = db.snapshot().unwrap();
                let count = snapshot.iter(db.default_keyspace()).map(Result::unwrap);
                assert!(count.count() >= 501);
                _ = db.stats();
            });
        });
        for _ in 0..60 {
            // As old as the fork: their contents are freed in the child.
            let held = (db.iter(), db.snapshot().unwrap(), db.get("k").unwrap());
            match fork() {
                Who::Child(sink) => {
                    let mut wrong = not_refused(calls_of_db(&db, dir.path()));
                    wrong.extend(not_refused(calls_of_keyspace(&db, db.default_keyspace())));
                    drop((held, db.clone()));
                    leave(sink, &wrong);
                }
                Who::Parent(child) => child.expect_content(),
            }
        }
        drop(stopping);
    });
    assert_eq!(db.get("k").unwrap().unwrap(), "parent");
    db.close().unwrap();
}

#[test]
fn a_child_opens_a_database_of_its_own_when_its_parent_has_none_open() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let db = tiny(1).open(dir.path()).unwrap();
    db.put("k", "parent").unwrap();
    db.close().unwrap();
    match fork() {
        Who::Child(sink) => {
            let used = || -> Result<bool> {
                let db = tiny(1).open(dir.path())?;
                db.put("l", "child")?;
                let known = db.get("k")?.is_some_and(|value| value == "parent");
                db.close()?;
                Ok(known)
            };
            let wrong = match used() {
                Ok(true) => Vec::new(),
                other => vec![format!("{other:?}")],
            };
            leave(sink, &wrong);
        }
        Who::Parent(child) => child.expect_content(),
    }
    let db = tiny(1).open(dir.path()).unwrap();
    assert_eq!(db.get("l").unwrap().unwrap(), "child");
    db.close().unwrap();
}
