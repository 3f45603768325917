//! How a database is opened. Every default is what the benchmarks run with; one number, the memory
//! budget, scales the rest. Options that users have reason to choose are here; the rest is behind
//! [`Options::advanced`] ([`Advanced`]).

mod advanced;
mod compression;
mod departure;
mod filter;
mod keyspace;
mod layout;
mod text;

pub use self::advanced::{Advanced, LogSearch};
pub(crate) use self::advanced::{MunkPolicy, RowPolicy};
pub use self::compression::Compression;
pub use self::departure::Departure;
pub use self::filter::{CompactionFilter, FilterDecision};
pub use self::keyspace::KeyspaceOptions;
pub(crate) use self::keyspace::{NamedOperator, OPTION_PREFIX};
pub use self::layout::{GuardOptions, Layout};
pub use self::text::OptionInfo;
pub use self::text::forms;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::memory::shared::{Member, Membership, SharedBudget};
#[doc(inline)]
pub use evendb_base::Durability;
use evendb_base::container::default_budget;
use evendb_base::limits::{MEMORY_BUDGET_MAX, THREADS_MAX, refuse, within};
use evendb_base::setters;
use evendb_storage::table::TableOptions;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::sync::Arc;
use std::time::Duration;

/// How records reach the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writing {
    /// Records are copied into a shared mapping: the kernel has them when the append returns,
    /// without a system call. Syncing mapped bytes costs more than syncing written ones, and takes
    /// whole pages, which may be huge. So after a sync, records are written by system calls for the
    /// length of such a page, and so is a log that is slow.
    Mapped,
    /// Each append writes by a system call.
    Written,
    /// Records are gathered in memory, and the thread that syncs writes them all at once: for a log
    /// whose every appender waits for the sync anyway.
    Gathered,
}

/// Options for opening a database. See [`Options::open`].
///
/// A database usually needs at most two of them: [`memory_budget`](Self::memory_budget), from which
/// all sizes follow, and [`durability`](Self::durability).
///
/// ```
/// use evendb::{Durability, Options};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Options::new()
///     .memory_budget(64 << 20)
///     .durability(Durability::Sync)
///     .open(path)?;
/// # Ok::<(), evendb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory_budget: u64,
    pub(crate) durability: Durability,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    /// The opening reads beside a writer; then it is read-only, too.
    pub(crate) beside_writer: bool,
    pub(crate) accept_log_loss: bool,
    pub(crate) compression: Compression,
    pub(crate) layout: Layout,
    pub(crate) space_amplification: f64,
    pub(crate) workers: usize,
    pub(crate) stats_interval: Duration,
    pub(crate) advanced: Advanced,
    /// The place in a shared budget, from the opening on.
    pub(crate) membership: Option<Arc<Membership>>,
    pub(crate) vfs: Arc<dyn Vfs>,
    #[cfg(test)]
    pub(crate) plant: crate::plant::Plant,
}

/// Limits of the memory budget in bytes: below the first, its parts are too small to work.
const MEMORY_BUDGET_LIMITS: (u64, u64) = (1 << 20, MEMORY_BUDGET_MAX);
/// Limits of the time between two writes of the figures.
const STATS_INTERVAL_LIMITS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_secs(24 * 60 * 60));

const AMPLIFICATION_LIMITS: (f64, f64) = (1.01, 10.0);

/// Average space amplification, if the caller chooses none.
const SPACE_AMPLIFICATION: f64 = 1.25;

/// The largest default number of workers.
const WORKERS_DEFAULT_MAX: usize = 8;

fn workers_default() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // One more for two cores: while one worker waits for the disk, another one works.
    (cores + cores.div_ceil(2)).min(WORKERS_DEFAULT_MAX)
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults: 512 MiB of memory (less in a small container), durability
    /// [`Durability::Process`], no compression.
    pub fn new() -> Options {
        Options {
            memory_budget: default_budget(),
            durability: Durability::Process,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            beside_writer: false,
            accept_log_loss: false,
            compression: Compression::None,
            layout: Layout::Chunks,
            space_amplification: SPACE_AMPLIFICATION,
            workers: workers_default(),
            stats_interval: Duration::from_secs(1),
            advanced: Advanced::new(),
            membership: None,
            vfs: Arc::new(OsVfs),
            #[cfg(test)]
            plant: crate::plant::Plant::Nothing,
        }
    }
}

