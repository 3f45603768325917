//! Reads a manifest: edit by edit to the state that they add up to. Writes nothing.

use super::change::{self, Change, ENGINE, FORMAT_VERSION, Refused};
use super::current;
use super::state::{EditDraft, State};
use crate::files::FileName;
use crate::tables::TableDir;
use evendb_storage::framed_log::{HEADER_BYTES, read_synced_frames};
use evendb_storage::vfs::Vfs;
use evendb_storage::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Reads the manifest that `CURRENT` in `dir` names.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path, place: &Arc<TableDir>) -> Result<State> {
    let current = current::read(vfs, dir)?;
    let path = FileName::Manifest(current.manifest).path(dir);
    let file = vfs.open(&path, false);
    let file = file.map_err(|source| Error::open(&path, "open the manifest", source))?;
    let number = current.manifest.0;
    let mut state = State::new(place.clone());
    let end = read_synced_frames(&*file, number, current.verified, &mut |offset, payload| {
        apply_edit(&mut state, &path, offset, payload)
    })?;
    match end > HEADER_BYTES {
        true => Ok(state),
        false => Err(Error::corruption(&path, end, "a manifest without edits")),
    }
}

/// Applies the edit of a frame, which is at `offset` of the manifest at `path`.
pub(crate) fn apply_edit(
    state: &mut State,
    path: &Path,
    offset: u64,
    payload: &[u8],
) -> Result<()> {
    let corrupt = |what: &str| Error::corruption(path, offset, what);
    let mut draft = EditDraft::default();
    for change in change::changes(payload) {
        let change = change.map_err(|refused| match refused {
            Refused::Unknown(what) => Error::unsupported(path, what),
            Refused::Malformed => corrupt("an edit cannot be decoded"),
        })?;
        check_format(path, &change)?;
        draft.take(state, change).map_err(corrupt)?;
    }
    let edit = draft.finish();
    let prepared = edit.and_then(|edit| state.prepare(edit)).map_err(corrupt)?;
    state.install(prepared);
    Ok(())
}

/// Refuses a manifest that another engine or another version wrote.
fn check_format(path: &Path, change: &Change) -> Result<()> {
    let Change::Format { engine, version } = change else {
        return Ok(());
    };
    if engine != ENGINE {
        let detail = format!("a database of engine {engine:?}, not of {ENGINE:?}");
        return Err(Error::unsupported(path, detail));
    }
    if *version != FORMAT_VERSION {
        let detail = format!("manifest of version {version}, this build reads {FORMAT_VERSION}");
        return Err(Error::unsupported(path, detail));
    }
    Ok(())
}
