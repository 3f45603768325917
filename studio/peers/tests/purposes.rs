//! Each experiment that opens stores for a purpose ends well, with tiny sizes, for every store of
//! this build that takes part.

use std::process::Command;

/// Runs an experiment, and returns what it printed.
fn run(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_experiments"))
        .args(arguments)
        .args(["--rounds=1", "--memory-mib=128"])
        .arg(format!("--dir={}", directory.path().display()))
        .output()
        .expect("a program that starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{told}");
    assert!(output.status.success(), "{arguments:?}: {told}{errors}");
    told
}

fn assert_has_rows(told: &str, stores: &[&str]) {
    for store in stores {
        let row = |line: &str| line.split_whitespace().next() == Some(store);
        assert!(told.lines().any(row), "{store} in\n{told}");
    }
}

const ROCKSDB: &[&str] = match cfg!(feature = "rocksdb") {
    true => &["rocksdb", "rocksdb-tuned", "rocksdb-universal"],
    false => &[],
};

#[test]
fn counters_lose_nothing() {
    let told = run(&["merges", "--counters=100,3000", "--seconds=0.2"]);
    assert_has_rows(&told, &["evendb"]);
    assert_has_rows(&told, ROCKSDB);
    if cfg!(feature = "fjall") {
        assert_has_rows(&told, &["fjall"]);
        assert!(told.contains("get, put"), "{told}");
    }
}

#[test]
fn sorted_records_are_ingested() {
    let told = run(&["ingest", "--size-mib=2", "--seconds=2"]);
    assert_has_rows(&told, &["evendb"]);
    assert_has_rows(&told, ROCKSDB);
}

#[test]
fn large_values_are_put_and_got() {
    let told = run(&["large-values", "--size-mib=8", "--seconds=0.2"]);
    assert_has_rows(&told, &["evendb"]);
    if cfg!(feature = "rocksdb") {
        assert_has_rows(&told, &["rocksdb-tuned", "rocksdb-blobs"]);
    }
}

#[test]
fn events_expire() {
    let told = run(&[
        "expiring",
        "--life-seconds=1",
        "--rate=2000",
        "--seconds=0.1",
        "--turns=2",
    ]);
    assert_has_rows(&told, &["evendb"]);
    assert_has_rows(&told, ROCKSDB);
}
