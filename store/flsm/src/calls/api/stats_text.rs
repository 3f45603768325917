//! [`Stats`] as people read them.

use crate::figures::{Stats, WaitStats};
use std::fmt;
use std::time::Duration;

/// Bytes as MiB.
struct Mib(u64);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.0 as f64 / f64::from(1 << 20);
        f.pad(&format!("{mib:.1}"))
    }
}

/// Waits of one kind.
struct Waits(WaitStats);

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |nanos| Duration::from_nanos(nanos).as_secs_f64();
        let (total, longest) = (of(self.0.nanos_total), of(self.0.nanos_max) * 1e3);
        let count = self.0.count;
        write!(f, "{count} in {total:.1} s, the longest {longest:.1} ms")
    }
}

/// Prints figures in lines, then a table of the levels that hold something.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "MiB written by users      {}", Mib(self.user_bytes))?;
        let parts = [
            ("log", self.log_bytes),
            ("flushes", self.flushed_bytes),
            ("down", self.moved_bytes),
            ("merges", self.merged_bytes),
        ];
        let parts = parts.map(|(name, bytes)| format!("{name} {}", Mib(bytes)));
        let (all, parts) = (Mib(self.written_bytes()), parts.join(", "));
        write!(f, "MiB written to the disk   {all} ({parts})")?;
        match self.write_amplification() {
            Some(times) => writeln!(f, ", {times:.2} times as many")?,
            None => writeln!(f)?,
        }
        let (flushes, compactions) = (self.flushes, self.compactions);
        let read = Mib(self.compaction_read_bytes);
        writeln!(
            f,
            "jobs                      {flushes} flushes; {compactions} compactions, which read {read} MiB"
        )?;
        writeln!(f, "MiB that are owed         {}", Mib(self.debt_bytes))?;
        writeln!(f, "writes that were slowed   {}", Waits(self.slowed))?;
        writeln!(f, "writes that were stopped  {}", Waits(self.stopped))?;
        let (groups, syncs) = (self.groups, self.syncs);
        writeln!(
            f,
            "log                       {groups} groups, {syncs} syncs"
        )?;
        let (memory, cache) = (Mib(self.memory_bytes), Mib(self.cache_bytes));
        let budget = Mib(self.memory_budget);
        let (hits, misses) = (self.cache_hits, self.cache_misses);
        writeln!(
            f,
            "MiB of memory             {budget} at most: memory tables {memory}, blocks {cache}; {hits} blocks were there, {misses} were read"
        )?;
        writeln!(f, "tables set aside, damaged {}", self.set_aside)?;
        writeln!(f, "snapshots and scans       {}", self.readers)?;
        writeln!(
            f,
            "level   tables        MiB   guards   most runs of a guard"
        )?;
        for (level, tables) in self.tables.iter().enumerate() {
            let of = |figures: &[u64]| figures.get(level).copied().unwrap_or(0);
            let guards = match level {
                0 => "-".to_owned(),
                _ => of(&self.guards).to_string(),
            };
            if *tables > 0 {
                let (bytes, runs) = (Mib(of(&self.level_bytes)), of(&self.runs));
                writeln!(
                    f,
                    "{level:>5} {tables:>8} {bytes:>10} {guards:>8} {runs:>22}"
                )?;
            }
        }
        let (tables, bytes) = (
            self.tables.iter().sum::<u64>(),
            Mib(self.level_bytes.iter().sum()),
        );
        let runs: u64 = self.runs.iter().sum();
        writeln!(f, "  all {tables:>8} {bytes:>10} {:>8} {runs:>22}", "")?;
        write!(f, "keys that become guards   {}", self.chosen_guards)
    }
}

#[cfg(all(test, not(evendb_loom)))]
mod tests {
    use super::*;

    #[test]
    fn levels_and_amplification_are_told() {
        let stats = Stats {
            user_bytes: 1 << 20,
            log_bytes: 1 << 20,
            flushed_bytes: 3 << 19,
            tables: vec![2, 0, 5],
            level_bytes: vec![1 << 20, 0, 5 << 20],
            guards: vec![0, 1, 4],
            runs: vec![2, 0, 3],
            ..Stats::default()
        };
        let text = stats.to_string();
        for line in [
            "MiB written to the disk   2.5 (log 1.0, flushes 1.5, down 0.0, merges 0.0), 2.50 times as many",
            "    0        2        1.0        -                      2",
            "    2        5        5.0        4                      3",
            "  all        7        6.0                               5",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\nin\n{text}");
        }
        assert!(!Stats::default().to_string().contains("times as many"));
    }
}
