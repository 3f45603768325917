//! How a database is opened. One number, the memory budget, scales nearly everything else. Settings
//! that few programs need are in [`Advanced`].

use crate::error::{Error, ErrorKind, Result};
use evendb_base::container::default_budget;
use evendb_base::directory_lock::LOCK_PATIENCE;
use evendb_base::limits::{MEMORY_BUDGET_MAX, THREADS_MAX, within};
use evendb_base::{Durability, setters};
use evendb_storage::table::{Codec, TableOptions};
use evendb_storage::vfs::{OsVfs, Vfs};
use std::sync::Arc;
use std::time::Duration;

/// Options for opening a database.
///
/// ```
/// use evendb_flsm::{Durability, Options};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Options::new()
///     .memory_budget(64 << 20)
///     .durability(Durability::Sync)
///     .open(path)?;
/// # Ok::<(), evendb_flsm::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a database is opened with them"]
pub struct Options {
    pub(crate) memory_budget: u64,
    pub(crate) durability: Durability,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    pub(crate) advanced: Advanced,
    pub(crate) vfs: Arc<dyn Vfs>,
    #[cfg(test)]
    pub(crate) plant: crate::plant::Plant,
}

/// Settings that few programs need. See [`Options::advanced`].
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until options are given them"]
pub struct Advanced {
    pub(crate) wait_for_lock: Duration,
    pub(crate) write_buffer_bytes: Option<u64>,
    pub(crate) table_bytes_max: u64,
    pub(crate) last_guard_bytes: Option<u64>,
    pub(crate) max_files_per_guard: usize,
    pub(crate) level0: Level0,
    pub(crate) block_bytes: usize,
    pub(crate) compression: Compression,
    pub(crate) filter_bits_per_key: u32,
    pub(crate) parallel_seeks: bool,
    pub(crate) compaction_by_seeks: bool,
    pub(crate) compaction_threads: usize,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) open_files_max: Option<u64>,
}

/// Limits of the tables that stay open when none is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableLimits {
    /// The number of descriptors.
    pub(crate) files: u64,
    /// Bytes of indexes and filters.
    pub(crate) bytes: u64,
}

impl TableLimits {
    /// For tests that open few tables, and not for long.
    #[cfg(test)]
    pub(crate) const NONE: TableLimits = TableLimits {
        files: u64::MAX >> 1,
        bytes: u64::MAX >> 1,
    };
}

/// The numbers of tables in level 0 at which something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level0 {
    pub(crate) compact: usize,
    pub(crate) slow: usize,
    pub(crate) stop: usize,
}

/// How blocks of tables are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// LZ4.
    Lz4,
}

/// With this many generations waiting to be flushed, writers wait, too.
pub(crate) const WAITING_MAX: usize = 2;

/// The shares of the memory budget, in eighths. A write buffer has one, and there are three write
/// buffers when two generations wait to be flushed. Blocks of tables have three. The rest is for
/// indexes and filters of open tables. They get at least one part in `TABLES_PART_MIN` of the
/// budget, whatever the other settings are.
const EIGHTHS: u64 = 8;
const BLOCKS_EIGHTHS: u64 = 3;
const GENERATIONS: u64 = 1 + WAITING_MAX as u64;
const TABLES_PART_MIN: u64 = 16;

/// A look of a seek pays for this part of a block ([`Options::look_bytes`]).
const LOOK_PART: u64 = 16;

/// The number of tables that are kept open, if the process may have at least twice that number of
/// files.
const OPEN_FILES_MAX: u64 = 8192;

