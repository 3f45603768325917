//! Experiment `memory`: how far the resident memory of a process goes above the database's memory
//! budget.
//!
//! ```text
//! one process per budget:  load | P | A | C | E1000 | P with 100 snapshots held | full scan
//! beside it, every 10 ms:  VmRSS, and at its peak what the database charges for what
//! ```
//! The phases run in order on the same database, so memory that one phase does not give back shows
//! in the next. The whole process is measured: the mapped commit log, stacks, the allocator's
//! holes, and the workload's own memory, which is stated (resident before opening). The kernel's
//! own high-water mark is read too, after each phase, if it can be reset.
//!
//! EvenDB alone: other stores have no budget for everything.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evendb::{Db, Options, Stats};
use serde_json::{Value, json};

use super::table::TextTable;
use super::{Common, Failure, Measure, Measured, Turn};
use crate::dataset::{Dataset, key_of};
use crate::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use crate::driver::{self, Limit, NoProgress, Phase, Worker};
use crate::mix::{LoadWorker, Mix, MixWorker, Population};
use crate::phase_result::PhaseResult;
use crate::stores::evendb::EvenDbStore;

const VALUE_BYTES: usize = 800;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
const SNAPSHOTS: usize = 100;

/// The arguments of `experiment memory`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// MiB of keys and values
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// MiB of memory budget, one for each round
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1024])]
    budgets: Vec<u64>,
    /// Seconds of each phase that has no end of its own
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Threads of the phases
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Mixes between the load and the snapshots
    #[arg(long, value_delimiter = ',', default_values_t = [Mix::P, Mix::A, Mix::C, Mix::E(1000)])]
    mixes: Vec<Mix>,
}

impl Arguments {
    fn dataset(&self) -> Dataset {
        let mib = if self.common.quick {
            1024
        } else {
            self.size_mib
        };
        Dataset::of_size(mib << 20, VALUE_BYTES, self.common.seed)
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "data_bytes": self.dataset().data_bytes(),
            "budgets_mib": self.budgets,
            "seconds": self.seconds,
            "threads": self.threads,
            "seed": self.common.seed,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let budget_mib = self.budgets[turn.round % self.budgets.len()];
        let place = turn.directory.join(format!("budget-{budget_mib}"));
        fs::create_dir_all(&place)?;
        let before = status_bytes("VmRSS");
        let options = Options::new().memory_budget(budget_mib << 20);
        let store = EvenDbStore::open(&place, options, "")?;
        let run = BudgetRun {
            arguments: self,
            dataset: self.dataset(),
            store: &store,
        };
        let phases = run.phases()?;
        store.database().clone().close()?;
        fs::remove_dir_all(&place)?;
        Ok(json!({
            "budget_bytes": budget_mib << 20,
            "resident_before_bytes": before,
            "phases": phases,
        }))
    }

    fn report(&self, results: &[Measured]) -> String {
        let mut table = TextTable::new([
            "budget MiB",
            "phase",
            "kops/s",
            "peak MiB",
            "peak - budget",
            "charged",
            "munks",
            "deltas",
            "rows",
            "indexes",
            "metadata",
            "other",
        ]);
        let mib = |value: f64| format!("{:.1}", value / f64::from(1 << 20));
        for one in results {
            let figures = &one.figures;
            let budget = figures["budget_bytes"].as_f64().unwrap_or_default();
            for phase in figures["phases"].as_array().into_iter().flatten() {
                let of = |name: &str| phase[name].as_f64().unwrap_or_default();
                let used = |name: &str| phase["memory"][name].as_f64().unwrap_or_default();
                table.row([
                    mib(budget),
                    phase["name"].as_str().unwrap_or_default().to_owned(),
                    format!("{:.1}", of("operations_per_second") / 1e3),
                    mib(of("peak_bytes")),
                    mib(of("peak_bytes") - budget),
                    mib(used("used")),
                    mib(used("munks")),
                    mib(used("deltas")),
                    mib(used("row_cache")),
                    mib(used("block_indexes") + used("log_indexes")),
                    mib(used("metadata")),
                    mib(used("commit_log") + used("buffers") + used("unreclaimed")),
                ]);
            }
            let before = figures["resident_before_bytes"]
                .as_f64()
                .unwrap_or_default();
            table.row([mib(budget), format!("(before opening {})", mib(before))]);
        }
        table.to_string()
    }
}

/// One budget's phases.
struct BudgetRun<'a> {
    arguments: &'a Arguments,
    dataset: Dataset,
    store: &'a EvenDbStore,
}

