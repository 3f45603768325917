//! One opening of a database, which all handles of it share.
//!
//! Closing is one flag and the engine's own closing: an iterator that still has records of its last
//! chunk looks at the flag before it gives one, so that a closed database never looks like the end
//! of the data. Thread safety: any.

use crate::border::error::{Failure, OrRaise};
use crate::border::held::Held;
use evendb::Db;
use evendb_base::fork;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub(crate) struct Opening {
    db: Held<Db>,
    closed: AtomicBool,
    /// Whether a function of Python may be called by a read or a write. Such calls are made
    /// without the interpreter's lock, whatever they cost: the engine may hold a lock of its own.
    calls_python: AtomicBool,
    pub(crate) path: String,
    pub(crate) mode: String,
}

impl Opening {
    pub(crate) fn new(db: Db, path: String, mode: String) -> Opening {
        Opening {
            db: Held::new(db),
            closed: AtomicBool::new(false),
            calls_python: AtomicBool::new(false),
            path,
            mode,
        }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Refuses a call after `close`, and any call in a forked child.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        fork::check().or_raise(py)?;
        match self.is_closed() {
            false => Ok(()),
            true => Err(Failure::Closed.raised(py, "the database is closed; open it again")),
        }
    }

    /// Closes the database for all its handles; again, it does nothing.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if fork::is_child() {
            // A child only forgets; this is no error, so that `with` can be left.
            return Ok(());
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        py.detach(|| self.db().clone().close()).or_raise(py)
    }

    pub(crate) fn calls_python(&self) -> bool {
        self.calls_python.load(Ordering::Relaxed)
    }

    pub(crate) fn may_call_python(&self) {
        self.calls_python.store(true, Ordering::Relaxed);
    }
}
