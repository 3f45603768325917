//! The pairs of a claim, which of them are there, and the workers that put, get, seek and delete
//! them.
//!
//! ```text
//!   record:   0 ........ n | n ........ 2n | 2n ...        n pairs of each generation
//!             deleted        [ order(0) .. order(gone) | order(gone) .. order(n) ]
//!                              deleted                    there, at random places of the key space
//! ```
//! One random order serves all: pairs are put in it, deleted from its beginning on, and drawn from
//! the rest. So the pairs that are there are known without a table of events: a get must find its
//! pair, and a scan must yield exactly the pairs that are there.
//!
//! A phase's workers share a cursor and a copy of [`Pairs`], which changes between phases only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::{Dataset, KEY_BYTES, key_of, record_of};
use crate::driver::Worker;
use crate::mix::thoroughness;
use crate::permutation::Permutation;
use crate::random::Random;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;

/// The pairs that are there.
#[derive(Clone, Debug)]
pub struct Pairs {
    dataset: Dataset,
    order: Permutation,
    generation: u64,
    /// The number of deleted pairs of the generation, from the beginning of its order on.
    gone: u64,
    /// A bit for each pair of the generation that is gone. Empty if no pair is gone.
    gone_bits: Arc<[u64]>,
}

impl Pairs {
    /// Generations of this number of pairs. No pair was put yet.
    pub fn new(pairs: u64, value_bytes: usize, seed: u64) -> Pairs {
        Pairs {
            dataset: Dataset::new(pairs, value_bytes, seed),
            order: Permutation::new(pairs, seed),
            generation: 0,
            gone: pairs,
            gone_bits: Arc::new([]),
        }
    }

    /// The first generation, for workers that know of no other.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The number of pairs of the generation that were deleted, or not put yet.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Bytes of the keys and values that are there.
    pub fn live_bytes(&self) -> u64 {
        (self.dataset.records - self.gone) * self.dataset.record_bytes()
    }

    /// Notes that all pairs of this generation were put.
    pub fn put_all(&mut self, generation: u64) {
        (self.generation, self.gone) = (generation, 0);
        self.gone_bits = Arc::new([]);
    }

    /// Notes that this number of further pairs was deleted, or all that are left.
    pub fn delete(&mut self, pairs: u64) {
        self.gone = (self.gone + pairs).min(self.dataset.records);
        let mut bits = vec![0; self.dataset.records.div_ceil(64) as usize];
        for taken in 0..self.gone {
            let record = self.order.apply(taken);
            bits[(record / 64) as usize] |= 1 << (record % 64);
        }
        self.gone_bits = bits.into();
    }

    fn record_at(&self, generation: u64, place: u64) -> u64 {
        generation * self.dataset.records + self.order.apply(place)
    }

    /// A random pair that is there.
    fn any(&self, random: &mut Random) -> u64 {
        let place = self.gone + random.below(self.dataset.records - self.gone);
        self.record_at(self.generation, place)
    }

    /// The first pair that is there, from this record on.
    fn first_from(&self, record: u64) -> Option<u64> {
        let begin = self.generation * self.dataset.records;
        let mut there = (record..begin + self.dataset.records).filter(|record| {
            let place = record - begin;
            let word = self.gone_bits.get((place / 64) as usize);
            word.is_none_or(|word| word >> (place % 64) & 1 == 0)
        });
        there.next()
    }
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Puts the pairs of a generation, in order.
    Fill(u64),
    /// Deletes the next pairs in order.
    Delete,
    /// Puts pairs again.
    Overwrite,
    Get,
    /// Reads this number of pairs, beginning with a random one.
    Scan(usize),
}

/// Does one task on one thread.
pub struct PairWorker {
    task: Task,
    pairs: Pairs,
    /// The number of places of the order that are taken.
    cursor: Arc<AtomicU64>,
    random: Random,
    /// Distinguishes the values that are put.
    version: u64,
    value: Vec<u8>,
    reads: u64,
}

impl PairWorker {
    /// The worker of a thread; `stream` chooses the random numbers of a phase.
    pub fn new(
        task: Task,
        pairs: &Pairs,
        cursor: &Arc<AtomicU64>,
        (stream, thread): (u64, usize),
    ) -> PairWorker {
        let stream = (stream << 16) | thread as u64;
        PairWorker {
            task,
            pairs: pairs.clone(),
            cursor: Arc::clone(cursor),
            random: Random::new(pairs.dataset.seed, stream),
            version: stream << 32,
            value: Vec::new(),
            reads: 0,
        }
    }

    /// The next place of the order, to put or delete.
    fn take(&self) -> Option<u64> {
        let place = self.cursor.fetch_add(1, Ordering::Relaxed);
        (place < self.pairs.dataset.records).then_some(place)
    }

