#![expect(
    unsafe_code,
    reason = "a lock of the application's, which a thread that is not there holds"
)]
//! Forked children: their calls of their parent's database are refused, at once and each of them;
//! their drops do no harm; the parent continues. The children are real ones. A child that hangs, in
//! a lock that nobody releases, is ended by an alarm and fails the test.

#[path = "common/forking.rs"]
mod forking;

use evendb::{Batch, Db, Durability, ErrorKind, Keyspace, Options, Result, Snapshot, TraceOptions};
use evendb_trace::Reader;
use forking::{Calls, Stop, Who, files, first, fork, leave, not_refused};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One test at a time: each must know how many databases its process has open.
static ALONE: Mutex<()> = Mutex::new(());

fn options() -> Options {
    Options::new()
        .memory_budget(4 << 20)
        .advanced(|advanced| advanced.chunk_bytes(4096).block_bytes(256))
        .stats_interval(Duration::ZERO)
}

/// Every public call of a database that can fail.
fn calls_of_db(db: &Db, copy: &Path) -> Calls {
    let mut cursor = db.cursor::<&str>(..);
    vec![
        ("keyspace", db.keyspace("edges").map(drop)),
        ("new keyspace", db.keyspace("new").map(drop)),
        ("drop_keyspace", db.drop_keyspace("edges")),
        ("rename_keyspace", db.rename_keyspace("edges", "x")),
        ("swap_keyspaces", db.swap_keyspaces("edges", "x")),
        ("db.put", db.put("k", "child")),
        ("db.get", db.get("k").map(drop)),
        ("db.delete", db.delete("k")),
        ("db.contains_key", db.contains_key("k").map(drop)),
        ("db.multi_get", db.multi_get(&["k", "l"]).map(drop)),
        ("db.range", first(db.range("a".."z"))),
        ("db.prefix", first(db.prefix("k"))),
        ("db.iter", first(db.iter())),
        ("db.cursor", cursor.next().map(drop)),
        ("db.delete_range", db.delete_range("a".."z")),
        ("db.delete_prefix", db.delete_prefix("k")),
        ("snapshot", db.snapshot().map(drop)),
        ("persist", db.persist()),
        ("flush", db.flush()),
        ("settle_debt", db.settle_debt()),
        ("idle_pass", db.idle_pass().map(drop)),
        ("db.compact", db.compact().map(drop)),
        ("copy_to", db.copy_to(copy).map(drop)),
        ("empty batch", db.batch().commit()),
        ("close", db.clone().close()),
    ]
}

/// Every public call of a keyspace.
fn calls_of_keyspace(db: &Db, keyspace: &Keyspace) -> Calls {
    let mut cursor = keyspace.cursor::<&str>(..);
    let commit = |fill: &dyn Fn(&mut Batch)| {
        let mut batch = db.batch();
        fill(&mut batch);
        batch.commit()
    };
    let none: [&str; 0] = [];
    vec![
        ("put", keyspace.put("k", "child")),
        ("put of a large value", keyspace.put("k", vec![7; 100_000])),
        ("delete", keyspace.delete("k")),
        ("get", keyspace.get("k").map(drop)),
        ("contains_key", keyspace.contains_key("k").map(drop)),
        ("multi_get", keyspace.multi_get(&["k", "l"]).map(drop)),
        ("multi_get of nothing", keyspace.multi_get(&none).map(drop)),
        ("range", first(keyspace.range("a".."z"))),
        ("prefix", first(keyspace.prefix("k"))),
        ("iter", first(keyspace.iter())),
        ("cursor", cursor.next().map(drop)),
        ("cursor, backward", cursor.next_back().map(drop)),
        ("delete_range", keyspace.delete_range("a".."z")),
        ("delete_prefix", keyspace.delete_prefix("k")),
        ("compact", keyspace.compact().map(drop)),
        ("compact_range", keyspace.compact_range("a".."z").map(drop)),
        ("compact_prefix", keyspace.compact_prefix("k").map(drop)),
        ("property", keyspace.property("p").map(drop)),
        ("set_property", keyspace.set_property("p", "v")),
        ("remove_property", keyspace.remove_property("p")),
        (
            "batch put",
            commit(&|batch| _ = batch.put(keyspace, "k", "child")),
        ),
        (
            "batch delete",
            commit(&|batch| _ = batch.delete(keyspace, "k")),
        ),
    ]
}

