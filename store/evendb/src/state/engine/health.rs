//! Whether the database may be used: it is open, and has not failed.
//!
//! The first failed write or sync **latches**: from then on every write is refused, because it is
//! no longer known what the disk holds. Reading goes on.
//!
//! **Closing.** Every public call that writes or reads files enters ([`Health::enter`]) before it
//! does; closing shuts the gate and waits for the calls that are inside. Calls that RAM alone
//! answers use [`Health::check_readable`].
//!
//! **Wakers.** A call that ends wakes the tasks that it, or another thread, found under locks to be
//! able to go on ([`Due`]): in calls, the result of `enter` is declared before every lock, and so
//! it is dropped after them.
//!
//! Thread safety: any thread. Not here: other reasons to refuse a call (no room, a dropped
//! keyspace), and what a failure wakes ([`Health::when_failed`] gets that).

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, OnceLock};
use crate::{fork, trace};
use evendb_base::gate::{Gate, Held, Inside, Mark};
use evendb_base::wakers::Due;
use std::path::{Path, PathBuf};

type Wake = Box<dyn Fn(&Error) + Send + Sync>;

/// See the module.
pub(crate) struct Health {
    dir: PathBuf,
    read_only: bool,
    failure: OnceLock<Error>,
    gate: Arc<Gate>,
    /// Wakes every waiting thread. It is not a lock of the seam: it is set before a second thread
    /// can see it.
    wake: std::sync::OnceLock<Wake>,
    /// The wakers of feeds that are due; set, where there is a log, as `wake` is.
    due: std::sync::OnceLock<Arc<Due>>,
}

/// A call that is under way. When this is dropped, it has left, and holds no lock.
#[must_use = "the call has left when this is dropped"]
pub(crate) struct Entered<'h> {
    _inside: Inside<'h>,
    /// Dropped second.
    _ends: Ends<'h>,
}

struct Ends<'h>(&'h Health);

impl Drop for Ends<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.due().is_some() {
            self.0.call_ends();
        }
    }
}

impl Health {
    /// The health of the database in `dir`, which is open from now on.
    pub(crate) fn new(dir: &Path, read_only: bool) -> Health {
        Health {
            dir: dir.to_path_buf(),
            read_only,
            failure: OnceLock::new(),
            gate: Arc::default(),
            wake: std::sync::OnceLock::new(),
            due: std::sync::OnceLock::new(),
        }
    }

    /// The wakers that calls wake when they end. Only the first call counts.
    pub(crate) fn set_due(&self, due: Arc<Due>) {
        let _ = self.due.set(due);
    }

    /// The wakers that are due, if there are any.
    #[inline]
    pub(crate) fn due(&self) -> Option<&Arc<Due>> {
        self.due.get().filter(|due| due.is_any())
    }

    /// Wakes what is due. The caller holds no lock.
    pub(crate) fn wake_due(&self) {
        if let Some(due) = self.due() {
            // A waker may drop the last handle. This thread counts as inside, so that another
            // one closes the database.
            let _own = self.mark();
            due.wake();
        }
    }

    /// The end of a call, or of a poll. Within another call, that one wakes, and a thread of the
    /// database wakes between two pieces of its work: either may hold locks here.
    #[cold]
    pub(crate) fn call_ends(&self) {
        if !fork::is_child() && !self.is_inside() {
            self.wake_due();
        }
    }

    /// Sets the function that a failure calls to wake threads. Only the first call counts.
    pub(crate) fn when_failed(&self, wake: impl Fn(&Error) + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_shut()
    }

    /// Begins a call that touches files. Until the result is dropped, the directory stays this
    /// database's.
    ///
    /// A call that is inside finishes, or gives up with `Closed` if it would take long
    /// ([`Health::check_readable`]).
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        fork::check()?;
        Ok(Entered {
            _inside: self.gate.enter()?,
            _ends: Ends(self),
        })
    }

    /// Like [`Health::enter`], for a call that writes.
    pub(crate) fn enter_writable(&self) -> Result<Entered<'_>> {
        let inside = self.enter()?;
        self.check_writable()?;
        Ok(inside)
    }

    /// Like [`Health::enter`], for a helper of a call.
    pub(crate) fn hold(&self) -> Result<Held> {
        self.gate.hold()
    }

    /// Marks a thread as one of the database.
    pub(crate) fn mark(&self) -> Mark {
        self.gate.mark()
    }

    /// Whether closing waits for this thread.
    pub(crate) fn is_inside(&self) -> bool {
        self.gate.is_inside()
    }

    /// Whether no call is under way that closing would wait for.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.gate.is_empty()
    }

    /// Closes the database for new calls, wakes calls that only wait, waits for all that are
    /// inside, and runs `last` ([`Gate::close`]).
    pub(crate) fn close(
        &self,
        wake: impl FnOnce(),
        last: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.gate.close(wake, last)
    }

    /// The failure that latched the database, if one did.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// The first check of every public call, before it takes a lock or allocates.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        fork::check()?;
        if self.is_closed() {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Whether a write may begin. Asked again after announcing, so that closing and failing can
    /// wait for announced writes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_readable()?;
        if self.read_only {
            let message = format!(
                "the database in {} is open for reading only; open it without read_only to write",
                self.dir.display()
            );
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        self.check_healthy()
    }

    /// Whether nothing has failed so far.
    pub(crate) fn check_healthy(&self) -> Result<()> {
        match self.failure() {
            Some(cause) => Err(Error::latched(cause)),
            None => Ok(()),
        }
    }

    /// Whether files that no edit names may be removed. They may not after a failure, because it is
    /// then unknown which files the manifest on disk names.
    pub(crate) fn may_remove(&self) -> bool {
        !self.read_only && self.failure().is_none()
    }

    /// Stops all writes for good: the first failed write or sync. Wakes every waiter. Returns the
    /// error it was given.
    pub(crate) fn latch(&self, cause: Error) -> Error {
        if cause.kind() == ErrorKind::Latched || self.failure.set(cause.clone()).is_err() {
            return cause;
        }
        trace::event!(ERROR, "latched", cause = &*cause.to_string());
        if let Some(wake) = self.wake.get() {
            wake(&cause);
        }
        cause
    }

    /// Passes on the error of a manifest that could not be written. A full disk or a lack of
    /// descriptors is no failure; any other error latches.
    pub(crate) fn latch_unless_full(&self, error: evendb_storage::Error) -> Error {
        if error.kind().is_for_want() {
            return error.into();
        }
        self.latch(error.into())
    }
}
