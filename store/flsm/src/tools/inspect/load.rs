//! The structure of a database as far as its bytes tell. It reads what an opening reads, but it
//! goes on where an opening stops.
//!
//! If `CURRENT` is damaged, the newest manifest from which an edit can be read stands in for it. If
//! an edit is damaged, the edits behind it are applied all the same. Then [`Loaded::whole`] is
//! false, and the state may be out of date.

use super::{Finding, FindingKind, InspectOptions, Severity, list};
use crate::error::{Error, ErrorKind, Result};
use crate::files::FileName;
use crate::manifest::current::{self, Current};
use crate::manifest::reader::apply_edit;
use crate::manifest::state::State;
use crate::options::TableLimits;
use crate::tables::TableDir;
use crate::types::FileNumber;
use evendb_base::EngineKind;
use evendb_base::directory_lock::open_elsewhere;
use evendb_base::sync::{Arc, reclaim};
use evendb_storage::framed_log::{FrameCodec, HEADER_BYTES, Surveyed, header_id_in, survey_frames};
use evendb_storage::vfs::{File, LockGuard, Vfs};
use evendb_storage::{Error as StorageError, ErrorKind as StorageErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// At most this many tables are kept open, with at most this many bytes of indexes and filters.
const TABLE_LIMITS: TableLimits = TableLimits {
    files: 256,
    bytes: 64 << 20,
};

/// A database's directory, locked against writers.
pub(super) struct LockedDirectory {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: PathBuf,
    /// The database's files, sorted by name.
    pub(super) files: Vec<FileName>,
    lock: Option<Box<dyn LockGuard>>,
}

impl Drop for LockedDirectory {
    /// This is the last part of an inspection that is dropped, and no other thread may collect:
    /// after it, no closed table keeps its file open.
    fn drop(&mut self) {
        reclaim::collect();
    }
}

fn io(path: &Path, what: &str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| StorageError::io(path, what, source).into()
}

impl LockedDirectory {
    /// Takes the lock shared. `NotFound` for a directory without a database.
    pub(super) fn open(options: &InspectOptions<'_>, path: &Path) -> Result<LockedDirectory> {
        let vfs = options.files();
        let dir = std::path::absolute(path).map_err(io(path, "resolve the path"))?;
        let not_found = || {
            let message = format!("there is no database in {}", dir.display());
            Error::new(ErrorKind::NotFound, message)
        };
        let exists = vfs.exists(&dir);
        if !exists.map_err(io(&dir, "look for the database"))? {
            return Err(not_found());
        }
        EngineKind::Flsm.check(&*vfs, &dir)?;
        let lock_path = FileName::Lock.path(&dir);
        let lock = match vfs.lock(&lock_path, true) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let holder = vfs.lock_holder(&lock_path);
                return Err(open_elsewhere(&dir, holder, std::process::id()));
            }
            Err(error) => return Err(io(&lock_path, "lock the database")(error)),
        };
        let names = vfs.list(&dir).map_err(io(&dir, "list the directory"))?;
        let mut files: Vec<FileName> = names
            .iter()
            .filter_map(|name| FileName::parse(name.to_str()?))
            .collect();
        files.sort_unstable();
        match files.iter().any(|file| *file != FileName::Lock) {
            true => Ok(LockedDirectory {
                vfs,
                dir,
                files,
                lock,
            }),
            false => Err(not_found()),
        }
    }

    pub(super) fn has(&self, file: FileName) -> bool {
        self.files.binary_search(&file).is_ok()
    }

    /// A file and its length. For a file that cannot be read, a message.
    pub(super) fn open_file(
        &self,
        file: FileName,
    ) -> std::result::Result<(Arc<dyn File>, u64), String> {
        let opened = self.vfs.open(&file.path(&self.dir), false);
        let opened = opened.and_then(|file| file.len().map(|len| (file, len)));
        opened.map_err(|error| format!("cannot be read: {error}"))
    }

    /// The codec by which the frames of the log or manifest `file` verify.
    pub(super) fn codec(&self, file: FileName, number: FileNumber) -> FrameCodec {
        FrameCodec::of(self.vfs.secrets(), &file.path(&self.dir), number.0)
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
    pub(super) fn read(place: &LockedDirectory) -> Result<Loaded> {
        let tables = || TableDir::new(place.vfs.clone(), &place.dir, TABLE_LIMITS);
        let mut loaded = Loaded {
            state: State::new(tables()),
            findings: Vec::new(),
            manifest: None,
            whole: true,
            edits: 0,
            bytes: 0,
        };
        if place.lock.is_none() {
            let what = "missing: nothing keeps a writer out meanwhile";
            loaded.warn(FindingKind::Lock, FileName::Lock, None, what);
        }
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
        let finding = Finding::new(Severity::Corruption, kind, &file.name(), place, what);
        list(&mut self.findings, finding);
    }

    fn warn(
        &mut self,
        kind: FindingKind,
        file: FileName,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) {
        let finding = Finding::new(Severity::Warning, kind, &file.name(), place, what);
        list(&mut self.findings, finding);
    }

    fn current(&mut self, place: &LockedDirectory) -> Result<Option<Current>> {
        let error = match current::read(&*place.vfs, &place.dir) {
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
        place: &LockedDirectory,
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
        self.manifest_header(&*opened, number);
        let verified = current.map_or(HEADER_BYTES, |current| current.verified);
        let before = self.edits;
        let path = file.path(&place.dir);
        let mut refused = None;
        let file_len = len;
        let survey = survey_frames(
            &*opened,
            &place.codec(file, number),
            &mut |found| match found {
                Surveyed::Frame {
                    offset,
                    len,
                    payload,
                } => {
                    self.edits += 1;
                    match apply_edit(&mut self.state, &path, offset, payload) {
                        Err(error) if error.kind() == StorageErrorKind::Unsupported => {
                            refused.get_or_insert(error);
                        }
                        Err(error) => {
                            let kind = FindingKind::Structure;
                            self.corrupt(kind, file, Some(offset..offset + len), error.to_string());
                        }
                        Ok(()) => {}
                    }
                }
                Surveyed::Hole { offset, used, len } => {
                    let hole = offset..offset + len;
                    let followed = hole.end < file_len;
                    self.hole(file, hole, used, followed, verified);
                }
            },
        );
        if let Some(error) = refused {
            return Err(error.into());
        }
        if let Err(error) = survey {
            self.corrupt(FindingKind::Manifest, file, None, error.to_string());
        }
        if len < verified {
            let what = format!("cut short: it must verify up to byte {verified}");
            self.corrupt(FindingKind::Length, file, Some(len..verified), what);
        }
        Ok(self.edits > before)
    }

    /// Looks at the header of the manifest with this number.
    fn manifest_header(&mut self, opened: &dyn File, number: FileNumber) {
        let wrong = match header_id_in(opened) {
            Ok(found) if found == number.0 => return,
            Ok(found) => format!("this is the header of manifest {found}"),
            Err(what) => what,
        };
        let file = FileName::Manifest(number);
        self.corrupt(FindingKind::Manifest, file, Some(0..HEADER_BYTES), wrong);
    }

    /// Notes the bytes `hole`, in which no edit verifies. The first `used` of them are more than
    /// reserved room.
    fn hole(&mut self, file: FileName, hole: Range<u64>, used: u64, followed: bool, verified: u64) {
        let used_end = match followed {
            true => hole.end,
            false => hole.start + used,
        };
        if hole.start < verified {
            let end = match followed {
                true => used_end,
                false => used_end.max(verified),
            };
            let what = "an edit does not verify, or is cut short";
            self.corrupt(FindingKind::Manifest, file, Some(hole.start..end), what);
        } else if followed {
            let what = "bytes that do not verify, with valid edits behind them";
            self.corrupt(FindingKind::Manifest, file, Some(hole), what);
        } else if used > 0 {
            let what = "the last edits do not verify: opening takes this for the end that a crash in the midst of an append \
                        leaves; after a clean close it is damage";
            let place = Some(hole.start..used_end);
            self.warn(FindingKind::ManifestEnd, file, place, what);
        }
    }
}

/// Numbers of the manifests in the directory, newest first.
fn manifests(place: &LockedDirectory) -> Vec<FileNumber> {
    let numbers = place.files.iter().rev().filter_map(|file| match file {
        FileName::Manifest(number) => Some(*number),
        _ => None,
    });
    numbers.collect()
}
