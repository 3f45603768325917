//! Statistics as text for people; programs take [`Stats::figures`].

use super::Stats;
use std::fmt;

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Groups whose figures are all zero are not listed part by part.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_calls(f)?;
        self.show_reorganisation(f)?;
        self.show_pauses(f)?;
        self.show_bytes(f)
    }
}

impl Stats {
    fn show_calls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ram_hit_rate() {
            None => writeln!(f, "gets 0")?,
            Some(rate) => {
                self.show_gets(f)?;
                writeln!(f, "RAM hit rate {:.2}%", 100.0 * rate)?;
            }
        }
        writeln!(
            f,
            "puts {}  deletes {}  batches {}  scans {} ({} records)",
            self.puts, self.deletes, self.batches, self.scans, self.scanned_records
        )
    }

    fn show_gets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gets = &self.gets;
        let total = gets.total() as f64;
        writeln!(f, "gets by component     count      share   mean us")?;
        for (name, count, nanos) in [
            ("delta", gets.delta, gets.delta_nanos),
            ("munk", gets.munk, gets.munk_nanos),
            ("row cache", gets.row_cache, gets.row_cache_nanos),
            ("log", gets.log, gets.log_nanos),
            ("SSTable", gets.sstable, gets.sstable_nanos),
            ("absent", gets.absent, gets.absent_nanos),
        ] {
            let share = 100.0 * count as f64 / total;
            writeln!(
                f,
                "  {name:<12} {count:>12} {share:>9.2}% {:>9.2}",
                nanos as f64 / 1e3
            )?;
        }
        Ok(())
    }

    fn show_reorganisation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "chunks {} ({} munks)  SSTables {:.1} MiB  logs {:.1} MiB in {} runs, {} at most  keys and values in them {:.1} MiB, {:.2} a byte  \
             debt {:.1} MiB",
            self.chunks,
            self.munks,
            mib(self.sstable_bytes),
            mib(self.log_bytes),
            self.log_runs,
            self.log_runs_most,
            mib(self.data_bytes),
            self.table_bytes_per_data_byte(),
            mib(self.debt_bytes)
        )?;
        writeln!(
            f,
            "rebalances {}  munk rebalances {}  splits {}  merges {}  munk loads {}  evictions {}",
            self.rebalances,
            self.munk_rebalances,
            self.splits,
            self.merges,
            self.munk_loads,
            self.munk_evictions
        )?;
        if self.damaged > 0 {
            writeln!(f, "{} chunks or tables cannot be read", self.damaged)?;
        }
        let checkpoint_ms = millis(self.checkpoint_nanos_total) / self.checkpoints.max(1) as f64;
        writeln!(
            f,
            "checkpoints {} (mean {checkpoint_ms:.1} ms)",
            self.checkpoints
        )
    }

    fn show_pauses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pauses = &self.pauses;
        writeln!(
            f,
            "longest pause of a put {:.2} ms (p99.99 {:.2}), of a get {:.2} ms (p99.99 {:.2})",
            millis(pauses.put_nanos_max),
            millis(pauses.put_nanos_p9999),
            millis(pauses.get_nanos_max),
            millis(pauses.get_nanos_p9999)
        )?;
        for (name, wait) in [
            ("room", &pauses.room),
            ("pace", &pauses.pace),
            ("debt", &pauses.debt),
            ("chunk", &pauses.chunk),
            ("freeze", &pauses.freeze),
            ("disk read", &pauses.read),
        ] {
            if wait.count == 0 {
                continue;
            }
            writeln!(
                f,
                "  {name:<12} {:>12} waits {:>12.2} ms, longest {:>9.2} ms, {} above 5 ms",
                wait.count,
                millis(wait.nanos_total),
                millis(wait.nanos_max),
                wait.above_5_ms
            )?;
        }
        Ok(())
    }

    fn show_bytes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = &self.space;
        writeln!(
            f,
            "MiB on disk {:.1}: live {:.1}  garbage in logs {:.1}, in SSTables {:.1}  free in the \
             container {:.1} ({:.1} punched)  to be deleted {:.1}  commit log {:.1}  kept for deletes {:.1}",
            mib(space.disk_bytes),
            mib(space.live_bytes),
            mib(space.garbage_log_bytes),
            mib(space.garbage_sstable_bytes),
            mib(space.container_free_bytes),
            mib(space.container_punched_bytes),
            mib(space.deletion_pending_bytes),
            mib(space.commit_log_bytes),
            mib(space.ballast_bytes)
        )?;
        let written = &self.bytes_written;
        writeln!(
            f,
            "MiB written: user {:.1}  commit log {:.1}  logs {:.1}  SSTables {:.1}  manifest {:.1}",
            mib(written.user),
            mib(written.commit_log),
            mib(written.log),
            mib(written.sstable),
            mib(written.manifest)
        )?;
        writeln!(
            f,
            "MiB read {:.1} in {} reads",
            mib(self.bytes_read),
            self.block_reads
        )?;
        let memory = &self.memory;
        write!(
            f,
            "MiB in RAM: {:.1} of {:.1}: munks {:.1}  deltas {:.1}  rows {:.1}  log indexes {:.1}  \
             block indexes {:.1}  metadata {:.1}  commit log {:.1}",
            mib(memory.used()),
            mib(memory.budget),
            mib(memory.munks),
            mib(memory.deltas),
            mib(memory.row_cache),
            mib(memory.log_indexes),
            mib(memory.block_indexes),
            mib(memory.metadata),
            mib(memory.commit_log)
        )
    }
}
