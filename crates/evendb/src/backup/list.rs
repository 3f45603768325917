//! What a backup is made of: the file `BACKUP-LIST` of a generation (bytes in docs/format.md).
//!
//! It is written last, and appears by a rename after it was synced: a generation with a list is whole. Decoding never
//! panics.

use crate::error::Result;
use crate::files::KEYS;
use evendb_storage::Error as StorageError;
use evendb_storage::codec::{
    checksum, checksum_on, get_slice, get_u32, get_varint, put_slice, put_varint,
};
use evendb_storage::vfs::{File, read_exact_at};
use std::path::Path;

const MAGIC: &[u8; 8] = b"EVENBAK1";

/// No list is longer: it would name millions of files.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// A longer one is verified before memory is taken for it, by pieces of the other length.
const UNVERIFIED_BYTES_MAX: u64 = 16 << 20;
const PIECE_BYTES: usize = 256 << 10;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) name: String,
    pub(super) len: u64,
    /// Of its bytes ([`FileSum`]).
    pub(super) checksum: u32,
    /// Of an SSTable: what names it. Two tables of one id may come from lives that have parted.
    pub(super) table: Option<u32>,
    /// The generation before has the same file.
    pub(super) shared: bool,
    /// What is in it was verified against its own checksums when it was first taken.
    pub(super) verified: bool,
}

/// The flags of a file.
const SHARED: u64 = 1;
const VERIFIED: u64 = 2;

/// The list of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupList {
    /// Seconds since 1970 at which it was begun.
    pub(super) seconds: u64,
    pub(super) files: Vec<ListedFile>,
}

impl BackupList {
    /// Whether all of it was verified when it was first taken. Lists of older builds never say so.
    pub(super) fn is_verified(&self) -> bool {
        self.files.iter().all(|file| file.verified)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.files.iter().any(|file| file.name == KEYS)
    }
}

/// The checksum of a file: of its pieces of 1 MiB, each started from that of those before.
#[derive(Default)]
pub(super) struct FileSum(pub(super) u32);

impl FileSum {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.0 = checksum(u64::from(self.0), &[piece]);
    }
}

impl BackupList {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_varint(&mut out, self.seconds);
        put_varint(&mut out, self.files.len() as u64);
        for file in &self.files {
            put_slice(&mut out, file.name.as_bytes());
            put_varint(&mut out, file.len);
            put_varint(&mut out, u64::from(file.checksum));
            put_varint(&mut out, file.table.map_or(0, |table| u64::from(table) + 1));
            let flag = |is_so, flag| if is_so { flag } else { 0 };
            put_varint(
                &mut out,
                flag(file.shared, SHARED) | flag(file.verified, VERIFIED),
            );
        }
        let crc = checksum(0, &[&out]);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a list. Memory is taken for a long one when it is known to verify.
    pub(super) fn read(file: &dyn File, path: &Path) -> Result<BackupList> {
        let failed = |error| StorageError::io(path, "read the list of a backup", error);
        let corrupt = |what: &str| StorageError::corruption(path, 0, what);
        let len = file.len().map_err(failed)?;
        if len > LIST_BYTES_MAX {
            return Err(corrupt("the list of the backup is too long").into());
        }
        if len > UNVERIFIED_BYTES_MAX {
            let covered = len - 4;
            let mut piece = vec![0; PIECE_BYTES];
            let (mut at, mut sum) = (0, checksum(0, &[]));
            while at < covered {
                let part = &mut piece[..(covered - at).min(PIECE_BYTES as u64) as usize];
                read_exact_at(file, part, at).map_err(failed)?;
                sum = checksum_on(sum, part);
                at += part.len() as u64;
            }
            let mut crc = [0; 4];
            read_exact_at(file, &mut crc, covered).map_err(failed)?;
            if u32::from_le_bytes(crc) != sum {
                return Err(corrupt("the list of the backup does not verify").into());
            }
        }
        let mut bytes = vec![0; len as usize];
        read_exact_at(file, &mut bytes, 0).map_err(failed)?;
        BackupList::decode(path, &bytes)
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<BackupList> {
        let corrupt = |what: &str| StorageError::corruption(path, 0, what);
        let (front, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("a list of a backup that is too short"))?;
        if get_u32(&mut &crc[..]) != Some(checksum(0, &[front])) {
            return Err(corrupt("the list of the backup does not verify").into());
        }
        let Some(input) = front.strip_prefix(MAGIC) else {
            let what = "the list of the backup is of another format version";
            return Err(StorageError::unsupported(path, what).into());
        };
        let list = BackupList::of(input);
        Ok(list.ok_or_else(|| corrupt("the list of the backup makes no sense"))?)
    }

    fn of(mut input: &[u8]) -> Option<BackupList> {
        let input = &mut input;
        let seconds = get_varint(input)?;
        let count = get_varint(input)?;
        // Not reserved: a hostile count ends at the first file that is not there.
        let mut files = Vec::new();
        for _ in 0..count {
            let name = String::from_utf8(get_slice(input)?.to_vec()).ok()?;
            if name.is_empty() || name.contains(['/', '\\']) || name == ".." {
                return None;
            }
            let len = get_varint(input)?;
            let checksum = u32::try_from(get_varint(input)?).ok()?;
            let table = match get_varint(input)? {
                0 => None,
                table => Some(u32::try_from(table - 1).ok()?),
            };
            let flags = get_varint(input)?;
            files.push(ListedFile {
                name,
                len,
                checksum,
                table,
                shared: flags & SHARED != 0,
                verified: flags & VERIFIED != 0,
            });
        }
        input.is_empty().then_some(BackupList { seconds, files })
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn sample() -> BackupList {
        let file = |name: &str, table, shared| ListedFile {
            name: name.to_owned(),
            len: 4711,
            checksum: 0xdead_beef,
            table,
            shared,
            verified: !shared,
        };
        BackupList {
            seconds: 1_700_000_000,
            files: vec![
                file("CHUNK-LOGS", None, false),
                file("0000000100000002.sst", Some(u32::MAX), true),
            ],
        }
    }

    #[test]
    fn lists_round_trip_and_damage_is_told() {
        let path = Path::new("/b/BACKUP-LIST");
        let bytes = sample().encode();
        assert_eq!(BackupList::decode(path, &bytes).unwrap(), sample());
        for end in 0..bytes.len() {
            let error = BackupList::decode(path, &bytes[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{end}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(BackupList::decode(path, &flipped).is_err(), "bit {bit}");
        }
    }

    /// Older builds wrote 0 and 1, and take whatever is not 0 for 1.
    #[test]
    fn a_list_of_an_older_build_is_read_and_counts_as_not_verified() {
        let mut list = sample();
        for verified in [true, false] {
            list.files
                .iter_mut()
                .for_each(|file| file.verified = verified);
            assert_eq!(list.is_verified(), verified);
            let read = BackupList::decode(Path::new("/b"), &list.encode()).unwrap();
            assert_eq!(read, list);
        }
        let bytes = list.encode();
        let flags = [bytes.len() - 5, 8 + 5 + 1 + 1 + 10 + 2 + 5 + 1];
        assert_eq!(flags.map(|at| bytes[at]), [1, 0]);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["../x", "/etc/passwd", "..", ""] {
            let mut list = sample();
            list.files[0].name = name.to_owned();
            assert!(BackupList::decode(Path::new("/b"), &list.encode()).is_err());
        }
    }
}
