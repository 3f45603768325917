//! The quantities of a measurement: where each is in a line of the results, its name, its unit, and
//! which way is better. A figure that a store or platform does not give is missing, never zero.

use serde_json::Value;

use crate::experiments::table::median;
use crate::readable::{bytes, duration, grouped};

/// The percentiles of latencies, as they are called in results.
pub const PERCENTILES: [&str; 5] = ["p50", "p95", "p99", "p99.9", "max"];

/// What can be shown of a measurement.
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
    /// The latency of a kind of operation at one of [`PERCENTILES`], in nanoseconds.
    Latency(&'static str, &'static str),
    /// The longest time in which nothing was finished, in seconds.
    Stall,
    /// Gets served from RAM by gets that found their key.
    HitRate,
    /// Bytes on the disk by bytes of data.
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
    /// The figure of one measurement, given its line of the results.
    pub fn of(self, line: &Value) -> Option<f64> {
        let phase = &line["phase"];
        let used = |name: &str| {
            let settled = &phase["process_settled"];
            let usage = match settled.is_object() {
                true => settled,
                false => &phase["process"],
            };
            usage[name].as_f64()
        };
        let value = match self {
            Self::Throughput => phase["operations_per_second"].as_f64(),
            Self::CpuMicros => phase["cpu_micros_per_operation"].as_f64(),
            Self::WriteAmplification => (phase["write_amplification_process"].as_f64())
                .or_else(|| phase["write_amplification_store"].as_f64()),
            Self::ReadAmplification => phase["read_amplification"].as_f64(),
            Self::Latency(kind, percentile) => phase["latency_nanos"][kind][percentile].as_f64(),
            Self::Stall => phase["longest_stall_seconds"].as_f64(),
            Self::HitRate => phase["ram_hit_rate"].as_f64(),
            Self::Space => {
                let data = line["data_bytes"].as_f64().filter(|bytes| *bytes > 0.0)?;
                Some(line["disk_bytes"].as_f64()? / data)
            }
            Self::Resident => used("resident_bytes_max"),
            Self::Seconds => {
                let settling = phase["settle_seconds"].as_f64().unwrap_or_default();
                Some(phase["seconds"].as_f64()? + settling)
            }
            Self::CpuSeconds => Some(used("user_seconds")? + used("system_seconds")?),
            Self::ReadBytes => used("read_bytes"),
            Self::WrittenBytes => {
                let cancelled = used("cancelled_write_bytes").unwrap_or_default();
                Some((used("write_bytes")? - cancelled).max(0.0))
            }
        };
        value.filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// Whether a larger figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::HitRate)
    }

    /// The name, with its unit where figures are shown without one.
    pub fn name(self) -> String {
        match self {
            Self::Throughput => "kop/s",
            Self::CpuMicros => "CPU us/op",
            Self::WriteAmplification => "write amplification",
            Self::ReadAmplification => "read amplification",
            Self::Latency(kind, percentile) => return format!("{kind} {percentile}"),
            Self::Stall => "longest stall",
            Self::HitRate => "gets from RAM",
            Self::Space => "space, times the data",
            Self::Resident => "most resident",
            Self::Seconds => "duration",
            Self::CpuSeconds => "CPU time",
            Self::ReadBytes => "read",
            Self::WrittenBytes => "written",
        }
        .to_owned()
    }

    /// The figure for a reader, in the unit of [`Self::name`] or with its own.
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
}

/// Three or four digits of a figure: `1,897`, `44.1`, `2.35`, `0.061`.
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
    low: f64,
    high: f64,
}

impl Spread {
    /// Of these; none if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.collect();
        Some(Spread {
            low: values.iter().copied().min_by(f64::total_cmp)?,
            high: values.iter().copied().max_by(f64::total_cmp)?,
            median: median(values),
        })
    }

    /// The median, and the range if it is one: `222 (111 to 333)`.
    pub fn show(&self, quantity: Quantity) -> String {
        let [middle, low, high] = [self.median, self.low, self.high].map(|v| quantity.show(v));
        match low == high {
            true => middle,
            false => format!("{middle} ({low} to {high})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_and_absurd_figures_are_missing() {
        let line = json!({ "disk_bytes": 5, "phase": {
            "operations_per_second": "fast", "cpu_micros_per_operation": null, "ram_hit_rate": -1,
        } });
        for quantity in [
            Quantity::Throughput,
            Quantity::CpuMicros,
            Quantity::HitRate,
            Quantity::Space,
            Quantity::WriteAmplification,
            Quantity::Seconds,
            Quantity::Latency("get", "p99"),
        ] {
            assert_eq!(quantity.of(&line), None, "{quantity:?}");
        }
    }

    #[test]
    fn figures_come_from_their_places() {
        let line = json!({ "data_bytes": 100, "disk_bytes": 150, "phase": {
            "seconds": 2.0, "settle_seconds": 0.5, "latency_nanos": { "get": { "p99.9": 7000 } },
            "process": { "write_bytes": 1, "read_bytes": 3 },
            "process_settled": {
                "write_bytes": 10, "cancelled_write_bytes": 4,
                "user_seconds": 1.0, "system_seconds": 0.25
            },
        } });
        let of = |quantity: Quantity| quantity.of(&line);
        assert_eq!(of(Quantity::Seconds), Some(2.5));
        assert_eq!(of(Quantity::Space), Some(1.5));
        assert_eq!(of(Quantity::WrittenBytes), Some(6.0));
        assert_eq!(of(Quantity::CpuSeconds), Some(1.25));
        assert_eq!(of(Quantity::Latency("get", "p99.9")), Some(7000.0));
    }

    #[test]
    fn figures_read_well() {
        let shown = [1_897_000.0, 44_100.0, 2_350.0, 61.0].map(|v| Quantity::Throughput.show(v));
        assert_eq!(shown, ["1,897", "44.1", "2.35", "0.061"]);
        assert_eq!(Quantity::Latency("get", "p50").show(7e3), "7.0 us");
        assert_eq!(Spread::of(std::iter::empty()), None);
        let shown = |values: [f64; 2]| {
            let spread = Spread::of(values.into_iter());
            spread.map(|spread| spread.show(Quantity::Throughput))
        };
        assert_eq!(shown([1e3, 3e3]).as_deref(), Some("2.00 (1.00 to 3.00)"));
        assert_eq!(shown([1e3, 1e3]).as_deref(), Some("1.00"));
    }
}
