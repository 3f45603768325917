//! The table of a replay's results for a terminal, and the line about the system's cache.

use std::fmt::Write as _;

use evendb_trace::Kind;

use super::report::ReplayReport;
use crate::process::ProcessUsage;
use crate::readable::{bytes, duration, grouped};

/// Says that reads came from the system's cache, if nearly all did.
pub(super) fn cached(usage: &ProcessUsage) -> Option<String> {
    let (asked, fetched) = (usage.read_call_bytes, usage.read_bytes);
    (fetched < asked / 10).then(|| {
        format!(
            "reads came from the system's cache: {} were read, the trace among them, and {} fetched from the disk\n",
            bytes(asked),
            bytes(fetched)
        )
    })
}

/// A line for each kind of operation.
pub(super) fn table(report: &ReplayReport) -> String {
    let mut text = format!(
        "{:<16}{:>14}{:>10}{:>12}{:>12}{:>12}{:>12}\n",
        "kind", "operations", "found", "p50", "p99", "p99.9", "max"
    );
    for (kind, of) in &report.kinds {
        let at = |quantile| duration(of.latencies.value_at_quantile(quantile) as f64);
        let max = duration(of.latencies.max() as f64);
        let operations = of.latencies.len();
        let found = match kind.is_point_read() || *kind == Kind::Pop {
            true => format!(
                "{:.1} %",
                100.0 * of.records as f64 / operations.max(1) as f64
            ),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "{:<16}{:>14}{found:>10}{:>12}{:>12}{:>12}{max:>12}",
            kind.name(),
            grouped(operations),
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::cached;
    use crate::process::ProcessUsage;

    /// Trouble of others, line 16: figures of reads that never reached the disk.
    #[test]
    fn reads_from_the_systems_cache_are_told() {
        let usage = |read_call_bytes, read_bytes| ProcessUsage {
            read_call_bytes,
            read_bytes,
            ..ProcessUsage::default()
        };
        let said = cached(&usage(100 << 20, 1 << 20)).unwrap();
        assert!(
            said.contains("100.00 MiB were read") && said.contains("1.00 MiB fetched"),
            "{said}"
        );
        assert_eq!(cached(&usage(100 << 20, 10 << 20)), None);
        assert_eq!(cached(&usage(0, 0)), None);
    }
}
