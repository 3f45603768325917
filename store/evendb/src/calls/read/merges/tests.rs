//! A small model of merges, which has to catch the planted faults.

use crate::munk::Munk;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::plant::Plant;
use crate::rebalance::layout::{self, Munks, NewChunk};
use crate::rebalance::log_merge;
use crate::{Db, Keyspace, Merges, Snapshot, rebalance};
use evendb_storage::vfs::SimVfs;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(seed: u64, plant: Plant) -> (Db, Keyspace) {
    open_with(1 << 20, seed, plant)
}

fn open_with(memory_budget: u64, seed: u64, plant: Plant) -> (Db, Keyspace) {
    let options = Options::new()
        .memory_budget(memory_budget)
        .advanced(|advanced| advanced.chunk_bytes(64 << 10).block_bytes(256));
    open_by(options, seed, plant)
}

fn open_by(options: Options, seed: u64, plant: Plant) -> (Db, Keyspace) {
    let mut options = options
        .vfs(Arc::new(SimVfs::new(seed)))
        .durability(Durability::Process)
        .workers(0);
    options.plant = plant;
    let db = options.open("/db").expect("opens");
    let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
    let keyspace = db.keyspace_with("merged", &merging).expect("makes it");
    (db, keyspace)
}

/// Random merges, puts and deletes, with checkpoints, splits, absorbs, loads of spans, and
/// snapshots. The error tells what reads differently from a map.
fn run(seed: u64, plant: Plant) -> Result<(), String> {
    let (db, keyspace) = open(seed, plant);
    let mut random = StdRng::seed_from_u64(seed);
    let mut map = Map::new();
    let mut snapshots: Vec<(Snapshot, Map)> = Vec::new();
    for step in 0..1500u32 {
        let key = format!("key{:02}", random.random_range(0..40)).into_bytes();
        match random.random_range(0..100) {
            0..60 => {
                let operand = format!("+{step}");
                keyspace.merge(&key, &operand).expect("merges");
                map.entry(key)
                    .or_default()
                    .extend_from_slice(operand.as_bytes());
            }
            60..75 => {
                let value = vec![b'v'; random.random_range(0..600)];
                keyspace.put(&key, &value).expect("puts");
                map.insert(key, value);
            }
            75..80 => {
                keyspace.delete(&key).expect("deletes");
                map.remove(&key);
            }
            80..84 => db.flush().expect("a checkpoint"),
            84..86 => db.settle_debt().expect("settles"),
            86..90 => load_some(&db, &mut random),
            90..92 if snapshots.len() < 3 => {
                snapshots.push((db.snapshot().expect("a snapshot"), map.clone()));
            }
            92 => snapshots.clear(),
            93 => split(&db, &keyspace, &key),
            _ => {
                for (key, value) in &map {
                    let got = keyspace.get(key).expect("gets");
                    if got.as_deref() != Some(&value[..]) {
                        return Err(format!("step {step}: a get"));
                    }
                }
                for (snapshot, map) in &snapshots {
                    let all = snapshot.iter(&keyspace);
                    let all = all.map(|item| item.expect("reads"));
                    let all: Map = all.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                    if all != *map {
                        return Err(format!("step {step}: a snapshot"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Loads some spans of the chunks, and leaves others absent.
fn load_some(db: &Db, random: &mut StdRng) {
    let engine = db.engine();
    let choose = |munk: &Munk| {
        let all = 0..munk.span_count();
        all.filter(|span| span.is_multiple_of(2)).collect()
    };
    for (_, chunk) in engine.catalog.chunks() {
        let Some(_token) = chunk.try_token() else {
            continue;
        };
        if random.random_bool(0.3) {
            rebalance::spans::evict_spans(&engine.core, &chunk, |_| true);
        }
        rebalance::spans::load_spans(&engine.core, &chunk, &choose).expect("loads");
    }
}

/// Cuts the key's chunk before the key. The halves share its tables, and both carry the records of
/// its deltas.
fn split(db: &Db, keyspace: &Keyspace, key: &[u8]) {
    let engine = db.engine();
    let state = &keyspace.state;
    let chunk = state.index.load_full().find(key).clone();
    let Some(_token) = chunk.try_token() else {
        return;
    };
    if *chunk.range.low == *key {
        return;
    }
    let lows = [chunk.range.low.to_vec(), key.to_vec()];
    let new = lows.into_iter().map(|low| NewChunk {
        low,
        base: Vec::new(),
    });
    let old = std::slice::from_ref(&chunk);
    let jobs = engine.jobs();
    layout::replace_chunks(&jobs, state, old, new.collect(), None, Munks::Keep).expect("splits");
}

/// A scan asks for a span of a munk; then the durable deltas of its chunk are absorbed, and the
/// munk has fewer spans.
#[test]
fn a_span_is_loaded_of_the_munk_that_it_was_chosen_by() {
    // Enough memory that nothing has to leave the munk, however long other tests in this process
    // keep freed memory.
    let (db, keyspace) = open_with(16 << 20, 1, Plant::Nothing);
    let key = |index: u32| format!("key{index:03}");
    for index in 0..200 {
        keyspace.put(key(index), [b'v'; 600]).expect("puts");
    }
    db.settle_debt().expect("settles");
    let engine = db.engine();
    let index = || keyspace.state.index.load_full();
    let chunk = index().find(b"key").clone();
    let munk = || chunk.view.load_full().munk.clone().expect("a munk");
    rebalance::spans::evict_spans(&engine.core, &chunk, |_| true);
    let all_but_last = |munk: &Munk| (0..munk.span_count() - 1).collect();
    rebalance::spans::load_spans(&engine.core, &chunk, &all_but_last).expect("loads");
    let chosen = (munk(), munk().span_count() - 1);
    assert!(!chosen.0.has_span(chosen.1), "it is to be loaded");
    for index in 0..150 {
        keyspace.delete(key(index)).expect("deletes");
    }
    db.flush().expect("a checkpoint");
    // A round does nothing while another job has the chunk.
    let mut rounds = 0;
    while munk().span_count() >= chosen.0.span_count() {
        assert!(rounds < 10_000, "the deltas are absorbed");
        rounds += 1;
        rebalance::spans::load_for_scan(&engine.jobs(), &chunk, &chosen).expect("absorbs");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    rebalance::spans::load_for_scan(&engine.jobs(), &chunk, &chosen).expect("another munk");
    assert!(munk().span_count() < chosen.0.span_count());
    for index in 0..200 {
        let there = keyspace.get(key(index)).expect("gets").is_some();
        assert_eq!(there, index >= 150);
    }
}

fn seeds_that_notice(plant: Plant) -> usize {
    (0..6).filter(|&seed| run(seed, plant).is_err()).count()
}

#[test]
fn merges_read_as_a_map_says() {
    for seed in 0..6 {
        run(seed, Plant::Nothing).expect("the same as the map");
    }
}

#[test]
fn p33_operands_of_durable_deltas_that_count_twice_are_caught() {
    assert!(seeds_that_notice(Plant::DurableOperandsTwice) > 0);
}

#[test]
fn p34_an_operand_that_replaces_another_is_caught() {
    assert!(seeds_that_notice(Plant::OperandReplaces) > 0);
}

#[test]
fn p35_operands_out_of_order_are_caught() {
    assert!(seeds_that_notice(Plant::OperandsSwapped) > 0);
}

#[test]
fn p36_operands_folded_under_a_snapshot_are_caught() {
    assert!(seeds_that_notice(Plant::FoldsUnderSnapshots) > 0);
}

#[test]
fn p45_merges_that_share_their_version_with_a_frozen_delta_are_caught() {
    assert!(seeds_that_notice(Plant::LayoutSharesVersion) > 0);
}

/// Operands and deletes in many runs above a base, all read from tables. Returns whether they read
/// the same after the runs were merged.
fn merged_runs_are_right(plant: Plant) -> bool {
    let options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.chunk_bytes(64 << 10).munks(false));
    let (db, keyspace) = open_by(options, 1, plant);
    let mut map = Map::new();
    for index in 0..40 {
        let (key, value) = (format!("key{index:02}"), vec![b'v'; 500]);
        keyspace.put(&key, &value).expect("puts");
        map.insert(key.into_bytes(), value);
    }
    db.compact().expect("compacts");
    let reads_right = |map: &Map| {
        let all = keyspace.iter().map(|item| item.expect("reads"));
        let all: Map = all.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        all == *map
    };
    for round in 0..20 {
        let (key, operand) = (format!("key{:02}", round % 7), format!("+{round}"));
        keyspace.merge(&key, &operand).expect("merges");
        let value = map.get_mut(key.as_bytes()).expect("it was put");
        value.extend_from_slice(operand.as_bytes());
        let gone = format!("key{:02}", 39 - round);
        keyspace.delete(&gone).expect("deletes");
        map.remove(gone.as_bytes());
        db.flush().expect("a checkpoint");
        if !reads_right(&map) {
            return false;
        }
    }
    // As after a scan that met many runs.
    let engine = db.engine();
    let chunks = engine.catalog.chunks().into_iter();
    let chunks: Vec<_> = chunks.map(|(_, chunk)| chunk).collect();
    for chunk in &chunks {
        chunk.log_merge_wanted.store(true, Ordering::Relaxed);
    }
    log_merge::merge_logs(&engine.jobs(), &chunks).expect("merges");
    assert!(db.stats().log_merges > 0, "no runs were merged");
    reads_right(&map)
}

#[test]
fn p95_runs_that_are_merged_as_if_nothing_lay_below_are_caught() {
    assert!(merged_runs_are_right(Plant::Nothing));
    assert!(!merged_runs_are_right(Plant::RunsMergedAsBottom));
}
