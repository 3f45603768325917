//! Data that arrives in key order is written once: its splits rewrite nothing.

use evendb::vfs::SimVfs;
use evendb::{Db, Options};
use std::sync::Arc;

fn open(workers: usize) -> Db {
    Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .memory_budget(4 << 20)
        .advanced(|advanced| advanced.chunk_bytes(64 << 10))
        .workers(workers)
        .open("/db")
        .expect("opens")
}

fn load(workers: usize) -> Db {
    let db = open(workers);
    for number in 0..20_000u32 {
        db.put(format!("user{number:010}"), [number as u8; 200])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    db
}

#[test]
fn a_load_in_key_order_is_written_once() {
    for workers in [0, 1] {
        let db = load(workers);
        let stats = db.stats();
        let written = &stats.bytes_written;
        assert!(stats.chunks > 30, "{} chunks", stats.chunks);
        assert!(
            written.log + written.sstable < written.user * 11 / 10,
            "{workers} workers: {written:?}"
        );
        assert_eq!(db.iter().count(), 20_000);
    }
}

/// Events of many apps in the order of time, nearly all of them of a few apps: keys are app and
/// time.
fn many_streams(workers: usize, hot_share: u32) -> Db {
    let db = open(workers);
    let mut random = 1u32;
    for time in 0..40_000u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The hot apps are scattered over the key space.
        let app = match (random >> 8) % 100 < hot_share {
            true => (random >> 16) % 4 * 250 + 100,
            false => (random >> 16) % 1000,
        };
        db.put(format!("app{app:04}:{time:010}"), [time as u8; 200])
            .expect("puts");
        // A chunk that waits for its cut gathers a log, which the cut writes again. How long it
        // waits behind a worker depends on the machine: here it does not fall behind.
        if workers > 0 && time % 500 == 499 {
            db.settle_debt().expect("settles");
        }
    }
    db.settle_debt().expect("settles");
    db
}

#[test]
fn streams_of_events_side_by_side_are_hardly_rewritten() {
    let amplification = |workers, hot_share| {
        let db = many_streams(workers, hot_share);
        assert_eq!(db.iter().count(), 40_000);
        let stats = db.stats();
        let written = &stats.bytes_written;
        (written.log + written.sstable) as f64 / written.user as f64
    };
    for workers in [0, 1] {
        let (few, many) = (amplification(workers, 95), amplification(workers, 0));
        assert!(few < 1.8, "{workers} workers: {few} with four streams");
        assert!(few < many * 0.6, "{few} with four streams, {many} without");
    }
}
