//! The quantities of a measurement: their place in a line of the results, name, unit, and better
//! direction. A figure that a store or platform does not give is missing, never zero.

use serde_json::Value;

use crate::experiments::table::median;
use crate::readable::{bytes, duration, grouped};

/// The percentiles of latencies, as they are called in results.
pub const PERCENTILES: [&str; 5] = ["p50", "p95", "p99", "p99.9", "max"];

/// Causes of waits, as they are called in figures (`pause.<cause>_nanos_total`).
pub const CAUSES: [&str; 6] = ["pace", "debt", "room", "chunk", "freeze", "read"];

/// A quantity of a measurement that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Finished operations a second, with the time of settling the debt charged.
    RateWithDebt,
    /// Finished operations a second until the last one.
    RateWithoutDebt,
    /// CPU microseconds of the process for one operation.
    CpuMicros,
    /// Bytes written divided by bytes handed in, debt included.
    WriteAmplification,
    /// Bytes of read calls divided by bytes handed back.
    ReadAmplification,
    /// The latency of a kind of operation at one of [`PERCENTILES`], in nanoseconds.
    Latency(&'static str, &'static str),
    /// The longest time in which nothing was finished, in seconds.
    Stall,
    /// Seconds that operations of all threads waited for one of [`CAUSES`].
    Waited(&'static str),
    /// CPU time of the process divided by that of all cores, without settling.
    CpuShare,
    /// Bytes a second fetched from storage, without settling.
    ReadRate,
    /// Bytes a second sent to storage less what was cancelled, without settling.
    WriteRate,
    /// Bytes fetched from storage for one get or scan.
    FetchedPerRead,
    /// Bytes fetched from storage divided by bytes of keys and values that reads handed back.
    FetchedByReturned,
    /// Read system calls for one get or scan.
    ReadCalls,
    /// Write system calls for one put, settling included.
    WriteCalls,
    /// Gets served from RAM divided by gets that found their key.
    HitRate,
    /// Records of scans, or gets, that were served from RAM, divided by all of them.
    ReadHitRate,
    /// The share that an ideal static cache would answer. It has the memory that the store was told
    /// to use.
    IdealHitRate,
    /// The memory of that cache, in bytes.
    IdealBytes,
    /// Misses divided by the misses of the ideal cache.
    MissesByIdeal,
    /// Operations a second with the ideal cache's misses at one read each.
    DiskLimit,
    /// Bytes on the disk divided by bytes of data.
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
        let settled = match &phase["process_settled"] {
            settled if settled.is_object() => settled,
            _ => &phase["process"],
        };
        let used = |name: &str| settled[name].as_f64();
        let running = || phase["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
        let value = match self {
            Self::RateWithoutDebt => phase["operations_per_second"].as_f64(),
            Self::RateWithDebt => rate_with_debt(phase),
            Self::CpuMicros => phase["cpu_micros_per_operation"].as_f64(),
            Self::WriteAmplification => (phase["write_amplification_process"].as_f64())
                .or_else(|| phase["write_amplification_store"].as_f64()),
            Self::ReadAmplification => phase["read_amplification"].as_f64(),
            Self::Latency(kind, percentile) => phase["latency_nanos"][kind][percentile].as_f64(),
            Self::Stall => phase["longest_stall_seconds"].as_f64(),
            Self::Waited(cause) => {
                let nanos = &phase["figures"][format!("pause.{cause}_nanos_total")];
                nanos.as_f64().map(|nanos| nanos / 1e9)
            }
            Self::CpuShare => phase["cpu_share_of_cores"].as_f64(),
            Self::ReadRate => Some(phase["process"]["read_bytes"].as_f64()? / running()?),
            Self::WriteRate => Some(stored(&phase["process"])? / running()?),
            Self::FetchedPerRead => per_read(phase, "read_bytes"),
            Self::FetchedByReturned => {
                let returned = phase["user_bytes_read"].as_f64()?;
                (returned > 0.0).then_some(phase["process"]["read_bytes"].as_f64()? / returned)
            }
            Self::ReadCalls => per_read(phase, "read_calls"),
            Self::WriteCalls => {
                let puts = phase["latency_nanos"]["put"]["count"].as_f64()?;
                (puts > 0.0).then_some(used("write_calls")? / puts)
            }
            Self::HitRate => phase["ram_hit_rate"].as_f64(),
            Self::ReadHitRate => phase["cache"]["read_hit_rate"].as_f64(),
            Self::IdealHitRate => phase["cache"]["ideal"]["hit_rate"].as_f64(),
            Self::IdealBytes => phase["cache"]["ideal"]["cache_bytes"].as_f64(),
            Self::MissesByIdeal => phase["cache"]["misses_by_ideal"].as_f64(),
            Self::DiskLimit => phase["cache"]["ideal"]["disk_limit_operations_per_second"].as_f64(),
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
            Self::WrittenBytes => stored(settled),
        };
        value.filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// Whether a larger figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::RateWithDebt | Self::RateWithoutDebt | Self::HitRate | Self::ReadHitRate
        )
    }

    /// The name, with its unit if figures are shown without one.
    pub fn name(self) -> String {
        match self {
            Self::RateWithDebt => "kop/s",
            Self::RateWithoutDebt => "kop/s without debt",
            Self::CpuMicros => "CPU us/op",
            Self::WriteAmplification => "write amplification",
            Self::ReadAmplification => "read amplification",
            Self::Latency(kind, percentile) => return format!("{kind} {percentile}"),
            Self::Stall => "longest stall",
            Self::Waited(cause) => return format!("waited: {cause}, s"),
            Self::CpuShare => "CPU in use",
            Self::ReadRate => "MB/s read",
            Self::WriteRate => "MB/s written",
            Self::FetchedPerRead => "fetched a read",
            Self::FetchedByReturned => "fetched by returned",
            Self::ReadCalls => "read calls",
            Self::WriteCalls => "write calls",
            Self::HitRate => "gets from RAM",
            Self::ReadHitRate => "reads from RAM",
            Self::IdealHitRate => "ideal cache",
            Self::IdealBytes => "ideal cache of",
            Self::MissesByIdeal => "misses by the ideal's",
            Self::DiskLimit => "disk's limit, kop/s",
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
            Self::RateWithDebt | Self::RateWithoutDebt | Self::DiskLimit => figure(value / 1e3),
            Self::ReadRate | Self::WriteRate => figure(value / 1e6),
            Self::CpuShare => format!("{:.0} %", value * 100.0),
            Self::Latency(..) => duration(value),
            Self::Stall if value == 0.0 => "under 10 ms".to_owned(),
            Self::Stall => duration(value * 1e9),
            Self::Seconds | Self::CpuSeconds => seconds(value),
            Self::HitRate | Self::ReadHitRate | Self::IdealHitRate => {
                format!("{:.1} %", value * 100.0)
            }
            Self::Resident
            | Self::IdealBytes
            | Self::ReadBytes
            | Self::WrittenBytes
            | Self::FetchedPerRead => bytes(value.round() as u64),
            _ => figure(value),
        }
    }
}

