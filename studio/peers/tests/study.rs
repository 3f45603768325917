//! The study's main result on RocksDB itself, small: a benchmark with the model's hot ranges asks
//! for the blocks that a replayed trace asks for, and YCSB for more. A test of the lab asserts this
//! for simulated blocks too, exactly and on every machine.
//!
//! Without the library of RocksDB the tests say so and check nothing.
#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;

use evendb_lab::opener::{Durability, Settings};
use evendb_lab::store::{BLOCKS_HIT, BLOCKS_READ, BLOCKS_READ_BYTES, Store};
use evendb_peers::openers;
use evendb_peers::rocks_study::{self, BLOCK_BYTES};
use serde_json::Value;

/// A directory that direct reads can be done in: those of temporary files often cannot.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn is_left_out() -> bool {
    let why = rocks_study::unavailable();
    if let Some(why) = &why {
        println!("left out: {why}");
    }
    why.is_some()
}

fn opened(directory: &Path, memory_bytes: u64) -> Box<dyn Store> {
    let all = openers::all();
    let opener = all.iter().find(|opener| opener.name() == "rocksdb-study");
    let settings = Settings {
        memory_bytes,
        durability: Durability::Process,
    };
    opener.unwrap().open(directory, &settings).unwrap()
}

fn figure(store: &dyn Store, name: &str) -> u64 {
    let figures = store.stats();
    figures.iter().find(|one| one.name == name).unwrap().value
}

#[test]
fn its_counters_are_those_of_reads() {
    if is_left_out() {
        return;
    }
    let directory = directory("counters");
    // A cache for all blocks.
    let store = opened(&directory, 64 << 20);
    let key = |number: u32| format!("{number:08}");
    for number in 0..4000 {
        store.put(key(number).as_bytes(), &[7; 1000]).unwrap();
    }
    store.settle_debt().unwrap();
    let blocks = |name| figure(&*store, name);
    let names = |store: &dyn Store| {
        let names = store.stats().into_iter().map(|figure| figure.name);
        names.collect::<Vec<_>>()
    };
    let before = names(&*store);
    assert_eq!((blocks(BLOCKS_READ), blocks(BLOCKS_HIT)), (0, 0));
    assert!(blocks("written.user") >= 4000 * 1008);
    assert!(blocks("written.flush") >= 4000 * 1008);
    let get = |number| assert!(store.get(key(number).as_bytes(), &mut |_| {}).unwrap());
    get(2000);
    let (read, bytes) = (blocks(BLOCKS_READ), blocks(BLOCKS_READ_BYTES));
    assert!(read >= 1, "{read}");
    // The blocks of the index are read too, and they are smaller.
    assert!(bytes >= BLOCK_BYTES as u64 / 2, "{bytes}");
    // The same block again, which the cache has.
    get(2000);
    assert_eq!(blocks(BLOCKS_READ), read);
    assert!(blocks(BLOCKS_HIT) >= 1);
    // Another one, far away.
    get(3000);
    assert!(blocks(BLOCKS_READ) > read);
    assert_eq!(names(&*store), before);
    store.close().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}

fn experiments(words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_experiments"))
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
}

#[test]
#[ignore = "minutes; the lab asserts the same order for simulated blocks"]
fn prefix_dist_is_nearest_to_the_replay() {
    if is_left_out() {
        return;
    }
    let directory = directory("order");
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (trace, keys, json) = (path("trace"), path("keys"), path("json"));
    let drawn = [
        "mixgraph",
        "zippydb",
        "--scale=0.001",
        "--operations=12500",
        "--seed=7",
        "--only-trace",
        "--trace",
        &trace,
        "--trace-keys",
        &keys,
    ];
    experiments(&drawn);
    // The study's proportion of cache and pairs.
    let measured = [
        "mixgraph-allocations",
        "zippydb",
        "--scale=0.001",
        "--operations=10000",
        "--memory-mib=0.256",
        "--ycsb-sizes=mean",
        "--threads=1",
        "--rounds=1",
        "--stores=rocksdb-study",
        "--allocations=zipfian,all-random,all-dist,prefix-random,prefix-dist",
        "--replay",
        &trace,
        "--replay-keys",
        &keys,
        "--dir",
        directory.to_str().unwrap(),
        "--json",
        &json,
    ];
    experiments(&measured);
    let text = std::fs::read_to_string(&json).unwrap();
    let cells = cells_of(&serde_json::from_str(&text).unwrap());
    let reads = |name: &str| {
        let cell = cells.iter().find(|cell| cell["allocation"] == name);
        let cell = cell.unwrap_or_else(|| panic!("{name} in {text:.500}"));
        assert_eq!(cell["counted_by"], "store");
        cell["read_calls"].as_f64().unwrap() / cell["operations"].as_f64().unwrap()
    };
    let distance = |name: &str| (reads(name) / reads("replay")).ln().abs();
    for other in ["zipfian", "all-random", "all-dist", "prefix-random"] {
        assert!(
            distance("prefix-dist") < distance(other),
            "{other}: {} and {}, {} of the replay",
            reads(other),
            reads("prefix-dist"),
            reads("replay")
        );
    }
    assert!(reads("zipfian") > 1.2 * reads("replay"));
    std::fs::remove_dir_all(directory).unwrap();
}

/// All cells in a file of results, wherever they are.
fn cells_of(results: &Value) -> Vec<Value> {
    match results {
        Value::Object(members) => match members.get("cells") {
            Some(Value::Array(cells)) => cells.clone(),
            _ => members.values().flat_map(cells_of).collect(),
        },
        Value::Array(all) => all.iter().flat_map(cells_of).collect(),
        _ => Vec::new(),
    }
}