/// Every public call of a snapshot.
fn calls_of_snapshot(snapshot: &Snapshot, keyspace: &Keyspace) -> Calls {
    let mut cursor = snapshot.cursor::<&str>(keyspace, ..);
    let none: [&str; 0] = [];
    vec![
        ("snapshot.get", snapshot.get(keyspace, "k").map(drop)),
        (
            "snapshot.contains_key",
            snapshot.contains_key(keyspace, "k").map(drop),
        ),
        (
            "snapshot.multi_get",
            snapshot.multi_get(keyspace, &["k", "l"]).map(drop),
        ),
        (
            "snapshot.multi_get of nothing",
            snapshot.multi_get(keyspace, &none).map(drop),
        ),
        ("snapshot.range", first(snapshot.range(keyspace, "a".."z"))),
        ("snapshot.prefix", first(snapshot.prefix(keyspace, "k"))),
        ("snapshot.iter", first(snapshot.iter(keyspace))),
        ("snapshot.cursor", cursor.next().map(drop)),
    ]
}

/// Records in tables and in memory, in two keyspaces.
fn fill(db: &Db) -> Keyspace {
    let edges = db.keyspace("edges").expect("a keyspace");
    for keyspace in [db.default_keyspace(), &edges] {
        for number in 0..500 {
            keyspace
                .put(format!("k{number:03}"), [1; 100])
                .expect("puts");
        }
    }
    db.compact().expect("compacts");
    db.put("k", "parent").expect("puts");
    edges.put("k", "parent").expect("puts");
    edges
}

#[test]
fn a_childs_calls_are_refused_and_its_drops_touch_nothing() {
    let _alone = ALONE.lock();
    for durability in [Durability::Relaxed, Durability::Process, Durability::Sync] {
        for workers in [0, 2] {
            let dir = tempfile::tempdir().expect("a directory");
            let options = || options().durability(durability).workers(workers);
            let db = options().open(dir.path()).expect("opens");
            let edges = fill(&db);
            // Everything that can be begun before the fork and continued in the child.
            let gone = db.keyspace("gone").expect("a keyspace");
            gone.put("k", "parent").expect("puts");
            let gone_iter = gone.iter();
            db.drop_keyspace("gone").expect("drops");
            let snapshot = db.snapshot().expect("a snapshot");
            let (mut iter, mut cursor) = (db.iter(), edges.cursor::<&str>(..));
            iter.next().expect("a record").expect("reads");
            cursor.next_back().expect("reads").expect("a record");
            let mut batch = db.batch();
            batch.put(&edges, "k", "child").put(&edges, "l", "child");
            let values = [edges.get("k"), edges.get("k123")];
            let values = values.map(|value| value.expect("gets").expect("is there"));
            let before = files(dir.path());

            let child = match fork() {
                Who::Child(sink) => {
                    let mut wrong = not_refused(calls_of_db(&db, &dir.path().join("copy")));
                    wrong.extend(not_refused(calls_of_keyspace(&db, db.default_keyspace())));
                    wrong.extend(not_refused(calls_of_keyspace(&db, &edges)));
                    wrong.extend(not_refused(calls_of_snapshot(&snapshot, &edges)));
                    wrong.extend(not_refused(vec![
                        ("iterator begun", first(iter)),
                        ("cursor begun", cursor.next().map(drop)),
                        ("cursor begun, backward", cursor.next_back().map(drop)),
                        ("batch begun", batch.commit()),
                        ("open", options().open(dir.path()).map(drop)),
                        ("open another", Db::open(dir.path().join("other")).map(drop)),
                    ]));
                    if !db.keyspace_names().is_empty() || db.stats().puts != 0 {
                        wrong.push("figures in the child".to_owned());
                    }
                    if values[0] != "parent" || values[1] != [1; 100][..] {
                        wrong.push("values lost their bytes".to_owned());
                    }
                    // The last handle of each goes here.
                    drop((cursor, gone_iter, gone, values, snapshot, edges, db));
                    leave(sink, &wrong);
                }
                Who::Parent(child) => child,
            };
            child.expect_content();
            if workers == 0 {
                assert!(files(dir.path()) == before, "the child touched files");
            }
            // The database is still the parent's, and only the parent's.
            let again = options().open(dir.path()).expect_err("the lock is held");
            assert_eq!(again.kind(), ErrorKind::Locked);
            drop((iter, cursor, gone_iter, gone, values, snapshot, batch));
            db.put("after", "parent").expect("puts");
            edges.put("after", "parent").expect("puts");
            db.close().expect("closes");
            let db = options().open(dir.path()).expect("opens again");
            assert_eq!(db.iter().flatten().count(), 502);
            assert_eq!(db.get("k").expect("gets").expect("is there"), "parent");
            let edges = db.keyspace("edges").expect("a keyspace");
            assert_eq!(edges.iter().flatten().count(), 502);
            assert_eq!(edges.get("k").expect("gets").expect("is there"), "parent");
            db.close().expect("closes");
        }
    }
}

