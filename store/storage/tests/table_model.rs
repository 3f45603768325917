//! Tables against a sorted vector: every answer in both directions, whatever the layout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table_support;

use evendb_storage::key_hash::{FilterHash, RamHash};
use evendb_storage::table::{Codec, ReadAhead, Table, TableCursor, TableOptions};
use evendb_storage::{Kind, Version};
use proptest::prelude::*;
use std::sync::Arc;
use table_support::{Record, build, build_keyed, codecs, model_get, open_within, options};

/// Keys of a small alphabet, so that prefixes, neighbours and versions of one key are common; now
/// and then a long key.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(254), Just(255)], 0..6),
        4 => "user[0-3]{1,9}".prop_map(String::into_bytes),
        1 => (0u8..3, 0usize..3).prop_map(|(byte, less)| vec![byte; 65535 - less]),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let version = prop_oneof![0u64..4, 0u64..400, Just(u64::MAX - 1), any::<u64>()];
    let value = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..12),
        2 => (0usize..400).prop_map(|len| vec![7; len]),
        1 => (0usize..9000).prop_map(|len| (0..len).map(|n| (n * n) as u8).collect()),
    ];
    let record = (key(), version, prop::option::weighted(0.8, value));
    prop::collection::vec(record, 0..60).prop_map(|rows| {
        let mut records: Vec<Record> = rows
            .into_iter()
            .map(|(key, version, value)| match value {
                Some(value) => Record::put(&key, version, &value),
                None => Record::delete(&key, version),
            })
            .collect();
        records.sort_by(|a, b| (&a.key, b.version).cmp(&(&b.key, a.version)));
        records.dedup_by(|a, b| (&a.key, a.version) == (&b.key, b.version));
        records
    })
}

fn layout() -> impl Strategy<Value = TableOptions> {
    let block_bytes = prop_oneof![Just(1usize), 20..200usize, Just(4096)];
    let restart_interval = prop_oneof![Just(1usize), 2..20usize, Just(usize::MAX)];
    let codec = proptest::sample::select(codecs());
    let filter = prop_oneof![Just(0u32), Just(10)];
    (block_bytes, restart_interval, codec, filter).prop_map(
        |(block_bytes, restart_interval, codec, filter_bits_per_key)| TableOptions {
            block_bytes,
            restart_interval,
            codec,
            zstd_level: 3,
            filter_bits_per_key,
        },
    )
}

fn check_get(table: &Table, records: &[Record], key: &[u8], at: Version) {
    let found = table.get(key, at).unwrap();
    match (found, model_get(records, key, at)) {
        (Some(found), Some(record)) => {
            assert_eq!((found.version, found.kind), (record.version, record.kind));
            assert_eq!(&found.block.bytes()[found.value], &record.value[..]);
            assert!(table.may_contain(FilterHash::of(key)));
        }
        (None, None) => {}
        (found, record) => panic!("get {key:?} at {at:?}: {found:?}, expected {record:?}"),
    }
}

fn check_position(cursor: &TableCursor, records: &[Record], place: Option<usize>) {
    match place {
        Some(place) => {
            assert!(cursor.valid(), "expected record {place}");
            assert_eq!(cursor.entry(), records[place].entry());
            let (block, value) = cursor.value_block();
            assert_eq!(&block.bytes()[value], &records[place].value[..]);
        }
        None => assert!(!cursor.valid()),
    }
}

