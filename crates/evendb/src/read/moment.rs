//! [`Moment`]: a registered version of a database that stays open.
//!
//! Thread safety: any. Not here: the public handle ([`crate::Snapshot`]).

use crate::commit_log::Lsn;
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::Result;
use crate::expiry::{ReadPoint, ReadTime};
use crate::fork;
use crate::sync::Arc;
use evendb_storage::{Time, Version};

/// A registered version; versions that it needs are kept until it is dropped.
pub(crate) struct Moment {
    pub(crate) handle: Arc<Handle>,
    version: Version,
    /// By what time records expire for it.
    time: Time,
    /// Where it lies in the commit log, if that was asked for: its last record ends here or between.
    in_log: Option<(Lsn, Lsn)>,
}

impl Moment {
    pub(crate) fn now(handle: &Arc<Handle>) -> Result<Arc<Moment>> {
        handle.engine.core.health.check_readable()?;
        let (version, time) = handle.engine.core.clock.register_timed();
        Ok(Arc::new(Moment {
            handle: handle.clone(),
            version,
            time,
            in_log: None,
        }))
    }

    /// The same, with its place in the commit log, if there is one.
    pub(crate) fn now_in_log(handle: &Arc<Handle>) -> Result<Arc<Moment>> {
        handle.engine.core.health.check_readable()?;
        let engine = &handle.engine;
        // Before GV moves: what lies below has at most this moment's version.
        let from = engine.log.end();
        let (version, time) = engine.core.clock.register_timed();
        // After the moment's puts have withdrawn: all of them lie below.
        let until = engine.log.end();
        Ok(Arc::new(Moment {
            handle: handle.clone(),
            version,
            time,
            in_log: from.zip(until),
        }))
    }

    pub(crate) fn in_log(&self) -> Option<(Lsn, Lsn)> {
        self.in_log
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// By what time records expire for it; 0 if it was made when nothing did.
    pub(crate) fn time(&self) -> Time {
        self.time
    }

    /// What it sees.
    pub(crate) fn point(&self) -> ReadPoint<'static> {
        ReadPoint {
            at: self.version,
            time: ReadTime::At(self.time),
        }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // In a forked child no thread waits for it, and the thread that held the registry may be
        // missing.
        if !fork::is_child() {
            let engine = &self.handle.engine;
            engine.core.clock.unregister(self.version);
            // An idle database may have waited for it, to rewrite what it saw.
            engine.work.stir_gently();
        }
    }
}
