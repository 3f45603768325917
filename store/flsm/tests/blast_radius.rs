//! One guard of 64 or more is damaged. The other guards are read, written and scanned as before. A
//! scan that comes to the damaged guard returns an error, and the records behind it can be reached.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::blast;
use common::{DIR, Map};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Durability, ErrorKind, Options};
use std::path::Path;
use std::sync::Arc;

/// The number of records. They have far more than 64 guards.
const RECORDS: u32 = 2400;
/// The number of keys in one guard, at most.
const GUARD_KEYS_MAX: usize = 250;

blast::database!(evendb_flsm, reads_beyond: 0);

fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .memory_budget(1 << 20)
        .durability(Durability::Process)
        .vfs(Arc::new(vfs.clone()))
        .advanced(|advanced| {
            advanced
                .write_buffer_bytes(16 << 10)
                .last_guard_bytes(2000)
                .table_bytes_max(8 << 10)
                .block_bytes(256)
        })
}

/// A closed database, with the names of its tables and its records.
fn database() -> (SimVfs, Vec<String>, Map) {
    let vfs = SimVfs::new(11);
    let db = options(&vfs).open(DIR).unwrap();
    let mut expected = Map::new();
    for number in 0..RECORDS {
        let key = format!("k{:04}", number * 7 % RECORDS).into_bytes();
        let value = format!("value {number:060}").into_bytes();
        db.put(&key, &value).unwrap();
        expected.insert(key, value);
    }
    // Each guard is then one table, and the damage may reach no further than this table.
    db.compact().unwrap();
    let tables = db.tables().into_iter().map(|table| table.file).collect();
    db.close().unwrap();
    (vfs, tables, expected)
}

#[test]
fn one_damaged_guard_leaves_the_others_whole() {
    let (vfs, tables, expected) = database();
    let dir = Path::new(DIR);
    assert!(tables.len() >= 64, "{} tables", tables.len());
    let mut hits = 0;
    let damaged: Vec<_> = tables.iter().step_by(5).collect();
    for (number, name) in damaged.iter().enumerate() {
        let path = dir.join(name);
        let mut bytes = vfs.read_file(&path);
        // The first block, a place in the middle, or the last bytes with index and footer.
        let at = [20, bytes.len() / 2, bytes.len() - 30][number % 3];
        bytes[at] ^= 0x10;
        let copy = vfs.fork_state();
        copy.write_file(&path, bytes);
        let what = format!("{name} at {at}");
        let open = || {
            let opened = options(&copy).open(DIR);
            opened.unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        hits += usize::from(blast::judge(open, &expected, GUARD_KEYS_MAX, &what) > 0);
    }
    assert_eq!(hits, damaged.len(), "damages that were noticed");
}

/// A call that cannot be done gets the error each time, and nothing else stops.
#[test]
fn a_compaction_over_a_damaged_guard_is_told_and_ends() {
    let (vfs, tables, expected) = database();
    let path = Path::new(DIR).join(&tables[0]);
    let mut bytes = vfs.read_file(&path);
    bytes[20] ^= 1;
    vfs.write_file(&path, bytes);
    let db = options(&vfs).open(DIR).unwrap();
    // Over all keys, so that the damaged guard has two runs.
    for key in expected.keys() {
        db.put(key, "new").unwrap();
    }
    for _ in 0..3 {
        assert_eq!(db.compact().unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(db.settle_debt().unwrap_err().kind(), ErrorKind::Corruption);
        assert!(db.stats().set_aside > 0);
        db.put("another", "one").unwrap();
    }
    let last = expected.last_key_value().unwrap().0;
    let tail = db.default_keyspace().compact_range(&last[..]..);
    tail.unwrap();
    db.close().unwrap();
}
