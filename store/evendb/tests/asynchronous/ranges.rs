//! Ranges as chunks.

use super::executor::{at_once, block_on, poll_once, until};
use super::files::{Files, key, value};
use crate::common::DIR;
use evendb::{Db, Durability, ErrorKind, RangeChunks, Result};

/// All records of a range, and the number of its chunks.
fn all(mut chunks: RangeChunks) -> Result<(Vec<(String, Vec<u8>)>, usize)> {
    block_on(async {
        let (mut records, mut count) = (Vec::new(), 0);
        while let Some(chunk) = chunks.next_chunk().await? {
            assert!(!chunk.is_empty() && chunk.len() <= 256);
            count += 1;
            for (key, value) in chunk {
                let key = String::from_utf8(key.to_vec()).unwrap();
                records.push((key, value.to_vec()));
            }
        }
        assert!(chunks.next_chunk().await?.is_none());
        Ok((records, count))
    })
}

fn expected(numbers: impl Iterator<Item = u32>) -> Vec<(String, Vec<u8>)> {
    numbers.map(|number| (key(number), value(number))).collect()
}

fn warm(files: &Files, keys: u32) -> Db {
    let db = files.open(Durability::Process);
    for number in 0..keys {
        db.put(key(number), value(number)).unwrap();
    }
    db
}

#[test]
fn chunks_from_memory_are_ready_at_once() {
    let files = Files::new();
    let db = warm(&files, 1000);
    let mut chunks = db.range_async(key(100)..);
    files.hold_reads(true);
    let first = at_once(chunks.next_chunk()).unwrap().unwrap();
    assert_eq!(first.len(), 256);
    assert_eq!(first[0].0, key(100));
    // The moment is that of the call.
    db.put(key(999), "later").unwrap();
    let (rest, _) = all(chunks).unwrap();
    assert_eq!(rest, expected(356..1000));
    files.hold_reads(false);
    let few = db.range_async(key(10)..key(20)).chunk_records(4);
    let (records, count) = all(few).unwrap();
    assert_eq!((records, count), (expected(10..20), 3));
    assert_eq!(all(db.range_async(key(20)..key(10))).unwrap().1, 0);
}

#[test]
fn chunks_from_files_are_the_records_of_a_scan() {
    let files = Files::new();
    let db = files.cold(3000, || files.options(Durability::Process, 1));
    for number in (0..3000).step_by(3) {
        db.delete(key(number)).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let left = || (0..3000).filter(|number| number % 3 != 0);
    db.delete(key(1)).unwrap();
    let (records, _) = all(snapshot.range_async::<&str>(db.default_keyspace(), ..)).unwrap();
    assert_eq!(records, expected(left()));
    let (mut records, _) = all(db.range_async(key(0)..key(2000)).rev()).unwrap();
    records.reverse();
    assert_eq!(records, expected(left().filter(|n| (2..2000).contains(n))));
}

#[test]
fn values_that_lie_apart_come_with_their_chunks() {
    let files = Files::new();
    let apart = files.options(Durability::Process, 1);
    let apart = apart.advanced(|advanced| advanced.values_apart_from(Some(50)));
    let db = apart.open(DIR).unwrap();
    for number in 0..300 {
        let long = if number % 7 == 0 {
            value(number)
        } else {
            vec![1; 4]
        };
        db.put(key(number), long).unwrap();
    }
    let (records, _) = all(db.range_async::<&str>(..)).unwrap();
    let scanned = db.iter().map(|record| record.unwrap());
    let scanned =
        scanned.map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value.to_vec()));
    assert_eq!(records, scanned.collect::<Vec<_>>());
}

/// A poll reads nothing: while no read returns it is pending; and the future of a chunk that is
/// dropped loses no record.
#[test]
fn a_chunk_that_has_to_be_read_is_pending_and_not_lost() {
    let files = Files::new();
    let db = files.cold(1000, || files.options(Durability::Process, 1));
    files.hold_reads(true);
    let mut chunks = db.range_async::<&str>(..);
    for _ in 0..3 {
        assert!(poll_once(chunks.next_chunk()).is_pending());
    }
    until("a read stands", || files.standing() > 0);
    files.hold_reads(false);
    assert_eq!(all(chunks).unwrap().0, expected(0..1000));
}

/// A23: the window is bounded, whatever the length of the range: one chunk reads a small part.
#[test]
fn a23_one_chunk_of_a_long_range_reads_little() {
    let files = Files::new();
    let db = files.cold(50_000, || files.options(Durability::Process, 1));
    let before = files.reads_done();
    let mut chunks = db.range_async::<&str>(..);
    let chunk = block_on(chunks.next_chunk()).unwrap().unwrap();
    assert!(chunk.len() <= 256);
    drop(chunks);
    let few = files.reads_done() - before;
    assert!(few < 200, "{few} reads for one chunk of 50,000 records");
}

#[test]
fn a_range_ends_with_its_error() {
    let files = Files::new();
    let db = files.cold(1000, || files.options(Durability::Process, 1));
    let mut chunks = db.range_async::<&str>(..);
    assert!(block_on(chunks.next_chunk()).unwrap().is_some());
    db.close().unwrap();
    let error = loop {
        match block_on(chunks.next_chunk()) {
            Ok(chunk) => assert!(chunk.is_some(), "it ended without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(block_on(chunks.next_chunk()).unwrap().is_none());
}
