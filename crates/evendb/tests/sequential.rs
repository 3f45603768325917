//! Data that arrives in key order is written once: its splits rewrite nothing.

use evendb::vfs::SimVfs;
use evendb::{Db, Options};
use std::sync::Arc;

fn load(workers: usize) -> Db {
    let db = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .memory_budget(4 << 20)
        .chunk_bytes(64 << 10)
        .workers(workers)
        .open("/db")
        .expect("opens");
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
