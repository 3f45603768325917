//! The content of a backup: the file `BACKUP-LIST` of a generation (bytes in docs/format.md).
//!
//! It is written last, and appears by a rename after it was synced: a generation with a list is
//! whole. Decoding never panics. A list stays in memory as its bytes, because a file takes at least
//! 6 bytes there, and many times that as a [`ListedFile`].

use crate::error::Result;
use crate::files::KEYS;
use evendb_storage::Error as StorageError;
use evendb_storage::codec::{
    checksum, checksum_on, get_slice, get_u32, get_varint, put_slice, put_varint,
};
use evendb_storage::vfs::{File, read_exact_at};
use std::path::Path;

const MAGIC: &[u8; 8] = b"EVENBAK1";

/// The largest length of a list in bytes: a longer one would name millions of files.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// A list with more bytes than the first number is verified before memory is taken for it, in
/// pieces of the second number.
const UNVERIFIED_BYTES_MAX: u64 = 16 << 20;
const PIECE_BYTES: usize = 256 << 10;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) name: String,
    pub(super) len: u64,
    /// The checksum of its bytes ([`FileSum`]).
    pub(super) checksum: u32,
    /// For an SSTable, the checksum that identifies it. Two tables with one id may come from two
    /// lives of copies.
    pub(super) table: Option<u32>,
    /// The generation before has the same file.
    pub(super) shared: bool,
    /// Its content was verified against its own checksums when it was first copied.
    pub(super) verified: bool,
}

/// The flags of a file.
const SHARED: u64 = 1;
const VERIFIED: u64 = 2;

/// The list of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupList {
    /// The time at which the backup was begun, in seconds since 1970.
    pub(super) seconds: u64,
    /// The number of files.
    pub(super) count: u64,
    /// The files, one after the other, in their written form.
    files: Vec<u8>,
}

impl BackupList {
    pub(super) fn new(seconds: u64, listed: &[ListedFile]) -> BackupList {
        let mut files = Vec::new();
        for file in listed {
            put_file(&mut files, file);
        }
        BackupList {
            seconds,
            count: listed.len() as u64,
            files,
        }
    }

    /// The files, in the order of the list.
    pub(super) fn files(&self) -> impl Iterator<Item = ListedFile> {
        // All of them make sense: that was checked when the list was read.
        let mut left = &self.files[..];
        std::iter::from_fn(move || get_file(&mut left))
    }

    /// The places in the list of the wanted files, in the order of their names.
    pub(super) fn places(&self, is_wanted: impl Fn(&ListedFile) -> bool) -> Vec<u32> {
        let mut left = &self.files[..];
        let mut places = Vec::new();
        loop {
            let place = (self.files.len() - left.len()) as u32;
            match get_file(&mut left) {
                Some(file) if is_wanted(&file) => places.push(place),
                Some(_) => {}
                None => break,
            }
        }
        places.sort_unstable_by_key(|&place| self.name_at(place));
        places
    }

    /// The file with this name among the files at these places, which are in the order of names.
    pub(super) fn named(&self, name: &str, places: &[u32]) -> Option<ListedFile> {
        let found = places.binary_search_by_key(&Some(name.as_bytes()), |&at| self.name_at(at));
        let place = places[found.ok()?];
        get_file(&mut self.files.get(place as usize..)?)
    }

    fn name_at(&self, place: u32) -> Option<&[u8]> {
        get_slice(&mut self.files.get(place as usize..)?)
    }

    /// Whether all of it was verified when it was first copied. Lists of older builds never say so.
    pub(super) fn is_verified(&self) -> bool {
        self.files().all(|file| file.verified)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.files().any(|file| file.name == KEYS)
    }
}

/// The checksum of a file: over its pieces of 1 MiB, each started from the checksum of the pieces
/// before.
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
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.files);
        let crc = checksum(0, &[&out]);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a list. Memory for a long list is taken only when it is known to verify.
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
        BackupList::decode(path, bytes)
    }

    pub(super) fn decode(path: &Path, mut bytes: Vec<u8>) -> Result<BackupList> {
        let corrupt = |what: &str| StorageError::corruption(path, 0, what);
        let (front, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| corrupt("a list of a backup that is too short"))?;
        if get_u32(&mut &crc[..]) != Some(checksum(0, &[front])) {
            return Err(corrupt("the list of the backup does not verify").into());
        }
        let Some(mut left) = front.strip_prefix(MAGIC) else {
            let what = "the list of the backup is of another format version";
            return Err(StorageError::unsupported(path, what).into());
        };
        let listed = BackupList::measured(&mut left);
        let (seconds, count, range) = listed
            .map(|(seconds, count, len)| (seconds, count, front.len() - len..front.len()))
            .ok_or_else(|| corrupt("the list of the backup makes no sense"))?;
        bytes.truncate(range.end);
        bytes.drain(..range.start);
        Ok(BackupList {
            seconds,
            count,
            files: bytes,
        })
    }

    /// The time of its begin, the number of files, and the bytes of these files in the list, if all
    /// of it makes sense.
    fn measured(input: &mut &[u8]) -> Option<(u64, u64, usize)> {
        let (seconds, count) = (get_varint(input)?, get_varint(input)?);
        let len = input.len();
        // A count from a hostile file ends at the first missing file.
        for _ in 0..count {
            get_file(input)?;
        }
        input.is_empty().then_some((seconds, count, len))
    }
}

