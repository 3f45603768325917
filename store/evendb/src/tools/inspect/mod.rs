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
pub use evendb_base::inspect::{DumpItem, DumpOptions, DumpValue, Progress, Severity};
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

/// What a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// The lock file.
    Lock,
    /// `CURRENT`, which names the manifest.
    Current,
    /// The manifest's bytes.
    Manifest,
    /// The end of the manifest: bytes of an append that was cut short, or damage.
    ManifestEnd,
    /// Statements of the manifest contradict each other.
    Structure,
    /// A file that should be there is not.
    Missing,
    /// A file is shorter or longer than it should be.
    Length,
    /// A part of a table does not verify.
    Table,
    /// A table verifies, but it is not the table that the manifest names, or it lies in the wrong
    /// place.
    WrongTable,
    /// The commit log has valid records behind bytes that do not verify. This is corruption; it is
    /// a warning where a power loss explains it, and for the copy of a damaged log that an opening
    /// left.
    CommitLogHole,
    /// The end of the commit log: a record that was cut short, or damage.
    CommitLogEnd,
    /// A record of the commit log that verifies but makes no sense.
    CommitLogRecord,
    /// A value extent that the commit log names.
    ValueExtent,
    /// A value that lies apart, in a value file.
    Value,
    /// Changes that are kept for consumers do not verify. The database itself loses nothing by it.
    KeptChanges,
    /// A file that nothing names; the next opening removes it.
    Orphan,
}

impl FindingKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Lock => "lock",
            FindingKind::Current => "current",
            FindingKind::Manifest => "manifest",
            FindingKind::ManifestEnd => "manifest-end",
            FindingKind::Structure => "structure",
            FindingKind::Missing => "missing",
            FindingKind::Length => "length",
            FindingKind::Table => "table",
            FindingKind::WrongTable => "wrong-table",
            FindingKind::CommitLogHole => "commit-log-hole",
            FindingKind::CommitLogEnd => "commit-log-end",
            FindingKind::CommitLogRecord => "commit-log-record",
            FindingKind::ValueExtent => "value-extent",
            FindingKind::KeptChanges => "kept-changes",
            FindingKind::Value => "value",
            FindingKind::Orphan => "orphan",
        }
    }
}

/// The chunk that a finding names.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChunkName {
    /// The keyspace's name.
    pub keyspace: String,
    /// The chunk's id.
    pub id: u64,
    /// Its lowest key.
    pub low: Vec<u8>,
    /// The lowest key of the next chunk; `None` for the last chunk.
    pub high: Option<Vec<u8>>,
}

/// One thing that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How severe it is.
    pub severity: Severity,
    /// Its subject.
    pub kind: FindingKind,
    /// The chunks that it affects, where they are known.
    pub chunks: Vec<ChunkName>,
    /// The name of the file in the directory.
    pub file: String,
    /// The first byte of the damaged unit in the file.
    pub offset: Option<u64>,
    /// The length of the unit in bytes.
    pub len: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    fn new(
        severity: Severity,
        kind: FindingKind,
        file: &str,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) -> Finding {
        Finding {
            severity,
            kind,
            chunks: Vec::new(),
            file: file.to_owned(),
            offset: place.as_ref().map(|place| place.start),
            len: place.map(|place| place.end.saturating_sub(place.start)),
            what: what.into(),
        }
    }
}

/// The largest number of findings in a report.
const FINDINGS_MAX: usize = 10_000;

/// Adds a finding to a list. In a hostile file every few bytes can be damage: a full list ends with
/// one finding that says so.
fn list(findings: &mut Vec<Finding>, mut finding: Finding) -> &mut Finding {
    if findings.len() >= FINDINGS_MAX - 1 {
        finding.what = "more is wrong, here or elsewhere, than a report lists".to_owned();
        let full = findings.drain(FINDINGS_MAX - 1..);
        finding.severity = full.fold(finding.severity, |worst, last| worst.max(last.severity));
    }
    findings.push(finding);
    let last = findings.len() - 1;
    &mut findings[last]
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.severity, self.file)?;
        match (self.offset, self.len) {
            (Some(offset), Some(len)) => write!(f, " at {offset}, {len} bytes")?,
            (Some(offset), None) => write!(f, " at {offset}")?,
            _ => {}
        }
        write!(f, ": {} ({})", self.what, self.kind.name())?;
        for chunk in &self.chunks {
            let high = chunk
                .high
                .as_ref()
                .map(|high| high.escape_ascii().to_string());
            write!(
                f,
                "; chunk {} of keyspace `{}`, keys `{}` to {}",
                chunk.id,
                chunk.keyspace,
                chunk.low.escape_ascii(),
                high.map_or("the end".to_owned(), |high| format!("`{high}`")),
            )?;
        }
        Ok(())
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
    ChunkName {
        keyspace: state
            .keyspaces
            .get(&chunk.keyspace)
            .cloned()
            .unwrap_or_default(),
        id: chunk.id.0,
        low: chunk.low.clone(),
        high: later.map(|other| other.low.clone()).min(),
    }
}
