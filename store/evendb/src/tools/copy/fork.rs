//! Forks: a database that shares its files with its parent, and goes its own way: [`Db::fork`].
//!
//! ```text
//! parent                              fork
//! a.sst          ---- hard link ----> a.sst           tables and value files never change
//! CHUNK-LOGS     ---- hard link ----> CHUNK-LOGS      sealed: neither side writes to it any more
//! CHUNK-LOGS-000001                                   new, for the parent's next runs
//!                                     CHUNK-LOGS-000001   new, for the fork's; another file
//! MANIFEST-n  ------- state --------> MANIFEST-000001
//!                                     CURRENT         last: with it the fork is a database
//! ```
//! A fork is made as a copy is ([`crate::copy`]), by the same steps: the moment of one checkpoint,
//! handles that keep the files, links, the manifest, `CURRENT`. Three things differ:
//! * **Runs are not copied.** Still under the checkpoint mutex, the container is sealed
//!   ([`crate::tables::container::Container::seal`]): the parent begins the next one, durably, and
//!   the fork links the sealed one. Where containers have few bytes of runs, up to
//!   [`COPIED_BYTES_MAX`] for all of them, their runs are copied into the fork's container instead.
//!   So a chain of small forks has no chain of containers, and a parent that is forked often begins
//!   a new container only when the last one has got that much.
//! * **Nothing is verified,** because that reads everything. Damage of the parent is in the fork.
//! * **A link that fails is an error** (`CannotLink`), unless the caller asked for copies.
//!
//! The time is that of a checkpoint (the deltas in RAM, bounded by the memory budget), of a link
//! for each file, and of writing the manifest's state; nothing reads or writes the data.
//!
//! Identity: the fork begins with the state of its moment and no commit log. Its first opening
//! begins a life of its own: the next epoch with a random seed. So positions of changes, numbers of
//! value files, and all that encrypts are its own (docs/format.md). Numbers of new tables may equal
//! those of the parent, in another directory; nothing is kept by number beyond one database.
//!
//! Invariants: a linked file is never written to, by either side. The parent's containers are
//! sealed before they are linked. Nothing in the fork names a place outside of it.
//!
//! Thread safety: any thread, beside writers and other forks. Not here: copying, and the order of
//! its steps ([`super`], [`super::fill`]).

use super::check::{CopyCheck, CopyOptions};
use super::{Mark, SharesWith, Sharing, Sources, Wanted, copy_to, failed, from_source};
use crate::api::db::Db;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER_MAX, in_container};
use crate::manifest::edit::{Change, Place};
use crate::tables::container_path;
use evendb_base::placement;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The most bytes of runs that are copied, in place of sharing their containers.
const COPIED_BYTES_MAX: u64 = 4 << 20;

/// The result of [`Db::fork`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkSummary {
    /// Files that the fork shares with its parent: tables, files of large values, chunks' logs.
    pub files_linked: u64,
    /// Bytes of these files: they cost no space as long as both databases need them.
    pub bytes_linked: u64,
    /// Tables that had to be copied, because no link was possible; 0 unless
    /// [`ForkOptions::copy_if_needed`] was set.
    pub tables_copied: u64,
    /// Bytes that were copied: a few runs of chunks' logs, and the files that could not be linked.
    pub bytes_copied: u64,
    /// The time from the call to the end.
    pub elapsed: Duration,
}

/// Options of a fork: [`Db::fork_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkOptions {
    copies: bool,
    copied_bytes: u64,
}

impl Default for ForkOptions {
    fn default() -> ForkOptions {
        ForkOptions {
            copies: false,
            copied_bytes: COPIED_BYTES_MAX,
        }
    }
}

impl ForkOptions {
    /// A fork that shares every file, or fails.
    #[must_use]
    pub fn new() -> ForkOptions {
        ForkOptions::default()
    }

    /// Sets whether files that cannot be linked are copied. The fork then takes time and space for
    /// them; [`ForkSummary::bytes_copied`] says how many bytes.
    #[must_use]
    pub fn copy_if_needed(mut self, yes: bool) -> Self {
        self.copies = yes;
        self
    }

