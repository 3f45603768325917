//! Sorted tables (SSTables): an immutable sorted run of records, on disk.
//!
//! One format serves a chunk's SSTable (a file of its own) and every run in a chunk's log (an
//! extent of a container file): a table is a range `[offset, offset + len)` of some file. All
//! offsets within are relative to its start.
//!
//! ```text
//! | data block | data block | ... | filter | index | properties | footer |
//! ```
//!
//! Records are ordered by (key ascending, version descending). Everything that is stored carries a
//! checksum seeded by the table's id and its own place, so bytes of another table, or stale ones,
//! do not verify. Reading never panics. It allocates at once no more than the table's length and 16
//! MiB (the longest block that is ever compressed), whatever the bytes are.
//!
//! * `stored` - the frame around every block; `packing`, `zstd` - compressed blocks; `block`,
//!   `walk` - rows, search and steps in a data block; `index`, `lens` - which block can hold a key;
//!   `keyed` - tables whose index has all keys; `footer` - properties and footer: bytes without
//!   I/O.
//! * `writer`, `reader`, `window`, `cursor`, `passes` - the same with I/O; `examine` - the same for
//!   tables in any state.

mod examine;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod reading;
mod writer;
use reading::{cursor, reader, walk, window};

use format::packing::zstd;
use format::{block, footer, index, lens, packing, stored};

pub use block::{Block, KEY_BYTES_MAX};
pub use cursor::{ReadAhead, TableCursor};
pub use examine::{
    BlockFacts, Examined, FOOTER_LEN, FOOTER_MAGIC, TableDamage, TableFacts, TablePart,
    TableVisitor, examine, identify_footer, lacks_for,
};
pub use reader::Table;
pub use writer::TableWriter;

use crate::vfs::Appender;
use crate::{Error, Kind, NUMBER_MAX, Result, Time, Version, codec};

/// Bytes of a page of the system's cache, which is the least that the disk reads. Blocks are cut so
/// that few of them lie in two pages, if the table begins with a page.
pub const PAGE_BYTES: usize = 4096;

/// How a block's bytes are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Codec {
    /// Stored as they are.
    #[default]
    None = 0,
    /// LZ4 block format. For this codec and the next ones: a block that does not get smaller by an
    /// eighth is stored as it is.
    Lz4 = 1,
    /// Zstandard.
    Zstd = 2,
    /// Zstandard, with a dictionary that the table holds. A table that is too small for one has
    /// blocks of [`Codec::Zstd`].
    ZstdDictionary = 3,
}

/// Whether this build reads and writes Zstandard.
pub const HAS_ZSTD: bool = zstd::IS_THERE;

impl Codec {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::ZstdDictionary => "zstd-dictionary",
        }
    }

    fn from_byte(byte: u8) -> Option<Codec> {
        match byte {
            0 => Some(Codec::None),
            1 => Some(Codec::Lz4),
            2 => Some(Codec::Zstd),
            3 => Some(Codec::ZstdDictionary),
            _ => None,
        }
    }

    fn is_zstd(self) -> bool {
        matches!(self, Codec::Zstd | Codec::ZstdDictionary)
    }
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
    /// How hard Zstandard tries, 1 to 22. Other codecs ignore it.
    pub zstd_level: i32,
    /// Bits per key of the filter for absent keys; 0 for none.
    pub filter_bits_per_key: u32,
}

impl TableOptions {
    /// The same options for a table that does not last, and is not worth a dictionary.
    pub fn without_dictionary(mut self) -> TableOptions {
        if self.codec == Codec::ZstdDictionary {
            self.codec = Codec::Zstd;
        }
        self
    }
}

/// The properties of a finished table; the manifest keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// Bytes of the table.
    pub len: u64,
    /// The number of records.
    pub entries: u64,
    /// The number of deletes.
    pub deletes: u64,
    /// The number of records that expire.
    pub expiring: u64,
    /// The time at which the last of these expires.
    pub last_expiry: Time,
    /// The value files in which values of records lie, ascending, and the bytes of these values in
    /// each.
    pub value_files: Vec<(u64, u64)>,
    /// Sum of the lengths of keys and values. A value that lies apart counts with the length of its
    /// reference.
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

impl TableMeta {
    /// Whether a key from `low` to `high`, both included, may lie in the table, as far as its least
    /// and its greatest key tell.
    pub fn meets(&self, low: &[u8], high: &[u8]) -> bool {
        *self.min_key <= *high && *low <= *self.max_key
    }

    /// Like [`meets`](Self::meets), for the keys from `low` to below `high`; `None` for no limit.
    pub fn overlaps(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        *low <= *self.max_key && high.is_none_or(|high| *self.min_key < *high)
    }

