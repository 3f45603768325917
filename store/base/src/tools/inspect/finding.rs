//! What is wrong in a closed database: a finding, how bad it is, and what of the database it
//! affects. Values only.

use std::fmt;
use std::ops::Range;

/// The progress of an inspection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes looked at.
    pub done: u64,
    /// Bytes to look at in all.
    pub total: u64,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is lost that was known to be durable: leftovers, and ends as a crash leaves them.
    Warning,
    /// Bytes are missing, or are not as they were written.
    Corruption,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Corruption => "corruption",
            Severity::Warning => "warning",
        })
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

impl ChunkName {
    /// A name; for the engine.
    #[doc(hidden)]
    pub fn new(keyspace: String, id: u64, low: Vec<u8>, high: Option<Vec<u8>>) -> ChunkName {
        ChunkName {
            keyspace,
            id,
            low,
            high,
        }
    }
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

/// Methods for the engine, which makes findings.
#[doc(hidden)]
impl Finding {
    /// A finding that names no chunk.
    pub fn new(
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

    /// A corruption.
    pub fn corruption(
        kind: FindingKind,
        file: &str,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Corruption, kind, file, place, what)
    }

    /// A warning.
    pub fn warning(
        kind: FindingKind,
        file: &str,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) -> Finding {
        Finding::new(Severity::Warning, kind, file, place, what)
    }
}

/// The largest number of findings in a report.
const FINDINGS_MAX: usize = 10_000;

/// Adds a finding to a list. In a hostile file every few bytes can be damage: a full list ends with
/// one finding that says so.
pub fn list(findings: &mut Vec<Finding>, mut finding: Finding) -> &mut Finding {
    if findings.len() >= FINDINGS_MAX - 1 {
        finding.what = "more is wrong, here or elsewhere, than a report lists".to_owned();
        let full = findings.drain(FINDINGS_MAX - 1..);
        finding.severity = full.fold(finding.severity, |worst, last| worst.max(last.severity));
    }
    findings.push(finding);
    let last = findings.len() - 1;
    &mut findings[last]
}

/// The text of a finding for a file that nothing names. `whole`: all that could name it was read.
pub fn unnamed_file(whole: bool) -> &'static str {
    match whole {
        true => "nothing names this file; the next opening removes it",
        false => {
            "nothing that can be read names this file: do not open the database, opening would \
             remove it"
        }
    }
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
        for chunk in &self.chunks {
            let high = chunk.high.as_ref().map(|high| high.escape_ascii());
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
