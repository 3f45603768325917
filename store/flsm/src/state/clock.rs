//! [`Clock`]: up to which version writes are shown, and at which versions readers still read.
//!
//! * A write is shown when the published version reaches its last record. At that time all of its
//!   records are in memory tables, and these tables are in the views. So a reader at a published
//!   version finds all of the write or none of it.
//! * A reader that lasts (a snapshot, a scan) is registered. A get is not: it takes the view first
//!   and the version afterwards. A record that a rewrite left out of that view was hidden by a
//!   record at or below the version, and the get sees that newer record.
//! * A horizon is read under the lock under which readers register. So a reader that registers
//!   later reads at the horizon's published version or above.
//!
//! Thread safety: shared freely. The lock is a leaf.

use crate::plant::planted;
use crate::visibility::Horizon;
use evendb_base::sync::Mutex;
use evendb_base::sync::atomic::{AtomicU64, Ordering};
use evendb_storage::Version;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Clock {
    /// The owner of the write path stores it with Release; readers load it with Acquire.
    published: AtomicU64,
    /// How many readers are registered at each version.
    readers: Mutex<BTreeMap<Version, usize>>,
    #[cfg(test)]
    plant: crate::plant::Plant,
}

impl Clock {
    pub(crate) fn new(published: Version) -> Clock {
        Clock {
            published: AtomicU64::new(published.0),
            readers: Mutex::default(),
            #[cfg(test)]
            plant: crate::plant::Plant::Nothing,
        }
    }

    #[cfg(test)]
    pub(crate) fn planted(mut self, plant: crate::plant::Plant) -> Clock {
        self.plant = plant;
        self
    }

    /// Writes up to this version are shown.
    #[inline]
    pub(crate) fn published(&self) -> Version {
        // Pairs with the Release of `publish`: the records are in the memory tables.
        Version(self.published.load(Ordering::Acquire))
    }

    /// Shows the writes up to this version. Only one thread at a time calls it, with ascending
    /// versions.
    pub(crate) fn publish(&self, version: Version) {
        debug_assert!(version.0 >= self.published.load(Ordering::Relaxed));
        // Pairs with the Acquire of `published`.
        self.published.store(version.0, Ordering::Release);
    }

    /// Registers a reader of the state that is shown now.
    pub(crate) fn register(&self) -> Version {
        let early = planted!(self, RegistersLate).then(|| self.published());
        let mut readers = self.readers.lock();
        let at = early.unwrap_or_else(|| self.published());
        *readers.entry(at).or_default() += 1;
        at
    }

    /// Ends the registration of a reader.
    pub(crate) fn release(&self, at: Version) {
        let mut readers = self.readers.lock();
        if let Some(count) = readers.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&at);
            }
        }
    }

    /// The number of registered readers.
    pub(crate) fn readers(&self) -> usize {
        self.readers.lock().values().sum()
    }

    /// The readers of now, and the version from which on later readers read.
    pub(crate) fn horizon(&self) -> Horizon {
        let readers = self.readers.lock();
        let snapshots = match planted!(self, SnapshotsForgotten) {
            true => Vec::new(),
            false => readers.keys().copied().collect(),
        };
        Horizon::new(self.published(), snapshots)
    }
}