/// A list, decoded and encoded again, after all of it was read in each way.
#[cfg(feature = "fuzzing")]
pub(crate) fn again(path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    let list = BackupList::decode(path, bytes.to_vec())?;
    let _ = (list.is_verified(), list.is_encrypted());
    assert_eq!(list.files().count() as u64, list.count, "all is decoded");
    let places = list.places(|_| true);
    for file in list.files() {
        let found = list.named(&file.name, &places);
        assert!(
            found.is_some_and(|found| found.name == file.name),
            "{file:?}"
        );
    }
    Ok(list.encode())
}

fn put_file(out: &mut Vec<u8>, file: &ListedFile) {
    put_slice(out, file.name.as_bytes());
    put_varint(out, file.len);
    put_varint(out, u64::from(file.checksum));
    put_varint(out, file.table.map_or(0, |table| u64::from(table) + 1));
    let flag = |is_so, flag| if is_so { flag } else { 0 };
    let flags = flag(file.shared, SHARED) | flag(file.verified, VERIFIED);
    put_varint(out, flags);
}

fn get_file(input: &mut &[u8]) -> Option<ListedFile> {
    let name = std::str::from_utf8(get_slice(input)?).ok()?;
    if name.is_empty() || name.contains(['/', '\\']) || name == ".." {
        return None;
    }
    let name = name.to_owned();
    let len = get_varint(input)?;
    let checksum = u32::try_from(get_varint(input)?).ok()?;
    let table = match get_varint(input)? {
        0 => None,
        table => Some(u32::try_from(table - 1).ok()?),
    };
    let flags = get_varint(input)?;
    Some(ListedFile {
        name,
        len,
        checksum,
        table,
        shared: flags & SHARED != 0,
        verified: flags & VERIFIED != 0,
    })
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn sample() -> Vec<ListedFile> {
        let file = |name: &str, table, shared| ListedFile {
            name: name.to_owned(),
            len: 4711,
            checksum: 0xdead_beef,
            table,
            shared,
            verified: !shared,
        };
        vec![
            file("CHUNK-LOGS", None, false),
            file("0000000100000002.sst", Some(u32::MAX), true),
        ]
    }

    fn list_of(files: &[ListedFile]) -> BackupList {
        BackupList::new(1_700_000_000, files)
    }

    fn decode(bytes: &[u8]) -> Result<BackupList> {
        BackupList::decode(Path::new("/b/BACKUP-LIST"), bytes.to_vec())
    }

    #[test]
    fn lists_round_trip_and_damage_is_told() {
        let list = list_of(&sample());
        let bytes = list.encode();
        assert_eq!(decode(&bytes).unwrap(), list);
        assert_eq!(list.files().collect::<Vec<_>>(), sample());
        for end in 0..bytes.len() {
            let error = decode(&bytes[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{end}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
    }

    /// Older builds wrote 0 and 1, and read every other number than 0 as 1.
    #[test]
    fn a_list_of_an_older_build_is_read_and_counts_as_not_verified() {
        let mut files = sample();
        for verified in [true, false] {
            files.iter_mut().for_each(|file| file.verified = verified);
            let list = list_of(&files);
            assert_eq!(list.is_verified(), verified);
            assert_eq!(decode(&list.encode()).unwrap(), list);
        }
        let bytes = list_of(&files).encode();
        let flags = [bytes.len() - 5, 8 + 5 + 1 + 1 + 10 + 2 + 5 + 1];
        assert_eq!(flags.map(|at| bytes[at]), [1, 0]);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["../x", "/etc/passwd", "..", ""] {
            let mut files = sample();
            files[0].name = name.to_owned();
            assert!(decode(&list_of(&files).encode()).is_err());
        }
    }

    #[test]
    fn a_file_is_found_by_its_name_among_those_that_are_wanted() {
        let mut files: Vec<ListedFile> = (0..50u64)
            .map(|number| ListedFile {
                name: format!("{}", number * 37 % 50),
                len: number,
                ..sample().remove(0)
            })
            .collect();
        files[7].name = "x".repeat(300);
        let list = list_of(&files);
        let places = list.places(|file| file.len % 2 == 1);
        for file in &files {
            let wanted = Some(file.clone()).filter(|file| file.len % 2 == 1);
            assert_eq!(list.named(&file.name, &places), wanted);
        }
        assert_eq!(list.named("y", &places), None);
    }
}
