//! The manifest's formats, byte for byte and in both directions: edits are encoded as these bytes,
//! and these bytes are decoded as the edits. A difference is a change of format: raise the version.

use super::current::{CURRENT_LEN, Current, read_current, write_current};
use super::edit::tests::{
    apart_samples, expiring_samples, guard_samples, renaming_samples, samples,
};
use super::edit::{self, Change, EpochRecord};
use crate::commit_log::Lsn;
use crate::golden_text::{bytes_of, kept_file};
use evendb_storage::ErrorKind;
use evendb_storage::framed_log::{FramedLogWriter, read_frames};
use evendb_storage::vfs::{File, SimVfs, Vfs};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const CURRENT_CLOSED: &str = "
45 56 45 4e 43 55 52        # magic EVENCUR
37                          # format version, the digit 7
2a 00 00 00 00 00 00 00     # u64 number of the manifest: MANIFEST-000042
e8 03 00 00 00 00 00 00     # u64 length up to which it must verify: 1000
01 00 00 00                 # u32 1: closed cleanly
ea fb b6 dd                 # u32 crc32c of the bytes before
";

const CURRENT_OPEN: &str = "
45 56 45 4e 43 55 52        # magic EVENCUR
37                          # format version, the digit 7
40 42 0f 00 00 00 00 00     # u64 number of the manifest: MANIFEST-1000000
18 00 00 00 00 00 00 00     # u64 length up to which it must verify: 24
00 00 00 00                 # u32 0: open, or its process died
e1 71 24 12                 # u32 crc32c of the bytes before
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
0b                          # 11 AddCovers
09                          #   chunk 9
01                          #   one range deletion
02 6b 61                    #     least key: length, ka
00                          #     the first key behind it, empty: the chunk's end
83 80 80 38                 #     version: 7 << 24 and 3
0a                          # 10 SetChunk with range deletions
09 01 01 6b                 #   as 5 SetChunk
01 03 00 00 02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as above
02                          #   two range deletions
02 6b 61 01 6e 83 80 80 38  #     from ka to below n
02 6b 61 00 83 80 80 38     #     from ka to the chunk's end
06                          # 6 RemoveChunk
09                          #   chunk 9
04                          # 4 DropKeyspace
01                          #   keyspace 1
";

const EXPIRING: &str = "
07                          # 7 AddParts
09                          #   chunk 9
02                          #   two tables
03                          #     table 3
02                          #     in a file of its own, and records expire
00 02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as in an edit of others
25                          #     records that expire: 37
80 d0 95 ff bc 31           #     the last one at 1,700,000,000,000 ms
03                          #     table 3
03 80 04                    #     in the chunks' logs at 512, and records expire
00 02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as above
25 80 d0 95 ff bc 31        #     as above
";

/// An epoch of a machine that does not say when it started.
const EPOCH_WITHOUT_BOOT: &str = "
02                          # 2 Epoch
80 80 80 80 10              #   epoch 1 << 32
00                          #   seed
00                          #   first position
00                          #   no epoch before
00                          #   no checkpoint was completed
00                          #   length of the machine's boot id: unknown
";

