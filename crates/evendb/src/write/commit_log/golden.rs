//! A commit-log record with its payload, byte for byte. A difference is a change of format.

use super::test_file::TestFile;
use super::*;
use crate::manifest::KeyspaceId;
use crate::sync::Arc;
use crate::write::payload::{Decoded, DecodedOp, Encoded, decode};
use evendb_storage::vfs::File;
use evendb_storage::{Kind, Version};

const SEED: u64 = 0x0123_4567_89ab_cdef;

fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

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
ff                          # u8 kind: value extent
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
        op(Kind::Put, 2, &b"key"[..], &b"value"[..]),
        op(Kind::Delete, 1, b"x", b""),
    ];
    assert_eq!(decode(&bytes), Some(Decoded::Inline(ops)));
}

#[test]
fn an_extent() {
    let bytes = bytes_of(EXTENT);
    let encoded = Encoded::extent(0x1_0000_0015, 0x4000, 0xdead_beef);
    assert_eq!(encoded.parts(&[]).concat(), bytes);
    let decoded = Decoded::Extent {
        id: 0x1_0000_0015,
        len: 0x4000,
        checksum: 0xdead_beef,
    };
    assert_eq!(decode(&bytes), Some(decoded));
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
        Lsn(0),
        Lsn(0),
    )
    .expect("starts");
    let before = log.append(Version(0x0404), &[]).expect("appends");
    assert_eq!(before, Lsn(40));
    log.append(Version(0x0404), &[]).expect("appends");
    // A sync of the first record alone.
    log.raise_durable(Lsn(48));
    log.append(Version(0x0405), &[&payload]).expect("appends");
    let record = RECORD.replace("CRC", RECORD_CRC);
    let expected = bytes_of(&record.replace("PAYLOAD", PAYLOAD_CRC));
    let bytes = file.0.lock().bytes.clone();
    assert_eq!(bytes[80..120], expected);
    assert_eq!(bytes[120..155], payload);
    assert_eq!(log.head(), Lsn(160), "padded to a multiple of 8");
}

/// Of the record above.
const RECORD_CRC: &str = "9e 87 32 11";
const PAYLOAD_CRC: &str = "64 81 c7 ef";
