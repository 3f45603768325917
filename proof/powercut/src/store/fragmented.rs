//! The second engine. It has no transactions and no backups.

use super::{Level, Look, NAMES, Pair, Put, Space, Store, Transfer, said};
use crate::Result;
use crate::draw::Draw;
use evendb_flsm::inspect::InspectOptions;
use evendb_flsm::{Compression, Db, Durability, Keyspace, Options, Snapshot, Value};
use std::path::Path;

/// See the module.
pub struct Fragmented {
    db: Db,
    spaces: [Keyspace; 4],
}

struct Moment<'a> {
    store: &'a Fragmented,
    snapshot: Snapshot,
}

fn options(level: Level, draw: &mut Draw) -> Options {
    let buffer = 4096 << draw.below(2);
    let guard = 500 + draw.below(3000);
    let runs = 1 + draw.below(4) as usize;
    let compact = 2 + draw.below(3) as usize;
    let block = draw.of(&[128, 400, 4096]);
    let filter = draw.of(&[0, 10]);
    let threads = draw.of(&[1, 2]);
    let cache = draw.of(&[0, 8 << 10, 1 << 20]);
    let compression = draw.of(&[Compression::None, Compression::Lz4]);
    let options = Options::new()
        .memory_budget(1 << 20)
        .durability(level.durability());
    options.advanced(|advanced| {
        advanced
            .write_buffer_bytes(buffer)
            .last_guard_bytes(guard)
            .table_bytes_max(4 << 10)
            .max_files_per_guard(runs)
            .level0_tables(compact, compact + 2, compact + 4)
            .block_bytes(block)
            .filter_bits_per_key(filter)
            .compaction_threads(threads)
            .cache_bytes(cache)
            .compression(compression)
    })
}

impl Fragmented {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl Look for Moment<'_> {
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<Pair>> {
        let pairs = self.snapshot.prefix(self.store.space(space), prefix);
        let pair = |item: evendb_flsm::Result<(Value, Value)>| {
            item.map(|(key, value)| (key.to_vec(), value.to_vec()))
                .map_err(said)
        };
        pairs.map(pair).collect()
    }

    fn get(&self, space: Space, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.snapshot.get(self.store.space(space), key);
        Ok(value.map_err(said)?.map(|value| value.to_vec()))
    }
}

impl Store for Fragmented {
    const TRANSACTS: bool = false;

    fn open(dir: &Path, level: Level, draw: &mut Draw) -> Result<Fragmented> {
        let db = options(level, draw).open(dir).map_err(said)?;
        let [mirror, bank, after] = NAMES.map(|name| db.keyspace(name).map_err(said));
        let spaces = [db.default_keyspace().clone(), mirror?, bank?, after?];
        Ok(Fragmented { db, spaces })
    }

    fn look(&self) -> Result<Box<dyn Look + '_>> {
        Ok(Box::new(Moment {
            store: self,
            snapshot: self.db.snapshot().map_err(said)?,
        }))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.db.put(key, value).map_err(said)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.db.delete(key).map_err(said)
    }

    fn batch(&self, puts: &[Put<'_>], raised: bool) -> Result<()> {
        let mut batch = self.db.batch();
        for (space, key, value) in puts {
            batch.put(self.space(*space), key, value);
        }
        if raised {
            batch.durability(Durability::Sync);
        }
        batch.commit().map_err(said)
    }

    fn transfer(&self, _: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()> {
        self.batch(puts, raised)
    }

    fn persist(&self) -> Result<()> {
        self.db.persist().map_err(said)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(said)
    }

    fn settle(&self) -> Result<()> {
        self.db.settle_debt().map_err(said)
    }

    fn backup(&self, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }

    fn close(self) -> Result<()> {
        self.db.close().map_err(said)
    }

    fn verify(dir: &Path) -> Result<()> {
        let report = evendb_flsm::inspect::verify(dir, InspectOptions::new()).map_err(said)?;
        match report.is_sound() {
            true => Ok(()),
            false => Err(format!("verify: {:?}", report.findings)),
        }
    }

    fn restore(_: &Path, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
}
