//! Commit-log records with their payloads, byte for byte and in both directions. A difference is a
//! change of format.

use super::record::{HEADER_BYTES, Header, HeaderKind, payload_checksum, verifies};
use super::recover::{FoundInRing, RingReader};
use super::test_file::TestFile;
use super::*;
use crate::golden_text::{bytes_of, kept_file};
use crate::manifest::KeyspaceId;
use crate::op::OpKind;
use crate::options::Writing;
use crate::payload::{Decoded, DecodedOp, Encoded, ExtentName, decode, has_later_kind};
use crate::sync::Arc;
use crate::value_extents;
use evendb_storage::vfs::File;
use evendb_storage::{Apart, Kind, Version, codec};

const SEED: u64 = 0x0123_4567_89ab_cdef;

const RECORD: &str = "
CRC                         # u32 crc32c of the rest of the header, from the epoch's seed
23 00 00 30                 # u32 length of the payload 35, kind 3 in the high bits
50 00 00 00 00 00 00 00     # u64 position
03 00 00 00                 # u32 epoch
04 00 00 00                 # u32 what is durable ends 4 * 8 bytes below
05 04 00 00 00 00 00 00     # u64 version
0a 00 00 00                 # u32 the tail of the log is 10 * 8 bytes below
PAYLOAD                     # u32 crc32c of the payload, from the epoch's seed
";

/// The same record, by an appender that wrote the header first.
const RECORD_HEADER_FIRST: &str = "
e5 ce 40 77                 # u32 crc32c of the rest of the header, from the epoch's seed
23 00 00 10                 # u32 length of the payload 35, kind 1 in the high bits
50 00 00 00 00 00 00 00 03 00 00 00 04 00 00 00 # as above
05 04 00 00 00 00 00 00 0a 00 00 00 64 81 c7 ef # as above
";

const FILLER: &str = "
14 60 47 60                 # u32 crc32c of the rest of the header, from the epoch's seed
18 00 00 20                 # u32 it covers 24 bytes more, kind 2 in the high bits
c0 ff 00 00 10 00 00 00     # u64 position
03 00 00 00                 # u32 epoch
ff ff ff ff                 # u32 what is durable lies too far below, or is unknown
00 00 00 00 00 00 00 00     # u64 no version
00 00 00 00                 # u32 the tail is here
cb 2d 07 e1                 # u32 crc32c of nothing, from the epoch's seed
";

const PAYLOAD: &str = "
01                          # u8 kind: put
02 00 00 00                 # u32 keyspace 2
03 00 00 00                 # u32 length of the key
05 00 00 00                 # u32 length of the value
6b 65 79                    # key
76 61 6c 75 65              # value
00                          # u8 kind: delete
01 00 00 00                 # u32 keyspace 1
01 00 00 00                 # u32 length of the key
00 00 00 00                 # u32 length of the value
78                          # key x
";

const EXTENT: &str = "
KIND                        # u8 kind: value extent, synced before this (ff) or not (fe)
15 00 00 00 01 00 00 00     # u64 file: 0000000100000015.val
00 40 00 00 00 00 00 00     # u64 length of the file
ef be ad de                 # u32 crc32c of its contents
";

#[test]
fn a_payload() {
    let bytes = bytes_of(PAYLOAD);
    let op = |kind, keyspace, key, value| DecodedOp {
        kind,
        keyspace: KeyspaceId(keyspace),
        key,
        value,
    };
    let ops = vec![
        op(OpKind::One(Kind::Put), 2, &b"key"[..], &b"value"[..]),
        op(OpKind::One(Kind::Delete), 1, b"x", b""),
    ];
    assert_eq!(decode(&bytes), Some(Decoded::Inline(ops)));
}

const OTHER_KINDS: &str = "
03                          # u8 kind: merge
02 00 00 00                 # u32 keyspace 2
01 00 00 00                 # u32 length of the key
04 00 00 00                 # u32 length of the operands
61                          # key
02 2b 31                    # v length of the first operand, and it
00                          # v length of the second operand
04                          # u8 kind: put until a time
02 00 00 00                 # u32 keyspace 2
01 00 00 00                 # u32 length of the key
0a 00 00 00                 # u32 length of time and value
62                          # key
00 68 e5 cf 8b 01 00 00     # u64 milliseconds since 1970
76 31                       # value
07                          # u8 kind: single delete
02 00 00 00                 # u32 keyspace 2
01 00 00 00                 # u32 length of the key
00 00 00 00                 # u32 no value
63                          # key
";

