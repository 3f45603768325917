//! Parts of the engine, opened to benchmarks: thin wrappers without logic of their own.
//!
//! [`MunkSet`] and [`DeltaSet`] are a keyspace reduced to one kind of part: the engine's index with
//! a munk, or a delta, at each chunk. Their operations pin like the engine's and go through the
//! index, so a benchmark has the cache misses of a real lookup; the view, the metrics and the
//! commit log are left out. [`load_munks`] loads the munks of a whole database.
//!
//! Not part of the public interface: anything here may change at any time.

use crate::Db;
use crate::chunk::index::Index;
use crate::delta::Delta;
use crate::error::Result;
use crate::folding::Folding;
use crate::memory::Ledger;
use crate::munk::{Munk, MunkBuilder, Sizes, Sought};
use crate::rebalance::spans;
use crate::record::RecordRef;
use crate::sync::{Arc, reclaim};
use crate::version::horizon::Horizon;
use evendb_storage::key_hash::RamHash;
use evendb_storage::{EntryRef, Kind, Version};
use std::time::Duration;

/// An index whose chunks are mere numbers.
#[derive(Debug)]
pub struct ChunkIndex(Index<u64>);

impl ChunkIndex {
    /// Chunk `i` begins at `lows[i]`; the keys ascend, and the first is taken as the empty key.
    #[must_use]
    pub fn new(lows: &[Vec<u8>]) -> Self {
        Self(index_of(lows, |number| number as u64))
    }

    /// The chunk of a key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> u64 {
        **self.0.find(key)
    }
}

/// Chunks that have only munks.
#[derive(Debug)]
pub struct MunkSet {
    index: Index<Munk>,
}

impl MunkSet {
    /// Builds munks of about `chunk_bytes` bytes of data from records in ascending order.
    #[must_use]
    pub fn build<'a>(
        records: impl Iterator<Item = (Vec<u8>, &'a [u8])>,
        chunk_bytes: usize,
    ) -> Self {
        let mut munks = Vec::new();
        let sizes = Sizes::of_chunk(chunk_bytes as u64);
        let empty = || MunkBuilder::new(sizes, Ledger::SHARED);
        let (mut builder, mut low) = (empty(), Vec::new());
        let mut bytes = 0;
        for (key, value) in records {
            if bytes >= chunk_bytes {
                let full = std::mem::replace(&mut builder, empty());
                let next_low = key.clone().into_boxed_slice();
                munks.push((
                    std::mem::replace(&mut low, next_low.into_vec()).into(),
                    Arc::new(full.finish()),
                ));
                bytes = 0;
            }
            bytes += key.len() + value.len();
            builder.add(entry(&key, value));
        }
        munks.push((low.into(), Arc::new(builder.finish())));
        Self {
            index: Index::new(munks),
        }
    }

    /// Passes the value of a key to `each`. Returns whether there is one.
    #[inline]
    pub fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        let hash = RamHash::of(key);
        let _pin = reclaim::pin();
        let Sought::Found(hit) = self.index.find(key).get(key, hash, Version::MAX) else {
            return false;
        };
        each(hit.value_bytes());
        true
    }

    /// Passes up to `limit` records from `from` on to `each`. Returns their number.
    pub fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize {
        let _pin = reclaim::pin();
        let mut munk = self.index.find(from);
        let mut next = self.index.next(from);
        let mut cursor = munk.cursor();
        cursor.seek(from);
        let mut lent = 0;
        while lent < limit {
            if !cursor.valid() {
                let Some((low, following)) = next else { break };
                (munk, next) = (following, self.index.next(low));
                cursor = munk.cursor();
                cursor.seek_first();
                continue;
            }
            if let Some(hit) = cursor.newest_at(Version::MAX) {
                each(cursor.key(), hit.value_bytes());
                lent += 1;
            }
            cursor.next_within_page();
        }
        lent
    }

    /// The bytes of memory that the munks hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.iter().map(|(_, munk)| munk.bytes()).sum()
    }

    /// The number of chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.index.len()
    }

    /// The munks' records overlaid by the records of the deltas of the same chunks.
    #[must_use]
    pub fn absorb(&self, newer: &DeltaSet) -> Self {
        let horizon = Horizon {
            floor: Version(u64::MAX - 1),
            snapshots: Vec::new(),
            ..Horizon::default()
        };
        let munks = self.index.iter().map(|(low, munk)| {
            let pin = reclaim::pin();
            let mut cursor = newer.index.find(low).cursor(&pin);
            cursor.seek_first();
            let absorbed = munk.absorb(&mut DeltaInput(cursor), &horizon, true, Folding::NONE);
            (Box::from(low), Arc::new(absorbed))
        });
        Self {
            index: Index::new(munks.collect()),
        }
    }
}

