//! The structure of a database as far as its bytes tell it. It reads what an opening reads, and
//! goes on where an opening stops.
//!
//! If `CURRENT` is damaged, the newest manifest whose header verifies stands in for it. If an edit
//! is damaged, the edits behind it are applied all the same; then [`Loaded::whole`] is false, and
//! the state may be out of date.

use super::{Finding, FindingKind, InspectOptions, Severity, list};
use crate::commit_log::{Segment, Survey};
use crate::encryption;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, LOCK, UNFINISHED_COPY, is_own_name};
use crate::manifest::edit::{self, Change};
use crate::manifest::epochs::same_boot;
use crate::manifest::state::ManifestState;
use crate::manifest::writer::{self, CURRENT_LEN, manifest_path};
use crate::opening::directory::{self, Wish};
use crate::payload::ExtentName;
use crate::sync::Arc;
use crate::value_extents::{self, Unlike};
use crate::version::clock::last_version_of;
use evendb_base::EngineKind;
use evendb_base::directory_lock::open_elsewhere;
use evendb_storage::framed_log::{FrameCodec, HEADER_BYTES, Surveyed, header_id_in, survey_frames};
use evendb_storage::vfs::{File, LockGuard, Vfs};
use evendb_storage::{Error as StorageError, TableId};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The directory of a database, locked against writers.
pub(super) struct LockedDirectory {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: PathBuf,
    /// The names in the directory, in order.
    pub(super) names: Vec<String>,
    _lock: Option<Box<dyn LockGuard>>,
    pub(super) lock_missing: bool,
}

/// The structure, and what is wrong with it.
pub(super) struct Loaded {
    pub(super) state: ManifestState,
    pub(super) findings: Vec<Finding>,
    /// The manifest that was read, if there was one.
    pub(super) manifest: Option<u64>,
    /// Nothing that was durable is missing from the state.
    pub(super) whole: bool,
    /// Edits are certainly lost, so the state is not the last one.
    pub(super) edits_lost: bool,
    /// Every table that an edit ever named.
    pub(super) named_ever: BTreeSet<TableId>,
    /// The greatest table id in the edits before the first loss.
    pub(super) greatest_before_loss: TableId,
    pub(super) edits: u64,
    /// The bytes of the manifest that were verified.
    pub(super) live: Vec<Range<u64>>,
}

pub(super) fn io(path: &Path, what: &str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    let what = what.to_owned();
    move |source| StorageError::io(&path, &what, source).into()
}

