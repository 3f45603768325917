//! An open table: its tail is verified and resident, data blocks are read when asked for.
//!
//! The tail of a table is everything behind its data: footer, index, filter and dictionary. A get
//! costs one allocation, one read and one checksum, and keeps nothing of the block. If the tail is
//! at most `TAIL_BYTES`, opening is one read. A table that is no larger in all is kept as a
//! whole: a small run of a log, into which every scan of its chunk looks, is read once.
//! Immutable and shared freely between threads. No cache here: that belongs to the caller.

use super::tail::{Described, Parts, TAIL_BYTES, cipher_of, read_at, read_tail};
use crate::filter::BloomFilter;
use crate::heap;
use crate::key_hash::FilterHash;
use crate::sealing::Cipher;
use crate::table::block::{Block, Search};
use crate::table::footer::{FOOTER_BYTES, Properties};
use crate::table::index::BlockIndex;
use crate::table::packing::{self, NEEDS_ZSTD};
use crate::table::stored::{self, Decoded, Malformed, NEEDS_KEY, UNKNOWN_KIND};
use crate::table::zstd::Dictionary;
use crate::table::{Codec, Found, TableMeta};
use crate::vfs::File;
use crate::{Error, Result, TableId, Version};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// A buffer for a compressed block longer than this is not kept for the next block.
const SCRATCH_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// Compressed bytes on their way into a block, so that a get allocates only the block.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An open table with its block index and filter in RAM.
pub struct Table {
    pub(crate) file: Arc<dyn File>,
    pub(crate) offset: u64,
    id: TableId,
    meta: TableMeta,
    codec: Codec,
    data_checksum: u32,
    /// The dictionary of blocks of [`Codec::ZstdDictionary`].
    dictionary: Option<Dictionary>,
    pub(crate) index: BlockIndex,
    filter: Option<BloomFilter>,
    /// The cipher of an encrypted table.
    cipher: Option<Cipher>,
    /// All stored blocks of a small, uncompressed table; decrypted, if it was encrypted.
    pub(crate) whole: Option<Arc<[u8]>>,
    /// Each block has one key, and the key is its separator.
    pub(crate) is_keyed: bool,
    /// The version of all records, if it was assigned. It replaces the versions in the rows.
    assigned: Option<Version>,
    /// An object that is dropped with the table.
    companion: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("id", &self.id)
            .field("path", &self.file.path())
            .field("offset", &self.offset)
            .field("len", &self.meta.len)
            .field("blocks", &self.index.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// How many of a table's last bytes [`open`](Self::open) reads first.
    pub fn tail_bytes(len: u64) -> u64 {
        len.min(TAIL_BYTES)
    }

    /// Opens the table at `[offset, offset + len)` of `file`: reads footer, dictionary, index,
    /// filter and properties (one read for small tables), and verifies them against `id`.
    ///
    /// Fails with `Unsupported` for another format version, and for a table that needs a feature
    /// that this build lacks, before it looks at anything except the footer. Fails with
    /// `Corruption` if anything else does not verify.
    pub fn open(file: Arc<dyn File>, offset: u64, len: u64, id: TableId) -> Result<Table> {
        Table::open_by_tail(file, offset, len, id, TAIL_BYTES)
    }

    /// [`open`](Self::open) by a caller that knows about how many bytes lie behind the data. If
    /// there are more than `tail_bytes`, that costs a second read.
    pub fn open_by_tail(
        file: Arc<dyn File>,
        offset: u64,
        len: u64,
        id: TableId,
        tail_bytes: u64,
    ) -> Result<Table> {
        let corrupt = |relative: u64, malformed: Malformed| {
            file.unverified(offset.saturating_add(relative), malformed.0)
        };
        if len < FOOTER_BYTES as u64 || offset.checked_add(len).is_none() {
            return Err(corrupt(0, Malformed("table too short for a footer")));
        }
        let (footer, mut tail, tail_start) = read_tail(&*file, offset, len, id, tail_bytes)?;
        let cipher = cipher_of(&*file, &footer, &tail, id)
            .map_err(|malformed| refuse(&*file, offset.saturating_add(len), malformed))?;
        let mut parts = Parts {
            tail: &mut tail,
            tail_start,
            at: footer.data_len,
            id,
            crc: 0,
            cipher: cipher.as_ref(),
        };
        let Described {
            dictionary,
            filter,
            index,
            properties,
            checksum,
        } = parts
            .described_by(&footer)
            .map_err(|(at, malformed)| corrupt(at, malformed))?;
        let Properties {
            mut meta,
            codec,
            data_checksum,
            ..
        } = properties;
        meta.len = len;
        meta.checksum = checksum;
        // In a keyed table a search may need no block: keeping blocks is not worth the memory.
        let is_small = tail_start == 0 && len <= TAIL_BYTES && codec == Codec::None;
        let is_whole = is_small && !footer.is_keyed;
        let whole = usize::try_from(footer.data_len).ok().filter(|_| is_whole);
        let whole = whole.and_then(|data_len| tail.get_mut(..data_len));
        let whole = whole.and_then(|data| opened(cipher.as_ref(), data, &index, id));
        Ok(Table {
            file,
            offset,
            id,
            meta,
            codec,
            data_checksum,
            dictionary,
            index,
            filter,
            whole,
            cipher,
            is_keyed: footer.is_keyed,
            assigned: None,
            companion: None,
        })
    }

    /// Bytes that index, filter, dictionary, and the blocks of a small table take.
    pub fn resident_bytes(&self) -> usize {
        // Allocators put a word in front of each allocation, and round it up to 16 bytes.
        let allocated = |bytes: usize| (bytes + 8).next_multiple_of(16);
        let filter = self.filter.as_ref().map_or(0, BloomFilter::bytes);
        let whole = self
            .whole
            .as_ref()
            .map_or(0, |whole| allocated(whole.len() + 16));
        let keys =
            allocated(self.meta.min_key.capacity()) + allocated(self.meta.max_key.capacity());
        let counted = 2 * size_of::<usize>() + size_of::<Self>();
        let dictionary = self.dictionary.as_ref();
        let dictionary = dictionary.map_or(0, |dictionary| allocated(dictionary.resident_bytes()));
        let cipher = self.cipher.as_ref().map_or(0, |_| Cipher::MEMORY_BYTES);
        allocated(counted)
            + self.index.resident_bytes()
            + allocated(filter)
            + dictionary
            + cipher
            + whole
            + keys
    }

    /// The table with an object that lives as long as it does: its owner's account of it.
    pub fn with_companion(mut self, companion: Box<dyn std::any::Any + Send + Sync>) -> Table {
        self.companion = Some(companion);
        self
    }

    /// The table with this version for each of its records, whatever its rows say. For a table that
    /// was written before its version was known. The table has each key once.
    pub fn with_version(mut self, version: Version) -> Table {
        self.assigned = Some(version);
        self
    }

    /// The version of all records, if one was assigned.
    #[inline]
    pub(crate) fn assigned(&self) -> Option<Version> {
        self.assigned
    }

    /// The properties of the table.
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Identity of the table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// All stored blocks, if they are held.
    pub(crate) fn whole(&self) -> Option<&Arc<[u8]>> {
        self.whole.as_ref()
    }

    /// The number of data blocks.
    pub fn block_count(&self) -> usize {
        self.index.len()
    }

    /// About how many data blocks have `bytes` bytes together, at least one. Blocks may be small.
    pub fn blocks_in(&self, bytes: usize) -> usize {
        let count = self.index.len() as u64;
        let blocks = (bytes as u64).saturating_mul(count) / self.index.data_bytes().max(1);
        blocks.clamp(1, count.max(1)) as usize
    }

    /// `false` if the filter shows that no record has a key of this hash; `true` without a filter.
    #[inline]
    pub fn may_contain(&self, hash: FilterHash) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.may_contain(hash.0))
    }

    /// Whether there is a filter for absent keys.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether the blocks are kept, too: the table is small, and not keyed.
    pub(crate) fn is_in_ram(&self) -> bool {
        self.whole.is_some()
    }

    /// The ordinal of the only block that can hold the newest record of `key`.
    pub fn block_for(&self, key: &[u8]) -> Option<usize> {
        if key < &*self.meta.min_key {
            return None;
        }
        let ordinal = self.index.find(key);
        (ordinal < self.index.len()).then_some(ordinal)
    }

    /// Whether the versions of `key` go on from block `ordinal` into the next.
    pub(crate) fn continues(&self, ordinal: usize, key: &[u8]) -> bool {
        self.index.continues(ordinal, key)
    }

    /// Checksum of the data blocks' checksums, from the properties.
    pub(crate) fn data_checksum(&self) -> u32 {
        self.data_checksum
    }

    /// The place of stored block `ordinal` within the table.
    pub(crate) fn place(&self, ordinal: usize) -> Range<u64> {
        self.index.block(ordinal)
    }

    /// Fills `buffer` with the table's bytes from `relative` on.
    pub(crate) fn read_stored(&self, buffer: &mut [u8], relative: u64) -> Result<()> {
        heap::expect(buffer.len());
        read_at(&*self.file, buffer, self.offset + relative)
    }

    /// Bytes of the file that block `ordinal` takes. Panics if there is no such block.
    pub fn stored_block_bytes(&self, ordinal: usize) -> u64 {
        let place = self.index.block(ordinal);
        place.end - place.start
    }

    /// Reads and verifies block `ordinal`. Panics if there is no such block.
    pub fn read_block(&self, ordinal: usize) -> Result<Block> {
        let place = self.index.block(ordinal);
        let len = self.memory_len(&place)?;
        if let Some(whole) = &self.whole {
            // The index's places lie within the data; decoding the index checked that.
            return self.block_in(whole, place.start as usize..place.end as usize, place.start);
        }
        match self.codec {
            Codec::None => {
                let mut buffer = stored::zeroed(len);
                if let Some(bytes) = Arc::get_mut(&mut buffer) {
                    self.read_stored(bytes, place.start)?;
                    self.open_in_place(bytes, place.start)?;
                }
                self.block_in(&buffer, 0..len, place.start)
            }
            _ => {
                let mut scratch = SCRATCH.take();
                scratch.resize(len, 0);
                let block = self.read_stored(&mut scratch, place.start).and_then(|()| {
                    self.open_in_place(&mut scratch, place.start)?;
                    let block = self.block_of(&scratch, place.start);
                    block.map_err(|malformed| self.corrupt_at(place.start, malformed))
                });
                if scratch.capacity() <= SCRATCH_BYTES_MAX {
                    SCRATCH.set(scratch);
                }
                block
            }
        }
    }

    /// The block stored in `stored`, in an allocation of its own.
    fn block_of(&self, stored: &[u8], relative: u64) -> Decoded<Block> {
        let (payload, used) = self.payload_of(stored, relative)?;
        let bytes = packing::unpack(payload, used, self.dictionary.as_ref())?;
        let len = bytes.len();
        Block::parse(bytes, 0..len)
    }

    /// Payload and codec of a stored block, which is verified here or was opened when it was read.
    #[inline]
    fn payload_of<'b>(&self, stored: &'b [u8], relative: u64) -> Decoded<(&'b [u8], Codec)> {
        match self.cipher {
            None => stored::verify(stored, self.id, relative),
            Some(_) => stored::opened(stored),
        }
    }

    /// Decrypts a stored block, if the table is encrypted.
    #[inline]
    fn open_in_place(&self, stored: &mut [u8], relative: u64) -> Result<()> {
        if let Some(cipher) = &self.cipher {
            let opened = stored::open(cipher, stored, self.id, relative);
            opened.map_err(|malformed| self.corrupt_at(relative, malformed))?;
        }
        Ok(())
    }

    /// Decrypts neighbouring stored blocks of an encrypted table. Returns blocks that do not open.
    pub(crate) fn open_all(
        &self,
        stored: &mut [u8],
        blocks: Range<usize>,
    ) -> Vec<(usize, Malformed)> {
        match &self.cipher {
            Some(cipher) => open_blocks(cipher, stored, &self.index, blocks, self.id),
            None => Vec::new(),
        }
    }

    /// The block stored in `buffer[within]`. It shares the buffer if it is not compressed. A block
    /// of an encrypted table was opened there before.
    pub(crate) fn block_in(
        &self,
        buffer: &Arc<[u8]>,
        within: Range<usize>,
        relative: u64,
    ) -> Result<Block> {
        let stored = &buffer[within.clone()];
        let block = self
            .payload_of(stored, relative)
            .and_then(|(payload, used)| {
                if used != Codec::None {
                    let bytes = packing::unpack(payload, used, self.dictionary.as_ref())?;
                    let len = bytes.len();
                    return Block::parse(bytes, 0..len);
                }
                Block::parse(
                    Arc::clone(buffer),
                    within.start..within.start + payload.len(),
                )
            });
        block.map_err(|malformed| self.corrupt_at(relative, malformed))
    }

    pub(crate) fn memory_len(&self, place: &Range<u64>) -> Result<usize> {
        usize::try_from(place.end - place.start)
            .map_err(|_| self.corrupt_at(place.start, Malformed("block larger than memory")))
    }

    pub(crate) fn corrupt_at(&self, relative: u64, malformed: Malformed) -> Error {
        refuse(&*self.file, self.offset + relative, malformed)
    }

    /// The error for a block whose rows make no sense.
    pub(crate) fn corrupt_block(&self, ordinal: usize, malformed: Malformed) -> Error {
        self.corrupt_at(self.index.block(ordinal).start, malformed)
    }

    /// Newest record of `key` with version at most `at`, by one block read (or more, if the
    /// versions of the key span blocks). It does not ask the filter.
    pub fn get(&self, key: &[u8], at: Version) -> Result<Option<Found>> {
        match self.block_for(key) {
            Some(ordinal) => self.get_from_block(ordinal, key, at),
            None => Ok(None),
        }
    }

    /// The same, which looks only in block `ordinal` (and in the next ones if the key's versions go
    /// on). Panics if there is no such block.
    pub fn get_from_block(
        &self,
        mut ordinal: usize,
        key: &[u8],
        at: Version,
    ) -> Result<Option<Found>> {
        let at = match self.assigned {
            Some(version) if !version.is_seen_at(at) => return Ok(None),
            Some(_) => Version::MAX,
            None => at,
        };
        loop {
            let block = self.read_block(ordinal)?;
            let found = block.search(key, at);
            match found.map_err(|malformed| self.corrupt_block(ordinal, malformed))? {
                Search::Found(row) => {
                    return Ok(Some(Found {
                        version: self.assigned.unwrap_or(row.version),
                        kind: row.kind,
                        block,
                        value: row.value,
                    }));
                }
                // The flag is never set on the last block.
                Search::Ended if self.index.continues(ordinal, key) => ordinal += 1,
                Search::Ended | Search::Beyond => return Ok(None),
            }
        }
    }
}

