//! Gets of a part of a value, records into a caller's buffer, and numbers of records that are
//! estimated without reading.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]
#![expect(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::{DIR, on_sim};
use evendb::vfs::SimVfs;
use evendb::{Cursor, Db, Durability, ErrorKind, KeyspaceOptions, Merges, Options, Rest, Value};
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::ops::Range;

/// Counts the allocations of the thread that asks for it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: each call is handed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(memory) }
    }
    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn options(vfs: &SimVfs) -> Options {
    on_sim(vfs, Durability::Process, 0)
}

fn bytes(value: Option<Value>) -> Option<Vec<u8>> {
    value.map(|value| value.to_vec())
}

/// Different bytes all over.
fn long_value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

const PARTS: [Range<u64>; 12] = [
    0..0,
    0..1,
    0..4,
    3..9,
    0..u64::MAX,
    4096..4200,
    262_140..262_150,
    299_999..300_000,
    300_000..300_001,
    u64::MAX - 1..u64::MAX,
    9..u64::MAX,
    #[expect(clippy::reversed_empty_ranges, reason = "an inverted part is empty")]
    {
        9..3
    },
];

/// What a part of these bytes is: the ends are cut as slices would have to be.
fn cut(value: &[u8], part: &Range<u64>) -> Vec<u8> {
    let end = (part.end).min(value.len() as u64) as usize;
    let start = (part.start).min(end as u64) as usize;
    value[start..end].to_vec()
}

/// Values in memory, in tables, apart, expiring, and made of operands.
#[test]
fn a_part_is_what_a_slice_of_the_value_would_be() {
    let vfs = SimVfs::new(1);
    let open = || {
        let options = options(&vfs).memory_budget(8 << 20);
        options.advanced(|all| all.chunk_bytes(64 << 10)).open(DIR)
    };
    let db = open().unwrap();
    let inside = db.keyspace("inside").unwrap();
    let apart = KeyspaceOptions::new().values_apart_from(100);
    let apart = db.keyspace_with("apart", &apart).unwrap();
    let appending = KeyspaceOptions::new().merge_operator(Merges::Append);
    let appending = db
        .keyspace_with("appending", &appending.values_apart_from(100))
        .unwrap();
    let lens = [0, 1, 5, 4095, 4097, 70_000, 300_000];
    let values = lens.map(long_value);
    for value in &values {
        let (key, len) = (format!("{:06}", value.len()), value.len());
        inside.put(&key, value).unwrap();
        apart.put(&key, value).unwrap();
        let (front, back) = value.split_at(len / 2);
        appending.put(&key, front).unwrap();
        appending.merge(&key, back).unwrap();
    }
    for keyspace in [&inside, &apart] {
        let ttl = std::time::Duration::from_secs(1000);
        keyspace
            .put_with_ttl("until", long_value(5000), ttl)
            .unwrap();
    }
    let mut db = db;
    for round in ["in memory", "on disk", "opened again"] {
        let snapshot = db.snapshot().unwrap();
        for name in ["inside", "apart", "appending"] {
            let keyspace = db.keyspace(name).unwrap();
            for part in PARTS {
                for value in &values {
                    let (key, len) = (format!("{:06}", value.len()), value.len());
                    let expected = Some(cut(value, &part));
                    let place = format!("{round}, {name}, {len}, {part:?}");
                    let got = bytes(keyspace.get_part(&key, part.clone()).unwrap());
                    assert!(got == expected, "{place}");
                    let got = snapshot.get_part(&keyspace, &key, part.clone()).unwrap();
                    assert!(bytes(got) == expected, "{place}");
                }
                assert!(keyspace.get_part("gone", part.clone()).unwrap().is_none());
                if name != "appending" {
                    let got = keyspace.get_part("until", part.clone()).unwrap();
                    assert_eq!(bytes(got), Some(cut(&long_value(5000), &part)));
                }
            }
        }
        drop(snapshot);
        db.flush().unwrap();
        if round == "on disk" {
            db.close().unwrap();
            db = open().unwrap();
        }
    }
}