    /// Whether a table can have these properties. Numbers that no table reaches would make sums
    /// over all tables too great.
    pub fn is_possible(&self) -> bool {
        const BYTES_MAX: u64 = 1 << 48;
        let bytes = self.value_files.iter().map(|file| file.1);
        let value_bytes = bytes.fold(0, u64::saturating_add);
        let parts = [self.entries, self.data_bytes, self.len, value_bytes];
        let special = [self.deletes, self.expiring];
        self.max_version.0 <= NUMBER_MAX
            && parts.iter().all(|&part| part <= BYTES_MAX)
            && special.iter().all(|&part| part <= self.entries)
    }

    /// Counts a record that has a value of `bytes` bytes in a value file.
    fn add_value_bytes(&mut self, file: u64, bytes: u64) {
        match self.value_files.binary_search_by_key(&file, |own| own.0) {
            Ok(at) => self.value_files[at].1 += bytes,
            Err(at) => self.value_files.insert(at, (file, bytes)),
        }
    }

    /// Bytes of all values that lie apart.
    pub fn value_bytes(&self) -> u64 {
        self.value_files.iter().map(|file| file.1).sum()
    }

    /// Appends the figures that every table has, as a manifest names them: numbers as varints, keys
    /// behind their lengths.
    pub fn put_figures(&self, out: &mut Vec<u8>) {
        let max_version = self.max_version.0;
        for number in [
            self.len,
            self.entries,
            self.deletes,
            self.data_bytes,
            max_version,
        ] {
            codec::put_varint(out, number);
        }
        codec::put_slice(out, &self.min_key);
        codec::put_slice(out, &self.max_key);
        codec::put_varint(out, u64::from(self.checksum));
    }

    /// Decodes the output of [`TableMeta::put_figures`]. `None` if it makes no sense.
    pub fn get_figures(input: &mut &[u8]) -> Option<TableMeta> {
        Some(TableMeta {
            len: codec::get_varint(input)?,
            entries: codec::get_varint(input)?,
            deletes: codec::get_varint(input)?,
            data_bytes: codec::get_varint(input)?,
            max_version: Version(codec::get_varint(input)?),
            min_key: codec::get_slice(input)?.to_vec(),
            max_key: codec::get_slice(input)?.to_vec(),
            checksum: u32::try_from(codec::get_varint(input)?).ok()?,
            ..TableMeta::default()
        })
    }

    /// Appends the value files, at least one: their number, then file and bytes of each, all
    /// varints.
    pub fn put_value_files(&self, out: &mut Vec<u8>) {
        codec::put_varint(out, self.value_files.len() as u64);
        for (file, bytes) in &self.value_files {
            codec::put_varint(out, *file);
            codec::put_varint(out, *bytes);
        }
    }

    /// Decodes the output of [`TableMeta::put_value_files`]. `None` if it makes no sense.
    pub fn get_value_files(input: &mut &[u8]) -> Option<Vec<(u64, u64)>> {
        let count = codec::get_varint(input)?;
        // Not reserved: a hostile count ends at the first file that is missing.
        let mut files: Vec<(u64, u64)> = Vec::new();
        for _ in 0..count {
            let (file, bytes) = (codec::get_varint(input)?, codec::get_varint(input)?);
            if files.last().is_some_and(|last| last.0 >= file) {
                return None;
            }
            files.push((file, bytes));
        }
        (!files.is_empty()).then_some(files)
    }
}

/// The destination of a table's bytes, in order.
pub trait TableSink {
    /// The buffer to which the table's next bytes are appended.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Called when a block is complete, and with `is_last` when the table is. The buffer's bytes
    /// may then be written and removed from it.
    fn pass_on(&mut self, is_last: bool) -> Result<()>;
}

/// A table in RAM.
impl TableSink for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn pass_on(&mut self, _is_last: bool) -> Result<()> {
        Ok(())
    }
}

/// A table that becomes a file, a piece at a time.
impl TableSink for Appender {
    fn buffer(&mut self) -> &mut Vec<u8> {
        Appender::buffer(self)
    }

    fn pass_on(&mut self, is_last: bool) -> Result<()> {
        let written = match is_last {
            true => self.finish(),
            false if self.is_full() => Appender::pass_on(self),
            false => Ok(()),
        };
        written.map_err(Error::at(self.file().path(), "write a table"))
    }
}

/// A record found in a block: its value is `block.bytes()[value]`.
#[derive(Clone, Debug)]
pub struct Found {
    /// Version of the record.
    pub version: Version,
    /// What it says.
    pub kind: Kind,
    /// The block that holds the value.
    pub block: Block,
    /// Range of the value within the block's bytes.
    pub value: std::ops::Range<usize>,
}
