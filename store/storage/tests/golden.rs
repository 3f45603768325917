//! The formats, byte for byte: annotated hex under `tests/golden/`, and its decoded contents.
//!
//! A difference of bytes is a change of the format: raise the format version, and keep the old file
//! under another name, with a test that reads it. Then
//! `EVENDB_BLESS=1 cargo test -p evendb-storage --test golden` writes the missing file, and new
//! annotations of the same bytes. It never overwrites other bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod knobs;
mod table_support;

use evendb_storage::codec::{get_varint, hash_key};
use evendb_storage::filter::BloomFilter;
use evendb_storage::framed_log::{FramedLogWriter, read_frames};
use evendb_storage::table::{Codec, Table, TableOptions};
use evendb_storage::{Apart, Kind, Version};
use knobs::flag_from_env;
use std::fmt::Write;
use std::path::Path;
use table_support::{ID, MemFile, Record, build};

/// Cuts bytes into fields and writes them as hex with a comment each.
struct Annotator<'a> {
    rest: &'a [u8],
    text: String,
}

impl<'a> Annotator<'a> {
    fn new(bytes: &'a [u8], title: &str) -> Annotator<'a> {
        Annotator {
            rest: bytes,
            text: format!("# {title}\n"),
        }
    }

    fn section(&mut self, title: &str) {
        writeln!(self.text, "\n# {title}").unwrap();
    }

    fn bytes(&mut self, len: usize, comment: &str) -> &'a [u8] {
        let (field, rest) = self.rest.split_at(len);
        self.rest = rest;
        for (line, part) in field.chunks(16).enumerate() {
            let hex: Vec<String> = part.iter().map(|byte| format!("{byte:02x}")).collect();
            let comment = if line == 0 { comment } else { "..." };
            writeln!(self.text, "{:<47}  # {comment}", hex.join(" ")).unwrap();
        }
        field
    }

    fn varint(&mut self, comment: &str) -> u64 {
        let mut rest = self.rest;
        let value = get_varint(&mut rest).unwrap();
        self.bytes(self.rest.len() - rest.len(), &format!("{comment}: {value}"));
        value
    }

    fn slice(&mut self, comment: &str) {
        let len = self.varint(&format!("{comment} length"));
        self.bytes(len as usize, comment);
    }

    fn fixed(&mut self, len: usize, comment: &str) -> u64 {
        let value = self.rest[..len]
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        self.bytes(len, &format!("{comment}: {value:#x}"));
        value
    }

    fn trailer(&mut self) {
        self.fixed(1, "codec");
        self.fixed(4, "crc32c");
    }

    fn row(&mut self) {
        let shared = self.varint("  shared");
        let unshared = self.varint("  unshared");
        let value_and_kind = self.varint("  value_len << 1 | kind");
        self.varint("  version");
        self.bytes(
            unshared as usize,
            &format!("  key behind its first {shared} bytes"),
        );
        let mut len = (value_and_kind >> 1) as usize;
        if value_and_kind & 1 == 0 && len > 0 {
            self.fixed(1, "  kind");
            len -= 1;
        }
        self.bytes(len, "  value");
    }

    fn block(&mut self, stored_len: usize) {
        let end = self.rest.len() - stored_len;
        let payload = &self.rest[..stored_len - 5];
        if self.rest[stored_len - 5] == 0 {
            let (_, count) = payload.split_last_chunk::<4>().unwrap();
            let count = u32::from_le_bytes(*count) as usize;
            let rows_end = end + 5 + 4 + 4 * count;
            while self.rest.len() > rows_end {
                writeln!(self.text, "# row").unwrap();
                self.row();
            }
            for _ in 0..count {
                self.fixed(4, "restart");
            }
            self.fixed(4, "restarts");
        } else {
            self.varint("uncompressed length");
            self.bytes(self.rest.len() - end - 5, "LZ4 block");
        }
        self.trailer();
        assert_eq!(self.rest.len(), end);
    }

    fn filter(&mut self, lines: usize) {
        self.fixed(1, "probes");
        for line in 0..lines {
            self.bytes(64, &format!("line {line}"));
        }
    }
}

