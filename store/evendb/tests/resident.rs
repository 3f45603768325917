//! The memory that a whole process takes beside its budget, with one workload after the other, each
//! in a process of its own: the allowance of docs/testing.md is 64 MiB.
//!
//! `EVENDB_RESIDENT=1` runs all workloads; without it two are run.
//!
//! The measure is the most memory that the process had, as the system counts it (`VmHWM`), so it
//! includes the allocator's holes, stacks and mapped files.

mod common;

use common::flag_from_env;
use evendb::{Db, Options};
use std::path::Path;
use std::process::Command;

const WORKLOAD_VARIABLE: &str = "EVENDB_RESIDENT_WORKLOAD";
const DIR_VARIABLE: &str = "EVENDB_RESIDENT_DIR";

/// The budget of each workload, in bytes: the data is several times as large.
const BUDGET: u64 = 32 << 20;
/// The bytes that a process may take beside its budget.
const ALLOWANCE: u64 = 64 << 20;

/// The most memory that this process had, in bytes.
fn highest() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = number.expect("a size").parse().expect("a number");
    kib << 10
}

/// Runs the test binary again for each workload. Its test `other_process` calls
/// [`in_a_process_of_its_own`].
fn each_keeps_within_its_budget(workloads: &[&str]) {
    for workload in workloads {
        let dir = tempfile::tempdir().expect("a directory");
        let status = Command::new(std::env::current_exe().expect("the test binary"))
            .args(["other_process", "--exact", "--nocapture"])
            .env(WORKLOAD_VARIABLE, workload)
            .env(DIR_VARIABLE, dir.path())
            .status();
        assert!(status.expect("runs").success(), "{workload}");
    }
}

/// Runs the workload that this process was started for, if there is one, and checks the memory that
/// it took.
fn in_a_process_of_its_own(run: impl FnOnce(&str, &Path)) {
    let Ok(workload) = std::env::var(WORKLOAD_VARIABLE) else {
        return;
    };
    let dir = std::env::var_os(DIR_VARIABLE).expect("a directory");
    let before = highest();
    run(&workload, Path::new(&dir));
    let most = highest();
    println!(
        "{workload}: {} of at first {} KiB",
        most >> 10,
        before >> 10
    );
    assert!(
        most <= BUDGET + ALLOWANCE,
        "{workload}: {most} bytes, with a budget of {BUDGET}"
    );
    assert!(
        most > before + BUDGET / 4,
        "{workload} took next to nothing"
    );
}

/// Not a test of its own: the other test runs it.
#[test]
fn other_process() {
    in_a_process_of_its_own(|workload, dir| {
        let options = Options::new().memory_budget(BUDGET);
        let db = options.open(dir).expect("opens");
        run(&db, workload);
        db.close().expect("closes");
    });
}

#[test]
fn a_process_keeps_within_its_budget() {
    let workloads = match flag_from_env("EVENDB_RESIDENT") {
        true => &ALL[..],
        false => &ALL[..2],
    };
    each_keeps_within_its_budget(workloads);
}

/// All workloads.
const ALL: [&str; 9] = [
    "mixed",
    "large",
    "order",
    "reads",
    "scans",
    "snapshots",
    "keyspaces",
    "batches",
    "iterators",
];

const RECORDS: u64 = 120_000;

fn key(number: u64) -> String {
    format!("user{:04}/item{:08}", number % 97, number)
}

fn value(number: u64) -> Vec<u8> {
    vec![(number % 251) as u8; 900 + (number % 200) as usize]
}

fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % RECORDS
}

fn put(db: &Db, number: u64) {
    db.put(key(number), value(number)).expect("puts");
}

fn fill(db: &Db) {
    (0..RECORDS).for_each(|number| put(db, scattered(number)));
}

fn get(db: &Db, number: u64) {
    if let Some(found) = db.get(key(number)).expect("gets") {
        assert!(found == value(number)[..]);
    }
}

fn scan(db: &Db, from: u64, records: usize) {
    for item in db.range(key(from)..).take(records) {
        item.expect("scans");
    }
}

/// Does the work of this name.
fn run(db: &Db, name: &str) {
    match name {
        "mixed" => std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for turn in 0..RECORDS / 4 {
                        let number = scattered(turn * 4 + thread);
                        put(db, number);
                        get(db, scattered(turn));
                        if turn % 50 == 0 {
                            scan(db, number, 50);
                            db.delete(key(number)).expect("deletes");
                        }
                    }
                });
            }
        }),
        "large" => {
            for turn in 0..60_u64 {
                let large = vec![turn as u8; (1 << 20) + (turn as usize % 5) * (1 << 20)];
                db.put(format!("large{:02}", turn % 20), &large)
                    .expect("puts");
                let other = format!("large{:02}", turn * 7 % 20);
                drop(db.get(other).expect("gets"));
            }
            assert!(
                db.iter()
                    .map(|item| item.expect("scans").1.len())
                    .sum::<usize>()
                    > 20 << 20
            );
        }
        "order" => (0..RECORDS).for_each(|number| {
            let key = format!("{number:012}");
            db.put(key, value(number)).expect("puts");
        }),
        "reads" => {
            fill(db);
            (0..RECORDS).for_each(|turn| get(db, scattered(turn * 3)));
            (0..RECORDS).for_each(|turn| get(db, turn % 2000));
        }
        "scans" => {
            fill(db);
            (0..3000).for_each(|turn| scan(db, scattered(turn), 100));
            assert!(db.iter().rev().count() > RECORDS as usize / 2);
        }
        "snapshots" | "iterators" => {
            let mut held = (Vec::new(), Vec::new());
            for number in 0..RECORDS {
                put(db, scattered(number));
                match number % 1000 {
                    0 if name == "snapshots" => {
                        held.0.push(db.snapshot().expect("a snapshot"));
                    }
                    0 => {
                        let mut iter = db.range(key(scattered(number))..);
                        drop(iter.next());
                        held.1.push(iter);
                    }
                    _ => {}
                }
            }
            for snapshot in &held.0 {
                drop(snapshot.get(db.default_keyspace(), key(1)).expect("gets"));
            }
            held.1.iter_mut().for_each(|iter| drop(iter.next()));
        }
        "keyspaces" => {
            let name = |number: u64| format!("keyspace{:03}", number % 150);
            let open = |number| db.keyspace(&name(number)).expect("opens");
            let all: Vec<_> = (0..150).map(open).collect();
            for number in 0..RECORDS {
                let keyspace = &all[(number % 150) as usize];
                let number = scattered(number);
                keyspace.put(key(number), value(number)).expect("puts");
            }
        }
        "batches" => {
            for turn in 0..40_u64 {
                let mut batch = db.batch();
                // Below a quarter of the budget, with the bytes that each record counts.
                for number in 0..6000 {
                    let number = scattered(turn * 6000 + number);
                    batch.put(db.default_keyspace(), key(number), value(number));
                }
                batch.commit().expect("commits");
            }
        }
        other => panic!("there is no workload {other}"),
    }
    db.settle_debt().expect("settles");
}
