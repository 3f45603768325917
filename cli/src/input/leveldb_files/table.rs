//! A table of LevelDB.
//!
//! ```text
//! table     blocks, footer (48 bytes)
//! footer    place of the block of blocks about the table, place of the index, zeros,
//!           magic (8 bytes)
//! place     offset and size, each a number in groups of seven bits
//! block     entries, offsets of entries (4 bytes each), their count (4 bytes)   -- may be packed
//!           packing (1 byte), checksum of all before (4 bytes)                  -- after its size
//! entry     bytes shared with the key before, other bytes of the key, bytes of the value,
//!           these bytes
//! ```
//! The index is a block. Its values are the places of the other blocks.

use evendb::vfs::OsVfs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::decode::{Bytes, Entry, masked_crc, table_key};
use super::{Error, Result};

const FOOTER_BYTES: u64 = 48;
const MAGIC: u64 = 0xDB47_7524_8B80_FB57;

/// Bytes after a block: its packing, and its checksum.
const TRAILER_BYTES: usize = 5;

/// The size of an unpacked block, as a multiple of the packed one, is at most this: Snappy cannot
/// do more, and a Zstandard block is not so large in comparison with the blocks that LevelDB makes.
const UNPACKED_FACTOR_MAX: usize = 64;
const ZSTD_UNPACKED_MAX: u64 = 1 << 30;

/// A table that the manifest names.
pub struct TableFile {
    pub path: PathBuf,
    pub bytes: u64,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
}

/// Reads the entries of a table in their order.
pub struct TableReader {
    path: PathBuf,
    file: File,
    bytes: u64,
    index: Block,
    block: Block,
}

impl TableReader {
    pub fn open(table: &TableFile) -> Result<TableReader> {
        let path = table.path.clone();
        let file = OsVfs::regular_file(&path).map_err(Error::io(&path))?;
        let Some(footer_at) = table.bytes.checked_sub(FOOTER_BYTES) else {
            return Err(Error::damaged(
                &path,
                0,
                "the table is shorter than its footer",
            ));
        };
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut footer, footer_at)
            .map_err(Error::io(&path))?;
        let magic = Bytes(&footer[FOOTER_BYTES as usize - 8..]).fixed64();
        if magic != Some(MAGIC) {
            return Err(Error::damaged(
                &path,
                footer_at,
                "the footer is not that of a table of LevelDB",
            ));
        }
        let mut places = Bytes(&footer);
        let index = place(&mut places).and_then(|_| place(&mut places));
        let Some(index) = index else {
            return Err(Error::damaged(
                &path,
                footer_at,
                "the footer names no index",
            ));
        };
        let mut reader = TableReader {
            path,
            file,
            bytes: table.bytes,
            index: Block::default(),
            block: Block::default(),
        };
        reader.index = reader.read_block(index)?;
        Ok(reader)
    }

    /// The next entry.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            if self.block.advance(&self.path)? {
                let parts = table_key(&self.block.key);
                let Some((key, sequence, is_put)) = parts else {
                    return Err(self.block.damaged(&self.path, "an entry's key is none"));
                };
                let value = is_put.then(|| self.block.value().to_vec());
                let key = key.to_vec();
                return Ok(Some(Entry {
                    key,
                    sequence,
                    value,
                }));
            }
            if !self.index.advance(&self.path)? {
                return Ok(None);
            }
            let Some(place) = place(&mut Bytes(self.index.value())) else {
                return Err(self
                    .index
                    .damaged(&self.path, "an entry of the index names no block"));
            };
            self.block = self.read_block(place)?;
        }
    }

    fn read_block(&self, (offset, size): (u64, u64)) -> Result<Block> {
        let damaged = |what: &str| Error::damaged(&self.path, offset, what);
        let end = offset
            .checked_add(size)
            .and_then(|end| end.checked_add(TRAILER_BYTES as u64));
        if end.is_none_or(|end| end > self.bytes - FOOTER_BYTES) {
            return Err(damaged("a block reaches beyond the table"));
        }
        let mut bytes = vec![0; size as usize + TRAILER_BYTES];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(Error::io(&self.path))?;
        let (data, mut trailer) = (&bytes[..size as usize], Bytes(&bytes[size as usize..]));
        let packing = trailer.byte().unwrap_or_default();
        if trailer.fixed32() != Some(masked_crc(data, &[packing])) {
            return Err(damaged("a block's checksum does not fit"));
        }
        let data = match packing {
            0 => {
                bytes.truncate(size as usize);
                bytes
            }
            1 => unsnapped(data).ok_or_else(|| damaged("a block does not unpack by Snappy"))?,
            2 => unpacked(data).ok_or_else(|| damaged("a block does not unpack by Zstandard"))?,
            other => {
                let what =
                    format!("a block is packed by method {other}, which LevelDB does not have");
                return Err(damaged(&what));
            }
        };
        Block::new(data, offset)
            .ok_or_else(|| damaged("a block is shorter than its list of offsets"))
    }
}

fn unsnapped(data: &[u8]) -> Option<Vec<u8>> {
    let length = snap::raw::decompress_len(data).ok()?;
    if length > data.len().checked_mul(UNPACKED_FACTOR_MAX)? {
        return None;
    }
    snap::raw::Decoder::new().decompress_vec(data).ok()
}

fn unpacked(data: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read;
    let decoder = ruzstd::decoding::StreamingDecoder::new(data).ok()?;
    let mut unpacked = Vec::new();
    let mut decoder = decoder.take(ZSTD_UNPACKED_MAX + 1);
    decoder.read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= ZSTD_UNPACKED_MAX).then_some(unpacked)
}

/// Offset and size of a block.
fn place(bytes: &mut Bytes<'_>) -> Option<(u64, u64)> {
    Some((bytes.varint()?, bytes.varint()?))
}

/// A block, and an entry in it.
#[derive(Default)]
struct Block {
    data: Vec<u8>,
    offset: u64,
    /// Where the entries end.
    end: usize,
    at: usize,
    key: Vec<u8>,
    value: std::ops::Range<usize>,
}

impl Block {
    fn new(data: Vec<u8>, offset: u64) -> Option<Block> {
        let mut last = Bytes(data.get(data.len().checked_sub(4)?..)?);
        let offsets = (last.fixed32()? as usize).checked_add(1)?.checked_mul(4)?;
        Some(Block {
            end: data.len().checked_sub(offsets)?,
            data,
            offset,
            ..Block::default()
        })
    }

    /// Goes to the next entry; `false` at the end.
    fn advance(&mut self, path: &Path) -> Result<bool> {
        if self.at >= self.end {
            return Ok(false);
        }
        match self.next_entry() {
            Some(()) => Ok(true),
            None => Err(self.damaged(path, "an entry is not as LevelDB writes it")),
        }
    }

    fn next_entry(&mut self) -> Option<()> {
        let mut left = Bytes(&self.data[self.at..self.end]);
        let (shared, own, value) = (left.varint32()?, left.varint32()?, left.varint32()?);
        if shared > self.key.len() {
            return None;
        }
        let own = left.take(own)?;
        left.take(value)?;
        self.key.truncate(shared);
        self.key.extend_from_slice(own);
        self.at = self.end - left.0.len();
        self.value = self.at - value..self.at;
        Some(())
    }

    fn value(&self) -> &[u8] {
        &self.data[self.value.clone()]
    }

    fn damaged(&self, path: &Path, what: &str) -> Error {
        Error::damaged(path, self.offset, what)
    }
}