fn annotate_table(bytes: &[u8], title: &str) -> String {
    let footer = &bytes[bytes.len() - 56..];
    let word = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap()) as usize;
    let (data, filter, index, properties) = (word(0), word(8), word(16), word(24));
    let mut input = &bytes[data + filter..data + filter + index];
    let mut lens = Vec::new();
    for _ in 0..get_varint(&mut input).unwrap() {
        lens.push(get_varint(&mut input).unwrap() as usize);
        let separator = (get_varint(&mut input).unwrap() >> 1) as usize;
        input = &input[separator..];
    }
    let mut out = Annotator::new(bytes, title);
    for (ordinal, len) in lens.iter().enumerate() {
        out.section(&format!("data block {ordinal}"));
        out.block(*len);
    }
    if filter > 0 {
        out.section("filter");
        out.filter((filter - 6) / 64);
        out.trailer();
    }
    out.section("index");
    for ordinal in 0..out.varint("blocks") {
        out.varint(&format!("stored length of block {ordinal}"));
        let separator = out.varint("separator length << 1 | continues");
        out.bytes((separator >> 1) as usize, "separator");
    }
    out.trailer();
    out.section("properties");
    let end = out.rest.len() - properties;
    for name in ["entries", "deletes", "data_bytes", "max_version", "blocks"] {
        out.varint(name);
    }
    out.fixed(1, "codec asked for");
    out.fixed(4, "checksum of the data blocks' checksums");
    out.slice("least key");
    out.slice("greatest key");
    // Before the trailer of five bytes.
    if out.rest.len() > end + 5 {
        out.varint("records that expire");
        out.varint("time of the last of them");
    }
    if out.rest.len() > end + 5 {
        let files = out.varint("value files");
        for _ in 0..files {
            out.varint("number of a value file");
            out.varint("bytes of values in it");
        }
    }
    out.trailer();
    assert_eq!(out.rest.len(), end);
    out.section("footer");
    for name in [
        "data_len",
        "filter_len",
        "index_len",
        "properties_len",
        "table id",
    ] {
        out.fixed(8, name);
    }
    out.fixed(4, "format version");
    out.fixed(4, "crc32c of the footer without this field");
    out.bytes(8, "magic EVENTABL");
    assert!(out.rest.is_empty());
    out.text
}

fn annotate_log(bytes: &[u8]) -> String {
    let mut out = Annotator::new(bytes, "A framed log of two frames.");
    out.section("header");
    out.bytes(8, "magic EVENFLOG");
    out.fixed(4, "format version");
    out.fixed(8, "log id");
    out.fixed(4, "crc32c of the header before this field");
    while !out.rest.is_empty() {
        out.section("frame");
        let len = out.fixed(4, "payload length");
        out.fixed(4, "crc32c of offset, length and payload");
        out.bytes(len as usize, "payload");
    }
    out.text
}

/// The bytes of an annotated hex file.
fn unhex(text: &str) -> Vec<u8> {
    text.lines()
        .flat_map(|line| {
            line.split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
        })
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Writes a missing file, or new annotations of the same bytes.
fn bless(path: &Path, text: &str) -> Result<(), String> {
    match std::fs::read_to_string(path) {
        Ok(kept) if unhex(&kept) != unhex(text) => Err(format!(
            "{}: the bytes differ, and old ones are kept: raise the format version, give the old file another \
             name and a test that reads it, then bless again",
            path.display()
        )),
        _ => {
            std::fs::write(path, text).unwrap();
            Ok(())
        }
    }
}

#[test]
fn blessing_never_writes_over_other_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("format.hex");
    let kept = || std::fs::read_to_string(&path).unwrap();
    bless(&path, "01 02  # two bytes").unwrap();
    bless(&path, "01 # one\n02 # and another").unwrap();
    assert_eq!(kept(), "01 # one\n02 # and another");
    let what = bless(&path, "01 03").unwrap_err();
    assert!(what.contains("raise the format version"), "{what}");
    assert_eq!(kept(), "01 # one\n02 # and another");
}

/// Compares with the file of this name and returns the file's bytes.
fn golden(name: &str, text: &str, bytes: &[u8]) -> Vec<u8> {
    assert_eq!(unhex(text), bytes, "{name}: annotations lose bytes");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if flag_from_env("EVENDB_BLESS") {
        bless(&path, text).unwrap_or_else(|what| panic!("{what}"));
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept, text, "{name}: the format has changed");
    unhex(&kept)
}

fn records() -> Vec<Record> {
    vec![
        Record::put(b"", 1, b"value of the empty key"),
        Record::put(b"apple", 300, b"red"),
        Record::delete(b"apple", 2),
        Record::put(
            b"apple",
            0,
            b"greengreengreengreengreengreengreengreengreengreen",
        ),
        Record::put(b"apricot", 0, b""),
        Record::put(
            b"banana",
            1 << 24 | 5,
            b"yellowyellowyellowyellowyellowyellowyellow",
        ),
    ]
}

/// Records of the kinds that are neither put nor delete.
fn records_of_other_kinds() -> Vec<Record> {
    let of = |key: &[u8], version, kind, value: &[u8]| Record {
        kind,
        ..Record::put(key, version, value)
    };
    let until = [&1_700_000_000_000u64.to_le_bytes()[..], b"till then"].concat();
    vec![
        of(b"counter", 12, Kind::Merge, b"\x02+1\x02+2"),
        of(b"counter", 9, Kind::Merge, b"\0"),
        Record::put(b"counter", 0, b"40"),
        of(b"session", 7, Kind::PutUntil, &until),
        of(b"token", 8, Kind::SingleDelete, b""),
    ]
}

