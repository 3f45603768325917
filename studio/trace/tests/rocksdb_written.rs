//! RocksDB's query trace as it is written: it comes back by the reader, and RocksDB's own benchmark
//! replays it, where that is installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use evendb_trace::formats::{self, Format, RocksDbWriter, Written};
use evendb_trace::{Failure, Kind, Operation, Outcome};
use std::process::Command;

fn written(operations: &[Operation]) -> (Vec<u8>, Written) {
    let mut writer = RocksDbWriter::new(Vec::new(), 1_700_000_000_000_000).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Vec<Operation> {
    let mut all = Vec::new();
    let imported = formats::read(Format::RocksDb, &mut &bytes[..], &mut |one| {
        all.push(one.clone());
        Ok(())
    });
    let imported = imported.unwrap();
    assert!(imported.bad == 0 && !imported.is_torn, "{imported:?}");
    all
}

fn at(micros: u64, kind: Kind, key: &[u8]) -> Operation {
    let mut operation = Operation::new(kind, key);
    operation.start_nanos = micros * 1000;
    operation
}

fn put(micros: u64, key: &[u8], value: &[u8]) -> Operation {
    let mut put = at(micros, Kind::Put, key);
    (put.value, put.value_len) = (Some(value.to_vec()), Some(value.len() as u64));
    put
}

fn scan(micros: u64, low: &[u8], end: Option<&[u8]>, reverse: bool) -> Operation {
    let mut scan = at(micros, Kind::Scan, low);
    (scan.end_key, scan.reverse) = (end.map(<[u8]>::to_vec), reverse);
    scan
}

/// What the format has comes back as it was.
#[test]
fn every_kind_comes_back() {
    let mut merge = put(4, b"m", b"operand");
    (merge.kind, merge.keyspace) = (Kind::Merge, 300);
    let mut range = at(6, Kind::DeleteRange, b"a");
    range.end_key = Some(b"b".to_vec());
    let mut get = at(1, Kind::Get, b"k");
    get.keyspace = 3;
    let operations = [
        get,
        put(2, b"k", b"value"),
        merge,
        at(5, Kind::Delete, b"d"),
        at(5, Kind::SingleDelete, b"s"),
        range,
        scan(7, b"low", Some(b"upper"), false),
        scan(8, b"low", None, false),
        scan(9, b"", Some(b"last\0"), true),
        scan(10, b"low", Some(b"last\0"), true),
    ];
    let (bytes, about) = written(&operations);
    assert_eq!(read(&bytes), operations);
    assert_eq!((about.records, about.scans, about.values_made), (10, 4, 0));
    assert!(about.left_out.is_empty());
    assert_eq!(formats::detect(&bytes), Some(Format::RocksDb));
    assert_eq!(Format::RocksDb.wall_clock_millis(&bytes), 1_700_000_000_000);
}

#[test]
fn a_batch_is_one_record_at_the_time_of_its_end_and_lookups_are_one() {
    let of = |group: u64, mut operation: Operation| {
        operation.group = group;
        operation
    };
    let ended = |micros, kind, group, outcome| {
        let mut end = of(group, at(micros, kind, b""));
        end.outcome = outcome;
        end
    };
    let mut failed = put(1, b"no", b"v");
    failed.outcome = Outcome::Failed(Failure::NoSpace);
    let operations = [
        of(1, put(1, b"a", b"1")),
        of(2, put(2, b"never", b"2")),
        of(1, at(3, Kind::Delete, b"b")),
        failed,
        ended(4, Kind::Abort, 2, Outcome::Done),
        of(3, at(5, Kind::MultiGet, b"x")),
        of(3, at(5, Kind::MultiGet, b"y")),
        of(4, at(5, Kind::MultiGet, b"z")),
        ended(9, Kind::Commit, 1, Outcome::Done),
        of(5, put(10, b"open", b"v")),
        at(11, Kind::Other, b"checkpoint"),
        at(11, Kind::Pop, b""),
    ];
    let (bytes, about) = written(&operations);
    let all = read(&bytes);
    let seen: Vec<_> = all
        .iter()
        .map(|one| (one.start_nanos / 1000, one.kind, &one.key[..], one.group))
        .collect();
    use Kind::{BatchCommit, Delete, MultiGet, Put};
    let expected: [(u64, Kind, &[u8], u64); 6] = [
        (5, MultiGet, b"x", 1),
        (5, MultiGet, b"y", 1),
        (5, MultiGet, b"z", 0),
        (9, Put, b"a", 2),
        (9, Delete, b"b", 2),
        (9, BatchCommit, b"", 2),
    ];
    assert_eq!(seen, expected);
    let left_out: Vec<_> = about.left_out.into_iter().collect();
    assert_eq!(
        left_out,
        [
            ("calls without a key", 1),
            ("pops", 1),
            (
                "writes of batches and transactions that were not committed",
                1
            ),
            ("writes of batches and transactions without an end", 1),
            ("writes that failed", 1),
        ]
    );
}

#[test]
fn values_that_the_trace_does_not_have_are_made_with_their_length() {
    let mut known = at(1, Kind::Put, b"k");
    known.value_len = Some(77);
    let unknown = at(2, Kind::Put, b"u");
    let mut huge = at(3, Kind::Put, b"h");
    huge.value_len = Some(u64::MAX);
    let (bytes, about) = written(&[known, unknown, huge]);
    let lens: Vec<_> = read(&bytes).iter().map(|one| one.value_len).collect();
    assert_eq!(lens, [Some(77), Some(100)]);
    assert_eq!((about.values_made, about.lengths_made), (2, 1));
    assert_eq!(about.left_out.values().sum::<u64>(), 1);
}

/// Lookups without an end are several records, so that memory is bounded.
#[test]
fn many_lookups_of_one_group_are_several_records() {
    let mut looks: Vec<_> = (0..300)
        .map(|_| at(5, Kind::MultiGet, &[7; 1 << 17]))
        .collect();
    looks.iter_mut().for_each(|look| look.group = 1);
    let (bytes, about) = written(&looks);
    let all = read(&bytes);
    assert_eq!((all.len(), about.records), (300, 3));
    assert!(
        all.iter()
            .all(|one| one.kind == Kind::MultiGet && one.key.len() == 1 << 17)
    );
}

/// Backward scans of a range that does not end right behind a key, and of all keys.
#[test]
fn a_scan_back_is_sought_from_the_end_of_its_range() {
    let (bytes, _) = written(&[scan(1, b"a", Some(b"m"), true), scan(2, b"", None, true)]);
    let all = read(&bytes);
    assert!(all.iter().all(|one| one.reverse));
    assert_eq!(
        (&all[0].key[..], all[0].end_key.as_deref()),
        (&b"a"[..], Some(&b"m\0"[..]))
    );
    assert!(all[1].end_key.as_ref().unwrap().starts_with(&[0xff; 64]));
}

/// RocksDB's benchmark replays the trace on a database that was empty: afterwards it has what the
/// trace put.
#[test]
fn rocksdbs_own_benchmark_replays_what_is_written() {
    let tools = ["db_bench", "ldb", "rocksdb_ldb"];
    let found = |names: &[&str]| {
        let is_there = |program: &&&str| Command::new(program).arg("--help").output().is_ok();
        names.iter().find(is_there).map(|name| (*name).to_owned())
    };
    let Some(db_bench) = found(&tools[..1]) else {
        let why = "db_bench is not installed (Debian's package rocksdb-tools)";
        return skipped::skipped("a replay by RocksDB's own benchmark", why);
    };
    let mut operations = Vec::new();
    for number in 0..500_u64 {
        let key = format!("key{number:05}").into_bytes();
        operations.push(put(3 * number, &key, format!("value {number}").as_bytes()));
        operations.push(at(3 * number + 1, Kind::Get, &key));
        let kind = if number % 5 == 0 {
            Kind::Delete
        } else {
            Kind::Get
        };
        operations.push(at(3 * number + 2, kind, &key));
    }
    operations.push(scan(2000, b"key", Some(b"kez"), false));
    operations.push(scan(2001, b"key", Some(b"key00400"), true));
    let (bytes, about) = written(&operations);
    assert_eq!(about.records, 1502);
    let dir = tempfile::tempdir().unwrap();
    let (trace, db) = (dir.path().join("trace"), dir.path().join("db"));
    std::fs::write(&trace, bytes).unwrap();
    let output = Command::new(&db_bench)
        .arg("--benchmarks=replay")
        .arg(format!("--trace_file={}", trace.display()))
        .arg(format!("--db={}", db.display()))
        .args([
            "--num_column_families=2",
            "--trace_replay_fast_forward=1000",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        output.status.success() && !said.contains("Incomplete"),
        "{said}"
    );
    println!("{said}");
    let Some(ldb) = found(&tools[1..]) else {
        return skipped::skipped("what RocksDB's benchmark left", "ldb is not installed");
    };
    let dump = Command::new(ldb)
        .arg(format!("--db={}", db.display()))
        .arg("scan")
        .output();
    let dump = dump.unwrap();
    let text = String::from_utf8_lossy(&dump.stdout).into_owned();
    let keys: Vec<_> = text.lines().filter(|line| line.contains("key0")).collect();
    assert_eq!(
        keys.len(),
        400,
        "{text}{}",
        String::from_utf8_lossy(&dump.stderr)
    );
    assert!(
        text.contains("key00499") && !text.contains("key00005"),
        "{text}"
    );
}
