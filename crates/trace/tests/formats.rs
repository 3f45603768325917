//! Traces of other formats. Those of RocksDB are made by an encoder of our own, from the description of the format; a genuine one is
//! made by `db_bench` where that is installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../evendb/tests/common/skipped.rs"]
mod skipped;

use evendb_trace::formats::{self, Format, Imported};
use evendb_trace::{ErrorKind, Kind, Operation};
use proptest::collection::vec;
use proptest::prelude::*;
use std::process::Command;

fn read(format: Format, bytes: &[u8]) -> evendb_trace::Result<(Vec<Operation>, Imported)> {
    let mut operations = Vec::new();
    let imported = formats::read(format, &mut &bytes[..], &mut |operation| {
        operations.push(operation.clone());
        Ok(())
    })?;
    assert_eq!(imported.operations, operations.len() as u64);
    Ok((operations, imported))
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A trace of RocksDB, version 0.1 or 0.2.
struct RocksDb {
    out: Vec<u8>,
    version: u8,
    micros: u64,
}

impl RocksDb {
    fn new(version: u8) -> RocksDb {
        let mut trace = RocksDb {
            out: Vec::new(),
            version,
            micros: 1_000_000,
        };
        let text = format!(
            "feedcafedeadbeef\tTrace Version: 0.{version}\tRocksDB Version: 7.8\tFormat: Timestamp OpType Payload\n"
        );
        trace.record(1, text.as_bytes());
        trace
    }

    fn record(&mut self, kind: u8, payload: &[u8]) {
        self.out.extend_from_slice(&self.micros.to_le_bytes());
        self.out.push(kind);
        let len = payload.len() as u32;
        self.out.extend_from_slice(&len.to_le_bytes());
        self.out.extend_from_slice(payload);
        self.micros += 10;
    }

    fn with_map(&mut self, kind: u8, members: &[u32], payload: Vec<u8>) {
        let map: u64 = members.iter().map(|member| 1 << member).sum();
        let mut whole = match self.version {
            1 => Vec::new(),
            _ => map.to_le_bytes().to_vec(),
        };
        whole.extend_from_slice(&payload);
        self.record(kind, &whole);
    }

    fn get(&mut self, family: u32, key: &[u8]) {
        let mut payload = family.to_le_bytes().to_vec();
        bytes(&mut payload, key);
        self.with_map(4, &[2, 3], payload);
    }

    fn seek(&mut self, kind: u8, key: &[u8], upper: Option<&[u8]>) {
        let mut payload = 0_u32.to_le_bytes().to_vec();
        bytes(&mut payload, key);
        let mut members = vec![4, 5];
        if let Some(upper) = upper {
            members.push(7);
            bytes(&mut payload, upper);
        }
        self.with_map(kind, &members, payload);
    }

    fn write(&mut self, count: u32, records: &[u8]) {
        let mut batch = vec![0; 8];
        batch.extend_from_slice(&count.to_le_bytes());
        batch.extend_from_slice(records);
        let payload = match self.version {
            1 => batch,
            _ => {
                let mut with_length = Vec::new();
                bytes(&mut with_length, &batch);
                with_length
            }
        };
        self.with_map(3, &[1], payload);
    }

    fn multi_get(&mut self, keys: &[&[u8]]) {
        let mut payload = (keys.len() as u32).to_le_bytes().to_vec();
        bytes(&mut payload, &vec![0; 4 * keys.len()]);
        let mut all = Vec::new();
        keys.iter().for_each(|key| bytes(&mut all, key));
        bytes(&mut payload, &all);
        self.with_map(13, &[8, 9, 10], payload);
    }
}

fn some_trace(version: u8) -> Vec<u8> {
    let mut trace = RocksDb::new(version);
    trace.get(3, b"one");
    let mut put = vec![0x1];
    bytes(&mut put, b"two");
    bytes(&mut put, b"value");
    trace.write(1, &put);
    let mut several = Vec::new();
    several.push(0x5);
    varint(&mut several, 300);
    bytes(&mut several, b"three");
    bytes(&mut several, b"v");
    several.push(0x0);
    bytes(&mut several, b"four");
    several.push(0x3);
    bytes(&mut several, b"a blob of the log");
    several.push(0xf);
    bytes(&mut several, b"a");
    bytes(&mut several, b"b");
    several.push(0x2);
    bytes(&mut several, b"five");
    bytes(&mut several, b"operand");
    several.push(0x7);
    bytes(&mut several, b"six");
    trace.write(5, &several);
    trace.seek(5, b"seven", (version > 1).then_some(b"seven-end"));
    trace.seek(6, b"eight", None);
    if version > 1 {
        trace.multi_get(&[b"nine", b"ten"]);
    }
    trace.record(9, b"a block of the cache, which is no operation");
    trace.record(2, b"");
    trace.out
}

#[test]
fn both_versions_of_rocksdb() {
    for version in [1, 2] {
        let (operations, imported) = read(Format::RocksDb, &some_trace(version)).unwrap();
        assert!(imported.bad == 0 && !imported.is_torn, "{imported:?}");
        let kinds: Vec<_> = operations.iter().map(|operation| operation.kind).collect();
        use Kind::*;
        let mut expected = vec![
            Get,
            Put,
            Put,
            Delete,
            DeleteRange,
            Merge,
            SingleDelete,
            BatchCommit,
            Scan,
            Scan,
        ];
        if version > 1 {
            expected.extend([MultiGet, MultiGet]);
        }
        assert_eq!(kinds, expected);
        assert_eq!(
            (operations[0].keyspace, &operations[0].key[..]),
            (3, &b"one"[..])
        );
        assert_eq!(operations[0].start_nanos, 10_000);
        assert_eq!(operations[1].group, 0);
        assert_eq!(operations[1].value.as_deref(), Some(&b"value"[..]));
        assert_eq!(operations[2].keyspace, 300);
        assert!(
            operations[2..8]
                .iter()
                .all(|operation| operation.group == 1)
        );
        assert_eq!(operations[4].end_key.as_deref(), Some(&b"b"[..]));
        assert_eq!(operations[7].count, Some(5));
        let end = (version > 1).then(|| b"seven-end".to_vec());
        assert_eq!(operations[8].end_key, end);
        assert!(operations[9].reverse);
        assert_eq!(operations[9].end_key.as_deref(), Some(&b"eight\0"[..]));
    }
}

#[test]
fn what_is_no_trace_of_rocksdb_is_refused() {
    let kind = |bytes: &[u8]| read(Format::RocksDb, bytes).unwrap_err().kind();
    assert_eq!(kind(b""), ErrorKind::NotATrace);
    assert_eq!(kind(&[1; 200]), ErrorKind::NotATrace);
    let mut other = RocksDb::new(3);
    other.get(0, b"k");
    assert_eq!(kind(&other.out), ErrorKind::UnsupportedVersion);
}

#[test]
fn absurd_lengths_end_the_reading() {
    let mut bytes = some_trace(2);
    let end = bytes.len();
    bytes.extend_from_slice(&[0; 8]);
    bytes.push(4);
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    // Without the record of the end.
    bytes.drain(end - 13..end);
    let (operations, imported) = read(Format::RocksDb, &bytes).unwrap();
    assert!(imported.is_torn && imported.bad == 1 && operations.len() == 12);
}

proptest! {
    #[test]
    fn a_torn_or_damaged_trace_of_rocksdb_ends_without_panic(
        cut in any::<prop::sample::Index>(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let whole = some_trace(2);
        let mut bytes = whole[..cut.index(whole.len() + 1)].to_vec();
        for (at, with) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= with;
            }
        }
        let _ = read(Format::RocksDb, &bytes);
    }

    #[test]
    fn any_text_is_read_without_panic(bytes in vec(any::<u8>(), 0..300), lines in "([A-Z0-9x, \\[=]{0,30}\n){0,6}") {
        for format in [Format::RocksDb, Format::RocksDbText, Format::TwitterCsv, Format::YcsbText] {
            let _ = read(format, &bytes);
            let _ = read(format, lines.as_bytes());
        }
    }

    /// What is written in RocksDB's readable form comes back, as far as that form has it.
    #[test]
    fn the_readable_form_comes_back(
        each in vec((0..9_usize, vec(any::<u8>(), 0..20), 0..5_u32, 0..1000_u64, 0..1_000_000_u64), 0..20),
    ) {
        use Kind::*;
        let kinds = [Get, Put, Delete, SingleDelete, DeleteRange, Merge, Scan, Scan, MultiGet];
        let (mut text, mut expected, mut micros) = (Vec::new(), Vec::new(), 0);
        for (kind, key, keyspace, len, later) in each {
            let mut operation = Operation::new(kinds[kind], key);
            operation.keyspace = keyspace;
            if !expected.is_empty() {
                micros += later;
            }
            operation.start_nanos = micros * 1000;
            if matches!(operation.kind, Put | Merge) {
                operation.value_len = Some(len);
            }
            if kind == 7 {
                let mut end = std::mem::take(&mut operation.key);
                end.push(0);
                operation.end_key = Some(end);
                operation.reverse = true;
            }
            prop_assert!(formats::write_rocksdb_text(&mut text, &operation, 77).unwrap());
            expected.push(operation);
        }
        let (operations, imported) = read(Format::RocksDbText, &text).unwrap();
        prop_assert_eq!(imported.bad, 0);
        prop_assert_eq!(operations, expected);
    }
}

