//! The delta against a model, under threads, and its accounting.

use super::*;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, thread};
use crate::version::stamp::BatchStamp;
use evendb_storage::Kind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

fn hash(key: &[u8]) -> RamHash {
    RamHash::of(key)
}

fn record(key: &[u8], value: &[u8], version: u64) -> RecordRef {
    let mut record = RecordRef::new(key, value, Kind::Put, hash(key));
    record.set_version(Version(version));
    record
}

fn value_at<'g>(delta: &Delta, key: &[u8], at: u64, guard: &'g Guard) -> Option<&'g [u8]> {
    let record = delta.get(key, hash(key), Version(at), guard)?;
    assert_eq!(record.key(), key);
    Some(record.value())
}

/// Runs deferred work until `done`. A test that never gets there hangs, and so fails.
fn collect_until(done: impl Fn() -> bool) {
    while !done() {
        reclaim::collect();
        thread::yield_now();
    }
}

/// Versions of each key, oldest first, one value per version.
type Model = BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>>;

#[derive(Clone, Copy, Debug)]
enum Arrival {
    Ascending,
    Descending,
    Random,
    /// Few keys, many versions.
    Equal,
    /// Runs of ascending keys at random places: in order inside the chunk.
    Runs,
    /// Huge, empty and prefix-of-each-other keys.
    Odd,
}

fn key_of(arrival: Arrival, step: u32, rng: &mut StdRng) -> Vec<u8> {
    match arrival {
        Arrival::Ascending => format!("key{step:08}").into_bytes(),
        Arrival::Descending => format!("key{:08}", 99_999_999 - step).into_bytes(),
        Arrival::Random => rng.random_range(0..u64::MAX).to_le_bytes().to_vec(),
        Arrival::Equal => vec![rng.random_range(0..5)],
        Arrival::Runs => {
            let app = (step / 40).wrapping_mul(7919) % 50;
            format!("app{app:03}/{step:08}").into_bytes()
        }
        Arrival::Odd => match rng.random_range(0..4) {
            0 => vec![0; rng.random_range(0..300)],
            1 => vec![0xff; rng.random_range(0..300)],
            2 => vec![rng.random_range(0..3); rng.random_range(0..12)],
            _ => vec![b'x'; rng.random_range(0..if cfg!(miri) { 1_000 } else { 65_536 })],
        },
    }
}

fn check_gets(delta: &Delta, model: &Model, at: u64) {
    let guard = &reclaim::pin();
    for (key, versions) in model {
        let expected = versions.iter().rev().find(|(version, _)| *version <= at);
        let expected = expected.map(|(_, value)| &value[..]);
        assert_eq!(value_at(delta, key, at, guard), expected);
        assert!(delta.contains(key, hash(key), guard));
    }
    for absent in [&b"absent"[..], b"key", b"\x7f\x7f\x7f"] {
        if !model.contains_key(absent) {
            assert!(!delta.contains(absent, hash(absent), guard));
            assert_eq!(value_at(delta, absent, u64::MAX, guard), None);
        }
    }
}

