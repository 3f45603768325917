//! The tables that are open as files of their own: their number, and its limit.
//!
//! A database has a limit of its own. The databases of a shared budget have one together besides:
//! above it, each closes tables down to its equal share ([`crate::memory::shared`]).
//!
//! Thread safety: any thread; the counters order no other data.

use crate::memory::shared::Member;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicI64, Ordering};

/// The number of tables that are files and that may be open when none is in use.
pub(crate) struct FilesMax {
    pub(crate) most: u64,
    /// The place in a shared budget.
    pub(crate) member: Option<Arc<Member>>,
}

impl From<u64> for FilesMax {
    fn from(most: u64) -> FilesMax {
        FilesMax { most, member: None }
    }
}

/// See the module.
pub(super) struct OpenFiles {
    count: AtomicI64,
    pub(super) max: FilesMax,
}

impl OpenFiles {
    pub(super) fn new(max: FilesMax) -> OpenFiles {
        OpenFiles {
            count: AtomicI64::new(0),
            max,
        }
    }

    /// Notes that `more` tables more are open.
    pub(super) fn add(&self, more: i64) {
        self.count.fetch_add(more, Ordering::Relaxed);
        if let Some(member) = &self.max.member {
            member.count_files(more);
        }
    }

    /// The number of open tables.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed).max(0) as u64
    }

    /// Whether some should be closed.
    pub(super) fn are_too_many(&self) -> bool {
        let shares = self.max.member.as_ref();
        self.count() > self.max.most
            || shares.is_some_and(|member| member.has_too_many_files(self.count()))
    }
}
