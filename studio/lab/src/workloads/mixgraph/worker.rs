//! The work of one thread: it puts all pairs, or carries out the model's operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::allocation::KeyChooser;
use super::{Family, Kind, Load};
use crate::driver::Worker;
use crate::mix::{OwnPuts, thoroughness};
use crate::permutation::Permutation;
use crate::purposes::given;
use crate::random::{Random, mix64};
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;

/// Puts all pairs, each once, in random order.
pub struct FillWorker {
    load: Arc<Load>,
    /// The number of pairs that were taken, by all workers together.
    taken: Arc<AtomicU64>,
    order: Permutation,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl FillWorker {
    /// A worker that shares `taken`, which begins at zero, with others.
    #[must_use]
    pub fn new(load: &Arc<Load>, taken: &Arc<AtomicU64>) -> Self {
        Self {
            order: load.fill_order(),
            load: Arc::clone(load),
            taken: Arc::clone(taken),
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Worker for FillWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        if number >= self.load.pairs() {
            return Ok(false);
        }
        let (keyspace, pair) = self.load.pair_at(self.order.apply(number));
        let records = &self.load.families[keyspace].records;
        records.write_key(pair, &mut self.key);
        records.write_value(pair, 0, &mut self.value);
        recorder.time(OperationKind::Put, || store.put(&self.key, &self.value))?;
        recorder.user_bytes_written += (self.key.len() + self.value.len()) as u64;
        Ok(true)
    }
}

/// Carries out a model's operations on one thread.
pub struct ModelWorker {
    load: Arc<Load>,
    keyspaces: Random,
    /// The number of the keyspace of the operation that is drawn.
    keyspace: usize,
    kinds: Random,
    /// One for each keyspace.
    pairs: Vec<KeyChooser>,
    lengths: Random,
    own_puts: OwnPuts,
    key: Vec<u8>,
    value: Vec<u8>,
    reads: u64,
}

impl ModelWorker {
    /// The worker of thread `thread` in the phase `phase` (both only choose the random numbers).
    #[must_use]
    pub fn new(load: &Arc<Load>, phase: u64, thread: usize) -> Self {
        let stream = |what: u64| {
            Random::new(
                load.seed ^ what.rotate_left(48),
                (phase << 16) | thread as u64,
            )
        };
        let pairs = load.families.iter().enumerate();
        let pairs = pairs.map(|(number, family)| {
            let random = match number {
                0 => stream(2),
                number => stream(2 ^ mix64(number as u64)),
            };
            family.space.chooser(random)
        });
        Self {
            keyspaces: stream(5),
            keyspace: 0,
            kinds: stream(1),
            pairs: pairs.collect(),
            lengths: stream(3),
            own_puts: OwnPuts::new(stream(4).next_u64()),
            load: Arc::clone(load),
            key: Vec::new(),
            value: Vec::new(),
            reads: 0,
        }
    }

    /// The number of the keyspace of the next operation. What is drawn of the operation after this
    /// is by the model of that keyspace. Before the first call it is keyspace 0.
    pub fn next_keyspace(&mut self) -> usize {
        let all = &self.load.workload.keyspaces;
        if all.len() == 1 {
            return 0;
        }
        let mut left = self.keyspaces.unit();
        for (number, keyspace) in all.iter().enumerate() {
            left -= keyspace.share;
            if keyspace.share > 0.0 {
                // What rounding leaves of the shares belongs to the last.
                self.keyspace = number;
                if left < 0.0 {
                    break;
                }
            }
        }
        self.keyspace
    }

    fn family(&self) -> &Family {
        &self.load.families[self.keyspace]
    }

    /// The kind of the next operation.
    pub fn next_kind(&mut self) -> Kind {
        let mix = self.family().model.mix;
        let mut left = self.kinds.unit();
        let mut last = Kind::Get;
        for kind in Kind::ALL {
            let share = mix.share(kind);
            if share == 0.0 {
                continue;
            }
            left -= share;
            if left < 0.0 {
                return kind;
            }
            last = kind;
        }
        // What rounding leaves of the shares belongs to the last.
        last
    }

    /// The pair of the next operation, which is of this kind.
    pub fn next_pair(&mut self, kind: Kind) -> u64 {
        self.pairs[self.keyspace].pair(kind)
    }

    /// The length of the next scan.
    pub fn next_length(&mut self) -> u64 {
        let unit = self.lengths.unit();
        let lengths = self.family().model.scans.as_ref();
        lengths.map_or(1, |lengths| lengths.quantile(unit))
    }

    /// The size and the generation of the value in the next put of this pair.
    pub fn next_value(&mut self, pair: u64) -> (u64, u64) {
        let generation = self.own_puts.next_generation();
        let bytes = self.family().records.value_bytes(pair, generation);
        (bytes, generation)
    }

    fn get(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let pair = self.next_pair(Kind::Get);
        let records = &self.load.families[self.keyspace].records;
        let key = &mut self.key;
        records.write_key(pair, key);
        self.reads += 1;
        let thoroughness = thoroughness(self.reads);
        let (mut checked, mut bytes) = (Ok(None), 0);
        let found = recorder.time(OperationKind::Get, || {
            store.get(key, &mut |value| {
                bytes = value.len();
                checked = records.check(pair, value, thoroughness);
            })
        })?;
        let generation = checked.map_err(|why| self.wrong("get", &why))?;
        if !found {
            self.load.absent.fetch_add(1, Ordering::Relaxed);
            return match self.family().model.mix.delete > 0.0 {
                true => Ok(()),
                false => Err(self.wrong("get", "the pair is missing")),
            };
        }
        let record = self.family().records.number(pair);
        if generation.is_some_and(|generation| self.own_puts.is_stale(record, generation)) {
            return Err(self.wrong("get", "the value was overwritten before"));
        }
        recorder.user_bytes_read += (self.key.len() + bytes) as u64;
        Ok(())
    }

    fn put(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let pair = self.next_pair(Kind::Put);
        let generation = self.own_puts.next_generation();
        let records = &self.load.families[self.keyspace].records;
        records.write_key(pair, &mut self.key);
        records.write_value(pair, generation, &mut self.value);
        recorder.time(OperationKind::Put, || store.put(&self.key, &self.value))?;
        self.own_puts.acknowledged(records.number(pair), generation);
        recorder.user_bytes_written += (self.key.len() + self.value.len()) as u64;
        Ok(())
    }

    fn delete(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let pair = self.next_pair(Kind::Delete);
        let family = &self.load.families[self.keyspace];
        family.records.write_key(pair, &mut self.key);
        recorder.time(OperationKind::Delete, || store.delete(&self.key))?;
        recorder.user_bytes_written += self.key.len() as u64;
        Ok(())
    }

    fn merge(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let counters = given(store, store.counters(), "add")?;
        let pair = self.next_pair(Kind::Merge);
        let family = &self.load.families[self.keyspace];
        family.records.write_key(pair, &mut self.key);
        recorder.time(OperationKind::Merge, || counters.add(&self.key, 1))?;
        family.additions.fetch_add(1, Ordering::Relaxed);
        recorder.user_bytes_written += self.key.len() as u64 + 8;
        Ok(())
    }

    fn scan(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let (start, length) = (self.next_pair(Kind::Scan), self.next_length());
        let family = &self.load.families[self.keyspace];
        let (records, model) = (&family.records, &family.model);
        let (pairs, holes) = (model.pairs, model.mix.delete > 0.0);
        records.write_key(start, &mut self.key);
        let (mut next, mut lent, mut bytes, mut fault) = (start, 0u64, 0, None);
        let reads = self.reads;
        recorder.time(OperationKind::Scan, || {
            store.scan(&self.key, length as usize, &mut |key, value| {
                if !key.starts_with(records.prefix()) {
                    // The keyspace ends here.
                    return false;
                }
                let pair = records
                    .pair_of(key)
                    .filter(|pair| *pair == next || holes && *pair > next);
                let Some(pair) = pair else {
                    fault = Some(format!("the scan yielded key `{}`", key.escape_ascii()));
                    return false;
                };
                fault = records.check(pair, value, thoroughness(reads + lent)).err();
                (next, lent) = (pair + 1, lent + 1);
                bytes += (key.len() + value.len()) as u64;
                fault.is_none()
            })
        })?;
        if let Some(fault) = fault {
            return Err(self.wrong("scan", &fault));
        }
        let expected = length.min(pairs - start);
        if lent > expected || !holes && lent < expected {
            return Err(self.wrong("scan", &format!("{lent} of {expected} pairs came")));
        }
        self.reads += lent;
        recorder.records_scanned += lent;
        recorder.user_bytes_read += bytes;
        Ok(())
    }

    fn wrong(&self, operation: &str, what: &str) -> RunError {
        let key = self.key.escape_ascii();
        let keyspace = match self.load.is_of_several() {
            true => format!(" of keyspace {}", self.family().name),
            false => String::new(),
        };
        RunError::Wrong(format!("{operation} of key `{key}`{keyspace}: {what}"))
    }
}

impl Worker for ModelWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        self.next_keyspace();
        match self.next_kind() {
            Kind::Get => self.get(store, recorder)?,
            Kind::Put => self.put(store, recorder)?,
            Kind::Delete => self.delete(store, recorder)?,
            Kind::Merge => self.merge(store, recorder)?,
            Kind::Scan => self.scan(store, recorder)?,
        }
        Ok(true)
    }
}