#[test]
fn an_edit() {
    let bytes = bytes_of(EDIT);
    assert_eq!(edit::encode(&samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(samples()));
}

#[test]
fn tables_in_which_records_expire() {
    let bytes = bytes_of(EXPIRING);
    assert_eq!(edit::encode(&expiring_samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(expiring_samples()));
}

const APART: &str = "
07                          # 7 AddParts
09                          #   chunk 9
02                          #   tables
03                          #   table 3
04                          #     a file of its own, some of its values lie apart
00                          #     base
02 07                       #     epoch 2, checkpoint 7
a0 1f 28 03 bc 1e           #     4000 bytes, 40 records, 3 deletes, 3900 bytes of data
80 80 80 38                 #     greatest version: 7 << 24
02 61 61                    #     least key
02 7a 7a                    #     greatest key
ef fd b6 f5 0d              #     checksum
02                          #     value files
83 80 80 80 10              #       number 1 << 32 | 3
f0 a2 04                    #       70000 bytes of values
89 80 80 80 10              #       number 1 << 32 | 9
80 80 01                    #       16384 bytes
04                          #   table 4
07                          #     an extent; records expire, and values lie apart
80 04                       #     offset 512
00                          #     base
02 07                       #     epoch 2, checkpoint 7
a0 1f 28 03 bc 1e           #     4000 bytes, 40 records, 3 deletes, 3900 bytes of data
80 80 80 38                 #     greatest version: 7 << 24
02 61 61                    #     least key
02 7a 7a                    #     greatest key
ef fd b6 f5 0d              #     checksum
05                          #     records that expire
88 27                       #     time of the last: 5000
02                          #     value files
83 80 80 80 10              #       number 1 << 32 | 3
f0 a2 04                    #       70000 bytes of values
89 80 80 80 10              #       number 1 << 32 | 9
80 80 01                    #       16384 bytes
";

#[test]
fn tables_of_which_values_lie_apart() {
    let bytes = bytes_of(APART);
    assert_eq!(edit::encode(&apart_samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(apart_samples()));
}

const GUARDS: &str = "
03                          # 3 CreateKeyspace
02                          #   keyspace 2
06 67 75 61 72 64 73        #   length, guards
0c                          # 12 SetChunk with guards
0a                          #   chunk 10
02                          #   keyspace 2
00                          #   low key: empty
02                          #   two tables
05                          #     table 5
08                          #     in a file of its own, of a guard
06                          #     level 6
ac 02                       #     age 300
02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as in an edit of others
06 01 80 04 06 02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # a run
01 02 6b 61 00 83 80 80 38  #   one range deletion: from ka to the chunk's end
2a                          #   secret of the hash that chooses guards: 42
01                          #   one guard
01 6d                       #     key: length, m
05                          #     from level 5 on
0d                          # 13 EditFragments
0a                          #   chunk 10
02 05 06                    #   two tables are gone: 5 and 6
02                          #   two tables
05 08 06 ad 02              #     table 5, as above, with age 301
02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as above
07 08 05 ad 02              #     table 7, in level 5, with age 301
02 07 a0 1f 28 03 bc 1e 80 80 80 38 02 61 61 02 7a 7a ef fd b6 f5 0d # as above
02                          #   two guards
01 63 06                    #     c from level 6 on
01 6d 04                    #     m from level 4 on
0e                          # 14 Container
03                          #   new runs go to CHUNK-LOGS-000003
";

#[test]
fn a_chunk_with_guards() {
    let bytes = bytes_of(GUARDS);
    assert_eq!(edit::encode(&guard_samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(guard_samples()));
}

const RENAMING: &str = "
03 03 06 65 76 65 6e 74 73  # 3 CreateKeyspace: keyspace 3, events
03 04 04 6e 65 78 74        # 3 CreateKeyspace: keyspace 4, next
0f                          # 15 RenameKeyspace
03                          #   keyspace 3
04 6e 65 78 74              #   length, next
0f                          # 15 RenameKeyspace
04                          #   keyspace 4
06 65 76 65 6e 74 73        #   length, events
";

#[test]
fn two_keyspaces_that_exchange_their_names() {
    let bytes = bytes_of(RENAMING);
    assert_eq!(edit::encode(&renaming_samples()), bytes);
    assert_eq!(edit::decode(&bytes), Some(renaming_samples()));
}

#[test]
fn an_epoch_of_an_unknown_start() {
    let bytes = bytes_of(EPOCH_WITHOUT_BOOT);
    let epoch = vec![Change::Epoch(EpochRecord {
        epoch: 1 << 32,
        seed: 0,
        start: Lsn(0),
        previous_closed_at: Lsn(0),
        completed_before: 0,
        boot: None,
    })];
    assert_eq!(edit::encode(&epoch), bytes);
    assert_eq!(edit::decode(&bytes), Some(epoch));
}

/// The compiler leads everyone who adds a kind of change to this test, and then to [`EDIT`].
#[test]
fn every_kind_of_change_has_golden_bytes() {
    let tag = |change: &Change| match change {
        Change::Format { .. } => 1,
        Change::Epoch(_) => 2,
        Change::CreateKeyspace { .. } => 3,
        Change::DropKeyspace { .. } => 4,
        Change::SetChunk(chunk) if chunk.guards.is_some() => 12,
        Change::SetChunk(chunk) if chunk.covers.is_empty() => 5,
        Change::SetChunk(_) => 10,
        Change::RemoveChunk { .. } => 6,
        Change::AddParts { .. } => 7,
        Change::Checkpoint { .. } => 8,
        Change::SetProperty { .. } => 9,
        Change::AddCovers { .. } => 11,
        Change::EditFragments { .. } => 13,
        Change::Container { .. } => 14,
        Change::RenameKeyspace { .. } => 15,
    };
    let all = [samples(), guard_samples(), renaming_samples()].concat();
    let kinds: BTreeSet<u8> = all.iter().map(tag).collect();
    assert_eq!(kinds, (1..=15).collect(), "a kind without golden bytes");
    for change in all {
        assert_eq!(edit::encode(std::slice::from_ref(&change))[0], tag(&change));
    }
    for unknown in [0, 15, 0x7f] {
        assert_eq!(edit::decode(&[unknown, 1, 1, 1, 1]), None, "{unknown}");
    }
}

fn simulated(name: &str, bytes: Vec<u8>) -> (SimVfs, &'static Path) {
    let (vfs, dir) = (SimVfs::new(1), Path::new("/db"));
    vfs.create_dir_all(dir).expect("creates");
    vfs.write_file(&dir.join(name), bytes);
    (vfs, dir)
}

#[test]
fn current() {
    for (text, id, verified, closed) in [
        (CURRENT_CLOSED, 42, 1000, true),
        (CURRENT_OPEN, 1_000_000, 24, false),
    ] {
        let bytes = bytes_of(text);
        let (vfs, dir) = simulated("CURRENT", bytes.clone());
        let current = Current {
            id,
            verified,
            closed,
        };
        assert_eq!(read_current(&vfs, dir).expect("reads"), current);
        vfs.remove_file(&dir.join("CURRENT"));
        write_current(&vfs, dir, current).expect("writes");
        assert_eq!(vfs.read_file(&dir.join("CURRENT")), bytes);
    }
}

/// Versions 2 to 7 are read. Any other version is recognised by its number, whatever its length and
/// its checksum are; a byte that is no version number is damage.
#[test]
fn current_of_other_versions() {
    for version in [b'1', b'8', b'9'] {
        for len in [8, 28, CURRENT_LEN, 40] {
            let mut bytes = bytes_of(CURRENT_CLOSED);
            bytes[7] = version;
            bytes.resize(len, 0);
            let (vfs, dir) = simulated("CURRENT", bytes);
            let refused = read_current(&vfs, dir).expect_err("another version");
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        }
    }
    let whole = bytes_of(CURRENT_OPEN);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        let (vfs, dir) = simulated("CURRENT", bytes);
        let refused = read_current(&vfs, dir).expect_err("one bit is wrong");
        let expected = match at {
            7 => ErrorKind::Unsupported,
            _ => ErrorKind::Corruption,
        };
        assert_eq!(refused.kind(), expected, "byte {at}: {refused}");
    }
}

/// Numbers and replay positions of the kept database's completed checkpoints.
const CHECKPOINTS: [(u64, u64); 4] = [(0, 0), (1, 6960), (2, 13920), (3, 15320)];

/// Each edit of the kept database is read, and encoding it gives the bytes that were read; the same
/// holds for the framed log around them.
#[test]
fn the_manifest_of_the_kept_database() {
    let bytes = kept_file("MANIFEST-000001");
    let (vfs, dir) = simulated("MANIFEST-000001", bytes.clone());
    let open = |name: &str| vfs.open(&dir.join(name), false).expect("opens");
    let again: Arc<dyn File> = vfs.create(&dir.join("again")).expect("creates");
    let mut log = FramedLogWriter::create(again, 1).expect("creates");
    let mut tags = BTreeSet::new();
    let (mut names, mut checkpoints) = (Vec::new(), Vec::new());
    let end = read_frames(&*open("MANIFEST-000001"), 1, 0, &mut |_, frame| {
        let changes = edit::decode(frame).expect("an edit");
        let encoded = edit::encode(&changes);
        assert_eq!(encoded, frame);
        tags.extend(
            changes
                .iter()
                .map(std::mem::discriminant)
                .map(|tag| format!("{tag:?}")),
        );
        for change in changes {
            match change {
                Change::CreateKeyspace { id, name } => names.push((id.0, name)),
                Change::Checkpoint {
                    number,
                    replay_from,
                } => checkpoints.push((number, replay_from.0)),
                _ => {}
            }
        }
        log.append(&encoded).map(|_| ())
    })
    .expect("reads");
    assert_eq!(names, [(0, "default".into()), (1, "other".to_owned())]);
    assert_eq!(checkpoints, CHECKPOINTS);
    assert!(tags.len() >= 6, "few kinds of change: {tags:?}");
    let end = end as usize;
    assert_eq!(vfs.read_file(&dir.join("again")), bytes[..end]);
    assert!(bytes[end..].iter().all(|&byte| byte == 0), "behind {end}");
}

#[test]
fn current_of_the_kept_database() {
    let bytes = kept_file("CURRENT");
    let (vfs, dir) = simulated("CURRENT", bytes.clone());
    let current = read_current(&vfs, dir).expect("reads");
    assert_eq!((current.id, current.closed), (1, false));
    write_current(&vfs, dir, current).expect("writes");
    let written = vfs.read_file(&dir.join("CURRENT"));
    assert_eq!((bytes[7], written[7]), (b'2', b'7'));
    assert_eq!(written[8..28], bytes[8..28], "all but version and checksum");
}
