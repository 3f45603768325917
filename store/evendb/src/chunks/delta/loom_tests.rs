//! Schedules of the delta: L2 (link, same-version unlink against gets and snapshot reads) and L4
//! (commit stamps), explored by loom. Memory is not reclaimed here; order is what is tested.

use super::*;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};
use crate::version::stamp::{BatchStamp, is_pending};
use evendb_storage::Kind;

fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 20_000;
    model.check(scenario);
}

fn record(key: &[u8], value: u8, version: u64) -> RecordRef {
    let mut record = RecordRef::new(key, &[value], Kind::Put, RamHash::of_bits(1 << 56));
    record.set_version(Version(version));
    record
}

fn value(delta: &Delta, key: &[u8], at: u64) -> Option<u8> {
    let guard = &reclaim::pin();
    let record = delta.get(key, RamHash::of_bits(1 << 56), Version(at), guard)?;
    assert_eq!(record.key(), key);
    Some(record.value()[0])
}

#[test]
fn loom_l2_unlinking_is_invisible_to_gets_and_snapshots() {
    explore(|| {
        let delta = Arc::new(Delta::new(0));
        delta.insert(record(b"k", 0, 1));
        delta.insert(record(b"k", 1, 2));
        let done = Arc::new(AtomicU64::new(1));
        let reader = {
            let (delta, done) = (delta.clone(), done.clone());
            thread::spawn(move || {
                let least = done.load(Ordering::Acquire) as u8;
                let first = value(&delta, b"k", u64::MAX).unwrap();
                let second = value(&delta, b"k", u64::MAX).unwrap();
                assert!(least <= first && first <= second);
                assert_eq!(
                    value(&delta, b"k", 1),
                    Some(0),
                    "the snapshot's record stays"
                );
            })
        };
        delta.insert(record(b"k", 2, 2));
        done.store(2, Ordering::Release);
        delta.insert(record(b"k", 3, 3));
        reader.join().unwrap();
    });
}

#[test]
fn loom_l2_a_new_key_appears_whole_and_the_order_is_offered_by_a_race() {
    explore(|| {
        let delta = Arc::new(Delta::new(0));
        delta.insert(record(b"b", 1, 1));
        delta.insert(record(b"c", 1, 1));
        let reader = {
            let delta = delta.clone();
            thread::spawn(move || {
                let got = value(&delta, b"a", u64::MAX);
                assert!(got.is_none() || got == Some(2));
                let guard = &reclaim::pin();
                let mut cursor = delta.cursor(guard);
                cursor.seek_first();
                assert_eq!(cursor.key(), if cursor.key() == b"a" { b"a" } else { b"b" });
                assert!(got.is_none() || cursor.key() == b"a");
                cursor.seek_last();
                assert_eq!(cursor.key(), b"c");
            })
        };
        delta.insert(record(b"a", 2, 2));
        let guard = &reclaim::pin();
        let mut cursor = delta.cursor(guard);
        cursor.seek_first();
        assert_eq!(cursor.key(), b"a");
        reader.join().unwrap();
    });
}

/// A delta of `keys` keys: `k`, and other keys that all sort below it.
fn filled(keys: usize) -> Delta {
    let delta = Delta::new(0);
    for key in 1..keys as u8 {
        let mut filler = RecordRef::new(&[key], &[], Kind::Put, RamHash::of_bits(2 << 56));
        filler.set_version(Version(1));
        delta.insert(filler);
    }
    delta.insert(record(b"k", 1, 1));
    delta
}

/// Puts `new` into a delta whose page is full, overwrites `k`, and reads meanwhile.
fn reorganise_scenario(delta: Delta, new: &'static [u8]) {
    let delta = Arc::new(delta);
    let reader = {
        let delta = delta.clone();
        thread::spawn(move || {
            let first = value(&delta, b"k", u64::MAX).unwrap();
            let added = value(&delta, new, u64::MAX);
            let second = value(&delta, b"k", u64::MAX).unwrap();
            assert!(first <= second);
            assert!(
                first < 2 || added.is_some(),
                "k was overwritten after the other came"
            );
        })
    };
    delta.insert(record(new, 1, 1));
    delta.insert(record(b"k", 2, 1));
    reader.join().unwrap();
}

#[test]
fn loom_l2_gets_cross_the_growth_of_a_page() {
    explore(|| reorganise_scenario(filled(SLOTS_MIN), b"new"));
}

#[test]
fn loom_l2_gets_cross_the_first_split_and_the_page_behind_a_full_one() {
    explore(|| reorganise_scenario(filled(SLOTS_MAX), b"a"));
    explore(|| reorganise_scenario(filled(SLOTS_MAX), b"new"));
}

#[test]
fn loom_l2_gets_cross_a_later_split() {
    explore(|| {
        let delta = filled(SLOTS_MAX);
        for key in 0..=SLOTS_MAX as u8 {
            delta.insert(record(&[b'm', key], 1, 1));
        }
        // The page behind the first one is full again, except for what its split left.
        reorganise_scenario(delta, b"z");
    });
}

