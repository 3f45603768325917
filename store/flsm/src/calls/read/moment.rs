//! [`Moment`]: a registered reader. The records that it sees are kept until it is dropped.

use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::Result;
use evendb_base::fork;
use evendb_base::sync::Arc;
use evendb_storage::Version;

pub(crate) struct Moment {
    handle: Arc<Handle>,
    at: Version,
}

impl Moment {
    /// A moment that sees what is shown now.
    pub(crate) fn now(handle: &Arc<Handle>) -> Result<Arc<Moment>> {
        handle.engine.health.check_readable()?;
        Ok(Arc::new(Moment {
            at: handle.engine.clock.register(),
            handle: handle.clone(),
        }))
    }

    pub(crate) fn at(&self) -> Version {
        self.at
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    /// Whether it belongs to the database of this handle.
    pub(crate) fn is_of(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // In a forked child nobody waits for it, and the thread that held the clock's lock may not
        // exist there.
        if !fork::is_child() {
            self.handle.engine.clock.release(self.at);
        }
    }
}
