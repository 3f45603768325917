//! What this machine's memory and disk can do at best, as a measure for other figures.
//!
//! ```text
//!   memory   latency: dependent random reads over 256 MiB        copy: 64 MiB to 64 MiB
//!   disk     one file of 1 GiB (or what fits), 1 MiB pieces:
//!            write, fdatasync of every sixteenth part -> read in order -> read 4 KiB at random
//!            small files written before, 4 KiB over and over: fdatasync after each
//! ```
//! Every measurement has a few slices of time; it states their median and both ends. Reads bypass
//! the page cache (`O_DIRECT`). If the file system cannot do that, the cache is dropped before and
//! the result says so. Data does not compress. Caches below the kernel (the disk's own, a
//! hypervisor's) are not bypassed: a store would use them as well.
//!
//! Everything on the disk is in a directory of its own, which is removed at the end, also after an
//! error or an interruption. Nothing else may run meanwhile: this is not checked, but the spread
//! shows it.
//!
//! [`limits`] turns the figures into bounds on what a store can reach.

mod disk;
mod memory;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::experiments::table::{TextTable, median};
use crate::readable::{bytes, duration, grouped};

pub use disk::{SyncSettings, random_reads_per_second, sync_rate};

/// Threads of the second measurement of random reads: enough to keep a solid-state disk busy.
pub const RANDOM_READ_THREADS: usize = 16;

/// Bytes of one random read and of one synced write.
pub const BLOCK_BYTES: usize = 4096;

/// The value size for which the bound on a get from RAM is stated, as in the paper.
const VALUE_BYTES: f64 = 800.0;

/// How to measure.
#[derive(Clone, Debug)]
pub struct CalibrationSettings {
    /// A directory on the disk in question.
    pub directory: PathBuf,
    /// The time of one measurement. There are eight, and the time to make the file comes on top.
    pub time: Duration,
    /// The time is divided into this number of slices, and the median over them is taken.
    pub slices: usize,
    /// The file's size, if there is space for it.
    pub file_bytes: u64,
    /// Memory over which latency is measured; half of it is copied.
    pub memory_bytes: usize,
}

impl CalibrationSettings {
    /// A run of less than a minute, with one second for each measurement.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            time: Duration::from_secs(1),
            slices: 5,
            file_bytes: 1 << 30,
            memory_bytes: 256 << 20,
        }
    }

    fn slice(&self) -> Duration {
        self.time / self.slices.max(1) as u32
    }
}

/// The median of a measurement's slices, and the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sliced {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Sliced {
    fn of(slices: impl IntoIterator<Item = f64>) -> Self {
        let slices: Vec<f64> = slices.into_iter().collect();
        Self {
            min: slices.iter().copied().reduce(f64::min).unwrap_or(f64::NAN),
            max: slices.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
            median: median(slices),
        }
    }

    fn to_json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            median: value["median"].as_f64()?,
            min: value["min"].as_f64()?,
            max: value["max"].as_f64()?,
        })
    }
}

/// How often an operation was done, and how long one took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Operations a second, all threads together.
    pub per_second: Sliced,
    /// The median time of one, in nanoseconds.
    pub p50_nanos: Sliced,
}

impl Rate {
    fn of(slices: &[(f64, f64)]) -> Self {
        Self {
            per_second: Sliced::of(slices.iter().map(|slice| slice.0)),
            p50_nanos: Sliced::of(slices.iter().map(|slice| slice.1)),
        }
    }

    fn to_json(self) -> Value {
        json!({
            "per_second": self.per_second.to_json(),
            "p50_nanos": self.p50_nanos.to_json(),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            per_second: Sliced::from_json(&value["per_second"])?,
            p50_nanos: Sliced::from_json(&value["p50_nanos"])?,
        })
    }
}

/// What a machine can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The directory on the disk that was measured.
    pub directory: String,
    /// The size of the file for the disk's measurements, in bytes.
    pub file_bytes: u64,
    /// Whether reads bypassed the page cache. If not, it was dropped before.
    pub direct: bool,
    /// Whether the file system is in memory, so that no disk was measured.
    pub in_memory: bool,
    /// Nanoseconds of a read from memory outside all caches. The processor cannot guess its
    /// address.
    pub memory_latency_nanos: Sliced,
    /// Bytes copied in a second by one thread.
    pub memory_copy_bytes_per_second: Sliced,
    /// Reads of 4 KiB at random places by one thread.
    pub random_read: Rate,
    /// Reads of 4 KiB at random places by [`RANDOM_READ_THREADS`] threads.
    pub random_read_threads: Rate,
    /// Bytes read in order in a second, in pieces of 1 MiB.
    pub sequential_read_bytes_per_second: Sliced,
    /// Bytes written in order in a second, in pieces of 1 MiB, with fdatasync.
    pub sequential_write_bytes_per_second: Sliced,
    /// Writes of 4 KiB with fdatasync by one thread.
    pub sync: Rate,
    /// Writes of 4 KiB with fdatasync by two threads, each with a file of its own.
    pub sync_two_threads: Rate,
}

