//! The second engine. It has no transactions and no backups.

use super::{Level, Look, NAMES, Pair, Put, Space, Store, Transfer, said};
use crate::Result;
use crate::draw::Draw;
use evendb_flsm::{Compression, Options};
use std::path::Path;

opened!(evendb_flsm: Fragmented);

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

impl Store for Fragmented {
    const TRANSACTS: bool = false;

    same_calls!(evendb_flsm);

    fn transfer(&self, _: Transfer<'_>, puts: &[Put<'_>], raised: bool) -> Result<()> {
        self.batch(puts, raised)
    }

    fn backup(&self, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }

    fn restore(_: &Path, _: &Path) -> Result<Option<u64>> {
        Ok(None)
    }
}
