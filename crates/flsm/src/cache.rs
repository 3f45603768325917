//! [`BlockCache`]: blocks of tables in memory, of which gets find records without a read.
//!
//! A map in shards, with a policy that a scan of many blocks, each once, does not empty (quick_cache; decision 0001). A table's number is
//! never used again, so nothing in it is ever wrong; blocks of tables that are gone leave when others come.
//! Thread safety: shared freely. Two that miss the same block both read it.

use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use evendb_storage::table::{Block, BlockSource, Table};
use evendb_storage::{Result, TableId};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Number of the table, ordinal of the block.
type Key = (TableId, u32);

/// `None` where there are too many blocks before it: such a block is never kept.
fn key_of(table: &Table, ordinal: usize) -> Option<Key> {
    Some((table.id(), u32::try_from(ordinal).ok()?))
}

/// What an entry takes beside the block's bytes.
const ENTRY_BYTES: u64 = 96;
/// For the policy's estimate of how many entries there will be.
const BLOCK_BYTES: u64 = 4096;

pub(crate) struct BlockCache {
    blocks: Cache<Key, Block, Bytes, BuildHasherDefault<KeyHasher>>,
    /// Figures.
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Block> for Bytes {
    fn weight(&self, _key: &Key, block: &Block) -> u64 {
        block.pinned_bytes() as u64 + ENTRY_BYTES
    }
}

/// Numbers that are given out one by one become places that are far apart.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BlockCache {
    /// Of so many bytes; with 0 nothing is kept.
    pub(crate) fn new(bytes: u64) -> Arc<BlockCache> {
        let entries = (bytes / BLOCK_BYTES).clamp(16, 1 << 26) as usize;
        Arc::new(BlockCache {
            blocks: Cache::with(
                entries,
                bytes,
                Bytes,
                BuildHasherDefault::default(),
                quick_cache::sync::DefaultLifecycle::default(),
            ),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// A block of a table. Panics if there is no such block.
    pub(crate) fn block(&self, table: &Table, ordinal: usize) -> Result<Block> {
        if let Some(block) = self.get(table, ordinal) {
            return Ok(block);
        }
        let block = table.read_block(ordinal)?;
        if let Some(key) = key_of(table, ordinal) {
            self.blocks.insert(key, block.clone());
        }
        Ok(block)
    }

    /// Bytes that it keeps.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Relaxed)
    }
}

/// What scans read at their beginning; who goes on for long passes most of what it reads by.
impl BlockSource for BlockCache {
    fn get(&self, table: &Table, ordinal: usize) -> Option<Block> {
        let block = self.blocks.get(&key_of(table, ordinal)?);
        let counter = if block.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Relaxed);
        block
    }

    fn offer(&self, table: &Table, ordinal: usize, block: &Block) {
        if let Some(key) = key_of(table, ordinal) {
            self.blocks.insert(key, block.detached());
        }
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} bytes)", self.bytes())
    }
}