const MEMORY_BUDGET_LIMITS: (u64, u64) = (64 << 10, MEMORY_BUDGET_MAX);
const WRITE_BUFFER_BYTES_MIN: u64 = 4 << 10;
const WRITE_BUFFER_LIMITS: (u64, u64) = (WRITE_BUFFER_BYTES_MIN, 1 << 30);
/// Limits for the bytes of a table, and for the bytes between guards.
const TABLE_BYTES_LIMITS: (u64, u64) = (1, 1 << 40);
/// Limits for the runs of a guard: a scan looks into each run.
const GUARD_RUNS_LIMITS: (u64, u64) = (1, 1024);
/// Limits for the tables of level 0: every read looks into each of them.
const LEVEL0_TABLES_LIMITS: (u64, u64) = (1, 64 << 10);
const BLOCK_BYTES_LIMITS: (u64, u64) = (64, 1 << 20);
const FILTER_BITS_LIMITS: (u64, u64) = (0, 40);
const RESTART_INTERVAL: usize = 16;

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults: 512 MiB of memory, or less in a small container; durability
    /// [`Durability::Process`]; no compression.
    pub fn new() -> Options {
        Options {
            memory_budget: default_budget(),
            durability: Durability::Process,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            advanced: Advanced {
                wait_for_lock: LOCK_PATIENCE,
                write_buffer_bytes: None,
                table_bytes_max: 32 << 20,
                last_guard_bytes: None,
                max_files_per_guard: 2,
                level0: Level0 {
                    compact: 4,
                    slow: 8,
                    stop: 12,
                },
                block_bytes: 4096,
                compression: Compression::None,
                filter_bits_per_key: 10,
                parallel_seeks: true,
                compaction_by_seeks: true,
                compaction_threads: 2,
                cache_bytes: None,
                open_files_max: None,
            },
            vfs: Arc::new(OsVfs),
            #[cfg(test)]
            plant: crate::plant::Plant::Nothing,
        }
    }
}

setters! {
impl Options {
    /// Bytes of memory by which the database plans, from 64 KiB to 16 TiB. Default: 512 MiB. In a
    /// container (a control group with a limit) that has less, the default is the container's
    /// memory less a fifth, and less 64 MiB at least. A process takes up to 64 MiB beside it.
    ///
    /// At the first record or block of 1 MiB the engine tells glibc's allocator to map each piece
    /// of that size separately (`M_MMAP_THRESHOLD`), for the whole process. Otherwise values of
    /// megabytes leave holes of megabytes.
    pub fn memory_budget(mut self, bytes: u64);

    /// What an acknowledged write survives; a batch can ask for more
    /// ([`Batch::durability`](crate::Batch::durability)). Default: [`Durability::Process`].
    pub fn durability(mut self, durability: Durability);

    /// Whether a database is made where none exists. Default: yes. If not, opening fails with
    /// `NotFound`, and nothing is made.
    pub fn create_if_missing(mut self, yes: bool);

    /// Whether opening an existing database fails, with `AlreadyExists`. Default: no.
    pub fn error_if_exists(mut self, yes: bool);

    /// Opens for reading only, together with other readers and without a writer. Nothing on the
    /// disk changes, nothing runs in the background, and writes are refused with `ReadOnly`. The
    /// log's records are read into memory. Default: no.
    pub fn read_only(mut self, yes: bool);

    /// The file system to use; tests give a simulated one.
    #[doc(hidden)]
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>);
}
}

impl Options {
    /// Settings that few programs need.
    ///
    /// ```
    /// use evendb_flsm::Options;
    /// # let dir = tempfile::tempdir().unwrap();
    /// let options = Options::new().advanced(|advanced| advanced.max_files_per_guard(4));
    /// let db = options.open(dir.path())?;
    /// # Ok::<(), evendb_flsm::Error>(())
    /// ```
    pub fn advanced(mut self, set: impl FnOnce(Advanced) -> Advanced) -> Self {
        self.advanced = set(self.advanced);
        self
    }

