//! What a cursor reads: a seek reads few blocks, and the windows of a scan grow from its seek on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::table::{Codec, ReadAhead, Table, TableCursor};
use std::sync::Arc;
use table_support::{MemFile, Record, build, open_within, options};

const RECORDS: u32 = 2000;
const READAHEAD: ReadAhead = ReadAhead {
    seek: 1,
    next: 2,
    max: 8,
};

fn key(number: u32) -> Vec<u8> {
    format!("user{number:08}").into_bytes()
}

fn table() -> (Arc<MemFile>, Arc<Table>) {
    let records = (0..RECORDS).map(|number| Record::put(&key(number), 0, &[number as u8; 20]));
    let (bytes, _) = build(&records.collect::<Vec<_>>(), options(512, Codec::None));
    let (file, table) = open_within(&bytes, 0);
    file.take_parts();
    (file, Arc::new(table.unwrap()))
}

/// A seek that needs the block behind or before its own reads the blocks of a seek, and not the
/// window of a scan.
#[test]
fn a_seek_across_two_blocks_reads_two() {
    let (file, table) = table();
    let readahead = ReadAhead {
        seek: 1,
        next: 16,
        max: 16,
    };
    let mut longest = 0;
    for number in 0..RECORDS {
        for forward in [true, false] {
            let between = [&key(number)[..], b"x"].concat();
            let mut cursor = TableCursor::new(table.clone(), readahead);
            file.take_parts();
            match forward {
                true => cursor.seek(&between).unwrap(),
                false => cursor.seek_before(&key(number)).unwrap(),
            }
            let (read, told) = file.take_parts();
            longest = longest.max(read.len());
            assert!(
                read.iter().all(|part| part.end - part.start < 600),
                "{read:?}"
            );
            assert!(told.is_empty());
        }
    }
    assert_eq!(longest, 2);
}

/// However far a cursor went, its windows are small again after a seek.
#[test]
fn windows_begin_anew_behind_a_seek() {
    let (file, table) = table();
    let mut cursor = TableCursor::new(table, READAHEAD);
    let mut reads = Vec::new();
    for _ in 0..2 {
        file.take_parts();
        cursor.seek(&key(100)).unwrap();
        for _ in 0..400 {
            cursor.next().unwrap();
        }
        let (read, _) = file.take_parts();
        reads.push(
            read.iter()
                .map(|part| part.end - part.start)
                .collect::<Vec<_>>(),
        );
    }
    assert!(
        reads[0].len() > 3 && reads[0][0] < reads[0][3],
        "{:?}",
        reads[0]
    );
    assert_eq!(reads[0], reads[1]);
}
