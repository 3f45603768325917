//! Whether an adapter follows the lab's trait, against a model: a benchmark with a wrong adapter
//! measures nothing.
//!
//! ```text
//!   open -> sequence -> compare -> settle -> compare -> sequence -> close
//!   open -> compare -> four threads -> compare -> close -> open -> compare -> close
//!   with transactions, in a directory of its own: open -> load -> four threads -> add up -> close
//! ```
//! The sequence is the same at every run of a seed: puts, overwrites, deletes, batches (a key may
//! be in a batch more than once), gets of present and absent keys, scans from many starts with many
//! limits and with early ends. Keys are binary, of 1 to 40 bytes, some a prefix of others; values
//! have 0 to 2,000 bytes. Each answer is compared with that of an ordered map. To compare is to get
//! every key that was ever used and to scan everything.
//!
//! The threads write keys of their own, which lie between those of the other threads. Each thread
//! checks three things: its own keys exactly, the others' keys by what their values say, and the
//! order of all.
//!
//! Transactions are the lab's (`evendb_lab::transactions`), over few records, so that they meet:
//! each counts two values up, and the sum says whether an update was lost.
//!
//! Not tested: crashes (a store's own tests are for that), and atomicity of batches.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evendb_lab::dataset::{Dataset, key_of};
use evendb_lab::driver::{self, Limit, NoProgress, Phase, Worker};
use evendb_lab::experiments::Failure;
use evendb_lab::opener::{Durability, Opener, Settings};
use evendb_lab::random::{Random, mix64};
use evendb_lab::store::{BatchWrite, Store};
use evendb_lab::transactions::{Contention, TransactionWorker, Work, check_counters};

/// All levels, strongest last.
pub const LEVELS: [Durability; 3] = [Durability::Relaxed, Durability::Process, Durability::Sync];

/// Bytes of memory that a store is given: little, so that it works with its files.
const MEMORY_BYTES: u64 = 64 << 20;
const THREADS: u64 = 4;
const VALUE_BYTES_MAX: u64 = 2000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// How much work is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Operations of each sequence.
    pub steps: u64,
    /// Operations of each thread.
    pub thread_steps: u64,
}

impl Effort {
    /// Enough for every path of an adapter; less if every write waits for the disk.
    #[must_use]
    pub fn of(durability: Durability) -> Self {
        match durability {
            Durability::Relaxed | Durability::Process => Self {
                steps: 5000,
                thread_steps: 1500,
            },
            Durability::Sync => Self {
                steps: 400,
                thread_steps: 100,
            },
        }
    }
}

/// Checks one store at one level in `directory`, which is empty.
///
/// # Errors
/// The first wrong answer, with the operation and the seed; or the store's own error.
pub fn check(
    opener: &dyn Opener,
    directory: &Path,
    durability: Durability,
    effort: Effort,
    seed: u64,
) -> Result<(), Failure> {
    let settings = Settings {
        memory_bytes: MEMORY_BYTES,
        durability,
    };
    let open = || opener.open(directory, &settings);
    let mut sequence = Sequence::new(seed);
    let mut whole = || -> Result<(), Failure> {
        let store = open()?;
        sequence.run(&*store, effort.steps)?;
        sequence.compare(&*store, "after the sequence")?;
        store.settle_debt()?;
        sequence.compare(&*store, "after settling")?;
        sequence.run(&*store, effort.steps)?;
        store.close()?;
        let store = open()?;
        sequence.compare(&*store, "after opening again")?;
        sequence
            .model
            .extend(threads(&*store, effort.thread_steps, seed)?);
        sequence.compare(&*store, "after the threads")?;
        store.close()?;
        let store = open()?;
        sequence.compare(&*store, "at the end")?;
        store.close()?;
        if opener.has_transactions() {
            transactions(opener, directory, &settings, effort.thread_steps, seed)?;
        }
        Ok(())
    };
    whole().map_err(|error| format!("seed {seed}: {error}").into())
}