impl LockedDirectory {
    /// Takes the lock shared. The error is `NotFound` if the directory holds no database, and also
    /// if a crash interrupted the database's creation, as in an opening.
    pub(super) fn open(options: &InspectOptions<'_>, path: &Path) -> Result<LockedDirectory> {
        let vfs = options.files();
        let dir = std::path::absolute(path).map_err(io(path, "resolve the path"))?;
        let not_found = || {
            let message = format!("there is no database in {}", dir.display());
            Error::new(ErrorKind::NotFound, message)
        };
        if !vfs
            .exists(&dir)
            .map_err(io(&dir, "look for the database"))?
        {
            return Err(not_found());
        }
        EngineKind::EvenDb.check(&*vfs, &dir)?;
        let lock_path = dir.join(LOCK);
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
        let mut names: Vec<String> = names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect();
        names.sort_unstable();
        let has = |file: &str| names.iter().any(|name| name == file);
        let known = |name: &String| name == CURRENT || name == CONTAINER || is_own_name(name);
        if !names.iter().any(known) {
            return Err(not_found());
        }
        // An unfinished copy is examined all the same: it may be the only copy.
        if !has("CURRENT") && !has(UNFINISHED_COPY) {
            match directory::check_vacant(&*vfs, &dir, Wish::Read) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(not_found()),
                // The findings report damage file by file.
                _ => {}
            }
        }
        let vfs = encryption::find(&vfs, &dir, options.encryption.as_ref())?;
        Ok(LockedDirectory {
            vfs,
            dir,
            names,
            lock_missing: lock.is_none(),
            _lock: lock,
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Opens a file and returns it with its length. If it cannot be read, the error is a message.
    pub(super) fn open_file(
        &self,
        path: &Path,
    ) -> std::result::Result<(Arc<dyn File>, u64), String> {
        let opened = self.vfs.open(path, false);
        let opened = opened.and_then(|file| file.len().map(|len| (file, len)));
        opened.map_err(|error| format!("cannot be read: {error}"))
    }

    /// The bytes of a value extent, as [`value_extents::stored`] gives them. If the file cannot be
    /// read, the error is a message.
    pub(super) fn read_extent(
        &self,
        name: &ExtentName,
    ) -> std::result::Result<std::result::Result<Vec<u8>, Unlike>, String> {
        let (file, _) = self.open_file(&value_extents::file_path(&self.dir, name.id))?;
        let stored = value_extents::stored(&*file, name);
        stored.map_err(|error| format!("cannot be read: {error}"))
    }
}

impl Loaded {
    pub(super) fn read(place: &LockedDirectory) -> Loaded {
        let mut loaded = Loaded {
            state: ManifestState::default(),
            findings: Vec::new(),
            manifest: None,
            whole: true,
            edits_lost: false,
            named_ever: BTreeSet::new(),
            greatest_before_loss: TableId(0),
            edits: 0,
            live: Vec::new(),
        };
        if place.lock_missing {
            let what = "missing: nothing keeps a writer out meanwhile";
            let kind = FindingKind::Lock;
            let finding = Finding::new(Severity::Warning, kind, LOCK, None, what);
            list(&mut loaded.findings, finding);
        }
        let (in_force, verified) = loaded.current(place);
        let mut candidates = manifests(place);
        if let Some(id) = in_force {
            candidates.retain(|candidate| *candidate != id);
            candidates.insert(0, id);
        }
        let mut stands_in = candidates.is_empty();
        for id in candidates {
            if loaded.manifest(place, id, verified.filter(|_| Some(id) == in_force)) {
                loaded.manifest = Some(id);
                break;
            }
            stands_in = true;
        }
        // A manifest that stands in is not the last one.
        loaded.whole &= !stands_in;
        loaded.edits_lost |= stands_in;
        if let Err(what) = loaded.state.check() {
            let name = loaded
                .manifest
                .map_or(CURRENT.to_owned(), writer::manifest_name);
            loaded.corrupt(FindingKind::Structure, &name, None, what);
        }
        loaded
    }

    /// The parameters for a survey of the commit log.
    pub(super) fn survey<'s>(
        &self,
        place: &LockedDirectory,
        segments: &'s [Segment],
    ) -> Survey<'s> {
        let state = &self.state;
        Survey {
            capacity: state.ring_bytes,
            from: state.replay_from,
            start: state.replay_from,
            checkpointed: last_version_of(state.completed),
            segments,
            same_boot: same_boot(state, &*place.vfs),
        }
    }

    fn corrupt(
        &mut self,
        kind: FindingKind,
        file: &str,
        place: Option<Range<u64>>,
        what: impl Into<String>,
    ) {
        self.whole = false;
        let finding = Finding::new(Severity::Corruption, kind, file, place, what);
        list(&mut self.findings, finding);
    }

    fn current(&mut self, place: &LockedDirectory) -> (Option<u64>, Option<u64>) {
        match writer::read_current(&*place.vfs, &place.dir) {
            Ok(current) => (Some(current.id), Some(current.verified)),
            Err(error) => {
                let what = error.to_string();
                let kind = match place.has(CURRENT) {
                    true => FindingKind::Current,
                    false => FindingKind::Missing,
                };
                self.corrupt(kind, CURRENT, Some(0..CURRENT_LEN as u64), what);
                (None, None)
            }
        }
    }

