//! One chunk of 64 or more is damaged: the others are read, written and scanned as before, a scan
//! that comes to it reports the damage, and the keys behind it can be reached.

mod common;

use common::blast;
use common::oracle::Map;
use common::{DIR, has_chunks, on_sim};
use evendb::Durability;
use evendb::vfs::SimVfs;
use std::path::Path;

/// The number of records; their chunks are far more than 64.
const RECORDS: u32 = 2400;
/// A chunk never has more keys than this, and a guard never more than that.
const CHUNK_KEYS_MAX: usize = 80;
const GUARD_KEYS_MAX: usize = 250;

fn database() -> (SimVfs, Map) {
    let vfs = SimVfs::new(11);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    let mut expected = Map::new();
    for number in 0..RECORDS {
        let key = format!("k{:04}", number * 7 % RECORDS).into_bytes();
        let value = format!("value {number:060}").into_bytes();
        db.put(&key, &value).expect("puts");
        expected.insert(key, value);
    }
    match has_chunks() {
        true => db.settle_debt().expect("settles"),
        // Each guard has one table then, and the damage may reach no further than this table.
        false => db.compact().map(drop).expect("compacts"),
    }
    db.close().expect("closes");
    (vfs, expected)
}

#[test]
fn one_damaged_chunk_or_guard_leaves_the_others_whole() {
    let keys_max = match has_chunks() {
        true => CHUNK_KEYS_MAX,
        false => GUARD_KEYS_MAX,
    };
    let (vfs, expected) = database();
    let dir = Path::new(DIR);
    let tables: Vec<_> = vfs
        .file_names(dir)
        .into_iter()
        .filter(|name| name.ends_with(".sst"))
        .collect();
    assert!(tables.len() >= 64, "{} tables", tables.len());
    let mut hits = 0;
    let damaged: Vec<_> = tables.iter().step_by(5).collect();
    for (number, name) in damaged.iter().enumerate() {
        let path = dir.join(name.as_str());
        let mut bytes = vfs.read_file(&path);
        // The first block, a block in the middle, or the last bytes, where index and footer are.
        let at = [20, bytes.len() / 2, bytes.len() - 30][number % 3];
        bytes[at] ^= 0x10;
        let copy = vfs.fork_state();
        copy.write_file(&path, bytes);
        let open = || {
            let opened = on_sim(&copy, Durability::Process, 0).open(DIR);
            opened.unwrap_or_else(|error| panic!("{name} at {at}: {error}"))
        };
        let what = format!("{name} at {at}");
        hits += usize::from(blast::judge(open, &expected, keys_max, &what) > 0);
    }
    assert_eq!(hits, damaged.len(), "damages that were noticed");
}
