//! A database with one chunk, for tests of scans.

use crate::Db;
use crate::chunk::Chunk;
use crate::options::Options;
use crate::sync::Arc;
use evendb_storage::vfs::SimVfs;

/// It has these records at first.
pub(super) const RECORDS: u32 = 400;

pub(super) fn key(index: u32) -> String {
    format!("key{index:04}")
}

/// The database, without threads and with all records in its tables, and its chunk.
pub(super) fn open() -> (Db, Arc<Chunk>) {
    let options = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0)
        .memory_budget(4 << 20);
    let db = options.open("/db").unwrap();
    for index in 0..RECORDS {
        db.put(key(index), [b'v'; 100]).unwrap();
    }
    db.settle_debt().unwrap();
    let chunk = chunk_of(&db);
    (db, chunk)
}

/// The chunk as it is now.
pub(super) fn chunk_of(db: &Db) -> Arc<Chunk> {
    let index = db.default_keyspace().state.index.load_full();
    index.find(b"key").clone()
}