    /// Reads a manifest. Returns false if it is none.
    fn manifest(&mut self, place: &LockedDirectory, id: u64, verified: Option<u64>) -> bool {
        let name = writer::manifest_name(id);
        if !place.has(&name) {
            self.corrupt(FindingKind::Missing, &name, None, "the manifest is missing");
            return false;
        }
        let path = manifest_path(&place.dir, id);
        let opened = place.open_file(&path);
        let (file, file_len) = match opened {
            Ok(opened) => opened,
            Err(what) => {
                self.corrupt(FindingKind::Manifest, &name, None, what);
                return false;
            }
        };
        match header_id_in(&*file) {
            Ok(found) if found == id => self.live.push(0..HEADER_BYTES),
            Ok(found) => {
                let what = format!("this is the header of manifest {found}");
                self.corrupt(FindingKind::Manifest, &name, Some(0..HEADER_BYTES), what);
            }
            Err(what) => {
                self.corrupt(FindingKind::Manifest, &name, Some(0..HEADER_BYTES), what);
            }
        }
        let verified = verified.unwrap_or(HEADER_BYTES);
        let mut end = HEADER_BYTES;
        let codec = FrameCodec::new(&*file, id);
        let survey = survey_frames(&*file, &codec, &mut |found| match found {
            Surveyed::Frame {
                offset,
                len,
                payload,
            } => {
                end = offset + len;
                self.live.push(offset..end);
                self.edit(&name, offset..end, payload);
            }
            Surveyed::Hole { offset, used, len } => {
                let place = offset..offset + len;
                let followed = place.end < file_len;
                self.hole(&name, place, used, followed, verified);
            }
        });
        if let Err(error) = survey {
            self.edits_lost = true;
            self.corrupt(FindingKind::Manifest, &name, None, error.to_string());
        }
        if file_len < verified {
            self.edits_lost = true;
            let what = format!("cut short: it must verify up to byte {verified}");
            let place = Some(file_len..verified);
            self.corrupt(FindingKind::Length, &name, place, what);
        }
        self.edits > 0
    }

    /// Reports the bytes in `place`, where no edit verifies; the first `used` bytes are not merely
    /// unused room.
    fn hole(&mut self, name: &str, place: Range<u64>, used: u64, followed: bool, verified: u64) {
        let used_end = match followed {
            true => place.end,
            false => place.start + used,
        };
        if place.start < verified {
            self.edits_lost = true;
            let what = "an edit does not verify, or is cut short";
            let end = match followed {
                true => used_end,
                false => used_end.max(verified),
            };
            self.corrupt(FindingKind::Manifest, name, Some(place.start..end), what);
        } else if followed {
            self.edits_lost = true;
            let what = "bytes that do not verify, with valid edits behind them";
            self.corrupt(FindingKind::Manifest, name, Some(place), what);
        } else if used > 0 {
            let what = "the last edits do not verify: opening takes this for the end that a \
                        crash in the middle of an append leaves; after a clean close or a \
                        mere end of the process it is damage";
            let kind = FindingKind::ManifestEnd;
            let place = Some(place.start..used_end);
            let finding = Finding::new(Severity::Warning, kind, name, place, what);
            list(&mut self.findings, finding);
        }
    }

    fn edit(&mut self, name: &str, place: Range<u64>, payload: &[u8]) {
        self.edits += 1;
        if edit::changes(payload).any(|change| change.is_none()) {
            self.edits_lost = true;
            let what = "an edit cannot be decoded";
            self.corrupt(FindingKind::Manifest, name, Some(place), what);
            return;
        }
        // One finding stands for all contradictions of an edit.
        let mut told = false;
        for change in edit::changes(payload).flatten() {
            let parts = match &change {
                Change::SetChunk(chunk) => &chunk.parts[..],
                Change::AddParts { parts, .. } => &parts[..],
                _ => &[],
            };
            self.named_ever.extend(parts.iter().map(|part| part.table));
            if !self.edits_lost
                && let Some(last) = self.named_ever.last()
            {
                self.greatest_before_loss = *last;
            }
            if let Err(what) = self.state.apply(change)
                && !std::mem::replace(&mut told, true)
            {
                self.edits_lost = true;
                self.corrupt(FindingKind::Structure, name, Some(place.clone()), what);
            }
        }
    }
}

/// The ids of the manifests in the directory, the newest first.
pub(super) fn manifests(place: &LockedDirectory) -> Vec<u64> {
    let number = |name: &String| name.strip_prefix("MANIFEST-")?.parse().ok();
    let mut ids: Vec<u64> = place.names.iter().filter_map(number).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}
