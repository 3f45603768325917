//! Transactions of real threads, by hand and by `transact`, beside puts, batches, checkpoints,
//! splits and compaction: everything is recorded, and each history is checked to be strictly
//! serializable.
//!
//! Strictly: as if each transaction had happened at one moment between its begin and its end. For a
//! transaction that writes, that moment is its commit; for one that only reads, and for one that
//! was refused, it is the moment that it reads.
//!
//! `EVENDB_TRANSACTIONS` sets the total number of transactions; a million is the full campaign.
//! They are made in rounds, each with a database of its own. `EVENDB_TRANSACTIONS_SEED` is the seed
//! of the first round.

mod common;

#[path = "serializable/checker.rs"]
mod checker;
#[path = "serializable/client.rs"]
mod client;
#[path = "serializable/lists.rs"]
mod lists;
#[path = "serializable/planted.rs"]
mod planted;

use checker::{History, Key, List, Tx, check};
use client::{Client, Log, THREADS};
use common::{count_from_env, number_from_env, on_sim, perhaps_apart};
use evendb::vfs::SimVfs;
use evendb::{Compression, Db, Durability, LogSearch, Options, Stats};
use lists::{Shared, Spaces, key_named, list};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The most transactions of a round.
const ROUND: u64 = 25_000;

/// The number of variants; the rounds take turns: log and search, memory, cache, level and threads
/// differ.
const VARIANTS: u64 = 6;

fn options(vfs: &SimVfs, variant: u64) -> Options {
    let options = |level, workers| perhaps_apart(on_sim(vfs, level, workers), variant);
    match variant {
        0 => options(Durability::Process, 1),
        1 => options(Durability::Process, 2)
            .advanced(|advanced| advanced.commit_log_mapped(false).chunk_bytes(8 << 10)),
        2 => options(Durability::Relaxed, 1).compression(Compression::Lz4),
        3 => options(Durability::Process, 1).advanced(|advanced| {
            advanced
                .munks(false)
                .log_search(LogSearch::Bloom { split_factor: 4 })
        }),
        4 => options(Durability::Sync, 2).advanced(|advanced| advanced.row_cache(false)),
        _ => options(Durability::Process, 2)
            .memory_budget(3 << 20)
            .advanced(|advanced| advanced.chunk_bytes(1024).filter_bits_per_key(10)),
    }
}

fn spaces(db: &Db) -> Spaces {
    let other = db.keyspace("other").expect("a keyspace");
    [db.default_keyspace().clone(), other]
}

/// Checkpoints, idle passes and compactions, until the clients are done.
fn disturb(db: &Db, mut random: StdRng, done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        match random.random_range(0..40) {
            0 => db.compact().map(drop).expect("compacts"),
            1..5 => db.settle_debt().expect("settles"),
            5..10 => db.idle_pass().map(drop).expect("a pass"),
            _ => db.flush().expect("flushes"),
        }
        // Leaves time for new work.
        thread::sleep(Duration::from_micros(random.random_range(0..4_000)));
    }
}

/// One transaction that reads everything, and the lists that it found.
fn read_all(db: &Db, shared: &Shared) -> (Tx, HashMap<Key, List>) {
    let begin = shared.now();
    let transaction = db.transaction().expect("begins");
    let mut last = HashMap::new();
    for (space, keyspace) in spaces(db).iter().enumerate() {
        for item in transaction.iter(keyspace).expect("its own keyspace") {
            let (key, value) = item.expect("no error");
            last.insert(key_named(space, &key), list(Some(&value)));
        }
    }
    transaction.commit().expect("read only");
    let end = shared.now();
    let reads = last.clone().into_iter().collect();
    let transaction = Tx {
        begin,
        end,
        reads,
        appends: Vec::new(),
    };
    (transaction, last)
}

