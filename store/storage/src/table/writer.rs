//! Writes a table into a sink, front to back. It keeps one block, the index and the key hashes in
//! memory.
//!
//! If a dictionary is wanted, the first blocks, half a MiB of them, wait for it in the sink's
//! buffer.
//!
//! The caller is responsible for the order of records, which is asserted. Records are encoded in
//! the sink's buffer, so each byte is copied once. An error of the sink ends the table (drop the
//! writer). Nothing is synced here.

use super::block::{BlockBuilder, KEY_BYTES_MAX, common_prefix};
use super::footer::{self, FOOTER_BYTES, Footer, Properties};
use super::index::{IndexBuilder, separator};
use super::packing::{Packer, SAMPLE_BYTES};
use super::stored::{self, TRAILER_BYTES};
use super::{Codec, PAGE_BYTES, TableMeta, TableOptions, TableSink};
use crate::filter::BloomFilter;
use crate::key_hash::FilterHash;
use crate::sealing::{Cipher, SALT_BYTES, Secrets, TAG_BYTES};
use crate::{EntryRef, Error, Kind, Result, TableId, Version};
use std::path::Path;

/// Writes a table: records in order, then [`TableWriter::finish`].
#[derive(Debug)]
pub struct TableWriter<S> {
    out: Output<S>,
    options: TableOptions,
    block: BlockBuilder,
    /// Blocks that wait for a dictionary; `None` once it is made, or if none is wanted.
    waiting: Option<Waiting>,
    dictionary: Option<Vec<u8>>,
    index: IndexBuilder,
    hashes: Vec<u64>,
    last_key: Vec<u8>,
    last_version: Version,
    separator: Vec<u8>,
    properties: Properties,
    /// Each key begins a block, and is the block's separator.
    is_keyed: bool,
    /// Versions of a key went on in another block, so the table is not keyed.
    continued: bool,
}

/// Blocks at the end of the sink's buffer, uncompressed, one after the other.
#[derive(Debug, Default)]
struct Waiting {
    /// The sum of their bytes.
    bytes: usize,
    lens: Vec<usize>,
    /// The index entry of each block: the separator, and whether the key goes on.
    separators: Vec<(Vec<u8>, bool)>,
}

impl<S: TableSink> TableWriter<S> {
    /// A writer of the table `id` into `sink`.
    pub fn new(sink: S, id: TableId, options: TableOptions) -> Self {
        TableWriter {
            out: Output {
                sink,
                id,
                packer: Packer::new(&options),
                offset: 0,
                seal: None,
            },
            options,
            block: BlockBuilder::new(options.restart_interval),
            waiting: (options.codec == Codec::ZstdDictionary).then(Waiting::default),
            dictionary: None,
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            last_key: Vec::new(),
            last_version: Version::MAX,
            separator: Vec::new(),
            properties: Properties {
                codec: options.codec,
                ..Properties::default()
            },
            is_keyed: false,
            continued: false,
        }
    }

    /// The same writer, which makes a block for each key: a reader that has the table open knows
    /// all of its keys, and reads a block only for its values. Call it before the first record.
    #[must_use]
    pub fn keyed(mut self, is_keyed: bool) -> Self {
        self.is_keyed = is_keyed;
        self
    }

    /// The same writer for an encrypted database: the whole table is encrypted, by a key of its
    /// own. Call it before the first record. Without `secrets` the table is a plain one.
    #[must_use]
    pub fn sealed(mut self, secrets: Option<&Secrets>) -> Self {
        self.out.seal = secrets.map(|secrets| {
            let salt = secrets.fresh();
            let cipher = footer::cipher(secrets, self.out.id, &salt);
            Seal { cipher, salt }
        });
        self
    }