fn check_cursor(delta: &Delta, model: &Model, at: u64, rng: &mut StdRng) {
    let guard = &reclaim::pin();
    let mut cursor = delta.cursor(guard);
    assert!(!cursor.valid());
    cursor.seek_first();
    for (key, versions) in model {
        assert_eq!(cursor.key(), key);
        let found: Vec<_> = cursor
            .versions()
            .map(|record| (record.version().0, record.value().to_vec()))
            .collect();
        assert!(found.iter().eq(versions.iter().rev()));
        let expected = versions.iter().rev().find(|(version, _)| *version <= at);
        let newest = cursor.newest_at(Version(at));
        assert_eq!(
            newest.map(Record::value),
            expected.map(|(_, value)| &value[..])
        );
        cursor.next();
    }
    assert!(!cursor.valid());
    cursor.seek_last();
    for key in model.keys().rev() {
        assert_eq!(cursor.key(), key);
        cursor.prev();
    }
    assert!(!cursor.valid());
    let keys: Vec<_> = model.keys().collect();
    for _ in 0..if cfg!(miri) { 10 } else { 200 } {
        let mut key = keys[rng.random_range(0..keys.len())].clone();
        match rng.random_range(0..4) {
            0 => key.push(0),
            1 => drop(key.pop()),
            2 => key.push(0xff),
            _ => {}
        }
        cursor.seek(&key);
        let expected = model.range(key.clone()..).next().map(|(key, _)| &key[..]);
        assert_eq!(cursor.valid().then(|| cursor.key()), expected);
        if cursor.valid() {
            cursor.prev();
        } else {
            cursor.seek_last();
        }
        let expected = model
            .range(..key.clone())
            .next_back()
            .map(|(key, _)| &key[..]);
        assert_eq!(cursor.valid().then(|| cursor.key()), expected);
        cursor.seek_before(&key);
        assert_eq!(cursor.valid().then(|| cursor.key()), expected);
    }
}

/// A last put on each key, so that what batches left below is gone.
fn put_on_each(delta: &Delta, model: &mut Model, version: u64, all: &mut Vec<RecordRef>) {
    for (key, versions) in model {
        let new = record(key, b"last", version);
        all.push(new.clone());
        delta.insert(new);
        versions.push((version, b"last".to_vec()));
    }
}

/// The steps of a model: few under Miri, which is more than a hundred times slower.
const fn fewer(steps: u32) -> u32 {
    if cfg!(miri) {
        steps.div_ceil(40)
    } else {
        steps
    }
}

fn run_model(arrival: Arrival, steps: u32, seed: u64) {
    let steps = fewer(steps);
    let rng = &mut StdRng::seed_from_u64(seed);
    let delta = Delta::new(3);
    let mut model = Model::new();
    let mut all = Vec::new();
    let mut version = 10;
    // The last record of a committed batch, while readers still ask its stamp.
    let mut asked: Option<(BatchStamp, RecordRef)> = None;
    for step in 0..steps {
        if rng.random_range(0..10) == 0 {
            version += 1;
        }
        let key = match model.keys().next() {
            Some(_) if rng.random_range(0..4) == 0 => {
                let at = rng.random_range(0..model.len());
                model.keys().nth(at).unwrap().clone()
            }
            _ => key_of(arrival, step, rng),
        };
        let value = step.to_le_bytes();
        let mut new = record(&key, &value, version);
        if rng.random()
            && let Some((stamp, record)) = asked.take()
        {
            record.leave_stamp(&stamp);
        }
        let of_batch = rng.random_range(0..4) == 0;
        let stamp = of_batch.then(BatchStamp::claim);
        if let Some(stamp) = &stamp {
            new.set_stamp(stamp, Version(version));
        }
        all.push(new.clone());
        delta.insert(new.clone());
        if let Some(stamp) = stamp {
            let guard = &reclaim::pin();
            let before = model.get(&key).and_then(|versions| versions.last());
            let before = before.map(|(_, value)| &value[..]);
            assert_eq!(value_at(&delta, &key, u64::MAX, guard), before, "pending");
            stamp.commit();
            if let Some((stamp, record)) = asked.replace((stamp, new)) {
                record.leave_stamp(&stamp);
            }
        }
        let versions = model.entry(key).or_default();
        versions.retain(|(old, _)| *old != version);
        versions.push((version, value.to_vec()));
        if step.is_power_of_two() || step + 1 == steps {
            if of_batch {
                // The record below a committed one of its own version may still be there.
                continue;
            }
            check_gets(&delta, &model, rng.random_range(9..=version));
        }
    }
    if let Some((stamp, record)) = asked {
        record.leave_stamp(&stamp);
    }
    version += 1;
    put_on_each(&delta, &mut model, version, &mut all);
    let versions = [9, 10, version / 2, version, u64::MAX];
    for at in versions.into_iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
        check_gets(&delta, &model, at);
        check_cursor(&delta, &model, at, rng);
    }
    assert_eq!(delta.len(), model.len());
    let data: usize = model
        .iter()
        .flat_map(|(key, versions)| versions.iter().map(|v| key.len() + v.1.len()))
        .sum();
    assert_eq!(delta.data_bytes(), data);
    assert!(delta.bytes() > data);
    let linked: usize = model.values().map(Vec::len).sum();
    collect_until(|| all.iter().filter(|record| record.count() == 2).count() == linked);
    drop(delta);
    assert!(
        all.iter().all(|record| record.count() == 1),
        "released once"
    );
}

