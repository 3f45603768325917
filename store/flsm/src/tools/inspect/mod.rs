//! Looks inside a closed database: [`verify`] checks every checksum and invariant on disk, [`dump`]
//! shows what the bytes say.
//!
//! ```text
//! load    CURRENT, manifest, names in the directory -> state, and what is wrong with it
//! verify  state -> trees, tables (storage's examine), order of records over all tables, logs,
//!         names -> findings
//! dump    one of them -> items, in the order of the bytes
//! ```
//!
//! Both take the directory's lock shared (a writer excludes them, readers do not). They write
//! nothing into the directory, and use the engine's own decoders. Damage is a finding and not an
//! error: errors are for a directory that cannot be looked at. They run on one thread. Their memory
//! holds the whole manifest or a whole log, a table's index and filter, and a window of each table
//! while records are compared.

mod dump;
mod load;
mod order;
#[cfg(all(test, not(evendb_loom)))]
mod tests;
mod verify;

pub use dump::{Dump, dump};
#[doc(inline)]
pub use evendb_base::inspect::{DumpItem, DumpOptions, DumpValue, Progress, Severity};
pub use verify::verify;

use crate::types::Level;
use evendb_base::sync::Arc;
use evendb_storage::vfs::{OsVfs, Vfs};
use std::fmt;
use std::ops::Range;

/// How to look at a database.
#[derive(Default)]
pub struct InspectOptions<'a> {
    vfs: Option<Arc<dyn Vfs>>,
    progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl<'a> InspectOptions<'a> {
    /// Uses the operating system's files and reports no progress.
    pub fn new() -> InspectOptions<'a> {
        InspectOptions::default()
    }

    /// Calls `tell` now and then with the progress.
    #[must_use]
    pub fn progress(mut self, tell: &'a mut dyn FnMut(Progress)) -> Self {
        self.progress = Some(tell);
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
    /// The end of the manifest: an append that was cut short, or damage.
    ManifestEnd,
    /// What the manifest says contradicts itself.
    Structure,
    /// A file that should be there is not.
    Missing,
    /// A file is shorter or longer than it should be.
    Length,
    /// Part of a table does not verify.
    Table,
    /// A table that verifies, but is not the one that the manifest names.
    WrongTable,
    /// A record that no reader finds, because readers find an older record of its key first.
    Order,
    /// A log's frames do not verify, or make no sense.
    Log,
    /// The end of the logs: a frame that was cut short, or damage.
    LogEnd,
    /// A file that nothing names; the next opening removes it.
    Orphan,
}

impl FindingKind {
    /// A word for it.
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
            FindingKind::Order => "order",
            FindingKind::Log => "log",
            FindingKind::LogEnd => "log-end",
            FindingKind::Orphan => "orphan",
        }
    }
}

/// The place of a table in a keyspace, for a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TablePlace {
    /// The keyspace's name.
    pub keyspace: String,
    /// The level.
    pub level: u8,
    /// The table's least key, as the manifest says.
    pub min_key: Vec<u8>,
    /// The table's greatest key, as the manifest says.
    pub max_key: Vec<u8>,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The table that has the problem, if it is one table.
    pub table: Option<TablePlace>,
    /// Name of the file in the directory.
    pub file: String,
    /// The first byte of the damaged unit in the file.
    pub offset: Option<u64>,
    /// Bytes of the unit.
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
            table: None,
            file: file.to_owned(),
            offset: place.as_ref().map(|place| place.start),
            len: place.map(|place| place.end.saturating_sub(place.start)),
            what: what.into(),
        }
    }
}

/// The greatest number of findings in a report.
const FINDINGS_MAX: usize = 10_000;

/// Adds a finding to a list. In a hostile file every few bytes can be damaged, so a full list ends
/// with a finding that says so.
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

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.file)?;
        match (self.offset, self.len) {
            (Some(offset), Some(len)) => write!(f, " at {offset}, {len} bytes")?,
            (Some(offset), None) => write!(f, " at {offset}")?,
            _ => {}
        }
        write!(f, ": {} ({})", self.what, self.kind.name())?;
        match &self.table {
            Some(table) => write!(
                f,
                "; level {} of keyspace `{}`, keys `{}` to `{}`",
                table.level,
                table.keyspace,
                table.min_key.escape_ascii(),
                table.max_key.escape_ascii(),
            ),
            None => Ok(()),
        }
    }
}

/// The amounts that were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Checked {
    /// The number of the database's files.
    pub files: u64,
    /// Bytes read from the files.
    pub bytes: u64,
    /// The number of edits in the manifest.
    pub edits: u64,
    /// The number of keyspaces.
    pub keyspaces: u64,
    /// The number of committed guards in all levels.
    pub guards: u64,
    /// The number of tables.
    pub tables: u64,
    /// The number of data blocks in tables.
    pub blocks: u64,
    /// The number of records in tables.
    pub records: u64,
    /// The number of logs.
    pub logs: u64,
    /// The number of records in logs.
    pub log_records: u64,
}

/// What [`verify`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// In the order of the checks: structure, tables, order of records, logs, leftovers.
    pub findings: Vec<Finding>,
    /// The amounts that were checked.
    pub checked: Checked,
}

impl VerifyReport {
    /// Whether nothing is corrupt. There may be warnings all the same.
    pub fn is_sound(&self) -> bool {
        let corrupt = |finding: &Finding| finding.severity == Severity::Corruption;
        !self.findings.iter().any(corrupt)
    }
}

fn place_of(keyspace: &str, level: Level, table: &crate::tables::TableFile) -> TablePlace {
    TablePlace {
        keyspace: keyspace.to_owned(),
        level: level.0,
        min_key: table.meta.min_key.clone(),
        max_key: table.meta.max_key.clone(),
    }
}
