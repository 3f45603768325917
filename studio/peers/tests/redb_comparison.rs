//! What redb's program of comparisons asks of EvenDB, in small: each call gives what a map gives,
//! for both layouts, and a write transaction is all or nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use evendb::Layout;
use evendb_peers::redb_comparison::{Connection, Database, Inserter, Refusal};

const BUDGET: u64 = 64 << 20;
const KEY_BYTES: usize = 24;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(directory: &Path, layout: Layout) -> Database {
    Database::open(directory, layout, BUDGET).expect("an open database")
}

fn with_both_layouts(test: impl Fn(Layout, &mut Database)) {
    for layout in [Layout::Chunks, Layout::Guards] {
        let directory = tempfile::tempdir().expect("a directory");
        test(layout, &mut open(directory.path(), layout));
    }
}

/// Pairs as the program's: keys in no order, each once.
fn pairs(from: u64, count: u64) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (from..from + count).map(|number| {
        let mut key = vec![0; KEY_BYTES];
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        key[..8].copy_from_slice(&mixed.to_be_bytes());
        key[16..].copy_from_slice(&number.to_be_bytes());
        (key, format!("{number:->150}").into_bytes())
    })
}

/// One transaction, committed.
fn write<T>(connection: Connection<'_>, body: impl FnOnce(&mut Inserter<'_, '_>) -> T) -> T {
    let mut transaction = connection.write_transaction().expect("a transaction");
    let done = body(&mut transaction.get_inserter());
    transaction.commit().expect("a commit");
    done
}

fn insert(connection: Connection<'_>, model: &mut Model, from: u64, count: u64) {
    write(connection, |inserter| {
        for (key, value) in pairs(from, count) {
            inserter.insert(&key, &value).expect("an insert");
            model.insert(key, value);
        }
    });
}

fn records(connection: Connection<'_>, start: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let transaction = connection.read_transaction().expect("a transaction");
    let reader = transaction.get_reader();
    let mut cursor = reader.range_from(start);
    let mut all = Vec::new();
    while let Some((key, value)) = cursor.next().expect("a record") {
        all.push((key.to_vec(), value.to_vec()));
    }
    all
}

/// All reads that the program makes, compared with the map.
fn assert_is(connection: Connection<'_>, model: &Model) {
    let transaction = connection.read_transaction().expect("a transaction");
    let reader = transaction.get_reader();
    assert_eq!(reader.len().expect("a count"), model.len() as u64);
    for (key, value) in model.iter().step_by(7) {
        assert_eq!(reader.get(key).expect("a get").as_deref(), Some(&value[..]));
    }
    assert_eq!(reader.get(b"absent").expect("a get").as_deref(), None);
    for start in model.keys().step_by(97) {
        let from = model.range(start.clone()..).take(10);
        let from: Vec<_> = from
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(records(connection, start)[..from.len()], from);
    }
    assert!(records(connection, &[]).into_iter().eq(model.clone()));
}

#[test]
fn the_phases_of_the_program_leave_what_a_map_has() {
    with_both_layouts(|_, database| {
        let mut model = Model::new();
        {
            let mut connection = database.connect();
            insert(connection, &mut model, 0, 5_000);
            for number in 5_000..5_005 {
                insert(connection, &mut model, number, 1);
            }
            insert(connection, &mut model, 5_005, 100);
            connection.set_sync(false);
            for number in 5_105..5_200 {
                insert(connection, &mut model, number, 1);
            }
            connection.set_sync(true);
            assert_is(connection, &model);

            write(connection, |inserter| {
                for (key, _) in pairs(0, 2_600) {
                    inserter.remove(&key).expect("a removal");
                    model.remove(&key);
                }
            });
            assert_is(connection, &model);
            thin_out(connection, &mut model);
            assert_is(connection, &model);
            extract(connection, &mut model);
            assert_is(connection, &model);
            pop(connection, &mut model);
            assert_is(connection, &model);
        }
        database.compact().expect("a compaction");
        load_sorted(database.connect(), &mut model);
        assert_is(database.connect(), &model);
    });
}

fn thin_out(connection: Connection<'_>, model: &mut Model) {
    let keep_by_turns = |count: &mut u64| {
        *count += 1;
        !count.is_multiple_of(2)
    };
    let (mut asked, mut of_model) = (0, 0);
    let removed = write(connection, |inserter| {
        inserter
            .retain(|_, _| keep_by_turns(&mut asked))
            .expect("a scan")
    });
    let before = model.len();
    model.retain(|_, _| keep_by_turns(&mut of_model));
    assert_eq!(removed, (before - model.len()) as u64);
    assert!(removed > 1_000);
}

fn extract(connection: Connection<'_>, model: &mut Model) {
    let (low, high) = ([0x55; KEY_BYTES], [0xAA; KEY_BYTES]);
    let odd = |value: &[u8]| value.last().is_some_and(|last| last % 2 == 1);
    let range = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
    let taken: Vec<(Vec<u8>, Vec<u8>)> = write(connection, |inserter| {
        let taken = inserter.extract_if(range, |_, value| odd(value));
        let taken = taken.expect("a scan");
        taken
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    });
    let inside = |key: &[u8]| *key >= low[..] && *key < high[..];
    let expected: Vec<_> = model
        .iter()
        .filter(|(key, value)| inside(key) && odd(value))
        .collect();
    assert!(taken.iter().map(|(key, value)| (key, value)).eq(expected));
    assert!(taken.len() > 100);
    model.retain(|key, value| !(inside(key) && odd(value)));
}

