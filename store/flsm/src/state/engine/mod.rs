//! [`Engine`]: the state of an open database. It only holds the state; functions of other rooms
//! work on it.
//!
//! **Locks**, in the order in which they may be taken: writer ([`crate::write`]; the leader of a
//! group holds it); catalog; manifest; work; then the leaves: the locks of a keyspace, of the
//! clock, of the write path's queue, of a memory table, and of the room that is kept back for a
//! full disk. The first three are held during I/O, the others never. The holder of the writer may
//! wait for workers, which take the catalog and the manifest. So no thread waits for the writer
//! while it holds one of these two.

pub(crate) mod handle;
pub(crate) mod health;
pub(crate) mod work;
pub(crate) mod write_path;

use crate::cache::BlockCache;
use crate::clock::Clock;
use crate::figures::Figures;
use crate::full_disk::FullDisk;
use crate::keyspace::KeyspaceState;
use crate::manifest::kept::Kept;
use crate::manifest::state::State;
use crate::options::Options;
use crate::tables::Making;
use crate::tree::choose::GuardRule;

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
    /// The claim on the directory; closing gives it up.
    pub(crate) claim: Claim,
    pub(crate) health: Health,
    pub(crate) figures: Figures,
    pub(crate) catalog: Mutex<BTreeMap<String, Arc<KeyspaceState>>>,
    pub(crate) clock: Clock,
    pub(crate) writes: WritePath,
    pub(crate) manifest: Mutex<Kept>,
    pub(crate) full_disk: FullDisk,
    pub(crate) work: Work,
    /// The standard library's `Arc` and not the one that schedules replace: cursors hold the cache
    /// as their source of blocks.
    pub(crate) cache: std::sync::Arc<BlockCache>,
    pub(crate) making: Making,
    pub(crate) guards: GuardRule,
}

impl Engine {
    /// All keyspaces that exist.
    pub(crate) fn keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.catalog.lock().values().cloned().collect()
    }

    /// Notes the number of tables in level 0, and the lengths of all tables. Call it under the lock
    /// under which these change: if an older number were noted last, writers would wait for a
    /// compaction that is over.
    pub(crate) fn note_tables(&self, state: &State) {
        self.work.set_level0(state.level0_tables_max());
        let tables = state.keyspaces().values();
        let tables = tables.flat_map(|keyspace| keyspace.tree.tables());
        self.full_disk
            .note_tables(tables.map(|(_, table)| table.meta.len));
    }

    /// Stops all writes for good, with this cause. If the directory is not this database's any
    /// more, that is the cause.
    pub(crate) fn latch(&self, cause: &evendb_base::Error) {
        let claimed = self.claim.check(&FileName::Lock.path(&self.dir));
        self.health.latch(claimed.as_ref().err().unwrap_or(cause));
        self.work.wake_all();
    }

    /// Fails if the directory is not this database's any more. All writes end then.
    pub(crate) fn check_claim(&self) -> evendb_base::Result<()> {
        let claimed = self.claim.check(&FileName::Lock.path(&self.dir));
        claimed.inspect_err(|error| self.latch(error))
    }

    /// Takes a failure of a write, and returns it. It latches the database, except for lack of room
    /// or of a descriptor: in these cases nothing has happened.
    pub(crate) fn failed(&self, error: evendb_storage::Error) -> evendb_base::Error {
        let error = evendb_base::Error::from(error);
        if error.kind().is_for_want() {
            return error;
        }
        self.latch(&error);
        self.check_claim().err().unwrap_or(error)
    }
}