impl SharedBudget {
    /// Options of a database that shares this budget, with defaults for the rest.
    pub fn options(&self) -> Options {
        Options::new().advanced(|advanced| advanced.shared(self))
    }
}

setters! {
impl Options {
    /// Memory for everything the store keeps, in bytes, from 1 MiB to 16 TiB. Default: 512 MiB,
    /// whatever memory the machine has. In a container (a control group with a limit) with less,
    /// the default is its memory minus a fifth, and minus at least 64 MiB. The rest scales with the
    /// budget:
    ///
    /// | budget | chunk | commit log | deltas | reserve | tables, log searches | munks and rows |
    /// |---|---|---|---|---|---|---|
    /// | 64 MiB | 4 MiB | 8 MiB | 8 MiB | 8 MiB | up to 13 MiB | 26 MiB and more |
    /// | 256 MiB | 4 MiB | 32 MiB | 32 MiB | 24 MiB | up to 56 MiB | 112 MiB and more |
    /// | 1 GiB | 10 MiB | 128 MiB | 128 MiB | 64 MiB | up to 234 MiB | 469 MiB and more |
    /// | 8 GiB | 10 MiB | 256 MiB | 1 GiB | 512 MiB | up to 2.1 GiB | 4.2 GiB and more |
    /// | 64 GiB | 10 MiB | 256 MiB | 8 GiB | 4 GiB | up to 17 GiB | 34 GiB and more |
    ///
    /// On disk the commit log begins with 16 to 256 KiB, and grows as needed to the size in the
    /// table.
    ///
    /// Munks and rows also use the memory of commit log and deltas that puts have not used lately,
    /// except a part that puts may take at once.
    ///
    /// Chunks, closed tables and buffers take their memory from the last two columns. A batch that
    /// is larger than a quarter of the deltas' memory may exceed that memory, up to twice. One that
    /// counts more than a quarter of the budget exceeds the budget for a time, by about its own
    /// size ([`Batch`](crate::Batch)). A chunk's log may have 35 % of a chunk's size, and twice a
    /// chunk's size if all of the chunk is in RAM.
    ///
    /// The process itself, holes of its heap and the system's cache of files need memory beside the
    /// budget. Where one limit holds for everything, as in a container, leave a fifth of it beside
    /// the budget, and at least 64 MiB. docs/embedding.md has figures, and says what the store sets
    /// in glibc's allocator.
    pub fn memory_budget(mut self, bytes: u64);

    /// What an acknowledged write survives, unless its batch asks for more
    /// ([`Batch::durability`](crate::Batch::durability)). Default: [`Durability::Process`].
    pub fn durability(mut self, durability: Durability);

    /// Whether a missing database is created. Default: `true`; with `false` opening fails with
    /// [`ErrorKind::NotFound`].
    ///
    /// A database is never created among foreign files: a directory that holds any is refused with
    /// [`ErrorKind::AlreadyExists`]. Names that begin with a dot, `lost+found`, and files of an
    /// interrupted creation do not count as foreign.
    pub fn create_if_missing(mut self, yes: bool);

    /// Whether an existing database is refused with [`ErrorKind::AlreadyExists`]. Default: `false`.
    pub fn error_if_exists(mut self, yes: bool);

    /// Whether to open for reading only. Default: `false`. Many readers may have a database open at
    /// once, but none beside a writer. Nothing is written or deleted, and permission to read is
    /// enough. Records that the last writer left in the commit log are replayed in memory, even if
    /// they take more than the memory budget. A missing `LOCK` is made if permissions allow it.
    pub fn read_only(mut self, yes: bool);

    /// Whether to go on without the records behind damage in the commit log. By default (`false`)
    /// such a database does not open: the error is [`ErrorKind::Corruption`], names file and
    /// offset, and nothing is changed. The records behind the damage are best saved first, by
    /// [`inspect::repair`](crate::inspect::repair).
    ///
    /// With `true` the database has its state from before the damaged record was written.
    /// [`Stats::log_records_given_up`] counts the records given up. The old log stays in the
    /// directory as `COMMIT-LOG.damaged-N`: nothing reads or removes it, and
    /// [`inspect::verify`](crate::inspect::verify) reports it. With [`read_only`](Self::read_only)
    /// no file is kept or changed. For an undamaged log this option has no effect; the torn end
    /// that a crash leaves is no damage.
    ///
    /// [`Stats::log_records_given_up`]: crate::Stats::log_records_given_up
    pub fn accept_log_loss(mut self, yes: bool);

    /// Compression of SSTables and logs. Default: [`Compression::None`]. Existing tables keep their
    /// compression until they are rewritten, and are read whatever is chosen here.
    pub fn compression(mut self, compression: Compression);

    /// The layout of keyspaces that are made without one of their own
    /// ([`KeyspaceOptions::layout`]); the default keyspace of a new database is one of them.
    /// Default: [`Layout::Chunks`]. Existing keyspaces keep the layout with which they were made.
    pub fn layout(mut self, layout: Layout);

    /// How much larger than its live data the database may be on disk on average, without the
    /// commit log, from 1.01 to 10. Default: 1.25. The part above 1 goes to the logs of chunks.
    /// Logs that are written more often get more of it, by the square root of rate and size, which
    /// makes all rewriting together least. Less space costs more writing: at uniform updates and an
    /// amplification of s, about 1 + 1 / (2 (s - 1)) bytes are written per byte put.
    ///
    /// When nothing has been put for some seconds, garbage is slowly reduced to a third of that,
    /// with at most one byte written per byte put before.
    pub fn space_amplification(mut self, amplification: f64);

    /// Threads for reorganisation, beside one for checkpoints, from 0 to 256. Default: three for
    /// two cores, at most 8. While reorganisation keeps up, a third of them work, and they give way
    /// to calls. With 0 there are no threads at all: checkpoints and reorganisation run inside the
    /// calls that need them (for deterministic tests).
    pub fn workers(mut self, workers: usize);

    /// How often the database writes its figures for other processes while it is used, from a
    /// millisecond to a day; zero means never. Default: every second.
    ///
    /// The figures go into a small file in the database's directory, which is never synced.
    /// [`LiveStats::read`](crate::LiveStats::read) and `evendb stats --watch` read it. With the
    /// feature `metrics` they are also published at this interval. A while after the last call they
    /// are written once more, and then not before the next call. They are not written with
    /// [`read_only`](Self::read_only), and not with 0 [`workers`](Self::workers).
    pub fn stats_interval(mut self, interval: Duration);
}
}

