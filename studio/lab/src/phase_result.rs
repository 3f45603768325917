//! What a phase measured, and the figures that follow from it, as JSON. `phase_text.rs` has the
//! text.
//!
//! Definitions, so that figures of different stores mean the same:
//! * **throughput with debt**, the first figure of every table: finished operations divided by wall
//!   time of the workers and of the settling afterwards. So a store gains nothing by leaving work
//!   for later;
//! * **throughput** without debt: finished operations divided by wall time of the workers alone;
//! * **falls**: the rate still fell when the phase ended, by the rule of [`crate::course`];
//! * **waited**: seconds in which operations were held up, summed over the threads, by cause, while
//!   the workers ran. Causes that a store does not count are missing;
//! * **CPU in use**: CPU time of the whole process while the workers ran, divided by their wall
//!   time and by the number of cores: 1 is all cores;
//! * **disk**: millions of bytes a second that the process fetched from storage and sent to it
//!   (less what was cancelled) while the workers ran;
//! * **fetched a read**: bytes fetched from storage divided by gets and scans. If puts run at the
//!   same time, reads of reorganisation for them are included;
//! * **write amplification (process)**: bytes that the kernel saw written by the process (less what
//!   was cancelled) during the phase *and* the settling of its debt, divided by bytes handed to the
//!   store;
//! * **write amplification (store)**: the same from the store's own `written.*` figures;
//! * **read amplification**: bytes of the process's read calls divided by bytes that the store
//!   handed back;
//! * **latency**: from the start of an operation. In an open loop from its intended start, so that
//!   waiting for a worker counts (and the longest stall includes waiting for operations to be due);
//! * **RAM hit rate**: gets served by RAM components divided by gets that found their key;
//! * **reads from RAM**: the RAM hit rate, or for scans the share of records for which no file was
//!   read;
//! * **misses by the ideal's**: reads that were not from RAM, divided by those of the ideal static
//!   cache ([`crate::ideal_cache`]) with the memory that the store was told to use;
//! * **disk's limit**: operations a second if each miss of the ideal cache were one read and
//!   nothing else took time;
//! * **CPU per operation**: user and system time of the whole process, workload included.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::arrivals::OpenLoop;
use crate::course::{self, Fifths};
use crate::ideal_cache::IdealCache;
use crate::process::ProcessUsage;
use crate::recorder::{OperationKind, Recorder};
use crate::store::{ComponentSteps, Figure, FigureKind};

/// The latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The kind that was timed.
    pub kind: OperationKind,
    /// The number of operations.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// Half of the operations were at most this slow.
    pub p50: u64,
    /// 95 % were at most this slow.
    pub p95: u64,
    /// 99 % were at most this slow.
    pub p99: u64,
    /// 99.9 % were at most this slow.
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
    /// Processors that the process may use. `None` if the system does not say.
    pub cores: Option<usize>,
    /// Finished operations.
    pub operations: u64,
    /// Wall time of the workers.
    pub seconds: f64,
    /// Wall time of settling the debt afterwards.
    pub settle_seconds: f64,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// The intended rate and how well it was kept. None for a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The longest time in which no thread finished an operation; zero if below 10 ms.
    pub longest_stall_seconds: f64,
    /// The width of a step of `course`.
    pub course_interval_seconds: f64,
    /// Operations finished in each step, with the time at the step's end.
    pub course: Vec<(f64, u64)>,
    /// Latencies of the kinds that occurred.
    pub latencies: Vec<Latency>,
    /// Latencies of gets by the component that answered, with those of the settling, for a store
    /// that tells them.
    pub components: Vec<ComponentSteps>,
    /// Bytes of keys and values handed to the store.
    pub user_bytes_written: u64,
    /// Bytes of keys and values the store handed back.
    pub user_bytes_read: u64,
    /// Records that scans returned.
    pub records_scanned: u64,
    /// What the process used during the phase.
    pub usage: Option<ProcessUsage>,
    /// What the process used during the phase and the settling of the debt.
    pub usage_settled: Option<ProcessUsage>,
    /// What the best cache could do for this phase, if that is known.
    pub ideal: Option<IdealCache>,
    /// The store's figures: counters as differences over phase and settling, gauges as they are.
    pub figures: Vec<Figure>,
}