#[test]
fn lines_of_the_readable_form() {
    let text =
        "0x6B31 1 2 100 5000\n0x6b32 0 0 10 7000\n1 2 100 5000\n0x6B3 0 0 0 1\n0x6B 11 0 0 1\n";
    let (operations, imported) = read(Format::RocksDbText, text.as_bytes()).unwrap();
    assert_eq!(imported.bad, 3);
    assert!(
        imported
            .first_bad
            .unwrap()
            .starts_with("line 3: no key in hex")
    );
    assert_eq!(operations[0].key, b"k1");
    assert_eq!(
        (operations[0].keyspace, operations[0].value_len),
        (2, Some(100))
    );
    // The size of a get is an invention of the form.
    assert_eq!(
        (operations[1].value_len, operations[1].start_nanos),
        (None, 2_000_000)
    );
    let commit = Operation::new(Kind::BatchCommit, "");
    assert!(!formats::write_rocksdb_text(&mut Vec::new(), &commit, 0).unwrap());
}

#[test]
fn lines_of_twitter() {
    let text = "0,q:q:1:8W,17,213,4,get,0\n0,yDqF,3,27,8,set,86400\n5,a,1,0,8,delete,0\n5,a,1,2,8,incr,0\n5,a,1,2,8,fly,0\n5,a\n";
    let (operations, imported) = read(Format::TwitterCsv, text.as_bytes()).unwrap();
    assert_eq!(imported.bad, 2);
    assert_eq!(imported.first_bad.unwrap(), "line 5: no operation \"fly\"");
    let kinds: Vec<_> = operations.iter().map(|operation| operation.kind).collect();
    assert_eq!(kinds, [Kind::Get, Kind::Put, Kind::Delete, Kind::Merge]);
    assert_eq!(operations[0].value_len, None);
    assert_eq!(
        (operations[1].value_len, operations[1].ttl_millis),
        (Some(27), Some(86_400_000))
    );
    assert_eq!(
        (operations[2].start_nanos, operations[2].thread),
        (5_000_000_000, 8)
    );
}

