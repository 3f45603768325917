#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which fail where they fail"
)]

use super::record::*;
use super::replay::{Replayed, replay};
use super::writer::LogWriter;
use crate::files::FileName;
use crate::types::{FileNumber, KeyspaceId};
use evendb_storage::vfs::{CrashMode, SimVfs, Vfs};
use evendb_storage::{ErrorKind, Kind, Result, Version};
use proptest::prelude::*;
use std::path::Path;

const DIR: &str = "/db";

fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

const BEGIN: &str = "
01 00 00 00                 # u32 format version 1
0c 00 00 00 00 00 00 00     # u64 number of the log before: LOG-000012
e8 03 00 00 00 00 00 00     # u64 its end: 1000
20 03 00 00 00 00 00 00     # u64 up to where it was durable: 800
";

const GROUP: &str = "
05 01 00 00 00 00 00 00     # u64 version of the first record: 261
3c 00 00 00 00 00 00 00     # u64 durable up to 60
02 00 00 00                 # u32 records
01                          # kind: put
ac 02                       # keyspace 300
03 6b 65 79                 # key: length, key
05 76 61 6c 75 65           # value: length, value
00                          # kind: delete
00                          # keyspace 0
01 78                       # key: length, x
";

fn golden_body() -> GroupBody {
    let mut encoded = Vec::new();
    put_record(&mut encoded, KeyspaceId(300), Kind::Put, b"key", b"value");
    put_record(&mut encoded, KeyspaceId(0), Kind::Delete, b"x", b"");
    let mut body = GroupBody::new();
    body.append(2, &encoded);
    body
}

#[test]
fn the_bytes_are_these() {
    let previous = Previous {
        number: FileNumber(12),
        end: 1000,
        durable: 800,
    };
    assert_eq!(encode_begin(Some(previous))[..], bytes_of(BEGIN));
    assert_eq!(decode_begin(&bytes_of(BEGIN)), Ok(Some(previous)));
    assert_eq!(decode_begin(&encode_begin(None)), Ok(None));
    let mut body = golden_body();
    assert_eq!(body.payload(Version(261), 60), bytes_of(GROUP));
    let bytes = bytes_of(GROUP);
    let group = decode_group(&bytes).unwrap();
    assert_eq!((group.first, group.durable), (Version(261), 60));
    let records: Vec<LogRecord<'_>> = group.records.map(|record| record.unwrap()).collect();
    let put = LogRecord {
        keyspace: KeyspaceId(300),
        kind: Kind::Put,
        key: b"key",
        value: b"value",
    };
    let delete = LogRecord {
        keyspace: KeyspaceId(0),
        kind: Kind::Delete,
        key: b"x",
        value: b"",
    };
    assert_eq!(records, [put, delete]);
}

fn decodes(bytes: &[u8]) -> std::result::Result<usize, Refused> {
    let records = decode_group(bytes)?.records;
    records
        .collect::<std::result::Result<Vec<_>, _>>()
        .map(|all| all.len())
}

#[test]
fn what_is_cut_or_has_more_is_refused() {
    let bytes = bytes_of(GROUP);
    for len in 0..bytes.len() {
        assert_eq!(decodes(&bytes[..len]), Err(Refused::Malformed), "{len}");
    }
    let more = [&bytes[..], &[0]].concat();
    assert_eq!(decodes(&more), Err(Refused::Malformed));
    let begin = bytes_of(BEGIN);
    for len in 0..begin.len() {
        assert_eq!(decode_begin(&begin[..len]), Err(Refused::Malformed));
    }
}

