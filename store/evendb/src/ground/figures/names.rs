//! The statistics as named numbers: one list, from which reports, the file `STATS`, `evendb stats
//! --json` and the `metrics` facade all take their names.
//!
//! Names are dotted; the unit is part of the name unless it is a count. A new field of [`Stats`]
//! needs a line here: a test compares the two.

use crate::metrics::Stats;

/// Whether a [`Figure`] only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Counts events or bytes since the database was opened.
    Counter,
    /// The state at this moment.
    Gauge,
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FigureUnit {
    /// Operations, records, chunks.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// One named number of [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// Its dotted name, for example `gets.munk`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Whether it only grows.
    pub kind: FigureKind,
    /// Its unit.
    pub unit: FigureUnit,
    /// Its meaning.
    pub description: &'static str,
}

const fn figure(
    kind: FigureKind,
    unit: FigureUnit,
    name: &'static str,
    value: u64,
    description: &'static str,
) -> Figure {
    Figure {
        name,
        value,
        kind,
        unit,
        description,
    }
}

/// The number of events of a kind.
const fn events(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Counter,
        FigureUnit::Count,
        name,
        value,
        description,
    )
}

/// The number of bytes that were moved.
const fn moved(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Counter,
        FigureUnit::Bytes,
        name,
        value,
        description,
    )
}

/// The present number of things of a kind.
const fn number(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Count,
        name,
        value,
        description,
    )
}

/// The present number of bytes.
const fn held(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Bytes,
        name,
        value,
        description,
    )
}

/// The time of all events of a kind, extrapolated from the sampled ones.
const fn spent(name: &'static str, count: u64, mean_nanos: u64) -> Figure {
    figure(
        FigureKind::Counter,
        FigureUnit::Nanoseconds,
        name,
        count.saturating_mul(mean_nanos),
        "time of these gets in all, from a sample",
    )
}

/// A time in nanoseconds.
const fn time(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Nanoseconds,
        name,
        value,
        description,
    )
}

/// The names of a wait's count, sum, maximum, and number of long waits.
macro_rules! wait_names {
    ($wait:literal) => {
        [
            concat!("pause.", $wait, "_count"),
            concat!("pause.", $wait, "_nanos_total"),
            concat!("pause.", $wait, "_nanos_max"),
            concat!("pause.", $wait, "_above_5_ms"),
        ]
    };
}