#[test]
fn answers_as_an_ordered_map_of_versions() {
    run_model(Arrival::Ascending, 2000, 1);
    run_model(Arrival::Descending, 2000, 2);
    run_model(Arrival::Random, 3000, 3);
    run_model(Arrival::Equal, 3000, 4);
    run_model(Arrival::Runs, 3000, 5);
    run_model(Arrival::Odd, 1000, 6);
    for seed in 0..if cfg!(miri) { 3 } else { 30 } {
        run_model(Arrival::Random, 5 + 12 * seed as u32, seed);
    }
}

#[test]
fn an_empty_delta_is_small_and_answers() {
    let delta = Delta::new(7);
    let guard = &reclaim::pin();
    assert!(size_of::<Delta>() <= 64);
    assert!(delta.bytes() < 100 && delta.data_bytes() == 0);
    assert!(delta.is_empty() && delta.checkpoint() == 7);
    assert_eq!(value_at(&delta, b"", u64::MAX, guard), None);
    let mut cursor = delta.cursor(guard);
    cursor.seek(b"");
    assert!(!cursor.valid());
    cursor.seek_before(b"x");
    assert!(!cursor.valid());
    cursor.seek_first();
    assert!(!cursor.valid());
    cursor.seek_last();
    assert!(!cursor.valid());
    delta.insert(record(b"k", b"", 1));
    assert!(delta.bytes() < 300, "{}", delta.bytes());
}

#[test]
fn overwrites_of_a_hot_key_do_not_grow_the_delta() {
    let delta = Delta::new(0);
    delta.insert(record(b"hot", b"value", 5));
    let bytes = delta.bytes();
    let mut all = Vec::new();
    for step in 0..if cfg!(miri) { 300 } else { 10_000 } {
        let new = record(b"hot", b"value", 5);
        if step % 1000 == 0 {
            all.push(new.clone());
        }
        delta.insert(new);
        assert_eq!(delta.bytes(), bytes);
    }
    assert_eq!(delta.len(), 1);
    collect_until(|| all.iter().all(|record| record.count() == 1));
}

#[test]
fn batches_on_a_hot_key_do_not_grow_the_delta() {
    let delta = Delta::new(0);
    delta.insert(record(b"hot", b"value", 5));
    let bytes = delta.bytes();
    for _ in 0..if cfg!(miri) { 100 } else { 1000 } {
        let stamp = BatchStamp::claim();
        let mut new = record(b"hot", b"value", 5);
        new.set_stamp(&stamp, Version(5));
        delta.insert(new.clone());
        stamp.commit();
        new.leave_stamp(&stamp);
        assert!(delta.bytes() <= bytes * 2);
    }
}

#[test]
fn an_overwritten_record_stays_for_the_pin_that_found_it() {
    let delta = Delta::new(0);
    let old = record(b"k", b"old", 5);
    delta.insert(old.clone());
    let guard = reclaim::pin();
    let found = delta.get(b"k", hash(b"k"), Version::MAX, &guard).unwrap();
    delta.insert(record(b"k", b"new", 5));
    for _ in 0..if cfg!(miri) { 10 } else { 100 } {
        thread::spawn(reclaim::collect).join().unwrap();
    }
    assert_eq!(old.count(), 2, "not given back under the pin");
    assert_eq!(found.value(), b"old");
    drop(guard);
    collect_until(|| old.count() == 1);
}