#[test]
fn what_a_later_version_may_write_is_told_apart() {
    let mut bytes = bytes_of(GROUP);
    bytes[20] = 3;
    assert!(matches!(decodes(&bytes), Err(Refused::Unknown(_))));
    let mut begin = bytes_of(BEGIN);
    begin[0] = 2;
    assert!(matches!(decode_begin(&begin), Err(Refused::Unknown(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = decodes(&bytes);
        let _ = decode_begin(&bytes);
    }
}

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn sim() -> SimVfs {
    let vfs = SimVfs::new(7);
    vfs.create_dir_all(dir()).unwrap();
    vfs
}

/// Appends a group of one record whose key is its version.
fn put(log: &mut LogWriter, version: u64) {
    let mut encoded = Vec::new();
    let key = version.to_string();
    put_record(
        &mut encoded,
        KeyspaceId(1),
        Kind::Put,
        key.as_bytes(),
        &[7; 700],
    );
    let mut body = GroupBody::new();
    body.append(1, &encoded);
    log.append(Version(version), &mut body).unwrap();
}

fn read_all(vfs: &SimVfs, needed: u64) -> Result<(Vec<u64>, Replayed)> {
    let names = vfs.list(dir()).unwrap();
    let mut numbers: Vec<FileNumber> = names
        .iter()
        .filter_map(|name| FileName::parse(name.to_str()?)?.number())
        .collect();
    numbers.sort_unstable();
    let mut seen = Vec::new();
    let needed = FileNumber(needed);
    let replayed = replay(vfs, dir(), &numbers, needed, Version::ZERO, &mut |group| {
        let first = group.first.0;
        for (at, record) in group.records.enumerate() {
            let version = first + at as u64;
            assert_eq!(record?.key, version.to_string().as_bytes());
            seen.push(version);
        }
        Ok(())
    })?;
    Ok((seen, replayed))
}

fn begin(vfs: &SimVfs, number: u64) -> LogWriter {
    LogWriter::begin(vfs, dir(), FileNumber(number), None).unwrap()
}

fn flip(vfs: &SimVfs, number: u64, at: u64) {
    let path = FileName::Log(FileNumber(number)).path(dir());
    let file = vfs.open(&path, true).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 1], at).unwrap();
    file.sync_data().unwrap();
}

fn numbers(given_up: &[FileNumber]) -> Vec<u64> {
    given_up.iter().map(|number| number.0).collect()
}

#[test]
fn what_was_appended_is_read_back_log_by_log() {
    let vfs = sim();
    let mut log = begin(&vfs, 3);
    (1..=5).for_each(|version| put(&mut log, version));
    let mut log = log.begin_next(&vfs, dir(), FileNumber(8)).unwrap();
    put(&mut log, 6);
    // Versions may be missing: they belong to groups that found no room.
    put(&mut log, 9);
    let (seen, replayed) = read_all(&vfs, 0).unwrap();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 9]);
    assert_eq!(replayed.last_version, Version(9));
    assert!(replayed.given_up.is_empty());
    let ends: Vec<u64> = replayed.read.iter().map(|log| log.end).collect();
    assert_eq!(ends[1], log.end());
}

/// Power fails at any time: the rest is a prefix that has everything that was synced.
#[test]
fn after_power_failures_a_prefix_is_left() {
    let mut torn = 0;
    for seed in 0..300u64 {
        let vfs = SimVfs::new(seed);
        vfs.create_dir_all(dir()).unwrap();
        let mut log = begin(&vfs, 1);
        let mut synced = 0;
        for version in 1..=30 {
            put(&mut log, version);
            if (version * 7 + seed) % 11 == 0 {
                log.sync().unwrap();
                synced = version;
            }
            if (version + seed) % 9 == 0 {
                log = log
                    .begin_next(&vfs, dir(), FileNumber(version + 1))
                    .unwrap();
            }
        }
        let mode = match seed % 3 {
            0 => CrashMode::PowerLossNothing,
            _ => CrashMode::PowerLossRandom(seed),
        };
        let (seen, replayed) = read_all(&vfs.crash(mode), 0).unwrap();
        assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>(), "{seed}");
        assert!(
            seen.len() as u64 >= synced,
            "{seed}: {} of {synced}",
            seen.len()
        );
        assert_eq!(replayed.last_version.0, seen.len() as u64);
        torn += u64::from(seen.len() < 30);
        let (seen, _) = read_all(&vfs.crash(CrashMode::Process), 0).unwrap();
        assert_eq!(seen.len(), 30);
    }
    assert!(torn > 100, "{torn}");
}

