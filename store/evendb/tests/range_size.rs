//! The errors of range sizes that are estimated without reading.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

#[path = "common/layout.rs"]
mod layout;

use evendb::vfs::SimVfs;
use evendb::{Db, RangeSize};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const BLOCK_BYTES: u64 = 1024;

fn open(munks: bool) -> Db {
    layout::options()
        .memory_budget(4 << 20)
        .workers(0)
        .vfs(Arc::new(SimVfs::new(3)))
        .advanced(|advanced| {
            advanced
                .chunk_bytes(64 << 10)
                .block_bytes(BLOCK_BYTES as usize)
                .munks(munks)
        })
        .open("/db")
        .unwrap()
}

fn put(db: &Db, map: &mut Map, key: Vec<u8>, len: usize) {
    let value = vec![7; len];
    db.put(&key, &value).unwrap();
    map.insert(key, value);
}

/// Keys that are not spread evenly.
fn random_key(random: &mut StdRng) -> Vec<u8> {
    let group: u32 = random.random_range(0..20);
    let number: u32 = random.random_range(0..1 << (group % 12));
    format!("group {:02}/{number:06}", group * group / 5).into_bytes()
}

fn counted(map: &Map, low: &[u8], high: &[u8]) -> (u64, u64) {
    if low >= high {
        return (0, 0);
    }
    let mut records = 0;
    let bytes = map.range(low.to_vec()..high.to_vec()).map(|(key, value)| {
        records += 1;
        (key.len() + value.len()) as u64
    });
    let bytes = bytes.sum();
    (records, bytes)
}

#[test]
fn after_compaction_only_the_ends_are_off() {
    for munks in [false, true] {
        let random = &mut StdRng::seed_from_u64(5);
        let db = open(munks);
        let mut map = Map::new();
        for _ in 0..20_000 {
            let len = random.random_range(0..100);
            put(&db, &mut map, random_key(random), len);
        }
        for _ in 0..1000 {
            let key = random_key(random);
            db.delete(&key).unwrap();
            map.remove(&key);
        }
        db.compact().unwrap();
        assert!(db.stats().chunks > 4 || !layout::has_chunks());
        let all = db.approximate_size::<&str>(..).unwrap();
        let (records, bytes) = counted(&map, b"", b"~");
        assert_eq!((all.records, all.bytes), (records, bytes));
        assert!(all.disk_bytes > bytes / 2 && all.disk_bytes < bytes * 2);
        let reads = db.stats().block_reads;
        // Rows take some bytes beside key and value; keys have 16 bytes, and blocks share the
        // larger part of these.
        let (block, record_min) = (BLOCK_BYTES + 200, 4);
        for _ in 0..500 {
            let (low, high) = (random_key(random), random_key(random));
            let size = db.approximate_size(&low[..]..&high[..]).unwrap();
            let (records, bytes) = counted(&map, &low, &high);
            // Key bytes that blocks share count too.
            let bytes_off = size.bytes.abs_diff(bytes);
            assert!(bytes_off <= 4 * 2 * block, "{bytes} and not {size:?}");
            let records_off = size.records.abs_diff(records);
            assert!(
                records_off <= 2 * block / record_min,
                "{records} and not {size:?}"
            );
        }
        assert_eq!(db.stats().block_reads, reads, "no block was read");
    }
}

#[test]
fn what_is_in_memory_and_in_logs_counts() {
    let db = open(true);
    let mut map = Map::new();
    for n in 0..3000 {
        put(&db, &mut map, format!("{n:06}").into_bytes(), 50);
    }
    // Records in deltas, in runs and deltas, in tables and runs.
    for step in 0..3 {
        let some = db.approximate_size("000500".."001500").unwrap();
        assert!(
            (900..=1100).contains(&some.records),
            "step {step}: {some:?}"
        );
        let bytes = 1000 * 56;
        assert!(
            (bytes * 9 / 10..=bytes * 11 / 10).contains(&some.bytes),
            "{some:?}"
        );
        match step {
            0 => db.flush().unwrap(),
            _ => db.settle_debt().unwrap(),
        }
    }
    assert_eq!(db.approximate_size("1".."2").unwrap(), RangeSize::default());
    assert_eq!(db.approximate_size("2".."1").unwrap(), RangeSize::default());
    let of = db.default_keyspace();
    let prefix = of.approximate_size_of_prefix("0010").unwrap();
    assert!((50..=150).contains(&prefix.records), "{prefix:?}");
    // All deleted, and nothing reorganised: the tombstones subtract the records that they hide.
    for key in map.keys() {
        db.delete(key).unwrap();
    }
    let left = db.approximate_size::<&str>(..).unwrap();
    assert!(left.records < 300, "{left:?}");
}