/// Checks one store at every level that it offers, each in a directory of its own below
/// `directory`. Returns what was done, in words.
///
/// # Errors
/// As [`check`]; or that it offers no level.
pub fn check_levels(opener: &dyn Opener, directory: &Path, seed: u64) -> Result<String, Failure> {
    let mut told = String::new();
    let mut checked = 0;
    for durability in LEVELS {
        let own = directory.join(durability.name());
        fs::create_dir_all(&own)?;
        let settings = Settings {
            memory_bytes: MEMORY_BYTES,
            durability,
        };
        // A level that a store refuses is its answer, not a fault.
        match opener.open(&own, &settings) {
            Err(why) => writeln!(told, "{}: refused: {why}", durability.name())?,
            Ok(store) => {
                store.close()?;
                check(opener, &own, durability, Effort::of(durability), seed)
                    .map_err(|error| format!("{}: {error}", durability.name()))?;
                writeln!(told, "{}: ok", durability.name())?;
                checked += 1;
            }
        }
        fs::remove_dir_all(&own)?;
    }
    if checked == 0 {
        return Err(format!("no level can be opened: {told}").into());
    }
    Ok(told)
}

/// The operations, and the content of a correct store.
struct Sequence {
    random: Random,
    keys: Vec<Vec<u8>>,
    model: Model,
    step: u64,
}

impl Sequence {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0x636f_6e66);
        let mut keys: Vec<_> = (0..600).map(|index| key(index, &mut random)).collect();
        keys.sort();
        keys.dedup();
        Self {
            random,
            keys,
            model: Model::new(),
            step: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let index = self.random.below(self.keys.len() as u64);
        self.keys[index as usize].clone()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(10) {
            0 => 0,
            1..=3 => self.random.below(20),
            4..=8 => 100 + self.random.below(800),
            _ => self.random.below(VALUE_BYTES_MAX + 1),
        };
        (0..length).map(|_| self.random.next_u64() as u8).collect()
    }

    fn run(&mut self, store: &dyn Store, steps: u64) -> Result<(), Failure> {
        for _ in 0..steps {
            self.step += 1;
            let step = self.step;
            self.operation(store)
                .map_err(|error| format!("operation {step}: {error}"))?;
        }
        Ok(())
    }

    fn operation(&mut self, store: &dyn Store) -> Result<(), Failure> {
        match self.random.below(100) {
            0..40 => {
                let (key, value) = (self.key(), self.value());
                store.put(&key, &value)?;
                self.model.insert(key, value);
            }
            40..50 => {
                let key = self.key();
                store.delete(&key)?;
                self.model.remove(&key);
            }
            50..58 => self.batch(store)?,
            58..90 => {
                let mut key = self.key();
                if self.random.below(8) == 0 {
                    key.push(0);
                }
                compare_get(store, &self.model, &key)?;
            }
            _ => {
                let from = if self.random.below(20) == 0 {
                    Vec::new()
                } else {
                    self.key()
                };
                let limit = [0, 1, 2, 3, 10, 100, usize::MAX][self.random.below(7) as usize];
                let stop = (self.random.below(4) == 0).then(|| 1 + self.random.below(5) as usize);
                compare_scan(store, &self.model, &from, limit, stop)?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, store: &dyn Store) -> Result<(), Failure> {
        let count = 1 + self.random.below(20);
        let mut writes = Vec::new();
        for _ in 0..count {
            let value = (self.random.below(4) != 0).then(|| self.value());
            writes.push((self.key(), value));
        }
        let first = writes[0].0.clone();
        writes.push((first, Some(self.value())));
        let lent: Vec<_> = writes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => BatchWrite::Put(key, value),
                None => BatchWrite::Delete(key),
            })
            .collect();
        store.batch(&lent)?;
        for (key, value) in writes {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
        Ok(())
    }

    fn compare(&self, store: &dyn Store, when: &str) -> Result<(), Failure> {
        let whole = || -> Result<(), Failure> {
            for key in self.keys.iter().chain(self.model.keys()) {
                compare_get(store, &self.model, key)?;
            }
            compare_scan(store, &self.model, &[], usize::MAX, None)?;
            for from in self.keys.iter().step_by(7) {
                compare_scan(store, &self.model, from, 50, None)?;
            }
            Ok(())
        };
        whole().map_err(|error| format!("{when}: {error}").into())
    }
}

