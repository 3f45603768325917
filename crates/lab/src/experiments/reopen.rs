//! How long a store takes to open after its process died with writes in its log.
//!
//! Each round ends without closing the store. The next opens it, which is timed, reads the first
//! record and the last one put, and then all; what was acknowledged and is not there ends the
//! experiment. The page cache is dropped between rounds, so an opening reads from the disk.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::table::{TextTable, median};
use super::{Common, Failure, Measure, Measured};
use crate::dataset::{Dataset, key_of};
use crate::opener::{Durability, Opener, Settings};
use crate::random::Random;
use crate::store::Store;

/// Its arguments.
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

    /// Number of the records put in the round, in order.
    fn overwritten(&self, dataset: &Dataset, round: usize) -> Vec<u64> {
        let mut random = Random::new(self.common.seed, round as u64);
        let draw = |_| random.below(dataset.records);
        (0..self.puts.min(dataset.records)).map(draw).collect()
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

    fn measure(
        &self,
        opener: &dyn Opener,
        directory: &Path,
        round: usize,
    ) -> Result<Value, Failure> {
        let dataset = self.dataset();
        let settings = Settings {
            memory_bytes: self.memory_mib << 20,
            durability: Durability::Process,
        };
        let fresh = std::fs::read_dir(directory)?.next().is_none();
        let started = Instant::now();
        let store = opener.open(directory, &settings)?;
        let open_seconds = started.elapsed().as_secs_f64();
        let mut value = Vec::new();
        let mut figures = json!({});
        if fresh {
            for record in 0..dataset.records {
                dataset.values.fill(record, 0, &mut value);
                store.put(&key_of(record), &value)?;
            }
        } else {
            let found = store.get(&key_of(0), &mut |_| ())?;
            let first_get_seconds = started.elapsed().as_secs_f64();
            if !found {
                return Err("the first record is lost".into());
            }
            check(self, &dataset, &*store, round)?;
            figures =
                json!({ "open_seconds": open_seconds, "first_get_seconds": first_get_seconds });
        }
        for record in self.overwritten(&dataset, round) {
            dataset.values.fill(record, 1 + round as u64, &mut value);
            store.put(&key_of(record), &value)?;
        }
        // The death of the process: nothing is closed.
        std::mem::forget(store);
        Ok(figures)
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new(["store", "open ms", "open and first get ms"]);
        let mut stores: Vec<&str> = results.iter().map(|one| &*one.store).collect();
        stores.dedup();
        stores.sort_unstable();
        stores.dedup();
        for store in stores {
            let of = |name: &str| {
                let own = results.iter().filter(|one| one.store == store);
                let figures = own.filter_map(|one| one.figures[name].as_f64());
                format!("{:.1}", median(figures.collect()) * 1e3)
            };
            table.row([
                store.to_owned(),
                of("open_seconds"),
                of("first_get_seconds"),
            ]);
        }
        table.to_string()
    }
}

/// Everything that was acknowledged before the process died.
fn check(
    arguments: &Arguments,
    dataset: &Dataset,
    store: &dyn Store,
    round: usize,
) -> Result<(), Failure> {
    let mut generation = std::collections::HashMap::new();
    for earlier in 0..round {
        for record in arguments.overwritten(dataset, earlier) {
            generation.insert(record, 1 + earlier as u64);
        }
    }
    let mut wanted = Vec::new();
    for (&record, &generation) in &generation {
        dataset.values.fill(record, generation, &mut wanted);
        let mut same = false;
        store.get(&key_of(record), &mut |value| same = value == wanted)?;
        if !same {
            return Err(format!("record {record} lost its put of round {generation}").into());
        }
    }
    Ok(())
}