#[test]
fn damage_where_it_was_durable_is_an_error() {
    // A frame behind it in the same log tells.
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    log.sync().unwrap();
    put(&mut log, 2);
    flip(&vfs, 1, 100);
    assert_eq!(read_all(&vfs, 0).unwrap_err().kind(), ErrorKind::Corruption);

    // The begin of the next log tells.
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    log.sync().unwrap();
    log.begin_next(&vfs, dir(), FileNumber(2)).unwrap();
    flip(&vfs, 1, 100);
    assert_eq!(read_all(&vfs, 0).unwrap_err().kind(), ErrorKind::Corruption);

    // A sync of the next log tells, because this log was synced first.
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    let mut log = log.begin_next(&vfs, dir(), FileNumber(2)).unwrap();
    put(&mut log, 2);
    assert_eq!(log.sync().unwrap(), 2);
    put(&mut log, 3);
    flip(&vfs, 1, 100);
    assert_eq!(read_all(&vfs, 0).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn what_was_not_durable_may_be_torn_and_later_logs_are_given_up() {
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    (1..=3).for_each(|version| put(&mut log, version));
    let second = log.end();
    put(&mut log, 4);
    let mut log = log.begin_next(&vfs, dir(), FileNumber(5)).unwrap();
    put(&mut log, 5);
    let mut log = log.begin_next(&vfs, dir(), FileNumber(6)).unwrap();
    put(&mut log, 6);
    flip(&vfs, 1, second + 100);
    let (seen, replayed) = read_all(&vfs, 0).unwrap();
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(numbers(&replayed.given_up), [5, 6]);
    // Removing the logs was cut short after the newest one.
    vfs.remove(&FileName::Log(FileNumber(6)).path(dir()))
        .unwrap();
    let (seen, replayed) = read_all(&vfs, 0).unwrap();
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(numbers(&replayed.given_up), [5]);
    vfs.remove(&FileName::Log(FileNumber(5)).path(dir()))
        .unwrap();
    // Another life goes on behind this place, and the bytes behind it do not come back.
    let previous = Previous {
        number: FileNumber(1),
        end: second,
        durable: second,
    };
    let mut log = LogWriter::begin(&vfs, dir(), FileNumber(9), Some(previous)).unwrap();
    put(&mut log, 4);
    flip(&vfs, 1, second + 100);
    let (seen, replayed) = read_all(&vfs, 0).unwrap();
    assert_eq!(seen, [1, 2, 3, 4]);
    assert_eq!(replayed.read[0].end, second);
}

#[test]
fn a_log_that_was_not_begun_is_given_up_if_it_is_the_newest() {
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    let next = log.begin_next(&vfs, dir(), FileNumber(2)).unwrap();
    let path = FileName::Log(FileNumber(2)).path(dir());
    let begun = next.end();
    for len in [0, 10, begun - 1] {
        vfs.open(&path, true).unwrap().set_len(len).unwrap();
        let (seen, replayed) = read_all(&vfs, 0).unwrap();
        assert_eq!(
            (&seen[..], numbers(&replayed.given_up)),
            (&[1][..], vec![2])
        );
    }
    // A longer log was used.
    vfs.open(&path, true).unwrap().set_len(begun + 1).unwrap();
    assert_eq!(read_all(&vfs, 0).unwrap_err().kind(), ErrorKind::Corruption);
}

/// There was no room for the begin of a log, another log was begun later, and the removal of the
/// first one did not survive.
#[test]
fn a_log_that_was_not_begun_is_given_up_though_newer_ones_were() {
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    let left = vfs
        .create(&FileName::Log(FileNumber(2)).path(dir()))
        .unwrap();
    let mut log = log.begin_next(&vfs, dir(), FileNumber(3)).unwrap();
    put(&mut log, 2);
    let whole = vfs.read_file(&FileName::Log(FileNumber(1)).path(dir()));
    for len in [0, 10, 30] {
        left.set_len(0).unwrap();
        left.write_at(&whole[..len], 0).unwrap();
        let (seen, replayed) = read_all(&vfs, 0).unwrap();
        assert_eq!(seen, [1, 2]);
        assert_eq!(numbers(&replayed.given_up), [2]);
    }
    // If a log that was begun is cut, the next log misses it.
    let mut log = log.begin_next(&vfs, dir(), FileNumber(4)).unwrap();
    put(&mut log, 3);
    let path = FileName::Log(FileNumber(3)).path(dir());
    vfs.open(&path, true).unwrap().set_len(10).unwrap();
    assert_eq!(read_all(&vfs, 0).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_log_that_is_missing_is_damage() {
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    put(&mut log, 1);
    let mut log = log.begin_next(&vfs, dir(), FileNumber(2)).unwrap();
    put(&mut log, 2);
    let mut log = log.begin_next(&vfs, dir(), FileNumber(3)).unwrap();
    put(&mut log, 3);
    vfs.remove(&FileName::Log(FileNumber(1)).path(dir()))
        .unwrap();
    assert_eq!(read_all(&vfs, 1).unwrap_err().kind(), ErrorKind::Corruption);
    // This is no error if the manifest does not need the log.
    assert_eq!(read_all(&vfs, 2).unwrap().0, [2, 3]);
    let vfs = vfs.fork_state();
    vfs.remove(&FileName::Log(FileNumber(2)).path(dir()))
        .unwrap();
    assert_eq!(read_all(&vfs, 2).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_sync_is_of_what_was_not_durable() {
    let vfs = sim();
    let mut log = begin(&vfs, 1);
    assert_eq!(log.sync().unwrap(), 0);
    put(&mut log, 1);
    assert_eq!(log.sync().unwrap(), 1);
    put(&mut log, 2);
    let mut next = log.begin_next(&vfs, dir(), FileNumber(2)).unwrap();
    put(&mut next, 3);
    next.forget_below(FileNumber(1));
    assert_eq!(next.sync().unwrap(), 2);
    let mut next = log.begin_next(&vfs, dir(), FileNumber(4)).unwrap();
    next.forget_below(FileNumber(2));
    assert_eq!(next.sync().unwrap(), 0);
}

/// No engine writes frames that verify and whose versions do not ascend.
#[test]
fn versions_that_do_not_ascend_are_damage() {
    for second in [4, 5] {
        let vfs = sim();
        let mut log = begin(&vfs, 1);
        put(&mut log, 5);
        put(&mut log, second);
        let refused = read_all(&vfs, 1).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{second}");
    }
}
