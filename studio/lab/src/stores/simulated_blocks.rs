//! Records in RAM that count what a block cache would read: exact, fast, and without a disk.
//!
//! ```text
//!   records in the order of keys:  | block 0 | block 1 | ... |     BLOCK_BYTES each
//!                                       |  asked by a get, or by a scan that comes through it
//!                      in the cache? ---+--- yes: blocks.hit
//!                                       +--- no:  blocks.read, and the block used longest ago goes
//! ```
//! It answers how many blocks a load asks for if nothing counts but where its reads lie: the study
//! of RocksDB loads finds that this is most of what a store reads. The cache has the memory of the
//! settings, all of it.
//!
//! Blocks are laid out when the debt is paid and the number of records has changed since the last
//! time. A put changes a record in its block and asks for no block. Not here: levels, memtables,
//! compaction, filters, index blocks, and bytes that are written. Nothing is on disk, so nothing
//! survives a close.
//!
//! Thread safety: as the trait says. With several threads the order of their reads, and so the
//! counts, differ a little from run to run; with one thread they are always the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::memory::MemoryStore;
use crate::opener::{Opener, Purpose, Settings};
use crate::purposes::CountingStore;
use crate::store::{BLOCKS_HIT, BLOCKS_READ, BLOCKS_READ_BYTES};
use crate::store::{Figure, Store, StoreResult};

/// The bytes of keys and values of a block: the study's example.
pub const BLOCK_BYTES: u64 = 16 << 10;

/// Opens a [`SimulatedBlocks`].
#[derive(Clone, Copy, Debug)]
pub struct SimulatedBlocksOpener;

impl Opener for SimulatedBlocksOpener {
    fn name(&self) -> &'static str {
        "simulated-blocks"
    }

    fn only_if_named(&self) -> bool {
        true
    }

    fn open(&self, _: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        Ok(Box::new(SimulatedBlocks::new(settings.memory_bytes)))
    }

    fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Counters
    }

    /// Counters need nothing else.
    fn open_for(
        &self,
        directory: &Path,
        settings: &Settings,
        _purpose: Purpose,
    ) -> StoreResult<Box<dyn Store>> {
        self.open(directory, settings)
    }
}

/// See the module.
pub struct SimulatedBlocks {
    records: MemoryStore,
    layout: RwLock<Layout>,
    cache: Mutex<Cache>,
    read: AtomicU64,
    hit: AtomicU64,
}

/// The blocks of the records that were there when the debt was paid.
#[derive(Default)]
struct Layout {
    /// The first key of each block.
    first_keys: Vec<Vec<u8>>,
    records: usize,
}

impl Layout {
    fn of(store: &MemoryStore) -> StoreResult<Self> {
        let mut layout = Self::default();
        let mut filled = BLOCK_BYTES;
        layout.records = store.scan(b"", usize::MAX, &mut |key, value| {
            if filled >= BLOCK_BYTES {
                layout.first_keys.push(key.to_vec());
                filled = 0;
            }
            filled += (key.len() + value.len()) as u64;
            true
        })?;
        Ok(layout)
    }

    /// The block in which a key is or would be.
    fn block_of(&self, key: &[u8]) -> Option<usize> {
        let after = self.first_keys.partition_point(|first| &first[..] <= key);
        (!self.first_keys.is_empty()).then(|| after.saturating_sub(1))
    }

    /// Whether a key is behind this block.
    fn is_behind(&self, block: usize, key: &[u8]) -> bool {
        self.first_keys
            .get(block + 1)
            .is_some_and(|next| &next[..] <= key)
    }
}

/// Which blocks are in RAM. The one that was used longest ago leaves first.
struct Cache {
    blocks_max: usize,
    clock: u64,
    /// For each block in RAM, when it was used last.
    used: BTreeMap<usize, u64>,
    /// The same the other way round.
    by_use: BTreeMap<u64, usize>,
}

