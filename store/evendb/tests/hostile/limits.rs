//! The largest keys, values and batches, and those that are one byte larger.

use crate::common::{self, DIR, on_sim};
use crate::kind_of;
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, ErrorKind};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn keys_at_the_limits() {
    for level in common::LEVELS {
        let vfs = SimVfs::new(1);
        let mut db = on_sim(&vfs, level, 0).open(DIR).expect("opens");
        let longest = vec![b'x'; 65_535];
        let too_long = vec![b'x'; 65_536];
        for round in 0..2 {
            db.put("", format!("empty {round}")).expect("puts");
            db.put(&longest, format!("longest {round}")).expect("puts");
            assert_eq!(kind_of(db.put(&too_long, "")), Some(ErrorKind::KeyTooLarge));
            assert_eq!(kind_of(db.delete(&too_long)), Some(ErrorKind::KeyTooLarge));
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), "half", "a batch");
            batch.put(db.default_keyspace(), &too_long, "");
            assert_eq!(kind_of(batch.commit()), Some(ErrorKind::KeyTooLarge));
            assert_eq!(db.get(&too_long).expect("is only not there"), None);
            db.settle_debt().expect("settles");
            db.close().expect("closes");
            db = on_sim(&vfs, level, 0).open(DIR).expect("opens");
            let keys: Vec<_> = db
                .iter()
                .map(|item| item.expect("reads").0.to_vec())
                .collect();
            assert_eq!(keys, [vec![], longest.clone()]);
            let value = db.get(&longest).expect("gets").expect("is there");
            assert_eq!(&*value, format!("longest {round}").as_bytes());
        }
    }
}

#[test]
fn values_at_the_limits() {
    let vfs = SimVfs::new(1);
    let huge = vec![b'h'; 5 << 20];
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    db.put("none", "").expect("puts");
    assert_eq!(
        kind_of(db.put("huge", &huge)),
        Some(ErrorKind::ValueTooLarge)
    );
    let mut batch = db.batch();
    for number in 0..270 {
        batch.put(
            db.default_keyspace(),
            format!("part {number}"),
            vec![0; 250_000],
        );
    }
    assert_eq!(kind_of(batch.commit()), Some(ErrorKind::BatchTooLarge));
    assert_eq!(db.iter().count(), 1, "nothing of what was refused");
    db.close().expect("closes");
    // With more memory it fits, though not into the commit log.
    let large = || on_sim(&vfs, Durability::Process, 0).memory_budget(64 << 20);
    let db = large().open(DIR).expect("opens");
    db.put("huge", &huge).expect("puts");
    let names = vfs.file_names(Path::new(DIR));
    assert!(names.iter().any(|name| name.ends_with(".val")), "{names:?}");
    let machine = vfs.crash(evendb::vfs::CrashMode::Process);
    drop(db);
    for _ in 0..2 {
        let vfs = machine.clone();
        let options = on_sim(&vfs, Durability::Process, 0).memory_budget(64 << 20);
        let db = options.open(DIR).expect("opens");
        assert_eq!(db.get("huge").expect("gets").as_deref(), Some(&huge[..]));
        assert_eq!(db.get("none").expect("gets").as_deref(), Some(&b""[..]));
        db.settle_debt().expect("settles");
        assert_eq!(db.get("huge").expect("gets").as_deref(), Some(&huge[..]));
        db.close().expect("closes");
    }
    let names = machine.file_names(Path::new(DIR));
    assert!(
        !names.iter().any(|name| name.ends_with(".val")),
        "{names:?}"
    );
}

/// The bytes that each record counts beside its key and value.
const COUNTED: usize = 64;

/// The writes that are refused, and the largest ones: keys with the lengths of their values.
type Writes = Vec<(String, usize)>;

fn commit(db: &Db, writes: &Writes, byte: u8) -> evendb::Result<()> {
    let mut batch = db.batch();
    for (key, len) in writes {
        batch.put(db.default_keyspace(), key, vec![byte; *len]);
    }
    batch.commit()
}

