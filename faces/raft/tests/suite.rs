//! openraft's own suite for storage: all of its functions, on a new directory each. The suite names
//! them by itself; a file that it leaves behind is removed with the directory.

use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{LogStore, SnapshotFile, StateMachine, open};
use evendb_raft::store::Config;
use openraft::testing::{StoreBuilder, Suite};
use openraft::{AnyError, StorageError, StorageIOError};
use std::sync::atomic::{AtomicUsize, Ordering};

openraft::declare_raft_types!(
    /// The ready state machine's types.
    pub Types: D = Command, R = Answer, SnapshotData = SnapshotFile
);

struct Builder {
    built: AtomicUsize,
}

type Built = (
    tempfile::TempDir,
    LogStore<Types>,
    StateMachine<Types, KeyValue>,
);

impl StoreBuilder<Types, LogStore<Types>, StateMachine<Types, KeyValue>, tempfile::TempDir>
    for &Builder
{
    async fn build(&self) -> Result<Built, StorageError<u64>> {
        self.built.fetch_add(1, Ordering::Relaxed);
        let dir =
            tempfile::tempdir().map_err(|error| StorageIOError::read(AnyError::new(&error)))?;
        let config = Config::new().keyspace("users").keep_changes(16);
        let opened = open(dir.path(), config, KeyValue);
        let (log, machine) = opened.map_err(|error| StorageIOError::read(AnyError::new(&error)))?;
        Ok((dir, log, machine))
    }
}

#[test]
fn the_suite_of_openraft_passes() {
    let builder = Builder {
        built: AtomicUsize::new(0),
    };
    Suite::test_all(&builder).expect("passes");
    // One store for each of its 35 tests, and two for the one that moves a snapshot.
    let built = builder.built.load(Ordering::Relaxed);
    assert_eq!(built, 36);
}
