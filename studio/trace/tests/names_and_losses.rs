//! The keyspaces of a trace, wherever in the file they are named, and its losses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_trace::{Header, Kind, Losses, Operation, Reader, Writer, keyspaces_of};
use std::io::Cursor;

/// A trace of this number of operations. A keyspace is named before the last of them.
fn with_a_late_name(operations: usize) -> Vec<u8> {
    let header = Header {
        keyspaces: [(0, "default".to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for number in 0..operations {
        if number + 1 == operations {
            writer.name_keyspace(9, "late").unwrap();
        }
        writer
            .add(&Operation::new(Kind::Get, format!("key {number}")))
            .unwrap();
    }
    writer.finish().unwrap().0
}

#[test]
fn all_keyspaces_are_known_before_the_operations_are_read() {
    let bytes = with_a_late_name(20_000);
    let names = keyspaces_of(Cursor::new(&bytes)).unwrap();
    let names: Vec<_> = names.into_iter().collect();
    let expected = [(0, "default".to_owned()), (9, "late".to_owned())];
    assert_eq!(names, expected);
    assert_eq!(Reader::new(&bytes[..]).unwrap().keyspaces().len(), 1);
}

/// Cut anywhere, and with any byte changed: it finds the names that a reader finds.
#[test]
fn a_damaged_trace_has_the_names_that_its_reader_finds() {
    let whole = with_a_late_name(50);
    let found_by_reader = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes).ok()?;
        while reader.next().unwrap().is_some() {}
        Some(reader.keyspaces().clone())
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        for bytes in [&whole[..at], &flipped] {
            let found = keyspaces_of(Cursor::new(bytes)).ok();
            // A damaged frame of operations is not looked into, and a reader goes on after it as
            // well.
            assert_eq!(found, found_by_reader(bytes), "at {at}");
        }
    }
}

#[test]
fn losses_are_told_in_words() {
    assert_eq!(Losses::default().to_string(), "");
    let whole = with_a_late_name(50);
    let losses_of = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes).unwrap();
        while reader.next().unwrap().is_some() {}
        reader.losses().to_string()
    };
    assert_eq!(losses_of(&whole), "");
    let torn = losses_of(&whole[..whole.len() - 5]);
    assert!(torn.starts_with("the file ends within a frame"), "{torn}");
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 0xff;
    let words = losses_of(&damaged);
    assert!(
        words.contains("operations that were recorded are not there") && !words.contains('{'),
        "{words}"
    );
}

#[test]
fn what_a_copy_of_a_trace_lost_is_told_by_the_copy() {
    let losses_of = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes).unwrap();
        while reader.next().unwrap().is_some() {}
        reader.losses()
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.add(&Operation::new(Kind::Get, "k")).unwrap();
    writer.note_lost(7);
    assert_eq!(losses_of(&writer.finish().unwrap().0).missing_operations, 7);
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.add(&Operation::new(Kind::Get, "k")).unwrap();
    let without_end = writer.finish_without_end().unwrap();
    let losses = losses_of(&without_end);
    assert!(losses.has_no_end && !losses.is_torn, "{losses:?}");
    assert_eq!(
        Reader::new(&without_end[..]).unwrap().operations().count(),
        1
    );
}
