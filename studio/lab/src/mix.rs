//! The operation mixes of the paper and of YCSB, and the worker that carries them out.
//!
//! | mix | operations |
//! |---|---|
//! | P | 100 % put |
//! | A | 50 % put, 50 % get |
//! | B | 5 % put, 95 % get |
//! | C | 100 % get |
//! | D | 5 % insertion of new records, 95 % get of recent ones (always `latest`) |
//! | E10, E100, E1000 (any number) | 5 % put, 95 % scan of 1 to that many records, uniformly |
//! | F | 100 % get, then put of the same key |
//!
//! Puts overwrite records of the data set (the paper's put-only test too); only D grows it. Every
//! get must find its record and every scan must yield exactly the consecutive records. A get whose
//! value is older than one that the same thread put lately is an error too (`OwnPuts`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::dataset::{Dataset, key_of, record_of};
use crate::distribution::{Chooser, Distribution, DistributionKind};
use crate::driver::Worker;
use crate::permutation::Permutation;
use crate::random::{Random, mix64};
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::{Thoroughness, generation_of};

/// One in this many values is compared whole, the others at some spots.
const WHOLE_CHECK_EVERY: u64 = 64;

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Puts only.
    P,
    /// Half puts, half gets.
    A,
    /// Mostly gets.
    B,
    /// Gets only.
    C,
    /// Gets of records that were inserted lately, and insertions.
    D,
    /// Scans of up to this number of records, and a few puts.
    E(u32),
    /// Read, modify, write.
    F,
}

impl Mix {
    /// Percent of put, insertion, scan and read-modify-write; the rest are gets.
    fn percents(self) -> [u64; 4] {
        match self {
            Self::P => [100, 0, 0, 0],
            Self::A => [50, 0, 0, 0],
            Self::B => [5, 0, 0, 0],
            Self::C => [0, 0, 0, 0],
            Self::D => [0, 5, 0, 0],
            Self::E(_) => [5, 0, 95, 0],
            Self::F => [0, 0, 0, 100],
        }
    }

    /// Whether the mix writes, so that it may leave a debt behind.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::C
    }

    /// The mix that warms a store for this one. It has reads of the same kind, since a store may
    /// keep other things for gets than for scans. It has no writes, except the few of E: they would
    /// leave a debt that is not the phase's. Puts alone are warmed by puts, so that memory for new
    /// records is as full as it stays.
    #[must_use]
    pub fn warmed_by(self) -> Self {
        match self {
            Self::P | Self::E(_) => self,
            _ => Self::C,
        }
    }

    /// The distribution this mix runs with when `wanted` is asked for: D always has its own.
    #[must_use]
    pub fn distribution(self, wanted: DistributionKind) -> DistributionKind {
        if self == Self::D {
            DistributionKind::Latest
        } else {
            wanted
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::E(longest) => f.pad(&format!("E{longest}")),
            other => f.pad(&format!("{other:?}")),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "P" => Ok(Self::P),
            "A" => Ok(Self::A),
            "B" => Ok(Self::B),
            "C" => Ok(Self::C),
            "D" => Ok(Self::D),
            "F" => Ok(Self::F),
            other => match other.strip_prefix('E').map(str::parse) {
                Some(Ok(longest)) if longest > 0 => Ok(Self::E(longest)),
                _ => Err(format!(
                    "unknown mix `{text}`; known are P, A, B, C, D, F and E with the longest \
                     scan, as in E100"
                )),
            },
        }
    }
}

/// The number of records while several threads insert at the end.
///
/// `next` hands out numbers. All records below `acknowledged` were put successfully, so each of
/// them must be found.
#[derive(Debug)]
pub struct Population {
    next: AtomicU64,
    /// Stored under `early`'s lock with Release; readers load it with Acquire.
    acknowledged: AtomicU64,
    early: Mutex<BTreeSet<u64>>,
}

impl Population {
    /// A population of `records` records that are all there.
    #[must_use]
    pub fn new(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            acknowledged: AtomicU64::new(records),
            early: Mutex::new(BTreeSet::new()),
        }
    }

    /// Takes the next record number for a put.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The next record number that [`take`](Self::take) will hand out: all below were handed out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Says that the put of `record`, taken before, has succeeded.
    pub fn acknowledge(&self, record: u64) {
        let mut early = self.early.lock();
        early.insert(record);
        let mut present = self.acknowledged.load(Ordering::Relaxed);
        while early.remove(&present) {
            present += 1;
        }
        self.acknowledged.store(present, Ordering::Release);
    }

    /// Records that certainly exist.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }
}