impl Calibration {
    /// All figures as JSON. [`Calibration::from_json`] reads it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "directory": self.directory,
            "file_bytes": self.file_bytes,
            "direct": self.direct,
            "in_memory": self.in_memory,
            "memory_latency_nanos": self.memory_latency_nanos.to_json(),
            "memory_copy_bytes_per_second": self.memory_copy_bytes_per_second.to_json(),
            "random_read": self.random_read.to_json(),
            "random_read_threads": self.random_read_threads.to_json(),
            "sequential_read_bytes_per_second": self.sequential_read_bytes_per_second.to_json(),
            "sequential_write_bytes_per_second": self.sequential_write_bytes_per_second.to_json(),
            "sync": self.sync.to_json(),
            "sync_two_threads": self.sync_two_threads.to_json(),
        })
    }

    /// Reads what [`Calibration::to_json`] made. `None` if something is missing.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let sliced = |name: &str| Sliced::from_json(&value[name]);
        let rate = |name: &str| Rate::from_json(&value[name]);
        Some(Self {
            directory: value["directory"].as_str()?.to_owned(),
            file_bytes: value["file_bytes"].as_u64()?,
            direct: value["direct"].as_bool()?,
            in_memory: value["in_memory"].as_bool()?,
            memory_latency_nanos: sliced("memory_latency_nanos")?,
            memory_copy_bytes_per_second: sliced("memory_copy_bytes_per_second")?,
            random_read: rate("random_read")?,
            random_read_threads: rate("random_read_threads")?,
            sequential_read_bytes_per_second: sliced("sequential_read_bytes_per_second")?,
            sequential_write_bytes_per_second: sliced("sequential_write_bytes_per_second")?,
            sync: rate("sync")?,
            sync_two_threads: rate("sync_two_threads")?,
        })
    }

    /// The measurements and the limits they set, for a terminal.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = TextTable::new(["measured", "median", "least", "most", "p50"]);
        let mut row = |name: &str, sliced: Sliced, unit: Unit, p50: Option<Sliced>| {
            let p50 = p50.map_or_else(String::new, |p50| duration(p50.median));
            let [median, min, max] = [sliced.median, sliced.min, sliced.max].map(|v| unit.show(v));
            table.row([name.to_owned(), median, min, max, p50]);
        };
        let mut plain = |name, sliced, unit| row(name, sliced, unit, None);
        plain("memory latency", self.memory_latency_nanos, Unit::Nanos);
        let copy = self.memory_copy_bytes_per_second;
        plain("memory copy", copy, Unit::BytesPerSecond);
        let (read, write) = (
            self.sequential_read_bytes_per_second,
            self.sequential_write_bytes_per_second,
        );
        plain("sequential read", read, Unit::BytesPerSecond);
        plain("sequential write, synced", write, Unit::BytesPerSecond);
        for (name, rate) in [
            ("4 KiB random reads, 1 thread", self.random_read),
            ("4 KiB random reads, 16 threads", self.random_read_threads),
            ("4 KiB fdatasync, 1 thread", self.sync),
            ("4 KiB fdatasync, 2 threads", self.sync_two_threads),
        ] {
            row(name, rate.per_second, Unit::PerSecond, Some(rate.p50_nanos));
        }
        let mut limits = TextTable::new(["limit: what sets it", ""]);
        for limit in self::limits(self) {
            let name = format!("{}: {}", limit.of, limit.by);
            limits.row([name, limit.unit.show(limit.value)]);
        }
        format!("{}\n{table}\n{limits}", self.heading())
    }

    fn heading(&self) -> String {
        let cache = match (self.in_memory, self.direct) {
            (true, _) => "which is in memory: no disk was measured",
            (false, true) => "page cache passed by",
            (false, false) => "no O_DIRECT there: page cache dropped before",
        };
        let size = bytes(self.file_bytes);
        format!("{}: a file of {size}, {cache}\n", self.directory)
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds: less is better.
    Nanos,
    /// Operations a second.
    PerSecond,
    /// Bytes a second.
    BytesPerSecond,
}

impl Unit {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanos => "nanos",
            Self::PerSecond => "per_second",
            Self::BytesPerSecond => "bytes_per_second",
        }
    }

    /// A number of this unit for people.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Nanos => duration(value),
            Self::PerSecond => format!("{}/s", grouped(value.round() as u64)),
            Self::BytesPerSecond => format!("{}/s", bytes(value as u64)),
        }
    }
}

