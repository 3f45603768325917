//! [`Health`]: whether the database still takes calls.
//!
//! The first failure after which the state of the disk is not known latches the database: no write
//! begins any more, and reads go on. Closing ends both. Every call that writes files enters first
//! ([`Health::enter`]), and closing waits for the calls that are inside.
//!
//! Reads do not enter. A table's file is whole and never changes, and a removed file can be read as
//! long as it is open. So a read during closing returns the right result, or it fails to open a
//! file. [`Health::of_read`] turns that failure into `Closed`.

use crate::error::{Error, ErrorKind, Result};
use evendb_base::fork;
use evendb_base::gate::{Gate, Inside};
use evendb_base::sync::Mutex;
use evendb_base::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Health {
    read_only: bool,
    gate: Gate,
    /// Set after `cause`, with Release; loaded with Acquire.
    latched: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Health {
    /// The health of a database that takes writes, unless it is opened read-only.
    pub(crate) fn new(read_only: bool) -> Health {
        Health {
            read_only,
            ..Health::default()
        }
    }

    /// Begins a call that writes files. Until the result is dropped, the directory stays this
    /// database's.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        fork::check()?;
        let inside = self.gate.enter()?;
        self.check_writable()?;
        Ok(inside)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_shut()
    }

    /// Whether no call is running that closing would wait for.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.gate.is_empty()
    }

    /// Closes the database for new calls, wakes the calls that only wait, waits for all calls that
    /// are inside, and then runs `last` ([`Gate::close`]).
    pub(crate) fn close(
        &self,
        wake: impl FnOnce(),
        last: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.gate.close(wake, last)
    }

    /// The error that a read returns. If the database is closed, closing has caused the failure.
    #[cold]
    pub(crate) fn of_read(&self, error: Error) -> Error {
        match self.is_closed() {
            true => Error::closed(),
            false => error,
        }
    }

    /// Every public call does this first, before it takes a lock.
    pub(crate) fn check_readable(&self) -> Result<()> {
        fork::check()?;
        match self.is_closed() {
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
