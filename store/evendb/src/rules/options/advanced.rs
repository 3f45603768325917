//! Settings that few users ever touch: sizes that follow from the memory budget, and choices
//! between ways of working that experiments compare.

use super::keyspace::{APART_LIMITS, BLOCK_BYTES_LIMITS, FILTER_BITS_LIMITS};
use super::layout::GuardOptions;
use super::{refuse, within};
use crate::encryption::{KeyProvider, Provider};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::{SystemWallClock, WallClock};
use crate::memory::shared::SharedBudget;
use evendb_base::directory_lock::LOCK_PATIENCE;
use evendb_base::setters;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How a get finds a record in the log of a chunk that is not in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogSearch {
    /// An index of all log records in RAM, about 10 bytes for each record: one block is read per
    /// hit.
    Index,
    /// The paper's partitioned Bloom filter: the log in `split_factor` sections, each with a
    /// filter; a section that may hold the key is searched.
    Bloom {
        /// Number of sections, from 1 to 1,024; the paper's default is 16.
        split_factor: usize,
    },
}

/// Limits of these settings; both ends are allowed. Sizes are in bytes.
pub(super) const CHUNK_BYTES_LIMITS: (u64, u64) = (256, 1 << 30);
pub(super) const LOG_BYTES_LIMITS: (u64, u64) = (256, 1 << 40);
pub(super) const COMMIT_LOG_LIMITS: (u64, u64) = (64 << 10, 1 << 40);
pub(super) const KEEP_CHANGES_LIMITS: (u64, u64) = (64 << 10, 1 << 40);
pub(super) const VALUE_FILE_LIMITS: (u64, u64) = (4 << 10, 1 << 40);
pub(super) const LIVE_PERCENT_LIMITS: (u64, u64) = (0, 90);
const SECTIONS_LIMITS: (u64, u64) = (1, 1024);

impl LogSearch {
    /// The paper's partitioned Bloom filter with its default split factor of 16.
    pub const fn bloom() -> LogSearch {
        LogSearch::Bloom { split_factor: 16 }
    }
}

/// As text it is `index`, `bloom` or `bloom:sections`.
impl fmt::Display for LogSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogSearch::Index => f.write_str("index"),
            LogSearch::Bloom { split_factor } => write!(f, "bloom:{split_factor}"),
        }
    }
}

impl FromStr for LogSearch {
    type Err = Error;

