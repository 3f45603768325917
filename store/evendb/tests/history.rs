//! Real threads, real schedules: gets, puts, deletes, range deletions, batches, scans, multi-gets
//! and snapshots of four threads are recorded (`common/clients.rs`), and each history is checked to
//! be linearizable, all kinds together (`common/linearizable.rs`). If all threads write the same
//! few keys, the checks for each key are made (`common/sharing.rs`).
//!
//! `EVENDB_HISTORY_OPERATIONS` sets the number of operations, `EVENDB_HISTORY_SEED` the first seed.
//! With `EVENDB_HISTORY_OUT` the histories are written to files, for
//! `scripts/check-linearizability`.

mod common;

use common::clients::{self, Plan, Run};
use common::linearizable::{ABSENT, Op, check};
use common::{count_from_env, has_chunks, history_file, number_from_env, sharing};
use evendb::vfs::SimVfs;
use evendb::{Advanced, Db, Durability, LogSearch, Options, Snapshot};
use std::sync::Arc;

/// Longer than some chunks, so that range deletions cross them.
const BLOCK: u32 = 40;
const KEYS: u32 = 300 * BLOCK;

clients::store!(Db, Snapshot);

fn own_keys(seed: u64, operations: u64) -> Plan {
    Plan {
        seed,
        keys: KEYS,
        block: BLOCK,
        is_shared: false,
        operations,
        round: 2000,
    }
}

/// Runs the clients; returns what they saw, and what scans of everything saw after each round and
/// after reopening.
fn record(plan: Plan, tune: impl FnOnce(Options) -> Options) -> (Vec<Op>, evendb::Stats) {
    let vfs = SimVfs::new(plan.seed);
    let options = common::layout::tiny_guards(common::options())
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(8 << 10)
                .block_bytes(512)
        });
    let options = tune(options);
    let db = options.clone().open("/db").expect("opens");
    let mut run = Run::new(&db, plan);
    run.go(&db);
    let stats = db.stats();
    run.release();
    db.close().expect("closes");
    // The same scan once more from the disk.
    run.read_everything(&options.open("/db").expect("reopens"));
    (run.into_ops(), stats)
}

fn run(seed: u64, operations: u64, tune: impl FnOnce(Options) -> Options) -> evendb::Stats {
    let plan = own_keys(seed, operations);
    let (ops, stats) = record(plan, tune);
    history_file::keep(&format!("evendb-{seed}"), plan.keys, &ops);
    if let Err(what) = check(&ops) {
        panic!("seed {seed}: {what}");
    }
    stats
}

/// Values are stored separately, in files that go again soon.
fn apart(advanced: Advanced) -> Advanced {
    let advanced = advanced.values_apart_from(Some(20));
    advanced
        .value_file_bytes(16 << 10)
        .value_file_live_percent(60)
}

/// The number of the test's runs, each of four threads.
const RUNS: u64 = 6;

/// The first seed of the runs, and of the runs with shared keys.
fn first_seed() -> u64 {
    number_from_env("EVENDB_HISTORY_SEED", 1)
}

