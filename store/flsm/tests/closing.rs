//! Closing: calls to a closed database, and calls of other threads meanwhile. And calls that go
//! over all keyspaces beside calls that drop some.
//!
//! ```text
//!   three threads   put, call, put, call, ... until they are refused
//!   this thread     waits for some of that, closes, opens again, puts, flushes, closes, opens once
//!                   more
//! ```
//! In every other round the test looks at the directory when closing has returned, and again when
//! the threads have ended: nothing in it may have changed. `EVENDB_CLOSING_ROUNDS` is the number of
//! rounds of each call.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::count_from_env;
use common::public::{self, words};
use evendb_flsm::{Db, Durability, ErrorKind, Options, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

const THREADS: usize = 3;

const HANDLES: [&str; 8] = [
    "Batch",
    "Cursor",
    "Db",
    "Iter",
    "KeyCursor",
    "Keys",
    "Keyspace",
    "Snapshot",
];
const PLAIN: &str = "Advanced CompactionSummary Compression Durability EngineKind Error ErrorKind Options RangeSize \
    Result Stats TableInfo Value WaitStats";

/// These calls make or change something in memory, or return it.
const IN_MEMORY: &str = "Batch::delete Batch::durability Batch::is_empty Batch::len Batch::put Cursor::keys_only \
    Cursor::seek Cursor::seek_back Db::batch Db::default_keyspace Db::keyspace_exists Db::keyspace_names Db::stats \
    Db::tables Iter::limit Iter::seek Iter::seek_back KeyCursor::seek KeyCursor::seek_back Keys::limit Keys::seek \
    Keys::seek_back Keyspace::id Keyspace::name";

const LIFE: &str = "Db::open Db::close";

fn open(dir: &Path, level: Durability) -> Db {
    Options::new()
        .memory_budget(256 << 10)
        .durability(level)
        .advanced(|all| all.table_bytes_max(4 << 10).last_guard_bytes(8 << 10))
        .open(dir)
        .unwrap()
}

type Run = Box<dyn FnOnce() -> Result<()>>;

/// Calls by their names, each with handles that were made while the database was open.
struct Calls {
    db: Db,
    all: Vec<(&'static str, Run)>,
}

impl Calls {
    fn add<T>(&mut self, name: &'static str, run: impl FnOnce(&Db) -> Result<T> + 'static) {
        let db = self.db.clone();
        self.all.push((name, Box::new(move || run(&db).map(drop))));
    }
}

fn of_db(calls: &mut Calls) {
    calls.add("Db::put", |db| db.put("k", "v"));
    calls.add("Db::get", |db| db.get("k"));
    calls.add("Db::delete", |db| db.delete("k"));
    calls.add("Db::contains_key", |db| db.contains_key("k"));
    calls.add("Db::multi_get", |db| db.multi_get(&["k"]));
    calls.add("Db::range", |db| db.range("a"..).next().unwrap());
    calls.add("Db::prefix", |db| db.prefix("k").next().unwrap());
    calls.add("Db::iter", |db| db.iter().next().unwrap());
    calls.add("Db::keys", |db| db.keys("a"..).next().unwrap());
    calls.add("Db::cursor", |db| db.cursor("a"..).next().map(drop));
    calls.add("Db::snapshot", Db::snapshot);
    calls.add("Db::keyspace", |db| db.keyspace("new"));
    calls.add("Db::drop_keyspace", |db| db.drop_keyspace("other"));
    calls.add("Db::persist", Db::persist);
    calls.add("Db::flush", Db::flush);
    calls.add("Db::settle_debt", Db::settle_debt);
    calls.add("Db::compact", Db::compact);
    let mut batch = calls.db.batch();
    batch.put(calls.db.default_keyspace(), "k", "v");
    calls.add("Batch::commit", move |_| batch.commit());
    let mut cursor = calls.db.cursor("a"..);
    calls.add("Cursor::next", move |_| cursor.next().map(drop));
    let mut cursor = calls.db.cursor("a"..);
    calls.add("Cursor::next_back", move |_| cursor.next_back().map(drop));
    let mut cursor = calls.db.cursor("a"..).keys_only();
    calls.add("KeyCursor::next", move |_| cursor.next().map(drop));
    let mut cursor = calls.db.cursor("a"..).keys_only();
    calls.add("KeyCursor::next_back", move |_| {
        cursor.next_back().map(drop)
    });
}

fn of_keyspaces_and_snapshots(calls: &mut Calls) {
    macro_rules! add {
        ($name:literal, $of:ident => $call:expr) => {
            let $of = calls.db.keyspace("other").unwrap();
            calls.add(concat!("Keyspace::", $name), move |_| $call);
        };
    }
    add!("put", of => of.put("k", "v"));
    add!("get", of => of.get("k"));
    add!("delete", of => of.delete("k"));
    add!("contains_key", of => of.contains_key("k"));
    add!("multi_get", of => of.multi_get(&["k"]));
    add!("range", of => of.range("a"..).next().unwrap());
    add!("prefix", of => of.prefix("k").next().unwrap());
    add!("iter", of => of.iter().next().unwrap());
    add!("keys", of => of.keys("a"..).next().unwrap());
    add!("cursor", of => of.cursor("a"..).next().map(drop));
    add!("approximate_size", of => of.approximate_size("a"..));
    add!("compact_range", of => of.compact_range("a"..));
    macro_rules! snapshot {
        ($name:literal, ($snapshot:ident, $of:ident) => $call:expr) => {
            let $of = calls.db.default_keyspace().clone();
            let $snapshot = calls.db.snapshot().unwrap();
            calls.add(concat!("Snapshot::", $name), move |_| $call);
        };
    }
    snapshot!("get", (now, of) => now.get(&of, "k"));
    snapshot!("contains_key", (now, of) => now.contains_key(&of, "k"));
    snapshot!("multi_get", (now, of) => now.multi_get(&of, &["k"]));
    snapshot!("range", (now, of) => now.range(&of, "a"..).next().unwrap());
    snapshot!("prefix", (now, of) => now.prefix(&of, "k").next().unwrap());
    snapshot!("iter", (now, of) => now.iter(&of).next().unwrap());
    snapshot!("keys", (now, of) => now.keys(&of, "a"..).next().unwrap());
    snapshot!("cursor", (now, of) => now.cursor(&of, "a"..).next().map(drop));
}

fn all_calls(dir: &Path) -> Calls {
    let db = open(dir, Durability::Process);
    for number in 0..300 {
        db.put(format!("key{number}"), [7; 100]).unwrap();
    }
    db.keyspace("other").unwrap().put("key", "value").unwrap();
    db.settle_debt().unwrap();
    db.put("k", "in memory").unwrap();
    let all = Vec::new();
    let mut calls = Calls { db, all };
    of_db(&mut calls);
    of_keyspaces_and_snapshots(&mut calls);
    calls
}

#[test]
fn each_public_function_is_said_to_touch_files_or_not() {
    let mut types: BTreeSet<String> = HANDLES.iter().map(|&name| name.to_owned()).collect();
    types.extend(words(PLAIN));
    assert_eq!(public::types(), types, "types that the crate gives out");
    let dir = tempfile::tempdir().unwrap();
    let calls = all_calls(dir.path());
    let mut said: BTreeSet<String> = words(IN_MEMORY);
    said.extend(words(LIFE));
    for (name, _) in &calls.all {
        assert!(
            said.insert((*name).to_owned()),
            "{name} is said to be two things"
        );
    }
    assert_eq!(public::functions(&HANDLES, &[]), said);
}

#[test]
fn after_closing_every_call_is_refused_and_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let Calls { db, all } = all_calls(dir.path());
    // All of these handles are open, and they do not keep it from closing.
    db.close().unwrap();
    let before = look(dir.path());
    let mut wrong = Vec::new();
    for (name, run) in all {
        let found = run().err().map(|error| error.kind());
        if found != Some(ErrorKind::Closed) {
            wrong.push(format!("{name}: {found:?}"));
        }
        if look(dir.path()) != before {
            wrong.push(format!("{name} changed a file"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The call that a thread makes between two puts. `number` grows with each call of all threads.
type Call = fn(&Db, number: usize) -> Result<()>;

/// A test for each call: the number of calls and puts before closing, and the call.
macro_rules! rounds {
    ($($name:ident, $asks:literal, $call:expr;)*) => {
        mod rounds {
            use super::*;
            $(
                #[test]
                fn $name() {
                    for number in 0..count_from_env("EVENDB_CLOSING_ROUNDS", 4) {
                        round(number as usize, $asks, $call);
                    }
                }
            )*
        }
    };
}

rounds! {
    put, 3000, |_, _| Ok(());
    flush, 60, |db, _| db.flush();
    persist, 400, |db, _| db.persist();
    settle_debt, 40, |db, _| db.settle_debt();
    compact, 20, |db, _| db.compact().map(drop);
    compact_range, 30, |db, _| {
        let range = "key1".."key5";
        db.default_keyspace().compact_range(range).map(drop)
    };
    keyspaces_made_and_dropped, 40, |db, number| {
        let name = number.to_string();
        db.keyspace(&name)?.put("k", "v")?;
        db.drop_keyspace(&name)
    };
    synced_batch, 200, |db, number| {
        let mut batch = db.batch();
        for at in 0..30 {
            let key = format!("batch{}", (number + at) % 500);
            batch.put(db.default_keyspace(), key, [4; 300]);
        }
        batch.durability(Durability::Sync);
        batch.commit()
    };
    scan, 60, |db, _| {
        db.default_keyspace().approximate_size("key"..)?;
        db.iter().rev().try_for_each(|item| item.map(drop))
    };
}

/// Puts and calls until one is refused.
fn ask(db: &Db, thread: usize, call: Call, asked: &AtomicUsize) {
    loop {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let key = format!("key{:03}{thread}", number * 7 % 1000);
        let done = db.put(key, [number as u8; 200]);
        if let Err(error) = done.and_then(|()| call(db, number)) {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
            return;
        }
    }
}

/// Names, lengths and times of all files.
fn look(dir: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let found = fs::read_dir(dir).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (meta.len(), meta.modified().unwrap()))
    });
    found.collect()
}

/// Odd rounds look at the directory after closing; other rounds open it at once. A third of all
/// rounds has no log.
fn round(number: usize, asks: usize, call: Call) {
    let dir = tempfile::tempdir().unwrap();
    let level = match number % 3 {
        0 => Durability::Relaxed,
        _ => Durability::Process,
    };
    let db = open(dir.path(), level);
    let asked = AtomicUsize::new(0);
    let most = 1 + (number * 37 + 11) % asks;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, asked) = (db.clone(), &asked);
                scope.spawn(move || ask(&db, thread, call, asked))
            })
            .collect();
        while asked.load(Ordering::Relaxed) < most {
            thread::yield_now();
        }
        db.close().unwrap();
        if number.is_multiple_of(2) {
            let again = open(dir.path(), level);
            again.put("second life", number.to_le_bytes()).unwrap();
            again.flush().unwrap();
            again.close().unwrap();
        } else {
            let before = look(dir.path());
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(look(dir.path()), before, "round {number}: files changed");
        }
    });
    let third = open(dir.path(), level);
    if number.is_multiple_of(2) {
        let found = third.get("second life").unwrap();
        assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]));
    }
    for item in third.iter() {
        item.unwrap();
    }
    third.close().unwrap();
}

