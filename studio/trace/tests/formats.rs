//! Traces of other formats. An encoder of our own makes those of RocksDB, from the description of
//! the format. `db_bench` makes a genuine one, if it is installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod making;
#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use evendb_trace::formats::{self, Format, Imported};
use evendb_trace::{ErrorKind, Header, Kind, Operation, Outcome, Writer};
use making::{RocksDb, some_trace};
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
        for format in [Format::EvenDb, Format::RocksDb, Format::RocksDbText, Format::TwitterCsv, Format::MetaCsv, Format::YcsbText] {
            let _ = read(format, &bytes);
            let _ = read(format, lines.as_bytes());
        }
        let _ = formats::detect(&bytes);
        let _ = formats::detect(lines.as_bytes());
    }

    /// A trace written in RocksDB's readable form comes back, as far as that form has its facts.
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
    // The size of a get is made up by the form.
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

fn present(len: u64) -> Outcome {
    Outcome::Present {
        len: Some(len),
        hash: None,
    }
}

#[test]
fn a_read_of_twitter_or_meta_has_the_size_of_what_it_found_and_nothing_where_that_is_0() {
    let outcomes = |format, text: &str| -> Vec<Outcome> {
        let (operations, imported) = read(format, text.as_bytes()).unwrap();
        assert_eq!(imported.bad, 0, "{imported:?}");
        operations.iter().map(|one| one.outcome).collect()
    };
    let twitter = "0,k,3,250,1,get,0\n0,k,3,0,1,gets,0\n";
    assert_eq!(
        outcomes(Format::TwitterCsv, twitter),
        [present(250), Outcome::Absent]
    );
    let meta = "key,op,size,op_count,key_size\nk,GET,104,2,64\nk,GET,0,1,64\n";
    assert_eq!(
        outcomes(Format::MetaCsv, meta),
        [present(104), present(104), Outcome::Absent]
    );
}

#[test]
fn the_operations_of_a_second_are_spread_evenly_over_it_and_their_order_stays() {
    let mut text = String::new();
    for number in 0..500 {
        text.push_str(&format!("3,k{number},2,5,1,get,0\n"));
    }
    text.push_str("4,a,1,5,1,get,0\n3,b,1,5,1,get,0\n3,c,1,5,1,get,0\n");
    let (operations, imported) = read(Format::TwitterCsv, text.as_bytes()).unwrap();
    assert!(imported.spread && imported.times_back == 2, "{imported:?}");
    for (number, operation) in operations[..500].iter().enumerate() {
        assert_eq!(operation.start_nanos, number as u64 * 2_000_000);
        assert_eq!(operation.key, format!("k{number}").into_bytes());
    }
    let late: Vec<_> = operations[500..]
        .iter()
        .map(|one| one.start_nanos)
        .collect();
    assert_eq!(late, [1_000_000_000, 0, 500_000_000]);
    // Other formats have exact times.
    assert!(!read(Format::RocksDb, &some_trace(2)).unwrap().1.spread);
}

/// Keys of 100 KiB: one second has more than is kept waiting. Nothing is lost, and times never go
/// back.
#[test]
fn a_second_of_more_than_there_is_room_for_is_spread_in_parts() {
    let key = "k".repeat(100 << 10);
    let line = format!("7,{key},2,5,1,get,0\n");
    let bytes = line.repeat(2000).into_bytes();
    let (mut count, mut last) = (0, 0);
    let imported = formats::read(Format::TwitterCsv, &mut &bytes[..], &mut |one| {
        assert!(one.start_nanos >= last && one.start_nanos < 1_000_000_000);
        (last, count) = (one.start_nanos, count + 1);
        Ok(())
    });
    assert_eq!((imported.unwrap().operations, count), (2000, 2000));
    assert!(last > 900_000_000, "{last}");
}