    fn from_str(text: &str) -> Result<LogSearch> {
        let sections = |text: &str| text.strip_prefix("bloom:")?.parse().ok();
        match (text, sections(text)) {
            ("index", _) => Ok(LogSearch::Index),
            ("bloom", _) => Ok(LogSearch::bloom()),
            (_, Some(split_factor)) => {
                within("split_factor", split_factor as u64, SECTIONS_LIMITS)?;
                Ok(LogSearch::Bloom { split_factor })
            }
            _ => {
                let message = format!("{text:?} is no search: index, bloom or bloom:sections is");
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}

/// How rows are chosen to leave the row cache. Decision 0006 compares the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum RowPolicy {
    /// A small queue on probation, a main queue, and the hashes of rows that left the small one.
    #[default]
    S3Fifo,
    /// The paper's policy: a queue of three tables. A row that is read moves to the first table;
    /// when that is full, the last table is dropped whole, under its lock.
    ThreeTables,
}

/// How spans are chosen to be in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum MunkPolicy {
    /// By the reads that they spare, and the cost of loading them.
    #[default]
    Worth,
    /// The paper's policy: by decayed counts of accesses alone.
    Counts,
}

/// Settings that nearly every database leaves alone, given through
/// [`Options::advanced`](crate::Options::advanced). Each setter says when to touch it.
///
/// Each default follows from the memory budget, or is the value that measured best. Two settings
/// come from the paper and serve to repeat its experiments: [`log_search`](Self::log_search) and
/// [`log_bytes_limits`](Self::log_bytes_limits).
///
/// All of them may differ from one opening to the next, except
/// [`commit_log_bytes`](Self::commit_log_bytes), which is fixed when the log is made. Sizes are
/// checked by [`Options::open`](crate::Options::open), which refuses what is outside of its limits
/// with [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
#[derive(Clone, Debug)]
pub struct Advanced {
    pub(crate) chunk_bytes: Option<u64>,
    pub(crate) filter_bits_per_key: Option<u32>,
    pub(crate) log_search: LogSearch,
    pub(crate) reads_sections: bool,
    pub(crate) log_bytes_limits: Option<(u64, u64)>,
    pub(crate) munks: bool,
    pub(crate) warm_reopening: bool,
    pub(crate) row_cache: bool,
    pub(crate) row_cache_share: Option<f64>,
    pub(crate) row_policy: RowPolicy,
    pub(crate) munk_policy: MunkPolicy,
    pub(crate) block_bytes: Option<usize>,
    pub(crate) commit_log_bytes: Option<u64>,
    pub(crate) commit_log_mapped: Option<bool>,
    pub(crate) open_files_max: Option<u64>,
    pub(crate) keep_changes_bytes: u64,
    pub(crate) values_apart_from: Option<u32>,
    pub(crate) value_file_bytes: u64,
    pub(crate) value_file_live_percent: u32,
    pub(crate) guards: GuardOptions,
    pub(crate) wait_for_lock: Duration,
    pub(crate) wall_clock: Arc<dyn WallClock>,
    pub(crate) encryption: Option<Provider>,
    pub(crate) shared: Option<SharedBudget>,
}

impl Advanced {
    pub(super) fn new() -> Advanced {
        Advanced {
            chunk_bytes: None,
            filter_bits_per_key: None,
            log_search: LogSearch::Index,
            reads_sections: false,
            log_bytes_limits: None,
            munks: true,
            warm_reopening: true,
            row_cache: true,
            row_cache_share: None,
            row_policy: RowPolicy::default(),
            munk_policy: MunkPolicy::default(),
            block_bytes: None,
            commit_log_bytes: None,
            commit_log_mapped: None,
            open_files_max: None,
            keep_changes_bytes: 0,
            values_apart_from: None,
            value_file_bytes: 64 << 20,
            value_file_live_percent: 50,
            guards: GuardOptions::new(),
            wait_for_lock: LOCK_PATIENCE,
            wall_clock: Arc::new(SystemWallClock),
            encryption: None,
            shared: None,
        }
    }
}

setters! {
impl Advanced {
    /// The time for which an opening waits while another process has the database open, before it
    /// fails with [`Locked`](crate::ErrorKind::Locked). Default: 100 milliseconds. A killed process
    /// keeps its lock until the system has taken the process down: usually a few milliseconds, and
    /// longer if it had much memory. So the next process can be started at once. Zero: the opening
    /// tries once. An opening does not wait for a handle in the same process.
    ///
    /// Touch it when a program that follows another one should wait for it longer, or not at all.
    pub fn wait_for_lock(mut self, patience: Duration);

    /// The clock by which records expire. Default: the system's.
    ///
    /// Touch it when your tests should let time pass, or when you trust another clock more. A clock
    /// that goes back brings back no record that has expired since the database was opened: the
    /// greatest time that it told counts.
    pub fn wall_clock(mut self, clock: Arc<dyn WallClock>);

    /// The largest size of a chunk's live data in bytes, from 256 to 1 GiB. Default: a 64th of the
    /// memory budget, for small budgets a 16th up to 4 MiB; at least 64 KiB and at most 10 MiB (the
    /// paper's limit).
    ///
    /// Touch it when experiments with your own load ask for it. Smaller chunks keep less cold data
    /// in RAM beside hot data; larger chunks need less memory for their structure.
    pub fn chunk_bytes(mut self, bytes: u64) => Some(bytes);

    /// Bits per key of each SSTable's filter for absent keys, at most 64. Default: 0, which means
    /// no filter. Existing SSTables keep their filters until they are rewritten.
    ///
    /// Touch it when many gets ask for keys that are not there, in chunks that are not in RAM: 10
    /// bits answer about 99 of 100 such gets without reading a block. The filters take memory that
    /// munks and rows could have.
    pub fn filter_bits_per_key(mut self, bits: u32) => Some(bits);

    /// How records are found in the logs of chunks that are not in RAM.
    /// Default: [`LogSearch::Index`].
    ///
    /// Touch it when you repeat the paper's experiments, and hardly ever else: the index reads one
    /// block where the filters read several.
    pub fn log_search(mut self, search: LogSearch);

    /// Whether hot spans of chunks are kept in RAM (munks). Default: yes.
    ///
    /// Touch it when you measure what munks bring, or for a tool that reads or writes everything
    /// once and closes the database.
    pub fn munks(mut self, yes: bool);

    /// Whether the spans that were in RAM when the database was last open are loaded again in the
    /// background, the hottest first, into free memory. Default: yes. The file `HEAT` names these
    /// spans; it is written when the database is closed, and once a minute while calls come.
    ///
    /// Touch it when the database is opened for a moment only, or when the first minutes must not
    /// read more than the calls ask for. [`Stats::warmed_spans`](crate::Stats::warmed_spans) tells
    /// the progress. A database that is open for reading only, or has no workers, has no threads
    /// that could load: it neither reads nor writes the file.
    pub fn warm_reopening(mut self, yes: bool);

    /// Whether hot rows of spans that are not in RAM are kept in RAM. Default: yes.
    ///
    /// Touch it when you measure what the row cache brings, or for a tool that reads everything
    /// once. Its memory goes to munks by itself where rows are not worth it.
    pub fn row_cache(mut self, yes: bool);

    /// The share, 0 to 1, of the memory for munks and rows that rows have. Default: `None`; then
    /// the share follows the workload. The gain of one more byte is measured on both sides, and
    /// memory moves to the greater gain, within seconds of many gets. In addition, rows use memory
    /// that munks leave free. A fixed share is not exceeded, even if other memory lies idle.
    ///
    /// Touch it when you compare fixed shares with the one that follows the workload. It is for
    /// experiments.
    pub fn row_cache_share(mut self, share: Option<f64>);

    /// Target size of an SSTable block in bytes, from 64 to 1 MiB, before compression.
    /// Default: 4,096, and 8,192 in compressed tables. A get that goes to disk reads one block.
    /// Existing SSTables keep their blocks until they are rewritten.
    ///
    /// Touch it when space counts for more than gets: compressed blocks of 16 KiB are smaller
    /// together, and each get from disk reads and unpacks more.
    pub fn block_bytes(mut self, bytes: usize) => Some(bytes);

    /// The largest size of the commit log in bytes, from 64 KiB to 1 TiB. It is fixed when the log
    /// is made: with the database, or at its first opening above [`Durability::Relaxed`]. The log
    /// grows to that size as needed (above 256 MiB it is allocated at once). Default: an eighth of
    /// the memory budget, but at most 256 MiB. At [`Durability::Sync`], where it takes no memory,
    /// the default is half of the budget up to 128 MiB, if that is more.
    ///
    /// Touch it when a database must open faster after a crash (a smaller log is replayed sooner),
    /// or when few keys are written over and over at [`Durability::Sync`] (a larger log writes
    /// fewer of their versions to the chunks).
    ///
    /// [`Durability::Relaxed`]: crate::Durability::Relaxed
    /// [`Durability::Sync`]: crate::Durability::Sync
    pub fn commit_log_bytes(mut self, bytes: u64) => Some(bytes);

    /// Whether the commit log is written through a mapping or by system calls. Default: mapped at
    /// [`Durability::Process`], where a put then makes no system call, unless puts are few or a
    /// sync was just made. Not mapped at [`Durability::Sync`], where the thread that syncs writes
    /// for all waiting threads, and a mapped page takes longer to sync.
    ///
    /// Touch it when the file system handles writable mappings badly (some network and user-space
    /// file systems do): `false` makes a system call in each put, and the promise is the same.
    ///
    /// [`Durability::Process`]: crate::Durability::Process
    /// [`Durability::Sync`]: crate::Durability::Sync
    pub fn commit_log_mapped(mut self, yes: bool) => Some(yes);

    /// The largest number of SSTables that are kept open; others are opened when they are read. At
    /// least 1, and at most the number of files that the process may have open; all other files of
    /// the process count there, too. Default: half of that number, at most 8,192.
    ///
    /// Touch it when one process opens many databases, or needs many files and sockets for itself.
    /// Raising the limit of the process is better where that is possible.
    pub fn open_files_max(mut self, files: u64) => Some(files);

    /// Bytes of changes that are kept for [`Db::changes_since`](crate::Db::changes_since) beyond
    /// the changes that the commit log still has, from 64 KiB to 1 TiB; large writes are kept with
    /// their values. Default: 0, which keeps none. Each checkpoint appends the writes since the
    /// last one to files `CHANGES-n`, and syncs the files. The oldest file goes when the others
    /// have this number of bytes. So each byte is written once more, and a checkpoint syncs one
    /// file more. An opening without this option removes the files. A full disk may cost all kept
    /// changes.
    ///
    /// Touch it when consumers of changes (replicas, caches) are away for longer than the log keeps
    /// changes, which is one lap of the log, and filling them again from a snapshot is expensive.
    pub fn keep_changes_bytes(mut self, bytes: u64);

    /// Values of at least this number of bytes are written apart, into files of their own beside
    /// tables and commit log; not 0. Default: `None`, never. A keyspace may have a value of its own
    /// ([`KeyspaceOptions::values_apart_from`](crate::KeyspaceOptions::values_apart_from)). It
    /// takes much space while values are overwritten: docs/large-values.md.
    ///
    /// Touch it when values are large, from about 4 KiB on. Each value is then written once and
    /// hardly ever moved, and a scan of keys alone reads no value; a get of a value on disk takes a
    /// second read. `docs/large-values.md` says what it costs.
    #[doc(alias = "blob")]
    pub fn values_apart_from(mut self, bytes: Option<u32>);

    /// The length in bytes at which a value file is closed and the next one is begun, from 4 KiB to
    /// 1 TiB. Default: 64 MiB. After a crash, an opening may read this number of bytes; a
    /// checkpoint comes with each file.
    ///
    /// Touch it when values are very large.
    pub fn value_file_bytes(mut self, bytes: u64);

    /// The share of live data in all value files that is kept up, approximately, in percent from 0
    /// to 90. Below it, the live values of the files with the least live data are moved, so that
    /// these files can go. Default: 50, so that the files take up to twice their data. 0 means that
    /// a file goes only when all of it is dead.
    ///
    /// Touch it when space counts for more than writes, to raise it, or when writes count for more
    /// than space, to lower it.
    pub fn value_file_live_percent(mut self, percent: u32);
}
}

impl Advanced {
    /// Settings of keyspaces with the layout [`Layout::Guards`](crate::Layout::Guards): `set` takes
    /// the current settings and returns the new ones. Default: each setting's own.
    ///
    /// Touch it when a keyspace of guards writes too much, or reads too much.
    pub fn guards(mut self, set: impl FnOnce(GuardOptions) -> GuardOptions) -> Self {
        self.guards = set(self.guards);
        self
    }

