//! Traces on the public handles: what is recorded, and when a trace ends.

use crate::api::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use evendb_base::placement;
use evendb_storage::signals::without_signals;
use evendb_storage::vfs::OsVfs;
use evendb_trace::{Recorder, RecorderOptions};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a trace records, and where: see [`Db::start_trace`].
#[derive(Clone, Debug)]
pub struct TraceOptions {
    path: PathBuf,
    recorder: RecorderOptions,
    of_encrypted: bool,
}

impl TraceOptions {
    /// A trace in the file `path`, which must not exist: every operation with its key, no values,
    /// at most 4 GiB.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> TraceOptions {
        TraceOptions {
            path: path.as_ref().to_owned(),
            recorder: RecorderOptions::default(),
            of_encrypted: false,
        }
    }

    /// Records one key in `keys`, chosen by a hash: all operations of these keys, and none of
    /// others. 100 costs next to nothing, and shows the same frequencies of keys as a whole trace.
    /// Scans, deletions of ranges and pops are chosen by the key where they begin.
    #[must_use]
    pub fn one_key_in(mut self, keys: u64) -> Self {
        self.recorder.one_in = keys;
        self
    }

    /// The largest number of bytes of the file. Later operations are counted and not recorded.
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.recorder.bytes_max = bytes;
        self
    }

    /// Reads are recorded with a hash of the value that they found, so that a replay can compare
    /// it. Hashing reads the whole value.
    #[must_use]
    pub fn value_hashes(mut self, yes: bool) -> Self {
        self.recorder.has_hashes = yes;
        self
    }

    /// Writes are recorded with their values, up to 256 KiB each. Without this, with the values'
    /// lengths.
    #[must_use]
    pub fn values(mut self, yes: bool) -> Self {
        self.recorder.has_values = yes;
        self
    }

    /// Says that a trace of an encrypted database is wanted although the trace is not encrypted: it
    /// has the keys in plain.
    #[must_use]
    pub fn of_encrypted(mut self, yes: bool) -> Self {
        self.of_encrypted = yes;
        self
    }
}

/// A trace that is being recorded. Dropping it ends the trace, too, and reports nothing.
#[must_use = "the trace ends when this is dropped"]
pub struct Trace {
    recorder: Option<Recorder>,
    /// The process with the thread that writes it. A forked child may have opened a database of its
    /// own since, and [`fork`] then no longer takes it for a child.
    process: u32,
}

/// The result of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Operations in the file.
    pub recorded: u64,
    /// Operations that were left out because the file had reached its size.
    pub dropped_full: u64,
    /// Operations that were left out because they came faster than the file took them.
    pub dropped_behind: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The time for which it was recorded.
    pub duration: Duration,
}

impl Db {
    /// Records the operations on the database from now on, through all handles, until the [`Trace`]
    /// is stopped or dropped. Only one trace is recorded at a time. `evendb trace` shows it, and
    /// `evendb replay` repeats it against any store; docs/tracing.md describes its content.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::{Db, TraceOptions};
    /// let db = Db::open(dir.path().join("db"))?;
    /// let trace = db.start_trace(TraceOptions::new(dir.path().join("db.trace")))?;
    /// db.put("k", "v")?;
    /// db.get("k")?;
    /// assert_eq!(trace.stop()?.recorded, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` for an existing file; `InvalidArgument` while another trace is recorded, for
    /// an encrypted database without [`TraceOptions::of_encrypted`], and for a file inside a
    /// database's directory or a directory with backups; `Io`, `Closed`.
    pub fn start_trace(&self, options: TraceOptions) -> Result<Trace> {
        fork::check()?;
        let engine = self.engine();
        let core = &engine.core;
        let _inside = core.health.enter()?;
        let is_encrypted = core.options.advanced.encryption.is_some();
        if is_encrypted && !options.of_encrypted {
            let message = "a trace is not encrypted, and has the database's keys in plain: say so by \
                           TraceOptions::of_encrypted, or record none";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let path = options.path;
        placement::refuse_inside(&OsVfs, &path, "a trace")?;
        if core.recording.slot.is_on() {
            return Err(already_recording());
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|error| cannot_write(&path, error))?;
        let mut recorder = options.recorder;
        recorder.source = "evendb".to_owned();
        recorder.wall_clock_millis = core.clock.expiry.now().0;
        let catalog = engine.catalog.lock();
        let names = catalog.values();
        recorder.keyspaces = names
            .map(|state| (state.id.0, state.name().to_owned()))
            .collect();
        drop(catalog);
        // It starts a thread.
        let start = || Recorder::start(&core.recording.slot, file, recorder);
        let recorder = without_signals(start);
        let recorder = recorder.map_err(|error| match error.kind() {
            evendb_trace::ErrorKind::AlreadyRecording => already_recording(),
            _ => Error::with_source(ErrorKind::Io, "a trace could not be begun", error),
        })?;
        Ok(Trace {
            recorder: Some(recorder),
            process: std::process::id(),
        })
    }
}

fn already_recording() -> Error {
    let message = "a trace of this database is being recorded already: stop it first";
    Error::new(ErrorKind::InvalidArgument, message)
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::Io,
    };
    let message = format!("the trace {} cannot be made", path.display());
    Error::with_source(kind, message, error)
}

impl Trace {
    fn is_of_parent(&self) -> bool {
        fork::is_child() || self.process != std::process::id()
    }

    /// Ends the trace: operations that ended before this call are in the file.
    ///
    /// # Errors
    /// `Io` with the first failure of a write, after which nothing was recorded; `Forked` in a
    /// forked child.
    pub fn stop(mut self) -> Result<TraceSummary> {
        if self.is_of_parent() {
            return Err(Error::forked());
        }
        let recorder = self.recorder.take();
        let stopped = recorder.map(Recorder::stop).transpose();
        let failed = |error| Error::with_source(ErrorKind::Io, "the trace is not whole", error);
        let summary = stopped.map_err(failed)?.unwrap_or_default();
        Ok(TraceSummary {
            recorded: summary.recorded,
            dropped_full: summary.dropped_full,
            dropped_behind: summary.dropped_behind,
            file_bytes: summary.file_bytes,
            duration: summary.duration,
        })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.is_of_parent()
            && let Some(recorder) = self.recorder.take()
        {
            recorder.forget();
        }
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trace")
    }
}