impl Cache {
    fn new(blocks_max: usize) -> Self {
        Self {
            blocks_max,
            clock: 0,
            used: BTreeMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Uses a block. Returns whether it was in RAM.
    fn touch(&mut self, block: usize) -> bool {
        self.clock += 1;
        let before = self.used.insert(block, self.clock);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, block);
        if self.used.len() > self.blocks_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

impl SimulatedBlocks {
    /// An empty store with a cache of `cache_bytes`, at least one block.
    #[must_use]
    pub fn new(cache_bytes: u64) -> Self {
        let blocks = usize::try_from(cache_bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        Self {
            records: MemoryStore::new(),
            layout: RwLock::default(),
            cache: Mutex::new(Cache::new(blocks.max(1))),
            read: AtomicU64::new(0),
            hit: AtomicU64::new(0),
        }
    }

    fn ask_for(&self, block: usize) {
        let counter = match self.cache.lock().touch(block) {
            true => &self.hit,
            false => &self.read,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store for SimulatedBlocks {
    crate::passed_on!(records: put, delete, batch);

    fn name(&self) -> String {
        "simulated blocks of 16 KiB".to_owned()
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        if let Some(block) = self.layout.read().block_of(key) {
            self.ask_for(block);
        }
        self.records.get(key, check)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let layout = self.layout.read();
        let mut block = layout.block_of(from);
        if let Some(block) = block {
            self.ask_for(block);
        }
        self.records.scan(from, limit, &mut |key, value| {
            while let Some(at) = block
                && layout.is_behind(at, key)
            {
                block = Some(at + 1);
                self.ask_for(at + 1);
            }
            each(key, value)
        })
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        self.records.counters()
    }

    fn stats(&self) -> Vec<Figure> {
        let read = self.read.load(Ordering::Relaxed);
        vec![
            Figure::counter(BLOCKS_READ, read),
            Figure::counter(BLOCKS_READ_BYTES, read * BLOCK_BYTES),
            Figure::counter(BLOCKS_HIT, self.hit.load(Ordering::Relaxed)),
        ]
    }

    /// Lays out the blocks anew, if there are more records or fewer. The cache is empty then.
    fn settle_debt(&self) -> StoreResult<()> {
        let mut layout = self.layout.write();
        if layout.records != self.records.len() {
            *layout = Layout::of(&self.records)?;
            let mut cache = self.cache.lock();
            *cache = Cache::new(cache.blocks_max);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 blocks of 16 records, each of a KiB.
    fn filled(cache_blocks: u64) -> SimulatedBlocks {
        let store = SimulatedBlocks::new(cache_blocks * BLOCK_BYTES);
        for record in 0..1024u32 {
            store.put(&key(record), &[7; 1020]).unwrap();
        }
        store.settle_debt().unwrap();
        store
    }

    fn key(record: u32) -> [u8; 4] {
        [24, 16, 8, 0].map(|shift| (record >> shift) as u8)
    }

    fn counts(store: &SimulatedBlocks) -> (u64, u64) {
        let figures = store.stats();
        assert_eq!(figures[1].value, figures[0].value * BLOCK_BYTES);
        (figures[0].value, figures[2].value)
    }

    #[test]
    fn a_block_is_read_once_while_the_cache_has_room() {
        let store = filled(2);
        let get = |record| assert!(store.get(&key(record), &mut |_| {}).unwrap());
        get(0);
        get(15);
        assert_eq!(counts(&store), (1, 1));
        get(16);
        assert_eq!(counts(&store), (2, 1));
        // Block 0 is used again, so block 1 leaves when block 2 comes.
        get(1);
        get(32);
        get(2);
        assert_eq!(counts(&store), (3, 3));
        get(16);
        assert_eq!(counts(&store), (4, 3));
    }

    #[test]
    fn a_scan_asks_for_each_block_that_it_comes_through() {
        let store = filled(64);
        let scan = |from, limit| store.scan(&key(from), limit, &mut |_, _| true).unwrap();
        assert_eq!(scan(8, 8), 8);
        assert_eq!(counts(&store), (1, 0));
        assert_eq!(scan(8, 41), 41);
        assert_eq!(counts(&store), (4, 1));
        // Beyond the last key there is the last block.
        assert_eq!(scan(5000, 3), 0);
        assert_eq!(counts(&store), (5, 1));
    }

    #[test]
    fn a_put_asks_for_no_block_and_new_records_change_the_layout() {
        let store = filled(64);
        store.put(&key(3), &[8; 1020]).unwrap();
        store.settle_debt().unwrap();
        assert_eq!(counts(&store), (0, 0));
        store.get(&key(3), &mut |_| {}).unwrap();
        store.put(&key(9999), b"").unwrap();
        store.settle_debt().unwrap();
        store.get(&key(3), &mut |_| {}).unwrap();
        assert_eq!(counts(&store), (2, 0));
    }
}