#[test]
fn a_key_with_commas_is_read_in_lines_of_twitter_and_of_meta() {
    let (operations, imported) = read(
        Format::TwitterCsv,
        b"1,a,b,,c,6,27,8,set,60\n1,,0,5,1,get,0\n",
    )
    .unwrap();
    assert_eq!(imported.bad, 0, "{imported:?}");
    assert_eq!(operations[0].key, b"a,b,,c");
    assert_eq!(operations[0].value_len, Some(27));
    assert_eq!(operations[1].key, b"");
    let meta = "op,key,size\nGET,a,b,c,7\nSET,d,8\nSET,e\n";
    let (operations, imported) = read(Format::MetaCsv, meta.as_bytes()).unwrap();
    assert_eq!((operations.len(), imported.bad), (2, 1), "{imported:?}");
    assert_eq!(
        (&operations[0].key[..], operations[0].outcome),
        (&b"a,b,c"[..], present(7))
    );
    assert_eq!(
        (&operations[1].key[..], operations[1].value_len),
        (&b"d"[..], Some(8))
    );
}

#[test]
fn what_is_read_as_a_merge_is_counted_by_its_name() {
    let text = "0,a,1,9,8,incr,0\n0,a,1,9,8,decr,0\n0,a,1,9,8,incr,0\n0,a,1,9,8,append,0\n0,a,1,9,8,prepend,0\n0,a,1,9,8,cas,0\n";
    let (operations, imported) = read(Format::TwitterCsv, text.as_bytes()).unwrap();
    let counted: Vec<_> = imported.as_merges.into_iter().collect();
    assert_eq!(
        counted,
        [("append", 1), ("decr", 1), ("incr", 2), ("prepend", 1)]
    );
    // The operand of an addition is a number of 8 bytes. The operand of an append has the size in
    // the line.
    let lens: Vec<_> = operations.iter().map(|one| one.value_len).collect();
    assert_eq!(lens, [8, 8, 8, 9, 9, 9].map(Some));
}

#[test]
fn keyspaces_of_other_formats_have_names() {
    assert_eq!(Format::RocksDb.keyspace_name(0), "default");
    assert_eq!(Format::RocksDb.keyspace_name(2), "cf-2");
    assert_eq!(Format::RocksDbText.keyspace_name(1), "cf-1");
    assert_eq!(Format::TwitterCsv.keyspace_name(0), "default");
}

#[test]
fn a_trace_of_another_format_is_named_where_one_of_ours_is_expected() {
    let kinds = [
        (some_trace(2), "rocksdb"),
        (b"0,k,1,2,3,get,0\n".to_vec(), "twitter"),
        (b"key,op,size\n".to_vec(), "meta"),
    ];
    for (bytes, name) in kinds {
        let error = formats::open_own(&bytes[..]).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotATrace);
        let message = error.to_string();
        assert!(
            message.contains(&format!("the format {name},")) && message.contains("trace convert"),
            "{message}"
        );
    }
    let error = formats::open_own(&b"nothing that is known"[..]).map(|_| ());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("no trace of EvenDB")
    );
    let own = Writer::new(Vec::new(), &Header::default()).unwrap();
    assert!(formats::open_own(&own.finish().unwrap().0[..]).is_ok());
}

