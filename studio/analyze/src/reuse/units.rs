//! The units of each grain that are read: their number, their reads, and a sample of them, in one
//! pass over the keys in order.
//!
//! Each unit has a hash from 0 to 1 and a weight: 1, plus its reads divided by the mean. The sample
//! is the units whose hash divided by their weight is least, so that it does not depend on the
//! order of operations. `q` is the quotient of the first unit that is not in it. A unit of weight
//! `w` was in the sample with the probability `min(1, w q)`. It stands for a number of units: the
//! inverse of that probability (priority sampling: Duffield and others, 2007). With equal weights
//! chance would decide whether the hottest units are in the sample, and miss ratios would be off by
//! their share of the reads.
//!
//! Memory: for one keyspace the keys at both ends of each sampled unit; for all keyspaces the
//! number of units with each number of reads.

use crate::error::Result;
use crate::functions::{GRAINS, bytes, number_hash, numbers, text};
use crate::places::Place;
use crate::session::Session;
use crate::tables;
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray, UInt32Array};
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::sync::Arc;

/// The reads of one keyspace.
pub(crate) struct Reads {
    pub(crate) keyspace: String,
    pub(crate) accesses: u64,
    pub(crate) grains: [Grain; GRAINS.len()],
}

/// The units of one grain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grain {
    /// Mean bytes of a unit.
    pub(crate) unit_bytes: f64,
    /// Units that were read.
    pub(crate) units: u64,
    /// By number of reads: the number of units.
    pub(crate) counts: BTreeMap<u64, u64>,
    /// The number of units that each unit of the sample stands for, in their order.
    pub(crate) sample: Vec<f64>,
}

impl Grain {
    /// The share of all `accesses` that the hottest units have. They are this share of the units,
    /// rounded up.
    pub(crate) fn share_of_hottest(&self, share: f64, accesses: u64) -> f64 {
        let mut left = (self.units as f64 * share).ceil() as u64;
        let mut sum = 0;
        for (count, units) in self.counts.iter().rev() {
            let taken = left.min(*units);
            sum += taken * count;
            left -= taken;
        }
        sum as f64 / accesses as f64
    }
}

/// Finds the units of all keyspaces that are read, and writes the sample to the file `units` for
/// `sampled_units()`.
pub(crate) async fn find(session: &Session, places: &[Place]) -> Result<Vec<Reads>> {
    let sql = format!(
        "SELECT keyspace, key, id, accesses FROM keys WHERE kind IN {} ORDER BY keyspace, key, kind",
        tables::reads()
    );
    let mut rows = session.stream(&sql).await?;
    let mut file = tables::writer(
        sample_rows(&[], "", 0)?.schema(),
        &session.table_file("units"),
    )?;
    let mut all: Vec<Reads> = Vec::new();
    let mut open: Option<Pass<'_>> = None;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keyspaces, keys) = (text(&batch, "keyspace")?, bytes(&batch, "key")?);
        let (ids, accesses) = (numbers(&batch, "id")?, numbers(&batch, "accesses")?);
        for (row, (keyspace, key)) in keyspaces.iter().zip(keys.iter()).enumerate() {
            let keyspace = keyspace.unwrap_or_default();
            if open
                .as_ref()
                .is_none_or(|open| open.place.keyspace != keyspace)
            {
                end(open.take(), &mut all, &mut file)?;
                let place = places.iter().find(|place| place.keyspace == keyspace);
                open = place.map(Pass::new);
            }
            if let Some(open) = &mut open {
                open.add(key.unwrap_or_default(), ids[row], accesses[row]);
            }
        }
    }
    end(open, &mut all, &mut file)?;
    file.close()?;
    Ok(all)
}

/// Ends the pass over a keyspace.
fn end(pass: Option<Pass<'_>>, all: &mut Vec<Reads>, file: &mut ArrowWriter<File>) -> Result<()> {
    let Some(pass) = pass else {
        return Ok(());
    };
    let (reads, sampled) = pass.finish();
    for (grain, sampled) in (0..).zip(sampled) {
        let rows = sampled.into_iter().map(|unit| (grain, unit));
        let rows: Vec<(u32, Sampled)> = rows.collect();
        file.write(&sample_rows(&rows, &reads.keyspace, all.len() as u32)?)?;
    }
    all.push(reads);
    Ok(())
}

