//! Broken tables: a typed error that names file and place, or the right answer; never a panic,
//! never a wrong answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::codec::{checksum, get_varint};
use evendb_storage::table::{Codec, Table, TableCursor};
use evendb_storage::{ErrorKind, Result, TableId, Version};
use std::sync::Arc;
use table_support::{ID, MemFile, Record, build, codecs, options};

fn records() -> Vec<Record> {
    let mut records = vec![Record::put(b"", 3, b"empty key")];
    for n in 0..12u8 {
        for version in (0..=u64::from(n % 5)).rev() {
            let key = format!("key{:02}", n * 3);
            records.push(match (n + version as u8) % 4 {
                0 => Record::delete(key.as_bytes(), version * 1000),
                _ => Record::put(key.as_bytes(), version * 1000, &vec![n; usize::from(n) * 2]),
            });
        }
    }
    records
}

fn collect(cursor: &mut TableCursor, forward: bool) -> Result<Vec<Record>> {
    let mut seen = Vec::new();
    if forward {
        cursor.seek_first()?
    } else {
        cursor.seek_last()?
    }
    while cursor.valid() {
        let entry = cursor.entry();
        let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
        seen.push(Record {
            key,
            version: entry.version,
            kind: entry.kind,
            value,
        });
        if forward {
            cursor.next()?
        } else {
            cursor.prev()?
        }
    }
    Ok(seen)
}

/// Every way of reading, collected by name; each must succeed with the right answer or fail.
fn read_all_ways(table: Arc<Table>, records: &[Record]) -> Vec<Result<bool>> {
    let mut answers = Vec::new();
    for record in records {
        let found = table.get(&record.key, record.version);
        answers.push(found.map(|found| {
            found.is_some_and(|found| {
                (found.version, found.kind) == (record.version, record.kind)
                    && found.block.bytes()[found.value] == record.value[..]
            })
        }));
    }
    answers.push(
        table
            .get(b"key04", Version::MAX)
            .map(|found| found.is_none()),
    );
    let mut count = 0;
    let hashes = table.for_each_hash(&mut |_, _| count += 1);
    answers.push(hashes.map(|()| count >= 13));
    answers.push(table.verify().map(|()| true));
    let mut cursor = TableCursor::new(table, 3);
    answers.push(collect(&mut cursor, true).map(|seen| seen == records));
    let reversed = collect(&mut cursor, false);
    answers.push(reversed.map(|seen| seen.iter().eq(records.iter().rev())));
    cursor.seek(b"key10").unwrap_or_default();
    answers.push(Ok(!cursor.valid() || cursor.entry().key == b"key12"));
    answers
}