/// The order in which a data set is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LoadOrder {
    /// Keys ascend
    #[default]
    Key,
    /// Keys are in random order, the same in every run with the seed
    Random,
}

impl LoadOrder {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LoadOrder::Key => "key order",
            LoadOrder::Random => "random order",
        }
    }
}

/// Loads a data set; several workers share the population and stay close together.
pub struct LoadWorker {
    dataset: Dataset,
    population: Arc<Population>,
    value: Vec<u8>,
    /// Maps the numbers in which records are taken to the numbers of the records, if they differ.
    shuffled: Option<Permutation>,
}

impl LoadWorker {
    /// A worker that puts the records that the population hands out, up to the data set's end, in
    /// key order.
    #[must_use]
    pub fn new(dataset: Dataset, population: Arc<Population>) -> Self {
        Self::in_order(dataset, population, LoadOrder::Key, 0)
    }

    /// The same worker with another order. All workers of a load need the same seed.
    #[must_use]
    pub fn in_order(
        dataset: Dataset,
        population: Arc<Population>,
        order: LoadOrder,
        seed: u64,
    ) -> Self {
        let shuffles = order == LoadOrder::Random && dataset.records > 0;
        Self {
            shuffled: shuffles.then(|| Permutation::new(dataset.records, seed)),
            dataset,
            population,
            value: Vec::new(),
        }
    }
}

impl Worker for LoadWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        // Numbers taken beyond the end are never acknowledged. A later phase starts with a
        // population of its own.
        let taken = self.population.take();
        if taken >= self.dataset.records {
            return Ok(false);
        }
        let record = self
            .shuffled
            .map_or(taken, |permutation| permutation.apply(taken));
        self.dataset.values.fill(record, 0, &mut self.value);
        let (key, value) = (key_of(record), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        recorder.user_bytes_written += self.dataset.record_bytes();
        self.population.acknowledge(taken);
        Ok(true)
    }
}

/// The latest puts of one thread: the thread notices a value that is older than its own last one.
///
/// Other threads put too, and no order is known among them. But of two values of the same thread
/// the one with the lower generation is older, and the loaded values are older than all others.
/// There is one slot for each hash of a record's number: the next record with that hash takes it
/// over.
pub(crate) struct OwnPuts {
    /// The upper half of all generations of this thread. Other threads have others.
    tag: u64,
    count: u64,
    slots: Vec<(u64, u64)>,
}

/// Slots of an [`OwnPuts`], 16 bytes each.
const OWN_PUTS: usize = 1024;

impl OwnPuts {
    pub(crate) fn new(tag: u64) -> Self {
        Self {
            tag: tag & !u64::from(u32::MAX),
            count: 0,
            slots: vec![(u64::MAX, 0); OWN_PUTS],
        }
    }

    fn slot(record: u64) -> usize {
        mix64(record) as usize % OWN_PUTS
    }

    pub(crate) fn next_generation(&mut self) -> u64 {
        self.count = (self.count + 1) & u64::from(u32::MAX);
        self.tag | self.count
    }

    pub(crate) fn acknowledged(&mut self, record: u64, generation: u64) {
        self.slots[Self::slot(record)] = (record, generation);
    }

    /// Whether this generation of the record was overwritten before the get began.
    pub(crate) fn is_stale(&self, record: u64, generation: u64) -> bool {
        let (known, last) = self.slots[Self::slot(record)];
        let own = generation & !u64::from(u32::MAX) == self.tag;
        known == record && (generation == 0 || own && generation < last)
    }
}

/// Carries out one mix over one distribution on one thread.
pub struct MixWorker {
    mix: Mix,
    dataset: Dataset,
    population: Arc<Population>,
    chooser: Chooser,
    value: Vec<u8>,
    reads: u64,
    own_puts: OwnPuts,
}

impl MixWorker {
    /// The worker of thread `thread` in the phase `phase` (both only choose the random numbers).
    #[must_use]
    pub fn new(
        mix: Mix,
        distribution: &Distribution,
        dataset: &Dataset,
        population: &Arc<Population>,
        phase: u64,
        thread: usize,
    ) -> Self {
        let mut random = Random::new(dataset.seed, (phase << 16) | thread as u64);
        let own_puts = OwnPuts::new(random.next_u64());
        Self {
            mix,
            dataset: dataset.clone(),
            population: Arc::clone(population),
            chooser: distribution.chooser(random),
            value: Vec::new(),
            reads: 0,
            own_puts,
        }
    }

