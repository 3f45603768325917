//! Experiment `many`: what many open databases cost one process that hardly uses them: memory,
//! threads, processor, files, and seconds to create, open and close.
//!
//! Each round creates a number of databases, leaves them alone, puts one record into each, leaves
//! them alone again, closes them, opens them once more, reads the records back, and closes. The
//! costs of idle databases are measured from a little after the last call on: work that a store
//! still does then is part of the cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk_space::disk_bytes;
use super::table::TextTable;
use super::{Common, Failure, Measure, Measured, Turn, texts};
use crate::opener::{Durability, Opener, Settings};
use crate::process::{ProcessUsage, cpu_seconds};
use crate::store::Store;

/// The arguments of `experiment many`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Databases that are open at once
    #[arg(long, default_value_t = 1000)]
    databases: usize,
    /// MiB of memory that each may plan with; the default is EvenDB's own
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Seconds over which an idle process is looked at
    #[arg(long, default_value_t = 10)]
    idle_seconds: u64,
    /// Seconds from the last call until the idle process is looked at
    #[arg(long, default_value_t = 5)]
    settle_seconds: u64,
}

impl Arguments {
    fn databases(&self) -> usize {
        if self.common.quick {
            self.databases.min(20)
        } else {
            self.databases
        }
    }
}

impl Measure for Arguments {
    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Value {
        json!({
            "databases": self.databases(),
            "memory_bytes": self.memory_mib << 20,
            "idle_seconds": self.idle_seconds,
            "settle_seconds": self.settle_seconds,
        })
    }

    fn measure(&self, turn: Turn<'_>) -> Result<Value, Failure> {
        let own = turn.directory.join(turn.round.to_string());
        let run = ManyRun::new(self, turn.opener, &own)?;
        let phases = run.phases()?;
        fs::remove_dir_all(&own)?;
        let mut table = TextTable::new([
            "",
            "seconds",
            "ms each",
            "idle CPU ms/s",
            "switches/s",
            "threads",
            "files each",
            "memory KiB each",
            "disk KiB each",
        ]);
        for phase in &phases {
            table.row(phase.cells(self.databases()));
        }
        let text = format!(
            "{}, {} databases, round {}\n{table}",
            turn.opener.name(),
            self.databases(),
            turn.round + 1
        );
        let phases: Vec<Value> = phases.iter().map(ManyStep::json).collect();
        Ok(json!({ "phases": phases, "text": text }))
    }

    fn report(&self, results: &[Measured]) -> String {
        texts(results)
    }
}

/// What the process has at a moment, beyond what it had before any database.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    resident_bytes: u64,
    threads: u64,
    files: u64,
}

impl Held {
    fn now() -> Result<Held, Failure> {
        let usage = ProcessUsage::now().ok_or("this system has no /proc/self to read from")?;
        Ok(Held {
            resident_bytes: usage.resident_bytes,
            threads: fs::read_dir("/proc/self/task")?.count() as u64,
            // The descriptor that lists them is not counted.
            files: fs::read_dir("/proc/self/fd")?.count() as u64 - 1,
        })
    }
}

/// One step: what was done to all databases, and then nothing for a while.
#[derive(Debug)]
struct ManyStep {
    name: &'static str,
    seconds: f64,
    /// While idle: milliseconds of processor time in a second, and how often a second a thread
    /// began to wait.
    idle: Option<(f64, f64)>,
    held: Held,
    disk_bytes: u64,
}

impl ManyStep {
    fn cells(&self, databases: usize) -> [String; 9] {
        let each = |bytes: u64| format!("{:.0}", bytes as f64 / databases as f64 / 1024.0);
        let idle = |of: fn((f64, f64)) -> f64| {
            self.idle
                .map_or_else(String::new, |idle| format!("{:.1}", of(idle)))
        };
        [
            self.name.to_owned(),
            format!("{:.2}", self.seconds),
            format!("{:.2}", self.seconds * 1e3 / databases as f64),
            idle(|idle| idle.0),
            idle(|idle| idle.1),
            self.held.threads.to_string(),
            format!("{:.2}", self.held.files as f64 / databases as f64),
            each(self.held.resident_bytes),
            each(self.disk_bytes),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "seconds": self.seconds,
            "idle_cpu_milliseconds_per_second": self.idle.map(|idle| idle.0),
            "idle_switches_per_second": self.idle.map(|idle| idle.1),
            "threads": self.held.threads,
            "files": self.held.files,
            "resident_bytes": self.held.resident_bytes,
            "disk_bytes": self.disk_bytes,
        })
    }
}

