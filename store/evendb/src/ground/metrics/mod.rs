//! Counters of the engine's work, and the [`Stats`] that a user reads.
//!
//! Counters on the read path are striped over cache lines, so that two threads do not write one
//! line; latencies are sampled, one operation in 64 per thread.

mod display;
pub(crate) mod pauses;

use crossbeam_utils::CachePadded;
use pauses::{Latencies, Pauses};
use std::cell::Cell;
use std::time::Instant;
// Not atomics of the seam: counters order nothing, so they are no steps of a schedule.
#[cfg(not(evendb_shuttle))]
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(evendb_shuttle)]
use std::sync::atomic::{AtomicU64, Ordering};

const STRIPES: usize = 8;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    static TICK: Cell<u32> = const { Cell::new(0) };
}

static NEXT_STRIPE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn stripe() -> usize {
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            // Relaxed: any distribution of threads over stripes is correct.
            stripe.set(NEXT_STRIPE.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

/// A counter that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(Box<[CachePadded<AtomicU64>; STRIPES]>);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: counters order nothing.
        self.0[stripe()].fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0
            .iter()
            .map(|stripe| stripe.load(Ordering::Relaxed))
            .sum()
    }
}

/// Starts a clock for one operation in 64 of this thread.
#[inline]
pub(crate) fn sample() -> Option<Instant> {
    // A schedule must not depend on the number of operations before it.
    if cfg!(evendb_shuttle) {
        return None;
    }
    TICK.with(|tick| {
        let n = tick.get().wrapping_add(1);
        tick.set(n);
        n.is_multiple_of(64).then(Instant::now)
    })
}

/// Which component answered a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Component {
    Delta = 0,
    Munk = 1,
    RowCache = 2,
    Log = 3,
    Sstable = 4,
    Absent = 5,
}

impl Component {
    /// The components with their names in figures.
    const ALL: [(Component, &str); 6] = [
        (Component::Delta, "delta"),
        (Component::Munk, "munk"),
        (Component::RowCache, "row_cache"),
        (Component::Log, "log"),
        (Component::Sstable, "sstable"),
        (Component::Absent, "absent"),
    ];

    fn is_on_disk(self) -> bool {
        matches!(self, Component::Log | Component::Sstable)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ComponentCounter {
    count: Counter,
    sampled: Counter,
    nanos: Counter,
    /// Latencies of the sampled gets, and of all searches of the disk.
    latencies: Latencies,
}

/// All counters of one database.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    gets: [ComponentCounter; 6],
    pub(crate) puts: Counter,
    pub(crate) deletes: Counter,
    pub(crate) range_deletes: Counter,
    /// Bytes of keys and values in tables of chunks that range deletions have emptied.
    pub(crate) bytes_covered: Counter,
    pub(crate) tables_dropped_unread: Counter,
    pub(crate) compaction_filter_panics: Counter,
    pub(crate) batches: Counter,
    pub(crate) transactions: Counter,
    pub(crate) transaction_conflicts: Counter,
    pub(crate) scans: Counter,
    pub(crate) scanned_records: Counter,
    pub(crate) scanned_from_ram: Counter,
    pub(crate) bytes_user: Counter,
    pub(crate) bytes_commit_log: Counter,
    pub(crate) bytes_log: Counter,
    pub(crate) bytes_sstable: Counter,
    pub(crate) bytes_manifest: Counter,
    pub(crate) bytes_value_extents: Counter,
    pub(crate) block_reads: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) rebalances: Counter,
    pub(crate) absorbs: Counter,
    pub(crate) log_merges: Counter,
    pub(crate) splits: Counter,
    pub(crate) merges: Counter,
    pub(crate) munk_loads: Counter,
    pub(crate) munk_evictions: Counter,
    pub(crate) spans_warmed: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) log_records_given_up: Counter,
    pub(crate) checkpoint_nanos: Counter,
    pub(crate) pauses: Pauses,
}

impl Metrics {
    #[inline]
    pub(crate) fn served(&self, component: Component, started: Option<Instant>) {
        let counter = &self.gets[component as usize];
        counter.count.add(1);
        if let Some(started) = started {
            let nanos = started.elapsed().as_nanos() as u64;
            counter.sampled.add(1);
            counter.nanos.add(nanos);
            self.pauses.get(nanos);
            // Components on disk note each of their searches.
            if !component.is_on_disk() {
                counter.latencies.record(nanos);
            }
        }
    }

    /// Notes a search of the disk that took this number of nanoseconds; this component had the
    /// answer.
    pub(crate) fn searched(&self, component: Component, nanos: u64) {
        if component.is_on_disk() {
            self.gets[component as usize].latencies.record(nanos);
        }
    }

