//! Damage in each file of a database: a flipped bit, a cut, a sector of zeros. Opening or reading
//! reports it, never returns a value that was not put, and never panics.
//!
//! Damage at the end of the newest log or of the manifest cannot be distinguished from a crash.
//! There the database may silently have only a prefix of the writes. After damage in the log, it
//! has everything that was in tables. After damage in the manifest, it has the state before the
//! lost edits. (docs/flsm.md says which damage is reported.)
//!
//! `EVENDB_FLSM_DAMAGE_STRIDE` sets how many bytes lie between two places (default 97; 1 is every
//! byte).

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]
#![expect(clippy::big_endian_bytes, reason = "the oracle makes keys of its own")]

mod common;

use common::{DIR, LEVELS, count_from_env, tiny_on};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Durability, Error, ErrorKind};
use std::path::Path;

/// The number of records in tables, and of all records.
const FLUSHED: u32 = 400;
const ALL: u32 = 430;
const SECTOR: usize = 512;

fn value(number: u32) -> Vec<u8> {
    let mut value = vec![number as u8; 60];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

/// Tables of several levels, and some of them were moved; and records in the log, the last of them
/// unsynced.
fn database(level: Durability) -> SimVfs {
    let vfs = SimVfs::new(5);
    let db = tiny_on(&vfs, level, 5).open(DIR).unwrap();
    for number in 0..FLUSHED {
        db.put(number.to_be_bytes(), value(number)).unwrap();
    }
    db.settle_debt().unwrap();
    for number in FLUSHED..ALL {
        db.put(number.to_be_bytes(), value(number)).unwrap();
        if number == ALL - 10 {
            db.persist().unwrap();
        }
    }
    db.close().unwrap();
    vfs
}

fn is_told(error: &Error) -> bool {
    // A version or a kind may have become another one; a length may claim a longer file.
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported, ErrorKind::Io];
    kinds.contains(&error.kind())
}

/// The records that are found, or the error that says that some are missing.
fn read(db: &Db, place: &str) -> Result<Vec<u32>, Error> {
    let mut found = Vec::new();
    for item in db.iter() {
        let (key, given) = item?;
        let number = u32::from_be_bytes(key[..].try_into().unwrap());
        assert!(
            given == value(number)[..],
            "{place}: another value of {number}"
        );
        found.push(number);
    }
    for number in 0..ALL {
        let Some(given) = db.get(number.to_be_bytes())? else {
            let scanned = found.binary_search(&number).is_ok();
            assert!(
                !scanned,
                "{place}: a get misses {number}, and a scan does not"
            );
            continue;
        };
        assert!(
            given == value(number)[..],
            "{place}: another value of {number}"
        );
    }
    Ok(found)
}

#[derive(Default, Debug)]
struct Counts {
    told: u64,
    whole: u64,
    /// Damage in the newest log or the manifest: a prefix is found.
    shorter: u64,
}

fn look(copy: &SimVfs, level: Durability, name: &str, place: &str, counts: &mut Counts) {
    let db = match tiny_on(copy, level, 5).open(DIR) {
        Ok(db) => db,
        Err(error) => {
            assert!(is_told(&error) || name == "CURRENT", "{place}: {error}");
            counts.told += 1;
            return;
        }
    };
    match read(&db, place) {
        Err(error) => {
            assert!(is_told(&error), "{place}: {error}");
            counts.told += 1;
        }
        Ok(found) => {
            let count = found.len() as u32;
            assert!(found.iter().copied().eq(0..count), "{place}: a hole");
            let least = match (name.starts_with("LOG-"), name.starts_with("MANIFEST-")) {
                (true, _) => FLUSHED,
                (_, true) => 0,
                _ => ALL,
            };
            assert!(count >= least, "{place}: {count} records without a word");
            match count < ALL {
                true => counts.shorter += 1,
                false => counts.whole += 1,
            }
        }
    }
}

fn damage_everything(level: Durability) {
    let stride = count_from_env("EVENDB_FLSM_DAMAGE_STRIDE", 97) as usize;
    let vfs = database(level);
    let dir = Path::new(DIR);
    let mut counts = Counts::default();
    for name in vfs.file_names(dir) {
        let bytes = vfs.read_file(&dir.join(&name));
        let mut damaged = |what: &str, at: usize, bytes: Vec<u8>| {
            let copy = vfs.fork_state();
            copy.write_file(&dir.join(&name), bytes);
            let place = format!("{level:?} {name}, {what} at {at}");
            look(&copy, level, &name, &place, &mut counts);
        };
        for at in (0..bytes.len()).step_by(stride) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at / stride % 8);
            damaged("a bit", at, flipped);
            damaged("a cut", at, bytes[..at].to_vec());
        }
        for at in (0..bytes.len()).step_by(SECTOR) {
            let mut zeroed = bytes.clone();
            let end = bytes.len().min(at + SECTOR);
            zeroed[at..end].fill(0);
            damaged("a sector of zeros", at, zeroed);
        }
    }
    println!("{level:?}: {counts:?}");
    assert!(counts.told > 50, "{counts:?}");
}

#[test]
fn damage_is_told_and_nothing_panics() {
    for level in LEVELS {
        damage_everything(level);
    }
}

/// A missing file is reported, too.
#[test]
fn a_missing_file_is_told() {
    let vfs = database(Durability::Process);
    let dir = Path::new(DIR);
    for name in vfs.file_names(dir) {
        // These two are made again, and hold nothing.
        if ["LOCK", "BALLAST"].contains(&&*name) {
            continue;
        }
        let copy = vfs.fork_state();
        copy.remove_file(&dir.join(&name));
        let mut counts = Counts::default();
        let place = format!("without {name}");
        look(&copy, Durability::Process, &name, &place, &mut counts);
        let newest_log = name.starts_with("LOG-") && counts.shorter == 1;
        assert!(counts.told == 1 || newest_log, "{place}: {counts:?}");
    }
}