/// From each probe: seek, walk on and back again; everything is compared with the vector.
fn check_cursor(table: &Arc<Table>, records: &[Record], probes: &[Vec<u8>], readahead: usize) {
    let mut cursor = TableCursor::new(table.clone(), readahead);
    assert!(!cursor.valid());
    cursor.seek_first().unwrap();
    for place in 0..records.len() {
        check_position(&cursor, records, Some(place));
        cursor.next().unwrap();
    }
    check_position(&cursor, records, None);
    cursor.seek_last().unwrap();
    for place in (0..records.len()).rev() {
        check_position(&cursor, records, Some(place));
        cursor.prev().unwrap();
    }
    check_position(&cursor, records, None);
    for key in probes {
        let place = records.partition_point(|record| record.key < *key);
        cursor.seek_before(key).unwrap();
        check_position(&cursor, records, place.checked_sub(1));
        if place > 0 {
            cursor.next().unwrap();
            check_position(&cursor, records, (place < records.len()).then_some(place));
        }
        cursor.seek(key).unwrap();
        check_position(&cursor, records, (place < records.len()).then_some(place));
        let zigzag = [1, 1, -1, 1, 1, 1, -1, -1, -1, -1, -1, 1, 1];
        let mut place = place as isize;
        for step in zigzag {
            if !cursor.valid() {
                break;
            }
            place += step;
            if step > 0 {
                cursor.next().unwrap()
            } else {
                cursor.prev().unwrap()
            }
            let expected = usize::try_from(place)
                .ok()
                .filter(|&place| place < records.len());
            check_position(&cursor, records, expected);
        }
    }
}

/// Every record's key is reported with a block in which it is found.
fn check_hashes(table: &Table, records: &[Record]) {
    let mut reported = Vec::new();
    table
        .for_each_hash(&mut |hash, block| reported.push((hash, block)))
        .unwrap();
    assert!(
        reported
            .windows(2)
            .all(|pair| pair[0].1 <= pair[1].1 && pair[0] != pair[1])
    );
    for record in records {
        let hash = RamHash::of(&record.key);
        let found = reported
            .iter()
            .filter(|(found, _)| *found == hash)
            .any(|&(_, block)| {
                let found = table
                    .get_from_block(block, &record.key, record.version)
                    .unwrap();
                found.is_some_and(|found| found.version == record.version)
            });
        assert!(found, "{record:?} in none of its blocks");
    }
}

