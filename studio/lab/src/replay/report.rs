//! The results of a replay: latencies by kind, and differences from the trace.

use std::collections::BTreeMap;
use std::time::Duration;

use evendb_trace::{Kind, Losses, Times};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::plan::RIGHTLY;
use crate::readable::grouped;

/// The longest latency that is distinguished, in nanoseconds: ten minutes.
const NANOS_MAX: u64 = 600_000_000_000;

/// Results that differ from the trace, by the kind of difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// A key had no value in the trace, and has one.
    pub present_not_absent: u64,
    /// A key had a value in the trace, and has none.
    pub absent_not_present: u64,
    /// A value has another length.
    pub other_length: u64,
    /// A value of the same length has other bytes.
    pub other_value: u64,
    /// A scan gave another number of records.
    pub other_count: u64,
    /// A read failed in the trace, and does not.
    pub failed_in_trace: u64,
}

impl Differences {
    /// By name, in the order of reports.
    #[must_use]
    pub fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("present, was absent", self.present_not_absent),
            ("absent, was present", self.absent_not_present),
            ("value of another length", self.other_length),
            ("other value", self.other_value),
            ("scan of another count", self.other_count),
            ("failed in the trace", self.failed_in_trace),
        ]
    }

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.each().iter().map(|(_, count)| count).sum()
    }
}

/// The results of a replay.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// The time that it took.
    pub duration: Duration,
    /// The time that it should take, at the given speed.
    pub intended: Option<Duration>,
    /// The greatest delay of an operation.
    pub late_max: Duration,
    /// Threads that asked.
    pub threads: usize,
    /// The time in which they waited for the reader of the trace, all together. The wait for the
    /// end does not count.
    pub waited: Duration,
    /// How far the trace's times can be believed.
    pub times: Times,
    /// Operations that were read from the trace.
    pub operations_in_trace: u64,
    /// Operations that could not be replayed, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Operations that came out of order of time in the trace.
    pub late_in_trace: u64,
    /// What was lost of the trace.
    pub losses: Losses,
    /// Results that were compared.
    pub compared: u64,
    /// The differences.
    pub differences: Differences,
    /// Deletions of ranges that were done key by key, because the store has none.
    pub ranges_by_key: u64,
    /// Point reads and pops.
    pub looked: u64,
    /// Looks that found nothing, if the trace found something or does not tell what it found.
    pub misses: u64,
    /// Scans that were asked.
    pub scanned: u64,
    /// Among them: scans that gave no record, if the trace had some or does not tell how many.
    pub empty_scans: u64,
    /// Values that were deleted when their time to live was over.
    pub expired: u64,
    /// Values that stay although their time to live was over: too many values waited to expire.
    pub kept_for_ever: u64,
    /// Scans whose length the trace does not tell: they asked for the number of records in the
    /// settings.
    pub unknown_lengths: u64,
    /// By kind: latencies in nanoseconds, and records read or written.
    pub kinds: BTreeMap<Kind, KindReport>,
}

/// The results of a kind of operation.
#[derive(Debug)]
pub struct KindReport {
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Records that were found, scanned or written.
    pub records: u64,
}

impl Default for KindReport {
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(1, NANOS_MAX, 3);
        Self {
            latencies: latencies.expect("these bounds are right"),
            records: 0,
        }
    }
}

impl ReplayReport {
    pub(super) fn note(&mut self, kind: Kind, nanos: u64, records: u64) {
        let kind = self.kinds.entry(kind).or_default();
        kind.latencies.saturating_record(nanos);
        kind.records += records;
    }

    pub(super) fn add(&mut self, part: ReplayReport) {
        self.late_max = self.late_max.max(part.late_max);
        self.waited += part.waited;
        self.compared += part.compared;
        self.ranges_by_key += part.ranges_by_key;
        self.looked += part.looked;
        self.misses += part.misses;
        self.scanned += part.scanned;
        self.empty_scans += part.empty_scans;
        self.expired += part.expired;
        let (own, other) = (&mut self.differences, part.differences);
        own.present_not_absent += other.present_not_absent;
        own.absent_not_present += other.absent_not_present;
        own.other_length += other.other_length;
        own.other_value += other.other_value;
        own.other_count += other.other_count;
        own.failed_in_trace += other.failed_in_trace;
        for (kind, part) in part.kinds {
            let own = self.kinds.entry(kind).or_default();
            // Both have the same bounds.
            let _ = own.latencies.add(&part.latencies);
            own.records += part.records;
        }
    }

    /// The share of their time in which threads waited for the reader of the trace. At most speed,
    /// the store is not the limit of a replay where it is high.
    #[must_use]
    pub fn waited_share(&self) -> f64 {
        let all = self.duration.as_secs_f64() * self.threads as f64;
        match all > 0.0 {
            true => (self.waited.as_secs_f64() / all).min(1.0),
            false => 0.0,
        }
    }

