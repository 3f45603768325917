//! The parts in RAM, alone: index, deltas, munks.
//!
//! The keys are those of the data set, in chunks of 10 MiB as by default. Random order is a seeded
//! permutation or uniform choice, made outside of the timed loops as far as memory allows. The
//! generator costs a few nanoseconds, alike for all.

use std::time::Duration;

use evendb::bench_parts::{ChunkIndex, DeltaSet, MunkSet};

use super::{CpuClock, PartRow, PartsError, PartsSettings, Reader, Target, Yardstick, median};
use crate::dataset::{Dataset, key_of};
use crate::permutation::Permutation;
use crate::random::Random;

const CHUNK_BYTES: u64 = 10 << 20;
const SCAN_RECORDS: usize = 1000;

/// Lookups in an index of 50,000 chunks.
pub fn index(settings: &PartsSettings, report: &mut dyn FnMut(&PartRow)) {
    const CHUNKS: u64 = 50_000;
    const APART: u64 = 12_000;
    let part = "index lookup, 50,000 chunks";
    if !settings.wants(part) {
        return;
    }
    let lows: Vec<Vec<u8>> = (0..CHUNKS)
        .map(|chunk| key_of(chunk * APART).to_vec())
        .collect();
    let index = ChunkIndex::new(&lows);
    let ordered: std::collections::BTreeMap<&[u8], u64> =
        lows.iter().map(|low| &low[..]).zip(0..).collect();
    let below = |key: &[u8]| {
        let range = (std::ops::Bound::Unbounded, std::ops::Bound::Included(key));
        ordered
            .range::<[u8], _>(range)
            .next_back()
            .map_or(0, |(_, chunk)| *chunk)
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds {
        let time = |find: &dyn Fn(&[u8]) -> u64| {
            let mut random = Random::new(1, round as u64);
            per_operation(settings.operations, || {
                let record = random.below(CHUNKS * APART);
                let chunk = find(&key_of(record));
                assert!(chunk == record / APART, "the lookup went wrong");
            })
        };
        ours.push(time(&|key| index.find(key)));
        theirs.push(time(&below));
    }
    report(&PartRow {
        part: part.to_owned(),
        unit: "ns",
        figure: median(ours),
        beside: vec![("BTreeMap".to_owned(), median(theirs))],
        target: Target::AtMost(250.0),
    });
}

/// Puts of a whole data set into empty deltas, in key order and in random order.
///
/// # Errors
/// The yardsticks' own.
pub fn puts(
    settings: &PartsSettings,
    value_bytes: usize,
    yardsticks: &mut [Box<dyn Yardstick>],
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    let dataset = Dataset::of_size(settings.data_bytes, value_bytes, 1);
    let lows = chunk_lows(&dataset);
    let value = value_of(&dataset);
    for (order, random) in [("key order", false), ("random order", true)] {
        let part = format!("put into a delta, {value_bytes} B, {order}");
        if !settings.wants(&part) {
            continue;
        }
        let mut ours = Vec::new();
        let mut beside = vec![Vec::new(); yardsticks.len()];
        for round in 0..settings.rounds {
            let permutation = Permutation::new(dataset.records, round as u64);
            let record_at = |number| {
                if random {
                    permutation.apply(number)
                } else {
                    number
                }
            };
            let deltas = DeltaSet::new(&lows);
            let mut number = 0;
            ours.push(per_operation(dataset.records, || {
                deltas.put(&key_of(record_at(number)), &value, number);
                number += 1;
            }));
            drop(deltas);
            for (yardstick, figures) in yardsticks.iter_mut().zip(&mut beside) {
                yardstick.clear()?;
                let started = CpuClock::start();
                yardstick.put_all(dataset.records, &mut |number, put| {
                    put(&key_of(record_at(number)), &value);
                })?;
                figures.push(nanos(started.elapsed(), dataset.records));
            }
        }
        report(&PartRow {
            part,
            unit: "ns",
            figure: median(ours),
            beside: named(yardsticks, beside),
            target: Target::AtMost(1000.0),
        });
    }
    Ok(())
}

/// What is read, and how.
#[derive(Clone, Copy)]
enum Read {
    Get,
    /// Scans that look at a word of each value.
    ScanTouch,
    /// Scans that copy all values out.
    ScanCopy,
}

/// Gets and scans from munks; gets from deltas; absorbing.
///
/// # Errors
/// The yardsticks' own.
pub fn reads(
    settings: &PartsSettings,
    value_bytes: usize,
    yardsticks: &mut [Box<dyn Yardstick>],
    report: &mut dyn FnMut(&PartRow),
) -> Result<(), PartsError> {
    let parts = [
        (
            format!("munk get, {value_bytes} B"),
            Read::Get,
            Target::TimesLmdb(0.5),
        ),
        (
            format!("munk scan of 1,000, {value_bytes} B, touched"),
            Read::ScanTouch,
            Target::ShareOf("LMDB", 2.0),
        ),
        (
            format!("munk scan of 1,000, {value_bytes} B, copied"),
            Read::ScanCopy,
            Target::ShareOf("LMDB", 2.0),
        ),
    ];
    let absorbing = format!("absorb 1 % in a chunk, {value_bytes} B");
    if !parts.iter().any(|(part, ..)| settings.wants(part)) && !settings.wants(&absorbing) {
        return Ok(());
    }
    let dataset = Dataset::of_size(settings.data_bytes, value_bytes, 1);
    let value = value_of(&dataset);
    let records = (0..dataset.records).map(|record| (key_of(record).to_vec(), &value[..]));
    let munks = MunkSet::build(records, CHUNK_BYTES as usize);
    for yardstick in yardsticks.iter_mut() {
        yardstick.clear()?;
        yardstick.put_all(dataset.records, &mut |record, put| {
            put(&key_of(record), &value)
        })?;
    }
    for (part, read, target) in parts.iter().filter(|(part, ..)| settings.wants(part)) {
        let mut ours = Vec::new();
        let mut beside = vec![Vec::new(); yardsticks.len()];
        for round in 0..settings.rounds {
            ours.push(read_round(settings, &dataset, *read, round, &Munks(&munks)));
            for (yardstick, figures) in yardsticks.iter().zip(&mut beside) {
                yardstick.read(&mut |reader| {
                    figures.push(read_round(settings, &dataset, *read, round, reader));
                })?;
            }
        }
        report(&PartRow {
            part: part.clone(),
            unit: if matches!(read, Read::Get) {
                "ns"
            } else {
                "M/s"
            },
            figure: median(ours),
            beside: named(yardsticks, beside),
            target: *target,
        });
    }
    if settings.wants(&absorbing) {
        absorb(&absorbing, &dataset, &munks, &value, report);
    }
    Ok(())
}

/// Absorbing deltas with one in a hundred of the records, for a chunk.
fn absorb(
    part: &str,
    dataset: &Dataset,
    munks: &MunkSet,
    value: &[u8],
    report: &mut dyn FnMut(&PartRow),
) {
    let deltas = DeltaSet::beside(munks);
    let mut random = Random::new(2, 0);
    for version in 0..dataset.records / 100 {
        deltas.put(&key_of(random.below(dataset.records)), value, version);
    }
    let started = CpuClock::start();
    let after = munks.absorb(&deltas);
    let elapsed = started.elapsed();
    assert!(after.bytes() > 0, "the munks are there");
    report(&PartRow {
        part: part.to_owned(),
        unit: "us",
        figure: elapsed.as_secs_f64() * 1e6 / munks.chunks() as f64,
        beside: Vec::new(),
        target: Target::None,
    });
}

struct Munks<'a>(&'a MunkSet);

