//! The analysis of a genuine trace of RocksDB beside that of RocksDB's own `trace_analyzer`, if
//! RocksDB is installed.
//!
//! Debian's package `rocksdb-tools` has `db_bench`, which makes the trace. With it comes the
//! library, which has the analyzer as a function; the program that calls it has two lines and is
//! compiled here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use evendb_analyze::{Budget, Cut, Options, analyze};
use evendb_report::Document;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ANALYZER: &str = "namespace rocksdb { int trace_analyzer_tool(int, char**); }
int main(int argc, char** argv) { return rocksdb::trace_analyzer_tool(argc, argv); }
";

/// The output of a program, if it is there.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

/// RocksDB's analyzer, compiled into `folder`. None if something for it is missing.
fn analyzer(folder: &Path) -> Option<PathBuf> {
    let place = output("sh", &["-c", "command -v db_bench || true"])?;
    let libraries = output(
        "ldd",
        &[place.trim()].map(|path| if path.is_empty() { "/bin/sh" } else { path }),
    )?;
    let library = libraries.lines().find(|line| line.contains("librocksdb"))?;
    let library = library.split_whitespace().nth(2)?;
    let (source, program) = (folder.join("analyzer.cc"), folder.join("analyzer"));
    fs::write(&source, ANALYZER).unwrap();
    let compiler = Command::new("c++")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg(library)
        .status();
    compiler.ok()?.success().then_some(program)
}

/// By number of accesses: the number of keys, from the analyzer's output for a kind.
fn theirs(folder: &Path, kind: &str) -> BTreeMap<u64, u64> {
    let path = folder.join(format!("t-{kind}-0-accessed_key_count_distribution.txt"));
    let text = fs::read_to_string(path).unwrap();
    let numbers = text.lines().map(|line| {
        let numbers: Vec<u64> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        (numbers[0], numbers[1])
    });
    numbers.collect()
}

/// The same by our analysis, which leaves rows out if a plot needs no more.
fn ours(document: &Document, kind: &str) -> BTreeMap<u64, u64> {
    let figure = document.figure("access-counts").unwrap();
    let rows = figure.rows.iter().filter(|row| row[1] == kind);
    rows.map(|row| (row[2].as_u64().unwrap(), row[3].as_u64().unwrap()))
        .collect()
}

/// Operations of a kind, and the keys that it named.
fn totals(document: &Document, kind: &str) -> (u64, u64) {
    let rows = &document.figure("composition").unwrap().rows;
    let row = rows.iter().find(|row| row[1] == kind).unwrap();
    (row[2].as_u64().unwrap(), row[4].as_u64().unwrap())
}

#[test]
fn rocksdbs_own_analyzer_counts_the_same() {
    let place = tempfile::tempdir().unwrap();
    let Some(analyzer) = analyzer(place.path()) else {
        skipped::skipped(
            "the analysis beside RocksDB's trace_analyzer",
            "db_bench (Debian's package rocksdb-tools) or a C++ compiler is missing",
        );
        return;
    };
    let trace = place.path().join("query.trace");
    let database = format!("--db={}", place.path().join("db").display());
    let traced = format!("--trace_file={}", trace.display());
    output(
        "db_bench",
        &[
            "--benchmarks=fillrandom,mixgraph",
            "--num=2000",
            "--reads=20000",
            "--threads=1",
            "--key_size=24",
            "--value_size=50",
            "--mix_get_ratio=0.6",
            "--mix_put_ratio=0.3",
            "--mix_seek_ratio=0.1",
            "--keyrange_num=1",
            "--key_dist_a=0.002312",
            "--key_dist_b=0.3467",
            &database,
            &traced,
        ],
    );
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    let (folder, path) = (
        format!("--output_dir={}", out.display()),
        format!("--trace_path={}", trace.display()),
    );
    output(
        analyzer.to_str().unwrap(),
        &[
            "--analyze_get",
            "--analyze_put",
            "--analyze_iterator",
            "--output_access_count_stats",
            "--output_prefix=t",
            &folder,
            &path,
        ],
    );
    let tables = place.path().join("tables");
    fs::create_dir(&tables).unwrap();
    let options = Options {
        trace,
        format: None,
        stored: Vec::new(),
        folder: tables,
        budget: Budget {
            memory_bytes: Budget::MEMORY_BYTES_MIN,
            threads: 2,
        },
        cut: Cut::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let document = runtime.block_on(analyze(&options, &mut |_| ())).unwrap();
    for (kind, name) in [("get", "get"), ("put", "put"), ("scan", "iterator_Seek")] {
        let (ours, theirs) = (ours(&document, kind), theirs(&out, name));
        assert!(
            ours.len() * 2 > theirs.len(),
            "{kind}: {ours:?} of {theirs:?}"
        );
        for (accesses, keys) in ours {
            assert_eq!(
                theirs.get(&accesses),
                Some(&keys),
                "{kind}: keys with {accesses} accesses"
            );
        }
        let keys = theirs.values().sum();
        let operations = theirs.iter().map(|(accesses, keys)| accesses * keys).sum();
        assert_eq!(totals(&document, kind), (operations, keys), "{kind}");
    }
}
