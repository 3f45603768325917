use super::*;
use crate::cursor::EntryCursor;
use evendb_storage::{EntryRef, Kind, Version};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Key and version.
type Place = (Vec<u8>, Reverse<u64>);
type Model = BTreeMap<Place, (Kind, Vec<u8>)>;
type Record = (Vec<u8>, u64, Kind, Vec<u8>);

fn insert(table: &MemoryTable, model: &mut Model, key: &[u8], version: u64, value: Option<&[u8]>) {
    let kind = value.map_or(Kind::Delete, |_| Kind::Put);
    let value = value.unwrap_or_default();
    table.insert(EntryRef {
        key,
        version: Version(version),
        kind,
        value,
    });
    model.insert((key.to_vec(), Reverse(version)), (kind, value.to_vec()));
}

fn owned(entry: EntryRef<'_>) -> Record {
    let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
    (key, entry.version.0, entry.kind, value)
}

fn record((place, said): (&Place, &(Kind, Vec<u8>))) -> Record {
    (place.0.clone(), place.1.0, said.0, said.1.clone())
}

fn here(cursor: &MemoryCursor) -> Option<Record> {
    cursor.valid().then(|| owned(cursor.entry()))
}

/// Short keys, so that many are equal or begin alike.
fn a_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 0xff]), 0..4)
}

proptest! {
    /// After each insertion all records are found as in the model: by get, and by a cursor from
    /// each key in both directions.
    #[test]
    fn equals_a_sorted_map(
        writes in prop::collection::vec((a_key(), prop::option::of(prop::collection::vec(any::<u8>(), 0..20))), 1..60),
        probes in prop::collection::vec((a_key(), 0..70u64), 1..20),
    ) {
        let (table, mut model) = (Arc::new(MemoryTable::new()), Model::new());
        for (at, (key, value)) in writes.iter().enumerate() {
            // Versions in no order, as replay and several writers give them.
            let version = (at as u64 * 37) % 64 + 1;
            insert(&table, &mut model, key, version, value.as_deref());
        }
        prop_assert_eq!(table.entries(), writes.len());
        for (key, at) in &probes {
            let expected = model.range((key.clone(), Reverse(*at))..).next().map(record);
            let expected = expected.filter(|found| found.0 == *key);
            prop_assert_eq!(table.get(key, Version(*at)).map(owned), expected);
            let mut cursor = table.cursor();
            cursor.seek(key).unwrap();
            for expected in model.range((key.clone(), Reverse(u64::MAX))..).map(record) {
                prop_assert_eq!(here(&cursor), Some(expected));
                cursor.next().unwrap();
            }
            prop_assert_eq!(here(&cursor), None);
            cursor.seek_before(key).unwrap();
            for expected in model.range(..(key.clone(), Reverse(u64::MAX))).rev().map(record) {
                prop_assert_eq!(here(&cursor), Some(expected));
                cursor.prev().unwrap();
            }
            prop_assert_eq!(here(&cursor), None);
        }
        let mut cursor = table.cursor();
        cursor.seek_first().unwrap();
        prop_assert_eq!(here(&cursor), model.iter().next().map(record));
        cursor.seek_last().unwrap();
        prop_assert_eq!(here(&cursor), model.iter().next_back().map(record));
    }
}

#[test]
fn an_empty_table_has_nothing_and_takes_little() {
    let table = Arc::new(MemoryTable::new());
    let mut cursor = table.cursor();
    cursor.seek_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    assert!(!cursor.valid());
    cursor.seek_before(b"z").unwrap();
    assert!(!cursor.valid());
    cursor.prev().unwrap();
    assert!(!cursor.valid());
    assert_eq!(table.get(b"", Version::MAX), None);
    assert_eq!(table.allocated_bytes(), 1 << 10);
}

/// The arena has the bytes of the records and little more, whatever their sizes.
#[test]
#[cfg_attr(miri, ignore = "it counts bytes of many records")]
fn memory_is_that_of_the_records() {
    for len in [0, 100, 5_000, 300_000] {
        let (table, mut model) = (MemoryTable::new(), Model::new());
        let count = 2_000_000 / (len + 60) as u64;
        for number in 0..count {
            let key = number.to_le_bytes();
            insert(&table, &mut model, &key, number, Some(&vec![7; len]));
        }
        let least = count as usize * (len + 8 + 24 + 8);
        let allocated = table.allocated_bytes();
        assert!(allocated >= least, "{len}: {allocated} of {least}");
        assert!(
            allocated < least + least / 4 + (512 << 10),
            "{len}: {allocated} of {least}"
        );
    }
}

/// One thread inserts, others walk in both directions and get. The order is never broken, and every
/// announced record is found.
#[test]
fn readers_beside_a_writer() {
    const RECORDS: u64 = if cfg!(miri) { 100 } else { 30_000 };
    let table = Arc::new(MemoryTable::new());
    let announced = AtomicU64::new(0);
    let key = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).to_le_bytes();
    std::thread::scope(|scope| {
        for forward in [true, false] {
            let (table, announced) = (&table, &announced);
            scope.spawn(move || {
                while announced.load(Ordering::Acquire) < RECORDS {
                    let there = announced.load(Ordering::Acquire);
                    let mut cursor = table.cursor();
                    match forward {
                        true => cursor.seek_first().unwrap(),
                        false => cursor.seek_last().unwrap(),
                    }
                    let mut last: Option<(Vec<u8>, Reverse<u64>)> = None;
                    let mut seen = 0;
                    while cursor.valid() {
                        let entry = cursor.entry();
                        assert_eq!(entry.key, key(entry.version.0));
                        assert_eq!(entry.value, entry.version.0.to_le_bytes());
                        let place = (entry.key.to_vec(), Reverse(entry.version.0));
                        if let Some(last) = &last {
                            assert_eq!(*last < place, forward);
                        }
                        seen += u64::from(entry.version.0 <= there);
                        last = Some(place);
                        match forward {
                            true => cursor.next().unwrap(),
                            false => cursor.prev().unwrap(),
                        }
                    }
                    assert_eq!(seen, there);
                    if there > 0 {
                        let found = table.get(&key(there), Version(there));
                        assert_eq!(found.map(|entry| entry.version.0), Some(there));
                    }
                }
            });
        }
        for number in 1..=RECORDS {
            table.insert(EntryRef {
                key: &key(number),
                version: Version(number),
                kind: Kind::Put,
                value: &number.to_le_bytes(),
            });
            announced.store(number, Ordering::Release);
        }
    });
}