impl Reader for Munks<'_> {
    fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        self.0.get(key, each)
    }

    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize {
        self.0.scan(from, limit, each)
    }
}

/// Nanoseconds of a get, or millions of records a second of a scan.
pub(super) fn get_round(
    settings: &PartsSettings,
    dataset: &Dataset,
    round: usize,
    reader: &dyn Reader,
) -> f64 {
    read_round(settings, dataset, Read::Get, round, reader)
}

/// Millions of records a second, for scans that touch the values.
pub(super) fn scan_round(
    settings: &PartsSettings,
    dataset: &Dataset,
    round: usize,
    reader: &dyn Reader,
) -> f64 {
    read_round(settings, dataset, Read::ScanTouch, round, reader)
}

fn read_round(
    settings: &PartsSettings,
    dataset: &Dataset,
    read: Read,
    round: usize,
    reader: &dyn Reader,
) -> f64 {
    let mut random = Random::new(3, round as u64);
    let mut copy = vec![0; dataset.values.value_bytes() + 64];
    let length = dataset.values.value_bytes();
    if matches!(read, Read::Get) {
        return per_operation(settings.operations, || {
            let key = key_of(random.below(dataset.records));
            let found = reader.get(&key, &mut |value| {
                copy[..length].copy_from_slice(value);
            });
            assert!(found, "the record is there");
            std::hint::black_box(&copy);
        });
    }
    let from_max = dataset.records.saturating_sub(SCAN_RECORDS as u64).max(1);
    let expected = SCAN_RECORDS.min(dataset.records as usize);
    let (mut sum, mut lent) = (0u64, 0);
    let started = CpuClock::start();
    for _ in 0..(settings.operations / 100).max(1) {
        let key = key_of(random.below(from_max));
        let count = if matches!(read, Read::ScanCopy) {
            reader.scan(&key, SCAN_RECORDS, &mut |_, value| {
                copy[..length].copy_from_slice(value);
                std::hint::black_box(&copy);
            })
        } else {
            reader.scan(&key, SCAN_RECORDS, &mut |key, value| {
                let word = value
                    .first_chunk::<8>()
                    .map_or(0, |word| u64::from_le_bytes(*word));
                sum = sum
                    .wrapping_add(word)
                    .wrapping_add(u64::from(key[key.len() - 1]));
            })
        };
        assert!(count == expected, "the records are there");
        lent += count;
    }
    std::hint::black_box(sum);
    lent as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn value_of(dataset: &Dataset) -> Vec<u8> {
    let mut value = Vec::new();
    dataset.values.fill(0, 0, &mut value);
    value
}

fn chunk_lows(dataset: &Dataset) -> Vec<Vec<u8>> {
    let records_per_chunk = (CHUNK_BYTES / dataset.record_bytes()).max(1);
    let chunks = dataset.records.div_ceil(records_per_chunk);
    let lows = (0..chunks).map(|chunk| key_of(chunk * records_per_chunk).to_vec());
    lows.collect()
}

fn named(yardsticks: &[Box<dyn Yardstick>], figures: Vec<Vec<f64>>) -> Vec<(String, f64)> {
    let names = yardsticks
        .iter()
        .map(|yardstick| yardstick.name().to_owned());
    names.zip(figures.into_iter().map(median)).collect()
}

/// Nanoseconds of one of `count` calls.
fn per_operation(count: u64, mut operation: impl FnMut()) -> f64 {
    let started = CpuClock::start();
    for _ in 0..count {
        operation();
    }
    nanos(started.elapsed(), count)
}

fn nanos(elapsed: Duration, count: u64) -> f64 {
    elapsed.as_secs_f64() * 1e9 / count as f64
}
