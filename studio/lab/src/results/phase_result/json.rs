//! A result as JSON.

use serde_json::{Map, Value, json};

use super::{Latency, PhaseResult};
use crate::ideal_cache::IdealCache;
use crate::process::ProcessUsage;
use crate::store::{ComponentSteps, Figure};

impl PhaseResult {
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
