//! [`Kept`]: an open database's knowledge of its manifest. If the database is opened read-only,
//! this is what the manifest in force says, and nothing is written.

use super::state::{Edit, State};
use super::writer::Manifest;
use evendb_storage::{Error, Result};
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub(crate) enum Kept {
    /// A manifest that gets edits.
    Written(Manifest),
    /// The contents of the manifest in this directory, opened read-only.
    OnlyRead(PathBuf, State),
}

impl Kept {
    /// The current state.
    pub(crate) fn state(&self) -> &State {
        match self {
            Kept::Written(manifest) => manifest.state(),
            Kept::OnlyRead(_, state) => state,
        }
    }

    /// As [`Manifest::commit`]. It is refused for a database that is opened read-only; nobody asks
    /// for it there.
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        match self {
            Kept::Written(manifest) => manifest.commit(edit),
            Kept::OnlyRead(dir, _) => {
                let error = io::Error::other("the database is only read");
                Err(Error::io(dir, "write to the manifest in", error))
            }
        }
    }
}
