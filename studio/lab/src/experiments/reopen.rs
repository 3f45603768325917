//! How long a store takes to open after its process was killed with writes in its log.
//!
//! Each round ends with `kill -9` of the process that has the store open. The next round opens it
//! and reads the first record and the last one put, both timed. It then reads everything: every
//! record of the data set, in order, with the value of its last put, and nothing else. An
//! acknowledged record that is missing ends the round as a failure. The page cache is dropped
//! between rounds, so an opening reads from the disk. The first round only loads; the others are
//! measured.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured, Turn, put_all};
use crate::dataset::{Dataset, key_of, record_of};
use crate::opener::{Durability, Settings};
use crate::random::Random;
use crate::store::Store;
use crate::value::{Thoroughness, generation_of};

/// The arguments of `experiment reopen`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Records put after each opening, which the next one finds in the log
    #[arg(long, default_value_t = 50_000)]
    puts: u64,
}

const VALUE_BYTES: usize = 800;

impl Arguments {
    fn dataset(&self) -> Dataset {
        let mib = if self.common.quick { 64 } else { self.size_mib };
        Dataset::of_size(mib << 20, VALUE_BYTES, self.common.seed)
    }

    /// Numbers of the records put in the round, in order.
    fn overwritten(&self, dataset: &Dataset, round: usize) -> Vec<u64> {
        let mut random = Random::new(self.common.seed, round as u64);
        let draw = |_| random.below(dataset.records);
        (0..self.puts.min(dataset.records)).map(draw).collect()
    }

    /// The content that the rounds before this one left.
    fn expected<'a>(&self, dataset: &'a Dataset, round: usize) -> Expected<'a> {
        let mut generations = HashMap::new();
        for earlier in 0..round {
            for record in self.overwritten(dataset, earlier) {
                generations.insert(record, 1 + earlier as u64);
            }
        }
        Expected {
            dataset,
            generations,
        }
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.dataset().data_bytes(),
            "memory_bytes": self.memory_mib << 20,
            "puts": self.puts,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let dataset = self.dataset();
        let settings = Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        };
        let started = Instant::now();
        let store = turn.opener.open(turn.directory, &settings)?;
        let open_seconds = started.elapsed().as_secs_f64();
        let mut value = Vec::new();
        let mut figures = json!({});
        if turn.round == 0 {
            put_all(&*store, &dataset)?;
            figures["load_seconds"] = started.elapsed().as_secs_f64().into();
        } else {
            let expected = self.expected(&dataset, turn.round);
            let last = self.overwritten(&dataset, turn.round - 1).last().copied();
            let read = Instant::now();
            expected.check_get(&*store, 0)?;
            let first_get_seconds = open_seconds + read.elapsed().as_secs_f64();
            expected.check_get(&*store, last.unwrap_or(0))?;
            let last_put_seconds = open_seconds + read.elapsed().as_secs_f64();
            let read = Instant::now();
            expected.check_all(&*store)?;
            figures = json!({
                "open_seconds": open_seconds,
                "first_get_seconds": first_get_seconds,
                "last_put_seconds": last_put_seconds,
                "read_all_seconds": read.elapsed().as_secs_f64(),
            });
        }
        for record in self.overwritten(&dataset, turn.round) {
            dataset
                .values
                .fill(record, 1 + turn.round as u64, &mut value);
            store.put(&key_of(record), &value)?;
        }
        // The store stays open until the process is killed.
        std::mem::forget(store);
        Ok(figures)
    }

    fn ends_by_kill(&self) -> bool {
        true
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "reopened",
            "open ms",
            "and first record ms",
            "and last put ms",
            "read all s",
        ]);
        let mut stores: Vec<&str> = results.iter().map(|one| &*one.store).collect();
        stores.dedup();
        stores.sort_unstable();
        stores.dedup();
        for store in stores {
            let of = |name: &str| -> Vec<f64> {
                let own = results.iter().filter(|one| one.store == store);
                own.filter_map(|one| one.figures[name].as_f64()).collect()
            };
            let milliseconds = |name| format!("{:.1}", median(of(name)) * 1e3);
            table.row([
                store.to_owned(),
                of("open_seconds").len().to_string(),
                milliseconds("open_seconds"),
                milliseconds("first_get_seconds"),
                milliseconds("last_put_seconds"),
                format!("{:.1}", median(of("read_all_seconds"))),
            ]);
        }
        table.to_string()
    }
}

/// The content of a correct store: every record of the data set, with the generation of its last
/// put.
struct Expected<'a> {
    dataset: &'a Dataset,
    /// The generations of records that were put again after loading.
    generations: HashMap<u64, u64>,
}

