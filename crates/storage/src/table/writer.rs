//! Writes a table into a sink, front to back, in memory for one block plus index and key hashes.
//!
//! Order of records is the caller's duty and asserted. Records are encoded where the sink keeps what it
//! will write, so each byte is copied once. An error of the sink ends the table (drop the writer).
//! Nothing is synced here.

use super::block::{BlockBuilder, KEY_BYTES_MAX, common_prefix};
use super::footer::{Footer, Properties};
use super::index::{IndexBuilder, separator};
use super::stored::{self, TRAILER_BYTES};
use super::{Codec, PAGE_BYTES, TableMeta, TableOptions, TableSink};
use crate::filter::BloomFilter;
use crate::{EntryRef, Error, Kind, Result, TableId, Version, codec};
use std::path::Path;

/// Writes a table: records in order, then [`TableWriter::finish`].
#[derive(Debug)]
pub struct TableWriter<S> {
    out: Output<S>,
    options: TableOptions,
    block: BlockBuilder,
    index: IndexBuilder,
    hashes: Vec<u64>,
    last_key: Vec<u8>,
    last_version: Version,
    separator: Vec<u8>,
    properties: Properties,
}

impl<S: TableSink> TableWriter<S> {
    /// A table with identity `id` into `sink`.
    pub fn new(sink: S, id: TableId, options: TableOptions) -> Self {
        TableWriter {
            out: Output {
                sink,
                id,
                packed: Vec::new(),
                offset: 0,
            },
            options,
            block: BlockBuilder::new(options.restart_interval),
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            last_key: Vec::new(),
            last_version: Version::MAX,
            separator: Vec::new(),
            properties: Properties {
                codec: options.codec,
                ..Properties::default()
            },
        }
    }

