//! The statistics: one row for each number, from which its counter, its public field, its figure
//! and its reading out follow.
//!
//! ```text
//!   /// What it is, in one line: the description of the figure.
//!   /// More lines, which only the documentation of the field has.
//!   field: u64 = form("name"), counted in counter;
//!                 |     |                    |
//!                 |     |                    a field of `Metrics`, made by this row
//!                 |     the figure's name; figures have the order of the rows
//!                 kind and unit: a function of `figure.rs`
//! ```
//! A row without `counted in` is filled in by [`crate::observe`] or by [`Metrics::fill`]. A row
//! without a form is a group: the figures of its rows have its place.

use super::figure::{Figure, events, gets, held, moved, number, spent, time, waits};
use super::pauses::Pauses;
use super::{ComponentCounter, Counter};

/// What a group does for itself and for the groups in it.
pub(super) trait Group {
    /// Reads the counters.
    fn read(&mut self, metrics: &Metrics);

    /// Adds the figures.
    fn list(&self, figures: &mut Vec<Figure>);
}

/// Makes the structs of a table; see the module.
macro_rules! statistics {
    (
        $(#[$about:meta])*
        counters $Metrics:ident { $($(#[$own_doc:meta])* $own:ident: $Own:ty;)* }
        $(
            $(#[$group_about:meta])*
            group $Group:ident {
                $(
                    #[doc = $what:literal]
                    $(#[doc = $more:literal])*
                    $field:ident: $Type:ident
                        $(= $form:ident($name:expr))? $(, counted in $counter:ident)?;
                )*
            }
        )*
    ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub(crate) struct $Metrics {
            $($(#[$own_doc])* pub(crate) $own: $Own,)*
            $($($(pub(crate) $counter: Counter,)?)*)*
        }
        $(
            $(#[$group_about])*
            #[non_exhaustive]
            pub struct $Group {
                $(
                    #[doc = $what]
                    $(#[doc = $more])*
                    pub $field: $Type,
                )*
            }

            impl Group for $Group {
                fn read(&mut self, metrics: &$Metrics) {
                    // A group may have no counters.
                    let _ = metrics;
                    $(read!(metrics, self.$field $(, $form)? $(, $counter)?);)*
                }

                fn list(&self, figures: &mut Vec<Figure>) {
                    $(list!(figures, self.$field, $what $(, $form, $name)?);)*
                }
            }
        )*
    };
}

/// What a row does in `read`.
macro_rules! read {
    ($metrics:ident, $group:expr) => {
        $group.read($metrics)
    };
    ($metrics:ident, $field:expr, $form:ident) => {};
    ($metrics:ident, $field:expr, $form:ident, $counter:ident) => {
        $field = $metrics.$counter.get()
    };
}

/// What a row does in `list`.
macro_rules! list {
    ($figures:ident, $group:expr, $what:literal) => {
        $group.list($figures)
    };
    ($figures:ident, $field:expr, $what:literal, $form:ident, $name:expr) => {
        $figures.extend($form($name, $field, $what.trim().trim_end_matches('.')))
    };
}

/// The names of the four figures of waits.
macro_rules! wait {
    ($cause:literal) => {
        [
            concat!("pause.", $cause, "_count"),
            concat!("pause.", $cause, "_nanos_total"),
            concat!("pause.", $cause, "_nanos_max"),
            concat!("pause.", $cause, "_above_5_ms"),
        ]
    };
}

statistics! {
    /// All counters of one database.
    counters Metrics {
        gets: [ComponentCounter; 6];
        /// Bytes of keys and values in tables of chunks that range deletions have emptied.
        bytes_covered: Counter;
        pauses: Pauses;
    }

    /// The work of a database since its opening, and its present contents in numbers.
    #[derive(Clone, Debug, Default)]
    group Stats {
        /// Gets by the component that answered.
        gets: GetStats = gets([
            "get_nanos_total.munk",
            "get_nanos_total.delta",
            "get_nanos_total.row_cache",
            "get_nanos_total.log",
            "get_nanos_total.sstable",
            "get_nanos_total.absent",
        ]);
        /// Records put, batches' included.
        puts: u64 = events("puts"), counted in puts;
        /// Records deleted, batches' included.
        deletes: u64 = events("deletes"), counted in deletes;
        /// Ranges and prefixes deleted, each one record.
        range_deletes: u64 = events("range_deletes"), counted in range_deletes;
        /// Tables dropped without being read.
        /// Range deletions hide all their records, or all have expired.
        tables_dropped_unread: u64 = events("tables_dropped_unread"),
            counted in tables_dropped_unread;
        /// Batches of more than one record.
        batches: u64 = events("batches"), counted in batches;
        /// Transactions that were committed and had written something.
        transactions: u64 = events("transactions"), counted in transactions;
        /// Conflicts that transactions met, at their commit or when they locked a key.
        /// Each attempt counts.
        transaction_conflicts: u64 = events("transaction_conflicts"),
            counted in transaction_conflicts;
        /// Iterators, cursors and multi_gets begun.
        scans: u64 = events("scans"), counted in scans;
        /// Records that scans returned.
        scanned_records: u64 = events("scanned_records"), counted in scanned_records;
        /// Records that scans returned and for which no file was read.
        scanned_from_ram: u64 = events("scanned_from_ram"), counted in scanned_from_ram;
        /// Longest pause of a put, in nanoseconds, without waiting for durability.
        /// See [`PauseStats::put_nanos_max`].
        put_pause_nanos_max: u64 = time("put_pause_nanos_max");
        /// Longest pause of a get, in nanoseconds.
        /// See [`PauseStats::get_nanos_max`].
        get_pause_nanos_max: u64 = time("get_pause_nanos_max");
        /// Rewrites of a chunk's SSTable.
        rebalances: u64 = events("rebalances"), counted in rebalances;
        /// Deltas absorbed into munks (the paper's munk rebalance).
        munk_rebalances: u64 = events("munk_rebalances"), counted in absorbs;
        /// Chunks split.
        splits: u64 = events("splits"), counted in splits;
        /// Runs of a chunk's log merged into one.
        log_merges: u64 = events("log_merges"), counted in log_merges;
        /// Neighbouring chunks merged.
        merges: u64 = events("merges"), counted in merges;
        /// Loads of a chunk's spans into RAM, of one span or several.
        munk_loads: u64 = events("munk_loads"), counted in munk_loads;
        /// Evictions of a chunk's spans from RAM, of one span or all.
        munk_evictions: u64 = events("munk_evictions"), counted in munk_evictions;
        /// Spans loaded because they were in RAM when the database was last open.
        warmed_spans: u64 = events("warmed_spans"), counted in spans_warmed;
        /// Spans that were in RAM when the database was last open, and are still to be loaded.
        spans_to_warm: u64 = number("spans_to_warm");
        /// Checkpoints completed.
        checkpoints: u64 = events("checkpoints"), counted in checkpoints;
        /// Time spent in checkpoints.
        /// It is in nanoseconds.
        checkpoint_nanos_total: u64 = spent("checkpoint_nanos_total"),
            counted in checkpoint_nanos;
        /// Calls of a compaction filter that panicked.
        compaction_filter_panics: u64 = events("compaction_filter_panics"),
            counted in compaction_filter_panics;
        /// Records behind damage in the commit log that the opening gave up.
        /// See [`Options::accept_log_loss`](crate::Options::accept_log_loss).
        log_records_given_up: u64 = events("log_records_given_up"),
            counted in log_records_given_up;
        /// Bytes written by cause.
        bytes_written: WrittenStats;
        /// Bytes of the blocks in which gets found their record, uncompressed.
        /// Scans and jobs do not count.
        bytes_read: u64 = moved("read_bytes"), counted in bytes_read;
        /// Blocks that gets read from tables.
        /// Scans and jobs do not count.
        block_reads: u64 = events("block_reads"), counted in block_reads;
        /// Memory by use.
        memory: MemoryStats;
        /// Chunks of all keyspaces.
        chunks: u64 = number("chunks");
        /// Chunks with at least one span in RAM.
        munks: u64 = number("munks");
        /// Chunks, and tables of guards, that could not be read.
        /// Background work leaves them as they are until the database is reopened, and goes on with
        /// all others. `verify` names the files.
        damaged: u64 = number("damaged");
        /// SSTables whose files are open.
        open_files: u64 = number("open_files");
        /// Bytes that pending checkpoints and rebalances would write if they ran now.
        debt_bytes: u64 = held("debt_bytes");
        /// Sorted runs in chunks' logs.
        /// A scan that misses RAM reads one block of each run of the chunk in which it begins, and
        /// more blocks of runs with many records of its range. Divided by `chunks`, this is the
        /// cost of a phase of puts for the next scans.
        log_runs: u64 = number("log_runs");
        /// The largest number of sorted runs in one chunk's log.
        log_runs_most: u64 = number("log_runs_most");
        /// Bytes in chunks' logs, as they are on disk.
        log_bytes: u64 = held("log_bytes");
        /// Bytes in SSTables, as they are on disk: after compression.
        sstable_bytes: u64 = held("sstable_bytes");
        /// Bytes of keys and values in tables, obsolete versions included, before compression.
        /// Chunks' logs are tables too.
        data_bytes: u64 = held("data_bytes");
        /// Pauses by cause.
        pauses: PauseStats;
        /// Bytes on the disk, with the part that is garbage.
        space: SpaceStats;
    }

    /// Gets by the component that answered, and the mean latency of each in nanoseconds (sampled).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    group GetStats {
        /// Gets answered by munks.
        munk: u64 = events("gets.munk");
        /// Gets answered by deltas.
        delta: u64 = events("gets.delta");
        /// Gets answered by the row cache.
        row_cache: u64 = events("gets.row_cache");
        /// Gets answered by chunks' logs.
        log: u64 = events("gets.log");
        /// Gets answered by SSTables.
        sstable: u64 = events("gets.sstable");
        /// Gets of keys that are not there.
        absent: u64 = events("gets.absent");
        /// Mean time of the sampled gets that munks answered, in nanoseconds.
        munk_nanos: u64 = time("get_nanos.munk");
        /// Mean time of the sampled gets that deltas answered, in nanoseconds.
        delta_nanos: u64 = time("get_nanos.delta");
        /// Mean time of the sampled gets that the row cache answered, in nanoseconds.
        row_cache_nanos: u64 = time("get_nanos.row_cache");
        /// Mean time of the sampled gets that chunks' logs answered, in nanoseconds.
        log_nanos: u64 = time("get_nanos.log");
        /// Mean time of the sampled gets that SSTables answered, in nanoseconds.
        sstable_nanos: u64 = time("get_nanos.sstable");
        /// Mean time of the sampled gets of keys that are not there, in nanoseconds.
        absent_nanos: u64 = time("get_nanos.absent");
    }

    /// Bytes written since the database was opened, by cause.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    group WrittenStats {
        /// Keys and values that callers put or deleted.
        user: u64 = moved("written.user"), counted in bytes_user;
        /// Into the commit log, which is recycled.
        /// At process level it rarely reaches the disk.
        commit_log: u64 = moved("written.commit_log"), counted in bytes_commit_log;
        /// Into chunks' logs, by checkpoints.
        log: u64 = moved("written.log"), counted in bytes_log;
        /// Into SSTables, by rebalances.
        sstable: u64 = moved("written.sstable"), counted in bytes_sstable;
        /// Into the manifest.
        manifest: u64 = moved("written.manifest"), counted in bytes_manifest;
        /// Into value extents, for records that do not fit the commit log.
        value_extents: u64 = moved("written.value_extents"), counted in bytes_value_extents;
        /// Into value files: values apart, and moved values.
        value_files: u64 = moved("written.value_files");
    }

    /// Memory in bytes, by use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    group MemoryStats {
        /// Memory that the database may use.
        budget: u64 = held("memory.budget");
        /// Spans in RAM.
        munks: u64 = held("memory.munks");
        /// Records that are not absorbed yet.
        deltas: u64 = held("memory.deltas");
        /// Cached rows.
        row_cache: u64 = held("memory.row_cache");
        /// Indexes of chunks' logs.
        log_indexes: u64 = held("memory.log_indexes");
        /// Indexes and filters of tables.
        block_indexes: u64 = held("memory.block_indexes");
        /// Chunks, and tables that are not open.
        metadata: u64 = held("memory.metadata");
        /// What is used of the mapped commit log.
        commit_log: u64 = held("memory.commit_log");
        /// Buffers of checkpoints, reorganisation and cursors.
        buffers: u64 = held("memory.buffers");
        /// Pages that belong to no munk any more, and holes.
        /// Such pages are not yet reclaimed, or kept by users' values. The holes are those in the
        /// memory of deltas and munks, of all databases of the process.
        unreclaimed: u64 = held("memory.unreclaimed");
    }

    /// The waits that held operations up since the database was opened. Every wait is timed; whole
    /// operations are sampled, one in 64.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    group PauseStats {
        /// Longest pause of a put, in nanoseconds.
        /// It is the longest of all waits for room, pace, debt, chunk and freeze, and of the
        /// sampled puts until the record is visible (without waiting for durability).
        put_nanos_max: u64 = time("pause.put_nanos_max");
        /// The time in nanoseconds that 99.9 % of the sampled puts did not exceed.
        put_nanos_p999: u64 = time("pause.put_nanos_p999");
        /// The time in nanoseconds that 99.99 % of the sampled puts did not exceed.
        put_nanos_p9999: u64 = time("pause.put_nanos_p9999");
        /// Longest pause of a get, in nanoseconds.
        /// It is the longest of all gets that read from disk, and of the sampled gets.
        get_nanos_max: u64 = time("pause.get_nanos_max");
        /// The time in nanoseconds that 99.9 % of the sampled gets did not exceed.
        get_nanos_p999: u64 = time("pause.get_nanos_p999");
        /// The time in nanoseconds that 99.99 % of the sampled gets did not exceed.
        get_nanos_p9999: u64 = time("pause.get_nanos_p9999");
        /// Puts that waited for room in the commit log or in delta memory.
        room: WaitStats = waits(wait!("room"));
        /// Puts that were delayed because the commit log or delta memory is nearly full.
        pace: WaitStats = waits(wait!("pace"));
        /// Puts that were delayed because reorganisation is behind.
        debt: WaitStats = waits(wait!("debt"));
        /// Puts that waited for another put, or for a switch-over, in the same chunk.
        chunk: WaitStats = waits(wait!("chunk"));
        /// Puts that froze a delta for a checkpoint.
        freeze: WaitStats = waits(wait!("freeze"));
        /// Gets that searched the disk.
        read: WaitStats = waits(wait!("read"));
    }

    /// Bytes on disk by kind, as of the last look of the upkeep at all chunks (within seconds).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    group SpaceStats {
        /// Keys and values that a rewrite of everything would leave.
        /// The number is estimated where a chunk is not in RAM: updates are assumed to overwrite
        /// existing records.
        live_bytes: u64 = held("space.live_bytes");
        /// Dead records in chunks' logs: overwritten there, or to be dropped (estimated).
        garbage_log_bytes: u64 = held("space.garbage_log_bytes");
        /// Records in SSTables that the logs overwrite or delete (estimated).
        garbage_sstable_bytes: u64 = held("space.garbage_sstable_bytes");
        /// Tombstones in tables, number of records.
        tombstones: u64 = number("space.tombstones");
        /// Ranges of keys that range deletions hide, until the hidden records are gone.
        /// Each is counted in every chunk that it overlaps.
        range_tombstones: u64 = number("space.range_tombstones");
        /// Free extents inside the log container whose blocks are still allocated.
        container_free_bytes: u64 = held("space.container_free_bytes");
        /// Free extents inside the log container whose blocks were given back.
        container_punched_bytes: u64 = held("space.container_punched_bytes");
        /// Files and extents that nothing names any more and that wait to be deleted.
        deletion_pending_bytes: u64 = held("space.deletion_pending_bytes");
        /// Blocks of all files of the database.
        /// Reserved blocks and files that wait to be deleted are included. `du` of its directory
        /// gives this number plus the directory itself and the blocks that a file system needs to
        /// find the blocks of SSTables.
        disk_bytes: u64 = held("space.disk_bytes");
        /// The file of the commit log, a part of the blocks of all files.
        /// It has from 16 KiB to its capacity, as large as was needed between two checkpoints so
        /// far.
        commit_log_bytes: u64 = held("space.commit_log_bytes");
        /// The reserve for deletes on a full disk.
        /// It has 512 KiB to 32 MiB, depending on the amount of data.
        ballast_bytes: u64 = held("space.ballast_bytes");
        /// The container of all chunks' logs.
        /// Its free room and the room reserved for the next puts are included.
        container_bytes: u64 = held("space.container_bytes");
        /// The manifest, with the room reserved for the next edits.
        manifest_bytes: u64 = held("space.manifest_bytes");
        /// The bytes appended to the existing value files.
        value_file_bytes: u64 = held("space.value_file_bytes");
        /// The bytes in value files that tables name.
        /// The other bytes there are dead, or not in tables yet.
        value_file_live_bytes: u64 = held("space.value_file_live_bytes");
    }
}

/// Waits of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStats {
    /// The number of waits.
    pub count: u64,
    /// The sum of all waits, in nanoseconds.
    pub nanos_total: u64,
    /// The longest wait, in nanoseconds.
    pub nanos_max: u64,
    /// The number of waits of more than 5 ms.
    pub above_5_ms: u64,
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
        let mut figures = Vec::new();
        self.list(&mut figures);
        figures
    }

    /// Share of gets answered without reading a table; `None` if there were no gets.
    pub fn ram_hit_rate(&self) -> Option<f64> {
        let total = self.gets.total();
        let from_ram = self.gets.delta + self.gets.munk + self.gets.row_cache;
        (total > 0).then(|| from_ram as f64 / total as f64)
    }

    /// Bytes of tables for each byte of keys and values in them: shows how much compression saves
    /// (1.0 without compression).
    pub fn table_bytes_per_data_byte(&self) -> f64 {
        match self.data_bytes {
            0 => 1.0,
            data => (self.sstable_bytes + self.log_bytes) as f64 / data as f64,
        }
    }
}

impl GetStats {
    /// All gets.
    pub fn total(&self) -> u64 {
        self.delta + self.munk + self.row_cache + self.log + self.sstable + self.absent
    }
}

impl WrittenStats {
    /// Bytes that reach the disk for certain: everything except the commit log.
    pub fn disk(&self) -> u64 {
        self.log + self.sstable + self.manifest + self.value_extents + self.value_files
    }
}

impl MemoryStats {
    /// Sum of all uses.
    pub fn used(&self) -> u64 {
        self.munks
            + self.deltas
            + self.row_cache
            + self.log_indexes
            + self.block_indexes
            + self.metadata
            + self.commit_log
            + self.buffers
            + self.unreclaimed
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

    #[test]
    fn what_is_counted_is_read_into_the_field_and_the_figure_of_its_row() {
        let metrics = Metrics::default();
        metrics.absorbs.add(2);
        metrics.bytes_log.add(3);
        metrics.served(super::super::Component::Log, None);
        metrics
            .pauses
            .chunk
            .record(std::time::Duration::from_nanos(5));
        let mut stats = Stats::default();
        metrics.fill(&mut stats, [WaitStats::default(); 3]);
        assert_eq!((stats.munk_rebalances, stats.bytes_written.log), (2, 3));
        let figures = stats.figures();
        let counted: Vec<_> = figures.iter().filter(|figure| figure.value > 0).collect();
        let expected = [
            ("gets.log", 1),
            ("put_pause_nanos_max", 5),
            ("munk_rebalances", 2),
            ("written.log", 3),
            ("pause.put_nanos_max", 5),
            ("pause.chunk_count", 1),
            ("pause.chunk_nanos_total", 5),
            ("pause.chunk_nanos_max", 5),
        ];
        let named: Vec<_> = counted.iter().map(|f| (f.name, f.value)).collect();
        assert_eq!(named, expected);
        let absorbed = "Deltas absorbed into munks (the paper's munk rebalance)";
        assert_eq!(counted[2].description, absorbed);
    }
}
