//! [`KeyspaceState`]: a keyspace of an open database. [`View`]: its parts at one moment.
//!
//! ```text
//!   view = memory tables, newest first (the first one may still get records) + the tree
//! ```
//! Invariants: a view alone is complete. It has each record that was shown when the view was taken,
//! as far as a reader may need it. A memory table leaves the view in the same store that adds the
//! table it became. Views are replaced and never edited.
//!
//! The write path adds memory tables to views. Workers take memory tables away and bring new trees.
//! The keyspace's lock orders the two; it is a leaf.

use crate::memory::MemoryTable;
use crate::scan_lengths::ScanLengths;
use crate::tree::Tree;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::sync::atomic::{AtomicU64, Ordering};
use evendb_base::sync::reclaim::ArcCell;
use evendb_base::sync::{Arc, Mutex};
use evendb_base::{Error, ErrorKind, Result};
use evendb_storage::Version;

/// The keyspace that always exists.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The memory tables, newest first, each with the number of its generation.
    pub(crate) memories: Vec<(FileNumber, Arc<MemoryTable>)>,
    pub(crate) tree: Arc<Tree>,
    /// The keyspace's lengths of scans: the same in all of its views. Here a scan has them at hand.
    pub(crate) scans: Arc<ScanLengths>,
}

#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) view: ArcCell<View>,
    changing: Mutex<()>,
    /// The version at which it was dropped, or a number above all versions. Stored once, with
    /// Release; loaded with Acquire.
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

    /// Fails if the keyspace was dropped at or before this version.
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