#[test]
fn keys_in_order_fill_their_pages() {
    let pages = |keys: &mut dyn Iterator<Item = u32>| {
        let delta = Delta::new(0);
        for key in keys {
            delta.insert(record(format!("{key:05}").as_bytes(), b"", 1));
        }
        delta.directory(&reclaim::pin()).map_or(1, Directory::len)
    };
    let full = if cfg!(miri) { 2 } else { 10 };
    assert_eq!(pages(&mut (0..128 * full)), full as usize);
    // After a full page all keys of the gap behind it share the new pages.
    let behind = 100 * full;
    assert!(pages(&mut (0..128).chain((1000..1000 + behind).rev())) < 5 + 2 * full as usize);
}

/// Long sorted writes over what is there, between single records: the delta is as if all had come
/// one by one, and its counts are those of its records and pages.
#[test]
fn records_that_are_linked_at_once_are_as_if_they_came_one_by_one() {
    for arrival in [
        Arrival::Ascending,
        Arrival::Random,
        Arrival::Runs,
        Arrival::Odd,
    ] {
        let rng = &mut StdRng::seed_from_u64(77);
        let delta = Delta::new(3);
        let mut model = Model::new();
        let longest = if cfg!(miri) { 40 } else { 900 };
        for round in 0..12_u64 {
            let (version, first) = (10 + 2 * round, round as u32 * 1000);
            let count = rng.random_range(0..longest);
            let new = (0..count).map(|step| key_of(arrival, first + step, rng));
            let mut keys: Vec<Vec<u8>> = new.collect();
            keys.extend(model.keys().step_by(9).cloned());
            keys.sort();
            keys.dedup();
            let value = round.to_le_bytes();
            delta.insert_sorted(keys.iter().map(|key| record(key, &value, version)));
            for key in keys {
                let versions = model.entry(key).or_default();
                versions.push((version, value.to_vec()));
            }
            let single = key_of(arrival, first + 999, rng);
            delta.insert(record(&single, b"one", version + 1));
            let versions = model.entry(single).or_default();
            versions.push((version + 1, b"one".to_vec()));
            check_gets(&delta, &model, u64::MAX);
            check_gets(&delta, &model, version);
            check_cursor(&delta, &model, version, rng);
            assert_eq!(delta.len(), model.len());
        }
        delta.insert_sorted(std::iter::empty());
    }
}

#[test]
fn many_records_at_once_fill_their_pages_and_publish_one_directory() {
    let count = if cfg!(miri) { 300 } else { 100_000 };
    let keys = || (0..count).map(|key: u32| format!("{key:08}"));
    let delta = Delta::new(0);
    delta.insert(record(b"00000100", b"old", 1));
    let started = delta.bytes();
    delta.insert_sorted(keys().map(|key| record(key.as_bytes(), b"new", 2)));
    let guard = &reclaim::pin();
    let pages = delta.directory(guard).map_or(1, Directory::len);
    assert_eq!(pages, (count as usize).div_ceil(SLOTS_MAX));
    assert_eq!(delta.len(), count as usize);
    assert_eq!(delta.data_bytes(), count as usize * 11 + 11);
    let each = record(b"00000100", b"new", 2).memory_bytes();
    let beside = delta.bytes() - started - count as usize * each;
    assert!(
        beside < 24 * count as usize + 4096,
        "{beside} bytes of pages"
    );
    for key in keys() {
        assert_eq!(
            value_at(&delta, key.as_bytes(), 2, guard),
            Some(&b"new"[..])
        );
    }
    assert_eq!(value_at(&delta, b"00000100", 1, guard), Some(&b"old"[..]));
}