    /// Sets the most bytes of chunks' logs that are copied in place of sharing their files: for
    /// tests, in which databases are small.
    #[doc(hidden)]
    #[must_use]
    pub fn copied_log_bytes(mut self, bytes: u64) -> Self {
        self.copied_bytes = bytes;
        self
    }
}

impl Db {
    /// Makes a fork of the database in directory `dir`: a database that opens like any other, is
    /// written like any other, and shares its files with this one by hard links, in a time that
    /// does not depend on the size of the data. Writers go on meanwhile. The fork is one moment of
    /// this database: it holds everything that was acknowledged before the call, and a prefix of
    /// the writes during the call; batches are whole. On return it survives power loss, at every
    /// durability level.
    ///
    /// Both databases are independent afterwards: either may be written, moved, forked, or deleted.
    /// What one of them changes takes space of its own. The call waits for a checkpoint, which
    /// writes what lies in RAM alone, so that it is fastest after a [`flush`](Self::flush).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path().join("main"))?;
    /// db.put("plan", "a")?;
    /// db.fork(dir.path().join("trial"))?;
    ///
    /// let trial = evendb::Db::open(dir.path().join("trial"))?;
    /// trial.put("plan", "b")?;
    /// assert_eq!(db.get("plan")?.unwrap(), b"a");
    /// # Ok::<(), evendb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `CannotLink` if the file system does not link a file into `dir`: another file system, one
    /// without links, or too many links of a file. `AlreadyExists` if `dir` exists and is not an
    /// empty directory; `InvalidArgument` if it lies inside a database's directory or a directory
    /// with backups; `NoSpace` and `Io` for failures of either disk. The target is removed then,
    /// and this database goes on. Otherwise the errors of [`flush`](Self::flush).
    #[doc(alias = "clone")]
    #[doc(alias = "branch")]
    pub fn fork(&self, dir: impl AsRef<Path>) -> Result<ForkSummary> {
        self.fork_with(dir, &ForkOptions::new())
    }

    /// Like [`fork`](Self::fork), with options.
    ///
    /// # Errors
    /// The errors of [`fork`](Self::fork).
    pub fn fork_with(&self, dir: impl AsRef<Path>, options: &ForkOptions) -> Result<ForkSummary> {
        let recording = &self.engine().core.recording;
        recording.other("fork", || fork_into(self.engine(), dir.as_ref(), *options))
    }
}

fn fork_into(engine: &Engine, dir: &Path, options: ForkOptions) -> Result<ForkSummary> {
    let _inside = engine.core.health.enter_writable()?;
    placement::refuse_inside(&*engine.disk.vfs, dir, "a fork")?;
    let how = CopyOptions::new().verify(CopyCheck::Nothing);
    let files = |engine: &Engine, wanted: Wanted<'_>| -> Option<Sharing> {
        Some(from_source(engine, wanted))
    };
    let files: &SharesWith<'_> = &files;
    let sources = Sources {
        files,
        containers: &|engine| share_containers(engine, options.copied_bytes),
        links_only: !options.copies,
    };
    let made = copy_to(engine, dir, &how, &sources, Mark::Goes)?;
    Ok(ForkSummary {
        files_linked: made.tables_linked + made.values_linked + made.containers_linked,
        bytes_linked: made.bytes_linked,
        tables_copied: made.tables_copied,
        bytes_copied: made.bytes_copied,
        elapsed: made.elapsed,
    })
}

/// The error for a file that the file system does not link.
pub(super) fn cannot_link(to: &Path, reason: io::Error) -> Error {
    let message = format!(
        "the file system makes no hard link {}, and a fork shares its files with its parent; fork \
         into a directory on the parent's file system, or have the files copied \
         (ForkOptions::copy_if_needed, Db::copy_to, `evendb fork --copy`)",
        to.display()
    );
    Error::with_source(ErrorKind::CannotLink, message, reason)
}

