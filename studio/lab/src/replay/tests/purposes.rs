//! Pops, scans in reverse and merges, on stores that have them and on others.

use super::*;
use crate::purposes::RangeEnd;

/// Pops and scans in reverse among other calls, over few keys.
fn calls_at_both_ends(store: &dyn Store) {
    let both_ends = store.both_ends().unwrap();
    let mut random = Random::new(11, 0);
    let key = |random: &mut Random| format!("key{:02}", random.below(60)).into_bytes();
    for number in 0..3000_u32 {
        let (one, other) = (key(&mut random), key(&mut random));
        let (low, high) = (one.clone().min(other.clone()), one.clone().max(other));
        let high = (number % 3 > 0).then_some(&high[..]);
        let end = match number % 2 {
            0 => RangeEnd::First,
            _ => RangeEnd::Last,
        };
        match random.below(8) {
            0..4 => store.put(&one, &number.to_le_bytes().repeat(3)).unwrap(),
            4 => done(both_ends.pop((&low, high), end, &mut |_| {}).unwrap()),
            5 => done(store.get(&one, &mut |_| {}).unwrap()),
            6 => done(store.scan(&one, 3, &mut |_, _| true).unwrap()),
            _ => {
                let scanned = both_ends.scan_back((&low, high), 5, &mut |_, _| true);
                done(scanned.unwrap());
            }
        }
    }
}

fn evendb(
    directory: &tempfile::TempDir,
    purpose: Option<crate::opener::Purpose>,
) -> Box<dyn Store> {
    use crate::opener::{Durability, Opener, Settings};
    use crate::stores::evendb::EvenDbOpener;
    let settings = Settings {
        memory_bytes: 16 << 20,
        durability: Durability::Relaxed,
    };
    let store = match purpose {
        Some(purpose) => EvenDbOpener.open_for(directory.path(), &settings, purpose),
        None => EvenDbOpener.open(directory.path(), &settings),
    };
    store.unwrap()
}

#[test]
fn pops_and_scans_in_reverse_are_asked_of_a_store_that_has_them() {
    let mut original = Vec::new();
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        calls_at_both_ends(store);
        original = contents(store);
    });
    for threads in [1, 4] {
        let directory = tempfile::tempdir().unwrap();
        let stores = [
            Box::new(MemoryStore::new()) as Box<dyn Store>,
            evendb(&directory, None),
        ];
        for store in stores {
            let report = replayed(&trace, &*store, &settings(threads));
            assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
            assert!(report.left_out.is_empty(), "{:?}", report.left_out);
            let asked = |kind| report.kinds[&kind].latencies.len();
            assert!(asked(Kind::Pop) > 200 && asked(Kind::Scan) > 400);
            assert!(report.compared > 500);
            assert_eq!(contents(&*store), original, "with {threads} threads");
        }
    }
    // A store without these calls: they are counted, and nothing else is.
    let report = replayed(&trace, &Slow::new(0, false), &settings(1));
    let names: Vec<_> = report.left_out.keys().copied().collect();
    assert_eq!(names, ["pops", "scans in reverse"]);
}

#[test]
fn a_pop_that_gives_something_else_is_a_difference() {
    let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
        store.put(b"a", b"1").unwrap();
        store.put(b"b", b"22").unwrap();
        let both_ends = store.both_ends().unwrap();
        for end in [RangeEnd::Last, RangeEnd::First, RangeEnd::First] {
            both_ends.pop((b"", None), end, &mut |_| {}).unwrap();
        }
    });
    let store = MemoryStore::new();
    store.put(b"aa", b"1").unwrap();
    store.put(b"c", b"333").unwrap();
    // c instead of b, then a, then aa instead of nothing; b stays.
    let report = replayed(&trace, &store, &settings(1));
    assert_eq!(report.differences.other_length, 1);
    assert_eq!(report.differences.present_not_absent, 1);
    assert_eq!(report.compared, 3);
    assert_eq!(contents(&store), [(b"b".to_vec(), b"22".to_vec())]);
}

