//! Experiment `merges`: counters that are added to without being read, and read now and then.
//!
//! ```text
//!   all counters put as zero, in order -> debt paid -> warm (a quarter of the time)
//!     -> measure -> debt paid -> add up
//! ```
//! 92.5 % of the operations add one to a counter (a `u64` of 8 bytes), the others get one. Counters
//! are drawn by Zipf 0.99 over all, and each number of counters has a fresh store. At the end the
//! counters must add up to the additions, with those of the warming: a store that lost an addition
//! fails. A get must find its counter, and never less than the same thread knows to be there.
//!
//! * **by**: how a store adds: `merge` if it has a merge operator for it, else the operation that
//!   stands in for it;
//! * **kop/s**: operations divided by the time until the last one returned and everything that was
//!   put off is done;
//! * **without debt**: operations divided by the time until the last one returned;
//! * **/ best peer**: kop/s divided by that of the best store that is not EvenDB.
//!
//! An acknowledged addition survives the end of the process. The memory is for everything, page
//! cache included: the opener decides what part of it a store is told to plan with, and the limit
//! is set from outside (`scripts/with-memory-limit`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::table::TextTable;
use super::{
    Common, Failure, Measure, Measured, Turn, beside_best_peer, median_of_cell, stores_of,
};
use crate::dataset::{KEY_BYTES, key_of, record_of};
use crate::distribution::{Chooser, Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::opener::{Durability, Opener, Purpose, Settings};
use crate::phase_length::WARMING_PART;
use crate::phase_result::PhaseResult;
use crate::purposes::{COUNTER_BYTES, CountingStore, counter_of, given};
use crate::random::{Random, mix64};
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::{BatchWrite, Store, StoreResult};

/// The arguments of `experiment merges`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Numbers of counters, each in a store of its own
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 5_000_000])]
    counters: Vec<u64>,
    /// Percent of the operations that add; the others get
    #[arg(long, default_value_t = 92.5)]
    merge_percent: f64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// MiB of memory for everything, the page cache included; the limit itself is set from outside
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Seconds of each measurement [default: 10, quick: 0.3]. A quarter more is spent on warming
    #[arg(long)]
    seconds: Option<f64>,
}

/// Records of a batch of the load.
const BATCH: u64 = 1000;
/// Slots in which a thread keeps the counters that it knows.
const KNOWN: usize = 1024;
/// The figure that compares stores.
const RATE: &str = "operations_per_second_with_debt";

/// Adds to counters and gets them.
struct MergeWorker {
    chooser: Chooser,
    counters: u64,
    /// The share of additions.
    share: f64,
    /// The least value of a counter, by the hash of its number: the value that this thread read,
    /// plus its additions since.
    known: Vec<(u64, u64)>,
    own: u64,
    /// The additions of all threads.
    additions: Arc<AtomicU64>,
}

impl MergeWorker {
    fn add(&mut self, store: &dyn CountingStore, recorder: &mut Recorder) -> Result<(), RunError> {
        let counter = self.chooser.next(self.counters);
        recorder.time(OperationKind::Merge, || store.add(&key_of(counter), 1))?;
        self.own += 1;
        recorder.user_bytes_written += (KEY_BYTES + COUNTER_BYTES) as u64;
        let known = &mut self.known[mix64(counter) as usize % KNOWN];
        *known = match known.0 == counter {
            true => (counter, known.1 + 1),
            false => (counter, 1),
        };
        Ok(())
    }

    fn get(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let counter = self.chooser.next(self.counters);
        let mut found = None;
        recorder.time(OperationKind::Get, || {
            store.get(&key_of(counter), &mut |value| found = counter_of(value))
        })?;
        let wrong = |what: String| Err(RunError::Wrong(format!("counter {counter}: {what}")));
        let Some(found) = found else {
            return wrong("it is missing, or not 8 bytes long".to_owned());
        };
        recorder.user_bytes_read += (KEY_BYTES + COUNTER_BYTES) as u64;
        let known = &mut self.known[mix64(counter) as usize % KNOWN];
        if known.0 == counter && found < known.1 {
            return wrong(format!("{found} was read, and {} is known", known.1));
        }
        *known = (counter, found);
        Ok(())
    }
}

impl Worker for MergeWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        match self.chooser.random().unit() < self.share {
            true => self.add(given(store, store.counters(), "add")?, recorder)?,
            false => self.get(store, recorder)?,
        }
        Ok(true)
    }
}

