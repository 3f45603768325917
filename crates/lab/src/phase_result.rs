//! What a phase measured, as JSON and as an aligned table.
//!
//! Definitions, so that figures of different stores mean the same:
//! * **throughput**: finished operations by wall time of the workers, without settling;
//! * **write amplification (process)**: bytes the kernel saw written by the process (less what was
//!   cancelled) during the phase *and* the settling of its debt, by bytes handed to the store;
//! * **write amplification (store)**: the same from the store's own `written.*` figures;
//! * **read amplification**: bytes of the process's read calls by bytes the store handed back;
//! * **latency**: from the start of an operation; in an open loop from its intended start, so that
//!   waiting for a worker counts (and the longest stall includes waiting for operations to be due);
//! * **RAM hit rate**: gets served by RAM components by gets that found their key;
//! * **CPU per operation**: user and system time of the whole process, workload included.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::arrivals::OpenLoop;
use crate::process::ProcessUsage;
use crate::readable::{bytes, duration, grouped};
use crate::recorder::{OperationKind, Recorder};
use crate::store::{Figure, FigureKind};

/// The latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// What was timed.
    pub kind: OperationKind,
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Half were as fast as this.
    pub p50: u64,
    /// 95 % were as fast as this.
    pub p95: u64,
    /// 99 % were as fast as this.
    pub p99: u64,
    /// 99.9 % were as fast as this.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

/// Everything one phase measured.
#[derive(Clone, Debug)]
pub struct PhaseResult {
    /// The phase's name, usually the mix.
    pub name: String,
    /// The distribution's name; may be empty.
    pub distribution: String,
    /// The store and its settings.
    pub store: String,
    /// Worker threads.
    pub threads: usize,
    /// Finished operations.
    pub operations: u64,
    /// Wall time of the workers.
    pub seconds: f64,
    /// Wall time of settling the debt afterwards.
    pub settle_seconds: f64,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// The intended rate and how well it was kept; none of a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The longest time in which no thread finished an operation; zero if below 10 ms.
    pub longest_stall_seconds: f64,
    /// The width of a step of `course`.
    pub course_interval_seconds: f64,
    /// Operations finished in each step, with the time at the step's end.
    pub course: Vec<(f64, u64)>,
    /// Latencies of the kinds that occurred.
    pub latencies: Vec<Latency>,
    /// Bytes of keys and values handed to the store.
    pub user_bytes_written: u64,
    /// Bytes of keys and values the store handed back.
    pub user_bytes_read: u64,
    /// Records that scans returned.
    pub records_scanned: u64,
    /// What the process used during the phase.
    pub usage: Option<ProcessUsage>,
    /// The same with the settling of the debt.
    pub usage_settled: Option<ProcessUsage>,
    /// The store's figures: counters as differences over phase and settling, gauges as they are.
    pub figures: Vec<Figure>,
}

const RAM_COMPONENTS: [&str; 3] = ["gets.munk", "gets.delta", "gets.row_cache"];

