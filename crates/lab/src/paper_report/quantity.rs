//! The quantities of a cell: where each is in a phase's JSON, its name, unit and which way is better.
//!
//! A figure that a store or platform does not give is missing, never zero.

use serde_json::Value;

use super::results::Cell;
use crate::experiments::table::median;
use crate::report::{bytes, duration, grouped};

/// The percentiles that reports show, with their members in the phase's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// The median.
    P50,
    /// What the paper calls tail latency.
    P95,
    /// One in a hundred is slower.
    P99,
    /// One in a thousand is slower.
    P999,
    /// The slowest.
    Max,
}

impl Percentile {
    fn member(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }
}

/// What can be shown of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Finished operations a second.
    Throughput,
    /// CPU microseconds of the process for one operation.
    CpuMicros,
    /// Bytes written by bytes handed in, debt included.
    WriteAmplification,
    /// Bytes of read calls by bytes handed back.
    ReadAmplification,
    /// The latency of a kind of operation, in nanoseconds.
    Latency(&'static str, Percentile),
    /// The longest time in which nothing was finished, in seconds.
    Stall,
    /// Gets served from RAM by gets that found their key.
    HitRate,
    /// Bytes on the disk by bytes of live data.
    Space,
    /// The largest resident size of the process, in bytes.
    Resident,
    /// Wall time with the settling of debt, in seconds.
    Seconds,
    /// CPU time of the process with the settling of debt, in seconds.
    CpuSeconds,
    /// Bytes fetched from storage, settling included.
    ReadBytes,
    /// Bytes sent to storage less what was cancelled, settling included.
    WrittenBytes,
}

impl Quantity {
    /// The figure of one measurement.
    #[must_use]
    pub fn of(self, cell: &Cell, phase: &Value) -> Option<f64> {
        let usage = || match &phase["process_settled"] {
            Value::Object(_) => &phase["process_settled"],
            _ => &phase["process"],
        };
        let value = match self {
            Self::Throughput => number(&phase["operations_per_second"]),
            Self::CpuMicros => number(&phase["cpu_micros_per_operation"]),
            Self::WriteAmplification => number(&phase["write_amplification_process"])
                .or_else(|| number(&phase["write_amplification_store"])),
            Self::ReadAmplification => number(&phase["read_amplification"]),
            Self::Latency(kind, percentile) => {
                number(&phase["latency_nanos"][kind][percentile.member()])
            }
            Self::Stall => number(&phase["longest_stall_seconds"]),
            Self::HitRate => number(&phase["ram_hit_rate"]),
            Self::Space => space(cell, phase),
            Self::Resident => number(&usage()["resident_bytes_max"]),
            Self::Seconds => Some(
                number(&phase["seconds"])? + number(&phase["settle_seconds"]).unwrap_or_default(),
            ),
            Self::CpuSeconds => {
                Some(number(&usage()["user_seconds"])? + number(&usage()["system_seconds"])?)
            }
            Self::ReadBytes => number(&usage()["read_bytes"]),
            Self::WrittenBytes => {
                let cancelled = number(&usage()["cancelled_write_bytes"]).unwrap_or_default();
                Some((number(&usage()["write_bytes"])? - cancelled).max(0.0))
            }
        };
        value.filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// Whether a larger figure is the better one.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::HitRate)
    }

    /// The name with its unit, for headings and axes.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Throughput => "kop/s".to_owned(),
            Self::CpuMicros => "CPU us/op".to_owned(),
            Self::WriteAmplification => "write amplification".to_owned(),
            Self::ReadAmplification => "read amplification".to_owned(),
            Self::Latency(kind, percentile) => format!("{kind} {}", percentile.member()),
            Self::Stall => "longest stall".to_owned(),
            Self::HitRate => "gets from RAM".to_owned(),
            Self::Space => "space, times the data".to_owned(),
            Self::Resident => "most resident".to_owned(),
            Self::Seconds => "duration".to_owned(),
            Self::CpuSeconds => "CPU time".to_owned(),
            Self::ReadBytes => "read".to_owned(),
            Self::WrittenBytes => "written".to_owned(),
        }
    }

    /// The figure as a reader wants it, in the unit of [`Self::name`] or with its own.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Throughput => figure(value / 1e3),
            Self::Latency(..) => duration(value),
            Self::Stall if value == 0.0 => "under 10 ms".to_owned(),
            Self::Stall => duration(value * 1e9),
            Self::Seconds | Self::CpuSeconds => seconds(value),
            Self::HitRate => format!("{:.1} %", value * 100.0),
            Self::Resident | Self::ReadBytes | Self::WrittenBytes => bytes(value as u64),
            _ => figure(value),
        }
    }

    /// What the figure is divided by for an axis in the unit of [`Self::axis`].
    #[must_use]
    pub fn axis_scale(self) -> f64 {
        match self {
            Self::Throughput => 1e3,
            Self::Latency(..) => 1e6,
            _ => 1.0,
        }
    }

    /// The axis's title.
    #[must_use]
    pub fn axis(self) -> String {
        match self {
            Self::Latency(..) => "ms".to_owned(),
            other => other.name(),
        }
    }
}