#[test]
fn a_part_of_an_expired_value_is_none() {
    let vfs = SimVfs::new(2);
    let db = options(&vfs).open(DIR).unwrap();
    let ttl = std::time::Duration::ZERO;
    db.default_keyspace()
        .put_with_ttl("k", "value", ttl)
        .unwrap();
    assert!(db.get_part("k", 0..1).unwrap().is_none());
}

/// A value that lies apart has one checksum: a wrong byte anywhere is told, in whatever part.
#[test]
fn damage_outside_of_the_part_is_told() {
    let vfs = SimVfs::new(3);
    let apart = |options: Options| options.advanced(|all| all.values_apart_from(Some(1000)));
    let db = apart(options(&vfs))
        .memory_budget(8 << 20)
        .open(DIR)
        .unwrap();
    db.put("k", long_value(600_000)).unwrap();
    db.close().unwrap();
    let dir = std::path::Path::new(DIR);
    let names = vfs.file_names(dir);
    let file = names.iter().find(|name| name.ends_with(".values")).unwrap();
    let mut contents = vfs.read_file(&dir.join(file));
    let at = contents.len() - 10;
    contents[at] ^= 1;
    vfs.write_file(&dir.join(file), contents);
    let db = apart(options(&vfs))
        .memory_budget(8 << 20)
        .open(DIR)
        .unwrap();
    let refused = db.get_part("k", 0..4).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(refused.to_string().contains(".values"), "{refused}");
}

/// A short part does not keep a long value in memory.
#[test]
fn a_short_part_has_its_own_bytes() {
    let vfs = SimVfs::new(4);
    let db = options(&vfs).memory_budget(16 << 20).open(DIR).unwrap();
    let whole = long_value(1 << 20);
    db.put("k", &whole).unwrap();
    let part = db.get_part("k", 1000..1016).unwrap().unwrap();
    let value = db.get("k").unwrap().unwrap();
    let (of_part, of_value) = (part.as_ptr() as usize, value.as_ptr() as usize);
    assert_eq!(part, whole[1000..1016]);
    assert!(
        of_part < of_value || of_part >= of_value + value.len(),
        "it shares them"
    );
    // A long one shares them.
    let part = db.get_part("k", 16..1 << 20).unwrap().unwrap();
    assert_eq!(part.as_ptr() as usize, of_value + 16);
}

type Pair = (Vec<u8>, Vec<u8>);

/// All that is left of a cursor, by buffers of this length.
fn filled(cursor: &mut Cursor, len: usize, most: usize) -> Vec<Pair> {
    let mut buffer = vec![0; len];
    let mut found = Vec::new();
    loop {
        let filled = cursor.fill(&mut buffer, most).unwrap();
        let before = found.len();
        let pairs = filled.pairs(&buffer);
        found.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
        assert_eq!(found.len() - before, filled.records);
        let bytes: usize = found[before..]
            .iter()
            .map(|(key, value)| 8 + key.len() + value.len())
            .sum();
        assert_eq!(bytes, filled.bytes);
        assert!(filled.records <= most);
        match filled.rest {
            Rest::Nothing => return found,
            Rest::More => assert!(filled.records > 0),
            Rest::Needs(bytes) => {
                assert_eq!((filled.records, filled.bytes), (0, 0));
                assert!(bytes > buffer.len());
                // The cursor stays before it: a buffer of just that length takes it.
                buffer.resize(bytes, 0);
                let one = cursor.fill(&mut buffer, most).unwrap();
                assert_eq!((one.records, one.bytes), (1, bytes));
                found.extend(
                    one.pairs(&buffer)
                        .next()
                        .map(|(key, value)| (key.to_vec(), value.to_vec())),
                );
                buffer.truncate(len);
                if one.rest == Rest::Nothing {
                    return found;
                }
            }
        }
    }
}

