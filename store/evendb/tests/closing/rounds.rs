//! Closing beside threads that put, and then make one call, again and again; and opening again at
//! once.
//!
//! ```text
//!   three threads   put, call, put, call, ... until they are refused
//!   this thread     waits for some calls, closes, opens again, puts, flushes, closes, opens again
//! ```
//! In every other round the directory is looked at when closing has returned, and again when the
//! threads have ended: nothing in it may have changed. In the other rounds the database is opened
//! at once, and the puts of the second life are there in the third. Each call has rounds with
//! workers and without. `EVENDB_CLOSING_ROUNDS` sets their number.

use crate::common::count_from_env;
use evendb::{
    Batch, Db, Durability, ErrorKind, KeyspaceOptions, Merges, Options, Result, TraceOptions,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

const THREADS: usize = 3;

/// The call of a thread between two puts: `number` grows with each call of all threads.
type Call = fn(&Db, number: usize, elsewhere: &Path) -> Result<()>;

/// A test for each call: the number of calls with their puts before closing, and the call.
macro_rules! rounds {
    ($($name:ident, $asks:literal, $call:expr;)*) => {
        $(
            #[test]
            fn $name() {
                for number in 0..count_from_env("EVENDB_CLOSING_ROUNDS", 4) {
                    round(number as usize, $asks, $call);
                }
            }
        )*
    };
}

rounds! {
    put, 3000, |_, _, _| Ok(());
    flush, 60, |db, _, _| db.flush();
    persist, 400, |db, _, _| db.persist();
    backup, 8, |db, _, dir| db.backup(dir.join("backups")).map(drop);
    copy_to, 12, |db, number, dir| {
        db.copy_to(dir.join(number.to_string())).map(drop)
    };
    export, 12, |db, number, dir| {
        let path = dir.join(number.to_string());
        db.default_keyspace().export(path).map(drop)
    };
    keyspaces_made_and_dropped, 24, |db, number, _| {
        let name = number.to_string();
        db.keyspace(&name)?.put("k", "v")?;
        db.drop_keyspace(&name)
    };
    keyspace_with, 120, |db, number, _| {
        let options = KeyspaceOptions::new().block_bytes(4096);
        db.keyspace_with(&(number % 100).to_string(), &options)
            .map(drop)
    };
    idle_pass, 30, |db, _, _| db.idle_pass().map(drop);
    settle_debt, 40, |db, _, _| db.settle_debt();
    compact, 20, |db, _, _| db.compact().map(drop);
    compact_range, 30, |db, _, _| {
        let range = "key1".."key5";
        db.default_keyspace().compact_range(range).map(drop)
    };
    ingest, 24, |db, number, _| {
        let key = |at: usize| format!("key{at:03}/{number}");
        let records = (0..100).map(|at| (key(at), [9; 100]));
        db.ingest(records).map(drop)
    };
    ingest_dropped, 24, |db, _, _| {
        let mut ingest = db.default_keyspace().begin_ingest()?;
        for at in 0..100 {
            ingest.put(format!("x{at:03}"), [9; 300])?;
        }
        Ok(())
    };
    set_property, 120, |db, number, _| {
        let keyspace = db.default_keyspace();
        keyspace.set_property("p", number.to_string())
    };
    set_options, 120, |db, number, _| {
        let bytes = 4096 + number % 2 * 4096;
        let options = KeyspaceOptions::new().block_bytes(bytes);
        db.default_keyspace().set_options(&options)
    };
    values_apart, 300, |db, number, _| {
        let options = KeyspaceOptions::new().values_apart_from(64);
        let apart = db.keyspace_with("apart", &options)?;
        apart.put(format!("{}", number % 50), vec![3; 3000])
    };
    synced_batch, 100, |db, number, _| {
        let mut batch: Batch = db.batch();
        for at in 0..30 {
            let key = format!("batch{}", (number + at) % 500);
            batch.put(db.default_keyspace(), key, [4; 300]);
        }
        batch.durability(Durability::Sync);
        batch.commit()
    };
    fetch_update, 1500, |db, _, _| {
        let add = |value: Option<&[u8]>| Some(vec![5; value.map_or(0, <[u8]>::len) % 900 + 1]);
        db.fetch_update("counter", add).map(drop)
    };
    merge, 1500, |db, number, _| {
        let options = KeyspaceOptions::new().merge_operator(Merges::AddU64);
        let counters = db.keyspace_with("counters", &options)?;
        counters.merge(format!("{}", number % 9), 1u64.to_le_bytes())
    };
    delete_range, 800, |db, number, _| {
        let low = format!("key{:03}", number % 900);
        db.delete_range(low.clone()..format!("{low}9"))
    };
    put_with_ttl_and_pop, 600, |db, _, _| {
        let keyspace = db.default_keyspace();
        keyspace.put_with_ttl("a", "v", Duration::from_millis(1))?;
        keyspace.put_expiring_at("b", "v", SystemTime::UNIX_EPOCH)?;
        db.pop_first().map(drop)
    };
    scan, 60, |db, _, _| {
        let size = db.approximate_size("key"..)?;
        let seen = db.iter().rev().try_fold(0, |seen, item| item.map(|_| seen + 1))?;
        assert!(seen > 0 || size.records < 2000);
        Ok(())
    };
    changes, 60, |db, _, _| {
        let position = db.oldest_position()?;
        match db.changes_since(&position) {
            Ok(changes) => changes.take(20).try_for_each(|change| match change {
                // The log has gone round.
                Err(error) if error.kind() == ErrorKind::ChangesGone => Ok(()),
                change => change.map(drop),
            }),
            Err(error) if error.kind() == ErrorKind::ChangesGone => Ok(()),
            Err(error) => Err(error),
        }
    };
    start_trace, 120, |db, number, dir| {
        let path = dir.join(format!("trace{number}"));
        match db.start_trace(TraceOptions::new(path)) {
            // Only one at a time is allowed.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
            Err(error) => Err(error),
            Ok(trace) => trace.stop().map(drop),
        }
    };
}

fn open(dir: &Path, workers: usize) -> Db {
    Options::new()
        .memory_budget(1 << 20)
        .workers(workers)
        .stats_interval(Duration::from_millis(1))
        .advanced(|advanced| advanced.chunk_bytes(4 << 10))
        .open(dir)
        .unwrap()
}

/// Puts and calls until one is refused.
fn ask(db: &Db, thread: usize, call: Call, elsewhere: &Path, asked: &AtomicUsize) {
    loop {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let key = format!("key{:03}{thread}", number * 7 % 1000);
        let done = db.put(key, [number as u8; 200]);
        let Err(error) = done.and_then(|()| call(db, number, elsewhere)) else {
            continue;
        };
        match error.kind() {
            ErrorKind::Closed => return,
            // One of three concurrent backups is made; a keyspace that another thread drops is
            // gone.
            ErrorKind::Locked | ErrorKind::Conflict | ErrorKind::KeyspaceDropped => {}
            kind => panic!("{kind:?}: {error}"),
        }
    }
}

/// Names, lengths and times of all files.
fn look(dir: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let entries = fs::read_dir(dir).unwrap();
    let found = entries.map(|entry| {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (meta.len(), meta.modified().unwrap()))
    });
    found.collect()
}

