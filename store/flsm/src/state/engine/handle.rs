//! [`Handle`]: keeps a database open. All public handles share one. When the last of them is gone,
//! the database closes silently.

use super::Engine;
use crate::error::Result;
use evendb_base::fork;
use evendb_base::sync::Arc;

pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    close: fn(&Engine) -> Result<()>,
}

impl Handle {
    /// The handle of a database that the function `close` closes.
    pub(crate) fn new(engine: Arc<Engine>, close: fn(&Engine) -> Result<()>) -> Arc<Handle> {
        Arc::new(Handle { engine, close })
    }

    pub(crate) fn close(&self) -> Result<()> {
        (self.close)(&self.engine)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if fork::is_child() {
            // The parent has it open. The child's copy is leaked, because threads that are not in
            // the child may hold its locks.
            std::mem::forget(self.engine.clone());
            return;
        }
        // Nobody is left who could get the error.
        let _ = self.close();
    }
}