    /// Appends a record: keys ascending, versions of one key descending.
    ///
    /// Panics if records are out of order, if a key is longer than 65535 bytes, or if the kind
    /// cannot have the value.
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
        let full = match self.is_keyed {
            true => !same_key,
            false => len > self.options.block_bytes || self.ends_with_page(len),
        };
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
                self.hashes.push(FilterHash::of(entry.key).0);
            }
            self.last_key.truncate(shared);
            self.last_key.extend_from_slice(&entry.key[shared..]);
        }
        self.last_version = entry.version;
        Ok(())
    }

    /// Whether pages end the current block before another record, which would make it `len` bytes
    /// long. A block of several records does not lie in two pages, if none of its records is larger
    /// than a page and the table begins with a page. A record that does not fit into the rest of a
    /// page gets a block of its own. The place of compressed blocks is not known.
    fn ends_with_page(&self, len: usize) -> bool {
        if self.options.codec != Codec::None || self.options.block_bytes > PAGE_BYTES {
            return false;
        }
        let in_page = (self.out.offset % PAGE_BYTES as u64) as usize;
        in_page + len + self.out.trailer_bytes() > PAGE_BYTES
    }

    /// Writes the current block; `next` is the key that follows it, if one does.
    fn cut_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let continues = next == Some(&*self.last_key);
        self.continued |= continues;
        match next {
            Some(next) if !continues && !self.is_keyed => {
                separator(&self.last_key, next, &mut self.separator)
            }
            _ => self.separator.clone_from(&self.last_key),
        }
        let buffer = self.out.sink.buffer();
        let start = self.block.finish(buffer);
        let Some(waiting) = &mut self.waiting else {
            let separator = std::mem::take(&mut self.separator);
            let sealed = self.seal_block(start, &separator, continues);
            self.separator = separator;
            return sealed;
        };
        let len = buffer.len() - start;
        waiting.bytes += len;
        waiting.lens.push(len);
        waiting.separators.push((self.separator.clone(), continues));
        match waiting.bytes >= SAMPLE_BYTES {
            true => self.end_waiting(),
            false => Ok(()),
        }
    }

    /// Stores the block in the buffer from `start` to the end.
    fn seal_block(&mut self, start: usize, separator: &[u8], continues: bool) -> Result<()> {
        let used = self.out.packer.pack(self.out.sink.buffer(), start);
        let (stored_len, crc) = self.out.seal(start, used)?;
        self.properties.add_block_checksum(crc);
        self.index.add(stored_len, separator, continues);
        if self.index.overflows() {
            return Err(Error::unsupported(
                Path::new(""),
                "table with over 4 GiB of block keys",
            ));
        }
        Ok(())
    }

    /// Makes a dictionary from the blocks that wait for one, if they are worth it, and stores the
    /// blocks.
    fn end_waiting(&mut self) -> Result<()> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let buffer = self.out.sink.buffer();
        let blocks = buffer.split_off(buffer.len() - waiting.bytes);
        self.dictionary = self.out.packer.train(&blocks, &waiting.lens);
        let mut rest = &blocks[..];
        for (len, (separator, continues)) in waiting.lens.into_iter().zip(waiting.separators) {
            let (block, behind) = rest.split_at(len);
            let buffer = self.out.sink.buffer();
            let start = buffer.len();
            buffer.extend_from_slice(block);
            self.seal_block(start, &separator, continues)?;
            rest = behind;
        }
        Ok(())
    }

    /// Ordinal of the block that the last record went to.
    pub fn block_ordinal(&self) -> usize {
        let waiting = self
            .waiting
            .as_ref()
            .map_or(0, |waiting| waiting.lens.len());
        self.index.blocks() as usize + waiting
    }

    /// Bytes handed to the sink so far, plus the buffered ones: the current block before
    /// compression, the blocks that wait for a dictionary, index rows, filter. The estimate falls
    /// when these are compressed.
    pub fn bytes_estimate(&self) -> u64 {
        let filter = self.hashes.len() as u64 * u64::from(self.options.filter_bits_per_key) / 8;
        let block = if self.block.is_empty() {
            0
        } else {
            self.block.len() + self.out.trailer_bytes()
        };
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.bytes);
        self.out.offset + filter + (waiting + block + self.index.bytes()) as u64
    }

    /// Writes the dictionary, if there is one, filter, index, properties and footer.
    pub fn finish(mut self) -> Result<(S, TableMeta)> {
        if !self.block.is_empty() {
            self.cut_block(None)?;
        }
        self.end_waiting()?;
        let data_len = self.out.offset;
        let dictionary_len = match self.dictionary.take() {
            Some(bytes) => self.out.emit(|buffer| buffer.extend_from_slice(&bytes))?.0,
            None => 0,
        };
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
            is_sealed: self.out.seal.is_some(),
            is_zstd: self.options.codec.is_zstd(),
            is_keyed: self.is_keyed && !self.continued,
            data_len,
            dictionary_len,
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

/// The sink, and the table's length so far.
#[derive(Debug)]
struct Output<S> {
    sink: S,
    id: TableId,
    packer: Packer,
    /// Bytes of the table that are complete, passed on or not.
    offset: u64,
    seal: Option<Seal>,
}

/// The encryption of an encrypted table.
#[derive(Debug)]
struct Seal {
    cipher: Cipher,
    salt: [u8; SALT_BYTES],
}

impl<S: TableSink> Output<S> {
    /// Bytes behind the payload of a stored block.
    fn trailer_bytes(&self) -> usize {
        match self.seal {
            Some(_) => TAG_BYTES + TRAILER_BYTES,
            None => TRAILER_BYTES,
        }
    }

    /// Makes an uncompressed stored block from the bytes that `write` appends. Returns its length
    /// and checksum.
    fn emit(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(u64, u32)> {
        let buffer = self.sink.buffer();
        let start = buffer.len();
        write(buffer);
        self.seal(start, Codec::None)
    }

    /// Makes a stored block from the payload in the buffer from `start` on. Returns its length and
    /// checksum.
    fn seal(&mut self, start: usize, used: Codec) -> Result<(u64, u32)> {
        let buffer = self.sink.buffer();
        if let Some(seal) = &self.seal {
            stored::seal(&seal.cipher, self.offset, used, buffer, start);
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
    fn end(&mut self, footer: &[u8; FOOTER_BYTES]) -> Result<()> {
        if let Some(seal) = &self.seal {
            let bytes = footer::seal_of(&seal.cipher, &seal.salt, footer);
            self.sink.buffer().extend_from_slice(&bytes);
            self.offset += bytes.len() as u64;
        }
        self.sink.buffer().extend_from_slice(footer);
        self.offset += footer.len() as u64;
        self.sink.pass_on(true)
    }
}