    /// Latencies by component: upper ends of steps in nanoseconds, and the number of gets or
    /// searches in each.
    pub(crate) fn get_latencies(&self) -> Vec<(&'static str, Vec<(u64, u64)>)> {
        let of = |(component, name)| {
            let counter: &ComponentCounter = &self.gets[component as usize];
            (name, counter.latencies.counts())
        };
        Component::ALL.map(of).to_vec()
    }

    /// The number of operations so far.
    pub(crate) fn operations(&self) -> u64 {
        let gets: u64 = self.gets.iter().map(|counter| counter.count.get()).sum();
        gets + self.writes() + self.scanned_records.get()
    }

    /// The number of records put or deleted.
    pub(crate) fn writes(&self) -> u64 {
        self.puts.get() + self.deletes.get() + self.range_deletes.get()
    }

    /// A number that changes whenever reorganisation or a checkpoint has done something.
    pub(crate) fn jobs_done(&self) -> u64 {
        let jobs = [
            &self.rebalances,
            &self.splits,
            &self.absorbs,
            &self.log_merges,
            &self.checkpoints,
        ];
        jobs.iter().map(|jobs| jobs.get()).sum()
    }

    fn component(&self, component: Component) -> (u64, u64) {
        let counter = &self.gets[component as usize];
        let sampled = counter.sampled.get();
        (
            counter.count.get(),
            counter.nanos.get().checked_div(sampled).unwrap_or(0),
        )
    }

    /// Fills in the figures, with the waits of admission: room, pace, debt.
    pub(crate) fn fill(&self, stats: &mut Stats, admission: [WaitStats; 3]) {
        let gets = &mut stats.gets;
        (gets.delta, gets.delta_nanos) = self.component(Component::Delta);
        (gets.munk, gets.munk_nanos) = self.component(Component::Munk);
        (gets.row_cache, gets.row_cache_nanos) = self.component(Component::RowCache);
        (gets.log, gets.log_nanos) = self.component(Component::Log);
        (gets.sstable, gets.sstable_nanos) = self.component(Component::Sstable);
        (gets.absent, gets.absent_nanos) = self.component(Component::Absent);
        stats.puts = self.puts.get();
        stats.deletes = self.deletes.get();
        stats.range_deletes = self.range_deletes.get();
        stats.tables_dropped_unread = self.tables_dropped_unread.get();
        stats.compaction_filter_panics = self.compaction_filter_panics.get();
        stats.batches = self.batches.get();
        stats.transactions = self.transactions.get();
        stats.transaction_conflicts = self.transaction_conflicts.get();
        stats.scans = self.scans.get();
        stats.scanned_records = self.scanned_records.get();
        stats.scanned_from_ram = self.scanned_from_ram.get();
        stats.bytes_written = WrittenStats {
            user: self.bytes_user.get(),
            commit_log: self.bytes_commit_log.get(),
            log: self.bytes_log.get(),
            sstable: self.bytes_sstable.get(),
            manifest: self.bytes_manifest.get(),
            value_extents: self.bytes_value_extents.get(),
            // The value files count this themselves.
            value_files: 0,
        };
        stats.block_reads = self.block_reads.get();
        stats.bytes_read = self.bytes_read.get();
        stats.rebalances = self.rebalances.get();
        stats.munk_rebalances = self.absorbs.get();
        stats.log_merges = self.log_merges.get();
        stats.splits = self.splits.get();
        stats.merges = self.merges.get();
        stats.munk_loads = self.munk_loads.get();
        stats.munk_evictions = self.munk_evictions.get();
        stats.warmed_spans = self.spans_warmed.get();
        stats.checkpoints = self.checkpoints.get();
        stats.log_records_given_up = self.log_records_given_up.get();
        stats.checkpoint_nanos_total = self.checkpoint_nanos.get();
        stats.pauses = self.pauses.stats(admission);
        stats.put_pause_nanos_max = stats.pauses.put_nanos_max;
        stats.get_pause_nanos_max = stats.pauses.get_nanos_max;
    }
}

/// Gets by the component that answered, and the mean latency of each in nanoseconds (sampled).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each pair is the component of its name: a count, and nanoseconds"
)]
pub struct GetStats {
    pub delta: u64,
    pub delta_nanos: u64,
    pub munk: u64,
    pub munk_nanos: u64,
    pub row_cache: u64,
    pub row_cache_nanos: u64,
    pub log: u64,
    pub log_nanos: u64,
    pub sstable: u64,
    pub sstable_nanos: u64,
    pub absent: u64,
    pub absent_nanos: u64,
}