/// A bound that the machine sets on a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimit {
    /// The name in JSON.
    pub name: &'static str,
    /// What is bounded, for people.
    pub of: &'static str,
    /// What sets the bound, for people.
    pub by: &'static str,
    /// The bound.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

impl MachineLimit {
    /// The share of the limit that a store with `measured` reached, in the limit's unit: 1 is the
    /// limit itself, 0.5 half as good.
    #[must_use]
    pub fn share(&self, measured: f64) -> f64 {
        match self.unit {
            Unit::Nanos => self.value / measured,
            Unit::PerSecond | Unit::BytesPerSecond => measured / self.value,
        }
    }

    /// The bound as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "of": self.of,
            "by": self.by,
            "value": self.value,
            "unit": self.unit.name(),
        })
    }
}

/// The bounds that these figures set.
#[must_use]
pub fn limits(figures: &Calibration) -> Vec<MachineLimit> {
    let copy = figures.memory_copy_bytes_per_second.median;
    let read = figures.sequential_read_bytes_per_second.median;
    let get_nanos = 2.0 * figures.memory_latency_nanos.median + VALUE_BYTES / copy * 1e9;
    let limit = |name, of, value, unit, by| MachineLimit {
        name,
        of,
        by,
        value,
        unit,
    };
    let (nanos, rate, speed) = (Unit::Nanos, Unit::PerSecond, Unit::BytesPerSecond);
    let cold = figures.random_read;
    let cold_rate = figures.random_read_threads.per_second.median;
    let sync = figures.sync.per_second.median;
    let write = figures.sequential_write_bytes_per_second.median;
    vec![
        limit(
            "get_ram",
            "get from RAM, 800 bytes",
            get_nanos,
            nanos,
            "two dependent cache misses and the copy",
        ),
        limit(
            "scan_ram",
            "scan from RAM, one thread",
            copy,
            speed,
            "memory copy",
        ),
        limit(
            "get_cold",
            "cold get",
            cold.p50_nanos.median,
            nanos,
            "one read of 4 KiB",
        ),
        limit(
            "gets_cold",
            "cold gets, all threads",
            cold_rate,
            rate,
            "reads of 4 KiB by 16 threads",
        ),
        limit("scan_cold", "cold scan", read, speed, "sequential read"),
        limit(
            "sync_puts",
            "sync puts, each waiting client",
            sync,
            rate,
            "one fdatasync serves all that wait",
        ),
        limit(
            "ingest",
            "ingest at write amplification 1",
            write,
            speed,
            "sequential write",
        ),
        limit(
            "recovery",
            "recovery, of the commit log's tail",
            read,
            speed,
            "sequential read",
        ),
    ]
}

/// Why there are no figures.
#[derive(Debug)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The disk is too full for a file that would tell anything.
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// Bytes that are free for this user.
        free_bytes: u64,
        /// Bytes that must be free.
        needed_bytes: u64,
    },
    /// A call to the system failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or directory of the call.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The user ended it.
    Interrupted,
    /// A measuring thread panicked.
    Panicked,
}

impl CalibrateError {
    fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

impl fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace {
                directory,
                free_bytes,
                needed_bytes,
            } => write!(
                f,
                "{} has {} free; calibrating needs at least {}",
                directory.display(),
                bytes(*free_bytes),
                bytes(*needed_bytes)
            ),
            Self::Io {
                doing,
                path,
                source,
            } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Panicked => f.write_str("a measuring thread panicked"),
        }
    }
}

impl std::error::Error for CalibrateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Measures. `interrupted` ends it early when it becomes true; `step` is told what comes next.
///
/// # Errors
/// No space, no permission, another error of the system, or the interruption. Files are removed
/// in every case.
pub fn run(
    settings: &CalibrationSettings,
    interrupted: &AtomicBool,
    step: &dyn Fn(&str),
) -> Result<Calibration, CalibrateError> {
    // The disk comes first: errors of the directory are told at once.
    let disk = disk::run(settings, interrupted, step)?;
    step("memory latency");
    let memory_latency_nanos = memory::latency(settings, interrupted)?;
    step("memory copy");
    let memory_copy_bytes_per_second = memory::copy(settings, interrupted)?;
    Ok(Calibration {
        memory_latency_nanos,
        memory_copy_bytes_per_second,
        ..disk
    })
}