    fn choose(&mut self) -> u64 {
        self.chooser.next(self.population.present())
    }

    fn get(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        record: u64,
    ) -> Result<(), RunError> {
        let key = key_of(record);
        self.reads += 1;
        let thoroughness = thoroughness(self.reads);
        let (values, mut checked) = (&self.dataset.values, Ok(0));
        let found = recorder.time(OperationKind::Get, || {
            store.get(&key, &mut |value| {
                checked = values
                    .check(record, value, thoroughness)
                    .map(|()| generation_of(value));
            })
        })?;
        let generation = checked.map_err(|fault| wrong(record, "get", fault))?;
        if !found {
            return Err(wrong(record, "get", "the record is missing"));
        }
        if self.own_puts.is_stale(record, generation) {
            return Err(wrong(record, "get", "the value was overwritten before"));
        }
        recorder.user_bytes_read += self.dataset.record_bytes();
        Ok(())
    }

    fn put(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        record: u64,
    ) -> Result<(), RunError> {
        let generation = self.own_puts.next_generation();
        self.dataset
            .values
            .fill(record, generation, &mut self.value);
        let (key, value) = (key_of(record), &self.value);
        recorder.time(OperationKind::Put, || store.put(&key, value))?;
        self.own_puts.acknowledged(record, generation);
        recorder.user_bytes_written += self.dataset.record_bytes();
        Ok(())
    }

    fn scan(
        &mut self,
        store: &dyn Store,
        recorder: &mut Recorder,
        longest: u32,
    ) -> Result<(), RunError> {
        let present = self.population.present();
        let start = self.chooser.next(present);
        let length = 1 + self.chooser.random().below(u64::from(longest));
        let (values, mut next, mut fault) = (&self.dataset.values, start, None);
        let reads = self.reads;
        let lent = recorder.time(OperationKind::Scan, || {
            store.scan(&key_of(start), length as usize, &mut |key, value| {
                if record_of(key) != Some(next) {
                    let found = String::from_utf8_lossy(key).into_owned();
                    fault = Some(format!("the scan yielded key `{found}`"));
                } else if let Err(why) = values.check(next, value, thoroughness(reads + next)) {
                    fault = Some(why.to_string());
                } else {
                    next += 1;
                    return true;
                }
                false
            })
        })?;
        if let Some(fault) = fault {
            return Err(wrong(next, "scan", fault));
        }
        if next - start < length.min(present - start) || lent as u64 != next - start {
            let expected = length.min(present - start);
            let got = next - start;
            return Err(wrong(
                next,
                "scan",
                format!("{got} of {expected} records came"),
            ));
        }
        self.reads += next - start;
        recorder.records_scanned += next - start;
        recorder.user_bytes_read += (next - start) * self.dataset.record_bytes();
        Ok(())
    }
}

impl Worker for MixWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let [put, insert, scan, modify] = self.mix.percents();
        let dice = self.chooser.random().below(100);
        if dice < put {
            let record = self.choose();
            self.put(store, recorder, record)?;
        } else if dice < put + insert {
            let record = self.population.take();
            self.put(store, recorder, record)?;
            self.population.acknowledge(record);
        } else if dice < put + insert + scan {
            let Mix::E(longest) = self.mix else {
                unreachable!("only E scans")
            };
            self.scan(store, recorder, longest)?;
        } else if dice < put + insert + scan + modify {
            let start = recorder.begin();
            let record = self.choose();
            self.get(store, recorder, record)?;
            self.put(store, recorder, record)?;
            recorder.record_since(OperationKind::ReadModifyWrite, start);
        } else {
            let record = self.choose();
            self.get(store, recorder, record)?;
        }
        Ok(true)
    }
}

/// Reads the data set once, by scans in key order, to warm caches and to check every byte.
pub struct SweepWorker {
    dataset: Dataset,
    cursor: Arc<AtomicU64>,
}

/// Records one step of a [`SweepWorker`] reads.
const SWEEP_STEP: u64 = 256;