/// A child does not wait, whatever locks the parent's threads hold at the moment of the fork.
#[test]
fn a_child_of_a_busy_parent_never_waits() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().expect("a directory");
    let db = options().workers(2).open(dir.path()).expect("opens");
    let edges = fill(&db);
    let stop = AtomicBool::new(false);
    let until_stopped = |work: &dyn Fn(u64)| {
        (0..)
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .for_each(work);
    };
    std::thread::scope(|scope| {
        // Stops them also if something fails here.
        let stopping = Stop(&stop);
        scope.spawn(|| {
            until_stopped(&|turn| {
                let key = format!("k{:03}", turn % 500);
                let value = vec![3; (turn % 300) as usize];
                edges.put(key, value).expect("puts");
            });
        });
        scope.spawn(|| {
            until_stopped(&|turn| {
                let key = format!("k{:03}", turn % 500);
                let mut batch = db.batch();
                batch.put(db.default_keyspace(), &key, [2; 100]);
                batch.put(db.default_keyspace(), "k", "parent");
                batch.commit().expect("commits");
                drop(db.get(key).expect("gets"));
            });
        });
        scope.spawn(|| {
            until_stopped(&|_| {
                let snapshot = db.snapshot().expect("a snapshot");
                assert!(snapshot.iter(db.default_keyspace()).flatten().count() >= 501);
                _ = db.stats();
            });
        });
        for _ in 0..60 {
            // Made at the time of the fork: the child frees their memory.
            let held = (db.iter(), db.snapshot().expect("a snapshot"), db.get("k"));
            match fork() {
                Who::Child(sink) => {
                    let mut wrong = not_refused(calls_of_db(&db, &dir.path().join("copy")));
                    wrong.extend(not_refused(calls_of_keyspace(&db, db.default_keyspace())));
                    drop((held, db.clone()));
                    leave(sink, &wrong);
                }
                Who::Parent(child) => child.expect_content(),
            }
        }
        drop(stopping);
    });
    assert_eq!(db.get("k").expect("gets").expect("is there"), "parent");
    db.close().expect("closes");
}

/// Threads of the application that wait for locks of its own until this is dropped. All such locks
/// share a table. A forked child has the table and not the threads.
struct Waiting(Vec<(Arc<Mutex<()>>, std::thread::JoinHandle<()>)>);

impl Waiting {
    const THREADS: usize = 32;

    fn new() -> Waiting {
        let begin = |_| {
            let lock = Arc::new(Mutex::new(()));
            std::mem::forget(lock.lock());
            let own = lock.clone();
            (lock, std::thread::spawn(move || drop(own.lock())))
        };
        let waiting = Waiting((0..Waiting::THREADS).map(begin).collect());
        // They spin for some microseconds before they wait.
        std::thread::sleep(Duration::from_millis(20));
        waiting
    }

