//! How the records of a keyspace lie on the disk: the choice, its text, and the figures of guards.
//!
//! ```text
//! chunks | guards
//! ```
//! The manifest keeps the text, as an option of the keyspace. Plain data. Not here: the layouts.

use super::within;
use crate::error::{Error, ErrorKind, Result};
use evendb_base::setters;
use std::fmt;
use std::str::FromStr;

/// How the records of a keyspace lie on the disk. It is chosen when a keyspace is made, and stays.
/// One database may have keyspaces of both layouts; batches, transactions, snapshots and all else
/// go across.
///
/// As text it is `chunks` or `guards`:
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use evendb::{Db, KeyspaceOptions, Layout};
/// let db = Db::open(dir.path())?;
/// let guards = KeyspaceOptions::new().layout("guards".parse()?);
/// let events = db.keyspace_with("events", &guards)?;
/// let mut batch = db.batch();
/// batch.put(db.default_keyspace(), "last", "7").put(&events, "7", "began");
/// batch.commit()?;
/// assert_eq!(events.options()?.chosen().next(), Some(("layout", "guards".to_owned())));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// The layout of the EvenDB paper: chunks of neighbouring keys, each with a sorted table and a
    /// log on disk, and with munks in RAM for what is read. For keys that are read again, and for
    /// puts with locality.
    #[default]
    Chunks,
    /// The layout of PebblesDB, a fragmented log-structured merge tree: levels of guards, each with
    /// a few tables that may overlap. A record is written about once for each level. For puts of
    /// keys without locality to more data than fit in memory.
    Guards,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Chunks => "chunks",
            Layout::Guards => "guards",
        })
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Layout> {
        match text {
            "chunks" => Ok(Layout::Chunks),
            "guards" => Ok(Layout::Guards),
            _ => {
                let message = format!("no layout {text:?}: it is chunks or guards");
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}

/// Settings of keyspaces with the layout [`Layout::Guards`], given through
/// [`Advanced::guards`](crate::Advanced::guards). They may differ from one opening to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuardOptions {
    pub(crate) max_files_per_guard: usize,
    pub(crate) level0_runs: (usize, usize),
    pub(crate) last_guard_bytes: Option<u64>,
    pub(crate) table_bytes_max: u64,
    pub(crate) compaction_by_seeks: bool,
    pub(crate) parallel_seeks: bool,
}

impl GuardOptions {
    pub(super) fn new() -> GuardOptions {
        GuardOptions {
            max_files_per_guard: 2,
            level0_runs: (4, 12),
            last_guard_bytes: None,
            table_bytes_max: 32 << 20,
            compaction_by_seeks: true,
            parallel_seeks: true,
        }
    }

    /// Refuses values that no keyspace can work with, naming the limit.
    pub(super) fn check(&self) -> Result<()> {
        let files = self.max_files_per_guard as u64;
        within("max_files_per_guard", files, FILES_LIMITS)?;
        let (compact, stop) = self.level0_runs;
        within("level0_runs", compact as u64, RUNS_LIMITS)?;
        within("level0_runs", stop as u64, (compact as u64, RUNS_LIMITS.1))?;
        if let Some(bytes) = self.last_guard_bytes {
            within("last_guard_bytes", bytes, TABLE_BYTES_LIMITS)?;
        }
        within("table_bytes_max", self.table_bytes_max, TABLE_BYTES_LIMITS)
    }
}

/// Limits; both ends are allowed.
pub(super) const FILES_LIMITS: (u64, u64) = (1, 1024);
pub(super) const RUNS_LIMITS: (u64, u64) = (1, 1 << 16);
/// In bytes.
pub(super) const TABLE_BYTES_LIMITS: (u64, u64) = (1, 1 << 40);

setters! {
impl GuardOptions {
    /// Sorted runs that a guard may have before they are merged or go down, from 1 to 1,024. With
    /// more runs fewer bytes are written, and more are read. With 1 it is a leveled tree.
    /// Default: 2. Touch it when only writes or only reads matter.
    pub fn max_files_per_guard(mut self, runs: usize);

    /// Average bytes between two guards of the last level, from 1 byte to 1 TiB. Each level above
    /// has four times as many bytes between guards. Default: an eighth of the memory budget, from
    /// 64 KiB to 64 MiB. Touch it when there are too many guards, or too few.
    pub fn last_guard_bytes(mut self, bytes: u64) => Some(bytes);

    /// Bytes at which a table of a guard ends, from 1 byte to 1 TiB. Default: 32 MiB. Touch it when
    /// single compactions must be shorter.
    pub fn table_bytes_max(mut self, bytes: u64);

    /// Whether scans can pay for a compaction. It is done when scans have read eight times the
    /// bytes that it reads and writes, in tables that it would have spared them. Default: yes.
    /// Touch it when the disk should rest while nobody writes.
    pub fn compaction_by_seeks(mut self, yes: bool);

    /// Whether a scan tells the system about the blocks that it will read in all tables before it
    /// reads the first one, so that they are read at once. Default: yes. Touch it when all data is
    /// in the system's cache.
    pub fn parallel_seeks(mut self, yes: bool);
}
}

impl GuardOptions {
    /// The numbers of runs in level 0 at which they are compacted, and at which puts wait until
    /// they were. They are from 1 to 65,536, and the second is not less than the first. Default: 4
    /// and 12. Touch it when puts wait too often, or reads find too many runs.
    pub fn level0_runs(mut self, compact: usize, stop: usize) -> Self {
        self.level0_runs = (compact, stop);
        self
    }
}
