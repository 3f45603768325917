//! [`Kept`]: what an open database knows of its manifest. Of one that is only read that is what the manifest in force says; nothing
//! is written then.

use super::state::{Edit, State};
use super::writer::Manifest;
use evendb_storage::{Error, Result};
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub(crate) enum Kept {
    /// A manifest that goes on.
    Written(Manifest),
    /// What the manifest of the database in this directory says.
    OnlyRead(PathBuf, State),
}

impl Kept {
    /// What there is.
    pub(crate) fn state(&self) -> &State {
        match self {
            Kept::Written(manifest) => manifest.state(),
            Kept::OnlyRead(_, state) => state,
        }
    }

    /// As [`Manifest::commit`]. Of a database that is only read nobody asks for it; it is refused.
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
