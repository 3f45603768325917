//! The change feed on the public handles.

use crate::api::db::Db;
use crate::api::snapshot::Snapshot;
use crate::changes::{self, Changes, Position};
use crate::error::Result;

impl Db {
    /// The writes since `position`, in the order of the commit log: each put, delete, batch and
    /// transaction is one whole [`Change`](crate::Change). A change is given when a get finds it,
    /// and at the [`Sync`](crate::Durability::Sync) level when it is durable. The feed ends where
    /// the log ends now, and can wait for more ([`Changes::wait`]).
    ///
    /// The log keeps changes until it has gone round, and at least the changes since the last
    /// checkpoint; the changes of a large write at least until the next checkpoint. A feed holds up
    /// no write. A feed that falls behind too far gets an error: then begin again from a snapshot
    /// and its [position](Snapshot::position).
    ///
    /// Making and dropping a keyspace are no changes. Changes of dropped keyspaces are left out. So
    /// a replica looks at the existing keyspaces each time it has come to the end of the feed
    /// ([`keyspace_names`](Self::keyspace_names), and [`Keyspace::id`](crate::Keyspace::id) of
    /// each). It drops keyspaces of its own that no longer exist or have another number. It makes
    /// the keyspaces that it lacks, with the same [options](crate::Keyspace::options) and
    /// properties.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// // A cache: filled from a snapshot, then kept up to date without a gap.
    /// let snapshot = db.snapshot()?;
    /// let mut feed = db.changes_since(&snapshot.position()?)?;
    /// db.put("k", "v")?;
    /// let change = feed.next().expect("there is one")?;
    /// let write = change.writes().next().expect("it has one");
    /// assert_eq!((write.key, write.value), (&b"k"[..], Some(&b"v"[..])));
    /// assert!(feed.next().is_none());
    /// # Ok::<(), evendb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ChangesGone` if the changes are not kept any more; `ChangesLost` if a crash took back what
    /// lies before the position, or if it is of another database; `Unsupported` without a commit
    /// log (at the relaxed level); `InvalidArgument` for a position that nothing gave; `Io`,
    /// `Corruption`, `Closed`. The feed gives the same errors.
    pub fn changes_since(&self, position: &Position) -> Result<Changes> {
        let since = || Changes::begin(self.shared_handle(), position, None);
        self.engine().core.recording.other("changes_since", since)
    }

    /// The current end of all changes: calls that have returned lie before it, and calls that
    /// begin later lie after it.
    ///
    /// # Errors
    /// `Unsupported` without a commit log, `Closed`.
    pub fn position(&self) -> Result<Position> {
        self.snapshot()?.position()
    }

    /// The oldest position from which the log has every change to its end at this moment. The call
    /// reads the log for it, a fiftieth of a second for 64 MiB. Changes after the position are kept
    /// until the log has gone round to it. A change of a value that lies apart
    /// ([`Advanced::values_apart_from`](crate::Advanced::values_apart_from)) may be gone earlier,
    /// with the file of the value.
    ///
    /// # Errors
    /// `Unsupported` without a commit log, `Io`, `Closed`.
    pub fn oldest_position(&self) -> Result<Position> {
        let oldest = || changes::oldest_position(self.engine());
        let recording = &self.engine().core.recording;
        recording.other("oldest_position", oldest)
    }
}

impl Snapshot {
    /// The position of this moment in the order of all changes: a change lies after it if and only
    /// if this snapshot does not have it. So a copy that is filled from the snapshot and then
    /// follows [`Db::changes_since`] misses nothing and sees nothing twice.
    ///
    /// # Errors
    /// `Unsupported` if the database has no commit log.
    pub fn position(&self) -> Result<Position> {
        changes::position_of(&self.moment)
    }
}