/// Keys of several kinds, none empty: some stores have no empty key.
fn key(index: u64, random: &mut Random) -> Vec<u8> {
    let length = |random: &mut Random, most: u64| 1 + random.below(most);
    match index % 4 {
        0 => key_of(index).to_vec(),
        1 => {
            let length = length(random, 40);
            (0..length).map(|_| random.next_u64() as u8).collect()
        }
        2 => {
            let length = length(random, 6);
            let byte = |random: &mut Random| [0x00, 0xff, b'a'][random.below(3) as usize];
            (0..length).map(|_| byte(random)).collect()
        }
        _ => (mix64(index) & 0xff00_ff00_00ff_ffff)
            .to_be_bytes()
            .to_vec(),
    }
}

fn compare_get(store: &dyn Store, model: &Model, key: &[u8]) -> Result<(), Failure> {
    let mut lent = None;
    let mut times = 0;
    let found = store.get(key, &mut |value| {
        times += 1;
        lent = Some(value.to_vec());
    })?;
    if times != u32::from(found) {
        return Err(format!("get of {key:02x?} says {found} and lent {times} values").into());
    }
    if lent.as_ref() != model.get(key) {
        return Err(format!(
            "get of {key:02x?} answers {} instead of {}",
            short(lent.as_ref()),
            short(model.get(key))
        )
        .into());
    }
    Ok(())
}

/// Scans. The scan ends after `stop` records, if that is given.
fn compare_scan(
    store: &dyn Store,
    model: &Model,
    from: &[u8],
    limit: usize,
    stop: Option<usize>,
) -> Result<(), Failure> {
    let mut lent = Vec::new();
    let count = store.scan(from, limit, &mut |key, value| {
        lent.push((key.to_vec(), value.to_vec()));
        stop.is_none_or(|stop| lent.len() < stop)
    })?;
    let named = || format!("scan from {from:02x?} of {limit}, stopped after {stop:?}");
    if count != lent.len() {
        return Err(format!("{}: says {count}, lent {}", named(), lent.len()).into());
    }
    let most = limit.min(stop.unwrap_or(usize::MAX));
    let mut expected = model.range(from.to_vec()..).take(most);
    for (position, (key, value)) in lent.iter().enumerate() {
        if expected.next() != Some((key, value)) {
            let value = short(Some(value));
            let at = format!("record {position} is wrong: {key:02x?} = {value}");
            return Err(format!("{}: {at}", named()).into());
        }
    }
    match expected.next() {
        None => Ok(()),
        Some((key, _)) => Err(format!("{}: {key:02x?} is missing", named()).into()),
    }
}

fn short(value: Option<&Vec<u8>>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let head = &value[..value.len().min(8)];
            format!("{} bytes ({head:02x?}..)", value.len())
        }
    }
}

/// Several threads on keys that lie between each other's. Returns what they left.
fn threads(store: &dyn Store, steps: u64, seed: u64) -> Result<Model, Failure> {
    let outcomes: Vec<Result<Model, Failure>> = std::thread::scope(|scope| {
        let start = |thread| scope.spawn(move || Own::new(thread, seed).run(store, steps));
        let running: Vec<_> = (0..THREADS).map(start).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let panicked = |_| Err("a thread panicked".into());
            thread.join().unwrap_or_else(panicked)
        };
        running.into_iter().map(end).collect()
    });
    let mut model = Model::new();
    for outcome in outcomes {
        model.extend(outcome.map_err(|error| format!("in the threads: {error}"))?);
    }
    Ok(model)
}

/// Records that transactions are over.
const RECORDS: u64 = 8;