impl SweepWorker {
    /// A worker that takes its stretches from `cursor`, which starts at zero and is shared.
    #[must_use]
    pub fn new(dataset: Dataset, cursor: Arc<AtomicU64>) -> Self {
        Self { dataset, cursor }
    }
}

impl Worker for SweepWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let start = self.cursor.fetch_add(SWEEP_STEP, Ordering::Relaxed);
        if start >= self.dataset.records {
            return Ok(false);
        }
        let length = SWEEP_STEP.min(self.dataset.records - start);
        let (values, mut next, mut fault) = (&self.dataset.values, start, None);
        recorder.time(OperationKind::Scan, || {
            store.scan(&key_of(start), length as usize, &mut |key, value| {
                fault = match record_of(key) {
                    Some(record) if record == next => values
                        .check(record, value, Thoroughness::Whole)
                        .err()
                        .map(|why| why.to_string()),
                    _ => Some(format!(
                        "the scan yielded key `{}`",
                        String::from_utf8_lossy(key)
                    )),
                };
                next += u64::from(fault.is_none());
                fault.is_none()
            })
        })?;
        if let Some(fault) = fault {
            return Err(wrong(next, "scan", fault));
        }
        if next != start + length {
            return Err(wrong(next, "scan", "the record is missing"));
        }
        recorder.records_scanned += length;
        recorder.user_bytes_read += length * self.dataset.record_bytes();
        Ok(true)
    }
}

pub(crate) fn thoroughness(read: u64) -> Thoroughness {
    if read.is_multiple_of(WHOLE_CHECK_EVERY) {
        Thoroughness::Whole
    } else {
        Thoroughness::Spots
    }
}

