//! Looking inside a closed database: [`verify`] checks every checksum and invariant on disk,
//! [`dump`] shows what the bytes say, [`repair`] writes everything that can be read into a new
//! database.
//!
//! ```text
//! load    CURRENT, manifest, names in the directory -> state, and what is wrong with it
//! verify  state -> tables (storage's examine), commit log (survey), value extents -> findings
//! dump    one of them -> items, in the order of the bytes
//! repair  state, or what a scan of the files finds -> records, merged -> a new database
//! ```
//!
//! All three take the directory's lock shared (a writer excludes them, other readers do not), write
//! nothing into the directory, and decode by the engine's own decoders. Damage is a finding, not an
//! error: an error says that the directory cannot be examined. They use one thread. Their memory is
//! a window, a table's index and filter, and in a repair one chunk's records.

mod dump;
mod load;
mod repair;
mod tables;
#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests;
mod verify;

pub use dump::{Dump, dump};
#[doc(inline)]
pub use evendb_base::inspect::{
    ChunkName, DumpItem, DumpOptions, DumpValue, Finding, FindingKind, Progress, Severity,
};
pub use repair::{Loss, RepairOptions, RepairReport, repair};
pub use verify::verify;

use crate::encryption::{KeyProvider, Provider};
use crate::expiry::{ExpiryClock, SystemWallClock, WallClock};
use crate::manifest::edit::ChunkRecord;
use crate::manifest::state::ManifestState;
use crate::sync::Arc;
use evendb_storage::Time;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::collections::BTreeMap;
use std::ops::Range;

/// How to look at a database.
#[derive(Default)]
pub struct InspectOptions<'a> {
    vfs: Option<Arc<dyn Vfs>>,
    wall_clock: Option<Arc<dyn WallClock>>,
    encryption: Option<Provider>,
    progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl<'a> InspectOptions<'a> {
    /// The operating system's files, no progress.
    pub fn new() -> InspectOptions<'a> {
        InspectOptions::default()
    }

    /// Calls `tell` now and then with the progress.
    #[must_use]
    pub fn progress(mut self, tell: &'a mut dyn FnMut(Progress)) -> Self {
        self.progress = Some(tell);
        self
    }

    /// The clock that decides whether a record has expired; like
    /// [`Advanced::wall_clock`](crate::Advanced::wall_clock) of a database. Default: the system's.
    #[must_use]
    pub fn wall_clock(mut self, clock: Arc<dyn WallClock>) -> Self {
        self.wall_clock = Some(clock);
        self
    }

    /// Gives the key of an encrypted database
    /// ([`Advanced::encryption`](crate::Advanced::encryption)). The database that [`repair`] writes
    /// is encrypted by the provider's current key, too.
    #[must_use]
    pub fn encryption(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.encryption = Some(Provider(keys));
        self
    }

    /// Another file system, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = Some(vfs);
        self
    }

    fn files(&self) -> Arc<dyn Vfs> {
        self.vfs.clone().unwrap_or_else(|| Arc::new(OsVfs))
    }

    /// The time that decides whether a record has expired.
    fn time(&self) -> Time {
        let system = || Arc::new(SystemWallClock) as Arc<dyn WallClock>;
        ExpiryClock::new(self.wall_clock.clone().unwrap_or_else(system)).now()
    }

    fn tell(&mut self, progress: Progress) {
        if let Some(tell) = &mut self.progress {
            tell(progress);
        }
    }
}

/// Counts of the parts that were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Checked {
    /// Files of the database.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Edits of the manifest.
    pub edits: u64,
    /// Keyspaces.
    pub keyspaces: u64,
    /// Chunks.
    pub chunks: u64,
    /// Tables: SSTables and runs.
    pub tables: u64,
    /// Data blocks of tables.
    pub blocks: u64,
    /// Records in tables.
    pub records: u64,
    /// Records of the commit log.
    pub commit_log_records: u64,
    /// Value extents.
    pub value_extents: u64,
    /// Values that lie apart.
    pub values: u64,
}

/// The result of [`verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// In the order of the checks: structure, tables, commit log, leftovers.
    pub findings: Vec<Finding>,
    /// Counts of the parts that were checked.
    pub checked: Checked,
    /// The bytes that have a meaning, by file: all of them were verified. Bytes outside of them
    /// (free extents, padding, passed laps of the commit log, preallocated room) are never read.
    pub live: BTreeMap<String, Vec<Range<u64>>>,
}

impl VerifyReport {
    /// Whether nothing is corrupt. Warnings do not count.
    pub fn is_sound(&self) -> bool {
        let corrupt = |finding: &Finding| finding.severity == Severity::Corruption;
        !self.findings.iter().any(corrupt)
    }

    /// Whether a byte of a file has a meaning.
    pub fn is_live(&self, file: &str, offset: u64) -> bool {
        let ranges = self.live.get(file).into_iter().flatten();
        ranges.into_iter().any(|range| range.contains(&offset))
    }
}

/// The name of a chunk for a finding: its upper limit is the next chunk's low key.
fn chunk_name(state: &ManifestState, chunk: &ChunkRecord) -> ChunkName {
    let later = state
        .chunks
        .values()
        .filter(|other| other.keyspace == chunk.keyspace && other.low > chunk.low);
    let high = later.map(|other| other.low.clone()).min();
    let keyspace = state.keyspaces.get(&chunk.keyspace).cloned();
    ChunkName::new(
        keyspace.unwrap_or_default(),
        chunk.id.0,
        chunk.low.clone(),
        high,
    )
}