/// Runs the clients; returns the logs of all of them, and the figures of the database.
fn run_clients(db: &Db, shared: &Arc<Shared>, seed: u64, each: u32) -> (Vec<Log>, Stats) {
    let client = |own| Client {
        db: db.clone(),
        spaces: spaces(db),
        shared: shared.clone(),
        own,
        random: StdRng::seed_from_u64(seed * 100 + u64::from(own)),
        lists: HashMap::new(),
        log: Log::default(),
    };
    let done = AtomicBool::new(false);
    let logs = thread::scope(|scope| {
        let random = StdRng::seed_from_u64(seed * 100 + 99);
        scope.spawn(|| disturb(db, random, &done));
        let clients: Vec<_> = (0..THREADS)
            .map(client)
            .map(|client| scope.spawn(move || client.run(each)))
            .collect();
        let logs: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::SeqCst);
        logs
    });
    let logs = logs
        .into_iter()
        .map(|log| log.unwrap_or_else(|_| panic!("seed {seed}: a client failed, see above")));
    (logs.collect(), db.stats())
}

/// The events that a round has seen.
#[derive(Default)]
struct Seen {
    committed: u64,
    refused: u64,
    stats: Vec<Stats>,
}

fn round(seed: u64, variant: u64, transactions: u64, seen: &mut Seen) {
    let vfs = SimVfs::new(seed);
    let db = options(&vfs, variant).open(common::DIR).expect("opens");
    let shared = Arc::new(Shared::default());
    let each = transactions.div_ceil(u64::from(THREADS)) as u32;
    let (logs, stats) = run_clients(&db, &shared, seed, each);
    let mut history = History::default();
    let (mut committed, mut refused) = (0, 0);
    for log in logs {
        history.transactions.extend(log.transactions);
        history.aborted.extend(log.aborted);
        committed += u64::from(log.committed);
        refused += u64::from(log.refused);
    }
    let (all, last) = read_all(&db, &shared);
    history.transactions.push(all);
    history.last = last;
    db.close().expect("closes");
    // The same read once more from the disk.
    let db = options(&vfs, variant).open(common::DIR).expect("reopens");
    let (all, last) = read_all(&db, &shared);
    history.transactions.push(all);
    assert_eq!(
        last, history.last,
        "seed {seed}, variant {variant}: reopened"
    );
    history.close_gaps();
    if let Err(what) = check(&history) {
        panic!("seed {seed}, variant {variant}, {transactions} transactions: {what}");
    }
    seen.committed += committed;
    seen.refused += refused;
    seen.stats.push(stats);
}

#[test]
fn transactions_are_strictly_serializable() {
    let transactions = count_from_env("EVENDB_TRANSACTIONS", 60_000);
    let first_seed = number_from_env("EVENDB_TRANSACTIONS_SEED", 1);
    let rounds = transactions.div_ceil(ROUND).next_multiple_of(VARIANTS);
    let mut seen = Seen::default();
    for number in 0..rounds {
        let each = transactions.div_ceil(rounds);
        round(first_seed + number, number % VARIANTS, each, &mut seen);
    }
    let Seen {
        committed,
        refused,
        stats,
    } = seen;
    println!("{rounds} rounds: {committed} transactions committed, {refused} attempts refused");
    let sum = |count: fn(&Stats) -> u64| stats.iter().map(count).sum::<u64>();
    // The number of transactions from which on each event must have been seen.
    let of_all = [
        ("conflicts", 2_000, sum(|stats| stats.transaction_conflicts)),
        ("commits", 2_000, sum(|stats| stats.transactions)),
        ("checkpoints", 2_000, sum(|stats| stats.checkpoints)),
        ("rows", 200_000, sum(|stats| stats.gets.row_cache)),
    ];
    let of_chunks = [
        ("splits", 20_000, sum(|stats| stats.splits)),
        ("rebalances", 20_000, sum(|stats| stats.rebalances)),
        ("absorbs", 200_000, sum(|stats| stats.munk_rebalances)),
    ];
    let of_chunks = of_chunks.into_iter().filter(|_| common::has_chunks());
    let seen: Vec<_> = of_all.into_iter().chain(of_chunks).collect();
    println!("{seen:?}");
    for &(what, with, count) in &seen {
        assert!(count > 0 || transactions < with, "no {what}: {seen:?}");
    }
}