/// Whether anything failed. Panics if there was a wrong answer.
fn survives(bytes: Vec<u8>, len: u64, id: TableId, records: &[Record], what: &str) -> bool {
    let answers = match Table::open(MemFile::new(bytes), 0, len, id) {
        Ok(table) => read_all_ways(Arc::new(table), records),
        Err(error) => vec![Err(error)],
    };
    let mut failed = false;
    for answer in answers {
        match answer {
            Ok(right) => assert!(right, "wrong answer: {what}"),
            Err(error) => {
                failed = true;
                assert_eq!(error.path().to_str(), Some("/memory/file"), "{what}");
                match error.kind() {
                    ErrorKind::Corruption => assert!(error.offset().is_some(), "{what}"),
                    ErrorKind::Unsupported => {}
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
    }
    failed
}

#[test]
fn every_bit_of_a_table_counts() {
    for codec in codecs() {
        let records = records();
        let (bytes, _) = build(&records, options(90, codec));
        let len = bytes.len() as u64;
        assert!(!survives(bytes.clone(), len, ID, &records, "unharmed"));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                survives(bad, len, ID, &records, &format!("bit {bit}")),
                "bit {bit} unseen"
            );
        }
    }
}

#[test]
fn every_truncation_is_seen() {
    let records = records();
    let (bytes, _) = build(&records, options(90, Codec::None));
    for len in 0..bytes.len() {
        let cut = bytes[..len].to_vec();
        assert!(survives(
            cut.clone(),
            bytes.len() as u64,
            ID,
            &records,
            "file cut"
        ));
        assert!(survives(cut, len as u64, ID, &records, "table cut"));
        assert!(survives(
            bytes.clone(),
            len as u64,
            ID,
            &records,
            "wrong length"
        ));
        let shifted = bytes[bytes.len() - len..].to_vec();
        assert!(survives(shifted, len as u64, ID, &records, "head cut"));
    }
}

#[test]
fn another_table_or_a_moved_one_does_not_verify() {
    let records = records();
    let (bytes, _) = build(&records, options(90, Codec::None));
    let len = bytes.len() as u64;
    assert!(survives(
        bytes.clone(),
        len,
        TableId(ID.0 + 1),
        &records,
        "another id"
    ));
    for hostile_len in [u64::MAX, u64::MAX / 2, 1 << 45] {
        assert!(survives(
            bytes.clone(),
            hostile_len,
            ID,
            &records,
            "hostile length"
        ));
    }
    assert!(Table::open(MemFile::new(bytes), u64::MAX - 3, len, ID).is_err());
}

#[test]
fn errors_name_the_absolute_offset() {
    let (bytes, _) = build(&records(), options(90, Codec::None));
    let mut file = vec![0; 1000];
    file.extend_from_slice(&bytes);
    file[1000 + 5] ^= 1;
    let table = Table::open(MemFile::new(file), 1000, bytes.len() as u64, ID).unwrap();
    let error = table.read_block(0).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::Corruption, Some(1000))
    );
}

#[test]
fn a_newer_version_is_unsupported_and_a_wrong_magic_is_damage() {
    let (bytes, _) = build(&records(), options(90, Codec::None));
    for (from_end, kind) in [(1, ErrorKind::Corruption), (16, ErrorKind::Unsupported)] {
        let mut bad = bytes.clone();
        let at = bad.len() - from_end;
        bad[at] = 9;
        let error = Table::open(MemFile::new(bad), 0, bytes.len() as u64, ID).unwrap_err();
        assert_eq!(error.kind(), kind);
    }
}

/// Stored blocks of a table: data blocks, filter, index, properties.
fn parts(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let footer = &bytes[bytes.len() - 56..];
    let word = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap()) as usize;
    let (data, filter, index) = (word(0), word(8), word(16));
    let mut input = &bytes[data + filter..data + filter + index];
    let mut lens = Vec::new();
    for _ in 0..get_varint(&mut input).unwrap() {
        lens.push(get_varint(&mut input).unwrap() as usize);
        let separator = (get_varint(&mut input).unwrap() >> 1) as usize;
        input = &input[separator..];
    }
    // These tables are too small for a dictionary. The upper half of the last word is its length.
    lens.extend([filter, index, word(24)]);
    let mut at = 0;
    let place = |len: usize| {
        at += len;
        at - len..at
    };
    lens.into_iter().map(place).collect()
}

/// With forged checksums the answers are the forger's; but nothing panics, hangs or overflows.
#[test]
fn forged_checksums_never_panic() {
    for codec in codecs() {
        let records = records();
        let (bytes, _) = build(&records, options(90, codec));
        let mut opened = 0;
        for part in parts(&bytes) {
            for bit in part.start * 8..(part.end - 4) * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let covered = &bad[part.start..part.end - 4];
                let crc = checksum(ID.0, &[&(part.start as u64).to_le_bytes(), covered]);
                bad[part.end - 4..part.end].copy_from_slice(&crc.to_le_bytes());
                let len = bad.len() as u64;
                if let Ok(table) = Table::open(MemFile::new(bad), 0, len, ID) {
                    opened += 1;
                    let table = Arc::new(table);
                    read_all_ways(table.clone(), &records);
                    let mut cursor = TableCursor::new(table, 2);
                    for record in &records {
                        let _ = cursor.seek_before(&record.key).and_then(|()| cursor.next());
                    }
                }
            }
        }
        assert!(opened > 1000, "{opened}");
    }
}
