//! Writes databases of LevelDB byte by byte, for tests of the reader: it follows the format alone,
//! and shares no code with the reader.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::fs;
use std::path::Path;

/// How blocks of tables are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Snappy,
}

/// A put, or without a value a deletion.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Vec<u8>,
    pub sequence: u64,
    pub value: Option<Vec<u8>>,
}

pub fn entry(key: impl AsRef<[u8]>, sequence: u64, value: Option<&[u8]>) -> Entry {
    Entry {
        key: key.as_ref().to_vec(),
        sequence,
        value: value.map(<[u8]>::to_vec),
    }
}

pub fn varint(mut number: u64, target: &mut Vec<u8>) {
    while number >= 0x80 {
        target.push(number as u8 | 0x80);
        number >>= 7;
    }
    target.push(number as u8);
}

fn text(bytes: &[u8], target: &mut Vec<u8>) {
    varint(bytes.len() as u64, target);
    target.extend_from_slice(bytes);
}

/// CRC-32C bit by bit, masked as LevelDB does.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82F6_3B78
            } else {
                crc >> 1
            };
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// A log with these records, in blocks of 32 KiB.
pub fn log(records: &[Vec<u8>]) -> Vec<u8> {
    const BLOCK: usize = 32 << 10;
    let mut log = Vec::new();
    for record in records {
        let mut left = &record[..];
        let mut is_first = true;
        loop {
            let mut room = BLOCK - log.len() % BLOCK;
            if room < 7 {
                log.resize(log.len() + room, 0);
                room = BLOCK;
            }
            let (piece, rest) = left.split_at(left.len().min(room - 7));
            let kind = match (is_first, rest.is_empty()) {
                (true, true) => 1u8,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let checked = [&[kind], piece].concat();
            log.extend_from_slice(&masked_crc(&checked).to_le_bytes());
            log.extend_from_slice(&(piece.len() as u16).to_le_bytes());
            log.extend_from_slice(&checked);
            (left, is_first) = (rest, false);
            if left.is_empty() {
                break;
            }
        }
    }
    log
}

/// A batch of entries with consecutive sequence numbers.
pub fn batch(entries: &[Entry]) -> Vec<u8> {
    let mut batch = entries[0].sequence.to_le_bytes().to_vec();
    batch.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        batch.push(u8::from(entry.value.is_some()));
        text(&entry.key, &mut batch);
        if let Some(value) = &entry.value {
            text(value, &mut batch);
        }
    }
    batch
}

fn table_key(entry: &Entry) -> Vec<u8> {
    let tag = entry.sequence << 8 | u64::from(entry.value.is_some());
    [&entry.key[..], &tag.to_le_bytes()].concat()
}

/// Appends a block. Returns its place.
fn block(pairs: &[(Vec<u8>, Vec<u8>)], packing: Packing, table: &mut Vec<u8>) -> Vec<u8> {
    let (mut block, mut offsets) = (Vec::new(), Vec::new());
    let mut last: &[u8] = b"";
    for (index, (key, value)) in pairs.iter().enumerate() {
        let mut shared = key
            .iter()
            .zip(last)
            .take_while(|(one, other)| one == other)
            .count();
        if index % 16 == 0 {
            offsets.push(block.len() as u32);
            shared = 0;
        }
        varint(shared as u64, &mut block);
        varint((key.len() - shared) as u64, &mut block);
        varint(value.len() as u64, &mut block);
        block.extend_from_slice(&key[shared..]);
        block.extend_from_slice(value);
        last = key;
    }
    if offsets.is_empty() {
        offsets.push(0);
    }
    for offset in &offsets {
        block.extend_from_slice(&offset.to_le_bytes());
    }
    block.extend_from_slice(&(offsets.len() as u32).to_le_bytes());
    let (mut block, method) = match packing {
        Packing::None => (block, 0),
        Packing::Snappy => (snap::raw::Encoder::new().compress_vec(&block).unwrap(), 1),
    };
    let mut place = Vec::new();
    varint(table.len() as u64, &mut place);
    varint(block.len() as u64, &mut place);
    block.push(method);
    let crc = masked_crc(&block);
    table.extend_from_slice(&block);
    table.extend_from_slice(&crc.to_le_bytes());
    place
}

/// A table with these entries, at most `in_block` of them in a block.
pub fn table(entries: &[Entry], in_block: usize, packing: Packing) -> Vec<u8> {
    let mut table = Vec::new();
    let mut index = Vec::new();
    for entries in entries.chunks(in_block) {
        let pair = |entry: &Entry| (table_key(entry), entry.value.clone().unwrap_or_default());
        let pairs: Vec<_> = entries.iter().map(pair).collect();
        let place = block(&pairs, packing, &mut table);
        index.push((pairs[pairs.len() - 1].0.clone(), place));
    }
    let about = block(&[], packing, &mut table);
    let index = block(&index, packing, &mut table);
    let mut footer = [about, index].concat();
    footer.resize(40, 0);
    footer.extend_from_slice(&0xDB47_7524_8B80_FB57u64.to_le_bytes());
    table.extend_from_slice(&footer);
    table
}

/// The parts of a database: tables by level, and the entries of its log, a batch each.
pub struct Database<'a> {
    pub tables: &'a [(u8, Vec<Entry>)],
    pub log: &'a [Vec<Entry>],
    pub packing: Packing,
    pub comparator: &'a str,
}

/// Writes the files of a database. Its tables are 000005.ldb and so on, its log is 000004.log.
pub fn write(directory: &Path, database: &Database<'_>) {
    fs::create_dir_all(directory).unwrap();
    let mut edit = vec![1];
    text(database.comparator.as_bytes(), &mut edit);
    let mut edits = vec![edit];
    let mut next = 5;
    for (level, entries) in database.tables {
        let table = table(entries, 7, database.packing);
        fs::write(directory.join(format!("{next:06}.ldb")), &table).unwrap();
        let mut edit = vec![7, *level];
        varint(next, &mut edit);
        varint(table.len() as u64, &mut edit);
        text(&table_key(&entries[0]), &mut edit);
        text(&table_key(&entries[entries.len() - 1]), &mut edit);
        // A table that was there and is removed.
        edit.extend_from_slice(&[6, 0, 3]);
        if next == 5 {
            let mut first = vec![7, 0, 3, 100];
            text(&table_key(&entries[0]), &mut first);
            text(&table_key(&entries[0]), &mut first);
            edits.push(first);
        } else {
            edit.truncate(edit.len() - 3);
        }
        edits.push(edit);
        next += 1;
    }
    let mut edit = Vec::new();
    for (tag, number) in [(2, 4), (9, 0), (3, next), (4, 1000)] {
        varint(tag, &mut edit);
        varint(number, &mut edit);
    }
    edits.push(edit);
    fs::write(directory.join("MANIFEST-000002"), log(&edits)).unwrap();
    fs::write(directory.join("CURRENT"), "MANIFEST-000002\n").unwrap();
    fs::write(directory.join("LOCK"), "").unwrap();
    let batches: Vec<Vec<u8>> = database.log.iter().map(|entries| batch(entries)).collect();
    fs::write(directory.join("000004.log"), log(&batches)).unwrap();
    // A log whose records are in tables already.
    fs::write(directory.join("000001.log"), "old").unwrap();
}
