//! Reading beside the process that writes, on the public handles.

use crate::api::db::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use std::path::Path;

impl Options {
    /// Opens a database for reading, also while another process writes to it: what the writer's
    /// last checkpoint made durable, as one moment that does not change. [`Db::refresh`] goes on to
    /// a newer moment, and [`Db::changes_since`] gives what the writer has written since.
    ///
    /// It takes no lock, writes nothing, removes nothing, and needs no more than permission to
    /// read; the writer does not notice it. So the writer may replace what this opening sees. Then
    /// a read fails with [`ErrorKind::Stale`], and never gives wrong bytes; a newer moment has what
    /// is there now. Options that are about writing have no effect.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::{Db, Options};
    ///
    /// let writer = Db::open(dir.path())?; // usually in another process
    /// writer.put("k", "1")?;
    /// writer.flush()?;
    /// let reader = Options::new().open_beside_writer(dir.path())?;
    /// writer.put("k", "2")?;
    /// writer.flush()?;
    /// assert_eq!(reader.get("k")?.unwrap(), "1");
    /// let reader = reader.refresh()?;
    /// assert_eq!(reader.get("k")?.unwrap(), "2");
    /// # Ok::<(), evendb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] if the writer went on during each of a hundred attempts; and the errors
    /// of [`open`](Self::open) for reading only, without [`ErrorKind::Locked`].
    #[doc(alias = "open_as_secondary")]
    pub fn open_beside_writer(mut self, path: impl AsRef<Path>) -> Result<Db> {
        self.read_only = true;
        self.beside_writer = true;
        self.open(path)
    }
}

impl Db {
    /// For a database that was opened by [`Options::open_beside_writer`]: the same database at the
    /// writer's last checkpoint. If that is the moment that this handle shows, it is the same
    /// opening; otherwise it is a new one, with caches of its own, which takes about the time of an
    /// opening. This handle, and keyspaces, snapshots and iterators of it, stay at their moment.
    ///
    /// # Errors
    /// The errors of [`Options::open_beside_writer`]; [`ErrorKind::InvalidArgument`] if the
    /// database was opened in another way.
    #[doc(alias = "try_catch_up_with_primary")]
    pub fn refresh(&self) -> Result<Db> {
        let engine = self.engine();
        let refresh = || {
            engine.core.health.check_readable()?;
            let Some(found) = &engine.log.history.found else {
                let message = "only a database that reads beside its writer is refreshed \
                               (Options::open_beside_writer); this one sees each write at once";
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            };
            // A manifest that cannot be read now is for the opening to judge.
            match found.beside.is_newest() {
                Ok(true) => Ok(self.clone()),
                _ => Db::open_with(&engine.disk.dir, engine.core.options.clone()),
            }
        };
        engine.core.recording.other("refresh", refresh)
    }
}