struct DeltaInput<'g>(crate::delta::DeltaCursor<'g>);

impl crate::munk::MunkInput for DeltaInput<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        self.0
            .valid()
            .then(|| self.0.newest_at(Version::MAX))
            .flatten()
            .map(|record| record.entry())
    }

    fn advance(&mut self) {
        self.0.next();
    }
}

/// Chunks that have only a delta.
#[derive(Debug)]
pub struct DeltaSet {
    index: Index<Delta>,
}

impl DeltaSet {
    /// Empty deltas for chunks that begin at `lows`.
    #[must_use]
    pub fn new(lows: &[Vec<u8>]) -> Self {
        Self {
            index: index_of(lows, |_| Delta::new(1)),
        }
    }

    /// Empty deltas for the chunks of a set of munks.
    #[must_use]
    pub fn beside(munks: &MunkSet) -> Self {
        let lows: Vec<_> = munks.index.iter().map(|(low, _)| low.to_vec()).collect();
        Self::new(&lows)
    }

    /// Makes a record and links it. One thread at a time may call it; versions must not fall.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8], version: u64) {
        let mut record = RecordRef::new(key, value, Kind::Put, RamHash::of(key));
        record.set_version(Version(version));
        let _pin = reclaim::pin();
        self.index.find(key).insert(record);
    }

    /// Passes the value of a key to `each`. Returns whether there is one.
    #[inline]
    pub fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        let hash = RamHash::of(key);
        let pin = reclaim::pin();
        let hit = self.index.find(key).get(key, hash, Version::MAX, &pin);
        hit.is_some_and(|record| {
            each(record.value());
            true
        })
    }

    /// The bytes of memory that the deltas hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.iter().map(|(_, delta)| delta.bytes()).sum()
    }
}

/// The cost of loading munks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loads {
    /// The number of loaded munks.
    pub munks: u64,
    /// The bytes of the tables that they were built from.
    pub table_bytes: u64,
    /// The time of all loads, one after the other.
    pub elapsed: Duration,
}

/// Loads the munk of every chunk that has none, on this thread. For a database without munks
/// (`Advanced::munks(false)`), where nothing else loads or evicts munks.
///
/// # Errors
/// The errors of reading the chunks.
pub fn load_munks(database: &Db) -> Result<Loads> {
    let engine = &database.handle().engine;
    let mut loads = Loads::default();
    for (_, chunk) in engine.catalog.chunks() {
        let Some(_token) = chunk.try_token() else {
            continue;
        };
        let view = chunk.view.load_full();
        let started = std::time::Instant::now();
        spans::load_munk(&engine.core, &chunk)?;
        loads.elapsed += started.elapsed();
        loads.munks += 1;
        let tables = view.funk.tables();
        loads.table_bytes += tables.map(|table| table.part_len()).sum::<u64>();
    }
    Ok(loads)
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> EntryRef<'a> {
    EntryRef {
        key,
        version: Version::ZERO,
        kind: Kind::Put,
        value,
    }
}

fn index_of<C>(lows: &[Vec<u8>], chunk_of: impl Fn(usize) -> C) -> Index<C> {
    let entries = lows.iter().enumerate().map(|(number, low)| {
        let low = if number == 0 { &[][..] } else { low };
        (Box::from(low), Arc::new(chunk_of(number)))
    });
    Index::new(entries.collect())
}