#[test]
fn several_threads_that_close_at_once_all_return_after_it_is_closed() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), Durability::Process);
        db.put("key", "value").unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                let own = db.clone();
                scope.spawn(|| {
                    own.close().unwrap();
                    // The directory is unlocked, or another of these threads has it open.
                    match Db::open(dir.path()) {
                        Ok(again) => again.close().unwrap(),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
                    }
                });
            }
            drop(db);
        });
    }
}

/// A keyspace is dropped just when all keyspaces are compacted, settled or flushed. It is not made
/// again, and none of these calls fails.
#[test]
fn calls_that_go_over_all_keyspaces_pass_over_those_that_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), Durability::Process);
    let over = AtomicBool::new(false);
    let rounds = 40 * count_from_env("EVENDB_CLOSING_ROUNDS", 4) as usize / 4;
    thread::scope(|scope| {
        let calls: [fn(&Db) -> Result<()>; 2] = [
            |db| db.compact().map(drop),
            |db| db.settle_debt().and_then(|()| db.flush()),
        ];
        for call in calls {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    call(db).unwrap();
                    db.tables();
                    db.stats();
                }
            });
        }
        for round in 0..rounds {
            let names: Vec<String> = (0..4).map(|at| format!("{round}-{at}")).collect();
            for name in &names {
                let keyspace = db.keyspace(name).unwrap();
                for number in 0..60 {
                    keyspace.put(format!("{number}"), [1; 100]).unwrap();
                }
            }
            for name in &names {
                db.drop_keyspace(name).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.keyspace_names(), ["default"], "made anew");
}