/// A page is full, and four records come at once: one over a key that is there, three that need new
/// pages. A reader always finds a value of `k`, never goes back, and sees all once they have come.
#[test]
fn loom_l2_records_that_are_linked_at_once_hide_nothing() {
    for keys in [SLOTS_MAX, SLOTS_MAX - 1, 1] {
        explore(move || {
            let delta = Arc::new(filled(keys));
            let done = Arc::new(AtomicU64::new(0));
            let reader = {
                let (delta, done) = (delta.clone(), done.clone());
                thread::spawn(move || {
                    let is_done = done.load(Ordering::Acquire) == 1;
                    let first = value(&delta, b"k", u64::MAX).unwrap();
                    let added = [&b"j"[..], b"l", b"m"].map(|key| value(&delta, key, u64::MAX));
                    let second = value(&delta, b"k", u64::MAX).unwrap();
                    assert!(first <= second);
                    assert!(!is_done || first == 2 && added == [Some(2); 3]);
                })
            };
            let new = [&b"j"[..], b"k", b"l", b"m"];
            delta.insert_sorted(new.into_iter().map(|key| record(key, 2, 2)));
            done.store(1, Ordering::Release);
            reader.join().unwrap();
        });
    }
}

#[test]
fn loom_l2_an_empty_delta_fills() {
    explore(|| {
        let delta = Arc::new(Delta::new(0));
        let reader = {
            let delta = delta.clone();
            thread::spawn(move || {
                let second = value(&delta, b"b", u64::MAX);
                let first = value(&delta, b"a", u64::MAX);
                assert!(second.is_none() || first.is_some());
            })
        };
        delta.insert(record(b"a", 1, 1));
        delta.insert(record(b"b", 1, 1));
        reader.join().unwrap();
    });
}

/// A value of `k` in both deltas, as one batch.
fn put_both(deltas: &[Delta; 2], stamp: BatchStamp, new: u8) {
    let records = [0, 1].map(|_| {
        let mut record = record(b"k", new, 1);
        record.set_stamp(&stamp, Version(1));
        record
    });
    for (delta, record) in deltas.iter().zip(&records) {
        delta.insert(record.clone());
    }
    stamp.commit();
    for record in &records {
        record.leave_stamp(&stamp);
    }
}

/// What the writer does after its batch.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Nothing,
    /// A put on top of one key (after the stamp, as the latches demand).
    Put,
    /// Another batch, which gets the same stamp, and is not committed.
    PendingBatch,
}

/// A batch over two deltas, and what comes after it, while readers get both keys in either order.
fn batch_scenario(readers: &[(usize, usize)], after: After, claim: fn() -> BatchStamp) {
    let deltas = Arc::new([Delta::new(0), Delta::new(0)]);
    for delta in deltas.iter() {
        delta.insert(record(b"k", 0, 1));
    }
    let readers: Vec<_> = readers
        .iter()
        .map(|&(first, second)| {
            let deltas = deltas.clone();
            thread::spawn(move || {
                let before = value(&deltas[first], b"k", u64::MAX).unwrap();
                let after = value(&deltas[second], b"k", u64::MAX).unwrap();
                assert!(before == 0 || after > 0, "half of the batch");
            })
        })
        .collect();
    put_both(&deltas, claim(), 1);
    let stamp = (after == After::PendingBatch).then(claim);
    if after == After::Put {
        deltas[0].insert(record(b"k", 2, 1));
    }
    for reader in readers {
        reader.join().unwrap();
    }
    drop(stamp);
}

#[test]
fn loom_l4_a_batch_over_two_deltas_is_seen_whole_or_not_at_all() {
    explore(|| batch_scenario(&[(0, 1)], After::Nothing, BatchStamp::claim));
    explore(|| batch_scenario(&[(1, 0)], After::Nothing, BatchStamp::claim));
}

#[test]
fn loom_l4_a_put_follows_the_batch() {
    explore(|| batch_scenario(&[(0, 1)], After::Put, BatchStamp::claim));
    explore(|| batch_scenario(&[(1, 0)], After::Put, BatchStamp::claim));
}

#[test]
fn loom_l4_two_readers_in_either_order() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| batch_scenario(&[(0, 1), (1, 0)], After::Nothing, BatchStamp::claim));
}

/// The stamp's next batch is pending while readers ask for records of the batch before.
#[test]
fn loom_l4_a_stamp_that_another_batch_has_hides_nothing() {
    explore(|| batch_scenario(&[(0, 1)], After::PendingBatch, BatchStamp::claim));
    explore(|| batch_scenario(&[(1, 0)], After::PendingBatch, BatchStamp::claim));
}

/// P-stamp: readers that find the stamp pending do not look at the record again.
#[test]
#[should_panic(expected = "half of the batch")]
fn loom_l4_no_second_look_is_caught() {
    explore(|| {
        batch_scenario(
            &[(0, 1)],
            After::PendingBatch,
            BatchStamp::claim_without_second_look,
        );
    });
}

/// There are more batches than stamps: one batch at a time claims a stamp, and the others wait.
#[test]
fn loom_l4_a_stamp_has_one_batch_at_a_time() {
    // A counter outside loom: counting is no step of a schedule.
    type Count = std::sync::atomic::AtomicU64;
    fn claim_one(batches: &[Count; 3]) {
        let stamp = BatchStamp::claim();
        let number = stamp.number();
        let batches = &batches[usize::from(number)];
        assert_eq!(batches.fetch_add(1, Ordering::Relaxed), 0, "claimed twice");
        assert!(is_pending(number));
        stamp.commit();
        assert!(!is_pending(number));
        batches.fetch_sub(1, Ordering::Relaxed);
    }
    explore(|| {
        let batches = Arc::new([const { Count::new(0) }; 3]);
        let others = [0, 1].map(|_| {
            let batches = batches.clone();
            thread::spawn(move || claim_one(&batches))
        });
        claim_one(&batches);
        claim_one(&batches);
        for other in others {
            other.join().unwrap();
        }
    });
}