    /// Appends a record: keys ascending, versions of one key descending.
    ///
    /// Panics on records out of order, a key above 65535 bytes, or a value that the kind cannot have.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        assert!(
            entry.key.len() <= KEY_BYTES_MAX,
            "key of {} bytes",
            entry.key.len()
        );
        assert!(
            entry.kind == Kind::Put || entry.kind.takes(entry.value),
            "a value that the kind cannot have"
        );
        let shared = common_prefix(&self.last_key, entry.key);
        let first = self.properties.meta.entries == 0;
        let same_key = !first && shared == entry.key.len() && shared == self.last_key.len();
        if !first {
            let ordered = match same_key {
                true => entry.version < self.last_version,
                false => self.last_key[shared..] < entry.key[shared..],
            };
            assert!(ordered, "table records out of order");
        }
        let len = self.block.len_with(entry, shared);
        let full = len > self.options.block_bytes || self.ends_with_page(len);
        if !self.block.is_empty() && (full || self.block.is_full()) {
            self.cut_block(Some(entry.key))?;
        }
        self.block.add(self.out.sink.buffer(), entry, shared);
        if first {
            self.properties.meta.min_key = entry.key.to_vec();
        }
        self.properties.count(entry);
        if !same_key {
            if self.options.filter_bits_per_key > 0 {
                self.hashes.push(codec::hash_key(entry.key));
            }
            self.last_key.truncate(shared);
            self.last_key.extend_from_slice(&entry.key[shared..]);
        }
        self.last_version = entry.version;
        Ok(())
    }

    /// Whether the block at hand, which would be `len` bytes long with another record, ends before that because of pages: no
    /// block of several records lies in two pages, if none of them has to be larger than a page and the table begins with
    /// one. A record that does not fit into the rest of a page is a block alone. Of what is compressed the place is not known.
    fn ends_with_page(&self, len: usize) -> bool {
        if self.options.codec != Codec::None || self.options.block_bytes > PAGE_BYTES {
            return false;
        }
        let in_page = (self.out.offset % PAGE_BYTES as u64) as usize;
        in_page + len + TRAILER_BYTES > PAGE_BYTES
    }

    /// Writes the block at hand; `next` is the key that follows it, if one does.
    fn cut_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let continues = next == Some(&*self.last_key);
        match next {
            Some(next) if !continues => separator(&self.last_key, next, &mut self.separator),
            _ => self.separator.clone_from(&self.last_key),
        }
        let start = self.block.finish(self.out.sink.buffer());
        let (stored_len, crc) = self.out.seal(start, self.options.codec)?;
        self.properties.add_block_checksum(crc);
        self.index.add(stored_len, &self.separator, continues);
        if self.index.overflows() {
            return Err(Error::unsupported(
                Path::new(""),
                "table with over 4 GiB of block keys",
            ));
        }
        Ok(())
    }

    /// Ordinal of the block that the last record went to.
    pub fn block_ordinal(&self) -> usize {
        self.index.blocks() as usize
    }

    /// Bytes handed to the sink so far, plus what is buffered: the block at hand before
    /// compression, index rows, filter.
    pub fn bytes_estimate(&self) -> u64 {
        let filter = self.hashes.len() as u64 * u64::from(self.options.filter_bits_per_key) / 8;
        let block = if self.block.is_empty() {
            0
        } else {
            self.block.len() + TRAILER_BYTES
        };
        self.out.offset + filter + (block + self.index.bytes()) as u64
    }

    /// Writes filter, index, properties and footer.
    pub fn finish(mut self) -> Result<(S, TableMeta)> {
        if !self.block.is_empty() {
            self.cut_block(None)?;
        }
        let data_len = self.out.offset;
        let mut filter_len = 0;
        if self.options.filter_bits_per_key > 0 {
            let filter = BloomFilter::build(&self.hashes, self.options.filter_bits_per_key);
            filter_len = self.out.emit(|buffer| filter.encode(buffer))?.0;
        }
        self.properties.blocks = self.index.blocks();
        self.properties.meta.max_key = self.last_key;
        let index = self.index.finish();
        let (index_len, index_crc) = self.out.emit(|buffer| buffer.extend_from_slice(&index))?;
        let properties = &self.properties;
        let (properties_len, properties_crc) = self.out.emit(|buffer| properties.encode(buffer))?;
        let footer = Footer {
            data_len,
            filter_len,
            index_len,
            properties_len,
        };
        let footer_bytes = footer.encode(self.out.id);
        self.out.end(&footer_bytes)?;
        let mut meta = self.properties.meta;
        meta.len = self.out.offset;
        meta.checksum = footer.table_checksum(self.out.id, index_crc, properties_crc);
        Ok((self.out.sink, meta))
    }
}

/// The sink, and the table's offset.
#[derive(Debug)]
struct Output<S> {
    sink: S,
    id: TableId,
    packed: Vec<u8>,
    /// Bytes of the table that are complete, passed on or not.
    offset: u64,
}

impl<S: TableSink> Output<S> {
    /// Makes a stored block, uncompressed, of what `write` appends; its length and checksum.
    fn emit(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(u64, u32)> {
        let buffer = self.sink.buffer();
        let start = buffer.len();
        write(buffer);
        self.seal(start, Codec::None)
    }

    /// Makes a stored block of what the buffer holds from `start` on; its length and checksum.
    fn seal(&mut self, start: usize, wanted: Codec) -> Result<(u64, u32)> {
        let buffer = self.sink.buffer();
        let mut used = Codec::None;
        if wanted == Codec::Lz4 && stored::pack_lz4(&buffer[start..], &mut self.packed) {
            buffer.truncate(start);
            buffer.extend_from_slice(&self.packed);
            used = Codec::Lz4;
        }
        let trailer = stored::trailer(self.id, self.offset, &buffer[start..], used);
        buffer.extend_from_slice(&trailer);
        let stored_len = (buffer.len() - start) as u64;
        self.offset += stored_len;
        self.sink.pass_on(false)?;
        let [_, crc @ ..] = trailer;
        Ok((stored_len, u32::from_le_bytes(crc)))
    }

    /// Appends the table's last bytes.
    fn end(&mut self, footer: &[u8]) -> Result<()> {
        self.sink.buffer().extend_from_slice(footer);
        self.offset += footer.len() as u64;
        self.sink.pass_on(true)
    }
}
