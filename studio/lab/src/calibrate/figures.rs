//! [`Calibration`]: what a machine can do, as figures, as JSON and for a terminal.

use serde_json::{Value, json};

use super::limits::{Unit, limits};
use crate::experiments::table::{TextTable, median};
use crate::readable::{bytes, duration};

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
    pub(super) fn of(slices: impl IntoIterator<Item = f64>) -> Self {
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
    pub(super) fn of(slices: &[(f64, f64)]) -> Self {
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
    /// Reads of 4 KiB at random places by [`RANDOM_READ_THREADS`](super::RANDOM_READ_THREADS)
    /// threads.
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
        let mut bounds = TextTable::new(["limit: what sets it", ""]);
        for limit in limits(self) {
            let name = format!("{}: {}", limit.of, limit.by);
            bounds.row([name, limit.unit.show(limit.value)]);
        }
        format!("{}\n{table}\n{bounds}", self.heading())
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
