//! The statistics as named numbers: one list, from which reports, the file `STATS`, `evendb stats
//! --json` and the `metrics` facade all take their names.
//!
//! Names are dotted; the unit is part of the name where it is not a count. Whoever adds a field to
//! [`Stats`] adds a line here: a test compares the two.

use crate::metrics::Stats;

/// Whether a [`Figure`] only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Counts events or bytes since the database was opened.
    Counter,
    /// The state at this moment.
    Gauge,
}

/// What a [`Figure`] is counted in.
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
    /// Its dotted name, as `gets.munk`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Whether it only grows.
    pub kind: FigureKind,
    /// What it is counted in.
    pub unit: FigureUnit,
    /// What it says.
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

/// Something that happened so many times.
const fn events(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Counter,
        FigureUnit::Count,
        name,
        value,
        description,
    )
}

/// So many bytes moved.
const fn moved(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Counter,
        FigureUnit::Bytes,
        name,
        value,
        description,
    )
}

/// So many there are.
const fn number(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Count,
        name,
        value,
        description,
    )
}

/// So many bytes are held.
const fn held(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Bytes,
        name,
        value,
        description,
    )
}

/// So long it takes.
const fn time(name: &'static str, value: u64, description: &'static str) -> Figure {
    figure(
        FigureKind::Gauge,
        FigureUnit::Nanoseconds,
        name,
        value,
        description,
    )
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
            events("puts", self.puts, "records put"),
            events("deletes", self.deletes, "records deleted"),
            events("batches", self.batches, "batches of several records"),
            events("scans", self.scans, "iterators, cursors, multi_gets"),
            events(
                "scanned_records",
                self.scanned_records,
                "records they returned",
            ),
            time(
                "put_pause_nanos_max",
                self.put_pause_nanos_max,
                "longest wait of a put, sampled",
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
            events("munk_loads", self.munk_loads, "munks built from disk"),
            events("munk_evictions", self.munk_evictions, "munks dropped"),
            events("checkpoints", self.checkpoints, "checkpoints completed"),
            checkpoint_time,
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
            moved("read_bytes", self.bytes_read, "read from tables"),
            events("block_reads", self.block_reads, "reads of tables"),
        ]
    }

    fn memory_figures(&self) -> Vec<Figure> {
        let memory = &self.memory;
        vec![
            held("memory.budget", memory.budget, "memory it may use"),
            held("memory.munks", memory.munks, "chunks in RAM"),
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
            held("memory.commit_log", memory.commit_log, "the mapped ring"),
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
            number("munks", self.munks, "chunks that have a munk"),
            number("open_files", self.open_files, "SSTables that are open"),
            held(
                "debt_bytes",
                self.debt_bytes,
                "what pending reorganisation would write",
            ),
            held("log_bytes", self.log_bytes, "in chunks' logs"),
            held("sstable_bytes", self.sstable_bytes, "in SSTables"),
            held(
                "data_bytes",
                self.data_bytes,
                "keys and values in tables, obsolete versions included",
            ),
        ]
    }
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;

    /// Each number of the statistics is published: the derived `Debug` shows them all.
    #[test]
    fn every_number_is_a_figure() {
        let shown = format!("{:?}", Stats::default());
        let numbers = shown.matches(": 0").count();
        let figures = Stats::default().figures();
        assert_eq!(figures.len(), numbers, "{shown}");
        let names: std::collections::HashSet<_> = figures.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), figures.len(), "names are unique");
    }
}