/// Batches that count exactly `counted`: one of many equal records and a last one that fills it up,
/// and, where a record may have half of all, one of two records, and one of tiny records and a
/// large one.
fn batches_of(counted: usize, value_max: usize) -> Vec<Writes> {
    let many = |number: usize, len: usize| {
        let key = |at: usize| format!("many{at:06}");
        let mut writes: Writes = (1..number).map(|at| (key(at), len)).collect();
        let used = (number - 1) * (key(0).len() + len + COUNTED);
        writes.push((key(0), counted - used - key(0).len() - COUNTED));
        writes
    };
    if value_max < counted / 2 {
        let number = counted / value_max * 2;
        return vec![many(number, counted / number - 100)];
    }
    vec![
        many(100, counted / 100 - 200),
        many(2, counted / 2),
        many(counted / 200, 1),
    ]
}

/// A quarter of the budget is the most that keeps within it, and 64 budgets are the most of all.
const BUDGETS: usize = 64;

#[test]
fn the_largest_writes_are_accepted_and_one_byte_more_is_refused() {
    let longest_key = "k".repeat(65_535);
    for budget in [1 << 20, (1 << 20) + 12_345, 8 << 20, 24 << 20] {
        for (level, workers) in [
            (Durability::Relaxed, 0),
            (Durability::Process, 1),
            (Durability::Sync, 0),
        ] {
            let vfs = SimVfs::new(1);
            let open = || {
                let options = on_sim(&vfs, level, workers);
                options.memory_budget(budget).open(DIR).expect("opens")
            };
            let db = open();
            let counted = budget as usize / 4;
            let largest = counted - COUNTED;
            let mut expected: BTreeMap<String, (u8, usize)> = BTreeMap::new();
            for (number, key) in ["", "key", &longest_key].into_iter().enumerate() {
                let (value, byte) = (largest - key.len(), number as u8);
                let too_large = vec![0; value + 1];
                let mut batch = db.batch();
                batch.put(db.default_keyspace(), key, &too_large);
                for refused in [db.put(key, &too_large), batch.commit()] {
                    let error = refused.expect_err("one byte too many");
                    assert_eq!(error.kind(), ErrorKind::ValueTooLarge, "{error}");
                    let text = error.to_string();
                    assert!(text.contains(&format!(" {largest},")), "{text}");
                    assert!(text.contains(&format!(" {} bytes", value + 1)), "{text}");
                }
                db.put(key, vec![9; value]).expect("the largest value");
                let alone = vec![(key.to_owned(), value)];
                commit(&db, &alone, byte).expect("the largest alone in a batch");
                expected.insert(key.to_owned(), (byte, value));
            }
            let most = BUDGETS * budget as usize;
            // Once in the file, because it takes its time.
            let has_most = budget == 1 << 20 && level == Durability::Process;
            let of_most = if has_most {
                batches_of(most, largest)
            } else {
                Vec::new()
            };
            for (number, mut writes) in batches_of(counted, largest).into_iter().enumerate() {
                let byte = 10 + number as u8;
                // A longer value of a key that is written again does not count.
                writes.insert(0, (writes[0].0.clone(), largest / 2));
                // One byte more than a quarter is let in alone.
                for more in [0, 1] {
                    writes.last_mut().expect("one").1 += more;
                    commit(&db, &writes, byte).expect("a batch about a quarter");
                }
                expected.extend(writes.into_iter().map(|(key, len)| (key, (byte, len))));
            }
            for mut writes in of_most {
                writes.last_mut().expect("one").1 += 1;
                let error = commit(&db, &writes, 0).expect_err("one byte too many");
                assert_eq!(error.kind(), ErrorKind::BatchTooLarge, "{error}");
                let text = error.to_string();
                assert!(
                    text.contains(&format!("; {most}, {BUDGETS} times")),
                    "{text}"
                );
                assert!(text.contains(&format!(" {} bytes", most + 1)), "{text}");
                writes.last_mut().expect("one").1 -= 1;
                commit(&db, &writes, 20).expect("the largest batch");
                expected.extend(writes.into_iter().map(|(key, len)| (key, (20, len))));
            }
            db.close().expect("closes");
            let db = open();
            let held: BTreeMap<_, _> = db
                .iter()
                .map(|item| {
                    let (key, value) = item.expect("reads");
                    let byte = value.first().copied().unwrap_or(0);
                    assert!(value.iter().all(|&other| other == byte));
                    let key = String::from_utf8(key.to_vec()).expect("text");
                    (key, (byte, value.len()))
                })
                .collect();
            assert!(
                held == expected,
                "budget {budget}, {level:?}: other records than put"
            );
            db.close().expect("closes");
        }
    }
}
