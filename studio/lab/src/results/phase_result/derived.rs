//! The figures that follow from what was measured. The head of this folder's module defines them.

use super::PhaseResult;
use crate::course::{self, Fifths};
use crate::recorder::OperationKind;

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
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}