    fn put(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        record: u64,
    ) -> Result<(), RunError> {
        let dataset = &self.pairs.dataset;
        self.version += 1;
        dataset.values.fill(record, self.version, &mut self.value);
        let (key, value) = (key_of(record), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        recorder.user_bytes_written += dataset.record_bytes();
        Ok(())
    }

    fn get(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let record = self.pairs.any(&mut self.random);
        let (key, dataset) = (key_of(record), &self.pairs.dataset);
        self.reads += 1;
        let (reads, mut checked) = (self.reads, Ok(()));
        let found = recorder.time(OperationKind::Get, || {
            store.get(&key, &mut |value| {
                checked = dataset.values.check(record, value, thoroughness(reads));
            })
        })?;
        checked.map_err(|fault| wrong(record, fault))?;
        if !found {
            return Err(wrong(record, "it is missing"));
        }
        recorder.user_bytes_read += dataset.record_bytes();
        Ok(())
    }

    fn scan(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        length: usize,
    ) -> Result<(), RunError> {
        let start = self.pairs.any(&mut self.random);
        let (pairs, values) = (&self.pairs, &self.pairs.dataset.values);
        let (mut next, mut fault) = (Some(start), None);
        let reads = self.reads;
        let lent = recorder.time(OperationKind::Scan, || {
            store.scan(&key_of(start), length, &mut |key, value| {
                let found = record_of(key);
                fault = match (next, found) {
                    (Some(expected), Some(found)) if expected == found => values
                        .check(found, value, thoroughness(reads + found))
                        .err()
                        .map(|why| why.to_string()),
                    _ => Some(format!("a scan yielded record {found:?} in its place")),
                };
                if fault.is_none() {
                    next = next.and_then(|record| pairs.first_from(record + 1));
                }
                fault.is_none()
            })
        })?;
        if let Some(fault) = fault {
            return Err(wrong(next.unwrap_or(start), fault));
        }
        if let Some(missing) = next.filter(|_| lent < length) {
            return Err(wrong(missing, "a scan ended before it"));
        }
        self.reads += lent as u64;
        recorder.records_scanned += lent as u64;
        recorder.user_bytes_read += lent as u64 * pairs.dataset.record_bytes();
        Ok(())
    }
}

impl Worker for PairWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        match self.task {
            Task::Fill(generation) => {
                let Some(place) = self.take() else {
                    return Ok(false);
                };
                let record = self.pairs.record_at(generation, place);
                self.put(store, recorder, record)?;
            }
            Task::Delete => {
                let Some(place) = self.take() else {
                    return Ok(false);
                };
                let record = self.pairs.record_at(self.pairs.generation, place);
                let key = key_of(record);
                recorder.time(OperationKind::Delete, || store.delete(&key))?;
                recorder.user_bytes_written += KEY_BYTES as u64;
            }
            Task::Overwrite => {
                let record = self.pairs.any(&mut self.random);
                self.put(store, recorder, record)?;
            }
            Task::Get => self.get(store, recorder)?,
            Task::Scan(length) => self.scan(store, recorder, length)?,
        }
        Ok(true)
    }
}

fn wrong(record: u64, what: impl fmt::Display) -> RunError {
    RunError::Wrong(format!("record {record}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{self, Limit, NoProgress, Phase};
    use crate::stores::memory::{Fault, MemoryStore};
    use std::sync::atomic::AtomicBool;

    fn run(
        store: &MemoryStore,
        pairs: &Pairs,
        task: Task,
        from: u64,
        operations: u64,
    ) -> Result<u64, RunError> {
        let cursor = Arc::new(AtomicU64::new(from));
        let phase = Phase {
            limit: Limit::operations(operations),
            ..Phase::new("test", 2)
        };
        let never = AtomicBool::new(false);
        let result = driver::run(store, &phase, &never, &NoProgress, &|thread| {
            Box::new(PairWorker::new(task, pairs, &cursor, (1, thread)))
        });
        result.map(|result| result.operations)
    }

    /// 500 pairs: 200 of them are deleted, and the others are put again.
    fn aged(store: &MemoryStore) -> Pairs {
        let mut pairs = Pairs::new(500, 40, 3);
        assert_eq!(pairs.live_bytes(), 0);
        assert_eq!(run(store, &pairs, Task::Fill(0), 0, 1000).unwrap(), 500);
        pairs.put_all(0);
        assert_eq!(run(store, &pairs, Task::Delete, 0, 200).unwrap(), 200);
        pairs.delete(200);
        assert_eq!(pairs.live_bytes(), 300 * (40 + KEY_BYTES as u64));
        assert_eq!(run(store, &pairs, Task::Overwrite, 0, 300).unwrap(), 300);
        pairs
    }

    #[test]
    fn what_is_there_is_found_after_deletes_and_a_new_generation() {
        let store = MemoryStore::new();
        let mut pairs = aged(&store);
        for task in [Task::Get, Task::Scan(1), Task::Scan(700), Task::Scan(5)] {
            assert_eq!(run(&store, &pairs, task, 0, 400).unwrap(), 400, "{task:?}");
        }
        assert_eq!(run(&store, &pairs, Task::Delete, 200, 1000).unwrap(), 300);
        pairs.delete(500);
        assert_eq!(pairs.live_bytes(), 0);
        run(&store, &pairs, Task::Fill(1), 0, 1000).unwrap();
        pairs.put_all(1);
        for task in [Task::Get, Task::Scan(700)] {
            assert_eq!(run(&store, &pairs, task, 0, 100).unwrap(), 100, "{task:?}");
        }
    }

    #[test]
    fn what_is_lost_or_comes_back_is_seen() {
        let store = MemoryStore::new();
        let pairs = aged(&store);
        let (there, gone) = (pairs.first_from(0).unwrap(), pairs.order.apply(0));
        store.delete(&key_of(there)).unwrap();
        for task in [Task::Get, Task::Scan(500)] {
            let error = run(&store, &pairs, task, 0, 10_000).unwrap_err();
            assert!(matches!(error, RunError::Wrong(_)), "{task:?}: {error}");
        }
        let store = MemoryStore::new();
        let pairs = aged(&store);
        store.put(&key_of(gone), b"anything").unwrap();
        let error = run(&store, &pairs, Task::Scan(500), 0, 10_000).unwrap_err();
        assert!(error.to_string().contains("in its place"), "{error}");
        let store = MemoryStore::with_fault(Fault::FlipBit);
        let mut pairs = Pairs::new(500, 40, 3);
        run(&store, &pairs, Task::Fill(0), 0, 500).unwrap();
        pairs.put_all(0);
        assert!(run(&store, &pairs, Task::Get, 0, 10_000).is_err());
    }
}