/// Several threads that run `steps` transactions each, in a store of their own beside `directory`.
fn transactions(
    opener: &dyn Opener,
    directory: &Path,
    settings: &Settings,
    steps: u64,
    seed: u64,
) -> Result<(), Failure> {
    // Not below it: no database is made inside of another one.
    let own = directory.with_extension("transactions");
    fs::create_dir_all(&own)?;
    let store = opener.open(&own, settings)?;
    let dataset = Dataset::new(RECORDS, 100, seed);
    let mut value = Vec::new();
    for record in 0..RECORDS {
        dataset.values.fill(record, 0, &mut value);
        store.put(&key_of(record), &value)?;
    }
    let aborts = Arc::default();
    let worker = |thread: usize| -> Box<dyn Worker> {
        Box::new(TransactionWorker {
            work: Work::new(dataset.values.clone()),
            records: RECORDS,
            contention: Contention::Low,
            random: Random::new(seed, 0x7472_6100 | thread as u64),
            aborts: Arc::clone(&aborts),
        })
    };
    let phase = Phase {
        limit: Limit::operations(THREADS * steps),
        ..Phase::new("transactions", THREADS as usize)
    };
    let never = AtomicBool::new(false);
    let result = driver::run(&*store, &phase, &never, &NoProgress, &worker)?;
    check_counters(&*store, &dataset, result.operations)?;
    store.close()?;
    Ok(())
}

/// One thread's keys `t` NUMBER `:` THREAD and what it knows of them.
struct Own {
    thread: u64,
    random: Random,
    model: Model,
}

/// The beginning of all threads' keys: the sequence has keys on both sides.
const THREADS_FROM: &[u8] = b"t:";
const OWN_NUMBERS: u64 = 200;

impl Own {
    fn new(thread: u64, seed: u64) -> Self {
        Self {
            thread,
            random: Random::new(seed, 0x7468_7200 | thread),
            model: Model::new(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(OWN_NUMBERS);
        format!("t:{number:06}:{}", self.thread).into_bytes()
    }

    /// The key, then bytes of its own.
    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let length = self.random.below(600);
        let noise = (0..length).map(|_| self.random.next_u64() as u8);
        key.iter().copied().chain(noise).collect()
    }

    fn run(mut self, store: &dyn Store, steps: u64) -> Result<Model, Failure> {
        for _ in 0..steps {
            let key = self.key();
            match self.random.below(10) {
                0..4 => {
                    let value = self.value(&key);
                    store.put(&key, &value)?;
                    self.model.insert(key, value);
                }
                4 => {
                    store.delete(&key)?;
                    self.model.remove(&key);
                }
                5 => {
                    let (value, other) = (self.value(&key), self.key());
                    store.batch(&[BatchWrite::Delete(&other), BatchWrite::Put(&key, &value)])?;
                    self.model.remove(&other);
                    self.model.insert(key, value);
                }
                6..9 => compare_get(store, &self.model, &key)?,
                _ => self.scan(store, &key)?,
            }
        }
        Ok(self.model)
    }

    fn scan(&mut self, store: &dyn Store, from: &[u8]) -> Result<(), Failure> {
        let limit = 1 + self.random.below(100) as usize;
        let mut lent: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        store.scan(from, limit, &mut |key, value| {
            lent.push((key.to_vec(), value.to_vec()));
            true
        })?;
        if let Some(pair) = lent.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(format!("{:02x?} came after {:02x?}", pair[1].0, pair[0].0).into());
        }
        // The lent records tell how far the scan went: to the end, unless the limit ended it.
        let last = (lent.len() == limit).then(|| lent[limit - 1].0.clone());
        let within = |key: &[u8]| last.as_ref().is_none_or(|last| key <= last.as_slice());
        let suffix = format!(":{}", self.thread).into_bytes();
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (key, value) in lent.iter().filter(|(key, _)| key.starts_with(THREADS_FROM)) {
            let kind = if key.ends_with(&suffix) {
                &mut own
            } else {
                &mut others
            };
            kind.push((key, value));
        }
        let expected = self.model.range(from.to_vec()..);
        let expected: Vec<_> = expected.take_while(|(key, _)| within(key)).collect();
        if own != expected {
            let (found, expected) = (own.len(), expected.len());
            return Err(format!("scan from {from:02x?}: {found} of {expected} own keys").into());
        }
        match others.iter().find(|(key, value)| !value.starts_with(key)) {
            None => Ok(()),
            Some((key, _)) => Err(format!("{key:02x?} has another key's value").into()),
        }
    }
}