impl GetStats {
    /// All gets.
    pub fn total(&self) -> u64 {
        self.delta + self.munk + self.row_cache + self.log + self.sstable + self.absent
    }
}

/// Bytes written since the database was opened, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenStats {
    /// Keys and values that callers put or deleted.
    pub user: u64,
    /// Into the commit log, which is recycled and at process level rarely reaches the disk.
    pub commit_log: u64,
    /// Into chunks' logs, by checkpoints.
    pub log: u64,
    /// Into SSTables, by rebalances.
    pub sstable: u64,
    /// Into the manifest.
    pub manifest: u64,
    /// Into value extents, for records that do not fit the commit log.
    pub value_extents: u64,
    /// Into value files: values apart, and moved values.
    pub value_files: u64,
}

impl WrittenStats {
    /// Bytes that reach the disk for certain: everything except the commit log.
    pub fn disk(&self) -> u64 {
        self.log + self.sstable + self.manifest + self.value_extents + self.value_files
    }
}

/// Memory in bytes, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the use of its name, in bytes")]
pub struct MemoryStats {
    pub budget: u64,
    pub munks: u64,
    pub deltas: u64,
    pub row_cache: u64,
    pub log_indexes: u64,
    pub block_indexes: u64,
    pub metadata: u64,
    pub commit_log: u64,
    /// Buffers of checkpoints, reorganisation and cursors.
    pub buffers: u64,
    /// Pages that belong to no munk any more: not yet reclaimed, or kept by users' values. Also
    /// holes in the memory of deltas and munks, of all databases of the process.
    pub unreclaimed: u64,
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

/// The waits that held operations up since the database was opened. Every wait is timed; whole
/// operations are sampled, one in 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PauseStats {
    /// Longest pause of a put: the longest of all waits for room, pace, debt, chunk and freeze, and
    /// of the sampled puts until the record is visible (without waiting for durability).
    pub put_nanos_max: u64,
    /// The time in nanoseconds that 99.9 % of the sampled puts did not exceed.
    pub put_nanos_p999: u64,
    /// The time in nanoseconds that 99.99 % of the sampled puts did not exceed.
    pub put_nanos_p9999: u64,
    /// Longest pause of a get: the longest of all gets that read from disk, and of the sampled
    /// gets.
    pub get_nanos_max: u64,
    /// The time in nanoseconds that 99.9 % of the sampled gets did not exceed.
    pub get_nanos_p999: u64,
    /// The time in nanoseconds that 99.99 % of the sampled gets did not exceed.
    pub get_nanos_p9999: u64,
    /// Puts that waited for room in the commit log or in delta memory.
    pub room: WaitStats,
    /// Puts that were delayed because the commit log or delta memory is nearly full.
    pub pace: WaitStats,
    /// Puts that were delayed because reorganisation is behind.
    pub debt: WaitStats,
    /// Puts that waited for another put, or for a switch-over, in the same chunk.
    pub chunk: WaitStats,
    /// Puts that froze a delta for a checkpoint.
    pub freeze: WaitStats,
    /// Gets that searched the disk.
    pub read: WaitStats,
}

/// Bytes on disk by kind, as of the last look of the upkeep at all chunks (within seconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceStats {
    /// Keys and values that a rewrite of everything would leave (estimated where a chunk is not in
    /// RAM: updates are assumed to overwrite existing records).
    pub live_bytes: u64,
    /// Dead records in chunks' logs: overwritten there, or to be dropped (estimated).
    pub garbage_log_bytes: u64,
    /// Records in SSTables that the logs overwrite or delete (estimated).
    pub garbage_sstable_bytes: u64,
    /// Tombstones in tables, number of records.
    pub tombstones: u64,
    /// Ranges of keys that range deletions hide, until the hidden records are gone. Each is counted
    /// in every chunk that it overlaps.
    pub range_tombstones: u64,
    /// Free extents inside the log container whose blocks are still allocated.
    pub container_free_bytes: u64,
    /// Free extents inside the log container whose blocks were given back.
    pub container_punched_bytes: u64,
    /// Files and extents that nothing names any more and that wait to be deleted.
    pub deletion_pending_bytes: u64,
    /// Blocks of all files of the database, including reserved blocks and files that wait to be
    /// deleted. `du` of its directory gives this number plus the directory itself and the blocks
    /// that a file system needs to find the blocks of SSTables.
    pub disk_bytes: u64,
    /// The commit log's part of these: from 16 KiB to its capacity, as large as was needed between
    /// two checkpoints so far.
    pub commit_log_bytes: u64,
    /// The reserve for deletes on a full disk: 512 KiB to 32 MiB, depending on the amount of data.
    pub ballast_bytes: u64,
    /// The container of all chunks' logs, with its free room and the room reserved for the next
    /// puts.
    pub container_bytes: u64,
    /// The manifest, with the room reserved for the next edits.
    pub manifest_bytes: u64,
    /// Value files: the bytes appended to the existing files.
    pub value_file_bytes: u64,
    /// The part of these that tables name. The rest is dead, or not in tables yet.
    pub value_file_live_bytes: u64,
}