#[test]
fn merges_are_asked_of_a_store_that_is_opened_for_them() {
    for merges in [Merges::Counters, Merges::Appends] {
        let mut original = Vec::new();
        let trace = recorded(Box::new(MemoryStore::new()), with_values(), |store| {
            let mut random = Random::new(13, 0);
            for number in 0..2000_u64 {
                let key = format!("key{:02}", random.below(30)).into_bytes();
                let operand = number.to_le_bytes();
                match (random.below(6), merges) {
                    (0, _) => done(store.get(&key, &mut |_| {}).unwrap()),
                    (1, _) => store.put(&key, &operand).unwrap(),
                    (2, _) => store.delete(&key).unwrap(),
                    (_, Merges::Counters) => store.counters().unwrap().add(&key, number).unwrap(),
                    _ => store.appending().unwrap().append(&key, &operand).unwrap(),
                }
            }
            original = contents(store);
        });
        for threads in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let opened = evendb(&directory, Some(merges.purpose()));
            for store in [Box::new(MemoryStore::new()) as Box<dyn Store>, opened] {
                let with_merges = ReplaySettings {
                    merges: Some(merges),
                    ..settings(threads)
                };
                let report = replayed(&trace, &*store, &with_merges);
                assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
                assert!(report.left_out.is_empty() && report.compared > 100);
                assert_eq!(contents(&*store), original, "{merges:?}");
            }
        }
        let unsaid = replayed(&trace, &MemoryStore::new(), &settings(1));
        assert!(unsaid.left_out["merges"] > 500, "{:?}", unsaid.left_out);
        let asked = ReplaySettings {
            merges: Some(merges),
            ..settings(1)
        };
        let without = replayed(&trace, &Slow::new(0, false), &asked);
        assert!(without.left_out["merges, which the store does not have"] > 500);
    }
}

/// Keeps the greatest of all operands, and how many there were: the value is both.
struct Greatest;

impl evendb::MergeOperator for Greatest {
    fn name(&self) -> &str {
        "test.greatest"
    }

    fn full_merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, evendb::MergeError> {
        let (count, greatest) = match existing {
            Some(value) => (value[0], &value[1..]),
            None => (0, &[][..]),
        };
        let greatest = operands.iter().copied().fold(greatest, Ord::max);
        let count = count.wrapping_add(operands.len() as u8);
        Ok(Some([&[count][..], greatest].concat()))
    }
}

#[test]
fn a_program_replays_its_merges_with_its_own_operator() {
    use crate::opener::{Durability, Opener, Purpose, Settings};
    use crate::stores::evendb::MergingOpener;
    let opener = MergingOpener {
        operator: || Greatest,
    };
    let settings_of_store = Settings {
        memory_bytes: 16 << 20,
        durability: Durability::Relaxed,
    };
    let opened = |directory: &tempfile::TempDir| {
        let store = opener.open(directory.path(), &settings_of_store);
        store.unwrap()
    };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut original = Vec::new();
    let trace = recorded(opened(&first), with_values(), |store| {
        let mut random = Random::new(17, 0);
        for _ in 0..2000 {
            let key = format!("key{:02}", random.below(30)).into_bytes();
            let operand = random.below(1 << 40).to_le_bytes();
            match random.below(5) {
                0 => done(store.get(&key, &mut |_| {}).unwrap()),
                1 => store.delete(&key).unwrap(),
                _ => store.appending().unwrap().append(&key, &operand).unwrap(),
            }
        }
        original = contents(store);
    });
    let with_merges = ReplaySettings {
        merges: Some(Merges::Appends),
        ..settings(3)
    };
    let store = opened(&second);
    let report = replayed(&trace, &*store, &with_merges);
    assert_eq!(report.differences.total(), 0, "{:?}", report.differences);
    assert!(report.left_out.is_empty() && report.compared > 200);
    assert_eq!(contents(&*store), original);
    // Another operator gives other values.
    let third = tempfile::tempdir().unwrap();
    let appends = evendb(&third, Some(Purpose::Appends));
    let report = replayed(&trace, &*appends, &with_merges);
    assert!(report.differences.total() > 100, "{:?}", report.differences);
    let refused = opener.open_for(third.path(), &settings_of_store, Purpose::Counters);
    assert!(
        refused
            .err()
            .unwrap()
            .to_string()
            .contains("has no counters")
    );
}