impl Stats {
    /// All figures by name, the same names in the same order at every call.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.put("a", "1")?;
    /// let figures = db.stats().figures();
    /// assert!(figures.iter().any(|figure| figure.name == "puts" && figure.value == 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = self.operation_figures();
        figures.extend(self.reorganisation_figures());
        figures.extend(self.written_figures());
        figures.extend(self.memory_figures());
        figures.extend(self.size_figures());
        figures.extend(self.pause_figures());
        figures.extend(self.space_figures());
        figures
    }

    fn operation_figures(&self) -> Vec<Figure> {
        let gets = &self.gets;
        vec![
            events("gets.munk", gets.munk, "gets answered by munks"),
            events("gets.delta", gets.delta, "gets answered by deltas"),
            events(
                "gets.row_cache",
                gets.row_cache,
                "gets answered by the row cache",
            ),
            events("gets.log", gets.log, "gets answered by chunks' logs"),
            events("gets.sstable", gets.sstable, "gets answered by SSTables"),
            events(
                "gets.absent",
                gets.absent,
                "gets of keys that are not there",
            ),
            time("get_nanos.munk", gets.munk_nanos, "mean, sampled"),
            time("get_nanos.delta", gets.delta_nanos, "mean, sampled"),
            time("get_nanos.row_cache", gets.row_cache_nanos, "mean, sampled"),
            time("get_nanos.log", gets.log_nanos, "mean, sampled"),
            time("get_nanos.sstable", gets.sstable_nanos, "mean, sampled"),
            time("get_nanos.absent", gets.absent_nanos, "mean, sampled"),
            spent("get_nanos_total.munk", gets.munk, gets.munk_nanos),
            spent("get_nanos_total.delta", gets.delta, gets.delta_nanos),
            spent(
                "get_nanos_total.row_cache",
                gets.row_cache,
                gets.row_cache_nanos,
            ),
            spent("get_nanos_total.log", gets.log, gets.log_nanos),
            spent("get_nanos_total.sstable", gets.sstable, gets.sstable_nanos),
            spent("get_nanos_total.absent", gets.absent, gets.absent_nanos),
            events("puts", self.puts, "records put"),
            events("deletes", self.deletes, "records deleted"),
            events(
                "range_deletes",
                self.range_deletes,
                "ranges and prefixes deleted, each one record",
            ),
            events(
                "tables_dropped_unread",
                self.tables_dropped_unread,
                "tables dropped unread, because range deletions or expiry left nothing of them",
            ),
            events("batches", self.batches, "batches of several records"),
            events(
                "transactions",
                self.transactions,
                "transactions committed that wrote something",
            ),
            events(
                "transaction_conflicts",
                self.transaction_conflicts,
                "conflicts that transactions met",
            ),
            events("scans", self.scans, "iterators, cursors, multi_gets"),
            events(
                "scanned_records",
                self.scanned_records,
                "records that scans returned",
            ),
            events(
                "scanned_from_ram",
                self.scanned_from_ram,
                "records that scans returned and for which no file was read",
            ),
            time(
                "put_pause_nanos_max",
                self.put_pause_nanos_max,
                "longest pause of a put",
            ),
            time(
                "get_pause_nanos_max",
                self.get_pause_nanos_max,
                "longest pause of a get",
            ),
        ]
    }

    fn reorganisation_figures(&self) -> Vec<Figure> {
        let checkpoint_time = figure(
            FigureKind::Counter,
            FigureUnit::Nanoseconds,
            "checkpoint_nanos_total",
            self.checkpoint_nanos_total,
            "time spent in checkpoints",
        );
        vec![
            events("rebalances", self.rebalances, "rewrites of chunks' tables"),
            events(
                "munk_rebalances",
                self.munk_rebalances,
                "deltas absorbed into munks",
            ),
            events("splits", self.splits, "chunks split"),
            events(
                "log_merges",
                self.log_merges,
                "runs of a log merged into one",
            ),
            events("merges", self.merges, "neighbouring chunks merged"),
            events("munk_loads", self.munk_loads, "loads of spans into RAM"),
            events(
                "munk_evictions",
                self.munk_evictions,
                "evictions of spans from RAM",
            ),
            events(
                "warmed_spans",
                self.warmed_spans,
                "spans loaded that were in RAM in the last life",
            ),
            number(
                "spans_to_warm",
                self.spans_to_warm,
                "spans that were in RAM in the last life and are still to be loaded",
            ),
            events("checkpoints", self.checkpoints, "checkpoints completed"),
            checkpoint_time,
            events(
                "compaction_filter_panics",
                self.compaction_filter_panics,
                "calls of a compaction filter that panicked",
            ),
            events(
                "log_records_given_up",
                self.log_records_given_up,
                "records behind damage in the commit log that the opening gave up",
            ),
        ]
    }

    fn written_figures(&self) -> Vec<Figure> {
        let written = &self.bytes_written;
        vec![
            moved("written.user", written.user, "keys and values put"),
            moved(
                "written.commit_log",
                written.commit_log,
                "into the commit log, which is recycled",
            ),
            moved("written.log", written.log, "into chunks' logs"),
            moved("written.sstable", written.sstable, "into SSTables"),
            moved("written.manifest", written.manifest, "into the manifest"),
            moved(
                "written.value_extents",
                written.value_extents,
                "into files of writes too large for the commit log",
            ),
            moved(
                "written.value_files",
                written.value_files,
                "values apart, put and moved",
            ),
            moved(
                "read_bytes",
                self.bytes_read,
                "blocks in which gets found their record",
            ),
            events("block_reads", self.block_reads, "blocks that gets read"),
        ]
    }

    fn memory_figures(&self) -> Vec<Figure> {
        let memory = &self.memory;
        vec![
            held("memory.budget", memory.budget, "memory it may use"),
            held("memory.munks", memory.munks, "spans in RAM"),
            held("memory.deltas", memory.deltas, "records not yet absorbed"),
            held("memory.row_cache", memory.row_cache, "cached rows"),
            held("memory.log_indexes", memory.log_indexes, "indexes of logs"),
            held(
                "memory.block_indexes",
                memory.block_indexes,
                "indexes and filters of tables",
            ),
            held(
                "memory.metadata",
                memory.metadata,
                "chunks, and tables that are not open",
            ),
            held(
                "memory.commit_log",
                memory.commit_log,
                "what is used of the mapped ring",
            ),
            held(
                "memory.buffers",
                memory.buffers,
                "buffers of checkpoints, jobs and cursors",
            ),
            held(
                "memory.unreclaimed",
                memory.unreclaimed,
                "pages that no munk has any more, and holes",
            ),
        ]
    }

    fn size_figures(&self) -> Vec<Figure> {
        vec![
            number("chunks", self.chunks, "chunks of all keyspaces"),
            number("munks", self.munks, "chunks with spans in RAM"),
            number("open_files", self.open_files, "SSTables that are open"),
            held(
                "debt_bytes",
                self.debt_bytes,
                "what pending reorganisation would write",
            ),
            number("log_runs", self.log_runs, "sorted runs in chunks' logs"),
            number(
                "log_runs_most",
                self.log_runs_most,
                "sorted runs in the log of the chunk that has the most",
            ),
            held("log_bytes", self.log_bytes, "bytes in chunks' logs"),
            held("sstable_bytes", self.sstable_bytes, "bytes in SSTables"),
            held(
                "data_bytes",
                self.data_bytes,
                "keys and values in tables, obsolete versions included",
            ),
        ]
    }

    fn pause_figures(&self) -> Vec<Figure> {
        let pauses = &self.pauses;
        let mut figures = vec![
            time(
                "pause.put_nanos_max",
                pauses.put_nanos_max,
                "longest pause of a put",
            ),
            time(
                "pause.put_nanos_p999",
                pauses.put_nanos_p999,
                "99.9 % of the sampled puts are shorter",
            ),
            time(
                "pause.put_nanos_p9999",
                pauses.put_nanos_p9999,
                "99.99 % of the sampled puts are shorter",
            ),
            time(
                "pause.get_nanos_max",
                pauses.get_nanos_max,
                "longest pause of a get",
            ),
            time(
                "pause.get_nanos_p999",
                pauses.get_nanos_p999,
                "99.9 % of the sampled gets are shorter",
            ),
            time(
                "pause.get_nanos_p9999",
                pauses.get_nanos_p9999,
                "99.99 % of the sampled gets are shorter",
            ),
        ];
        let waits = [
            (
                wait_names!("room"),
                pauses.room,
                "puts that waited for room",
            ),
            (
                wait_names!("pace"),
                pauses.pace,
                "puts delayed because there is little room",
            ),
            (
                wait_names!("debt"),
                pauses.debt,
                "puts delayed for reorganisation that is behind",
            ),
            (
                wait_names!("chunk"),
                pauses.chunk,
                "puts that waited for a chunk's latch",
            ),
            (
                wait_names!("freeze"),
                pauses.freeze,
                "puts that froze a delta",
            ),
            (
                wait_names!("read"),
                pauses.read,
                "gets that searched the disk",
            ),
        ];
        for ([count, total, longest, long], wait, what) in waits {
            figures.push(events(count, wait.count, what));
            figures.push(figure(
                FigureKind::Counter,
                FigureUnit::Nanoseconds,
                total,
                wait.nanos_total,
                what,
            ));
            figures.push(time(longest, wait.nanos_max, what));
            figures.push(events(long, wait.above_5_ms, what));
        }
        figures
    }

    fn space_figures(&self) -> Vec<Figure> {
        let space = &self.space;
        vec![
            held(
                "space.live_bytes",
                space.live_bytes,
                "what a rewrite of everything would leave",
            ),
            held(
                "space.garbage_log_bytes",
                space.garbage_log_bytes,
                "dead records in logs, estimated",
            ),
            held(
                "space.garbage_sstable_bytes",
                space.garbage_sstable_bytes,
                "dead records in SSTables, estimated",
            ),
            number("space.tombstones", space.tombstones, "tombstones in tables"),
            number(
                "space.range_tombstones",
                space.range_tombstones,
                "ranges of keys that range deletions still hide",
            ),
            held(
                "space.container_free_bytes",
                space.container_free_bytes,
                "free extents of the log container",
            ),
            held(
                "space.container_punched_bytes",
                space.container_punched_bytes,
                "holes of the log container",
            ),
            held(
                "space.deletion_pending_bytes",
                space.deletion_pending_bytes,
                "tables that wait to be deleted",
            ),
            held("space.disk_bytes", space.disk_bytes, "blocks of all files"),
            held(
                "space.commit_log_bytes",
                space.commit_log_bytes,
                "the commit log's file",
            ),
            held(
                "space.ballast_bytes",
                space.ballast_bytes,
                "kept back for deletes on a full disk",
            ),
            held(
                "space.container_bytes",
                space.container_bytes,
                "the file of the chunks' logs",
            ),
            held(
                "space.manifest_bytes",
                space.manifest_bytes,
                "the manifest's file",
            ),
            held(
                "space.value_file_bytes",
                space.value_file_bytes,
                "files of values apart",
            ),
            held(
                "space.value_file_live_bytes",
                space.value_file_live_bytes,
                "values in them that tables name",
            ),
        ]
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;

    /// Every number of the statistics is published: the derived `Debug` shows them all.
    #[test]
    fn every_number_is_a_figure() {
        let shown = format!("{:?}", Stats::default());
        let numbers = shown.matches(": 0").count();
        let figures = Stats::default().figures();
        // These are computed from a count and a mean.
        let made = |figure: &&Figure| figure.name.starts_with("get_nanos_total.");
        let made = figures.iter().filter(made).count();
        assert_eq!((made, figures.len() - made), (6, numbers), "{shown}");
        let names: std::collections::HashSet<_> = figures.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), figures.len(), "names are unique");
    }
}
