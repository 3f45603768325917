//! What the tests of the formats share: a file in memory that counts reads, a sink, records.

#![allow(dead_code, reason = "every test binary uses its own part")]

use evendb_storage::table::{Codec, HAS_ZSTD, Table, TableMeta, TableOptions, TableWriter};
use evendb_storage::vfs::{File, Mapping};
use evendb_storage::{EntryRef, Kind, Result, TableId, Version};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file in memory.
#[derive(Debug)]
pub struct MemFile {
    path: PathBuf,
    bytes: Mutex<Vec<u8>>,
    reads: AtomicUsize,
    /// Parts that were read, and parts that were announced.
    parts: Mutex<Vec<Range<u64>>>,
    hints: Mutex<Vec<Range<u64>>>,
}

impl MemFile {
    pub fn new(bytes: Vec<u8>) -> Arc<MemFile> {
        let path = PathBuf::from("/memory/file");
        Arc::new(MemFile {
            path,
            bytes: Mutex::new(bytes),
            reads: AtomicUsize::new(0),
            parts: Mutex::default(),
            hints: Mutex::default(),
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// The number of reads since the last call.
    pub fn take_reads(&self) -> usize {
        self.parts.lock().clear();
        self.reads.swap(0, Ordering::Relaxed)
    }

    /// The parts read since the last call of this or of `take_reads`, and the parts announced.
    pub fn take_parts(&self) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let parts = std::mem::take(&mut *self.parts.lock());
        (parts, std::mem::take(&mut *self.hints.lock()))
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.lock();
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let count = buf.len().min(bytes.len() - from);
        buf[..count].copy_from_slice(&bytes[from..from + count]);
        self.parts.lock().push(offset..offset + count as u64);
        Ok(count)
    }
    fn will_need(&self, offset: u64, len: u64) {
        self.hints.lock().push(offset..offset + len);
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock();
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
    fn preallocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn map(&self, _len: usize) -> io::Result<Box<dyn Mapping>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// An owned record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Vec<u8>,
    pub version: Version,
    pub kind: Kind,
    pub value: Vec<u8>,
}

impl Record {
    pub fn put(key: &[u8], version: u64, value: &[u8]) -> Record {
        let (key, value) = (key.to_vec(), value.to_vec());
        Record {
            key,
            version: Version(version),
            kind: Kind::Put,
            value,
        }
    }

    pub fn delete(key: &[u8], version: u64) -> Record {
        Record {
            kind: Kind::Delete,
            ..Record::put(key, version, b"")
        }
    }

    pub fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            key: &self.key,
            version: self.version,
            kind: self.kind,
            value: &self.value,
        }
    }
}

pub const ID: TableId = TableId(0x0102_0304_0506_0708);

pub fn options(block_bytes: usize, codec: Codec) -> TableOptions {
    TableOptions {
        block_bytes,
        restart_interval: 3,
        codec,
        zstd_level: 3,
        filter_bits_per_key: 10,
    }
}

/// Every codec that this build has.
pub fn codecs() -> Vec<Codec> {
    let all = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::ZstdDictionary];
    let there = if HAS_ZSTD { 4 } else { 2 };
    all[..there].to_vec()
}

/// The table's bytes and the properties that the writer returns.
pub fn build(records: &[Record], options: TableOptions) -> (Vec<u8>, TableMeta) {
    build_keyed(records, options, false)
}

/// The same, with a block for each key if `is_keyed`.
pub fn build_keyed(
    records: &[Record],
    options: TableOptions,
    is_keyed: bool,
) -> (Vec<u8>, TableMeta) {
    let mut writer = TableWriter::new(Vec::new(), ID, options).keyed(is_keyed);
    let mut estimate = 0;
    for record in records {
        writer.add(record.entry()).unwrap();
        assert!(writer.bytes_estimate() >= estimate || options.codec != Codec::None);
        estimate = writer.bytes_estimate();
    }
    let (sink, meta) = writer.finish().unwrap();
    assert_eq!(meta.len, sink.len() as u64);
    (sink, meta)
}

/// The table opened at `offset` of a file that has other bytes on both sides.
pub fn open_within(bytes: &[u8], offset: usize) -> (Arc<MemFile>, Result<Table>) {
    let mut file = vec![0xa5; offset];
    file.extend_from_slice(bytes);
    file.extend_from_slice(&[0x5a; 77]);
    let file = MemFile::new(file);
    let table = Table::open(file.clone(), offset as u64, bytes.len() as u64, ID);
    (file, table)
}

/// Newest record of `key` with version at most `at`, the slow way.
pub fn model_get<'a>(records: &'a [Record], key: &[u8], at: Version) -> Option<&'a Record> {
    records
        .iter()
        .find(|record| record.key == key && record.version <= at)
}