const RAM_COMPONENTS: [&str; 3] = ["gets.munk", "gets.delta", "gets.row_cache"];

impl PhaseResult {
    /// Operations a second while the workers ran.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        ratio(self.operations as f64, self.seconds).unwrap_or(0.0)
    }

    /// Operations a second with the settling of the debt charged.
    #[must_use]
    pub fn throughput_with_debt(&self) -> f64 {
        ratio(self.operations as f64, self.seconds + self.settle_seconds).unwrap_or(0.0)
    }

    /// The rate in each fifth, and whether it still fell at the end. `None` for a phase that was
    /// too short.
    #[must_use]
    pub fn fifths(&self) -> Option<Fifths> {
        course::fifths(&self.course)
    }

    /// Seconds that operations waited, over all threads, by cause. Empty if the store does not
    /// tell.
    #[must_use]
    pub fn waited_seconds(&self) -> Vec<(&'static str, f64)> {
        let waits = self.figures.iter().filter_map(|figure| {
            let cause = figure.name.strip_prefix("pause.")?;
            let cause = cause.strip_suffix("_nanos_total")?;
            Some((cause, figure.value as f64 / 1e9))
        });
        waits.collect()
    }

    /// The share of all cores that the process used while the workers ran, at most 1.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        let usage = self.usage?;
        ratio(usage.cpu_seconds(), self.seconds * self.cores? as f64)
    }

    /// Bytes a second that the process fetched from storage while the workers ran.
    #[must_use]
    pub fn disk_read_rate(&self) -> Option<f64> {
        ratio(self.usage?.read_bytes as f64, self.seconds)
    }

    /// Bytes a second that the process sent to storage while the workers ran, less what was
    /// cancelled.
    #[must_use]
    pub fn disk_write_rate(&self) -> Option<f64> {
        ratio(self.usage?.stored_bytes() as f64, self.seconds)
    }

    /// Bytes fetched from storage for one get or scan.
    #[must_use]
    pub fn fetched_bytes_per_read(&self) -> Option<f64> {
        let reads = self
            .latencies
            .iter()
            .filter(|latency| matches!(latency.kind, OperationKind::Get | OperationKind::Scan));
        let reads: u64 = reads.map(|latency| latency.count).sum();
        ratio(self.usage?.read_bytes as f64, reads as f64)
    }

    /// Bytes that the process sent to storage divided by bytes handed in, debt included.
    #[must_use]
    pub fn write_amplification_process(&self) -> Option<f64> {
        let written = self.usage_settled?.stored_bytes();
        ratio(written as f64, self.user_bytes_written as f64)
    }

    /// Bytes that the store says it wrote divided by bytes handed in, debt included.
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

    /// Bytes of read calls divided by bytes handed back.
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

    /// The share of gets by component, largest first. Empty if the store does not tell.
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

    /// Gets served from RAM divided by gets that found their key.
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

    /// Reads served from RAM divided by all reads: records of scans if there were any, else gets.
    #[must_use]
    pub fn read_hit_rate(&self) -> Option<f64> {
        let total = |name: &str| {
            let figure = self.figures.iter().find(|figure| figure.name == name);
            Some(figure?.value as f64)
        };
        match self.records_scanned {
            0 => self.ram_hit_rate(),
            _ => ratio(total("scanned_from_ram")?, total("scanned_records")?),
        }
    }

    /// Misses divided by the misses of the ideal cache. `None` if that has no misses.
    #[must_use]
    pub fn misses_by_ideal(&self) -> Option<f64> {
        ratio(1.0 - self.read_hit_rate()?, 1.0 - self.ideal?.hit_rate)
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
        let waited: Map<String, Value> = self
            .waited_seconds()
            .into_iter()
            .map(|(cause, seconds)| (cause.into(), seconds.into()))
            .collect();
        let (open_loop, fifths) = (self.open_loop.as_ref(), self.fifths());
        let millions = |bytes: Option<f64>| bytes.map(|bytes| bytes / 1e6);
        let mut all = json!({
            "phase": self.name,
            "distribution": self.distribution,
            "store": self.store,
            "threads": self.threads,
            "cores": self.cores,
            "operations": self.operations,
            "seconds": self.seconds,
            "settle_seconds": self.settle_seconds,
            "interrupted": self.interrupted,
            "operations_per_second_with_debt": self.throughput_with_debt(),
            "operations_per_second": self.throughput(),
            "rate_falls_at_end": fifths.map(|fifths| fifths.falls),
            "operations_per_second_by_fifths": fifths.map(|fifths| fifths.rates),
            "intended_operations_per_second": open_loop.map(|open| open.intended_rate),
            "arrivals": open_loop.map(|open| open.spacing.name()),
            "not_started": open_loop.map(|open| open.not_started),
            "behind_seconds": open_loop.map(|open| open.behind_seconds),
            "late_seconds_max": open_loop.map(|open| open.late_seconds_max),
            "longest_stall_seconds": self.longest_stall_seconds,
            "waited_seconds": waited,
            "cpu_share_of_cores": self.cpu_share(),
            "disk_read_mb_per_second": millions(self.disk_read_rate()),
            "disk_written_mb_per_second": millions(self.disk_write_rate()),
            "fetched_bytes_per_read": self.fetched_bytes_per_read(),
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
            "cache": self.cache_json(),
            "process": self.usage.as_ref().map(usage_json),
            "process_settled": self.usage_settled.as_ref().map(usage_json),
            "figures": figures_json(&self.figures),
            "course_interval_seconds": self.course_interval_seconds,
            "course_unit": self.course_unit(),
            "course": self.course,
        });
        all["component_latency_nanos"] = components_json(&self.components);
        all
    }

    /// The share that was read from RAM, and that of the ideal cache.
    fn cache_json(&self) -> Value {
        json!({
            "read_hit_rate": self.read_hit_rate(),
            "misses_by_ideal": self.misses_by_ideal(),
            "ideal": self.ideal.as_ref().map(ideal_json),
        })
    }

    /// The meaning of the two numbers of a step of the course.
    fn course_unit(&self) -> String {
        let step = match self.course_interval_seconds {
            0.5 => "half second".to_owned(),
            1.0 => "second".to_owned(),
            seconds => format!("{seconds} seconds"),
        };
        format!("seconds since the start; operations in the {step} that ended then")
    }
}