#[test]
fn histories_are_linearizable() {
    let operations = count_from_env("EVENDB_HISTORY_OPERATIONS", 1_000_000);
    let part = operations.div_ceil(RUNS);
    let mut all = Vec::new();
    let seed = first_seed();
    all.push(run(seed, part, |options| options));
    all.push(run(seed + 1, part, |options| {
        options
            .workers(2)
            .advanced(|advanced| apart(advanced.commit_log_mapped(false)))
    }));
    all.push(run(seed + 2, part, |options| {
        options.durability(Durability::Relaxed)
    }));
    all.push(run(seed + 3, part, |options| {
        options.advanced(|advanced| {
            advanced
                .munks(false)
                .log_search(LogSearch::Bloom { split_factor: 4 })
        })
    }));
    all.push(run(seed + 4, part, |options| {
        options.workers(2).memory_budget(3 << 20).advanced(apart)
    }));
    all.push(run(seed + 5, part, |options| {
        options.durability(Durability::Sync)
    }));
    let sum = |count: fn(&evendb::Stats) -> u64| all.iter().map(count).sum::<u64>();
    // The number of operations from which on each event must have been seen: events of data beyond
    // memory come only in longer histories.
    let of_chunks = [
        ("splits", 20_000, sum(|stats| stats.splits)),
        ("rebalances", 20_000, sum(|stats| stats.rebalances)),
        ("loads", 200_000, sum(|stats| stats.munk_loads)),
        ("absorbs", 200_000, sum(|stats| stats.munk_rebalances)),
        ("evictions", 200_000, sum(|stats| stats.munk_evictions)),
    ];
    let of_all = [
        ("checkpoints", 20_000, sum(|stats| stats.checkpoints)),
        ("rows", 20_000, sum(|stats| stats.gets.row_cache)),
        ("range deletions", 20_000, sum(|stats| stats.range_deletes)),
    ];
    let of_chunks = of_chunks.into_iter().filter(|_| has_chunks());
    let seen: Vec<_> = of_chunks.chain(of_all).collect();
    for &(what, with, count) in &seen {
        assert!(count > 0 || operations < with, "no {what}: {seen:?}");
        if count == 0 {
            println!("{operations} operations are too few to have seen {what}");
        }
    }
}

