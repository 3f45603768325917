//! The lab's phases for EvenDB and its peers, interleaved in one run, median of several rounds.
//!
//! ```text
//!   round 1: evendb, rocksdb, ...   round 2: evendb, rocksdb, ...   ->  medians, ratios, JSON
//!            each in a process of its own, which opens (first round: loads) its store, runs all
//!            phases, pays the debt after each that writes, and hands back its figures
//! ```
//! A process of its own, so that no store's memory, caches or background work touches another's
//! figures; between two the files are written out and dropped from the page cache. A limit on
//! memory set from outside (scripts/with-memory-limit) holds for all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use clap::Parser;
use evendb::Options;
use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use evendb_lab::driver::{self, Limit, NoProgress, Phase};
use evendb_lab::mix::{LoadWorker, Mix, MixWorker, Population, SweepWorker};
use evendb_lab::opener::{Durability, Settings};
use evendb_lab::report::PhaseResult;
use evendb_lab::store::Store;
use evendb_lab::stores::evendb::EvenDbStore;
use evendb_peers::openers::all;
use evendb_peers::table::Table;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures EvenDB beside its peers
#[derive(Parser, Clone)]
#[command(args_override_self = true)]
struct Arguments {
    /// The stores; all that can be opened here, but redb, if not given
    #[arg(long, value_delimiter = ',', default_values_t = known_stores())]
    stores: Vec<String>,
    /// MiB of keys and values
    #[arg(long, default_value_t = 512)]
    size_mib: u64,
    /// MiB of memory a store may plan with
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 800)]
    value_bytes: usize,
    /// Worker threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Rounds of which the median is taken
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of a phase
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// The mixes
    #[arg(long, value_delimiter = ',', default_value = "P,A,B,C,E100")]
    mixes: Vec<Mix>,
    /// The access distributions
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "zipf-simple,zipf-composite"
    )]
    distributions: Vec<DistributionKind>,
    /// Where the stores are made, and removed at the end
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write settings and all results to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// The seed of keys, values and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only for the processes that this one starts: measure this store
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// All that can be opened here but redb, which syncs every put at this level.
fn known_stores() -> Vec<String> {
    let all = all();
    let usable = all.iter().filter(|opener| opener.unavailable().is_none());
    let names = usable.map(|opener| opener.name().to_owned());
    names.filter(|name| name != "redb").collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.child {
        Some(store) => measure(&arguments, store),
        None => compare(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The parent: starts a process for each store and round and puts the results together.
fn compare(arguments: &Arguments) -> Result<(), Failure> {
    let place = match &arguments.dir {
        Some(parent) => tempfile::Builder::new()
            .prefix("peers-")
            .tempdir_in(parent)?,
        None => tempfile::Builder::new().prefix("peers-").tempdir()?,
    };
    println!(
        "{} MiB of data, {}-byte values, {} MiB of memory, {} threads, {} s a phase, medians of {} rounds",
        arguments.size_mib,
        arguments.value_bytes,
        arguments.memory_mib,
        arguments.threads,
        arguments.seconds,
        arguments.rounds
    );
    let mut table = Table::new(&arguments.stores);
    for round in 0..arguments.rounds {
        for store in &arguments.stores {
            let result = place.path().join(format!("{store}.{round}.json"));
            let directory = place.path().join(store);
            fs::create_dir_all(&directory)?;
            let status = Command::new(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .arg(format!("--child={store}"))
                .arg(format!("--dir={}", directory.display()))
                .arg(format!("--json={}", result.display()))
                .arg(format!("--seed={}", arguments.seed + round as u64))
                .status()?;
            if !status.success() {
                // The other stores' figures are still worth having.
                eprintln!("{store}: round {} failed: {status}", round + 1);
                continue;
            }
            table.add(store, serde_json::from_slice(&fs::read(&result)?)?);
            eprintln!("{store}: round {} done", round + 1);
        }
    }
    print!("{table}");
    if let Some(path) = &arguments.json {
        let report = json!({ "settings": settings(arguments), "results": table.to_json() });
        fs::write(path, format!("{report:#}\n"))?;
    }
    Ok(())
}

/// The child: all phases of one round of one store.
fn measure(arguments: &Arguments, store: &str) -> Result<(), Failure> {
    let (Some(directory), Some(json)) = (&arguments.dir, &arguments.json) else {
        return Err("a child needs --dir and --json".into());
    };
    let fresh = fs::read_dir(directory)?.next().is_none();
    let memory_bytes = arguments.memory_mib << 20;
    let opened = open(store, directory, memory_bytes)?;
    // One seed for the data of all rounds; the operations differ from round to round.
    let dataset = Dataset::of_size(arguments.size_mib << 20, arguments.value_bytes, 1);
    let mut round = Round {
        arguments,
        dataset,
        store: &*opened,
        results: Vec::new(),
    };
    if fresh {
        round.load()?;
    }
    round.sweep()?;
    for &distribution in &arguments.distributions {
        for &mix in &arguments.mixes {
            round.mix(mix, distribution)?;
        }
    }
    let results: Vec<Value> = round.results.iter().map(PhaseResult::to_json).collect();
    opened.close()?;
    forget_files(directory)?;
    fs::write(json, Value::from(results).to_string())?;
    Ok(())
}

fn open(store: &str, directory: &Path, memory_bytes: u64) -> Result<Box<dyn Store>, Failure> {
    if store == "evendb" {
        let options = Options::new().memory_budget(evendb_budget(memory_bytes));
        return Ok(Box::new(EvenDbStore::open(directory, options, "")?));
    }
    let settings = Settings {
        memory_bytes,
        durability: Durability::Process,
    };
    match all().iter().find(|opener| opener.name() == store) {
        Some(opener) => Ok(opener.open(directory, &settings)?),
        None => Err(format!("no store `{store}` in this build").into()),
    }
}

/// EvenDB's budget leaves a fifth to the allocator, the driver and the page cache.
fn evendb_budget(memory_bytes: u64) -> u64 {
    memory_bytes / 5 * 4
}

struct Round<'a> {
    arguments: &'a Arguments,
    dataset: Dataset,
    store: &'a dyn Store,
    results: Vec<PhaseResult>,
}

impl Round<'_> {
    fn load(&mut self) -> Result<(), Failure> {
        let population = Arc::new(Population::new(0));
        let phase = self.phase("load", "key order", None, true);
        let result = self.run(&phase, &|_| {
            Box::new(LoadWorker::new(
                self.dataset.clone(),
                Arc::clone(&population),
            ))
        })?;
        self.results.push(result);
        Ok(())
    }

    /// Reads everything once, which warms what the store can hold.
    fn sweep(&self) -> Result<(), Failure> {
        let cursor = Arc::new(AtomicU64::new(0));
        let phase = self.phase("sweep", "", None, false);
        let swept = self.run(&phase, &|_| {
            Box::new(SweepWorker::new(self.dataset.clone(), Arc::clone(&cursor)))
        });
        swept.map(drop)
    }

    fn mix(&mut self, mix: Mix, wanted: DistributionKind) -> Result<(), Failure> {
        let arguments = self.arguments;
        let kind = mix.distribution(wanted);
        let distribution =
            Distribution::new(kind, self.dataset.records, THETA_DEFAULT, arguments.seed);
        let population = Arc::new(Population::new(self.dataset.records));
        let number = self.results.len() as u64 | arguments.seed << 8;
        let worker_of = |mix: Mix, number: u64| {
            let (distribution, dataset, population) = (&distribution, &self.dataset, &population);
            move |thread: usize| -> Box<dyn driver::Worker> {
                Box::new(MixWorker::new(
                    mix,
                    distribution,
                    dataset,
                    population,
                    number,
                    thread,
                ))
            }
        };
        // Warmed by reads alone: a warm-up that wrote would leave a debt that is not the phase's.
        if mix != Mix::P {
            let warm = self.phase("warm-up", "", Some(arguments.seconds / 5.0), false);
            self.run(&warm, &worker_of(Mix::C, number | 1 << 32))?;
        }
        let seconds = Some(arguments.seconds);
        let phase = self.phase(&mix.to_string(), kind.name(), seconds, mix.writes());
        let result = self.run(&phase, &worker_of(mix, number))?;
        self.results.push(result);
        Ok(())
    }

    fn phase(&self, name: &str, distribution: &str, seconds: Option<f64>, settle: bool) -> Phase {
        Phase {
            name: name.to_owned(),
            distribution: distribution.to_owned(),
            threads: self.arguments.threads,
            limit: Limit {
                operations: None,
                duration: seconds.map(Duration::from_secs_f64),
            },
            expected_operations: None,
            settle,
            course_interval: Duration::from_millis(500),
        }
    }

    fn run(
        &self,
        phase: &Phase,
        worker_of: &dyn Fn(usize) -> Box<dyn driver::Worker>,
    ) -> Result<PhaseResult, Failure> {
        let never = AtomicBool::new(false);
        driver::run(self.store, phase, &never, &NoProgress, worker_of)
            .map_err(|error| format!("{} {}: {error}", phase.name, phase.distribution).into())
    }
}

/// Writes a directory's files out and drops them from the page cache.
fn forget_files(directory: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget_files(&entry.path())?;
        } else {
            let file = fs::File::open(entry.path())?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn settings(arguments: &Arguments) -> Value {
    json!({
        "stores": arguments.stores,
        "data_bytes": arguments.size_mib << 20,
        "memory_bytes": arguments.memory_mib << 20,
        "value_bytes": arguments.value_bytes,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "theta": THETA_DEFAULT,
        "seed": arguments.seed,
    })
}