fn check(interrupted: &AtomicBool) -> Result<(), CalibrateError> {
    if interrupted.load(Ordering::Relaxed) {
        return Err(CalibrateError::Interrupted);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn settings(directory: &Path) -> CalibrationSettings {
        CalibrationSettings {
            directory: directory.to_owned(),
            time: Duration::from_millis(10),
            slices: 3,
            file_bytes: 1 << 20,
            memory_bytes: 1 << 16,
        }
    }

    /// Round figures.
    pub(crate) fn calibration() -> Calibration {
        let same = |value: f64| Sliced {
            median: value,
            min: value / 2.0,
            max: value * 2.0,
        };
        let rate = |per_second, p50_nanos| Rate {
            per_second: same(per_second),
            p50_nanos: same(p50_nanos),
        };
        Calibration {
            directory: "/somewhere".to_owned(),
            file_bytes: 1 << 30,
            direct: true,
            in_memory: false,
            memory_latency_nanos: same(100.0),
            memory_copy_bytes_per_second: same(8e9),
            random_read: rate(10_000.0, 90_000.0),
            random_read_threads: rate(100_000.0, 150_000.0),
            sequential_read_bytes_per_second: same(2e9),
            sequential_write_bytes_per_second: same(1e9),
            sync: rate(5000.0, 200_000.0),
            sync_two_threads: rate(8000.0, 250_000.0),
        }
    }

    #[test]
    fn everything_is_measured_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut steps = 0;
        let counted = std::cell::Cell::new(0);
        let step = |_: &str| counted.set(counted.get() + 1);
        let settings = settings(directory.path());
        let figures = run(&settings, &AtomicBool::new(false), &step).unwrap();
        steps += counted.get();
        assert_eq!((steps, figures.file_bytes), (8, 1 << 20));
        for sliced in [
            figures.memory_latency_nanos,
            figures.memory_copy_bytes_per_second,
            figures.random_read.per_second,
            figures.random_read_threads.p50_nanos,
            figures.sequential_read_bytes_per_second,
            figures.sequential_write_bytes_per_second,
            figures.sync.per_second,
            figures.sync_two_threads.p50_nanos,
        ] {
            assert!(sliced.min > 0.0 && sliced.max.is_finite(), "{figures:?}");
            assert!((sliced.min..=sliced.max).contains(&sliced.median));
        }
        assert!(is_empty(directory.path()));
    }

    fn is_empty(directory: &Path) -> bool {
        std::fs::read_dir(directory).unwrap().next().is_none()
    }

    #[test]
    fn an_interruption_leaves_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        let raised = AtomicBool::new(false);
        // At the start, and in the middle of each step.
        for last in 1..=8 {
            raised.store(false, Ordering::Relaxed);
            let count = std::cell::Cell::new(0);
            let step = |_: &str| {
                count.set(count.get() + 1);
                raised.store(count.get() == last, Ordering::Relaxed);
            };
            let error = run(&settings, &raised, &step).unwrap_err();
            assert!(matches!(error, CalibrateError::Interrupted), "{error}");
            assert!(is_empty(directory.path()));
        }
    }

    #[test]
    fn what_is_wrong_with_the_place_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let error = run(&settings(&missing), &AtomicBool::new(false), &|_| {}).unwrap_err();
        assert!(
            error.to_string().contains("missing: No such file"),
            "{error}"
        );
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = run(&settings(&file), &AtomicBool::new(false), &|_| {}).unwrap_err();
        assert!(matches!(error, CalibrateError::Io { .. }), "{error}");
        let error = CalibrateError::NoSpace {
            directory: file,
            free_bytes: 1 << 20,
            needed_bytes: 128 << 20,
        };
        let text = error.to_string();
        assert!(
            text.contains("1.00 MiB free") && text.contains("128.00 MiB"),
            "{text}"
        );
    }

    #[test]
    fn json_holds_everything() {
        let figures = calibration();
        let json = figures.to_json();
        assert_eq!(json["sync"]["per_second"]["median"], 5000.0);
        assert_eq!(Calibration::from_json(&json), Some(figures));
        for name in json.as_object().unwrap().keys() {
            let mut less = json.clone();
            less.as_object_mut().unwrap().remove(name);
            assert_eq!(Calibration::from_json(&less), None, "{name}");
        }
    }

    #[test]
    fn limits_follow_their_definitions() {
        let all = limits(&calibration());
        let of = |name: &str| *all.iter().find(|limit| limit.name == name).unwrap();
        assert_eq!(of("get_ram").value, 2.0 * 100.0 + 100.0);
        assert_eq!(of("get_cold").value, 90_000.0);
        assert_eq!(of("scan_cold").value, 2e9);
        assert_eq!(of("ingest").value, 1e9);
        assert_eq!(of("sync_puts").value, 5000.0);
        assert_eq!(of("get_ram").share(600.0), 0.5);
        assert_eq!(of("sync_puts").share(2500.0), 0.5);
        let table = calibration().to_table();
        for words in ["300 ns", "5,000/s", "953.67 MiB/s", "200.0 us", "passed by"] {
            assert!(table.contains(words), "{words} in\n{table}");
        }
    }
}
