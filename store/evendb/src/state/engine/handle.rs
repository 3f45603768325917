//! [`Handle`]: what keeps a database open.

use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::sync::{Arc, OnceLock, start_thread};

/// Keeps the database open; dropping the last handle closes it.
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    /// Closes the database: a function of a room above this one.
    pub(crate) close: fn(&Engine) -> Result<()>,
    /// The keyspace that cannot be dropped, once it is known: a caller that has the handle needs no
    /// counted reference to it.
    default_keyspace: OnceLock<Arc<KeyspaceState>>,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>, close: fn(&Engine) -> Result<()>) -> Handle {
        Handle {
            engine,
            close,
            default_keyspace: OnceLock::new(),
        }
    }

    /// Called before the handle is given to a caller.
    pub(crate) fn set_default_keyspace(&self, keyspace: &Arc<KeyspaceState>) {
        let first = self.default_keyspace.set(keyspace.clone()).is_ok();
        assert!(first, "a database has one default keyspace");
    }

    #[inline]
    pub(crate) fn default_keyspace(&self) -> &Arc<KeyspaceState> {
        let known = self.default_keyspace.get();
        known.expect("set when the database was opened")
    }

    /// Refuses a keyspace of another database or another opening: its chunks and versions mean
    /// nothing here. `other` and `keyspace` are its engine and name; `what` is the caller's object,
    /// for example a batch or a snapshot.
    #[inline]
    pub(crate) fn check_own(&self, other: &Arc<Engine>, keyspace: &str, what: &str) -> Result<()> {
        // Comparing addresses is safe: the keyspace keeps its engine alive, so no other engine can
        // have that address.
        match Arc::ptr_eq(&self.engine, other) {
            true => Ok(()),
            false => Err(self.stranger(other, keyspace, what)),
        }
    }

    #[cold]
    fn stranger(&self, other: &Arc<Engine>, keyspace: &str, what: &str) -> Error {
        let (own, other) = (&self.engine.disk.dir, &other.disk.dir);
        let whose = match own == other {
            true => "of another opening of the same database".to_owned(),
            false => format!("of the database in {}", other.display()),
        };
        let message = format!(
            "this {what} is of the database in {}, and the keyspace {keyspace:?} is {whose}; ask the \
             database of the {what} for its keyspace",
            own.display()
        );
        Error::new(ErrorKind::InvalidArgument, message)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if fork::is_child() {
            // The parent has it open. The child's copy is leaked, because its locks may be held by
            // threads that do not exist in the child.
            std::mem::forget(self.engine.clone());
            return;
        }
        let (engine, close) = (self.engine.clone(), self.close);
        // The last handle closes silently; `Db::close` returns errors.
        let close = move || drop(close(&engine));
        match self.engine.core.health.is_inside() {
            // The handle was dropped by code of the application that a job called: closing waits
            // for that job. If no thread can be started for closing, the database stays as a crash
            // leaves it, and the directory stays locked as long as the process lives.
            true => drop(start_thread("evendb-close", close)),
            false => close(),
        }
    }
}
