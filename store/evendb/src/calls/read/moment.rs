//! [`Moment`]: a registered version of a database that stays open.
//!
//! Thread safety: any thread. Not here: the public handle ([`crate::Snapshot`]).

use crate::commit_log::Lsn;
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::error::Result;
use crate::expiry::{ReadPoint, ReadTime};
use crate::fork;
use crate::sync::Arc;
use evendb_storage::{Time, Version};

/// A registered version; the versions that it needs are kept until it is dropped.
pub(crate) struct Moment {
    pub(crate) handle: Arc<Handle>,
    version: Version,
    /// The time by which records expire for it.
    time: Time,
    /// Its place in the commit log, if that was asked for: its last record ends at or between these
    /// two.
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

    /// Like [`now`](Self::now), with its place in the commit log, if there is a log.
    pub(crate) fn now_in_log(handle: &Arc<Handle>) -> Result<Arc<Moment>> {
        handle.engine.core.health.check_readable()?;
        let engine = &handle.engine;
        // Before GV moves: records below `from` have at most this moment's version.
        let from = engine.log.end();
        let (version, time) = engine.core.clock.register_timed();
        // After the moment's puts have withdrawn: all their records lie below `until`.
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

    /// The time by which records expire for it; 0 if no record expired when it was made.
    pub(crate) fn time(&self) -> Time {
        self.time
    }

    /// The point that it reads at.
    pub(crate) fn point(&self) -> ReadPoint<'static> {
        ReadPoint {
            at: self.version,
            time: ReadTime::At(self.time),
        }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        // In a forked child no thread waits for it, and the thread that held the registry's lock
        // may be missing.
        if !fork::is_child() {
            let engine = &self.handle.engine;
            engine.core.clock.unregister(self.version);
            // An idle database may have waited for this, to rewrite what the moment saw.
            engine.work.stir_gently();
        }
    }
}