#[test]
fn records_of_other_kinds() {
    let bytes = bytes_of(OTHER_KINDS);
    let op = |kind, key, value| DecodedOp {
        kind: OpKind::One(kind),
        keyspace: KeyspaceId(2),
        key,
        value,
    };
    let until = [&1_700_000_000_000u64.to_le_bytes()[..], b"v1"].concat();
    let ops = vec![
        op(Kind::Merge, &b"a"[..], &b"\x02+1\0"[..]),
        op(Kind::PutUntil, b"b", &until),
        op(Kind::SingleDelete, b"c", b""),
    ];
    assert_eq!(decode(&bytes), Some(Decoded::Inline(ops)));
    assert!(!has_later_kind(&bytes));
    // A value apart, in keyspace 2, and a value apart with a truncated place.
    let place = "01 00 00 00 07 00 00 00  00 10 00 00 00 00 00 00  2c 01 00 00  0d 0c 0b 0a";
    let apart = bytes_of(&format!(
        "05 02 00 00 00 01 00 00 00 18 00 00 00 61 {place}"
    ));
    let value = &apart[14..];
    let ops = vec![op(Kind::PutApart, &b"a"[..], value)];
    assert_eq!(decode(&apart), Some(Decoded::Inline(ops)));
    let named = Apart::of(Kind::PutApart, value).unwrap();
    let (file, offset) = (7 << 32 | 1, 4096);
    assert_eq!((named.file, named.offset, named.len), (file, offset, 300));
    assert_eq!(named.checksum, 0x0a0b_0c0d);
    let mut cut = apart[..apart.len() - 1].to_vec();
    cut[9] = 0x17;
    assert_eq!(decode(&cut), None);
    assert!(!has_later_kind(&cut));
    // Operands that are longer than their list, and a truncated time.
    let mut bad = bytes.clone();
    bad[14] = 4;
    assert_eq!(decode(&bad), None);
    assert_eq!(
        decode(&bytes_of("04 02 00 00 00 00 00 00 00 02 00 00 00 01 02")),
        None
    );
    // Kinds that later versions will write.
    for kind in [8, 9, 0xf0] {
        let mut later = bytes.clone();
        later[0] = kind;
        assert_eq!(decode(&later), None);
        assert!(has_later_kind(&later));
        assert!(!has_later_kind(&later[..later.len() - 1]), "cut short");
    }
}

const RANGE_DELETION: &str = "
02                          # u8 kind: range deletion
02 00 00 00                 # u32 keyspace 2
01 00 00 00                 # u32 length of the least key
02 00 00 00                 # u32 length of the first key behind it
61                          # from a
61 7a                       # to below az
02 02 00 00 00              # range deletion, keyspace 2
01 00 00 00 00 00 00 00     # lengths
78                          # from x to the end
";

#[test]
fn a_range_deletion() {
    let bytes = bytes_of(RANGE_DELETION);
    let op = |key, value| DecodedOp {
        kind: OpKind::RangeDelete,
        keyspace: KeyspaceId(2),
        key,
        value,
    };
    let ops = vec![op(&b"a"[..], &b"az"[..]), op(b"x", b"")];
    assert_eq!(decode(&bytes), Some(Decoded::Inline(ops)));
}

#[test]
fn an_extent() {
    for (is_synced, kind) in [(true, "ff"), (false, "fe")] {
        let bytes = bytes_of(&EXTENT.replace("KIND", kind));
        let name = ExtentName {
            id: 0x1_0000_0015,
            len: 0x4000,
            checksum: 0xdead_beef,
            is_synced,
        };
        let encoded = Encoded::extent(name);
        assert_eq!(encoded.parts(&[]).concat(), bytes);
        assert_eq!(encoded.extent_name(), Some(name));
        assert_eq!(decode(&bytes), Some(Decoded::Extent(name)));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
    }
}