struct ManyRun<'a> {
    arguments: &'a Arguments,
    opener: &'a dyn Opener,
    directories: Vec<PathBuf>,
    place: &'a Path,
    before: Held,
}

const KEY: &[u8] = b"the only key";

impl<'a> ManyRun<'a> {
    fn new(
        arguments: &'a Arguments,
        opener: &'a dyn Opener,
        place: &'a Path,
    ) -> Result<ManyRun<'a>, Failure> {
        let directories: Vec<PathBuf> = (0..arguments.databases())
            .map(|number| place.join(format!("{number:06}")))
            .collect();
        for directory in &directories {
            fs::create_dir_all(directory)?;
        }
        Ok(ManyRun {
            arguments,
            opener,
            directories,
            place,
            before: Held::now()?,
        })
    }

    fn phases(&self) -> Result<Vec<ManyStep>, Failure> {
        let (created, stores) = self.open("created", "create")?;
        let put = self.phase("one record put into each", true, || {
            for (number, store) in stores.iter().enumerate() {
                store.put(KEY, &value(number))?;
            }
            Ok(())
        })?;
        let closed = self.close("closed", stores)?;
        let (opened, stores) = self.open("opened again", "open")?;
        let read = self.phase("the record of each read", true, || {
            for (number, store) in stores.iter().enumerate() {
                let mut same = false;
                store.get(KEY, &mut |found| same = found == value(number))?;
                if !same {
                    return Err(format!("database {number} has lost its record").into());
                }
            }
            Ok(())
        })?;
        let ended = self.close("closed again", stores)?;
        Ok(vec![created, put, closed, opened, read, ended])
    }

    fn open(
        &self,
        name: &'static str,
        what: &str,
    ) -> Result<(ManyStep, Vec<Box<dyn Store>>), Failure> {
        let settings = Settings {
            memory_bytes: self.arguments.memory_mib << 20,
            durability: Durability::Process,
        };
        let mut stores = Vec::with_capacity(self.directories.len());
        let phase = self.phase(name, true, || {
            for (number, directory) in self.directories.iter().enumerate() {
                let store = self.opener.open(directory, &settings).map_err(|error| {
                    let files = self.held().map_or(0, |held| held.files);
                    format!(
                        "cannot {what} database {number} ({files} files are open by now; `ulimit -n` \
                         sets how many may be): {error}"
                    )
                })?;
                stores.push(store);
            }
            Ok(())
        })?;
        Ok((phase, stores))
    }

    fn close(&self, name: &'static str, stores: Vec<Box<dyn Store>>) -> Result<ManyStep, Failure> {
        self.phase(name, false, || {
            for store in stores {
                store.close()?;
            }
            Ok(())
        })
    }

    fn phase(
        &self,
        name: &'static str,
        idles: bool,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<ManyStep, Failure> {
        let started = Instant::now();
        work()?;
        let seconds = started.elapsed().as_secs_f64();
        let idle = match idles {
            true => Some(self.idle()?),
            false => None,
        };
        Ok(ManyStep {
            name,
            seconds,
            idle,
            held: self.held()?,
            disk_bytes: disk_bytes(self.place),
        })
    }

    /// What the process has now beyond what it had before any database.
    fn held(&self) -> Result<Held, Failure> {
        let now = Held::now()?;
        let before = self.before;
        Ok(Held {
            resident_bytes: now.resident_bytes.saturating_sub(before.resident_bytes),
            threads: now.threads.saturating_sub(before.threads),
            files: now.files.saturating_sub(before.files),
        })
    }

    /// Waits for a while, and says what the process did meanwhile.
    fn idle(&self) -> Result<(f64, f64), Failure> {
        std::thread::sleep(Duration::from_secs(self.arguments.settle_seconds));
        // A look at a thousand threads takes processor time too: it is left out.
        let (before, started) = (switches()?, Instant::now());
        let cpu = cpu_seconds();
        std::thread::sleep(Duration::from_secs(self.arguments.idle_seconds));
        let seconds = started.elapsed().as_secs_f64();
        let used = cpu_seconds() - cpu;
        Ok((
            used * 1e3 / seconds,
            // The count of a thread that has ended is gone.
            switches()?.saturating_sub(before) as f64 / seconds,
        ))
    }
}

fn value(number: usize) -> Vec<u8> {
    format!("the only value of database {number}").into_bytes()
}

/// How often threads of the process began to wait, except this one.
fn switches() -> Result<u64, Failure> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        if task.file_name().to_str() == Some(&own) {
            continue;
        }
        // A thread may end at any moment.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line
            .and_then(|count| count.trim().parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(sum)
}