/// Both headers of Meta's traces, with columns in several orders.
#[test]
fn lines_of_meta() {
    let text = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
                600,8213f,8,GET,3,87,1,0,366,300\n600,a54f,2,GET_LEASE,1,0,0,0,69,69\n\
                602,a54f,4,SET,1,40,0,60,1,1\n601,a54f,4,DELETE,1,0,0,,1,1\n\
                601,a54f,4,FLY,1,0,0,0,1,1\n601,a54f,4,GET,0,0,0,0,1,1\n601,a54f,4,GET,70000,0,0,0,1,1\n601,a54f\n601,,4,GET,1,0,0,0,1,1\n\
                op_time,key,key_size,op,op_count,size,cache_hits,usecase,sub_usecase,ttl\n603,b,1,SET,1,5,0,9,9,7\n";
    let (operations, imported) = read(Format::MetaCsv, text.as_bytes()).unwrap();
    assert_eq!((imported.bad, imported.times_back), (5, 1), "{imported:?}");
    assert_eq!(imported.first_bad.unwrap(), "line 6: no operation \"FLY\"");
    let kinds: Vec<_> = operations.iter().map(|operation| operation.kind).collect();
    use Kind::{Delete, Get, Put};
    assert_eq!(kinds, [Get, Get, Get, Get, Put, Delete, Put]);
    let outcomes: Vec<_> = operations[..5].iter().map(|one| one.outcome).collect();
    let found = Outcome::Present {
        len: Some(87),
        hash: None,
    };
    let absent = Outcome::Absent;
    assert_eq!(outcomes, [found, absent, absent, absent, Outcome::Unknown]);
    assert_eq!(operations[0].key, b"8213f...");
    assert_eq!(operations[3].key, b"a54f");
    assert_eq!(
        (operations[4].value_len, operations[4].ttl_millis),
        (Some(40), Some(60_000))
    );
    // The four operations of the first second are spread over it.
    let starts: Vec<_> = operations
        .iter()
        .map(|one| one.start_nanos / 1_000_000)
        .collect();
    assert_eq!(starts, [0, 250, 500, 750, 2000, 1000, 3000]);
    assert!(imported.spread);
    assert_eq!(operations[6].ttl_millis, Some(7000));
    let old = "key,op,size,op_count,key_size\n12,GET,100,2,3\n34,SET,7,1,2\n";
    let (operations, imported) = read(Format::MetaCsv, old.as_bytes()).unwrap();
    assert_eq!((operations.len(), imported.bad), (3, 0));
    assert!(!imported.spread);
    let starts: Vec<_> = operations.iter().map(|one| one.start_nanos).collect();
    assert_eq!(starts, [0, 1, 2]);
    let found = Outcome::Present {
        len: Some(100),
        hash: None,
    };
    assert_eq!(
        (&operations[1].key[..], operations[1].outcome),
        (&b"12."[..], found)
    );
    let (operations, imported) = read(Format::MetaCsv, b"12,GET,100,2,3\n").unwrap();
    assert_eq!((operations.len(), imported.bad), (0, 1));
}

#[test]
fn the_format_is_told_by_the_first_bytes() {
    let own = Writer::new(Vec::new(), &Header::default()).unwrap();
    let own = own.finish().unwrap().0;
    let rocksdb = some_trace(2);
    let cases: [(&[u8], Option<Format>); 15] = [
        (&own, Some(Format::EvenDb)),
        (&rocksdb, Some(Format::RocksDb)),
        (b"0x6B31 1 2 100 5000\n", Some(Format::RocksDbText)),
        (b"0,k,1,2,3,get,0\n", Some(Format::TwitterCsv)),
        (b"\r\n0,k,1,2,3,get,0", Some(Format::TwitterCsv)),
        (
            b"op_time,key,key_size,op,op_count,size\n",
            Some(Format::MetaCsv),
        ),
        (b"size,op,key\r\n1,GET,2\r\n", Some(Format::MetaCsv)),
        (
            b"*** properties ***\n\"a\"=\"b\"\nINSERT usertable user1 [ field0=abc ]\n",
            Some(Format::YcsbText),
        ),
        (b"", None),
        (b"\n\n", None),
        (
            b"0,k,1,2,3,fly,0\n0,k,1,2,3,get,0\n",
            Some(Format::TwitterCsv),
        ),
        (b"0,k,with,commas,14,2,3,get,0\n", Some(Format::TwitterCsv)),
        (b"# of a week\n0,k,1,2,3,get,0\n", Some(Format::TwitterCsv)),
        (b"time,key\n0,k,fly\n", None),
        (&rocksdb[..20], None),
    ];
    for (begin, format) in cases {
        assert_eq!(formats::detect(begin), format, "{}", begin.escape_ascii());
    }
    // The written form can be read.
    let (operations, imported) = read(Format::EvenDb, &own).unwrap();
    assert_eq!((operations.len(), imported), (0, Imported::default()));
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

/// A trace that RocksDB's own benchmark made, if it is installed (the package `rocksdb-tools` of
/// Debian).
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