    /// Refuses values that no database can work with. The error names the limit.
    pub(crate) fn check(&self) -> Result<()> {
        let advanced = &self.advanced;
        within("memory_budget", self.memory_budget, MEMORY_BUDGET_LIMITS)?;
        if let Some(bytes) = advanced.write_buffer_bytes {
            within("write_buffer_bytes", bytes, WRITE_BUFFER_LIMITS)?;
        }
        within(
            "table_bytes_max",
            advanced.table_bytes_max,
            TABLE_BYTES_LIMITS,
        )?;
        if let Some(bytes) = advanced.last_guard_bytes {
            within("last_guard_bytes", bytes, TABLE_BYTES_LIMITS)?;
        }
        let runs = advanced.max_files_per_guard as u64;
        within("max_files_per_guard", runs, GUARD_RUNS_LIMITS)?;
        let Level0 {
            compact,
            slow,
            stop,
        } = advanced.level0;
        for tables in [compact, slow, stop] {
            within("level0_tables", tables as u64, LEVEL0_TABLES_LIMITS)?;
        }
        if compact > slow || slow > stop {
            let message = "the tables of level 0 at which it is compacted, writes are slowed and writes stop do not ascend";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        within(
            "block_bytes",
            advanced.block_bytes as u64,
            BLOCK_BYTES_LIMITS,
        )?;
        let bits = u64::from(advanced.filter_bits_per_key);
        within("filter_bits_per_key", bits, FILTER_BITS_LIMITS)?;
        let threads = advanced.compaction_threads as u64;
        within("compaction_threads", threads, (1, THREADS_MAX))?;
        if let Some(bytes) = advanced.cache_bytes {
            within("cache_bytes", bytes, (0, MEMORY_BUDGET_MAX))?;
        }
        if let Some(files) = advanced.open_files_max {
            let files_max = self.vfs.open_files_max().unwrap_or(u64::MAX);
            within("open_files_max", files, (1, files_max))?;
        }
        Ok(())
    }

    /// A generation whose memory tables have this many bytes is ended, and the next one begins.
    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        let share = self.memory_budget / EIGHTHS;
        let share = share.clamp(WRITE_BUFFER_BYTES_MIN, 64 << 20);
        self.advanced.write_buffer_bytes.unwrap_or(share)
    }

    /// A generation whose log has this many bytes is ended, too. Small records take more bytes in
    /// memory than in the log.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.write_buffer_bytes() * 2
    }

    pub(crate) fn last_guard_bytes(&self) -> u64 {
        let default = self.write_buffer_bytes();
        self.advanced.last_guard_bytes.unwrap_or(default)
    }

    pub(crate) fn cache_bytes(&self) -> u64 {
        let share = self.memory_budget / EIGHTHS * BLOCKS_EIGHTHS;
        self.advanced.cache_bytes.unwrap_or(share)
    }

    /// Bytes of a compaction that one look of a seek into a table pays for. A look reads a block,
    /// and costs what reading and writing half a block costs. It pays for an eighth of that. If
    /// it is 0, seeks cause no compactions.
    pub(crate) fn look_bytes(&self) -> u64 {
        match self.advanced.compaction_by_seeks {
            true => (self.advanced.block_bytes as u64 / LOOK_PART).max(1),
            false => 0,
        }
    }

    /// Limits of the tables that are kept open. Tables get the memory that write buffers and block
    /// cache do not have.
    pub(crate) fn table_limits(&self) -> TableLimits {
        let half = self.vfs.open_files_max().unwrap_or(u64::MAX) / 2;
        let files = half.clamp(1, OPEN_FILES_MAX);
        let others = (GENERATIONS * self.write_buffer_bytes()).saturating_add(self.cache_bytes());
        let rest = self.memory_budget.saturating_sub(others);
        TableLimits {
            files: self.advanced.open_files_max.unwrap_or(files),
            bytes: rest.max(self.memory_budget / TABLES_PART_MIN),
        }
    }

    /// The greatest number of bytes that a batch, or a value with its key, may count.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        (self.memory_budget / 4).min(1 << 30)
    }

    pub(crate) fn table_options(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.advanced.block_bytes,
            restart_interval: RESTART_INTERVAL,
            codec: match self.advanced.compression {
                Compression::None => Codec::None,
                Compression::Lz4 => Codec::Lz4,
            },
            zstd_level: 0,
            filter_bits_per_key: self.advanced.filter_bits_per_key,
        }
    }
}

