use super::*;
use crate::cursor::EntryCursor;
use evendb_storage::{EntryRef, Kind, Version};
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Arc as StdArc};

fn insert(table: &MemoryTable, key: &[u8]) {
    insert_at(table, key, 1);
}

fn insert_at(table: &MemoryTable, key: &[u8], version: u64) {
    table.insert(EntryRef {
        key,
        version: Version(version),
        kind: Kind::Put,
        value: key,
    });
}

fn walk(table: &Arc<MemoryTable>, forward: bool) -> Vec<Vec<u8>> {
    let mut cursor = table.cursor();
    match forward {
        true => cursor.seek_first().expect("memory"),
        false => cursor.seek_last().expect("memory"),
    }
    let mut seen = Vec::new();
    while cursor.valid() {
        let entry = cursor.entry();
        assert_eq!(entry.key, entry.value);
        seen.push(entry.key.to_vec());
        match forward {
            true => cursor.next().expect("memory"),
            false => cursor.prev().expect("memory"),
        }
    }
    seen
}

/// Runs `reader` beside `writer` in many schedules, at least `least`. The writer is the thread that
/// goes first: loom finds schedules in which a load meets another thread's store. It does not find
/// schedules in which a store meets a load that the storing thread has repeated.
fn beside(
    least: usize,
    make: fn() -> MemoryTable,
    writer: fn(&MemoryTable),
    reader: impl Fn(&Arc<MemoryTable>, bool) + Clone + Send + Sync + 'static,
) {
    let schedules = StdArc::new(AtomicUsize::new(0));
    let counted = schedules.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        counted.fetch_add(1, Relaxed);
        let table = Arc::new(make());
        let finished = LoomArc::new(loom::sync::atomic::AtomicBool::new(false));
        let reading = {
            let (table, finished, reader) = (table.clone(), finished.clone(), reader.clone());
            thread::spawn(move || {
                let all_there = finished.load(loom::sync::atomic::Ordering::Acquire);
                reader(&table, all_there);
            })
        };
        writer(&table);
        finished.store(true, loom::sync::atomic::Ordering::Release);
        reading.join().expect("no panic");
    });
    let schedules = schedules.load(Relaxed);
    assert!(schedules >= least, "{schedules} schedules");
}

fn two_records_beside_a_reader(forward: bool) {
    let make = || {
        let table = MemoryTable::new();
        insert(&table, b"a");
        insert(&table, b"d");
        table
    };
    let writer = |table: &MemoryTable| {
        insert(table, b"b");
        insert(table, b"c");
    };
    beside(20, make, writer, move |table, all_there| {
        let mut seen = walk(table, forward);
        if !forward {
            seen.reverse();
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        for there in [b"a", b"d"] {
            assert!(seen.iter().any(|key| key == there), "{seen:?}");
        }
        assert!(!all_there || seen.len() == 4, "{seen:?}");
    });
}

#[test]
fn loom_a_reader_forwards_beside_a_writer() {
    two_records_beside_a_reader(true);
}

#[test]
fn loom_a_reader_backwards_beside_a_writer() {
    two_records_beside_a_reader(false);
}

/// Records are inserted before the sought place meanwhile: a newer version, and a key below. A get
/// at a version and a seek find neither.
#[test]
fn loom_what_is_inserted_in_front_of_what_is_sought_is_not_found() {
    let make = || {
        let table = MemoryTable::new();
        insert_at(&table, b"k", 1);
        table
    };
    let writer = |table: &MemoryTable| {
        insert_at(table, b"k", 2);
        insert_at(table, b"j", 2);
    };
    beside(20, make, writer, |table, _| {
        let found = table.get(b"k", Version(1)).map(|entry| entry.version);
        assert_eq!(found, Some(Version(1)));
        let mut cursor = table.cursor();
        cursor.seek(b"k").expect("memory");
        assert_eq!(cursor.entry().key, b"k");
    });
}