/// A database with records in memory, in logs and in tables, some of them apart, overwritten and
/// deleted.
fn mixed(vfs: &SimVfs) -> (Db, Vec<Pair>) {
    let options = options(vfs).advanced(|all| all.values_apart_from(Some(300)));
    let db = options.open(DIR).unwrap();
    for round in 0..3usize {
        for number in 0..150usize {
            let len = [0, 3, 40, 299, 300, 900][(number + round) % 6];
            if number % 3 >= round {
                let key = format!("{number:04}");
                db.put(&key, &long_value(len)[..]).unwrap();
            }
            if number % 7 == round {
                db.delete(format!("{number:04}")).unwrap();
            }
        }
        if round < 2 {
            db.flush().unwrap();
        }
    }
    let expected = db.iter().map(|item| {
        let (key, value) = item.unwrap();
        (key.to_vec(), value.to_vec())
    });
    let expected = expected.collect();
    (db, expected)
}

#[test]
fn a_buffer_has_the_records_that_next_gives() {
    let vfs = SimVfs::new(5);
    let (db, expected) = mixed(&vfs);
    assert!(expected.len() > 80, "{}", expected.len());
    for len in [0, 8, 12, 100, 1000, 100_000] {
        for most in [1, 7, usize::MAX] {
            let mut cursor = db.cursor::<&str>(..);
            assert!(filled(&mut cursor, len, most) == expected, "{len} {most}");
            // It is at the end, and stays there.
            let again = cursor.fill(&mut [0; 10], 5).unwrap();
            assert_eq!((again.records, again.rest), (0, Rest::Nothing));
            assert!(cursor.next().unwrap().is_none());
        }
    }
    let mut nothing = db.cursor("x".."a");
    assert_eq!(nothing.fill(&mut [0; 10], 5).unwrap().rest, Rest::Nothing);
    // No record is asked for, and none is looked at.
    let none = db.cursor::<&str>(..).fill(&mut [], 0).unwrap();
    assert_eq!((none.records, none.rest), (0, Rest::More));
}

#[test]
fn fill_goes_with_next_next_back_and_seek() {
    let vfs = SimVfs::new(6);
    let (db, expected) = mixed(&vfs);
    let mut cursor = db.cursor::<&str>(..);
    let own = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    let mut found = vec![own(cursor.next().unwrap().unwrap())];
    let mut from_end = vec![own(cursor.next_back().unwrap().unwrap())];
    let mut buffer = [0; 5000];
    let some = cursor.fill(&mut buffer, 3).unwrap();
    assert_eq!((some.records, some.rest), (3, Rest::More));
    found.extend(some.pairs(&buffer).map(own));
    found.push(own(cursor.next().unwrap().unwrap()));
    from_end.push(own(cursor.next_back().unwrap().unwrap()));
    // It ends where the other end is.
    found.extend(filled(&mut cursor, 700, 9));
    found.extend(from_end.into_iter().rev());
    assert!(found == expected);
    cursor.seek(&expected[10].0);
    cursor.seek_back(&expected[20].0);
    assert!(filled(&mut cursor, 2000, 4) == expected[10..=20]);
}

#[test]
fn a_record_that_does_not_fit_can_be_passed_over() {
    let vfs = SimVfs::new(7);
    for apart in [None, Some(50)] {
        let name = format!("{DIR}-{apart:?}");
        let options = options(&vfs).advanced(|all| all.values_apart_from(apart));
        let db = options.open(&name).unwrap();
        db.put("a", "1").unwrap();
        db.put("b", long_value(100)).unwrap();
        db.put("c", "3").unwrap();
        let mut cursor = db.cursor::<&str>(..);
        let mut buffer = [0; 50];
        let filled = cursor.fill(&mut buffer, 9).unwrap();
        assert_eq!((filled.records, filled.rest), (1, Rest::More));
        for _ in 0..2 {
            let filled = cursor.fill(&mut buffer, 9).unwrap();
            assert_eq!((filled.records, filled.rest), (0, Rest::Needs(8 + 1 + 100)));
        }
        assert_eq!(cursor.next().unwrap().unwrap().0, b"b");
        let filled = cursor.fill(&mut buffer, 9).unwrap();
        assert_eq!((filled.records, filled.rest), (1, Rest::Nothing));
        assert_eq!(&buffer[..filled.bytes], b"\x01\0\0\0\x01\0\0\0c3");
    }
}