#[test]
fn a_record() {
    let payload = bytes_of(PAYLOAD);
    let file = TestFile::new(CAPACITY_MIN);
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let log = CommitLog::start(
        shared,
        CAPACITY_MIN,
        Writing::Mapped,
        3,
        SEED,
        Lsn(0)..Lsn(0),
    )
    .expect("starts");
    let before = log.append(Version(0x0404), &[]).expect("appends");
    assert_eq!(before, Lsn(40));
    log.append(Version(0x0404), &[]).expect("appends");
    // A sync of only the first record.
    log.raise_durable(Lsn(48));
    log.append(Version(0x0405), &[&payload]).expect("appends");
    let record = RECORD.replace("CRC", RECORD_CRC);
    let expected = bytes_of(&record.replace("PAYLOAD", PAYLOAD_CRC));
    let bytes = file.0.lock().bytes.clone();
    assert_eq!(bytes[80..120], expected);
    assert_eq!(bytes[120..155], payload);
    assert_eq!(log.head(), Lsn(160), "padded to a multiple of 8");
}

/// The checksums of the record above.
const RECORD_CRC: &str = "9e 87 32 11";
const PAYLOAD_CRC: &str = "64 81 c7 ef";

#[test]
fn headers_of_every_kind() {
    let sealed = RECORD.replace("CRC", RECORD_CRC);
    let sealed = sealed.replace("PAYLOAD", PAYLOAD_CRC);
    let record = Header {
        kind: HeaderKind::Sealed,
        payload_len: 35,
        lsn: Lsn(80),
        epoch: 3,
        version: Version(0x0405),
        tail: Lsn(0),
        durable: Lsn(48),
        payload_checksum: payload_checksum(SEED, &[&bytes_of(PAYLOAD)]),
    };
    let first = Header {
        kind: HeaderKind::Record,
        ..record
    };
    let filler = Header {
        kind: HeaderKind::Filler,
        payload_len: 24,
        lsn: Lsn(0x10_0000_ffc0),
        epoch: 3,
        version: Version(0),
        tail: Lsn(0x10_0000_ffc0),
        durable: Lsn(0),
        payload_checksum: payload_checksum(SEED, &[]),
    };
    for (text, header) in [
        (&sealed[..], record),
        (RECORD_HEADER_FIRST, first),
        (FILLER, filler),
    ] {
        let bytes: [u8; HEADER_BYTES] = bytes_of(text).try_into().expect("a header");
        assert!(verifies(SEED, &bytes), "{header:?}");
        assert!(!verifies(SEED + 1, &bytes), "{header:?}");
        assert_eq!(Header::decode(&bytes), Some(header));
        assert_eq!(header.encode(SEED), bytes);
    }
    for unknown in [0, 4, 15] {
        let mut bytes: [u8; HEADER_BYTES] = bytes_of(FILLER).try_into().expect("a header");
        bytes[7] = unknown << 4;
        assert_eq!(Header::decode(&bytes), None, "kind {unknown}");
    }
}

/// Seed of the kept database's one epoch.
const KEPT_SEED: u64 = 0x6148_fb51_30fe_6957;

/// Each record of the kept database's log is read, and its header, written again, is the bytes that
/// were read.
#[test]
fn the_commit_log_of_the_kept_database() {
    let bytes = kept_file("COMMIT-LOG");
    let segment = Segment {
        epoch: 1,
        seed: KEPT_SEED,
        start: Lsn(0),
        closed_at: None,
    };
    let file = TestFile::of(bytes.clone());
    let mut reader = RingReader::new(&file, bytes.len() as u64, Lsn(0));
    let (mut at, mut ops, mut extents) = (0, 0, 0);
    while let FoundInRing::Whole(header, payload) = reader.read(Lsn(at), &segment).expect("reads") {
        let start = at as usize;
        let end = start + HEADER_BYTES;
        assert_eq!(header.encode(KEPT_SEED), bytes[start..end], "at {at}");
        assert_eq!(payload, &bytes[end..end + header.payload_len as usize]);
        match decode(payload).expect("a payload") {
            Decoded::Inline(inline) => ops += inline.len(),
            Decoded::Extent(name) => {
                let contents = kept_file(&value_extents::file_name(name.id));
                assert_eq!(name.len, contents.len() as u64);
                assert_eq!(name.checksum, codec::checksum(name.id, &[&contents]));
                assert!(name.is_synced);
                extents += 1;
            }
        }
        at += header.total_bytes();
    }
    // Two rounds of part 0, parts 1 and 2 of `tests/golden.rs`.
    assert_eq!((ops, extents), (2 * 80 + 20 + 7, 1));
}
