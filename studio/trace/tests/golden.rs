//! The format byte for byte: annotated hex in `tests/golden/trace_v1.txt`, and what it decodes to.
//!
//! A difference of bytes is a change of format: raise its version, keep the file under its name
//! with a test that reads it. `EVENDB_BLESS=1` writes the file if it is missing; it never writes
//! over other bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_trace::{Failure, Header, Kind, Operation, Outcome, Reader, Times, Writer};
use std::fmt::Write as _;
use std::path::Path;

fn operations() -> Vec<Operation> {
    let mut get = Operation::new(Kind::Get, "user/0001");
    get.start_nanos = 1_000;
    get.latency_nanos = Some(300);
    get.outcome = Outcome::Present {
        len: Some(800),
        hash: None,
    };
    let mut put = Operation::new(Kind::Put, "user/0002");
    put.keyspace = 1;
    put.thread = 2;
    put.start_nanos = 900;
    put.group = 5;
    put.value_len = Some(3);
    put.value = Some(b"abc".to_vec());
    put.ttl_millis = Some(60_000);
    put.outcome = Outcome::Done;
    let mut scan = Operation::new(Kind::Scan, "user/");
    scan.keyspace = 1;
    scan.thread = 2;
    scan.start_nanos = 2_000;
    scan.end_key = Some(b"user0".to_vec());
    scan.count = Some(10);
    scan.limit = Some(10);
    scan.reverse = true;
    scan.keys_only = true;
    scan.older_moment = true;
    let mut failed = Operation::new(Kind::Commit, "");
    failed.start_nanos = 3_000;
    failed.outcome = Outcome::Failed(Failure::Conflict);
    let mut hashed = Operation::new(Kind::Get, "u");
    hashed.outcome = Outcome::Present {
        len: Some(1),
        hash: Some(0x0102_0304_0506_0708),
    };
    vec![get, put, scan, failed, hashed]
}

fn trace() -> Vec<u8> {
    let header = Header {
        one_in: 100,
        wall_clock_millis: 1_700_000_000_000,
        has_hashes: true,
        has_values: true,
        without_ends: false,
        times: Times::Exact,
        source: "golden".to_owned(),
        keyspaces: [(0, "default".to_owned())].into(),
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer.name_keyspace(1, "edges").unwrap();
    for operation in operations() {
        writer.add(&operation).unwrap();
    }
    writer.note_dropped(7, 8);
    writer.finish().unwrap().0
}

/// Cuts bytes into fields and writes them as hex with a comment each. It has its own knowledge of
/// the format.
struct Annotator<'a> {
    rest: &'a [u8],
    text: String,
}

impl<'a> Annotator<'a> {
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

    fn fixed(&mut self, len: usize, comment: &str) -> u64 {
        let field = &self.rest[..len];
        let value = field
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        self.bytes(len, &format!("{comment}: {value:#x}"));
        value
    }

    fn varint(&mut self, comment: &str) -> u64 {
        let len = 1 + self
            .rest
            .iter()
            .take_while(|byte| **byte & 0x80 != 0)
            .count();
        let field = &self.rest[..len];
        let value = field
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 7 | u64::from(byte & 0x7f));
        self.bytes(len, &format!("{comment}: {value}"));
        value
    }

    fn slice(&mut self, comment: &str) {
        let len = self.varint(&format!("{comment}, length"));
        if len > 0 {
            self.bytes(len as usize, comment);
        }
    }

    fn section(&mut self, title: &str) {
        writeln!(self.text, "\n# {title}").unwrap();
    }

    fn names(&mut self) {
        for _ in 0..self.varint("names") {
            self.varint("keyspace");
            self.slice("name");
        }
    }

    fn operation(&mut self, name: &str) {
        self.section(name);
        self.fixed(1, "kind");
        let flags = self.varint("flags");
        let outcome = self.fixed(1, "outcome");
        self.varint("start, zigzag of the difference");
        self.varint("bytes of the key before");
        self.slice("rest of the key");
        let numbers = |at: &mut Self, bits: &[(u32, &str)]| {
            for (bit, what) in bits.iter().filter(|(bit, _)| flags >> bit & 1 != 0) {
                match bit {
                    3 | 5 => at.slice(what),
                    _ => {
                        at.varint(what);
                    }
                }
            }
        };
        let fields = [
            (0, "thread"),
            (1, "keyspace"),
            (2, "group"),
            (3, "end key"),
            (4, "value length"),
            (5, "value"),
            (6, "latency, ns"),
            (7, "time to live, ms"),
            (8, "count"),
            (9, "limit"),
        ];
        numbers(self, &fields);
        if (4..=5).contains(&outcome) {
            self.varint("length of the value that was there");
        }
        if outcome == 5 {
            self.fixed(8, "its hash");
        }
        if outcome == 6 {
            self.fixed(1, "why it failed");
        }
    }

    fn frame(&mut self) {
        self.section("frame");
        self.bytes(4, "marker");
        let kind = self.fixed(1, "kind");
        assert_eq!(
            self.fixed(1, "compression"),
            0,
            "too short to be compressed"
        );
        self.fixed(2, "0");
        self.fixed(4, "stored bytes");
        self.fixed(4, "raw bytes");
        self.fixed(4, "sequence");
        let operations = self.fixed(4, "operations");
        self.fixed(8, "xxh3 of what is before, and of what is stored");
        match kind {
            1 => (0..operations).for_each(|number| self.operation(&format!("operation {number}"))),
            2 => self.names(),
            _ => {
                for what in [
                    "recorded",
                    "dropped, full",
                    "dropped, behind",
                    "duration, ns",
                ] {
                    self.varint(what);
                }
            }
        }
    }
}

fn annotated(bytes: &[u8]) -> String {
    let mut at = Annotator {
        rest: bytes,
        text: "# A trace, version 1\n".to_owned(),
    };
    at.bytes(8, "magic: EvenDBtr");
    at.fixed(4, "version");
    at.fixed(4, "bytes of the body");
    at.fixed(8, "xxh3 of what is before, and of the body");
    at.varint("one key in this number of keys");
    at.varint("wall clock, ms since 1970");
    at.varint("flags: 1 hashes, 2 values");
    at.slice("source");
    at.names();
    while !at.rest.is_empty() {
        at.frame();
    }
    at.text
}

fn bytes_of(text: &str) -> Vec<u8> {
    let hex = text.lines();
    let hex = hex.flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace());
    hex.map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_bytes_of_version_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/trace_v1.txt");
    let bytes = trace();
    let text = annotated(&bytes);
    if !path.exists() && std::env::var_os("EVENDB_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(bytes_of(&kept), bytes, "the format has changed:\n{text}");
    assert_eq!(kept, text, "its annotations have");
    let kept = bytes_of(&kept);
    let mut reader = Reader::new(&kept[..]).unwrap();
    let read: Vec<_> = reader.operations().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, operations());
    assert!(reader.losses().is_nothing());
    assert_eq!(reader.header().one_in, 100);
    assert_eq!(reader.keyspaces()[&1], "edges");
    let end = reader.end().unwrap();
    assert_eq!((end.dropped_full, end.dropped_behind), (7, 8));
}