/// The drop of a worker comes before the end of its phase.
impl Drop for MergeWorker {
    fn drop(&mut self) {
        self.additions.fetch_add(self.own, Ordering::Relaxed);
    }
}

/// Puts every counter as zero, in order.
fn load(store: &dyn Store, counters: u64) -> StoreResult<()> {
    let zero = [0; COUNTER_BYTES];
    for first in (0..counters).step_by(BATCH as usize) {
        let keys: Vec<_> = (first..counters.min(first + BATCH)).map(key_of).collect();
        let writes: Vec<_> = keys.iter().map(|key| BatchWrite::Put(key, &zero)).collect();
        store.batch(&writes)?;
    }
    store.settle_debt()
}

/// Adds all counters up. Each of them must be there.
fn check_sum(store: &dyn Store, counters: u64, additions: u64) -> Result<(), Failure> {
    let (mut next, mut sum, mut wrong) = (0, 0, None);
    store.scan(&key_of(0), usize::MAX, &mut |key, value| {
        match (record_of(key), counter_of(value)) {
            (Some(record), Some(counter)) if record == next => sum += counter,
            _ => wrong = Some(format!("counter {next} is missing or damaged")),
        }
        next += 1;
        wrong.is_none()
    })?;
    if wrong.is_none() && next != counters {
        wrong = Some(format!("{next} of {counters} counters are there"));
    }
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    match additions.cmp(&sum) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => {
            Err(format!("{} of {additions} additions were lost", additions - sum).into())
        }
        std::cmp::Ordering::Less => {
            Err(format!("the counters have {} too much", sum - additions).into())
        }
    }
}

