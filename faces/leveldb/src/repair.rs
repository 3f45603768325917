//! Repair in place.
//!
//! EvenDB saves into a new directory and does not touch the damaged one. Here the two change
//! places, at once:
//!
//! ```text
//! DB              damaged      DB              saved        DB              saved
//!                          ->  DB.repaired-1   damaged  ->  DB.damaged-1    damaged
//! ```
//!
//! Nothing is ever removed: the damaged directory stays beside it, for looking at it or for trying
//! again. A crash leaves one of the three pictures, or the first one with an incomplete
//! `DB.repaired-1`.
//!
//! As in LevelDB, the database must not be open. A sound database is read completely, too.

use crate::error::{Code, Error, Result};
use crate::in_memory;
use crate::opening::refuse_leveldb;
use crate::options::Options;
use evendb::inspect::{self, InspectOptions, RepairOptions};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The number of directories of earlier repairs that may lie beside the database.
const REPAIRS_MAX: u32 = 1000;

/// Saves what can be saved of the database in `path`, in its place.
pub(crate) fn repair(path: &Path, options: &Options) -> Result<()> {
    if let Some(disk) = &options.disk {
        return in_memory::repair(disk, path);
    }
    refuse_leveldb(path)?;
    let report = inspect::verify(path, InspectOptions::new())?;
    if report.is_sound() {
        return Ok(());
    }
    // Resolved, so that it is no link and has a name: its neighbours' names begin with it.
    let path = path.canonicalize().map_err(|error| io(path, &error))?;
    let (repaired, damaged) = vacant(&path)?;
    let options = RepairOptions { one_keyspace: true };
    inspect::repair(&path, &repaired, options, InspectOptions::new())?;
    renameat_with(CWD, &path, CWD, &repaired, RenameFlags::EXCHANGE).map_err(|error| {
        let message = format!(
            "{}: what could be saved is in {}, and could not take its place: {error}; move it there",
            path.display(),
            repaired.display()
        );
        Error::new(Code::Io, message)
    })?;
    // `repaired` now has the damaged files.
    std::fs::rename(&repaired, &damaged).map_err(|error| io(&repaired, &error))?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let synced = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|error| io(parent, &error))
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{}: {error}", path.display()))
}

/// The directory to save to, and the new name of the damaged directory. Nothing has these names
/// yet.
fn vacant(path: &Path) -> Result<(PathBuf, PathBuf)> {
    let beside = |suffix: String| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    };
    let is_vacant = |path: &PathBuf| path.symlink_metadata().is_err();
    (1..=REPAIRS_MAX)
        .map(|n| {
            (
                beside(format!(".repaired-{n}")),
                beside(format!(".damaged-{n}")),
            )
        })
        .find(|(repaired, damaged)| is_vacant(repaired) && is_vacant(damaged))
        .ok_or_else(|| {
            let message = format!(
                "{}: {REPAIRS_MAX} repairs lie beside it; remove some",
                path.display()
            );
            Error::new(Code::Io, message)
        })
}
