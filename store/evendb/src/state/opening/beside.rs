//! Opening beside a process that writes: what its last checkpoint made durable, without its lock.
//!
//! ```text
//!   attempt: manifest, container, files of values ---> an engine
//!      |  does not fit together: the writer went on meanwhile
//!      +-> again, from the newer manifest -- ATTEMPTS_MAX times --> Stale
//!      +-> the same manifest, the same failure, again and again -> the failure: it is damage
//! ```
//! Nothing is replayed: the commit log is only looked at for readers of changes, because the writer
//! uses it again in place. Invariants: the engine is of one moment, the one of its manifest; this
//! process changes no file and takes no lock ([`crate::manifest::beside`]).
//!
//! Thread safety: one thread opens. Not here: what happens when the writer goes on later
//! ([`crate::manifest::beside`]).

use super::Opening;
use super::replay::Replay;
use crate::encryption;
use crate::engine::Engine;
use crate::engine::log::{Found, Seen};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::beside::{ATTEMPTS_MAX, Beside, BesideVfs, Failures, Paths};
use crate::options::Options;
use crate::sync::{Arc, Mutex};
use crate::tables::{container_path, table_path};
use crate::value_files;
use crate::version::clock::checkpoint_of;
use evendb_storage::vfs::Vfs;
use std::collections::BTreeSet;
use std::path::Path;

/// Opens the database in `dir`, which exists. `attempt` makes an engine of one look.
pub(super) fn open(
    dir: &Path,
    options: &Options,
    attempt: &dyn Fn(Arc<dyn Vfs>, Arc<Beside>) -> Result<Engine>,
) -> Result<Engine> {
    let mut failures = Failures::new();
    for _ in 0..ATTEMPTS_MAX {
        let beside = Arc::new(look_at(dir, options)?);
        let seen_by: Arc<dyn Vfs> = Arc::new(BesideVfs::new(options.vfs.clone(), beside.clone()));
        match attempt(seen_by, beside.clone()) {
            Err(error) if error.kind() == ErrorKind::Stale => failures.wait(),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                if failures.is_damage(beside.seen_at(), &error.to_string()) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
    let message = format!(
        "the process that writes to {} went on {ATTEMPTS_MAX} times while this one opened it: nothing is \
         damaged; try again when it writes less",
        dir.display()
    );
    Err(Error::new(ErrorKind::Stale, message))
}

/// A reader that has seen no manifest yet.
fn look_at(dir: &Path, options: &Options) -> Result<Beside> {
    let provider = options.advanced.encryption.as_ref();
    let whole = encryption::find(&options.vfs, dir, provider)?;
    let paths = Paths {
        table: table_path,
        container: container_path,
        value_file: value_files::file_path,
    };
    Ok(Beside::new(whole, dir, paths))
}

impl Opening {
    /// In place of step 2: no record is replayed. The end of the records is for readers of changes.
    pub(super) fn look_at_commit_log(&self) -> Replay {
        let parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        let in_tables = parts.map(|part| checkpoint_of(part.meta.max_version)).max();
        Replay {
            end: self.state.replay_from,
            given_up: None,
            checkpoint_max: self.state.completed.max(in_tables.unwrap_or(0)),
            extents: Vec::new(),
            value_files: BTreeSet::new(),
            values: Vec::new(),
            filler: None,
        }
    }

    /// What readers of changes know of a log that another process writes.
    pub(super) fn found(&self) -> Option<Found> {
        self.beside.clone().map(|beside| Found {
            beside,
            next_keyspace: self.state.next_keyspace,
            seen: Mutex::new(Seen::at(self.state.replay_from)),
        })
    }
}
