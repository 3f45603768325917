//! [`KeyspaceState`]: a keyspace of an open database. [`View`]: what it is made of at a moment.
//!
//! ```text
//!   view = memory tables, newest first (the first one may still get records) + the tree
//! ```
//! Invariants: a view alone is complete: it has each record that was shown when it was taken, as far as a reader may need it.
//! A memory table leaves in the store that brings the table of level 0 that it became. Views are replaced, never edited.
//!
//! Who replaces one: the write path adds a memory table, workers take some away and bring new trees. The lock of the
//! keyspace orders these two; it is a leaf.

use crate::memory::MemoryTable;
use crate::read::lengths::ScanLengths;
use crate::tree::Tree;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::sync::atomic::{AtomicU64, Ordering};
use evendb_base::sync::reclaim::ArcCell;
use evendb_base::sync::{Arc, Mutex};
use evendb_base::{Error, ErrorKind, Result};
use evendb_storage::Version;

/// The keyspace that is always there.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Newest first, each with the generation that it belongs to.
    pub(crate) memories: Vec<(FileNumber, Arc<MemoryTable>)>,
    pub(crate) tree: Arc<Tree>,
    /// Of the keyspace: the same in all of its views, where who scans has it at hand.
    pub(crate) scans: Arc<ScanLengths>,
}

#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) view: ArcCell<View>,
    changing: Mutex<()>,
    /// The version at which it was dropped; above all versions if it was not. Stored with Release once, loaded with Acquire.
    dropped_at: AtomicU64,
}

impl KeyspaceState {
    pub(crate) fn new(id: KeyspaceId, name: String, tree: Arc<Tree>) -> Arc<KeyspaceState> {
        let view = View {
            memories: Vec::new(),
            tree,
            scans: Arc::default(),
        };
        Arc::new(KeyspaceState {
            id,
            name,
            view: ArcCell::new(Arc::new(view)),
            changing: Mutex::new(()),
            dropped_at: AtomicU64::new(u64::MAX),
        })
    }

    /// Replaces the view.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let _changing = self.changing.lock();
        let mut view = View::clone(&self.view.load_full());
        change(&mut view);
        self.view.replace(Arc::new(view));
    }

    pub(crate) fn drop_at(&self, version: Version) {
        self.dropped_at.store(version.0, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped_at.load(Ordering::Acquire) != u64::MAX
    }

    pub(crate) fn check_there(&self) -> Result<()> {
        self.check_there_at(Version(u64::MAX - 1))
    }

    /// Whether who reads at this version may go on.
    pub(crate) fn check_there_at(&self, at: Version) -> Result<()> {
        match at.0 < self.dropped_at.load(Ordering::Acquire) {
            true => Ok(()),
            false => {
                let message = format!("the keyspace {:?} has been dropped", self.name);
                Err(Error::new(ErrorKind::KeyspaceDropped, message))
            }
        }
    }
}
