//! Real threads, real schedules: four threads do gets, puts, deletes, batches, scans in both
//! directions, multi-gets and snapshots, all mixed. Their operations are recorded, and judged by
//! the clients and checkers of the first engine's tests.
//!
//! `EVENDB_FLSM_HISTORY_OPERATIONS` sets the number of operations (default 30,000),
//! `EVENDB_HISTORY_SEED` the first seed. With `EVENDB_HISTORY_OUT` the histories are written to
//! files, for `scripts/check-linearizability`.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::clients::{self, Plan, Run};
use common::linearizable::{Op, check};
use common::{DIR, LEVELS, count_from_env, history_file, number_from_env, sharing, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, Options, Snapshot, Stats};

clients::store!(Db, Snapshot);

fn own_keys(seed: u64, operations: u64) -> Plan {
    Plan {
        seed,
        keys: 2400,
        block: 10,
        is_shared: false,
        has_range_deletions: false,
        operations,
        round: 1000,
    }
}

/// Runs the clients. Returns what they saw, and what scans of everything saw after each round and
/// after reopening.
fn record(plan: Plan, options: Options) -> (Vec<Op>, Stats) {
    let db = options.clone().open(DIR).unwrap();
    let mut run = Run::new(&db, plan);
    run.go(&db);
    let stats = db.stats();
    run.release();
    db.close().unwrap();
    // The same once more from the disk.
    run.read_everything(&options.open(DIR).unwrap());
    (run.into_ops(), stats)
}

/// The first seed of the runs, and of the runs with shared keys.
fn first_seed() -> u64 {
    number_from_env("EVENDB_HISTORY_SEED", 1)
}

#[test]
fn histories_are_linearizable() {
    const RUNS: u64 = 6;
    let operations = count_from_env("EVENDB_FLSM_HISTORY_OPERATIONS", 30_000);
    let (mut flushes, mut compactions, mut deep) = (0, 0, 0);
    for number in 1..=RUNS {
        let seed = first_seed() + number - 1;
        let level = match number {
            2 => Durability::Relaxed,
            3 => Durability::Sync,
            _ => Durability::Process,
        };
        let vfs = SimVfs::new(seed);
        let plan = own_keys(seed, operations.div_ceil(RUNS));
        let (ops, stats) = record(plan, tiny_on(&vfs, level, seed));
        history_file::keep(&format!("flsm-{seed}"), plan.keys, &ops);
        if let Err(what) = check(&ops) {
            panic!("seed {seed}: {what}");
        }
        flushes += stats.flushes;
        compactions += stats.compactions;
        deep += stats.tables[1..].iter().sum::<u64>();
    }
    println!("{flushes} flushes, {compactions} compactions, {deep} tables below level 0");
    if operations >= 20_000 {
        assert!(flushes > 20 && compactions > 10 && deep > 10);
    }
}

/// Every thread writes every key, and there are few keys.
#[test]
fn shared_keys_hold_what_was_written() {
    let operations = count_from_env("EVENDB_FLSM_HISTORY_OPERATIONS", 30_000) / 10;
    for (seed, level) in (first_seed() + 10..).zip(LEVELS) {
        let plan = Plan {
            keys: 12,
            block: 12,
            is_shared: true,
            round: 250,
            ..own_keys(seed, operations.div_ceil(3))
        };
        let vfs = SimVfs::new(seed);
        let (ops, _) = record(plan, tiny_on(&vfs, level, seed));
        history_file::keep(&format!("flsm-shared-{seed}"), plan.keys, &ops);
        if let Err(what) = sharing::check(&ops) {
            panic!("seed {seed}: {what}");
        }
    }
}
