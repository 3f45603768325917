//! The manifest's formats, byte for byte. A difference is a change of format: raise the version.

use super::edit::{self, tests::samples};
use super::writer;
use evendb_storage::vfs::{SimVfs, Vfs};
use std::path::Path;

/// The bytes of annotated hex: what is before `#` in each line.
fn bytes_of(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).expect("hex"))
        .collect()
}

const CURRENT: &str = "
45 56 45 4e 43 55 52        # magic EVENCUR
32                          # format version, the digit 2
2a 00 00 00 00 00 00 00     # u64 number of the manifest: MANIFEST-000042
e8 03 00 00 00 00 00 00     # u64 length up to which it must verify: 1000
01 00 00 00                 # u32 1: closed cleanly
CRC                         # u32 crc32c of the bytes before
";

const EDIT: &str = "
01                          # 1 Format
80 80 04                    #   bytes of the commit log: 65536
02                          # 2 Epoch
02                          #   epoch 2
ff ff ff ff ff ff ff ff ff 01   # seed
84 07                       #   first position: 900
80 07                       #   the epoch before ends at 896
06                          #   last completed checkpoint: 6
10                          #   length of the machine's boot id, 0 if unknown
6f 6e 65 20 73 74 61 72 74 20 6f 66 20 69 74 2e # it
03                          # 3 CreateKeyspace
01                          #   keyspace 1
06 65 76 65 6e 74 73        #   length, events
09                          # 9 SetProperty
01                          #   keyspace 1
05 6d 65 72 67 65           #   length, merge
01 03 61 64 64              #   a value: length, add
09                          # 9 SetProperty
01                          #   keyspace 1
05 6f 72 64 65 72           #   length, order
01 00                       #   a value, which is empty
05                          # 5 SetChunk
09                          #   chunk 9
01                          #   keyspace 1
01 6b                       #   low key: length, k
01                          #   one table
03                          #     table 3
00                          #     in a file of its own
00                          #     part of the base
02                          #     written in epoch 2
07                          #     by checkpoint 7
a0 1f                       #     bytes: 4000
28                          #     entries: 40
03                          #     deletions: 3
bc 1e                       #     bytes of keys and values: 3900
80 80 80 38                 #     greatest version: 7 << 24
02 61 61                    #     least key: length, aa
02 7a 7a                    #     greatest key: length, zz
ef fd b6 f5 0d              #     checksum of the table: 0xdeadbeef
07                          # 7 AddParts
09                          #   chunk 9
01                          #   one table
04                          #     table 4
01 80 04                    #     in the chunks' logs at 512
06                          #     run with ordinal 5, plus one
02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as above
08                          # 8 Checkpoint
07                          #   number 7
80 08                       #   replay from 1024
09                          # 9 SetProperty
01                          #   keyspace 1
05 6d 65 72 67 65           #   length, merge
00                          #   no value: taken away
06                          # 6 RemoveChunk
09                          #   chunk 9
04                          # 4 DropKeyspace
01                          #   keyspace 1
";

#[test]
fn an_edit() {
    let bytes = bytes_of(EDIT);
    assert_eq!(edit::encode(&samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(samples()));
}

#[test]
fn current() {
    let mut bytes = bytes_of(&CURRENT.replace("CRC", ""));
    let crc = evendb_storage::codec::checksum(0, &[&bytes]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(crc, CURRENT_CRC, "{crc:#x}");
    let vfs = SimVfs::new(1);
    let dir = Path::new("/db");
    vfs.create_dir_all(dir).expect("creates");
    vfs.write_file(&dir.join("CURRENT"), bytes.clone());
    let read = writer::read_current(&vfs, dir).expect("reads");
    let current = writer::Current {
        id: 42,
        verified: 1000,
        closed: true,
    };
    assert_eq!(read, current);
    writer::write_current(&vfs, dir, current).expect("writes");
    assert_eq!(vfs.read_file(&dir.join("CURRENT")), bytes);
}

/// Of the bytes above.
const CURRENT_CRC: u32 = 0xe495_71b3;
