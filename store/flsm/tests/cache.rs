//! What scans read: how much at once, and which part of it later scans find in memory.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::DIR;
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Db, Options};
use std::sync::Arc;

/// A scan leaves the block of each table in which it began, and the next blocks if other scans were
/// there before. The third scan finds every block of the range in memory, in both directions. A
/// long scan leaves no more.
#[test]
fn a_short_scan_reads_nothing_the_third_time() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().advanced(|advanced| advanced.write_buffer_bytes(256 << 10));
    let db = options.open(dir.path()).unwrap();
    // In no order, so that there are several runs.
    for at in 0..5000u32 {
        let number = at.wrapping_mul(2_654_435_761) % 5000;
        db.put(format!("{number:05}"), [at as u8; 300]).unwrap();
    }
    // No job changes the tables meanwhile.
    db.settle_debt().unwrap();
    let misses = || db.stats().cache_misses;
    let scan = |from: &str, count: usize| {
        let mut cursor = db.cursor(from.as_bytes()..);
        let mut keys = Vec::new();
        while keys.len() < count
            && let Some((key, _)) = cursor.next().unwrap()
        {
            keys.push(key.to_vec());
        }
        keys
    };
    let first = scan("02000", 40);
    assert_eq!(first.len(), 40);
    let of_one = db.stats().cache_bytes;
    assert_eq!(scan("02000", 40), first);
    assert!(db.stats().cache_bytes > of_one);
    let before = misses();
    assert!(before > 0);
    assert_eq!(scan("02000", 40), first);
    assert_eq!(misses(), before, "all of it is in memory");
    assert!(db.stats().cache_hits > 0);
    let bytes = db.stats().cache_bytes;
    let all = scan("", 5000);
    assert!(all.len() > 3000 && all.is_sorted());
    let grown = db.stats().cache_bytes - bytes;
    assert!(grown < 500 << 10, "{grown} bytes of a scan of 1.5 MB");
    let back = || {
        let pairs = db.range("02000".."02050").rev().take(20);
        let keys = pairs.map(|pair| pair.unwrap().0.to_vec());
        keys.collect::<Vec<_>>()
    };
    let first = back();
    assert_eq!(back(), first);
    let before = misses();
    assert_eq!(back(), first);
    assert_eq!(misses(), before);
}

/// Bytes that a call reads.
fn read_by(vfs: &SimVfs, call: impl FnOnce()) -> u64 {
    let before = vfs.read_ahead();
    call();
    let after = vfs.read_ahead();
    after.read - before.read
}

/// Scans the pairs of the range, at most `limit`.
fn scan(db: &Db, from: u32, to: Option<u32>, limit: usize) {
    let key = |number: u32| format!("{number:05}");
    let mut cursor = match to {
        Some(to) => db.cursor(key(from)..key(to)),
        None => db.cursor(key(from)..),
    };
    let mut pairs = 0;
    while pairs < limit && cursor.next().unwrap().is_some() {
        pairs += 1;
    }
}

/// A scan reads at once what the last scans needed, and never blocks behind its range.
#[test]
fn a_scan_reads_as_much_as_scans_lately_needed_and_not_beyond_its_range() {
    let vfs = SimVfs::new(1);
    let options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .advanced(|advanced| advanced.cache_bytes(0).parallel_seeks(false));
    let db = options.open(DIR).unwrap();
    for number in 0..5000u32 {
        db.put(format!("{number:05}"), [number as u8; 1000])
            .unwrap();
    }
    db.settle_debt().unwrap();
    let train = |pairs: usize| {
        for at in 0..1000u32 {
            scan(&db, at * 997 % 4000, None, pairs);
        }
    };
    train(1);
    let after_short = read_by(&vfs, || scan(&db, 2000, None, 6));
    train(60);
    let after_long = read_by(&vfs, || scan(&db, 2000, None, 6));
    assert!(after_short < 16 << 10, "{after_short} bytes for 6 KB");
    assert!(after_long > 24 << 10, "{after_long} bytes");
    let bounded = read_by(&vfs, || scan(&db, 2000, Some(2006), usize::MAX));
    assert!(bounded < 16 << 10, "{bounded} bytes for 6 KB");
    let back = |low: &str| {
        let pairs = db.range(low.."02006").rev().take(6);
        assert_eq!(pairs.count(), 6);
    };
    let unbounded = read_by(&vfs, || back("0"));
    assert!(unbounded > 24 << 10, "{unbounded} bytes");
    let bounded = read_by(&vfs, || back("02000"));
    assert!(bounded < 16 << 10, "{bounded} bytes for 6 KB");
}