setters! {
impl Advanced {
    /// How long an opening waits while another process has the database open, before it fails with
    /// [`Locked`](crate::ErrorKind::Locked). Default: 100 milliseconds. A killed process keeps its
    /// lock until the system has taken it down. That takes a few milliseconds as a rule, and longer
    /// if the process had much memory. With this wait the next process can be started at once.
    /// Zero: the opening tries once. It does not wait for a handle in the same process.
    ///
    /// Touch it when a program that follows another one should wait longer, or not at all.
    pub fn wait_for_lock(mut self, patience: Duration);

    /// Bytes of memory tables at which they are flushed, from 4 KiB to 1 GiB. Default: an eighth of
    /// the memory budget, at most 64 MiB. Touch it when level 0 gets tables that are too small or
    /// too large.
    pub fn write_buffer_bytes(mut self, bytes: u64) => Some(bytes);

    /// Bytes at which a table of level 1 or deeper ends, from 1 to 1 TiB. Default: 32 MiB.
    /// Touch it when single compactions must be shorter.
    pub fn table_bytes_max(mut self, bytes: u64);

    /// Average bytes between two guards of the last level, from 1 byte to 1 TiB. Each level above
    /// has four times as many bytes between guards. Default: the bytes of a write buffer. Touch it
    /// when there are too many guards.
    pub fn last_guard_bytes(mut self, bytes: u64) => Some(bytes);

    /// Sorted runs that a guard may have before they are merged or go down, from 1 to 1,024. With
    /// more runs fewer bytes are written, and more are read. With 1 it is a leveled tree.
    /// Default: 2. Touch it when only writes or only reads matter.
    pub fn max_files_per_guard(mut self, runs: usize);

    /// About how many bytes a block of a table has before compression, from 64 bytes to 1 MiB.
    /// Default: 4096. Touch it when values are large, or reads are few.
    pub fn block_bytes(mut self, bytes: usize);

    /// Compression of blocks. Default: none. Touch it when the disk is short or slow.
    pub fn compression(mut self, compression: Compression);

    /// Bits per key of the tables' filters, at most 40; 0 for no filters. Default: 10. Touch it
    /// when nearly all gets are of existing keys.
    pub fn filter_bits_per_key(mut self, bits: u32);

    /// Whether a seek tells the system about the blocks that it will read in all tables before it
    /// reads the first one, so that they are read at once. Default: yes. Touch it when all data is
    /// in the system's cache.
    pub fn parallel_seeks(mut self, yes: bool);

    /// Whether seeks can pay for a compaction. It is done when seeks have read eight times the
    /// bytes that it reads and writes, in tables that it would have spared them. Default: yes.
    /// Touch it when the disk should rest while nobody writes.
    pub fn compaction_by_seeks(mut self, yes: bool);

    /// Threads that compact, beside the one that flushes, from 1 to 256. Default: 2. Touch it when
    /// compaction is behind and there are idle cores.
    pub fn compaction_threads(mut self, threads: usize);

    /// Bytes of blocks that are kept in memory, at most 16 TiB. The memory budget less these and
    /// the write buffers is for indexes and filters of tables. Default: three eighths of the memory
    /// budget. Touch it when the system's cache should keep the blocks.
    pub fn cache_bytes(mut self, bytes: u64) => Some(bytes);

    /// Tables that are kept open at once; other tables are opened when they are read. At least 1,
    /// and at most the number of files that the process may open. All other files of the process
    /// count there too. Default: half of that number, at most 8,192. Fewer are open if their
    /// indexes and filters would take more than write buffers and blocks leave of the memory
    /// budget. Touch it when one process opens many databases, or needs many files and sockets for
    /// itself.
    pub fn open_files_max(mut self, files: u64) => Some(files);
}
}

impl Advanced {
    /// The numbers of tables in level 0 at which it is compacted, at which writes are slowed, and
    /// at which writes stop until it was compacted. They are from 1 to 65,536, and none is less
    /// than the one before. Default: 4, 8, 12. Touch it when writes stop too often, or reads find
    /// too many tables.
    pub fn level0_tables(mut self, compact: usize, slow: usize, stop: usize) -> Self {
        self.level0 = Level0 {
            compact,
            slow,
            stop,
        };
        self
    }
}
