//! Transactions and batches that are larger than the memory budget: they are written whole or not
//! at all, at every level and in both layouts, and others go on.
//!
//! Everything replays from the numbers in the messages. `EVENDB_LARGE_CRASHES` sets the number of
//! operations of a large commit at which the machine stops (default 40 for each level and layout).

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::{DIR, LEVELS, count_from_env, scramble};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Db, Durability, ErrorKind, Layout, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LAYOUTS: [Layout; 2] = [Layout::Chunks, Layout::Guards];

fn options(vfs: &SimVfs, layout: Layout, level: Durability) -> Options {
    Options::new()
        .layout(layout)
        .durability(level)
        .memory_budget(BUDGET)
        .vfs(Arc::new(vfs.clone()))
}

const BUDGET: u64 = 4 << 20;
/// Ten budgets.
const PAIRS: u32 = 40_000;

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
    let found: Vec<_> = db.iter().map(Result::unwrap).collect();
    let found = found.iter().map(|(key, _)| String::from_utf8_lossy(key));
    assert!(found.eq(keys.iter()), "round {round}");
}

fn extents(vfs: &SimVfs) -> usize {
    let names = vfs.file_names(Path::new(DIR));
    names.iter().filter(|name| name.ends_with(".val")).count()
}

/// Also over what is there already, and with threads and without them.
#[test]
fn ten_budgets_in_one_transaction_are_there_at_once_and_after_closing_and_crashes() {
    for layout in LAYOUTS {
        for level in LEVELS {
            for workers in [0, 2] {
                let vfs = SimVfs::new(1);
                let open = |vfs: &SimVfs| {
                    let options = options(vfs, layout, level).workers(workers);
                    options.open(DIR).unwrap()
                };
                let db = open(&vfs);
                db.put("before", "1").unwrap();
                db.put("gone", "1").unwrap();
                for round in 0..2 {
                    let keyspace = db.default_keyspace().clone();
                    let before = db.snapshot().unwrap();
                    let mut transaction = db.transaction().unwrap();
                    for number in 0..PAIRS {
                        transaction
                            .put(&keyspace, key(number), value(number, round))
                            .unwrap();
                    }
                    transaction.delete(&keyspace, "gone").unwrap();
                    transaction.commit().unwrap();
                    check(&db, round, &["before"]);
                    let seen = before.iter(&keyspace).count();
                    assert_eq!(seen, if round == 0 { 2 } else { 1 + PAIRS as usize });
                }
                db.put("behind", "1").unwrap();
                let machine = vfs.crash(CrashMode::Process);
                if level == Durability::Process {
                    let db = open(&machine);
                    check(&db, 1, &["before", "behind"]);
                    db.close().unwrap();
                }
                db.close().unwrap();
                assert_eq!(extents(&vfs), 0);
                let db = open(&vfs);
                check(&db, 1, &["before", "behind"]);
                db.settle_debt().unwrap();
                check(&db, 1, &["before", "behind"]);
                db.close().unwrap();
            }
        }
    }
}