/// Records whose values lie apart.
fn records_apart() -> Vec<Record> {
    let place = |file, offset| {
        let apart = Apart {
            file,
            offset,
            len: 5,
            checksum: Apart::checksum_of(file, offset, b"value"),
        };
        apart.encode().to_vec()
    };
    let of = |key: &[u8], version, kind, value: &[u8]| Record {
        kind,
        ..Record::put(key, version, value)
    };
    let until = [
        &1_700_000_000_000u64.to_le_bytes()[..],
        &place(1 << 32 | 7, 5),
    ]
    .concat();
    vec![
        of(b"picture", 3, Kind::PutApart, &place(2 << 32 | 1, 4096)),
        of(b"picture", 2, Kind::PutApart, &place(1 << 32 | 7, 0)),
        of(b"session", 7, Kind::PutUntilApart, &until),
        Record::put(b"text", 0, b"in place"),
    ]
}

fn check_table(name: &str, codec: Codec) {
    check_table_of(
        &records(),
        name,
        codec,
        "versions of \"apple\" span two blocks",
    );
}

fn check_table_of(records: &[Record], name: &str, codec: Codec, what: &str) {
    let options = TableOptions {
        block_bytes: 80,
        restart_interval: 3,
        codec,
        zstd_level: 3,
        filter_bits_per_key: 10,
    };
    let (bytes, meta) = build(records, options);
    let title = format!("A table: {what}; see docs/format.md.");
    let kept = golden(name, &annotate_table(&bytes, &title), &bytes);
    let table = Table::open(MemFile::new(kept), 0, bytes.len() as u64, ID).unwrap();
    assert_eq!(table.meta(), &meta);
    table.verify().unwrap();
    for record in records {
        let found = table.get(&record.key, record.version).unwrap().unwrap();
        assert_eq!(found.kind, record.kind);
        assert_eq!(&found.block.bytes()[found.value], &record.value[..]);
    }
    let first = &records[0].key;
    assert!(table.get(first, Version::MAX).unwrap().is_some());
    assert!(table.get(b"b", Version::MAX).unwrap().is_none());
}

#[test]
fn table_without_compression() {
    check_table("table-none.hex", Codec::None);
}

#[test]
fn table_of_other_kinds() {
    let what = "operands of a merge over a put, a put until a time, a single delete";
    check_table_of(
        &records_of_other_kinds(),
        "table-kinds.hex",
        Codec::None,
        what,
    );
}

#[test]
fn table_of_values_apart() {
    let what = "values apart, one of them until a time, beside one in place";
    check_table_of(&records_apart(), "table-apart.hex", Codec::None, what);
}

#[test]
fn table_with_lz4() {
    check_table("table-lz4.hex", Codec::Lz4);
}

/// Kept tables with Zstandard. `table_zstd.rs` reads them if the build has it.
#[cfg(not(feature = "zstd"))]
#[test]
fn tables_with_zstd_are_refused_by_the_name_of_the_feature() {
    use evendb_storage::table::{identify_footer, lacks_for};
    for name in ["table-zstd.hex", "table-zstd-dictionary.hex"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        let mut bytes = unhex(&std::fs::read_to_string(&path).unwrap());
        let len = bytes.len() as u64;
        assert_eq!(identify_footer(&bytes[bytes.len() - 56..]), Some((ID, len)));
        let file = MemFile::new(bytes.clone());
        assert!(
            lacks_for(&*file, 0, len, ID)
                .unwrap()
                .contains("feature `zstd`")
        );
        // It is refused before anything else is looked at.
        bytes[..len as usize - 56].fill(0);
        let refused = Table::open(MemFile::new(bytes), 0, len, ID).unwrap_err();
        assert_eq!(refused.kind(), evendb_storage::ErrorKind::Unsupported);
        assert!(refused.to_string().contains("feature `zstd`"), "{refused}");
    }
}

#[test]
fn filter() {
    let hashes: Vec<u64> = (0..80u32).map(|n| hash_key(&n.to_le_bytes())).collect();
    let mut bytes = Vec::new();
    BloomFilter::build(&hashes, 10).encode(&mut bytes);
    let title = "A filter of the hashes of the 4-byte little-endian numbers 0..80, 10 bits a key.";
    let mut out = Annotator::new(&bytes, title);
    out.filter((bytes.len() - 1) / 64);
    let kept = golden("filter.hex", &out.text, &bytes);
    let filter = BloomFilter::decode(&kept).unwrap();
    assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
}

#[test]
fn framed_log() {
    let id = 0x1122_3344_5566_7788;
    let file = MemFile::new(Vec::new());
    let mut writer = FramedLogWriter::create(file.clone(), id).unwrap();
    writer.append(b"first edit").unwrap();
    writer.append(b"the second edit is longer").unwrap();
    let bytes = file.bytes();
    let kept = golden("framed-log.hex", &annotate_log(&bytes), &bytes);
    let mut seen = Vec::new();
    let mut each = |_, payload: &[u8]| {
        seen.push(payload.to_vec());
        Ok(())
    };
    let end = read_frames(&*MemFile::new(kept), id, bytes.len() as u64, &mut each).unwrap();
    assert_eq!((end, seen.len()), (bytes.len() as u64, 2));
}
