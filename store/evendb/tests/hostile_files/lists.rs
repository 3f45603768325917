//! Lists of backups and exports, and properties of exports, with right checksums: many files in few
//! bytes each.

use super::{MIB, database, kind_of, options, peak_of};
use evendb::{Backups, Db, ErrorKind, exported_properties};
use evendb_storage::codec::{checksum, put_slice, put_varint};
use std::fs;
use std::path::Path;

/// A list that names these files, each with a length, a checksum, the number of its table, and
/// flags.
fn list(files: impl Iterator<Item = (String, [u64; 4])>) -> Vec<u8> {
    let (mut listed, mut count) = (Vec::new(), 0);
    for (name, numbers) in files {
        put_slice(&mut listed, name.as_bytes());
        for number in numbers {
            put_varint(&mut listed, number);
        }
        count += 1;
    }
    let mut list = b"EVENBAK1".to_vec();
    put_varint(&mut list, 1_700_000_000);
    put_varint(&mut list, count);
    list.append(&mut listed);
    let sum = checksum(0, &[&list]);
    list.extend_from_slice(&sum.to_le_bytes());
    list
}

/// Two lists of about 6 MiB: one of the most files possible, and one of the most files that a later
/// backup could share.
fn long_lists() -> [Vec<u8>; 2] {
    let least = (0..1_000_000).map(|_| ("a".to_owned(), [0; 4]));
    let tables = (0..250_000_u64).map(|id| (format!("{id:016x}.sst"), [1, 2, 3, 2]));
    [list(least), list(tables)]
}

fn open(dir: &Path) -> Db {
    options().open(dir).unwrap()
}

/// The memory that a call takes beside the list; for the list itself it takes only its bytes.
fn takes_its_bytes<T>(len: usize, plain: usize, what: &str, call: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(call);
    let most = plain + len + 16 * MIB;
    assert!(peak < most, "{what}: {peak} of {len}, plain {plain}");
    result
}

#[test]
fn a_list_of_a_backup_takes_the_memory_of_its_bytes() {
    let (dir, place) = (database(), tempfile::tempdir().unwrap());
    let all = place.path().join("all");
    let db = open(dir.path());
    let (taken, plain) = peak_of(|| db.backup(&all));
    taken.unwrap();
    let backups = Backups::at(&all);
    for bytes in long_lists() {
        let len = bytes.len();
        fs::write(all.join("000001/BACKUP-LIST"), bytes).unwrap();
        let infos = takes_its_bytes(len, 0, "list", || backups.list()).unwrap();
        assert!(infos[0].files >= 250_000 && infos[0].damage.is_none());
        let verified = takes_its_bytes(len, 0, "verify", || backups.verify(None));
        assert!(verified.is_err());
        let into = place.path().join("restored");
        let restored = takes_its_bytes(len, 0, "restore", || backups.restore(None, &into));
        assert_eq!(kind_of(restored.map(drop)), Some(ErrorKind::Corruption));
        assert!(!into.exists());
        // The next backup shares nothing of it, and replaces it.
        let next = takes_its_bytes(len, plain, "backup", || db.backup(&all)).unwrap();
        assert_eq!(next.bytes_shared, 0);
        takes_its_bytes(len, 0, "prune", || backups.prune(2)).unwrap();
        backups.verify(Some(next.number)).unwrap();
        fs::remove_dir_all(all.join(format!("{:06}", next.number))).unwrap();
    }
}

#[test]
fn a_list_of_an_export_takes_the_memory_of_its_bytes() {
    let (dir, place) = (database(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    for bytes in long_lists() {
        let len = bytes.len();
        fs::write(place.path().join("EXPORT-LIST"), bytes).unwrap();
        let told = || exported_properties(place.path());
        let told = takes_its_bytes(len, 0, "properties", told).unwrap();
        assert!(told.is_empty());
        let keyspace = db.default_keyspace();
        let imported = || keyspace.import(place.path());
        let imported = takes_its_bytes(len, MIB, "import", imported);
        assert!(imported.is_err());
        assert_eq!(db.iter().count(), 100);
    }
}

/// A keyspace has few properties, and so has an export.
#[test]
fn properties_of_an_export_are_no_more_than_a_keyspace_has() {
    let place = tempfile::tempdir().unwrap();
    for (len, is_read) in [(1 << 16, true), ((1 << 16) + 1, false), (16 << 20, false)] {
        let mut bytes = Vec::new();
        for number in 0_u64.. {
            put_slice(&mut bytes, format!("{number:x}").as_bytes());
            put_slice(&mut bytes, b"");
            if bytes.len() + 8 >= len {
                break;
            }
        }
        let left = len - bytes.len() - 2;
        put_slice(&mut bytes, &vec![b'x'; left]);
        bytes.push(0);
        bytes.truncate(len);
        let mut sum = 0;
        for piece in bytes.chunks(MIB) {
            sum = checksum(sum.into(), &[piece]);
        }
        let file = ("PROPERTIES".to_owned(), [len as u64, sum.into(), 0, 0]);
        fs::write(place.path().join("PROPERTIES"), bytes).unwrap();
        let listed = list(std::iter::once(file));
        fs::write(place.path().join("EXPORT-LIST"), listed).unwrap();
        let told = || exported_properties(place.path());
        let told = takes_its_bytes(len.min(1 << 16), 0, "properties", told);
        match is_read {
            true => assert!(told.unwrap().len() > 10_000),
            false => assert_eq!(kind_of(told.map(drop)), Some(ErrorKind::Corruption)),
        }
    }
}
