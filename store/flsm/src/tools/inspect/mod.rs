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
pub use evendb_base::inspect::{
    DumpItem, DumpOptions, DumpValue, Finding, FindingKind, Progress, Severity, TablePlace,
};
pub use verify::verify;

use evendb_base::sync::Arc;
use evendb_storage::vfs::{OsVfs, Vfs};

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