    /// The provider of the key of an encrypted database. A new database is encrypted if there is a
    /// provider. Default: none. It needs the feature `encryption`; other builds refuse it as
    /// [`Unsupported`](crate::ErrorKind::Unsupported). docs/encryption.md says what encryption
    /// protects from, and what it does not hide.
    ///
    /// Touch it when the data on the disk must be of no use to anyone who gets hold of the disk, a
    /// copy or a backup.
    ///
    /// ```
    /// use evendb::{Key, KeyRing, Options};
    /// use std::sync::Arc;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let keys = Arc::new(KeyRing::new(Key::new([7; 32]))); // 32 random bytes, kept elsewhere
    /// let opened = Options::new()
    ///     .advanced(|advanced| advanced.encryption(keys))
    ///     .open(dir.path());
    /// # #[cfg(feature = "encryption")]
    /// opened.unwrap().put("key", "secret").unwrap();
    /// ```
    pub fn encryption(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.encryption = Some(Provider(keys));
        self
    }

    /// The budget that this database shares with others of the process. Default: none; then
    /// [`Options::memory_budget`](crate::Options::memory_budget) is its own. With a shared budget
    /// that option has no effect, and the commit log is not mapped unless
    /// [`commit_log_mapped`](Self::commit_log_mapped) says so. [`SharedBudget::options`] gives
    /// options with this setting. An opening for which the budget has no room fails with
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    ///
    /// Touch it when a process has many databases.
    pub fn shared(mut self, shared: &SharedBudget) -> Self {
        self.shared = Some(shared.clone());
        self
    }

