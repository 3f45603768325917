//! RocksDB's query traces, which have no checksums: records before the damage are given as they
//! were written, and the rest ends.

use crate::making::{RocksDb, bytes as with_len, some_trace};
use crate::random::Random;
use crate::{MEMORY, import, peak_of, trials};
use evendb_trace::formats::Format;
use evendb_trace::{ErrorKind, Operation};
use std::sync::LazyLock;

/// A good trace, and where each of its records begins.
struct Good {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

fn starts(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut starts) = (0, Vec::new());
    while at < bytes.len() {
        starts.push(at);
        at += 13 + u32::from_le_bytes(bytes[at + 9..at + 13].try_into().unwrap()) as usize;
    }
    starts
}

static GOOD: LazyLock<Vec<Good>> = LazyLock::new(|| {
    let mut random = Random::new(11);
    let mut all = vec![some_trace(1), some_trace(2)];
    for version in [1, 2, 2, 2] {
        let mut trace = RocksDb::new(version);
        for _ in 0..random.below(30) {
            let len = random.below(20);
            let key = random.bytes(len);
            match random.below(4) {
                0 => trace.get(random.below(3) as u32, &key),
                1 => trace.seek(5 + random.below(2) as u8, &key, None),
                2 if version > 1 => trace.multi_get(&[&key, b"k", b""]),
                _ => {
                    let count = random.below(5);
                    let mut records = Vec::new();
                    for _ in 0..count {
                        let tag = [0, 1, 2, 7, 0xf][random.below(5)];
                        records.push(tag);
                        with_len(&mut records, &key);
                        if matches!(tag, 1 | 2 | 0xf) {
                            with_len(&mut records, b"value");
                        }
                    }
                    trace.write(count as u32, &records);
                }
            }
        }
        trace.record(2, b"");
        all.push(trace.out);
    }
    let good = all.into_iter().map(|bytes| Good {
        starts: starts(&bytes),
        bytes,
    });
    good.collect()
});

/// The operations of a trace, or of its beginning.
fn operations(bytes: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    import(Format::RocksDb, bytes, &mut |one| {
        operations.push(one.clone())
    })
    .unwrap();
    operations
}

/// Damages a record's head: its time, its type or its length.
fn damage_head(random: &mut Random, good: &Good, bytes: &mut [u8]) -> usize {
    let at = good.starts[random.below(good.starts.len())];
    match random.below(3) {
        0 => bytes[at..at + 8].copy_from_slice(&random.absurd().to_le_bytes()),
        1 => bytes[at + 8] = random.next() as u8 % 20,
        _ => bytes[at + 9..at + 13].copy_from_slice(&(random.absurd() as u32).to_le_bytes()),
    }
    at
}

#[test]
fn damaged_traces_give_what_comes_before_and_end() {
    trials(|random| {
        let good = &GOOD[random.below(GOOD.len())];
        let mut bytes = good.bytes.clone();
        let mut first = usize::MAX;
        for _ in 0..1 + random.below(3) {
            let at = match random.one_in(3) && bytes.len() == good.bytes.len() {
                true => damage_head(random, good, &mut bytes),
                false => random.damage(&mut bytes),
            };
            first = first.min(at);
        }
        let (mut given, mut last, mut back) = (0, 0, 0);
        let mut keys = 0;
        let (imported, peak) = peak_of(|| {
            import(Format::RocksDb, &bytes, &mut |operation| {
                given += 1;
                keys += operation.key.len();
                back += u64::from(operation.start_nanos < last);
                last = operation.start_nanos;
            })
        });
        assert!(peak < MEMORY + 4 * bytes.len(), "{peak} bytes of memory");
        let imported = match imported {
            Ok(imported) => imported,
            Err(error) => {
                assert!(matches!(
                    error.kind(),
                    ErrorKind::NotATrace | ErrorKind::UnsupportedVersion
                ));
                assert!(first < good.starts[1], "the beginning is whole");
                return;
            }
        };
        assert!(imported.times_back >= u64::from(back > 0));
        if first < good.starts[1] {
            return;
        }
        // Records that are whole before the first damage are given as they were.
        let whole = good.starts.iter().filter(|start| **start <= first).max();
        let before = operations(&good.bytes[..*whole.unwrap()]);
        let mut rest = before.iter();
        import(Format::RocksDb, &bytes, &mut |operation| {
            if let Some(expected) = rest.next() {
                assert_eq!(operation, expected);
            }
        })
        .unwrap();
        assert!(
            rest.next().is_none(),
            "what came before the damage is given"
        );
    });
}

/// A cut file is told as cut, at any place.
#[test]
fn a_cut_is_told() {
    for good in GOOD.iter() {
        for len in good.starts[1]..good.bytes.len() {
            let imported = import(Format::RocksDb, &good.bytes[..len], &mut |_| {}).unwrap();
            assert!(
                imported.is_torn && imported.bad == 0,
                "cut at {len}: {imported:?}"
            );
        }
        let whole = import(Format::RocksDb, &good.bytes, &mut |_| {}).unwrap();
        assert!(!whole.is_torn);
    }
}