    /// The word for how far the trace's times can be believed.
    #[must_use]
    pub fn times_name(&self) -> &'static str {
        match self.times {
            Times::Seconds => "seconds",
            Times::Order => "order",
            _ => "exact",
        }
    }

    /// Operations that were asked of the store.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        self.kinds.values().map(|kind| kind.latencies.len()).sum()
    }

    /// Operations that had an effect in the load and could not be asked of the store.
    #[must_use]
    pub fn not_asked(&self) -> u64 {
        let not_asked = self
            .left_out
            .iter()
            .filter(|(why, _)| !RIGHTLY.contains(why));
        not_asked.map(|(_, count)| count).sum()
    }

    /// Whether more than a hundredth of the trace could not be asked: the figures belong to another
    /// load.
    #[must_use]
    pub fn is_of_another_load(&self) -> bool {
        self.not_asked() * 100 > self.operations_in_trace
    }

    /// Whether more than a hundredth of the reads or of the scans found nothing, and the trace does
    /// not say so.
    #[must_use]
    pub fn measures_misses(&self) -> bool {
        self.misses * 100 > self.looked || self.empty_scans * 100 > self.scanned
    }

    /// What a reader of the figures must know first, each in a line. `remedy` says how reads and
    /// scans find something, if there is a way.
    #[must_use]
    pub fn warnings(&self, remedy: Option<&str>) -> Vec<String> {
        let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let mut warnings = Vec::new();
        if self.operations_in_trace == 0 {
            warnings.push(
                "nothing was measured: no operation of the trace is left to count".to_owned(),
            );
        }
        if self.is_of_another_load() {
            let (not_asked, of) = (self.not_asked(), self.operations_in_trace);
            warnings.push(format!(
                "this is not the load of the trace: {} of its {} operations ({:.1} %) were left out, as is said below",
                grouped(not_asked),
                grouped(of),
                share(not_asked, of)
            ));
        }
        let kinds = [
            (self.misses, self.looked, "reads"),
            (self.empty_scans, self.scanned, "scans"),
        ];
        let misses = kinds.into_iter().filter(|(part, of, _)| part * 100 > *of);
        let misses = misses.map(|(part, of, what)| {
            let (share, part, of) = (share(part, of), grouped(part), grouped(of));
            format!("{part} of {of} {what} ({share:.1} %)")
        });
        let misses: Vec<_> = misses.collect();
        if !misses.is_empty() {
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            warnings.push(format!(
                "misses are measured: {} found nothing, and the trace does not say so{remedy}",
                misses.join(" and ")
            ));
        }
        if !self.losses.is_nothing() {
            warnings.push(format!("the trace is not whole: {}", self.losses));
        }
        warnings
    }

    /// All results, for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let kinds = self.kinds.iter().map(|(kind, report)| {
            let latencies = &report.latencies;
            let at = |quantile| latencies.value_at_quantile(quantile);
            let value = json!({
                "operations": latencies.len(),
                "records": report.records,
                "latency_nanos": {
                    "mean": latencies.mean(),
                    "p50": at(0.5),
                    "p90": at(0.9),
                    "p99": at(0.99),
                    "p99.9": at(0.999),
                    "max": latencies.max(),
                },
            });
            (kind.name().to_owned(), value)
        });
        let counts = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| {
            let each = counts.map(|(name, count)| (name.to_owned(), Value::from(count)));
            Value::Object(each.collect())
        };
        let mut left_out = self.left_out.iter().map(|(why, count)| (*why, *count));
        json!({
            "seconds": self.duration.as_secs_f64(),
            "intended_seconds": self.intended.map(|intended| intended.as_secs_f64()),
            "late_seconds_max": self.late_max.as_secs_f64(),
            "waited_for_the_trace_share": self.waited_share(),
            "times_in_trace": self.times_name(),
            "operations_in_trace": self.operations_in_trace,
            "replayed": self.replayed(),
            "left_out": counts(&mut left_out),
            "not_asked": self.not_asked(),
            "point_reads": self.looked,
            "misses_not_in_trace": self.misses,
            "scans": self.scanned,
            "empty_scans_not_in_trace": self.empty_scans,
            "expired": self.expired,
            "kept_after_their_time": self.kept_for_ever,
            "scans_of_unknown_length": self.unknown_lengths,
            "out_of_order_in_trace": self.late_in_trace,
            "trace_is_whole": self.losses.is_nothing(),
            "lost": self.losses.to_string(),
            "compared": self.compared,
            "differences": counts(&mut self.differences.each().into_iter()),
            "range_deletions_key_by_key": self.ranges_by_key,
            "kinds": Value::Object(kinds.collect()),
        })
    }
}