impl PhaseResult {
    /// Operations a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        ratio(self.operations as f64, self.seconds).unwrap_or(0.0)
    }

    /// Bytes the process sent to storage by bytes handed in, debt included.
    #[must_use]
    pub fn write_amplification_process(&self) -> Option<f64> {
        let usage = self.usage_settled?;
        let written = usage
            .write_bytes
            .saturating_sub(usage.cancelled_write_bytes);
        ratio(written as f64, self.user_bytes_written as f64)
    }

    /// Bytes the store says it wrote by bytes handed in, debt included.
    #[must_use]
    pub fn write_amplification_store(&self) -> Option<f64> {
        let written: Vec<u64> = self
            .figures
            .iter()
            .filter(|figure| figure.name.starts_with("written.") && figure.name != "written.user")
            .map(|figure| figure.value)
            .collect();
        if written.is_empty() {
            return None;
        }
        ratio(
            written.iter().sum::<u64>() as f64,
            self.user_bytes_written as f64,
        )
    }

    /// Bytes asked for by read calls by bytes handed back.
    #[must_use]
    pub fn read_amplification(&self) -> Option<f64> {
        ratio(
            self.usage?.read_call_bytes as f64,
            self.user_bytes_read as f64,
        )
    }

    /// CPU microseconds for one operation.
    #[must_use]
    pub fn cpu_micros_per_operation(&self) -> Option<f64> {
        ratio(self.usage?.cpu_seconds() * 1e6, self.operations as f64)
    }

    /// The share of gets by component, largest first; empty where the store does not tell.
    #[must_use]
    pub fn get_shares(&self) -> Vec<(&'static str, f64)> {
        let gets = || {
            self.figures
                .iter()
                .filter(|figure| figure.name.starts_with("gets."))
        };
        let all = gets().map(|figure| figure.value).sum::<u64>() as f64;
        let mut shares: Vec<_> = gets()
            .filter(|figure| figure.value > 0)
            .map(|figure| (&figure.name["gets.".len()..], figure.value as f64 / all))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    /// Gets served from RAM by gets that found their key.
    #[must_use]
    pub fn ram_hit_rate(&self) -> Option<f64> {
        let total = |wanted: &dyn Fn(&str) -> bool| {
            self.figures
                .iter()
                .filter(|f| wanted(f.name))
                .map(|f| f.value)
                .sum::<u64>() as f64
        };
        ratio(
            total(&|name| RAM_COMPONENTS.contains(&name)),
            total(&|name| name.starts_with("gets.") && name != "gets.absent"),
        )
    }

    /// The whole result.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let latencies: Map<String, Value> = self
            .latencies
            .iter()
            .map(|latency| (latency.kind.name().to_owned(), latency_json(latency)))
            .collect();
        let shares: Map<String, Value> = self
            .get_shares()
            .into_iter()
            .map(|(name, share)| (name.into(), share.into()))
            .collect();
        let open_loop = self.open_loop.as_ref();
        json!({
            "phase": self.name,
            "distribution": self.distribution,
            "store": self.store,
            "threads": self.threads,
            "operations": self.operations,
            "seconds": self.seconds,
            "settle_seconds": self.settle_seconds,
            "interrupted": self.interrupted,
            "operations_per_second": self.throughput(),
            "intended_rate": open_loop.map(|open| open.intended_rate),
            "achieved_rate": open_loop.map(|_| self.throughput()),
            "arrivals": open_loop.map(|open| open.spacing.name()),
            "not_started": open_loop.map(|open| open.not_started),
            "behind_seconds": open_loop.map(|open| open.behind_seconds),
            "late_seconds_max": open_loop.map(|open| open.late_seconds_max),
            "longest_stall_seconds": self.longest_stall_seconds,
            "latency_nanos": latencies,
            "user_bytes_written": self.user_bytes_written,
            "user_bytes_read": self.user_bytes_read,
            "records_scanned": self.records_scanned,
            "write_amplification_process": self.write_amplification_process(),
            "write_amplification_store": self.write_amplification_store(),
            "read_amplification": self.read_amplification(),
            "cpu_micros_per_operation": self.cpu_micros_per_operation(),
            "get_shares": shares,
            "ram_hit_rate": self.ram_hit_rate(),
            "process": self.usage.as_ref().map(usage_json),
            "process_settled": self.usage_settled.as_ref().map(usage_json),
            "figures": figures_json(&self.figures),
            "course_interval_seconds": self.course_interval_seconds,
            "course": self.course,
        })
    }

    /// A block of aligned text, some lines long, that ends with a line break.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let title = format!("{} {}", self.name, self.distribution);
        let stopped = if self.interrupted {
            "  (interrupted)"
        } else {
            ""
        };
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = text.write_fmt(arguments);
        };
        line(format_args!(
            "{:<32} {:>12} op/s  {:>11} operations in {:.2} s{}{}\n",
            title.trim_end(),
            grouped(self.throughput().round() as u64),
            grouped(self.operations),
            self.seconds,
            if self.settle_seconds > 0.0 {
                format!(" + {:.2} s settling", self.settle_seconds)
            } else {
                String::new()
            },
            stopped
        ));
        if !self.latencies.is_empty() {
            line(format_args!(
                "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
                "latency", "mean", "p50", "p95", "p99", "p99.9", "max"
            ));
        }
        for latency in &self.latencies {
            line(format_args!(
                "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
                latency.kind.name(),
                duration(latency.mean),
                duration(latency.p50 as f64),
                duration(latency.p95 as f64),
                duration(latency.p99 as f64),
                duration(latency.p999 as f64),
                duration(latency.max as f64)
            ));
        }
        for (name, figure) in self.summary() {
            line(format_args!("  {name:<18} {figure}\n"));
        }
        text
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        if let Some(open) = &self.open_loop {
            lines.push((
                "open loop",
                format!(
                    "{} op/s intended ({}), ended {} behind with {} not started; latency from the \
                     intended start",
                    grouped(open.intended_rate.round() as u64),
                    open.spacing.name(),
                    duration(open.behind_seconds * 1e9),
                    grouped(open.not_started)
                ),
            ));
        }
        if self.user_bytes_written > 0 {
            lines.push((
                "write amplif.",
                format!(
                    "{} (process), {} (store's count), debt included; {} handed in",
                    number(self.write_amplification_process()),
                    number(self.write_amplification_store()),
                    bytes(self.user_bytes_written)
                ),
            ));
        }
        if self.user_bytes_read > 0 {
            let fetched = self.usage.map_or(0, |usage| usage.read_bytes);
            lines.push((
                "read amplif.",
                format!(
                    "{} (read calls by bytes returned); {} returned, {} fetched from storage",
                    number(self.read_amplification()),
                    bytes(self.user_bytes_read),
                    bytes(fetched)
                ),
            ));
        }
        let shares = self.get_shares();
        if !shares.is_empty() {
            let list = shares
                .iter()
                .map(|(name, share)| format!("{name} {:.2} %", share * 100.0));
            let list = list.collect::<Vec<_>>().join(", ");
            let rate = self.ram_hit_rate().unwrap_or(0.0) * 100.0;
            lines.push((
                "gets served by",
                format!("{list}; RAM hit rate {rate:.2} %"),
            ));
        }
        let resident = self.usage_settled.map_or("-".to_owned(), |usage| {
            format!(
                "{} (peak {})",
                bytes(usage.resident_bytes),
                bytes(usage.resident_bytes_max)
            )
        });
        let stall = match self.longest_stall_seconds {
            0.0 => "none of 10 ms".to_owned(),
            seconds => duration(seconds * 1e9),
        };
        lines.push((
            "process",
            format!(
                "{} us CPU/op, {resident} resident, longest stall {stall}",
                number(self.cpu_micros_per_operation())
            ),
        ));
        lines
    }
}

