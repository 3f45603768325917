//! [`Engine`]: the state of an open database. It holds; functions of other rooms do.
//!
//! **Locks**, in the order in which they may be taken: writer ([`crate::write`], held by whoever leads a group); catalog; manifest;
//! work; then leaves: a keyspace's, the clock's, the queue's of the write path, a memory table's, that of what is kept back for a full disk.
//! The first three are held through I/O, the others never. Whoever holds the writer may wait for workers, who take the catalog and
//! the manifest: so nobody waits for the writer while holding one of these.

pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod work;
pub(crate) mod write_path;

use crate::cache::BlockCache;
use crate::clock::Clock;
use crate::compaction::rewrite::Making;
use crate::figures::Figures;
use crate::full_disk::FullDisk;
use crate::keyspace::KeyspaceState;
use crate::manifest::kept::Kept;
use crate::options::Options;

use crate::files::FileName;
use evendb_base::claim::Claim;
use evendb_base::sync::{Arc, Mutex};
use health::Health;
use std::collections::BTreeMap;
use std::path::PathBuf;
use work::Work;
use write_path::WritePath;

pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) dir: PathBuf,
    /// Of the directory; given up by closing.
    pub(crate) claim: Claim,
    pub(crate) health: Health,
    pub(crate) figures: Figures,
    pub(crate) catalog: Mutex<BTreeMap<String, Arc<KeyspaceState>>>,
    pub(crate) clock: Clock,
    pub(crate) writes: WritePath,
    pub(crate) manifest: Mutex<Kept>,
    pub(crate) full_disk: FullDisk,
    pub(crate) work: Work,
    /// Not that of the seam for schedules: cursors hold it as what they are given blocks by.
    pub(crate) cache: std::sync::Arc<BlockCache>,
    pub(crate) making: Making,
}

impl Engine {
    /// All keyspaces that there are.
    pub(crate) fn keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.catalog.lock().values().cloned().collect()
    }

    /// Stops all writes for good, because of this failure; or because the directory is not this database's any more, if that is why.
    pub(crate) fn latch(&self, cause: &evendb_base::Error) {
        let claimed = self.claim.check(&FileName::Lock.path(&self.dir));
        self.health.latch(claimed.as_ref().err().unwrap_or(cause));
        self.work.wake_all();
    }

    /// Whether the directory is still this database's. If it is not, all writes end.
    pub(crate) fn check_claim(&self) -> evendb_base::Result<()> {
        let claimed = self.claim.check(&FileName::Lock.path(&self.dir));
        claimed.inspect_err(|error| self.latch(error))
    }

    /// Takes a failure of a write, and gives it back to be returned. It latches the database, but for want of room or of a
    /// descriptor: then nothing has happened.
    pub(crate) fn failed(&self, error: evendb_storage::Error) -> evendb_base::Error {
        let error = evendb_base::Error::from(error);
        if error.kind().is_for_want() {
            return error;
        }
        self.latch(&error);
        self.check_claim().err().unwrap_or(error)
    }
}