#[test]
fn lines_of_ycsb() {
    let text = "***************** properties *****************\n\"recordcount\"=\"5\"\nINSERT usertable user1 [ field0=abc field1=de ]\n\
                READ usertable user2 [ <all fields>]\nSCAN usertable user3 17 [ <all fields>]\nUPDATE usertable user1 [ field0=xy ]\n\
                DELETE usertable user4\nSCAN usertable user3 many\nREAD usertable\n[OVERALL], RunTime(ms), 12\n";
    let (operations, imported) = read(Format::YcsbText, text.as_bytes()).unwrap();
    assert_eq!(imported.bad, 2, "{imported:?}");
    let kinds: Vec<_> = operations.iter().map(|operation| operation.kind).collect();
    assert_eq!(
        kinds,
        [Kind::Put, Kind::Get, Kind::Scan, Kind::Put, Kind::Delete]
    );
    assert_eq!(operations[0].value_len, Some(5));
    assert_eq!(operations[2].limit, Some(17));
    assert!(operations.is_sorted_by_key(|operation| operation.start_nanos));
}

#[test]
fn a_long_line_is_bad_and_the_next_one_is_not() {
    let mut text = vec![b'x'; 3 << 20];
    text.extend_from_slice(b"\n0x6B 0 0 0 1\n");
    let (operations, imported) = read(Format::RocksDbText, &text).unwrap();
    assert_eq!((operations.len(), imported.bad), (1, 1));
}