impl Arguments {
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 0.3 } else { 10.0 };
        self.seconds.unwrap_or(default)
    }

    fn cells(&self) -> Vec<u64> {
        let cell = |&counters: &u64| match self.common.quick {
            true => counters.min(20_000),
            false => counters,
        };
        self.counters.iter().map(cell).collect()
    }

    /// Runs additions and gets for some seconds. Returns what was measured, and the number of
    /// additions.
    fn run(
        &self,
        store: &dyn Store,
        counters: u64,
        seconds: f64,
        stream: u64,
    ) -> Result<(PhaseResult, u64), RunError> {
        let kind = DistributionKind::ZipfSimple;
        let distribution = Distribution::new(kind, counters, THETA_DEFAULT, self.common.seed);
        let additions = Arc::new(AtomicU64::new(0));
        let worker = |index: usize| -> Box<dyn Worker> {
            let random = Random::new(self.common.seed, stream << 16 | index as u64);
            Box::new(MergeWorker {
                chooser: distribution.chooser(random),
                counters,
                share: self.merge_percent / 100.0,
                known: vec![(u64::MAX, 0); KNOWN],
                own: 0,
                additions: Arc::clone(&additions),
            })
        };
        let phase = Phase {
            distribution: kind.name().to_owned(),
            limit: Limit::seconds(seconds),
            settle: true,
            course_interval: Duration::from_millis(500),
            ..Phase::new("merges", self.threads)
        };
        let never = AtomicBool::new(false);
        let result = driver::run(store, &phase, &never, &NoProgress, &worker)?;
        Ok((result, additions.load(Ordering::Relaxed)))
    }

    /// Measures one number of counters in an empty store, and checks the sum at the end.
    fn cell(&self, store: &dyn Store, counters: u64, stream: u64) -> Result<Value, Failure> {
        let by = given(store, store.counters(), "add")?.adds_by();
        load(store, counters)?;
        let seconds = self.seconds();
        let warming = self.run(store, counters, seconds / WARMING_PART, stream | 1 << 40)?;
        let (result, additions) = self.run(store, counters, seconds, stream)?;
        check_sum(store, counters, warming.1 + additions)?;
        let mut figures = result.to_json();
        figures["counters"] = counters.into();
        figures["additions"] = additions.into();
        figures["by"] = by.into();
        for latency in &result.latencies {
            let name = latency.kind.name();
            figures[format!("{name}_p50_nanos")] = latency.p50.into();
            figures[format!("{name}_p99_nanos")] = latency.p99.into();
        }
        Ok(figures)
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn takes_part(&self, opener: &dyn Opener) -> bool {
        opener.serves(Purpose::Counters) && !opener.only_if_named()
    }

    fn settings(&self) -> Value {
        json!({
            "counters": self.cells(),
            "merge_percent": self.merge_percent,
            "threads": self.threads,
            "memory_bytes": self.memory_mib << 20,
            "seconds": self.seconds(),
            "durability": Durability::Process.name(),
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let settings = Settings {
            memory_bytes: turn.opener.memory_within(self.memory_mib << 20),
            durability: Durability::Process,
        };
        let (mut cells, mut name) = (Vec::new(), String::new());
        for (number, counters) in self.cells().into_iter().enumerate() {
            let stream = (turn.round << 8 | number) as u64;
            let purpose = Some(Purpose::Counters);
            cells.push(turn.in_fresh_store_for(purpose, &settings, |store, _| {
                name = store.name();
                self.cell(store, counters, stream)
            })?);
        }
        Ok(json!({ "store": name, "cells": cells }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "store",
            "by",
            "counters",
            "kop/s",
            "without debt",
            "/ best peer",
            "CPU us",
            "merge p50 us",
            "p99 us",
            "get p50 us",
            "p99 us",
        ]);
        let stores = stores_of(results);
        for counters in self.cells() {
            let is_cell = |figures: &Value| figures["counters"].as_u64() == Some(counters);
            let figure = |store: &str, name: &str| {
                median_of_cell(results, Some(store), "cells", is_cell, name)
            };
            for store in &stores {
                let of = |name: &str| figure(store, name);
                let micros = |name: &str| format!("{:.1}", of(name) / 1e3);
                let own = results.iter().find(|one| one.store == *store);
                let by = own.and_then(|one| one.figures.pointer("/cells/0/by")?.as_str());
                table.row([
                    (*store).to_owned(),
                    by.unwrap_or_default().to_owned(),
                    counters.to_string(),
                    format!("{:.1}", of(RATE) / 1e3),
                    format!("{:.1}", of("operations_per_second") / 1e3),
                    beside_best_peer(&stores, store, |store| figure(store, RATE)),
                    format!("{:.2}", of("cpu_micros_per_operation")),
                    micros("merge_p50_nanos"),
                    micros("merge_p99_nanos"),
                    micros("get_p50_nanos"),
                    micros("get_p99_nanos"),
                ]);
            }
        }
        table.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::{measured, parsed};
    use crate::stores::evendb::EvenDbOpener;
    use crate::stores::memory::{Fault, MemoryStore};

    fn tiny(more: &[&str]) -> Arguments {
        let all = ["merges", "--seconds=1", "--memory-mib=80"];
        parsed(all.iter().chain(more))
    }

    #[test]
    fn evendb_is_measured_and_loses_nothing() {
        let arguments = tiny(&["--counters=50,2000"]);
        let directory = tempfile::tempdir().unwrap();
        let measured = measured(&arguments, &EvenDbOpener, directory.path());
        let figures = &measured.figures;
        let cells = figures["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2);
        for cell in cells {
            let [all, additions] = ["operations", "additions"].map(|name| cell[name].as_f64());
            let share = additions.unwrap() / all.unwrap();
            assert!((share - 0.925).abs() < 0.05, "{share}");
        }
        let report = arguments.report(&[measured]);
        assert_eq!(report.lines().count(), 3);
        assert!(!report.contains("NaN"), "{report}");
    }

    #[test]
    fn a_store_that_loses_additions_is_refused() {
        let arguments = tiny(&["--counters=5"]);
        let cell = |store: &dyn Store| arguments.cell(store, 5, 0);
        cell(&MemoryStore::new()).unwrap();
        let error = cell(&MemoryStore::with_fault(Fault::LoseUpdate)).unwrap_err();
        let error = error.to_string();
        // A get may see an addition before the sum does.
        assert!(
            error.contains("were lost") || error.contains("is known"),
            "{error}"
        );
    }

    #[test]
    fn sums_are_exact() {
        let store = MemoryStore::new();
        load(&store, 10).unwrap();
        store.add(&key_of(3), 2).unwrap();
        check_sum(&store, 10, 2).unwrap();
        let of = |counters, additions| check_sum(&store, counters, additions).unwrap_err();
        assert_eq!(of(10, 5).to_string(), "3 of 5 additions were lost");
        assert_eq!(of(10, 1).to_string(), "the counters have 1 too much");
        assert_eq!(of(11, 2).to_string(), "10 of 11 counters are there");
        store.delete(&key_of(0)).unwrap();
        assert!(of(9, 2).to_string().contains("counter 0 is missing"));
    }
}