    /// Called in a child: new threads take the memory of the threads that it does not have.
    fn overwrite() {
        let nap = |_| std::thread::spawn(|| std::thread::sleep(Duration::from_millis(5)));
        let threads: Vec<_> = (0..Waiting::THREADS).map(nap).collect();
        for thread in threads {
            thread.join().expect("it only sleeps");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (lock, thread) in self.0.drain(..) {
            // SAFETY: it is locked, by a guard that was forgotten.
            unsafe { lock.force_unlock() };
            thread.join().expect("it only waits");
        }
    }
}

#[test]
fn a_child_opens_a_database_of_its_own_when_its_parent_has_none_open() {
    let _alone = ALONE.lock();
    let waiting = Waiting::new();
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let db = options().open(dirs[0].path()).expect("opens");
    db.put("k", "parent").expect("puts");
    let old = db.default_keyspace().clone();
    db.close().expect("closes");
    let child = match fork() {
        Who::Child(sink) => {
            Waiting::overwrite();
            let mut wrong = Vec::new();
            let closed = old.get("k").map_err(|error| error.kind());
            if !matches!(closed, Err(ErrorKind::Forked | ErrorKind::Closed)) {
                wrong.push("a handle of before works".to_owned());
            }
            for dir in &dirs {
                let work = || -> Result<()> {
                    let db = options().workers(2).open(dir.path())?;
                    db.put("k", "child")?;
                    db.flush()?;
                    // A grandchild is a child like any other.
                    match fork() {
                        Who::Child(sink) => {
                            leave(sink, &not_refused(vec![("put", db.put("k", "2"))]))
                        }
                        Who::Parent(child) => child.expect_content(),
                    }
                    db.close()
                };
                wrong.extend(work().err().map(|error| format!("{error:?}")));
            }
            leave(sink, &wrong);
        }
        Who::Parent(child) => child,
    };
    child.expect_content();
    drop(waiting);
    for dir in &dirs {
        let db = options().open(dir.path()).expect("opens");
        assert_eq!(db.get("k").expect("gets").expect("is there"), "child");
        db.close().expect("closes");
    }
}

/// The content of a trace's file: keys, and whether the trace is whole.
fn read_trace(path: &Path) -> (Vec<Vec<u8>>, bool) {
    let bytes = std::fs::read(path).expect("reads");
    let mut reader = Reader::new(&bytes[..]).expect("a trace");
    let keys = reader.operations().map(|one| one.expect("reads").key);
    let keys = keys.collect();
    (keys, reader.losses().is_nothing())
}

/// While the parent's threads record, and its trace is written: the child is refused and never
/// hangs, and the trace has everything of the parent and nothing of the child.
#[test]
fn a_child_of_a_parent_that_records_leaves_its_trace_alone() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().expect("a directory");
    let db = options()
        .workers(2)
        .open(dir.path().join("db"))
        .expect("opens");
    db.put("k", "parent").expect("puts");
    let path = dir.path().join("trace");
    let mut trace = Some(db.start_trace(TraceOptions::new(&path)).expect("starts"));
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let forks = 40;
    std::thread::scope(|scope| {
        let stopping = Stop(&stop);
        for thread in 0..2 {
            let (db, stop, done) = (&db, &stop, &done);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("parent/{thread}/{:05}", number % 500);
                    match number % 4 {
                        0 => db.put(key, [1; 30]).expect("puts"),
                        _ => drop(db.get(key).expect("gets")),
                    }
                    number += 1;
                }
                done.fetch_add(number, Ordering::Relaxed);
            });
        }
        for number in 0..forks {
            // Makes a buffer of the trace for this thread too.
            drop(db.get("parent/forks").expect("gets"));
            match fork() {
                Who::Child(sink) => {
                    let mut wrong = not_refused(vec![
                        ("get", db.get("child").map(drop)),
                        ("put", db.put("child", "child")),
                        ("another trace", {
                            let other = TraceOptions::new(dir.path().join("other"));
                            db.start_trace(other).map(drop)
                        }),
                    ]);
                    let trace = trace.take().expect("not stopped");
                    match number % 2 {
                        0 => drop(trace),
                        _ => wrong.extend(not_refused(vec![("stop", trace.stop().map(drop))])),
                    }
                    leave(sink, &wrong);
                }
                Who::Parent(child) => child.expect_content(),
            }
        }
        drop(stopping);
    });
    let summary = trace.take().expect("it is the parent's").stop();
    let summary = summary.expect("stops");
    let all = done.load(Ordering::Relaxed) + forks;
    assert_eq!(summary.recorded + summary.dropped_behind, all);
    let (keys, is_whole) = read_trace(&path);
    assert!(is_whole && keys.len() as u64 == summary.recorded);
    assert!(keys.iter().all(|key| key.starts_with(b"parent/")));
    assert!(!dir.path().join("other").exists());
    db.close().expect("closes");
}

/// A child that has opened a database of its own no longer counts as a child to the store, and is
/// refused all the same.
#[test]
fn a_child_with_a_database_of_its_own_does_not_wait_for_its_parents_trace() {
    let _alone = ALONE.lock();
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let db = options().open(dirs[0].path()).expect("opens");
    let path = dirs[1].path().join("trace");
    let trace = db.start_trace(TraceOptions::new(&path)).expect("starts");
    db.put("parent", "value").expect("puts");
    db.close().expect("closes");
    match fork() {
        Who::Child(sink) => {
            let mut wrong = Vec::new();
            match options().open(dirs[1].path().join("db")) {
                Ok(own) => wrong.extend(own.put("child", "value").err().map(|e| e.to_string())),
                Err(error) => wrong.push(error.to_string()),
            }
            wrong.extend(not_refused(vec![("stop", trace.stop().map(drop))]));
            leave(sink, &wrong);
        }
        Who::Parent(child) => child.expect_content(),
    }
    trace.stop().expect("stops");
    let (keys, is_whole) = read_trace(&path);
    assert!(is_whole && keys.contains(&b"parent".to_vec()) && !keys.contains(&b"child".to_vec()));
}
