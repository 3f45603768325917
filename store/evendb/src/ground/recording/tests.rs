//! The planted fault of recordings (P61).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::plant::Plant;
use crate::{Options, TraceOptions};
use evendb_storage::vfs::SimVfs;
use evendb_trace::{Kind, Reader};
use std::sync::Arc;

/// Whether the parts of a batch have the group of the batch's commit.
fn parts_have_their_group(plant: Plant) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new().vfs(Arc::new(SimVfs::new(1))).workers(0);
    options.plant = plant;
    let db = options.open("/db").unwrap();
    let path = dir.path().join("trace");
    let trace = db.start_trace(TraceOptions::new(&path)).unwrap();
    let keyspace = db.default_keyspace();
    let mut batch = db.batch();
    batch.put(keyspace, "a", "1").delete(keyspace, "b");
    batch.commit().unwrap();
    assert_eq!(trace.stop().unwrap().recorded, 3);
    let bytes = std::fs::read(&path).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let operations: Vec<_> = reader.operations().map(Result::unwrap).collect();
    let commit = operations.iter().find(|one| one.kind == Kind::BatchCommit);
    let group = commit.unwrap().group;
    group != 0 && operations.iter().all(|one| one.group == group)
}

#[test]
fn p61_parts_without_their_group_are_noticed() {
    assert!(parts_have_their_group(Plant::Nothing));
    assert!(!parts_have_their_group(Plant::PartsWithoutGroup));
}