/// Every thread writes every key, and there are few keys: so it shows if readers do not agree on an
/// order of writers.
#[test]
fn shared_keys_hold_what_was_written() {
    let operations = count_from_env("EVENDB_HISTORY_OPERATIONS", 1_000_000) / 10;
    let levels = [Durability::Relaxed, Durability::Process, Durability::Sync];
    for (seed, level) in (first_seed() + 10..).zip(levels) {
        let plan = Plan {
            keys: 12,
            block: 12,
            is_shared: true,
            round: 250,
            ..own_keys(seed, operations / 3)
        };
        let (ops, _) = record(plan, |options| options.durability(level));
        history_file::keep(&format!("evendb-shared-{seed}"), plan.keys, &ops);
        if let Err(what) = sharing::check(&ops) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// An operation of a written history.
fn op(begin: u32, end: u32, reads: &[(u32, u32)], writes: &[(u32, u32)]) -> Op {
    let writes = writes.iter().map(|&(key, version)| (key, version, false));
    Op {
        begin,
        end,
        reads: reads.to_vec(),
        writes: writes.collect(),
    }
}

#[test]
fn the_checker_accepts_what_has_a_moment() {
    // A get beside a put may see it or not; a scan beside two puts may see only one of them, either
    // one.
    let concurrent = [
        op(0, 5, &[], &[(1, 1)]),
        op(1, 2, &[(1, 1)], &[]),
        op(3, 4, &[(1, 1), (2, ABSENT)], &[]),
        op(6, 7, &[], &[(2, 1), (1, 2)]),
        op(8, 9, &[(1, 2), (2, 1)], &[]),
    ];
    assert_eq!(check(&concurrent), Ok(()));
}

#[test]
fn the_checker_refuses_what_has_none() {
    let stale = [
        op(0, 1, &[], &[(1, 1)]),
        op(2, 3, &[], &[(1, 2)]),
        op(4, 5, &[(1, 1)], &[]),
    ];
    let backwards = [
        op(0, 1, &[], &[(1, 1)]),
        op(2, 7, &[], &[(1, 2)]),
        op(3, 4, &[(1, 2)], &[]),
        op(5, 6, &[(1, 1)], &[]),
    ];
    let half_a_batch = [
        op(0, 1, &[], &[(1, 1), (2, 1)]),
        op(2, 5, &[], &[(1, 2), (2, 2)]),
        op(3, 4, &[(1, 2), (2, 1)], &[]),
    ];
    // Two scans that see two puts in different orders.
    let long_fork = [
        op(0, 6, &[], &[(1, 1)]),
        op(1, 7, &[], &[(2, 1)]),
        op(2, 3, &[(1, 1), (2, ABSENT)], &[]),
        op(4, 5, &[(1, ABSENT), (2, 1)], &[]),
    ];
    // A put stalls; a younger put returns; a get misses the first put, and a scan begun earlier has
    // the first without the second.
    let out_of_order = [
        op(0, 9, &[], &[(1, 1)]),
        op(1, 8, &[(1, 1), (2, ABSENT)], &[]),
        op(2, 3, &[], &[(2, 1)]),
        op(4, 5, &[(1, ABSENT)], &[]),
        op(6, 7, &[(2, 1)], &[]),
    ];
    let lost = [op(0, 1, &[], &[(1, 1)]), op(2, 3, &[(1, ABSENT)], &[])];
    let invented = [op(0, 1, &[(1, 7)], &[])];
    // A snapshot whose reads do not agree.
    let changed = [
        op(0, 3, &[], &[(1, 1)]),
        op(1, 2, &[(1, 1), (2, ABSENT), (1, ABSENT)], &[]),
    ];
    for history in [
        &stale[..],
        &changed,
        &backwards,
        &half_a_batch,
        &long_fork,
        &out_of_order,
        &lost,
        &invented,
    ] {
        assert!(check(history).is_err(), "{history:#?}");
    }
}

/// The checker of shared keys looks at each key alone: this shows what it accepts and what it does
/// not.
#[test]
fn shared_keys_are_judged_one_by_one() {
    // Two concurrent writers: either may have been the last.
    let writers = [op(0, 5, &[], &[(1, 1)]), op(1, 6, &[], &[(1, 2)])];
    for seen in [1, 2] {
        let mut history = writers.to_vec();
        history.push(op(7, 8, &[(1, seen)], &[]));
        assert_eq!(sharing::check(&history), Ok(()));
    }
    let deleted = Op {
        begin: 3,
        end: 6,
        reads: Vec::new(),
        writes: vec![(1, 2, true)],
    };
    for seen in [1, ABSENT] {
        let history = [
            op(0, 2, &[], &[(1, 1)]),
            deleted.clone(),
            op(4, 5, &[(1, seen)], &[]),
        ];
        assert_eq!(sharing::check(&history), Ok(()));
    }
    let stale = [
        op(0, 1, &[], &[(1, 1)]),
        op(2, 3, &[], &[(1, 2)]),
        op(4, 5, &[(1, 1)], &[]),
    ];
    let lost = [op(0, 1, &[], &[(1, 1)]), op(2, 3, &[(1, ABSENT)], &[])];
    let early = [op(0, 1, &[(1, 1)], &[]), op(2, 3, &[], &[(1, 1)])];
    let invented = [op(0, 1, &[(1, 7)], &[])];
    let torn = [
        op(0, 3, &[], &[(1, 1)]),
        op(1, 2, &[(1, ABSENT), (1, 1)], &[]),
    ];
    for history in [&stale[..], &lost, &early, &invented, &torn] {
        assert!(sharing::check(history).is_err(), "{history:#?}");
    }
}

/// The other checker reads the format that `common/history_file.rs` describes.
#[test]
fn histories_are_written_as_they_are_described() {
    let mut write = op(4, 9, &[], &[(17, 3), (18, 8)]);
    write.writes[1].2 = true;
    let ops = [
        op(10, 11, &[(16, ABSENT), (17, 3), (18, ABSENT), (2, 1)], &[]),
        write,
        op(5, 8, &[(17, 2)], &[]),
    ];
    let expected = "evendb-history 1\nkeys 20\n4 9 w17=3 w18=-\n5 8 r17=2\n10 11 r16=-,3,- r2=1\n";
    assert_eq!(history_file::text(20, &ops), expected);
}