    /// Fixed limits of a chunk's log in bytes, from 256 bytes to 1 TiB: the first for a chunk that
    /// is not wholly in RAM, the second for one that is. Default: none; then each log has a share
    /// of the space that [`Options::space_amplification`](crate::Options::space_amplification)
    /// allows for all logs. With fixed limits that option has no effect.
    ///
    /// Touch it when you repeat the paper's experiments (2 MiB and 20 MiB), and hardly ever else:
    /// `space_amplification` trades the same space for fewer writes, and gives it to the chunks
    /// that use it.
    pub fn log_bytes_limits(mut self, without_munk: u64, with_munk: u64) -> Self {
        self.log_bytes_limits = Some((without_munk, with_munk));
        self
    }

    /// Refuses values that no database can work with, naming the limit. `files_max` is the number
    /// of files that the process may have open.
    pub(super) fn check(&self, files_max: Option<u64>) -> Result<()> {
        if let Some(bytes) = self.block_bytes {
            within("block_bytes", bytes as u64, BLOCK_BYTES_LIMITS)?;
        }
        if let Some(bits) = self.filter_bits_per_key {
            within("filter_bits_per_key", u64::from(bits), FILTER_BITS_LIMITS)?;
        }
        if let Some(bytes) = self.chunk_bytes {
            within("chunk_bytes", bytes, CHUNK_BYTES_LIMITS)?;
        }
        if let LogSearch::Bloom { split_factor } = self.log_search {
            within("split_factor", split_factor as u64, SECTIONS_LIMITS)?;
        }
        if let Some((without_munk, with_munk)) = self.log_bytes_limits {
            within("log_bytes_limits", without_munk, LOG_BYTES_LIMITS)?;
            within("log_bytes_limits", with_munk, LOG_BYTES_LIMITS)?;
        }
        if let Some(bytes) = self.commit_log_bytes {
            within("commit_log_bytes", bytes, COMMIT_LOG_LIMITS)?;
        }
        if self.keep_changes_bytes != 0 {
            within(
                "keep_changes_bytes",
                self.keep_changes_bytes,
                KEEP_CHANGES_LIMITS,
            )?;
        }
        if let Some(bytes) = self.values_apart_from {
            within("values_apart_from", u64::from(bytes), APART_LIMITS)?;
        }
        within("value_file_bytes", self.value_file_bytes, VALUE_FILE_LIMITS)?;
        self.guards.check()?;
        let percent = u64::from(self.value_file_live_percent);
        within("value_file_live_percent", percent, LIVE_PERCENT_LIMITS)?;
        if let Some(files) = self.open_files_max {
            // A larger number than the process may have open would fail later, when a table is
            // read.
            within("open_files_max", files, (1, files_max.unwrap_or(u64::MAX)))?;
        }
        match self.row_cache_share {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                refuse("row_cache_share", &share, &0, &1)
            }
            _ => Ok(()),
        }
    }
}