/// A resource of the process, divided by the number of gets and scans.
fn per_read(phase: &Value, name: &str) -> Option<f64> {
    let count = |kind: &str| phase["latency_nanos"][kind]["count"].as_f64();
    let reads = count("get").unwrap_or(0.0) + count("scan").unwrap_or(0.0);
    (reads > 0.0).then_some(phase["process"][name].as_f64()? / reads)
}

/// The recorded rate with debt. If it is missing, computed from the rate without debt and both
/// times.
fn rate_with_debt(phase: &Value) -> Option<f64> {
    let recorded = phase["operations_per_second_with_debt"].as_f64();
    recorded.or_else(|| {
        let rate = phase["operations_per_second"].as_f64()?;
        let settling = phase["settle_seconds"].as_f64().unwrap_or(0.0);
        Some(match phase["seconds"].as_f64() {
            Some(seconds) if settling > 0.0 => rate * seconds / (seconds + settling),
            _ => rate,
        })
    })
}

/// Bytes of a process that were sent to storage and not cancelled.
fn stored(usage: &Value) -> Option<f64> {
    let cancelled = usage["cancelled_write_bytes"].as_f64().unwrap_or_default();
    Some((usage["write_bytes"].as_f64()? - cancelled).max(0.0))
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
    /// The figure in the middle.
    pub median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    /// The spread of these figures. None if there are none.
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
        self.show_by(|value| quantity.show(value))
    }

    /// As [`Spread::show`], with another way of showing a value.
    pub fn show_by(&self, show: impl Fn(f64) -> String) -> String {
        let [middle, low, high] = [self.median, self.low, self.high].map(show);
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
            Quantity::RateWithDebt,
            Quantity::RateWithoutDebt,
            Quantity::Waited("pace"),
            Quantity::CpuShare,
            Quantity::WriteRate,
            Quantity::FetchedPerRead,
            Quantity::CpuMicros,
            Quantity::HitRate,
            Quantity::Space,
            Quantity::WriteAmplification,
            Quantity::WriteCalls,
            Quantity::Seconds,
            Quantity::Latency("get", "p99"),
        ] {
            assert_eq!(quantity.of(&line), None, "{quantity:?}");
        }
    }

    #[test]
    fn figures_come_from_their_places() {
        let line = json!({ "data_bytes": 100, "disk_bytes": 150, "phase": {
            "seconds": 2.0, "settle_seconds": 0.5, "latency_nanos": { "get": { "count": 2, "p99.9": 7000 }, "put": { "count": 4 } },
            "process": { "write_bytes": 1, "read_bytes": 3 },
            "operations_per_second": 1000.0, "cpu_share_of_cores": 0.5,
            "figures": { "pause.pace_nanos_total": 2_500_000_000u64 },
            "process_settled": {
                "write_bytes": 10, "cancelled_write_bytes": 4, "write_calls": 6,
                "user_seconds": 1.0, "system_seconds": 0.25
            },
        } });
        let of = |quantity: Quantity| quantity.of(&line);
        assert_eq!(of(Quantity::Seconds), Some(2.5));
        assert_eq!(of(Quantity::Space), Some(1.5));
        assert_eq!(of(Quantity::WrittenBytes), Some(6.0));
        assert_eq!(of(Quantity::CpuSeconds), Some(1.25));
        assert_eq!(of(Quantity::Latency("get", "p99.9")), Some(7000.0));
        // If results have no rate with debt, it is computed.
        assert_eq!(of(Quantity::RateWithDebt), Some(800.0));
        assert_eq!(of(Quantity::RateWithoutDebt), Some(1000.0));
        assert_eq!(of(Quantity::Waited("pace")), Some(2.5));
        assert_eq!(of(Quantity::Waited("debt")), None);
        assert_eq!(of(Quantity::CpuShare), Some(0.5));
        assert_eq!(of(Quantity::ReadRate), Some(1.5));
        assert_eq!(of(Quantity::WriteRate), Some(0.5));
        assert_eq!(of(Quantity::FetchedPerRead), Some(1.5));
        assert_eq!(of(Quantity::WriteCalls), Some(1.5));
    }

    #[test]
    fn figures_read_well() {
        let shown = [1_897_000.0, 44_100.0, 2_350.0, 61.0].map(|v| Quantity::RateWithDebt.show(v));
        assert_eq!(shown, ["1,897", "44.1", "2.35", "0.061"]);
        assert_eq!(Quantity::Latency("get", "p50").show(7e3), "7.0 us");
        assert_eq!(Spread::of(std::iter::empty()), None);
        let shown = |values: [f64; 2]| {
            let spread = Spread::of(values.into_iter());
            spread.map(|spread| spread.show(Quantity::RateWithDebt))
        };
        assert_eq!(shown([1e3, 3e3]).as_deref(), Some("2.00 (1.00 to 3.00)"));
        assert_eq!(shown([1e3, 1e3]).as_deref(), Some("1.00"));
    }
}