impl Options {
    /// Changes settings that nearly every database leaves alone: `set` takes the current settings
    /// and returns the new ones. A further call goes on from there.
    ///
    /// ```
    /// use evendb::Options;
    ///
    /// let options = Options::new()
    ///     .memory_budget(64 << 20)
    ///     .advanced(|advanced| advanced.open_files_max(100).filter_bits_per_key(10));
    /// # let dir = tempfile::tempdir().unwrap();
    /// # options.open(dir.path()).unwrap();
    /// ```
    pub fn advanced(mut self, set: impl FnOnce(Advanced) -> Advanced) -> Self {
        self.advanced = set(self.advanced);
        self
    }

    /// Takes a place in the shared budget, if there is one: from now on sizes follow from it.
    pub(crate) fn join_shared(&mut self) -> Result<()> {
        if let Some(shared) = &self.advanced.shared {
            self.memory_budget = shared.sizes_budget();
            self.membership = Some(Arc::new(shared.join()?));
        }
        Ok(())
    }

    /// The place in a shared budget, once the database is opened.
    pub(crate) fn member(&self) -> Option<&Arc<Member>> {
        self.membership.as_ref().map(|place| &place.member)
    }

    /// The file system to use; tests give a simulated one, and see no file that depends on the
    /// time: this sets [`stats_interval`](Self::stats_interval) to zero.
    #[doc(hidden)]
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = vfs;
        self.stats_interval = Duration::ZERO;
        self
    }

    /// Refuses values that no database can work with, naming the limit.
    pub(crate) fn check(&self) -> Result<()> {
        within("memory_budget", self.memory_budget, MEMORY_BUDGET_LIMITS)?;
        within("workers", self.workers as u64, (0, THREADS_MAX))?;
        if !self.stats_interval.is_zero() {
            let (min, max) = STATS_INTERVAL_LIMITS;
            if !(min..=max).contains(&self.stats_interval) {
                let given = self.stats_interval;
                return refuse("stats_interval", &given, &min, &max);
            }
        }
        let (min, max) = AMPLIFICATION_LIMITS;
        if !(min..=max).contains(&self.space_amplification) {
            let given = self.space_amplification;
            return refuse("space_amplification", &given, &min, &max);
        }
        self.compression.check()?;
        self.advanced.check(self.vfs.open_files_max())
    }

    pub(crate) fn chunk_bytes_max(&self) -> u64 {
        // Small budgets see more data than memory: with chunks below 4 MiB, the larger part of the
        // budget would go to the chunks themselves and to the small runs of their logs.
        let default = (self.memory_budget / 64).max((self.memory_budget / 16).min(4 << 20));
        let default = default.clamp(64 << 10, 10 << 20);
        self.advanced.chunk_bytes.unwrap_or(default)
    }

    /// Bits for each key of the filters of a keyspace with this layout.
    pub(crate) fn filter_bits_per_key(&self, layout: Option<Layout>) -> u32 {
        let default = match layout {
            Some(Layout::Guards) => 10,
            Some(Layout::Chunks) | None => 0,
        };
        self.advanced.filter_bits_per_key.unwrap_or(default)
    }

    /// About the bytes of a run of a chunk with guards: a checkpoint comes when half of the memory
    /// of deltas is used.
    pub(crate) fn run_bytes(&self) -> u64 {
        (self.delta_bytes_max() / 2).min(64 << 20)
    }

    /// Average bytes between two guards of the last level.
    pub(crate) fn last_guard_bytes(&self) -> u64 {
        let default = (self.memory_budget / 8).clamp(64 << 10, 64 << 20);
        self.advanced.guards.last_guard_bytes.unwrap_or(default)
    }

    /// Rows with more bytes than this are not worth a place in the row cache.
    pub(crate) fn row_bytes_max(&self) -> usize {
        (self.memory_budget / 640) as usize
    }

    pub(crate) fn open_files_limit(&self) -> u64 {
        let half = self.vfs.open_files_max().unwrap_or(u64::MAX) / 2;
        let shared = self.advanced.shared.as_ref();
        let shared = shared.map(SharedBudget::open_files_max);
        let own = self.advanced.open_files_max.or(shared);
        own.unwrap_or(half.clamp(1, 8192))
    }

    /// The target for logs, unless their limits are fixed.
    pub(crate) fn log_space_amplification(&self) -> Option<f64> {
        let is_fixed = self.advanced.log_bytes_limits.is_some();
        (!is_fixed).then_some(self.space_amplification)
    }

    /// The rows' share if it is fixed: because it was given, or because rows or munks are off.
    pub(crate) fn row_share(&self) -> Option<f64> {
        match (self.advanced.row_cache, self.advanced.munks) {
            (false, _) => Some(0.0),
            (true, false) => Some(1.0),
            (true, true) => self.advanced.row_cache_share,
        }
    }

    pub(crate) fn delta_bytes_max(&self) -> u64 {
        self.memory_budget / 8
    }

    pub(crate) fn ring_bytes(&self) -> u64 {
        let eighth = self.memory_budget / 8;
        // If the ring is in RAM, it is as large as the deltas. Otherwise it only takes disk, and a
        // larger ring lets more writes of a key go into a delta before a checkpoint writes one of
        // them.
        let default = match self.commit_log_writing() {
            Writing::Gathered => eighth.max((self.memory_budget / 2).min(128 << 20)),
            Writing::Mapped | Writing::Written => eighth,
        };
        let default = default.clamp(64 << 10, 256 << 20);
        let bytes = self.advanced.commit_log_bytes.unwrap_or(default);
        bytes.next_multiple_of(4096)
    }

    /// How records reach the commit log's file.
    pub(crate) fn commit_log_writing(&self) -> Writing {
        let sync = self.durability == Durability::Sync;
        // A mapped log takes memory that no database of a shared budget gives back at once.
        let maps = !sync && self.advanced.shared.is_none();
        match self.advanced.commit_log_mapped.unwrap_or(maps) {
            true => Writing::Mapped,
            // Every write waits for the sync, so nothing needs to reach the file before.
            false if sync => Writing::Gathered,
            false => Writing::Written,
        }
    }

    /// The block size for tables with this compression.
    pub(crate) fn block_bytes(&self, compression: Compression) -> usize {
        let default = compression.block_bytes();
        self.advanced.block_bytes.unwrap_or(default)
    }

    pub(crate) fn table_options(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes(self.compression),
            restart_interval: 16,
            codec: self.compression.codec(),
            zstd_level: self.compression.zstd_level(),
            filter_bits_per_key: self.filter_bits_per_key(None),
        }
    }
}