/// The latencies of the kinds that occurred.
#[must_use]
pub fn latencies(recorder: &Recorder) -> Vec<Latency> {
    let kinds = OperationKind::ALL.into_iter();
    kinds
        .filter_map(|kind| {
            let histogram = recorder.histogram(kind)?;
            Some(Latency {
                kind,
                count: histogram.len(),
                mean: histogram.mean(),
                p50: histogram.value_at_quantile(0.5),
                p95: histogram.value_at_quantile(0.95),
                p99: histogram.value_at_quantile(0.99),
                p999: histogram.value_at_quantile(0.999),
                max: histogram.max(),
            })
        })
        .collect()
}

/// Counters as the difference to `before`, gauges as they are in `after`.
#[must_use]
pub fn figures_since(before: &[Figure], after: &[Figure]) -> Vec<Figure> {
    let earlier = |name| {
        before
            .iter()
            .find(|figure| figure.name == name)
            .map_or(0, |f| f.value)
    };
    after
        .iter()
        .map(|figure| match figure.kind {
            FigureKind::Gauge => *figure,
            FigureKind::Counter => Figure {
                value: figure.value.saturating_sub(earlier(figure.name)),
                ..*figure
            },
        })
        .collect()
}

/// A store's figures by their names.
#[must_use]
pub fn figures_json(figures: &[Figure]) -> Value {
    let members = figures.iter().map(|f| (f.name.to_owned(), f.value.into()));
    Value::Object(members.collect())
}

fn latency_json(latency: &Latency) -> Value {
    json!({
        "count": latency.count,
        "mean": latency.mean,
        "p50": latency.p50,
        "p95": latency.p95,
        "p99": latency.p99,
        "p99.9": latency.p999,
        "max": latency.max,
    })
}

