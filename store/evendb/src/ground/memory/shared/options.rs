//! How a shared budget is made: its numbers, and their limits.

use super::{Numbers, SharedBudget};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use evendb_base::limits::{MEMORY_BUDGET_MAX, THREADS_MAX, within};
use evendb_storage::vfs::{OsVfs, Vfs};

/// Limits of the budget in bytes, of the number of databases, and of the number of open tables.
const BYTES_LIMITS: (u64, u64) = (1 << 20, MEMORY_BUDGET_MAX);
const DATABASES_LIMITS: (u64, u64) = (1, 1 << 20);
const FILES_LIMITS: (u64, u64) = (1, 1 << 30);
/// The largest number of open tables that is chosen by default.
const FILES_DEFAULT_MAX: u64 = 8192;
/// The number of databases from whose sizes a database is made if the program names none.
const DATABASES: u64 = 16;

/// How a [`SharedBudget`] is made.
///
/// ```
/// use evendb::SharedOptions;
///
/// let shared = SharedOptions::new(256 << 20)
///     .databases(1_000)
///     .open_files_max(2_000)
///     .make()?;
/// # let dir = tempfile::tempdir().unwrap();
/// let users = shared.options().open(dir.path().join("users"))?;
/// let orders = shared.options().open(dir.path().join("orders"))?;
/// users.put("ann", "1")?;
/// orders.put("7", "ann")?;
/// assert_eq!(shared.stats().databases, 2);
/// # Ok::<(), evendb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedOptions {
    bytes: u64,
    databases: u64,
    threads: Option<u64>,
    open_files_max: Option<u64>,
}

impl SharedOptions {
    /// A budget of this number of bytes, from 1 MiB to 16 TiB, and defaults for the rest.
    pub fn new(bytes: u64) -> SharedOptions {
        SharedOptions {
            bytes,
            databases: DATABASES,
            threads: None,
            open_files_max: None,
        }
    }

    /// The number of databases that are in use at the same time, from 1 to 1,048,576. Default: 16.
    /// It is no limit. The budget divided by it, but at least 1 MiB, decides the sizes that do not
    /// change while a database is open, as [`Options::memory_budget`] does for a database alone:
    /// the largest value (a quarter of it) and batch (64 times it), commit log and deltas (an
    /// eighth of it each), chunks.
    ///
    /// [`Options::memory_budget`]: crate::Options::memory_budget
    pub fn databases(mut self, number: u64) -> SharedOptions {
        self.databases = number;
        self
    }

    /// The most threads for the background work of all databases together, from 1 to 256. Default:
    /// four for two cores, at most 9. They come when there is work, and all but one end a second
    /// after it. No database has threads of its own.
    /// [`Options::workers`](crate::Options::workers) still says how many of them may reorganise one
    /// database at the same time.
    ///
    /// Take at least two if a merge operator or a compaction filter of one database writes into
    /// another one of the budget: such a write may wait for a checkpoint, which the only thread
    /// could not make, because it runs the callback.
    pub fn threads(mut self, threads: u64) -> SharedOptions {
        self.threads = Some(threads);
        self
    }

    /// The number of tables that all databases together keep open as files of their own; others
    /// are opened when they are read. Above it each database closes tables, down to its equal
    /// share, and at least one. Default: half of the number of files that the process may have
    /// open, at most 8,192. Each database has six other files open besides.
    pub fn open_files_max(mut self, files: u64) -> SharedOptions {
        self.open_files_max = Some(files);
        self
    }

    /// Makes the budget.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a number outside of its limits, which the message names.
    pub fn make(self) -> Result<SharedBudget> {
        within("the shared budget", self.bytes, BYTES_LIMITS)?;
        within("databases", self.databases, DATABASES_LIMITS)?;
        if let Some(threads) = self.threads {
            within("threads", threads, (1, THREADS_MAX))?;
        }
        if let Some(files) = self.open_files_max {
            within("open_files_max", files, FILES_LIMITS)?;
        }
        let threads = self.threads.unwrap_or_else(|| {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
            (cores + cores.div_ceil(2)).min(8) + 1
        });
        Ok(SharedBudget::of(Numbers {
            bytes: self.bytes,
            // As in a budget of one database.
            reserve: (self.bytes / 16).max((24 << 20).min(self.bytes / 8)),
            databases: self.databases,
            threads: threads as usize,
            open_files_max: self.open_files_max.unwrap_or_else(|| {
                let half = OsVfs.open_files_max().unwrap_or(u64::MAX) / 2;
                half.clamp(1, FILES_DEFAULT_MAX)
            }),
        }))
    }
}
