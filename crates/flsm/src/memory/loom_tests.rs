use super::*;
use crate::cursor::EntryCursor;
use evendb_storage::{EntryRef, Kind, Version};
use loom::sync::Arc as LoomArc;
use loom::thread;
use std::sync::Arc;

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

fn two_records_beside_a_reader(forward: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let table = Arc::new(MemoryTable::new());
        insert(&table, b"a");
        insert(&table, b"d");
        let finished = LoomArc::new(loom::sync::atomic::AtomicBool::new(false));
        let writer = {
            let (table, finished) = (table.clone(), finished.clone());
            thread::spawn(move || {
                insert(&table, b"b");
                insert(&table, b"c");
                finished.store(true, loom::sync::atomic::Ordering::Release);
            })
        };
        let all_there = finished.load(loom::sync::atomic::Ordering::Acquire);
        let mut seen = walk(&table, forward);
        if !forward {
            seen.reverse();
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        for there in [b"a", b"d"] {
            assert!(seen.iter().any(|key| key == there), "{seen:?}");
        }
        assert!(!all_there || seen.len() == 4, "{seen:?}");
        writer.join().expect("no panic");
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

/// A get at a version, and a seek, find nothing that comes to the place while they look: not a newer version, nor a key below.
#[test]
fn loom_what_is_inserted_in_front_of_what_is_sought_is_not_found() {
    loom::model(|| {
        let table = Arc::new(MemoryTable::new());
        insert_at(&table, b"k", 1);
        let writer = {
            let table = table.clone();
            thread::spawn(move || {
                insert_at(&table, b"k", 2);
                insert_at(&table, b"j", 2);
            })
        };
        let found = table.get(b"k", Version(1)).map(|entry| entry.version);
        assert_eq!(found, Some(Version(1)));
        let mut cursor = table.cursor();
        cursor.seek(b"k").expect("memory");
        assert_eq!(cursor.entry().key, b"k");
        writer.join().expect("no panic");
    });
}