/// The containers that a fork shares, all of them sealed. The caller has the checkpoint mutex.
fn share_containers(engine: &Engine, copied_bytes: u64) -> Result<BTreeSet<u64>> {
    let (written, live) = engine.disk.manifest().with_state(|state| {
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for part in state.chunks.values().flat_map(|chunk| &chunk.parts) {
            if let Place::Extent { offset } = part.place
                && seen.insert(part.table)
            {
                let bytes = live.entry(in_container(offset).0).or_default();
                *bytes += part.meta.len;
            }
        }
        (state.container, live)
    });
    let mut shared = worth_sharing(&live, copied_bytes);
    if shared.contains(&written) {
        match written < CONTAINER_MAX {
            true => seal(engine, written + 1)?,
            // No number is left for the next one: all runs of the last one are copied.
            false => drop(shared.remove(&written)),
        }
    }
    Ok(shared)
}

/// The containers, of these with their bytes of runs, that are left when the runs of the smallest
/// ones are copied, of `copied_bytes` at most.
fn worth_sharing(live: &BTreeMap<u64, u64>, copied_bytes: u64) -> BTreeSet<u64> {
    let mut by_bytes: Vec<(u64, u64)> = live.iter().map(|(&own, &bytes)| (bytes, own)).collect();
    by_bytes.sort_unstable();
    let mut left = copied_bytes;
    let is_copied = |&(bytes, _): &(u64, u64)| match left.checked_sub(bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let copied = by_bytes.iter().copied().take_while(is_copied).count();
    by_bytes[copied..].iter().map(|&(_, own)| own).collect()
}

/// Begins container `number`, durably. If that fails before the manifest may have it, nothing is
/// changed, except after a sync that failed: that latches, as everywhere.
fn seal(engine: &Engine, number: u64) -> Result<()> {
    let disk = &engine.disk;
    let path = container_path(&disk.dir, number);
    let create = || disk.vfs.create(&path);
    let file = create().or_else(|error| match error.kind() {
        // An earlier fork failed here, and could not remove it. Nothing names it.
        io::ErrorKind::AlreadyExists => disk.vfs.remove(&path).and_then(|()| create()),
        _ => Err(error),
    });
    let file = file.map_err(failed(&path, "create the next logs of chunks"))?;
    let latches = Cell::new(false);
    let publish = || -> evendb_storage::Result<()> {
        // Something may have failed while this waited for writers of runs.
        let healthy = engine.core.health.check_healthy().map_err(io::Error::other);
        healthy.map_err(evendb_storage::Error::at(
            &path,
            "begin the next logs of chunks",
        ))?;
        // The name comes first: the edit needs the file.
        let synced = disk.vfs.sync_dir(&disk.dir);
        latches.set(synced.is_err());
        synced.map_err(evendb_storage::Error::at(&disk.dir, "sync the directory"))?;
        let bytes = disk.manifest().flush(vec![Change::Container { number }]);
        // Without room, nothing was written.
        let refused = bytes.as_ref().err().map(evendb_storage::Error::kind);
        latches.set(refused.is_none_or(|kind| !kind.is_for_want()));
        engine.core.metrics.bytes_manifest.add(bytes?);
        Ok(())
    };
    let sealed = disk.container.seal((number, file), &publish);
    sealed.map_err(|error| match latches.get() {
        // The next opening knows whether the manifest has the edit.
        true => engine.core.health.latch(error.into()),
        false => {
            let _ = disk.vfs.remove(&path);
            let healthy = engine.core.health.check_healthy();
            healthy.err().unwrap_or_else(|| error.into())
        }
    })
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_smallest_containers_are_copied_up_to_a_limit() {
        let shared = |live: &[u64]| {
            let live = live.iter().enumerate();
            let live = live.map(|(number, &bytes)| (number as u64, bytes));
            worth_sharing(&live.collect(), COPIED_BYTES_MAX)
                .into_iter()
                .collect::<Vec<_>>()
        };
        let most = COPIED_BYTES_MAX;
        assert_eq!(shared(&[]), []);
        assert_eq!(shared(&[most]), []);
        assert_eq!(shared(&[most + 1]), [0]);
        assert_eq!(shared(&[most / 2, most / 2]), []);
        assert_eq!(shared(&[most, 5, most]), [0, 2]);
        assert_eq!(shared(&[most / 2, u64::MAX, most / 2, 1]), [1, 2]);
    }
}