fn wrong(record: u64, operation: &str, what: impl fmt::Display) -> RunError {
    let key = key_of(record);
    RunError::Wrong(format!(
        "{operation} of key `{}`: {what}",
        String::from_utf8_lossy(&key)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::THETA_DEFAULT;
    use crate::stores::memory::{Fault, MemoryStore};

    const RECORDS: u64 = 500;

    fn load(store: &dyn Store) -> (Dataset, Arc<Population>) {
        let dataset = Dataset::new(RECORDS, 64, 1);
        let population = Arc::new(Population::new(0));
        let mut worker = LoadWorker::new(dataset.clone(), population);
        let mut recorder = Recorder::new(Arc::default());
        while worker.step(store, &mut recorder).unwrap() {}
        (dataset, Arc::new(Population::new(RECORDS)))
    }

    #[test]
    fn a_load_in_random_order_puts_every_record_once() {
        let dataset = Dataset::new(RECORDS, 64, 1);
        let first_of = |order, seed| {
            let population = Arc::new(Population::new(0));
            let (set, all) = (dataset.clone(), population.clone());
            let mut worker = LoadWorker::in_order(set, all, order, seed);
            let store = MemoryStore::new();
            let has = |record: &u64| store.get(&key_of(*record), &mut |_| {}).unwrap();
            let mut recorder = Recorder::new(Arc::default());
            assert!(worker.step(&store, &mut recorder).unwrap());
            let first = (0..RECORDS).find(has);
            while worker.step(&store, &mut recorder).unwrap() {}
            assert!((0..RECORDS).all(|record| has(&record)));
            assert_eq!(population.present(), RECORDS);
            assert_eq!(recorder.user_bytes_written, dataset.data_bytes());
            first.unwrap()
        };
        assert_eq!(first_of(LoadOrder::Key, 1), 0);
        let random = first_of(LoadOrder::Random, 1);
        assert_eq!(random, first_of(LoadOrder::Random, 1), "the same seed");
        assert_ne!(random, first_of(LoadOrder::Random, 2), "another seed");
    }

    fn run(store: &dyn Store, mix: Mix, steps: u32) -> Result<(Recorder, u64), RunError> {
        let (dataset, population) = load(store);
        let kind = mix.distribution(DistributionKind::ZipfSimple);
        let distribution = Distribution::new(kind, RECORDS, THETA_DEFAULT, 1);
        let mut worker = MixWorker::new(mix, &distribution, &dataset, &population, 0, 0);
        let mut recorder = Recorder::new(Arc::default());
        for _ in 0..steps {
            worker.step(store, &mut recorder)?;
        }
        Ok((recorder, population.present()))
    }

    fn share(recorder: &Recorder, kind: OperationKind) -> f64 {
        let count = |kind| {
            recorder
                .histogram(kind)
                .map_or(0, hdrhistogram::Histogram::len)
        };
        let all =
            count(OperationKind::Get) + count(OperationKind::Put) + count(OperationKind::Scan);
        count(kind) as f64 / all as f64
    }

    #[test]
    fn mixes_have_their_shares() {
        let expected = [
            (Mix::P, 0.0, 1.0, 0.0),
            (Mix::A, 0.5, 0.5, 0.0),
            (Mix::B, 0.95, 0.05, 0.0),
            (Mix::C, 1.0, 0.0, 0.0),
            (Mix::D, 0.95, 0.05, 0.0),
            (Mix::E(10), 0.0, 0.05, 0.95),
            (Mix::F, 0.5, 0.5, 0.0),
        ];
        for (mix, get, put, scan) in expected {
            let (recorder, present) = run(&MemoryStore::new(), mix, 4000).unwrap();
            for (kind, share_expected) in [
                (OperationKind::Get, get),
                (OperationKind::Put, put),
                (OperationKind::Scan, scan),
            ] {
                let sampled = share(&recorder, kind);
                assert!(
                    (sampled - share_expected).abs() < 0.025,
                    "{mix} {kind:?} {sampled}"
                );
            }
            assert_eq!(present > RECORDS, mix == Mix::D, "{mix} grows the set");
        }
    }

    #[test]
    fn scans_have_uniform_lengths() {
        let (recorder, _) = run(&MemoryStore::new(), Mix::E(10), 4000).unwrap();
        let scans = recorder.histogram(OperationKind::Scan).unwrap().len() as f64;
        let mean = recorder.records_scanned as f64 / scans;
        assert!((mean - 5.5).abs() < 0.3, "{mean}");
    }

    #[test]
    fn every_kind_of_wrong_answer_is_found() {
        for (fault, mix, words) in [
            (Fault::FlipBit, Mix::C, "bytes differ"),
            (Fault::LoseRecord, Mix::B, "missing"),
            (Fault::WrongRecord, Mix::F, "belongs to record"),
            (Fault::ScanGap, Mix::E(100), "yielded key"),
        ] {
            let error = run(&MemoryStore::with_fault(fault), mix, 1000)
                .err()
                .unwrap();
            assert!(matches!(error, RunError::Wrong(_)), "{error}");
            assert!(error.to_string().contains(words), "{fault:?}: {error}");
        }
    }

    #[test]
    fn a_value_that_the_same_thread_overwrote_is_stale() {
        let mut own = OwnPuts::new(7 << 32 | 5);
        let [first, second] = [(); 2].map(|()| own.next_generation());
        assert!(!own.is_stale(3, 0), "nothing was put yet");
        own.acknowledged(3, second);
        assert!(own.is_stale(3, 0) && own.is_stale(3, first));
        assert!(!own.is_stale(3, second), "the last one");
        assert!(!own.is_stale(3, 6 << 32), "of another thread");
        assert!(!own.is_stale(4, first), "of another record");
    }

    #[test]
    fn a_scan_that_ends_early_is_found() {
        let store = MemoryStore::new();
        let (dataset, _) = load(&store);
        let population = Arc::new(Population::new(RECORDS + 50));
        let distribution = Distribution::new(DistributionKind::Uniform, RECORDS, THETA_DEFAULT, 1);
        let mut worker = MixWorker::new(Mix::E(50), &distribution, &dataset, &population, 0, 0);
        let mut recorder = Recorder::new(Arc::default());
        let error = (0..1000)
            .find_map(|_| worker.step(&store, &mut recorder).err())
            .unwrap();
        assert!(error.to_string().contains("records came"), "{error}");
    }

    #[test]
    fn the_population_waits_for_gaps() {
        let population = Population::new(10);
        let taken: Vec<u64> = (0..3).map(|_| population.take()).collect();
        assert_eq!(taken, [10, 11, 12]);
        population.acknowledge(12);
        population.acknowledge(11);
        assert_eq!(population.present(), 10);
        population.acknowledge(10);
        assert_eq!(population.present(), 13);
    }

    #[test]
    fn names_read_back() {
        for mix in [
            Mix::P,
            Mix::A,
            Mix::B,
            Mix::C,
            Mix::D,
            Mix::E(10),
            Mix::E(1000),
            Mix::F,
        ] {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        assert_eq!("e7".parse(), Ok(Mix::E(7)));
        for wrong in ["", "E", "E0", "G", "E-1", "AB"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