/// Pops by turns from both ends, as the program, until puts of the same transaction have made new
/// first and last records; then until nothing is left but what the map has.
fn pop(connection: Connection<'_>, model: &mut Model) {
    write(connection, |inserter| {
        let pop_both = |inserter: &mut Inserter<'_, '_>, model: &mut Model, rounds: usize| {
            for _ in 0..rounds {
                let first = inserter.pop_first().expect("a pop").expect("a record");
                let expected = model.pop_first().expect("a record");
                assert_eq!((first.0.to_vec(), first.1.to_vec()), expected);
                let last = inserter.pop_last().expect("a pop").expect("a record");
                let expected = model.pop_last().expect("a record");
                assert_eq!((last.0.to_vec(), last.1.to_vec()), expected);
            }
        };
        pop_both(inserter, model, 200);
        // Below and above everything that is left, among keys that were popped.
        for key in [&[0; 3][..], &[0xFF; 3][..]] {
            inserter.insert(key, b"new").expect("an insert");
            model.insert(key.to_vec(), b"new".to_vec());
        }
        pop_both(inserter, model, 3);
    });
    assert!(!model.is_empty());
}

fn load_sorted(connection: Connection<'_>, model: &mut Model) {
    let sorted: Vec<_> = (0..1_000u64)
        .map(|number| {
            let mut key = vec![0xFF; KEY_BYTES + 8];
            key[KEY_BYTES..].copy_from_slice(&number.to_be_bytes());
            (key, format!("sorted {number}").into_bytes())
        })
        .collect();
    write(connection, |inserter| {
        let pairs = sorted.iter().map(|(key, value)| (&key[..], &value[..]));
        inserter.insert_sorted(pairs).expect("a load");
        // Nothing of it is seen before the commit.
        assert_eq!(records(connection, &[0xFF; KEY_BYTES]), []);
    });
    model.extend(sorted);
}

#[test]
fn pops_to_the_end_find_nothing_more() {
    with_both_layouts(|_, database| {
        let connection = database.connect();
        let mut model = Model::new();
        insert(connection, &mut model, 0, 3);
        write(connection, |inserter| {
            for _ in 0..3 {
                assert!(inserter.pop_last().expect("a pop").is_some());
            }
            assert!(inserter.pop_first().expect("a pop").is_none());
            assert!(inserter.pop_last().expect("a pop").is_none());
            inserter.insert(b"again", b"").expect("an insert");
            assert_eq!(
                inserter.pop_first().expect("a pop").expect("one").0,
                "again"
            );
        });
        assert_eq!(records(connection, &[]), []);
    });
}

#[test]
fn a_transaction_that_is_dropped_has_written_nothing() {
    with_both_layouts(|_, database| {
        let connection = database.connect();
        let mut transaction = connection.write_transaction().expect("a transaction");
        transaction
            .get_inserter()
            .insert(b"a", b"1")
            .expect("an insert");
        drop(transaction);
        let mut transaction = connection.write_transaction().expect("a transaction");
        let pairs = [(&b"b"[..], &b"2"[..])];
        let mut inserter = transaction.get_inserter();
        inserter.insert_sorted(pairs.into_iter()).expect("a load");
        drop(transaction);
        assert_eq!(records(connection, &[]), []);
    });
}

#[test]
fn sorted_pairs_behind_other_writes_are_part_of_the_transaction() {
    with_both_layouts(|_, database| {
        let connection = database.connect();
        write(connection, |inserter| {
            inserter.insert(b"a", b"1").expect("an insert");
            let pairs = [(&b"b"[..], &b"2"[..]), (b"c", b"3")];
            inserter.insert_sorted(pairs.into_iter()).expect("a load");
            inserter.remove(b"b").expect("a removal");
        });
        let expected = [
            (b"a".to_vec(), b"1".to_vec()),
            (b"c".to_vec(), b"3".to_vec()),
        ];
        assert_eq!(records(connection, &[]), expected);
    });
}

#[test]
fn other_writes_behind_sorted_pairs_are_refused() {
    with_both_layouts(|_, database| {
        let connection = database.connect();
        let mut transaction = connection.write_transaction().expect("a transaction");
        let mut inserter = transaction.get_inserter();
        let one = |key: &'static [u8]| std::iter::once((key, &b""[..]));
        inserter.insert_sorted(one(b"a")).expect("a load");
        inserter.insert_sorted(one(b"b")).expect("more of it");
        let refused = [
            inserter.insert(b"c", b"").err(),
            inserter.remove(b"a").err(),
            inserter.pop_first().err(),
            inserter.retain(|_, _| true).err(),
        ];
        for refusal in refused {
            assert!(matches!(refusal, Some(Refusal::IsIngest)), "{refusal:?}");
        }
        transaction.commit().expect("a commit");
        assert_eq!(records(connection, &[]).len(), 2);
    });
}

#[test]
fn what_was_committed_is_there_after_a_reopening_in_its_layout() {
    for layout in [Layout::Chunks, Layout::Guards] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut model = Model::new();
        let database = open(directory.path(), layout);
        insert(database.connect(), &mut model, 0, 300);
        load_sorted(database.connect(), &mut model);
        database.close().expect("a close");
        let database = open(directory.path(), layout);
        assert_is(database.connect(), &model);
    }
}