/// Bytes on the disk by live bytes: what the run measured, else what the store says.
fn space(cell: &Cell, phase: &Value) -> Option<f64> {
    if let Some(stated) = number(&phase["space_amplification"]) {
        return Some(stated);
    }
    let first = |names: [&Value; 3]| names.into_iter().find_map(number);
    let disk = first([
        &phase["disk_bytes"],
        &phase["space_bytes"],
        &phase["figures"]["space.disk_bytes"],
    ])?;
    let live = number(&phase["live_bytes"]).or(cell.data_bytes.map(|bytes| bytes as f64))?;
    (live > 0.0).then(|| disk / live)
}

/// A number of a JSON value; none if it is anything else.
#[must_use]
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

/// Three or four digits of a figure: `1,897`, `44.1`, `2.35`, `0.061`.
#[must_use]
pub fn figure(value: f64) -> String {
    match value {
        v if v >= 99.95 => grouped(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v < 120.0 => format!("{v:.1} s"),
        v if v < 7200.0 => format!("{:.1} min", v / 60.0),
        v => format!("{:.2} h", v / 3600.0),
    }
}

/// Several rounds' figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// How many.
    pub rounds: usize,
}

impl Spread {
    /// Of these; none if there are none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.collect();
        let low = values.iter().copied().min_by(f64::total_cmp)?;
        let high = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Spread {
            low,
            high,
            rounds: values.len(),
            median: median(values),
        })
    }

    /// The range, if it is one.
    #[must_use]
    pub fn range(&self, quantity: Quantity) -> Option<String> {
        let (low, high) = (quantity.show(self.low), quantity.show(self.high));
        (low != high).then(|| format!("{low} to {high}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_and_absurd_figures_are_missing() {
        let cell = Cell::default();
        let phase = json!({
            "operations_per_second": "fast", "cpu_micros_per_operation": null,
            "ram_hit_rate": -1, "figures": { "space.disk_bytes": 5 },
        });
        for quantity in [
            Quantity::Throughput,
            Quantity::CpuMicros,
            Quantity::HitRate,
            Quantity::Space,
            Quantity::WriteAmplification,
            Quantity::Seconds,
            Quantity::Latency("get", Percentile::P99),
        ] {
            assert_eq!(quantity.of(&cell, &phase), None, "{quantity:?}");
        }
    }

    #[test]
    fn figures_come_from_their_places() {
        let cell = Cell {
            data_bytes: Some(100),
            ..Cell::default()
        };
        let phase = json!({
            "seconds": 2.0, "settle_seconds": 0.5, "disk_bytes": 150,
            "latency_nanos": { "get": { "p99.9": 7000 } },
            "process": { "write_bytes": 1, "read_bytes": 3 },
            "process_settled": {
                "write_bytes": 10, "cancelled_write_bytes": 4,
                "user_seconds": 1.0, "system_seconds": 0.25
            },
        });
        let of = |quantity: Quantity| quantity.of(&cell, &phase);
        assert_eq!(of(Quantity::Seconds), Some(2.5));
        assert_eq!(of(Quantity::Space), Some(1.5));
        assert_eq!(of(Quantity::WrittenBytes), Some(6.0));
        assert_eq!(of(Quantity::CpuSeconds), Some(1.25));
        let tail = Quantity::Latency("get", Percentile::P999);
        assert_eq!(
            of(tail).map(|value| tail.show(value)).as_deref(),
            Some("7.0 us")
        );
    }

    #[test]
    fn figures_read_well() {
        let shown = [1_897_000.0, 44_100.0, 2_350.0, 61.0].map(|v| Quantity::Throughput.show(v));
        assert_eq!(shown, ["1,897", "44.1", "2.35", "0.061"]);
        assert_eq!(Spread::of(std::iter::empty()), None);
        let spread = Spread::of([1e3, 3e3].into_iter()).unwrap();
        assert_eq!(spread.median, 2e3);
        let range = spread.range(Quantity::Throughput);
        assert_eq!(range.as_deref(), Some("1.00 to 3.00"));
    }
}
