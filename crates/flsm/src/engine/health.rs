//! [`Health`]: whether the database still takes calls.
//!
//! The first failure after which it is not known what the disk holds latches it: no write begins any more, reads go on. Closing
//! ends both.

use crate::error::{Error, ErrorKind, Result};
use evendb_base::fork;
use evendb_base::sync::Mutex;
use evendb_base::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Health {
    read_only: bool,
    closed: AtomicBool,
    /// Set after `cause`, with Release; loaded with Acquire.
    latched: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// Of a database that takes writes, or none.
    pub(crate) fn new(read_only: bool) -> Health {
        Health {
            read_only,
            ..Health::default()
        }
    }

    /// Refuses all calls from now on. Whether this one did it.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// The first thing that every public call does, before it takes a lock.
    pub(crate) fn check_readable(&self) -> Result<()> {
        fork::check()?;
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_readable()?;
        if self.read_only {
            let message = "the database was opened for reading only";
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        self.check_latched()
    }

    pub(crate) fn check_latched(&self) -> Result<()> {
        match self.latched.load(Ordering::Acquire) {
            true => Err(self.latched()),
            false => Ok(()),
        }
    }

    pub(crate) fn latch(&self, cause: &Error) {
        let cause = match cause.kind() {
            ErrorKind::Latched => return,
            _ => cause.clone(),
        };
        self.cause.lock().get_or_insert(cause);
        self.latched.store(true, Ordering::Release);
    }

    #[cold]
    fn latched(&self) -> Error {
        let cause = self.cause.lock();
        cause.as_ref().map_or_else(Error::closed, Error::latched)
    }
}