/// A keyed table names each key, and finds it by its name. If a key has more versions than a block
/// holds, no table is keyed.
fn check_keys(table: &Arc<Table>, records: &[Record], was_asked: bool) {
    let mut keys: Vec<&[u8]> = records.iter().map(|record| &record.key[..]).collect();
    keys.dedup();
    let fits = table.block_count() == keys.len();
    assert_eq!(table.is_keyed(), was_asked && fits);
    if !table.is_keyed() {
        return;
    }
    let mut cursor = TableCursor::new(Arc::clone(table), 2);
    let mut named = Vec::new();
    for (ordinal, key) in keys.into_iter().enumerate().rev() {
        table.key_of_block(ordinal, &mut named);
        assert_eq!(named, key);
        assert_eq!(table.first_block_at(key), ordinal);
        cursor.seek_block(ordinal, ordinal % 2 == 0).unwrap();
        let mut own = records.iter().filter(|record| record.key == key);
        assert_eq!(cursor.entry(), own.next().unwrap().entry());
        for record in own {
            assert!(cursor.next_in_block().unwrap());
            assert_eq!(cursor.entry(), record.entry());
        }
        assert!(!cursor.next_in_block().unwrap());
        assert!(!cursor.valid());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_table_answers_as_a_sorted_vector(
        records in records(),
        layout in layout(),
        is_keyed: bool,
        strangers in prop::collection::vec(key(), 0..12),
        readahead in 1usize..5,
        offset in 0usize..50,
    ) {
        let (bytes, meta) = build_keyed(&records, layout, is_keyed);
        let table = Arc::new(open_within(&bytes, offset).1.unwrap());
        check_keys(&table, &records, is_keyed);
        prop_assert_eq!(table.meta(), &meta);
        prop_assert_eq!(meta.entries as usize, records.len());
        let deletes = records.iter().filter(|record| record.kind == Kind::Delete).count();
        prop_assert_eq!(meta.deletes as usize, deletes);
        table.verify().unwrap();
        let mut probes: Vec<Vec<u8>> = records.iter().map(|record| record.key.clone()).collect();
        probes.extend(strangers);
        probes.dedup();
        for key in &probes {
            check_get(&table, &records, key, Version::MAX);
            check_get(&table, &records, key, Version::ZERO);
        }
        for record in &records {
            check_get(&table, &records, &record.key, record.version);
            check_get(&table, &records, &record.key, Version(record.version.0.wrapping_sub(1)));
        }
        check_hashes(&table, &records);
        check_cursor(&table, &records, &probes, readahead);
    }
}

/// All keys of an open keyed table are known, and a block is read only for its values.
#[test]
fn a_keyed_table_reads_nothing_for_its_keys_and_one_block_for_a_value() {
    let records = numbered(40);
    for codec in codecs() {
        let (bytes, _) = build_keyed(&records, options(4096, codec), true);
        let (file, table) = open_within(&bytes, 3);
        let table = Arc::new(table.unwrap());
        assert!(table.is_keyed());
        file.take_reads();
        let mut key = Vec::new();
        for (ordinal, record) in records.iter().enumerate() {
            table.key_of_block(ordinal, &mut key);
            assert_eq!(key, record.key);
        }
        assert_eq!(file.take_reads(), 0);
        let mut cursor = TableCursor::new(table, 1);
        cursor.seek_block(17, false).unwrap();
        assert_eq!(cursor.entry(), records[17].entry());
        assert_eq!(file.take_reads(), 1);
    }
}

fn numbered(count: u32) -> Vec<Record> {
    (0..count)
        .map(|n| Record::put(format!("user{n:08}").as_bytes(), 0, &[n as u8; 20]))
        .collect()
}

#[test]
fn a_get_is_one_read_and_a_seek_too() {
    for codec in codecs() {
        let records = numbered(2000);
        let (bytes, _) = build(&records, options(512, codec));
        let (file, table) = open_within(&bytes, 3);
        let table = Arc::new(table.unwrap());
        assert!(table.block_count() > 50);
        file.take_reads();
        for record in &records {
            assert!(table.get(&record.key, Version::MAX).unwrap().is_some());
            assert_eq!(file.take_reads(), 1);
            assert!(table.get(&record.key, Version::ZERO).unwrap().is_some());
            file.take_reads();
        }
        let mut cursor = TableCursor::new(table, 4);
        cursor.seek(b"user00001000x").unwrap();
        assert_eq!(cursor.entry().key, b"user00001001");
        assert!(file.take_reads() <= 2);
    }
}

/// A block of several records does not lie in two pages of the system's cache. So a page's border
/// costs one record a second page, and not all records of a block.
#[test]
fn a_page_border_costs_one_record_a_second_page() {
    const PAGE: u64 = 4096;
    for value_bytes in [20, 100, 300, 800, 1500, 3000] {
        let mut records = numbered(3000);
        for record in &mut records {
            record.value = vec![7; value_bytes];
        }
        let (bytes, _) = build(&records, options(PAGE as usize, Codec::None));
        let (file, table) = open_within(&bytes, 0);
        let table = table.unwrap();
        file.take_parts();
        let mut pages = 0;
        for record in &records {
            assert!(table.get(&record.key, Version::MAX).unwrap().is_some());
            let (parts, _) = file.take_parts();
            assert_eq!(parts.len(), 1);
            pages += (parts[0].end - 1) / PAGE - parts[0].start / PAGE + 1;
        }
        let most = records.len() as u64 + bytes.len() as u64 / PAGE;
        assert!(pages <= most, "{pages} pages, values of {value_bytes}");
        // Only a record that is larger than a page's rest makes a block of its own.
        let blocks = table.block_count() as u64;
        assert!(
            blocks <= 2 * (1 + bytes.len() as u64 / PAGE),
            "{blocks} blocks, values of {value_bytes}"
        );
    }
}

#[test]
fn a_small_table_is_read_by_its_opening_alone() {
    let records = numbered(100);
    let (bytes, _) = build(&records, options(512, Codec::None));
    assert!(bytes.len() < 16 << 10);
    let (file, table) = open_within(&bytes, 3);
    let table = Arc::new(table.unwrap());
    assert_eq!(file.take_reads(), 1);
    assert!(table.resident_bytes() > bytes.len() * 9 / 10);
    for record in &records {
        assert!(table.get(&record.key, Version::MAX).unwrap().is_some());
    }
    let mut cursor = TableCursor::new(table.clone(), 1);
    cursor.seek_first().unwrap();
    let mut steps = 0;
    while cursor.valid() {
        cursor.next().unwrap();
        steps += 1;
    }
    assert_eq!(steps, 100);
    table.verify().unwrap();
    assert_eq!(file.take_reads(), 0);
}

#[test]
fn a_scan_reads_ahead_in_both_directions() {
    for codec in codecs() {
        let (bytes, _) = build(&numbered(2000), options(512, codec));
        let (file, table) = open_within(&bytes, 0);
        let table = Arc::new(table.unwrap());
        let blocks = table.block_count();
        let mut cursor = TableCursor::new(table, 8);
        file.take_reads();
        cursor.seek_first().unwrap();
        let mut steps = 0;
        while cursor.valid() {
            cursor.next().unwrap();
            steps += 1;
        }
        assert_eq!(steps, 2000);
        assert_eq!(file.take_reads(), 1 + (blocks - 1).div_ceil(8));
        cursor.seek_last().unwrap();
        while cursor.valid() {
            cursor.prev().unwrap();
        }
        let reads = file.take_reads();
        assert!(
            reads <= 1 + (blocks - 1).div_ceil(8),
            "{reads} reads of {blocks} blocks"
        );
    }
}

#[test]
fn what_a_seek_reads_is_what_was_announced() {
    let (bytes, _) = build(&numbered(2000), options(512, Codec::None));
    let (file, table) = open_within(&bytes, 5);
    let table = Arc::new(table.unwrap());
    let keys = ["", "user00000000", "user00000999x", "user00001999", "zzz"];
    let keys = keys.iter().map(|key| key.as_bytes());
    for (key, count) in keys.flat_map(|key| [1, 3, 1000].map(|count| (key, count))) {
        for forward in [true, false] {
            let readahead = ReadAhead {
                seek: count,
                next: 1,
                max: count,
            };
            file.take_parts();
            let mut cursor = TableCursor::new(table.clone(), readahead);
            match forward {
                true => {
                    table.will_need_from(Some(key), count);
                    cursor.seek(key).unwrap();
                }
                false => {
                    table.will_need_before(Some(key), count);
                    cursor.seek_before(key).unwrap();
                }
            }
            let (read, hints) = file.take_parts();
            let case = format!(
                "{:?}, {count} blocks, forward: {forward}",
                key.escape_ascii()
            );
            if let Some(first) = read.first() {
                assert_eq!(hints, std::slice::from_ref(first), "{case}");
            } else {
                assert!(hints.is_empty(), "{case}: {hints:?}");
            }
        }
    }
    table.will_need_from(None, 1000);
    table.will_need_before(None, 1000);
    let (_, hints) = file.take_parts();
    assert_eq!(hints[0], hints[1], "all blocks");
    assert_eq!(hints[0].start, 5);
}

/// Stretches of a table follow on one another, and each block is announced once.
#[test]
fn stretches_cover_a_table() {
    let (bytes, _) = build(&numbered(2000), options(512, Codec::None));
    let (file, table) = open_within(&bytes, 5);
    let table = table.unwrap();
    table.will_need_between(None, None);
    let all = file.take_parts().1;
    let data_bytes = all[0].end - all[0].start;
    for stretch_bytes in [1, 5000, 1 << 30] {
        for forward in [true, false] {
            let mut at: Option<Vec<u8>> = None;
            let mut asked = 0;
            loop {
                let next = match forward {
                    true => table.stretch_end(at.as_deref(), stretch_bytes),
                    false => table.stretch_begin(at.as_deref(), stretch_bytes),
                };
                let (low, high) = match forward {
                    true => (at.as_deref(), next.as_deref()),
                    false => (next.as_deref(), at.as_deref()),
                };
                assert!(low.zip(high).is_none_or(|(low, high)| low < high));
                let bytes = table.will_need_between(low, high);
                assert!(bytes >= stretch_bytes || next.is_none());
                assert!(bytes < stretch_bytes.saturating_add(1024));
                asked += bytes;
                at = next;
                if at.is_none() {
                    break;
                }
            }
            let hints = file.take_parts().1;
            assert_eq!(asked, data_bytes);
            assert_eq!(hints.len() == 1, stretch_bytes == 1 << 30);
            let mut starts: Vec<u64> = hints.iter().map(|hint| hint.start).collect();
            starts.sort_unstable();
            starts.dedup();
            assert_eq!(starts.len(), hints.len(), "each once");
        }
    }
    // A key within a block: the block is reached from both sides.
    let within = b"user00001000x".as_slice();
    table.will_need_between(Some(within), None);
    table.will_need_between(None, Some(within));
    let hints = file.take_parts().1;
    assert!(hints[0].start < hints[1].end);
    assert_eq!(table.will_need_between(Some(b"zzz"), None), 0);
    assert_eq!(table.stretch_end(Some(b"zzz"), 1), None);
}

#[test]
fn a_long_scan_announces_each_window_before_it_reads_it() {
    let (bytes, _) = build(&numbered(2000), options(512, Codec::None));
    let (file, table) = open_within(&bytes, 5);
    let table = Arc::new(table.unwrap());
    for forward in [true, false] {
        file.take_parts();
        let mut cursor = TableCursor::new(table.clone(), 8);
        match forward {
            true => cursor.seek_first().unwrap(),
            false => cursor.seek_last().unwrap(),
        }
        while cursor.valid() {
            match forward {
                true => cursor.next().unwrap(),
                false => cursor.prev().unwrap(),
            }
        }
        let (reads, hints) = file.take_parts();
        assert!(reads.len() > 5, "{reads:?}");
        // Neither the block that the seek read, nor the two windows that are read before the scan
        // counts as long.
        assert_eq!(hints, reads[3..], "forward: {forward}");
    }
    // A short scan announces nothing.
    let mut cursor = TableCursor::new(table, 8);
    cursor.seek(b"user00000100").unwrap();
    (0..20).for_each(|_| cursor.next().unwrap());
    let (_, hints) = file.take_parts();
    assert!(hints.is_empty(), "{hints:?}");
}

#[test]
fn opening_a_small_table_is_one_read_and_a_large_one_two() {
    for (count, reads) in [(10, 1), (20_000, 2)] {
        let (bytes, _) = build(&numbered(count), options(512, Codec::None));
        let (file, table) = open_within(&bytes, 0);
        assert!(table.unwrap().resident_bytes() > 0);
        assert_eq!(file.take_reads(), reads);
    }
}

#[test]
fn lz4_shrinks_and_incompressible_blocks_stay() {
    let (plain, _) = build(&numbered(500), options(1024, Codec::None));
    let (packed, _) = build(&numbered(500), options(1024, Codec::Lz4));
    assert!(
        packed.len() * 2 < plain.len() + 2000,
        "{} of {}",
        packed.len(),
        plain.len()
    );
}

#[test]
fn a_record_larger_than_a_block_has_its_own() {
    let mut records = numbered(3);
    records[1].value = vec![9; 3 << 20];
    let (bytes, _) = build(&records, options(4096, Codec::None));
    let table = Arc::new(open_within(&bytes, 0).1.unwrap());
    assert_eq!(table.block_count(), 3);
    check_get(&table, &records, &records[1].key, Version::MAX);
    check_cursor(&table, &records, &[records[1].key.clone()], 8);
}

#[test]
fn an_empty_table_is_a_table() {
    let (bytes, meta) = build(&[], options(4096, Codec::None));
    let table = Arc::new(open_within(&bytes, 0).1.unwrap());
    assert_eq!((table.meta(), table.block_count()), (&meta, 0));
    table.verify().unwrap();
    check_get(&table, &[], b"", Version::MAX);
    check_cursor(&table, &[], &[b"".to_vec(), b"x".to_vec()], 2);
}

#[test]
#[should_panic(expected = "out of order")]
fn records_out_of_order_are_refused() {
    build(
        &[Record::put(b"b", 0, b""), Record::put(b"a", 0, b"")],
        options(4096, Codec::None),
    );
}

#[test]
#[should_panic(expected = "out of order")]
fn a_record_twice_is_refused() {
    build(
        &[Record::put(b"b", 4, b""), Record::delete(b"b", 4)],
        options(4096, Codec::None),
    );
}
