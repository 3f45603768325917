//! What the tests share: options with tiny limits, so that flushes, compactions and guards happen
//! all the time, and a generator of random numbers that repeats.

#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../../../evendb/tests/common/blast.rs"]
pub mod blast;
#[path = "../../../evendb/tests/common/clients.rs"]
pub mod clients;
#[path = "../../../evendb/tests/common/dumped.rs"]
pub mod dumped;
#[path = "../../../evendb/tests/common/emptied.rs"]
pub mod emptied;
#[path = "../../../evendb/tests/common/forking.rs"]
pub mod forking;
#[path = "../../../evendb/tests/common/history_file.rs"]
pub mod history_file;
#[path = "../../../evendb/tests/common/killing.rs"]
pub mod killing;
#[path = "../../../storage/tests/knobs/mod.rs"]
mod knobs;
pub mod life;
#[path = "../../../evendb/tests/common/linearizable.rs"]
pub mod linearizable;
#[path = "../../../evendb/tests/common/mounts.rs"]
pub mod mounts;
pub mod oracle;
#[path = "../../../evendb/tests/common/order.rs"]
pub mod order;
#[path = "../../../evendb/tests/common/privileges.rs"]
pub mod privileges;
#[path = "../../../evendb/tests/common/public.rs"]
pub mod public;
#[path = "../../../evendb/tests/common/resident.rs"]
pub mod resident;
#[path = "../../../evendb/tests/common/sharing.rs"]
pub mod sharing;
#[path = "../../../evendb/tests/common/skipped.rs"]
pub mod skipped;

#[allow(unused_imports, reason = "each test binary uses a part")]
pub use knobs::{count_from_env, flag_from_env, number_from_env};

use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Compression, Durability, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const DIR: &str = "/db";
pub const LEVELS: [Durability; 3] = [Durability::Relaxed, Durability::Process, Durability::Sync];

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Splitmix64: numbers that follow from the seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `of` times.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

pub fn scramble(number: u64) -> u64 {
    Random(number).next()
}

/// Tiny limits, which the seed varies.
pub fn tiny(seed: u64) -> Options {
    let mut random = Random(seed);
    let buffer = 4096 << random.below(2);
    let runs = 1 + random.below(4) as usize;
    let block = [128, 400, 4096][random.below(3) as usize];
    let filter = [0, 10][random.below(2) as usize];
    let compact = 2 + random.below(3) as usize;
    let parallel = random.one_in(2);
    let threads = 1 + random.below(2) as usize;
    let cache = [0, 8 << 10, 1 << 20][random.below(3) as usize];
    let compression = [Compression::None, Compression::Lz4][random.below(2) as usize];
    let guard = 500 + random.below(3000);
    Options::new().memory_budget(1 << 20).advanced(|advanced| {
        advanced
            .write_buffer_bytes(buffer)
            .last_guard_bytes(guard)
            .table_bytes_max(4 << 10)
            .max_files_per_guard(runs)
            .level0_tables(compact, compact + 2, compact + 4)
            .block_bytes(block)
            .filter_bits_per_key(filter)
            .parallel_seeks(parallel)
            .compaction_threads(threads)
            .cache_bytes(cache)
            .compression(compression)
    })
}

pub fn tiny_on(vfs: &SimVfs, level: Durability, seed: u64) -> Options {
    tiny(seed).vfs(Arc::new(vfs.clone())).durability(level)
}