/// The work of a database since its opening, and its present contents in numbers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Gets by serving component.
    pub gets: GetStats,
    /// Records put, batches' included.
    pub puts: u64,
    /// Records deleted, batches' included.
    pub deletes: u64,
    /// Ranges and prefixes deleted, each one record.
    pub range_deletes: u64,
    /// Tables dropped without being read, because range deletions hide all their records or because
    /// all have expired.
    pub tables_dropped_unread: u64,
    /// Calls of a compaction filter that panicked.
    pub compaction_filter_panics: u64,
    /// Batches of more than one record.
    pub batches: u64,
    /// Transactions that were committed and had written something.
    pub transactions: u64,
    /// Conflicts that transactions met, at their commit or when they locked a key. Each attempt
    /// counts.
    pub transaction_conflicts: u64,
    /// Iterators, cursors and multi_gets begun.
    pub scans: u64,
    /// Records that these scans returned.
    pub scanned_records: u64,
    /// The ones among these for which no file was read.
    pub scanned_from_ram: u64,
    /// Rewrites of a chunk's SSTable.
    pub rebalances: u64,
    /// Deltas absorbed into munks (the paper's munk rebalance).
    pub munk_rebalances: u64,
    /// Runs of a chunk's log merged into one.
    pub log_merges: u64,
    /// Chunks split.
    pub splits: u64,
    /// Neighbouring chunks merged.
    pub merges: u64,
    /// Loads of a chunk's spans into RAM, of one span or several.
    pub munk_loads: u64,
    /// Evictions of a chunk's spans from RAM, of one span or all.
    pub munk_evictions: u64,
    /// Spans loaded because they were in RAM when the database was last open.
    pub warmed_spans: u64,
    /// Such spans that are still to be loaded.
    pub spans_to_warm: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Time spent in checkpoints, in nanoseconds.
    pub checkpoint_nanos_total: u64,
    /// Records behind damage in the commit log that the opening gave up; see
    /// [`Options::accept_log_loss`](crate::Options::accept_log_loss).
    pub log_records_given_up: u64,
    /// Longest pause of a put, in nanoseconds, without waiting for durability; see
    /// [`PauseStats::put_nanos_max`].
    pub put_pause_nanos_max: u64,
    /// Longest pause of a get, in nanoseconds; see [`PauseStats::get_nanos_max`].
    pub get_pause_nanos_max: u64,
    /// Pauses by cause.
    pub pauses: PauseStats,
    /// Bytes on the disk, and how many of them are garbage.
    pub space: SpaceStats,
    /// Bytes written by cause.
    pub bytes_written: WrittenStats,
    /// Bytes of the blocks in which gets found their record, uncompressed. Scans and jobs do not
    /// count.
    pub bytes_read: u64,
    /// Blocks that gets read from tables. Scans and jobs do not count.
    pub block_reads: u64,
    /// Memory by use.
    pub memory: MemoryStats,
    /// Chunks of all keyspaces.
    pub chunks: u64,
    /// Chunks with at least one span in RAM.
    pub munks: u64,
    /// SSTables whose files are open.
    pub open_files: u64,
    /// Bytes that pending checkpoints and rebalances would write if they ran now.
    pub debt_bytes: u64,
    /// Sorted runs in chunks' logs. A scan that misses RAM reads one block of each run of the chunk
    /// in which it begins, and more blocks of runs with many records of its range. Divided by
    /// `chunks`, this is the cost of a phase of puts for the next scans.
    pub log_runs: u64,
    /// The largest number of runs in one chunk's log.
    pub log_runs_most: u64,
    /// Bytes in chunks' logs, as they are on disk.
    pub log_bytes: u64,
    /// Bytes in SSTables, as they are on disk: after compression.
    pub sstable_bytes: u64,
    /// Bytes of keys and values in tables, including chunks' logs and obsolete versions, before
    /// compression.
    pub data_bytes: u64,
}

impl Stats {
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