/// The error for bytes at `offset` of `file`.
fn refuse(file: &dyn File, offset: u64, malformed: Malformed) -> Error {
    match [UNKNOWN_KIND, NEEDS_ZSTD, NEEDS_KEY].contains(&malformed) {
        true => Error::unsupported(file.path(), malformed.0),
        false => file.unverified(offset, malformed.0),
    }
}

/// Decrypts the blocks with which `stored` begins. Returns the blocks that do not open.
fn open_blocks(
    cipher: &Cipher,
    stored: &mut [u8],
    index: &BlockIndex,
    blocks: Range<usize>,
    id: TableId,
) -> Vec<(usize, Malformed)> {
    let mut failed = Vec::new();
    let mut rest = stored;
    for ordinal in blocks {
        let place = index.block(ordinal);
        let Some((block, behind)) = rest.split_at_mut_checked((place.end - place.start) as usize)
        else {
            failed.push((ordinal, Malformed("block out of bounds")));
            return failed;
        };
        if let Err(malformed) = stored::open(cipher, block, id, place.start) {
            failed.push((ordinal, malformed));
        }
        rest = behind;
    }
    failed
}

/// The blocks of a table that is kept whole. `None` if they do not open: the read that asks for one
/// of them reports it.
fn opened(
    cipher: Option<&Cipher>,
    data: &mut [u8],
    index: &BlockIndex,
    id: TableId,
) -> Option<Arc<[u8]>> {
    let opens = match cipher {
        Some(cipher) => open_blocks(cipher, data, index, 0..index.len(), id).is_empty(),
        None => true,
    };
    opens.then(|| Arc::from(&*data))
}