#[test]
fn a_batch_is_seen_at_once_over_two_deltas() {
    let deltas = Arc::new([Delta::new(0), Delta::new(0)]);
    for delta in deltas.iter() {
        delta.insert(record(b"k", &0_u64.to_le_bytes(), 1));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let read = |delta: &Delta| {
        let guard = &reclaim::pin();
        u64::from_le_bytes(
            value_at(delta, b"k", u64::MAX, guard)
                .unwrap()
                .try_into()
                .unwrap(),
        )
    };
    let readers: Vec<_> = [(0, 1), (1, 0)]
        .into_iter()
        .map(|(first, second)| {
            let (deltas, stop) = (deltas.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let before = read(&deltas[first]);
                    assert!(read(&deltas[second]) >= before);
                }
            })
        })
        .collect();
    for batch in 1..if cfg!(miri) { 100 } else { 20_000_u64 } {
        let version = 1 + batch / 16;
        let stamp = BatchStamp::claim();
        let records = [0, 1].map(|_| {
            let mut record = record(b"k", &batch.to_le_bytes(), version);
            record.set_stamp(&stamp, Version(version));
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
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}

const ROUNDS: u64 = if cfg!(miri) { 4 } else { 300 };
const KEYS_A_ROUND: u64 = if cfg!(miri) { 12 } else { 40 };

/// Key `k` is new in round `k / KEYS_A_ROUND`. A multiplication spreads the keys so that they
/// arrive in no order.
fn spread_key(k: u64) -> Vec<u8> {
    let spread = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{spread:020}").into_bytes()
}

/// Round `r` writes value `r` to its own keys and to the keys of round `r / 2`. This returns the
/// value of key `k` after `round`.
fn value_after(k: u64, round: u64) -> Option<u64> {
    let born = k / KEYS_A_ROUND;
    (born..=round.min(2 * born + 1))
        .rev()
        .find(|r| *r == born || r / 2 == born)
}

/// Follows the writer, and checks what the last finished round left, by gets and by a cursor.
fn read_snapshots(delta: &Delta, finished: &AtomicU64, seed: u64) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let mut last = 0;
    while last + 1 < ROUNDS {
        let rounds = finished.load(Ordering::Acquire);
        assert!(rounds >= last);
        last = rounds.saturating_sub(1);
        if rounds == 0 {
            thread::yield_now();
            continue;
        }
        let guard = &reclaim::pin();
        let at = Version(last);
        for _ in 0..if cfg!(miri) { 10 } else { 200 } {
            let k = rng.random_range(0..rounds * KEYS_A_ROUND);
            let key = spread_key(k);
            let record = delta.get(&key, hash(&key), at, guard).unwrap();
            assert_eq!(Some(record.version().0), value_after(k, last));
            assert_eq!(record.value(), record.version().0.to_le_bytes());
        }
        let mut cursor = delta.cursor(guard);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let forward: bool = rng.random();
        match forward {
            true => cursor.seek_first(),
            false => cursor.seek_last(),
        }
        while cursor.valid() {
            if let Some(record) = cursor.newest_at(at) {
                assert_eq!(record.value(), record.version().0.to_le_bytes());
                keys.push(cursor.key().to_vec());
            }
            match forward {
                true => cursor.next(),
                false => cursor.prev(),
            }
        }
        assert_eq!(keys.len() as u64, rounds * KEYS_A_ROUND);
        if !forward {
            keys.reverse();
        }
        assert!(keys.is_sorted());
    }
}

/// One writer inserts new keys and overwrites old ones, raising the version. Readers take the last
/// finished version and must find, by gets and cursors, exactly what it left.
#[test]
fn readers_see_their_snapshot_whole_while_the_writer_goes_on() {
    let delta = Arc::new(Delta::new(0));
    let finished = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..3)
        .map(|seed| {
            let (delta, finished) = (delta.clone(), finished.clone());
            thread::spawn(move || read_snapshots(&delta, &finished, seed))
        })
        .collect();
    for round in 0..ROUNDS {
        for born in [round, round / 2] {
            for k in born * KEYS_A_ROUND..(born + 1) * KEYS_A_ROUND {
                // Twice: the second insert unlinks the first while readers look.
                let key = spread_key(k);
                delta.insert(record(&key, &round.to_le_bytes(), round));
                delta.insert(record(&key, &round.to_le_bytes(), round));
            }
        }
        finished.store(round + 1, Ordering::Release);
    }
    for reader in readers {
        reader.join().unwrap();
    }
}
