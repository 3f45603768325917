//! The formats, byte for byte and in both directions: today's code writes these bytes, and reads
//! them back as the same things. A difference is a change of the format: raise its version.

use super::super::change::{self, AddTable, Change, ENGINE, FORMAT_VERSION, Refused};
use super::super::current::{self, Current};
use crate::types::{Age, FileNumber, KeyspaceId, Level};
use evendb_storage::table::TableMeta;
use evendb_storage::{ErrorKind, TableId, Version};
use proptest::prelude::*;
use std::path::Path;

/// The bytes of annotated hex. In each line the text from `#` on is a comment.
fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

const CURRENT: &str = "
45 56 45 4e 43 55 52 46     # magic EVENCURF
01 00 00 00                 # u32 format version 1
2a 00 00 00 00 00 00 00     # u64 number of the manifest: MANIFEST-000042
e8 03 00 00 00 00 00 00     # u64 length up to which it must verify: 1000
1d 38 b2 17                 # u32 crc32c of the bytes before
";

const EDIT: &str = "
01                          # 1 Format
04 66 6c 73 6d              #   engine: length, flsm
01                          #   format version 1
02                          # 2 CreateKeyspace
01                          #   keyspace 1
06 65 76 65 6e 74 73        #   length, events
03                          # 3 DropKeyspace
07                          #   keyspace 7
04                          # 4 NextFile
ac 02                       #   300
05                          # 5 NextKeyspace
08                          #   8
06                          # 6 LastVersion
80 80 01                    #   16384
07                          # 7 LogNumber
c8 01                       #   200
09                          # 9 RemoveTable
01                          #   keyspace 1
09                          #   table 9
08                          # 8 AddTable
01                          #   keyspace 1
06                          #   level 6
ab 02                       #   table 299
aa 02                       #   age 298
a0 1f                       #   bytes: 4000
28                          #   records: 40
03                          #   deletes: 3
bc 1e                       #   bytes of keys and values: 3900
ff 7f                       #   greatest version: 16383
02 61 61                    #   least key: length, aa
02 7a 7a                    #   greatest key: length, zz
ef fd b6 f5 0d              #   checksum of the table: 0xdeadbeef
0a                          # 10 SetGuard
01                          #   keyspace 1
05                          #   of level 5 and deeper
01 6d                       #   key: length, m
0a                          # 10 SetGuard
01                          #   keyspace 1
07                          #   of no level
01 6e                       #   key: length, n
0b                          # 11 MoveTable
01                          #   keyspace 1
08                          #   table 8
05                          #   to level 5
ad 02                       #   age 301
0c                          # 12 GuardSecret
ff ff ff ff ff ff ff ff ff 01 #   2^64-1
";

fn samples() -> Vec<Change> {
    let keyspace = KeyspaceId(1);
    vec![
        Change::Format {
            engine: ENGINE.to_owned(),
            version: FORMAT_VERSION,
        },
        Change::CreateKeyspace {
            id: keyspace,
            name: "events".to_owned(),
        },
        Change::DropKeyspace { id: KeyspaceId(7) },
        Change::NextFile(FileNumber(300)),
        Change::NextKeyspace(KeyspaceId(8)),
        Change::LastVersion(Version(16384)),
        Change::LogNumber(FileNumber(200)),
        Change::RemoveTable {
            keyspace,
            number: TableId(9),
        },
        Change::AddTable(Box::new(AddTable {
            keyspace,
            level: Level(6),
            number: TableId(299),
            age: Age(298),
            meta: TableMeta {
                len: 4000,
                entries: 40,
                deletes: 3,
                data_bytes: 3900,
                max_version: Version(16383),
                min_key: b"aa".to_vec(),
                max_key: b"zz".to_vec(),
                checksum: 0xdead_beef,
                ..TableMeta::default()
            },
        })),
        Change::SetGuard {
            keyspace,
            from: Some(Level(5)),
            key: b"m".to_vec(),
        },
        Change::SetGuard {
            keyspace,
            from: None,
            key: b"n".to_vec(),
        },
        Change::MoveTable {
            keyspace,
            number: TableId(8),
            to: Level(5),
            age: Age(301),
        },
        Change::GuardSecret(u64::MAX),
    ]
}

fn encoded(changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::new();
    changes
        .iter()
        .for_each(|change| change::encode(&mut bytes, change));
    bytes
}

#[test]
fn an_edit_is_these_bytes() {
    let bytes = bytes_of(EDIT);
    assert_eq!(encoded(&samples()), bytes);
    assert_eq!(change::decode(&bytes), Ok(samples()));
}

#[test]
fn an_edit_that_is_cut_short_is_the_whole_changes_or_nothing() {
    let samples = samples();
    let mut whole = vec![0];
    for number in 1..=samples.len() {
        whole.push(encoded(&samples[..number]).len());
    }
    let bytes = encoded(&samples);
    for len in 0..bytes.len() {
        let decoded = change::decode(&bytes[..len]);
        match whole.iter().position(|&end| end == len) {
            Some(number) => assert_eq!(decoded, Ok(samples[..number].to_vec())),
            None => assert_eq!(decoded, Err(Refused::Malformed), "{len} bytes"),
        }
    }
}

#[test]
fn what_a_later_version_wrote_is_told_from_nonsense() {
    for tag in [0, 13, 255] {
        let refused = change::decode(&[tag, 1, 1]).unwrap_err();
        assert!(matches!(refused, Refused::Unknown(_)), "{refused:?}");
    }
    // A level that does not exist, a keyspace of 33 bits, a name that is not text.
    for bytes in [
        &[10, 1, 8, 1, 0x6e][..],
        &[3, 0x80, 0x80, 0x80, 0x80, 0x10],
        &[2, 1, 1, 0xff],
    ] {
        assert_eq!(change::decode(bytes), Err(Refused::Malformed));
    }
}

#[test]
fn current_is_these_bytes() {
    let bytes = bytes_of(CURRENT);
    let current = Current {
        manifest: FileNumber(42),
        verified: 1000,
    };
    assert_eq!(current::encode(current), bytes);
    let path = Path::new("/db/CURRENT");
    assert_eq!(current::decode(path, &bytes).unwrap(), current);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(current::decode(path, &bad).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        let error = current::decode(path, &bytes[..len]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(current::decode(path, &longer).is_err());
}

/// The bytes of version 5 of the first engine.
#[test]
fn the_other_engine_and_other_versions_are_refused_as_that() {
    let path = Path::new("/db/CURRENT");
    let mut other_engine = bytes_of(CURRENT);
    other_engine[7] = b'5';
    let mut other_version = bytes_of(CURRENT);
    other_version[8] = 2;
    for (bytes, what) in [
        (other_engine, "another EvenDB engine"),
        (other_version, "version 2"),
    ] {
        let error = current::decode(path, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(what), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..60), tag in 0u8..14) {
        let _ = change::decode(&[&[tag], &noise[..]].concat());
        let _ = current::decode(Path::new("/c"), &[&b"EVENCURF"[..], &noise].concat());
    }
}