/// Rows of the file `units`. Units of a grain are numbered in their order.
fn sample_rows(units: &[(u32, Sampled)], keyspace: &str, ordinal: u32) -> Result<RecordBatch> {
    let keys = |of: &dyn Fn(&Sampled) -> &[u8]| -> ArrayRef {
        let keys = units.iter().map(|(_, unit)| Some(of(unit)));
        Arc::new(keys.collect::<BinaryArray>())
    };
    let names = StringArray::from(vec![keyspace; units.len()]);
    let grains: UInt32Array = units.iter().map(|(grain, _)| Some(*grain)).collect();
    let columns: [(&str, ArrayRef); 6] = [
        ("keyspace", Arc::new(names)),
        (
            "ordinal",
            Arc::new(UInt32Array::from(vec![ordinal; units.len()])),
        ),
        ("grain", Arc::new(grains)),
        (
            "unit",
            Arc::new(UInt32Array::from_iter_values(0..units.len() as u32)),
        ),
        ("first_key", keys(&|unit| &unit.first_key)),
        ("last_key", keys(&|unit| &unit.last_key)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// A unit of the sample. It is ordered by its quotient.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Sampled {
    /// Its hash divided by its weight, a number that is not below 0, as bits: bits have the same
    /// order.
    quotient: u64,
    number: u64,
    weight: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// The pass over the keys of one keyspace.
struct Pass<'a> {
    place: &'a Place,
    accesses: u64,
    keys: u64,
    last: Vec<u8>,
    prefixes: u64,
    grains: [Units; GRAINS.len()],
}

/// The units of one grain so far.
struct Units {
    of: Grain,
    limit: usize,
    /// The expected reads of a unit: with these it weighs 2.
    mean: f64,
    /// The number of the unit that held the last key, its accesses, and its keys at both ends.
    open: Option<(u64, u64)>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// The sample, and among the other units the one with the least quotient.
    least: BinaryHeap<Sampled>,
}

impl<'a> Pass<'a> {
    fn new(place: &'a Place) -> Pass<'a> {
        let pairs = [
            1.0,
            place.block_pairs as f64,
            place.chunk_pairs as f64,
            place.prefix_pairs,
        ];
        let units = |grain: usize| Units {
            of: Grain {
                unit_bytes: place.pair_bytes * pairs[grain],
                ..Grain::default()
            },
            limit: place.sampled_units,
            mean: place.reads_per_key * pairs[grain],
            open: None,
            first_key: Vec::new(),
            last_key: Vec::new(),
            least: BinaryHeap::new(),
        };
        Pass {
            place,
            accesses: 0,
            keys: 0,
            last: Vec::new(),
            prefixes: 0,
            grains: std::array::from_fn(units),
        }
    }

    fn add(&mut self, key: &[u8], id: u64, accesses: u64) {
        self.accesses += accesses;
        if self.keys == 0 || self.last != key {
            let length = usize::try_from(self.place.prefix_bytes).unwrap_or(usize::MAX);
            if self.keys > 0 && prefix(key, length) != prefix(&self.last, length) {
                self.prefixes += 1;
            }
            self.keys += 1;
            key.clone_into(&mut self.last);
        }
        let numbers = [
            id,
            id / self.place.block_pairs,
            id / self.place.chunk_pairs,
            self.prefixes,
        ];
        for (units, number) in self.grains.iter_mut().zip(numbers) {
            units.add(number, key, accesses);
        }
    }

    /// The reads of the keyspace, and the sample of each grain in key order.
    fn finish(self) -> (Reads, [Vec<Sampled>; GRAINS.len()]) {
        let mut grains: [Grain; GRAINS.len()] = Default::default();
        let mut samples: [Vec<Sampled>; GRAINS.len()] = Default::default();
        for (at, units) in self.grains.into_iter().enumerate() {
            (grains[at], samples[at]) = units.finish();
        }
        let reads = Reads {
            keyspace: self.place.keyspace.clone(),
            accesses: self.accesses,
            grains,
        };
        (reads, samples)
    }
}

fn prefix(key: &[u8], length: usize) -> &[u8] {
    &key[..length.min(key.len())]
}

impl Units {
    fn add(&mut self, number: u64, key: &[u8], accesses: u64) {
        match &mut self.open {
            Some((open, so_far)) if *open == number => *so_far += accesses,
            _ => {
                self.end_unit();
                self.open = Some((number, accesses));
                key.clone_into(&mut self.first_key);
            }
        }
        key.clone_into(&mut self.last_key);
    }

    fn end_unit(&mut self) {
        let Some((number, accesses)) = self.open.take() else {
            return;
        };
        self.of.units += 1;
        *self.of.counts.entry(accesses).or_default() += 1;
        let weight = 1.0 + accesses as f64 / self.mean;
        let quotient = (number_hash(number) as f64 / 2f64.powi(64) / weight).to_bits();
        let is_full = self.least.len() > self.limit;
        if is_full
            && self
                .least
                .peek()
                .is_some_and(|most| quotient >= most.quotient)
        {
            return;
        }
        self.least.push(Sampled {
            quotient,
            number,
            weight: weight.to_bits(),
            first_key: self.first_key.clone(),
            last_key: self.last_key.clone(),
        });
        if is_full {
            self.least.pop();
        }
    }

    fn finish(mut self) -> (Grain, Vec<Sampled>) {
        self.end_unit();
        let mut quotient = f64::INFINITY;
        if self.least.len() > self.limit {
            quotient = self
                .least
                .pop()
                .map_or(quotient, |most| f64::from_bits(most.quotient));
        }
        let mut sample = self.least.into_vec();
        sample.sort_unstable_by_key(|unit| unit.number);
        let stands_for = |unit: &Sampled| (1.0 / (f64::from_bits(unit.weight) * quotient)).max(1.0);
        self.of.sample = sample.iter().map(stands_for).collect();
        (self.of, sample)
    }
}
