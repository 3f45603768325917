//! Opening beside a process that writes: what its last checkpoint made durable, without its lock.
//!
//! ```text
//!   attempt: manifest, container, files of values ---> an engine
//!      |  does not fit together: the writer went on meanwhile
//!      +-> again, from the newer manifest -- ATTEMPTS_MAX times --> Stale
//!      +-> the same manifest, the same failure, DAMAGED_AFTER times -> the failure: it is damage
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
use crate::engine::log::Found;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::beside::{Beside, BesideVfs, Paths};
use crate::options::Options;
use crate::sync::{Arc, Mutex, thread};
use crate::tables::{container_path, table_path};
use crate::value_files;
use crate::version::clock::checkpoint_of;
use evendb_storage::vfs::Vfs;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The largest number of attempts.
const ATTEMPTS_MAX: u32 = 100;
/// A failure that comes this many times in a row over one manifest is damage.
const DAMAGED_AFTER: u32 = 4;
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Whether the cause of a failure may be that the writer went on.
fn may_be_the_writer(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Stale)
}

/// Opens the database in `dir`, which exists. `attempt` makes an engine of one look.
pub(super) fn open(
    dir: &Path,
    options: &Options,
    attempt: &dyn Fn(Arc<dyn Vfs>, Arc<Beside>) -> Result<Engine>,
) -> Result<Engine> {
    let mut pause = Duration::from_millis(1);
    let (mut seen_before, mut times) = (None, 0);
    for _ in 0..ATTEMPTS_MAX {
        let beside = Arc::new(look_at(dir, options)?);
        let seen_by: Arc<dyn Vfs> = Arc::new(BesideVfs::new(options.vfs.clone(), beside.clone()));
        let error = match attempt(seen_by, beside.clone()) {
            Err(error) if may_be_the_writer(&error) => error,
            done => return done,
        };
        let seen = beside.seen_at();
        times = match seen == seen_before && error.kind() == ErrorKind::Corruption {
            true => times + 1,
            false => 1,
        };
        if times == DAMAGED_AFTER {
            return Err(error);
        }
        seen_before = seen;
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
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
            end: Mutex::new(self.state.replay_from),
        })
    }
}