impl Expected<'_> {
    /// Whether `value` is that of the record's last put.
    fn check_value(&self, record: u64, value: &[u8]) -> Result<(), String> {
        let values = &self.dataset.values;
        values
            .check(record, value, Thoroughness::Whole)
            .map_err(|fault| format!("record {record}: {fault}"))?;
        let wanted = self.generations.get(&record).copied().unwrap_or(0);
        let found = generation_of(value);
        if found == wanted {
            return Ok(());
        }
        // Generation 0 is the load; generation n comes from round n - 1.
        Err(format!(
            "record {record} lost an acknowledged put: generation {found} instead of {wanted}"
        ))
    }

    fn check_get(&self, store: &dyn Store, record: u64) -> Result<(), Failure> {
        let mut checked = Ok(());
        let found = store.get(&key_of(record), &mut |value| {
            checked = self.check_value(record, value);
        })?;
        if !found {
            return Err(format!("record {record} is missing").into());
        }
        Ok(checked?)
    }

    /// Scans the whole store.
    fn check_all(&self, store: &dyn Store) -> Result<(), Failure> {
        let (mut next, mut fault) = (0, None);
        store.scan(&[], usize::MAX, &mut |key, value| {
            fault = match record_of(key) {
                Some(record) if record == next => self.check_value(record, value).err(),
                _ => {
                    let found = String::from_utf8_lossy(key);
                    Some(format!("key `{found}` where record {next} was expected"))
                }
            };
            next += 1;
            fault.is_none()
        })?;
        match fault {
            Some(fault) => Err(fault.into()),
            None if next == self.dataset.records => Ok(()),
            None => Err(format!("{next} of {} records are there", self.dataset.records).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::memory::{Fault, MemoryStore};

    /// A small experiment, and its expectation before the second round.
    fn with_expected(run: impl FnOnce(&Arguments, &Expected<'_>)) {
        let arguments = Arguments {
            common: Common {
                stores: Vec::new(),
                rounds: 3,
                dir: None,
                json: None,
                seed: 7,
                quick: false,
                child: None,
            },
            size_mib: 1,
            memory_mib: 1,
            puts: 40,
        };
        let dataset = arguments.dataset();
        run(&arguments, &arguments.expected(&dataset, 2));
    }

    /// What the rounds before leave in a store that loses nothing.
    fn filled(arguments: &Arguments, expected: &Expected<'_>, fault: Fault) -> MemoryStore {
        let store = MemoryStore::with_fault(fault);
        let mut value = Vec::new();
        let mut put = |record, generation| {
            expected.dataset.values.fill(record, generation, &mut value);
            store.put(&key_of(record), &value).unwrap();
        };
        (0..expected.dataset.records).for_each(|record| put(record, 0));
        for round in 0..2 {
            for record in arguments.overwritten(expected.dataset, round) {
                put(record, 1 + round as u64);
            }
        }
        store
    }

    #[test]
    fn a_store_that_lost_nothing_passes() {
        with_expected(|arguments, expected| {
            let store = filled(arguments, expected, Fault::None);
            let last = *arguments.overwritten(expected.dataset, 1).last().unwrap();
            expected.check_get(&store, 0).unwrap();
            expected.check_get(&store, last).unwrap();
            expected.check_all(&store).unwrap();
        });
    }

    /// Faults: a record in the middle that nobody put again, the last record, an old value, a
    /// record too many.
    #[test]
    fn every_record_is_read() {
        with_expected(|arguments, expected| {
            let complaint = |spoil: &dyn Fn(&MemoryStore)| {
                let store = filled(arguments, expected, Fault::None);
                spoil(&store);
                expected.check_all(&store).unwrap_err().to_string()
            };
            let dataset = expected.dataset;
            let put = |store: &MemoryStore, record, generation| {
                let mut value = Vec::new();
                dataset.values.fill(record, generation, &mut value);
                store.put(&key_of(record), &value).unwrap();
            };
            let untouched = (1..dataset.records)
                .find(|record| !expected.generations.contains_key(record))
                .unwrap();
            let end = dataset.records - 1;
            let last = *arguments.overwritten(dataset, 1).last().unwrap();
            let told = complaint(&|store| store.delete(&key_of(untouched)).unwrap());
            let words = format!("where record {untouched} was expected");
            assert!(told.contains(&words), "{told}");
            let told = complaint(&|store| store.delete(&key_of(end)).unwrap());
            assert!(told.contains("records are there"), "{told}");
            let told = complaint(&|store| put(store, last, 1));
            assert!(told.contains("lost an acknowledged put"), "{told}");
            let told = complaint(&|store| put(store, dataset.records, 0));
            assert!(told.contains("1289 of 1288 records"), "{told}");
        });
    }
}
