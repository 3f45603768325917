//! Sorted tables (SSTables): an immutable sorted run of records, on disk.
//!
//! One format serves a chunk's SSTable (a file of its own) and every run in a chunk's log (an
//! extent of a container file): a table is a range `[offset, offset + len)` of some file.
//!
//! Records are ordered by (key ascending, version descending).

use crate::{EntryRef, Kind, Result, TableId, Version, vfs::File};
use std::sync::Arc;

/// How a block's bytes are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Codec {
    /// Stored as they are.
    #[default]
    None = 0,
    /// LZ4 block format; blocks that do not shrink are stored as they are.
    Lz4 = 1,
}

/// How a table is laid out.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Target size of a data block before compression, in bytes.
    pub block_bytes: usize,
    /// Keys between two restart points of a block's prefix compression.
    pub restart_interval: usize,
    /// Compression of data blocks.
    pub codec: Codec,
    /// Bits per key of the filter for absent keys; 0 for none.
    pub filter_bits_per_key: u32,
}

/// What a finished table is; the manifest keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// Bytes of the table.
    pub len: u64,
    /// Records.
    pub entries: u64,
    /// Records that are deletes.
    pub deletes: u64,
    /// Sum of key lengths and value lengths.
    pub data_bytes: u64,
    /// Least key.
    pub min_key: Vec<u8>,
    /// Greatest key.
    pub max_key: Vec<u8>,
    /// Greatest version.
    pub max_version: Version,
    /// Checksum of the table's footer and index, naming this very table.
    pub checksum: u32,
}

/// Where a table's bytes go, in order.
pub trait TableSink {
    /// Appends `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

/// Writes a table: records in order, then [`TableWriter::finish`].
#[derive(Debug)]
pub struct TableWriter<S> {
    _sink: S,
}

impl<S: TableSink> TableWriter<S> {
    /// A table with identity `id` into `sink`.
    pub fn new(_sink: S, _id: TableId, _options: TableOptions) -> Self {
        unimplemented!()
    }
    /// Appends a record: keys ascending, versions of one key descending.
    pub fn add(&mut self, _entry: EntryRef<'_>) -> Result<()> {
        unimplemented!()
    }
    /// Bytes handed to the sink so far, plus what is buffered.
    pub fn bytes_estimate(&self) -> u64 {
        unimplemented!()
    }
    /// Writes filter, index, properties and footer.
    pub fn finish(self) -> Result<(S, TableMeta)> {
        unimplemented!()
    }
}

/// A verified, decompressed data block; cheap to clone, pins its bytes.
#[derive(Clone, Debug)]
pub struct Block(Arc<[u8]>);

impl Block {
    /// The block's bytes; positions of values refer to them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A record found in a block: its value is `block.bytes()[value]`.
#[derive(Clone, Debug)]
pub struct Found {
    /// Version of the record.
    pub version: Version,
    /// Put or delete.
    pub kind: Kind,
    /// The block that holds the value.
    pub block: Block,
    /// Range of the value within the block's bytes.
    pub value: std::ops::Range<usize>,
}

/// An open table with its block index and filter in RAM.
#[derive(Debug)]
pub struct Table {
    _file: Arc<dyn File>,
}

impl Table {
    /// Opens the table at `[offset, offset + len)` of `file`: reads footer, index, filter and
    /// properties (one read for small tables), verifies them against `id`.
    pub fn open(_file: Arc<dyn File>, _offset: u64, _len: u64, _id: TableId) -> Result<Table> {
        unimplemented!()
    }
    /// Bytes that the resident index and filter take.
    pub fn resident_bytes(&self) -> usize {
        unimplemented!()
    }
    /// What the table holds.
    pub fn meta(&self) -> &TableMeta {
        unimplemented!()
    }
    /// Data blocks.
    pub fn block_count(&self) -> usize {
        unimplemented!()
    }
    /// `false` if the filter shows that no record has a key of this hash; `true` without a filter.
    pub fn may_contain(&self, _hash: u64) -> bool {
        unimplemented!()
    }
    /// The ordinal of the block in which the newest record of `key` is if it is anywhere.
    pub fn block_for(&self, _key: &[u8]) -> Option<usize> {
        unimplemented!()
    }
    /// Reads and verifies block `ordinal`.
    pub fn read_block(&self, _ordinal: usize) -> Result<Block> {
        unimplemented!()
    }
    /// Newest record of `key` with version at most `at`, by one block read (more only where the
    /// versions of one key span blocks).
    pub fn get(&self, _key: &[u8], _at: Version) -> Result<Option<Found>> {
        unimplemented!()
    }
    /// The same, looking only in block `ordinal` (and the next ones if the key's versions go on).
    pub fn get_from_block(
        &self,
        _ordinal: usize,
        _key: &[u8],
        _at: Version,
    ) -> Result<Option<Found>> {
        unimplemented!()
    }
    /// Calls `each(hash, block ordinal)` for every record in order: what a log index is built of.
    pub fn for_each_hash(&self, _each: &mut dyn FnMut(u64, usize)) -> Result<()> {
        unimplemented!()
    }
}

/// A cursor over a table's records, in both directions; owns the table.
///
/// Errors leave the cursor invalid; the caller stops.
#[derive(Debug)]
pub struct TableCursor {
    _table: Arc<Table>,
}

impl TableCursor {
    /// An unpositioned cursor. `readahead_blocks` data blocks (at least 1) are fetched by one read
    /// when the cursor moves on in its direction.
    pub fn new(_table: Arc<Table>, _readahead_blocks: usize) -> TableCursor {
        unimplemented!()
    }
    /// Whether it is on a record.
    pub fn valid(&self) -> bool {
        unimplemented!()
    }
    /// To the first record with key `>= key`.
    pub fn seek(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// To the last record with key `< key`.
    pub fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// To the first record.
    pub fn seek_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the last record.
    pub fn seek_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the next record in order.
    pub fn next(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the record before.
    pub fn prev(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// The record it is on. Panics if not valid.
    pub fn entry(&self) -> EntryRef<'_> {
        unimplemented!()
    }
    /// The block that holds the record's value, and the value's range within its bytes.
    pub fn value_block(&self) -> (&Block, std::ops::Range<usize>) {
        unimplemented!()
    }
}
