//! [`BlockCache`]: blocks of tables in memory. A get that finds its block here reads no file.
//!
//! It is a map in shards. Its policy keeps blocks that are used again when a scan reads many blocks
//! once each (quick_cache; decision 0001). A table's number is never used again, so nothing in the
//! map is ever wrong. Blocks of tables that are gone leave when other blocks need their place.
//! Thread safety: shared freely. Two threads that miss the same block both read it.

use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use evendb_storage::table::{Block, BlockSource, Table};
use evendb_storage::{Result, TableId};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Number of the table, ordinal of the block.
type Key = (TableId, u32);

/// `None` if the ordinal does not fit into 32 bits: such a block is never kept.
fn key_of(table: &Table, ordinal: usize) -> Option<Key> {
    Some((table.id(), u32::try_from(ordinal).ok()?))
}

/// Bytes of memory that an entry takes beside its block.
const ENTRY_BYTES: u64 = 96;
/// Typical bytes of a block. The policy needs it to estimate the number of entries.
const BLOCK_BYTES: u64 = 4096;

pub(crate) struct BlockCache {
    blocks: Cache<Key, Block, Bytes, BuildHasherDefault<KeyHasher>>,
    /// For statistics.
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

/// Spreads numbers that are given out one by one over the whole map.
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
    /// A cache of this many bytes; with 0 it keeps nothing.
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

/// Scans use the cache at their beginning only. A scan that goes on for long reads past it.
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