fn usage_json(usage: &ProcessUsage) -> Value {
    json!({
        "user_seconds": usage.user_seconds,
        "system_seconds": usage.system_seconds,
        "read_bytes": usage.read_bytes,
        "write_bytes": usage.write_bytes,
        "cancelled_write_bytes": usage.cancelled_write_bytes,
        "read_call_bytes": usage.read_call_bytes,
        "write_call_bytes": usage.write_call_bytes,
        "read_calls": usage.read_calls,
        "write_calls": usage.write_calls,
        "resident_bytes": usage.resident_bytes,
        "resident_bytes_max": usage.resident_bytes_max,
    })
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Spacing;

    fn figure(name: &'static str, value: u64) -> Figure {
        Figure {
            name,
            value,
            kind: FigureKind::Counter,
        }
    }

    fn result() -> PhaseResult {
        PhaseResult {
            name: "A".to_owned(),
            distribution: "uniform".to_owned(),
            store: "memory".to_owned(),
            threads: 2,
            operations: 1000,
            seconds: 0.5,
            settle_seconds: 0.25,
            interrupted: false,
            open_loop: None,
            longest_stall_seconds: 0.0,
            course_interval_seconds: 1.0,
            course: vec![(0.5, 1000)],
            latencies: vec![Latency {
                kind: OperationKind::Get,
                count: 1000,
                mean: 1500.0,
                p50: 900,
                p95: 2000,
                p99: 3000,
                p999: 4_000_000,
                max: 5_000_000_000,
            }],
            user_bytes_written: 1000,
            user_bytes_read: 500,
            records_scanned: 0,
            usage: Some(ProcessUsage {
                user_seconds: 0.004,
                system_seconds: 0.001,
                read_call_bytes: 2000,
                ..Default::default()
            }),
            usage_settled: Some(ProcessUsage {
                write_bytes: 3500,
                cancelled_write_bytes: 500,
                ..Default::default()
            }),
            figures: vec![
                figure("gets.munk", 60),
                figure("gets.row_cache", 15),
                figure("gets.sstable", 25),
                figure("gets.absent", 100),
                figure("written.user", 1000),
                figure("written.log", 1500),
                figure("written.sstable", 2000),
            ],
        }
    }

    #[test]
    fn ratios_follow_their_definitions() {
        let result = result();
        assert_eq!(result.throughput(), 2000.0);
        assert_eq!(result.write_amplification_process(), Some(3.0));
        assert_eq!(result.write_amplification_store(), Some(3.5));
        assert_eq!(result.read_amplification(), Some(4.0));
        assert_eq!(result.cpu_micros_per_operation(), Some(5.0));
        assert_eq!(result.ram_hit_rate(), Some(0.75));
        assert_eq!(result.get_shares()[0], ("absent", 0.5));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let empty = PhaseResult {
            operations: 0,
            seconds: 0.0,
            user_bytes_written: 0,
            user_bytes_read: 0,
            figures: Vec::new(),
            usage: None,
            ..result()
        };
        assert_eq!(empty.throughput(), 0.0);
        assert_eq!(empty.write_amplification_store(), None);
        assert!(empty.get_shares().is_empty() && empty.ram_hit_rate().is_none());
        assert!(empty.to_json()["cpu_micros_per_operation"].is_null());
        assert!(empty.to_table().contains("A uniform"));
    }

    #[test]
    fn table_and_json_name_the_figures() {
        let (table, json) = (result().to_table(), result().to_json());
        for words in [
            "2,000 op/s",
            "1.5 us",
            "4.0 ms",
            "5.00 s",
            "3.00 (process)",
            "75.00 %",
        ] {
            assert!(table.contains(words), "{words} in\n{table}");
        }
        assert_eq!(json["latency_nanos"]["get"]["p99.9"], 4_000_000);
        assert_eq!(json["figures"]["written.log"], 1500);
        assert_eq!(json["course"][0][1], 1000);
    }

    #[test]
    fn an_open_loop_states_its_rate() {
        let closed = result().to_json();
        assert!(closed["intended_rate"].is_null() && closed["behind_seconds"].is_null());
        let open = PhaseResult {
            open_loop: Some(OpenLoop {
                intended_rate: 2500.0,
                spacing: Spacing::Poisson,
                not_started: 250,
                behind_seconds: 0.1,
                late_seconds_max: 0.3,
            }),
            ..result()
        };
        let (json, table) = (open.to_json(), open.to_table());
        assert_eq!(json["intended_rate"], 2500.0);
        assert_eq!(json["achieved_rate"], 2000.0);
        assert_eq!(json["arrivals"], "poisson");
        assert_eq!(json["not_started"], 250);
        assert_eq!(json["late_seconds_max"], 0.3);
        let words = "2,500 op/s intended (poisson), ended 100.0 ms behind with 250 not started";
        assert!(table.contains(words), "{table}");
    }

    #[test]
    fn counters_are_differences_and_gauges_are_not() {
        let gauge = |value| Figure {
            name: "chunks",
            value,
            kind: FigureKind::Gauge,
        };
        let since = figures_since(
            &[figure("puts", 5), gauge(9)],
            &[figure("puts", 7), gauge(4)],
        );
        assert_eq!(since.iter().map(|f| f.value).collect::<Vec<_>>(), [2, 4]);
    }
}