/// Other bytes than those of the call give no record that is not in them.
#[test]
fn pairs_of_other_bytes_end() {
    let vfs = SimVfs::new(8);
    let (db, _) = mixed(&vfs);
    let mut buffer = [0; 5000];
    let filled = db.cursor::<&str>(..).fill(&mut buffer, 9).unwrap();
    assert_eq!(filled.pairs(&[]).count(), 0);
    assert_eq!(filled.pairs(&[0xff; 5000]).count(), 0);
    assert_eq!(filled.pairs(&buffer).count(), 9);
}

/// Records before damage are given, and then the error, again and again.
#[test]
fn records_before_a_failure_are_given_first() {
    let vfs = SimVfs::new(9);
    let db = options(&vfs).open(DIR).unwrap();
    db.put("a", "1").unwrap();
    let mut cursor = db.cursor::<&str>(..);
    let mut buffer = [0; 100];
    assert_eq!(cursor.fill(&mut buffer, 1).unwrap().records, 1);
    db.clone().close().unwrap();
    let mut late = db.cursor::<&str>(..);
    for _ in 0..2 {
        let refused = late.fill(&mut buffer, 9).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
    }
}

#[test]
fn nothing_is_allocated_for_a_record() {
    let vfs = SimVfs::new(10);
    let options = options(&vfs).memory_budget(32 << 20);
    let db = options
        .advanced(|all| all.chunk_bytes(1 << 20))
        .open(DIR)
        .unwrap();
    const RECORDS: u64 = 4000;
    for number in 0..RECORDS {
        db.put(format!("{number:06}"), [7; 100]).unwrap();
    }
    for place in ["in memory", "in a log or a table"] {
        let mut buffer = vec![0; 64 << 10];
        let mut cursor = db.cursor::<&str>(..);
        let before = ALLOCATIONS.with(Cell::get);
        let (mut records, mut calls) = (0, 0);
        while records < RECORDS {
            calls += 1;
            records += cursor.fill(&mut buffer, usize::MAX).unwrap().records as u64;
        }
        let allocations = ALLOCATIONS.with(Cell::get) - before;
        assert!(
            allocations < RECORDS / 4,
            "{place}: {allocations} in {calls} calls"
        );
        db.flush().unwrap();
    }
}

/// See tests/range_size.rs for the errors of estimates.
#[test]
fn numbers_of_records_are_told_without_reading_data() {
    let vfs = SimVfs::new(11);
    let db = options(&vfs).open(DIR).unwrap();
    for number in 0..2000 {
        db.put(format!("{number:05}"), "v").unwrap();
    }
    db.compact().unwrap();
    let reads = db.stats().block_reads;
    assert_eq!(db.approximate_len::<&str>(..).unwrap(), 2000);
    let keyspace = db.default_keyspace();
    let some = keyspace.approximate_len("00500".."01500").unwrap();
    // Each end may be off by a block of 256 bytes.
    assert!(some.abs_diff(1000) <= 2 * 256 / 6, "{some}");
    let some = keyspace.approximate_len_of_prefix("01").unwrap();
    assert!(some.abs_diff(1000) <= 2 * 256 / 6, "{some}");
    assert_eq!(keyspace.approximate_len("x".."a").unwrap(), 0);
    assert_eq!(db.stats().block_reads, reads);
}
