//! [`Handle`]: what keeps a database open. All public handles share one; when the last is gone, it closes silently.

use crate::engine::Engine;
use crate::error::Result;
use crate::worker::{self, Staff};
use evendb_base::sync::Arc;

pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    staff: Staff,
}

impl Handle {
    /// Starts the threads.
    pub(crate) fn new(engine: Engine) -> Result<Arc<Handle>> {
        let engine = Arc::new(engine);
        let staff = Staff::start(&engine)?;
        Ok(Arc::new(Handle { engine, staff }))
    }

    pub(crate) fn close(&self) -> Result<()> {
        worker::close(&self.engine, &self.staff)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.close();
    }
}
