//! A node's directory: the log, the state and the shelf of snapshots, and what ties them together.
//!
//! ```text
//! DIR/log         a database at level sync            ([`crate::log`])
//! DIR/state       a database at level relaxed         ([`crate::state`])
//! DIR/snapshots   at most one snapshot that counts    ([`crate::snapshot`])
//!
//!   purge: log hides --> checkpoint of the state --> log deletes
//! ```
//! Invariants: the log is never deleted past what a checkpoint of the state holds, so after any
//! crash the state and the log together have everything. No snapshot on the shelf is ahead of what
//! a checkpoint of the state holds: openraft begins with the state, and takes what a snapshot has
//! for applied.
//!
//! Thread safety: any thread. Not here: types of a consensus library (`openraft09`).

use crate::log::{Log, Mark};
use crate::snapshot::shelf::{Kept, Shelf};
use crate::snapshot::{Reader, Writer};
use crate::state::{Applied, Declared, Moment, State};
use evendb::vfs::{File, OsVfs, Vfs};
use evendb::{Durability, Error, ErrorKind, KeyspaceOptions, Options, Result};
use std::path::Path;
use std::sync::Arc;

/// How a node's directory is opened.
#[derive(Clone)]
pub struct Config {
    log: Options,
    state: Options,
    vfs: Arc<dyn Vfs>,
    declared: Vec<Declared>,
    changes_kept: u64,
    is_inline: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// No keyspaces, no changes kept, and EvenDB's own defaults for both databases.
    pub fn new() -> Config {
        Config {
            log: Options::new(),
            state: Options::new(),
            vfs: Arc::new(OsVfs),
            declared: Vec::new(),
            changes_kept: 0,
            is_inline: false,
        }
    }

    /// Adds a keyspace of the state. All nodes declare the same.
    #[must_use]
    pub fn keyspace(self, name: &str) -> Config {
        self.keyspace_with(name, KeyspaceOptions::new())
    }

    /// Adds a keyspace of the state with options. A time to live is refused at the opening.
    #[must_use]
    pub fn keyspace_with(mut self, name: &str, options: KeyspaceOptions) -> Config {
        self.declared.push(Declared {
            name: name.to_owned(),
            options,
        });
        self
    }

    /// Keeps the effects of this number of last entries, for the feed of changes.
    #[must_use]
    pub fn keep_changes(mut self, entries: u64) -> Config {
        self.changes_kept = entries;
        self
    }

    /// Sets options of the log's database. Its level stays sync.
    #[must_use]
    pub fn log_options(mut self, set: impl FnOnce(Options) -> Options) -> Config {
        self.log = set(self.log);
        self
    }

    /// Sets options of the state's database. Its level stays relaxed.
    #[must_use]
    pub fn state_options(mut self, set: impl FnOnce(Options) -> Options) -> Config {
        self.state = set(self.state);
        self
    }

    /// Does everything that blocks in the calling task. For tests whose seeds replay.
    #[doc(hidden)]
    #[must_use]
    pub fn inline(mut self) -> Config {
        self.is_inline = true;
        self
    }

    /// For tests: the tree of files in which the node lives.
    #[doc(hidden)]
    #[must_use]
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Config {
        self.vfs = vfs;
        self
    }
}

/// A node's storage, free of types of a consensus library.
#[derive(Debug)]
pub struct Store {
    /// The Raft log.
    pub log: Log,
    /// The state. Shared with its feeds.
    pub state: Arc<State>,
    /// The snapshots.
    pub shelf: Shelf,
    pub(crate) is_inline: bool,
}

impl Store {
    /// Opens or creates a node's directory. Blocks.
    ///
    /// # Errors
    /// `Locked` if it is open already, and all errors of opening databases.
    pub fn open(dir: &Path, config: Config) -> Result<Store> {
        let options = |options: Options, level| options.vfs(config.vfs.clone()).durability(level);
        let state = options(config.state, Durability::Relaxed).open(dir.join("state"))?;
        let state = State::new(state, config.declared, config.changes_kept)?;
        let log = options(config.log, Durability::Sync).open(dir.join("log"))?;
        // What an opening finds at level relaxed is a checkpoint.
        let log = Log::new(log, state.applied_index())?;
        let shelf = Shelf::open(config.vfs, dir.join("snapshots"))?;
        // A crash came between an install and its place on the shelf, or before the log's purge.
        let begin = log.purged().map(|mark| mark.index);
        let applied = state.applied_index();
        let begin = begin.max(applied.filter(|_| log.last_stored() < applied));
        shelf.forget_below(begin)?;
        Ok(Store {
            log,
            state: Arc::new(state),
            shelf,
            is_inline: config.is_inline,
        })
    }

    /// Closes both databases: everything is durable then. Blocks. The last drop does the same.
    ///
    /// # Errors
    /// Those of `Db::close`.
    pub fn close(&self) -> Result<()> {
        self.state.db().clone().close()?;
        self.log.db().clone().close()
    }

    /// Purges the log; what the state does not hold durably stays until [`Store::checkpoint`].
    /// Returns whether all of it is deleted.
    ///
    /// # Errors
    /// Those of commits.
    pub async fn purge(&self, mark: Mark) -> Result<bool> {
        self.log.purge(mark).await
    }

    /// Makes a checkpoint of the state, and deletes what the log was asked to purge up to there.
    ///
    /// # Errors
    /// Those of `Db::persist` and of commits.
    pub async fn checkpoint(&self) -> Result<()> {
        let held = self.state.persist().await?;
        self.log.state_holds(held);
        self.log.settle().await
    }

    /// Writes a snapshot of this moment to the shelf. A checkpoint of the state holds the moment
    /// before the snapshot counts. Blocks.
    ///
    /// # Errors
    /// Those of reads and of `Db::persist`, `Io`, `NoSpace`.
    pub fn write_snapshot(&self, moment: &Moment) -> Result<Kept> {
        let part = self.shelf.new_part()?;
        let written = Writer::new(part.clone(), moment.applied()).and_then(|mut writer| {
            writer.moment(moment)?;
            writer.finish()
        });
        let kept = written.and_then(|_| {
            self.state.db().persist()?;
            let held = moment.applied().last.as_ref().map(|(index, _)| *index);
            self.log.state_holds(held);
            self.shelf.keep(part.clone())
        });
        if kept.is_err() {
            self.shelf.discard(part.path());
        }
        kept
    }

    /// Replaces the state by a snapshot, which then is the one on the shelf. `expected` is what its
    /// sender said that it is about. Blocks.
    ///
    /// # Errors
    /// `Corruption` if the file does not verify or is about something else, and those of
    /// [`State::install`].
    pub fn install(&self, file: &Arc<dyn File>, expected: &Applied) -> Result<Kept> {
        let installed = self.install_file(file, expected);
        match &installed {
            Ok(kept) => {
                self.log
                    .state_holds(kept.about.last.as_ref().map(|(index, _)| *index));
            }
            Err(error) => {
                self.log.state_failed(error.clone());
                self.shelf.discard(file.path());
            }
        }
        installed
    }

    fn install_file(&self, file: &Arc<dyn File>, expected: &Applied) -> Result<Kept> {
        let mut reader = Reader::new(file.clone())?;
        if reader.about() != expected {
            let path = file.path().display();
            let message = format!("{path}: a snapshot that is not about what its sender said");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.state.install(&mut reader, expected.clone())?;
        self.shelf.keep(file.clone())
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}