/// Odd rounds look at the directory after closing; other rounds open it at once. Half of each have
/// workers.
fn round(number: usize, asks: usize, call: Call) {
    let dir = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (dir.path().join("db"), dir.path().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    let workers = if number % 4 < 2 { 2 } else { 0 };
    let db = open(&path, workers);
    let asked = AtomicUsize::new(0);
    let most = 1 + (number * 37 + 11) % asks;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, elsewhere, asked) = (db.clone(), &elsewhere, &asked);
                scope.spawn(move || ask(&db, thread, call, elsewhere, asked))
            })
            .collect();
        while asked.load(Ordering::Relaxed) < most {
            thread::yield_now();
        }
        db.close().unwrap();
        if number.is_multiple_of(2) {
            let again = open(&path, workers);
            again.put("second life", number.to_le_bytes()).unwrap();
            again.flush().unwrap();
            again.close().unwrap();
        } else {
            let before = look(&path);
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(look(&path), before, "round {number}: files changed");
        }
    });
    let third = open(&path, workers);
    if number.is_multiple_of(2) {
        let found = third.get("second life").unwrap();
        assert_eq!(
            found.as_deref(),
            Some(&number.to_le_bytes()[..]),
            "round {number}"
        );
    }
    for item in third.iter() {
        item.unwrap();
    }
    third.close().unwrap();
}