/// The latencies of the kinds that occurred.
#[must_use]
pub fn latencies(recorder: &Recorder) -> Vec<Latency> {
    let kinds = OperationKind::ALL.into_iter();
    kinds
        .filter_map(|kind| {
            let histogram = recorder.histogram(kind)?;
            Some(Latency::of(kind, histogram))
        })
        .collect()
}

impl Latency {
    /// The figures of a histogram of nanoseconds.
    #[must_use]
    pub fn of(kind: OperationKind, histogram: &Histogram<u64>) -> Latency {
        Latency {
            kind,
            count: histogram.len(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p95: histogram.value_at_quantile(0.95),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
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

/// For each component, the gets that came after `before`.
#[must_use]
pub fn components_since(
    before: &[ComponentSteps],
    after: &[ComponentSteps],
) -> Vec<ComponentSteps> {
    let since = |after: &ComponentSteps| {
        let earlier = before.iter().find(|one| one.component == after.component);
        after.since(earlier)
    };
    after.iter().map(since).collect()
}

fn components_json(components: &[ComponentSteps]) -> Value {
    let members = components.iter().filter(|one| one.count() > 0);
    let members = members.map(|one| {
        let value = json!({
            "count": one.count(),
            "p50": one.quantile(0.5),
            "p95": one.quantile(0.95),
            "p99": one.quantile(0.99),
            "p99.9": one.quantile(0.999),
        });
        (one.component.to_owned(), value)
    });
    Value::Object(members.collect())
}

/// A store's figures by their names.
#[must_use]
pub fn figures_json(figures: &[Figure]) -> Value {
    let members = figures.iter().map(|f| (f.name.to_owned(), f.value.into()));
    Value::Object(members.collect())
}

fn ideal_json(ideal: &IdealCache) -> Value {
    json!({
        "cache_bytes": ideal.cache_bytes,
        "hit_rate": ideal.hit_rate,
        "read_bytes": ideal.read_bytes,
        "disk_reads_per_second": ideal.reads_per_second,
        "disk_limit_operations_per_second": ideal.disk_limit(),
    })
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
pub(crate) mod tests {
    use super::*;
    use crate::arrivals::Spacing;

    pub fn figure(name: &'static str, value: u64) -> Figure {
        Figure {
            name,
            value,
            kind: FigureKind::Counter,
        }
    }

    /// A short phase of half puts and half gets.
    pub fn result() -> PhaseResult {
        PhaseResult {
            name: "A".to_owned(),
            distribution: "uniform".to_owned(),
            store: "memory".to_owned(),
            threads: 2,
            cores: Some(2),
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
            components: vec![ComponentSteps {
                component: "munk",
                steps: vec![(1000, 60), (2000, 40)],
            }],
            user_bytes_written: 1000,
            user_bytes_read: 500,
            records_scanned: 0,
            usage: Some(ProcessUsage {
                user_seconds: 0.004,
                system_seconds: 0.001,
                read_bytes: 4000,
                write_bytes: 3_000_000,
                cancelled_write_bytes: 500_000,
                read_call_bytes: 2000,
                ..Default::default()
            }),
            usage_settled: Some(ProcessUsage {
                write_bytes: 3500,
                cancelled_write_bytes: 500,
                ..Default::default()
            }),
            ideal: None,
            figures: vec![
                figure("gets.munk", 60),
                figure("gets.row_cache", 15),
                figure("gets.sstable", 25),
                figure("gets.absent", 100),
                figure("written.user", 1000),
                figure("written.log", 1500),
                figure("written.sstable", 2000),
                figure("pause.pace_count", 7),
                figure("pause.pace_nanos_total", 250_000_000),
                figure("pause.debt_nanos_total", 0),
            ],
        }
    }

    /// The same phase in an open loop that did not keep its rate.
    pub fn open() -> PhaseResult {
        PhaseResult {
            open_loop: Some(OpenLoop {
                intended_rate: 2500.0,
                spacing: Spacing::Poisson,
                not_started: 250,
                behind_seconds: 0.1,
                late_seconds_max: 0.3,
            }),
            ..result()
        }
    }

    #[test]
    fn ratios_follow_their_definitions() {
        let result = result();
        assert_eq!(result.throughput(), 2000.0);
        assert_eq!(result.throughput_with_debt(), 1000.0 / 0.75);
        assert_eq!(result.waited_seconds(), [("pace", 0.25), ("debt", 0.0)]);
        assert_eq!(result.cpu_share(), Some(0.005));
        assert_eq!(result.disk_read_rate(), Some(8000.0));
        assert_eq!(result.disk_write_rate(), Some(5e6));
        assert_eq!(result.fetched_bytes_per_read(), Some(4.0));
        assert_eq!(result.write_amplification_process(), Some(3.0));
        assert_eq!(result.write_amplification_store(), Some(3.5));
        assert_eq!(result.read_amplification(), Some(4.0));
        assert_eq!(result.cpu_micros_per_operation(), Some(5.0));
        assert_eq!(result.ram_hit_rate(), Some(0.75));
        assert_eq!(result.get_shares()[0], ("absent", 0.5));
    }

    #[test]
    fn latencies_of_components_are_those_of_the_phase() {
        let steps = |component, steps: &[(u64, u64)]| ComponentSteps {
            component,
            steps: steps.to_vec(),
        };
        let before = [steps("log", &[(1000, 5), (4000, 1)]), steps("munk", &[])];
        let after = [
            steps("log", &[(1000, 5), (2000, 2), (4000, 3)]),
            steps("munk", &[(9, 1)]),
        ];
        let came = [
            steps("log", &[(2000, 2), (4000, 2)]),
            steps("munk", &[(9, 1)]),
        ];
        assert_eq!(components_since(&before, &after), came);
        assert_eq!(came[0].quantile(0.5), Some(2000));
        // Four gets say nothing of one in a hundred.
        assert_eq!(came[0].quantile(0.99), None);
        assert_eq!(ComponentSteps::default().quantile(0.5), None);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let empty = PhaseResult {
            operations: 0,
            seconds: 0.0,
            settle_seconds: 0.0,
            user_bytes_written: 0,
            user_bytes_read: 0,
            figures: Vec::new(),
            usage: None,
            ..result()
        };
        assert_eq!((empty.throughput(), empty.fifths()), (0.0, None));
        assert_eq!((empty.cpu_share(), empty.disk_write_rate()), (None, None));
        assert!(empty.waited_seconds().is_empty());
        assert_eq!(empty.write_amplification_store(), None);
        assert!(empty.get_shares().is_empty() && empty.ram_hit_rate().is_none());
        assert!(empty.to_json()["cpu_micros_per_operation"].is_null());
        assert_eq!(empty.throughput_with_debt(), 0.0);
    }

    #[test]
    fn the_json_names_the_figures_and_their_units() {
        let json = result().to_json();
        assert_eq!(json["latency_nanos"]["get"]["p99.9"], 4_000_000);
        let munk = json!({ "count": 100, "p50": 1000, "p95": 2000, "p99": 2000, "p99.9": null });
        assert_eq!(json["component_latency_nanos"], json!({ "munk": munk }));
        assert_eq!(json["figures"]["written.log"], 1500);
        assert_eq!(json["operations_per_second"], 2000.0);
        assert_eq!(json["operations_per_second_with_debt"], 1000.0 / 0.75);
        assert_eq!(json["waited_seconds"], json!({ "pace": 0.25, "debt": 0.0 }));
        assert_eq!(json["disk_written_mb_per_second"], 5.0);
        assert_eq!(json["course"][0][1], 1000);
        let unit = "seconds since the start; operations in the second that ended then";
        assert_eq!(json["course_unit"], unit);
        // Too short to say anything.
        assert!(json["rate_falls_at_end"].is_null());
        let long = PhaseResult {
            course_interval_seconds: 0.5,
            course: (1..=40)
                .map(|i| (f64::from(i) / 2.0, 1000 - 10 * i as u64))
                .collect(),
            ..result()
        };
        let json = long.to_json();
        assert_eq!(json["rate_falls_at_end"], true);
        assert_eq!(json["operations_per_second_by_fifths"][4], 1270.0);
        let unit = json["course_unit"].as_str().unwrap();
        assert!(unit.contains("operations in the half second"), "{unit}");
    }

    #[test]
    fn an_open_loop_states_its_rate() {
        let closed = result().to_json();
        assert!(closed["intended_operations_per_second"].is_null());
        assert!(closed["behind_seconds"].is_null());
        let json = open().to_json();
        assert_eq!(json["intended_operations_per_second"], 2500.0);
        assert_eq!(json["arrivals"], "poisson");
        assert_eq!(json["not_started"], 250);
        assert_eq!(json["late_seconds_max"], 0.3);
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