/// A trace that RocksDB's own benchmark made, where it is installed (the package `rocksdb-tools` of Debian).
#[test]
fn a_genuine_trace() {
    let db_bench = ["db_bench", "/usr/lib/rocksdb/db_bench"];
    let is_there = |program: &&str| Command::new(program).arg("--help").output().is_ok();
    let Some(db_bench) = db_bench.into_iter().find(is_there) else {
        skipped::skipped(
            "a genuine trace of RocksDB",
            "db_bench is not installed (Debian's package rocksdb-tools)",
        );
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let run = |benchmarks: &str, arguments: &[String]| {
        let mut command = Command::new(db_bench);
        command.arg(format!("--benchmarks={benchmarks}"));
        command.arg(format!("--db={}", dir.path().join("db").display()));
        command.args([
            "--num=2000",
            "--key_size=20",
            "--value_size=50",
            "--threads=1",
        ]);
        let output = command.args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run("fillseq", &[]);
    let of_trace = [
        format!("--trace_file={}", trace.display()),
        "--use_existing_db=1".to_owned(),
        "--mix_get_ratio=0.6".to_owned(),
        "--mix_put_ratio=0.3".to_owned(),
        "--mix_seek_ratio=0.1".to_owned(),
        "--reads=3000".to_owned(),
        "--keyrange_num=1".to_owned(),
        "--key_dist_a=0.002312".to_owned(),
        "--key_dist_b=0.3467".to_owned(),
    ];
    run("mixgraph", &of_trace);
    let bytes = std::fs::read(&trace).unwrap();
    let (operations, imported) = read(Format::RocksDb, &bytes).unwrap();
    assert!(imported.bad == 0 && !imported.is_torn, "{imported:?}");
    let count = |kind| operations.iter().filter(|one| one.kind == kind).count();
    assert_eq!(operations.len(), 3000, "{imported:?}");
    assert!(count(Kind::Get) > 1500 && count(Kind::Put) > 700 && count(Kind::Scan) > 200);
    assert_eq!(
        count(Kind::Get) + count(Kind::Put) + count(Kind::Scan),
        3000
    );
    assert!(operations.iter().all(|one| one.key.len() == 20));
    assert!(operations.is_sorted_by_key(|one| one.start_nanos));
    let puts = operations.iter().filter(|one| one.kind == Kind::Put);
    assert!(
        puts.clone()
            .all(|put| put.value_len == put.value.as_ref().map(|value| value.len() as u64))
    );
}
