//! The structure of a database as far as its bytes tell. It reads what an opening reads, but it
//! goes on where an opening stops.
//!
//! If `CURRENT` is damaged, the newest manifest from which an edit can be read stands in for it. If
//! an edit is damaged, the edits behind it are applied all the same. Then [`Loaded::whole`] is
//! false, and the state may be out of date.

use super::{Finding, FindingKind, InspectOptions, Severity};
use crate::error::Result;
use crate::files::FileName;
use crate::manifest::current::{self, Current};
use crate::manifest::reader::apply_edit;
use crate::manifest::state::State;
use crate::options::TableLimits;
use crate::tables::TableDir;
use crate::types::FileNumber;
use evendb_base::EngineKind;
use evendb_base::inspect::{LockedDirectory, ManifestPart, list, survey_manifest};
use evendb_base::sync::{Arc, reclaim};
use evendb_storage::ErrorKind as StorageErrorKind;
use evendb_storage::framed_log::HEADER_BYTES;
use evendb_storage::vfs::{File, Vfs};
use std::ops::Range;
use std::path::Path;

/// At most this many tables are kept open, with at most this many bytes of indexes and filters.
const TABLE_LIMITS: TableLimits = TableLimits {
    files: 256,
    bytes: 64 << 20,
};

/// A database's directory, locked against writers.
pub(super) struct Directory {
    pub(super) locked: LockedDirectory,
    /// The database's files, sorted.
    pub(super) files: Vec<FileName>,
}

impl Drop for Directory {
    /// This is the last part of an inspection that is dropped, and no other thread may collect:
    /// after it, no closed table keeps its file open.
    fn drop(&mut self) {
        reclaim::collect();
    }
}

impl Directory {
    /// Takes the lock shared. `NotFound` for a directory without a database.
    pub(super) fn open(options: &InspectOptions<'_>, path: &Path) -> Result<Directory> {
        let shows = |name: &str| FileName::parse(name).is_some_and(|file| file != FileName::Lock);
        let locked = LockedDirectory::open(options.files(), path, EngineKind::Flsm, &shows)?;
        let names = locked.names.iter();
        let mut files: Vec<FileName> = names.filter_map(|name| FileName::parse(name)).collect();
        files.sort_unstable();
        Ok(Directory { locked, files })
    }

    pub(super) fn vfs(&self) -> &dyn Vfs {
        &*self.locked.vfs
    }

    pub(super) fn path(&self) -> &Path {
        &self.locked.dir
    }

    pub(super) fn has(&self, file: FileName) -> bool {
        self.files.binary_search(&file).is_ok()
    }

    /// A file and its length. For a file that cannot be read, a message.
    pub(super) fn open_file(
        &self,
        file: FileName,
    ) -> std::result::Result<(Arc<dyn File>, u64), String> {
        self.locked.open_file(&file.path(self.path()))
    }
}

/// The structure of a database, and what is wrong with it.
pub(super) struct Loaded {
    pub(super) state: State,
    pub(super) findings: Vec<Finding>,
    /// The manifest that was read, if any was.
    pub(super) manifest: Option<FileNumber>,
    /// Whether the state has everything that was durable.
    pub(super) whole: bool,
    pub(super) edits: u64,
    /// Bytes of `CURRENT` and of the manifest.
    pub(super) bytes: u64,
}

impl Loaded {
    /// Reads the structure. Fails only for a database of another engine or format.
    pub(super) fn read(place: &Directory) -> Result<Loaded> {
        let tables = || TableDir::new(place.locked.vfs.clone(), place.path(), TABLE_LIMITS);
        let mut loaded = Loaded {
            state: State::new(tables()),
            findings: Vec::new(),
            manifest: None,
            whole: true,
            edits: 0,
            bytes: 0,
        };
        loaded.findings.extend(place.locked.without_lock());
        let in_force = loaded.current(place)?;
        let mut candidates = manifests(place);
        if let Some(current) = in_force {
            candidates.retain(|candidate| *candidate != current.manifest);
            candidates.insert(0, current.manifest);
        }
        // A manifest that stands in may not be the newest one.
        loaded.whole &= in_force.is_some();
        for number in candidates {
            let current = in_force.filter(|current| current.manifest == number);
            loaded.state = State::new(tables());
            if loaded.manifest(place, number, current)? {
                loaded.manifest = Some(number);
                break;
            }
            loaded.whole = false;
        }
        Ok(loaded)
    }

    fn corrupt(
        &mut self,
        kind: FindingKind,
        file: FileName,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) {
        self.whole = false;
        let finding = Finding::corruption(kind, &file.name(), place, what);
        list(&mut self.findings, finding);
    }

    fn current(&mut self, place: &Directory) -> Result<Option<Current>> {
        let error = match current::read(place.vfs(), place.path()) {
            Ok(current) => {
                self.bytes += current::LEN as u64;
                return Ok(Some(current));
            }
            Err(error) => error,
        };
        // No other engine has files of these names.
        let own = |file: &FileName| matches!(file, FileName::Log(_) | FileName::Table(_));
        if error.kind() == StorageErrorKind::Unsupported && !place.files.iter().any(own) {
            return Err(error.into());
        }
        let kind = match place.has(FileName::Current) {
            true => FindingKind::Current,
            false => FindingKind::Missing,
        };
        let bytes = Some(0..current::LEN as u64);
        self.corrupt(kind, FileName::Current, bytes, error.to_string());
        Ok(None)
    }

    /// Reads a manifest. `current` says up to where it must verify. False if the file is no
    /// manifest.
    fn manifest(
        &mut self,
        place: &Directory,
        number: FileNumber,
        current: Option<Current>,
    ) -> Result<bool> {
        let file = FileName::Manifest(number);
        if !place.has(file) {
            self.corrupt(FindingKind::Missing, file, None, "the manifest is missing");
            return Ok(false);
        }
        let (opened, len) = match place.open_file(file) {
            Ok(opened) => opened,
            Err(what) => {
                self.corrupt(FindingKind::Manifest, file, None, what);
                return Ok(false);
            }
        };
        self.bytes = self.bytes.saturating_add(len);
        let verified = current.map_or(HEADER_BYTES, |current| current.verified);
        let before = self.edits;
        let path = file.path(place.path());
        let (name, mut refused) = (file.name(), None);
        survey_manifest(
            &*opened,
            &name,
            (number.0, verified),
            &mut |part| match part {
                ManifestPart::Header => {}
                ManifestPart::Edit { place, payload } => {
                    self.edits += 1;
                    match apply_edit(&mut self.state, &path, place.start, payload) {
                        Err(error) if error.kind() == StorageErrorKind::Unsupported => {
                            refused.get_or_insert(error);
                        }
                        Err(error) => {
                            let kind = FindingKind::Structure;
                            self.corrupt(kind, file, Some(place), error.to_string());
                        }
                        Ok(()) => {}
                    }
                }
                ManifestPart::Wrong { finding, .. } => {
                    self.whole &= finding.severity != Severity::Corruption;
                    list(&mut self.findings, finding);
                }
            },
        );
        match refused {
            Some(error) => Err(error.into()),
            None => Ok(self.edits > before),
        }
    }
}

/// Numbers of the manifests in the directory, newest first.
fn manifests(place: &Directory) -> Vec<FileNumber> {
    let numbers = place.files.iter().rev().filter_map(|file| match file {
        FileName::Manifest(number) => Some(*number),
        _ => None,
    });
    numbers.collect()
}
