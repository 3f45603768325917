//! [`limits`]: the bounds that the figures of a machine set on a store.

use serde_json::{Value, json};

use super::figures::Calibration;
use crate::readable::{bytes, duration, grouped};

/// The value size for which the bound on a get from RAM is stated, as in the paper.
const VALUE_BYTES: f64 = 800.0;

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
