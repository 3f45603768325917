//! Watches on the public handle: the change feed of a key range.

use crate::api::keyspace::Keyspace;
use crate::changes::{Changes, Filter, position_of};
use crate::error::Result;
use crate::read::cursor::{limits, prefix_end};
use crate::read::moment::Moment;
use evendb_storage::Version;
use std::ops::RangeBounds;

impl Keyspace {
    /// The writes to a key range from now on, in the order of the commit log: a change feed
    /// ([`Db::changes_since`](crate::Db::changes_since)) of this range. It waits without polling,
    /// by a thread ([`Changes::next_blocking`]) or a task ([`Changes::next_async`]), and a consumer
    /// that keeps its [position](Changes::position) goes on after a restart
    /// ([`Changes::since`]).
    ///
    /// A put, delete, merge, batch or transaction is given as one [`Change`](crate::Change), with
    /// those of its writes that touch the range; a range deletion is cut to the range. Of what is
    /// passed over nothing is copied. When the keyspace is dropped, the watch ends with
    /// `KeyspaceDropped`. A value that expires is no change: its put says when
    /// ([`Write::expires`](crate::Write::expires)).
    ///
    /// A position does not name the keyspace. So a consumer that stores one stores the keyspace's
    /// [number](Self::id) with it, and begins anew if the number is another one: then the keyspace
    /// was dropped and made again meanwhile.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let jobs = db.keyspace("jobs")?;
    /// let mut watch = jobs.watch("a".."n")?;
    /// jobs.put("zoo", "not watched")?;
    /// jobs.put("bake", "bread")?;
    /// let change = watch.next_blocking()?;
    /// let write = change.writes().next().expect("a change has a write");
    /// assert_eq!((write.key, write.value), (&b"bake"[..], Some(&b"bread"[..])));
    ///
    /// // The same watch from an earlier position on: here from the one after this change.
    /// let mut again = jobs.watch("a".."n")?.since(&change.position())?;
    /// assert!(again.next().is_none());
    /// # Ok::<(), evendb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceDropped`; `Unsupported` without a commit log (at the relaxed level); `Io`,
    /// `Corruption`, `Closed`. The watch gives the errors of a change feed.
    #[doc(alias = "subscribe")]
    pub fn watch<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Changes> {
        let (low, high) = limits(&range);
        self.watch_between(&low, high.as_deref())
    }

    /// The writes to keys that begin with `prefix`, from now on: see [`watch`](Self::watch).
    ///
    /// # Errors
    /// The errors of [`watch`](Self::watch).
    pub fn watch_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Changes> {
        let low = prefix.as_ref();
        self.watch_between(low, prefix_end(low).as_deref())
    }

    fn watch_between(&self, low: &[u8], high: Option<&[u8]>) -> Result<Changes> {
        let watch = || {
            self.state.check_readable_at(Version::MAX)?;
            let moment = Moment::now_in_log(&self.handle)?;
            let now = position_of(&moment)?;
            let filter = Filter::new(&self.state, low, high);
            Changes::begin(&self.handle, &now, Some(filter))
        };
        self.recording().other("watch", watch)
    }
}
