//! The structure of a database as far as its bytes tell it. It reads what an opening reads, and
//! goes on where an opening stops.
//!
//! If `CURRENT` is damaged, the newest manifest whose header verifies stands in for it. If an edit
//! is damaged, the edits behind it are applied all the same; then [`Loaded::whole`] is false, and
//! the state may be out of date.

use super::{Finding, FindingKind, InspectOptions, Severity};
use crate::commit_log::{Segment, Survey};
use crate::encryption;
use crate::error::{ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, UNFINISHED_COPY, is_own_name};
use crate::manifest::current::{CURRENT_LEN, read_current};
use crate::manifest::edit::{self, Change};
use crate::manifest::epochs::same_boot;
use crate::manifest::state::ManifestState;
use crate::manifest::writer::{self, manifest_path};
use crate::opening::directory::{self, Wish};
use crate::payload::ExtentName;
use crate::value_extents::{self, Unlike};
use crate::version::clock::last_version_of;
pub(super) use evendb_base::inspect::LockedDirectory;
use evendb_base::inspect::{ManifestPart, list, survey_manifest};
use evendb_storage::TableId;
use evendb_storage::framed_log::HEADER_BYTES;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

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

/// Takes the lock shared. The error is `NotFound` if the directory holds no database, and also if a
/// crash interrupted the database's creation, as in an opening.
pub(super) fn lock(options: &InspectOptions<'_>, path: &Path) -> Result<LockedDirectory> {
    let shows = |name: &str| name == CURRENT || name == CONTAINER || is_own_name(name);
    let mut place = LockedDirectory::open(options.files(), path, &shows)?;
    // An unfinished copy is examined all the same: it may be the only copy.
    if !place.has(CURRENT) && !place.has(UNFINISHED_COPY) {
        let vacant = directory::check_vacant(&*place.vfs, &place.dir, Wish::Read);
        // The findings report damage file by file.
        if vacant.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(place.no_database());
        }
    }
    place.vfs = encryption::find(&place.vfs, &place.dir, options.encryption.as_ref())?;
    Ok(place)
}

/// The bytes of a value extent, as [`value_extents::stored`] gives them. If the file cannot be
/// read, the error is a message.
pub(super) fn read_extent(
    place: &LockedDirectory,
    name: &ExtentName,
) -> std::result::Result<std::result::Result<Vec<u8>, Unlike>, String> {
    let (file, _) = place.open_file(&value_extents::file_path(&place.dir, name.id))?;
    let stored = value_extents::stored(&*file, name);
    stored.map_err(|error| format!("cannot be read: {error}"))
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
        loaded.findings.extend(place.without_lock());
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
        let finding = Finding::corruption(kind, file, place, what);
        list(&mut self.findings, finding);
    }

    fn current(&mut self, place: &LockedDirectory) -> (Option<u64>, Option<u64>) {
        match read_current(&*place.vfs, &place.dir) {
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
        let file = match place.open_file(&manifest_path(&place.dir, id)) {
            Ok((file, _)) => file,
            Err(what) => {
                self.corrupt(FindingKind::Manifest, &name, None, what);
                return false;
            }
        };
        let verified = verified.unwrap_or(HEADER_BYTES);
        survey_manifest(&*file, &name, (id, verified), &mut |part| match part {
            ManifestPart::Header => self.live.push(0..HEADER_BYTES),
            ManifestPart::Edit { place, payload } => {
                self.live.push(place.clone());
                self.edit(&name, place, payload);
            }
            ManifestPart::Wrong {
                finding,
                loses_edits,
            } => {
                self.whole &= finding.severity != Severity::Corruption;
                self.edits_lost |= loses_edits;
                list(&mut self.findings, finding);
            }
        });
        self.edits > 0
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