impl BudgetRun<'_> {
    fn phases(&self) -> Result<Vec<Value>, Failure> {
        let mut phases = vec![self.watched("load", || self.load())?];
        let population = Arc::new(Population::new(self.dataset.records));
        for (number, &mix) in self.arguments.mixes.iter().enumerate() {
            phases.push(self.watched(&mix.to_string(), || {
                self.mix(mix, number as u64 + 1, &population)
            })?);
        }
        phases.push(self.watched("snapshots", || self.snapshots(&population))?);
        phases.push(self.watched("scan", || self.scan())?);
        Ok(phases)
    }

    /// Runs a phase and looks at the process meanwhile. The phase returns operations a second.
    fn watched(
        &self,
        name: &str,
        phase: impl FnOnce() -> Result<f64, Failure>,
    ) -> Result<Value, Failure> {
        // Resets the kernel's high-water mark, if that is allowed.
        let reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        let stop = AtomicBool::new(false);
        let database = self.store.database();
        let (result, mut peak) = thread::scope(|scope| {
            let watcher = scope.spawn(|| Peak::watch(database, &stop));
            let result = phase();
            stop.store(true, Ordering::Relaxed);
            (result, watcher.join())
        });
        let peak = peak
            .as_mut()
            .map_err(|_| "the thread that samples panicked")?;
        if reset {
            peak.bytes = peak.bytes.max(status_bytes("VmHWM"));
        }
        Ok(json!({
            "name": name,
            "operations_per_second": result?,
            "peak_bytes": peak.bytes,
            "resident": peak.resident,
            "memory": peak.memory,
        }))
    }

    fn drive(
        &self,
        name: &str,
        limit: Limit,
        threads: usize,
        worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
    ) -> Result<f64, Failure> {
        let phase = Phase {
            limit,
            ..Phase::new(name, threads)
        };
        let never = AtomicBool::new(false);
        let result: PhaseResult = driver::run(self.store, &phase, &never, &NoProgress, worker_of)?;
        Ok(result.operations as f64 / result.seconds)
    }

    fn load(&self) -> Result<f64, Failure> {
        let population = Arc::new(Population::new(0));
        self.drive("load", Limit::default(), 1, &|_| {
            Box::new(LoadWorker::new(
                self.dataset.clone(),
                Arc::clone(&population),
            ))
        })
    }

    fn mix(&self, mix: Mix, number: u64, population: &Arc<Population>) -> Result<f64, Failure> {
        let kind = mix.distribution(DistributionKind::ZipfComposite);
        let seed = self.dataset.seed;
        let distribution = Distribution::new(kind, self.dataset.records, THETA_DEFAULT, seed);
        let limit = Limit {
            operations: None,
            duration: Some(Duration::from_secs(self.arguments.seconds)),
        };
        let threads = self.arguments.threads;
        self.drive(&mix.to_string(), limit, threads, &|thread| {
            let dataset = &self.dataset;
            Box::new(MixWorker::new(
                mix,
                &distribution,
                dataset,
                population,
                number,
                thread,
            ))
        })
    }

    /// Puts, while snapshots are taken and held to the end.
    fn snapshots(&self, population: &Arc<Population>) -> Result<f64, Failure> {
        let database = self.store.database();
        let done = AtomicBool::new(false);
        let pause = Duration::from_secs(self.arguments.seconds) * 9 / 10 / SNAPSHOTS as u32;
        thread::scope(|scope| {
            let holder = scope.spawn(|| -> evendb::Result<usize> {
                let mut snapshots = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    if snapshots.len() < SNAPSHOTS {
                        snapshots.push(database.snapshot()?);
                    }
                    thread::sleep(pause);
                }
                let key = key_of(self.dataset.records / 2);
                for snapshot in &snapshots {
                    snapshot.get(database.default_keyspace(), key)?;
                }
                Ok(snapshots.len())
            });
            let rate = self.mix(Mix::P, 1000, population);
            done.store(true, Ordering::Relaxed);
            let held = holder
                .join()
                .map_err(|_| "the snapshots' thread panicked")?;
            match held? {
                SNAPSHOTS => rate,
                few => Err(format!("only {few} snapshots were taken").into()),
            }
        })
    }

    fn scan(&self) -> Result<f64, Failure> {
        let started = Instant::now();
        let mut cursor = self.store.database().cursor::<&[u8]>(..);
        let mut records = 0;
        while cursor.next()?.is_some() {
            records += 1;
        }
        if records != self.dataset.records {
            return Err(format!("{records} of {} records", self.dataset.records).into());
        }
        Ok(records as f64 / started.elapsed().as_secs_f64())
    }
}

/// The highest memory that was seen, and its uses.
#[derive(Default)]
struct Peak {
    bytes: u64,
    resident: Value,
    memory: Value,
}

impl Peak {
    fn watch(database: &Db, stop: &AtomicBool) -> Peak {
        let mut peak = Peak::default();
        while !stop.load(Ordering::Relaxed) {
            let now = status();
            let bytes = now.get("VmRSS").copied().unwrap_or_default();
            // Statistics visit every chunk, so they are not taken at every page of growth.
            if bytes > peak.bytes + (256 << 10) {
                peak.resident =
                    json!({ "anonymous": now.get("RssAnon"), "files": now.get("RssFile") });
                peak.memory = memory_of(&database.stats());
            }
            peak.bytes = peak.bytes.max(bytes);
            thread::sleep(SAMPLE_INTERVAL);
        }
        peak
    }
}

fn memory_of(stats: &Stats) -> Value {
    let memory = &stats.memory;
    json!({
        "used": memory.used(),
        "munks": memory.munks,
        "deltas": memory.deltas,
        "row_cache": memory.row_cache,
        "log_indexes": memory.log_indexes,
        "block_indexes": memory.block_indexes,
        "metadata": memory.metadata,
        "commit_log": memory.commit_log,
        "buffers": memory.buffers,
        "unreclaimed": memory.unreclaimed,
    })
}

/// The lines of `/proc/self/status` that are in KiB, in bytes.
fn status() -> BTreeMap<String, u64> {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
        Some((name.to_owned(), kib * 1024))
    };
    text.lines().filter_map(line).collect()
}

fn status_bytes(name: &str) -> u64 {
    status().get(name).copied().unwrap_or_default()
}
