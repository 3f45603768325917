//! Every call that changes files is inside the gate while it does so, and closing waits for it.
//! This test does not depend on luck: the simulated disk asks the gate at each operation.
//! `tests/closing` does the same rounds with real threads.

#[path = "../../../tests/common/outside.rs"]
mod outside;

use super::Plant;
use crate::{Db, Durability, KeyspaceOptions, Options};
use evendb_storage::vfs::SimVfs;
use outside::Outside;
use std::sync::Arc;

fn fill(db: &Db) {
    for number in 0..300 {
        db.put(format!("key {number:03}"), [7; 100]).expect("puts");
    }
}

/// The calls that changed a file outside of the gate.
fn found(plant: Plant) -> Vec<&'static str> {
    let vfs = SimVfs::new(1);
    let mut options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.chunk_bytes(8 << 10).block_bytes(512));
    options.plant = plant;
    let db = options.open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    let engine = Arc::downgrade(&keyspace.handle.engine);
    let outside = Outside::of(&vfs, move || {
        let engine = engine.upgrade();
        engine.is_none_or(|engine| engine.core.health.is_empty())
    });
    let of = |name, run: &dyn Fn() -> crate::Result<()>| {
        fill(&db);
        let done = outside.call(&vfs, name, run);
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    of("put", &|| db.put("k", "v"));
    of("synced batch", &|| {
        let mut batch = db.batch();
        batch.put(keyspace, "a", "1").put(keyspace, "b", "2");
        batch.durability(Durability::Sync);
        batch.commit()
    });
    of("transact", &|| {
        db.transact(|own| own.put(keyspace, "k", "v"))
    });
    of("delete_range", &|| db.delete_range("key 1".."key 2"));
    of("pop_first", &|| db.pop_first().map(drop));
    of("flush", &|| db.flush());
    of("persist", &|| db.persist());
    of("settle_debt", &|| db.settle_debt());
    of("idle_pass", &|| db.idle_pass().map(drop));
    of("compact", &|| db.compact().map(drop));
    of("compact_range", &|| {
        keyspace.compact_range("key 1".."key 2").map(drop)
    });
    of("compact_prefix", &|| {
        keyspace.compact_prefix("key 2").map(drop)
    });
    of("keyspace", &|| db.keyspace("made").map(drop));
    of("keyspace_with", &|| {
        db.keyspace_with("other", &KeyspaceOptions::new()).map(drop)
    });
    of("drop_keyspace", &|| db.drop_keyspace("made"));
    of("set_property", &|| keyspace.set_property("p", "v"));
    of("remove_property", &|| keyspace.remove_property("p"));
    of("set_options", &|| {
        keyspace.set_options(&KeyspaceOptions::new().block_bytes(4096))
    });
    of("ingest", &|| {
        let records = (0..50).map(|at| (format!("x{at:02}"), [1; 100]));
        db.ingest(records).map(drop)
    });
    of("begin_ingest", &|| {
        let mut ingest = keyspace.begin_ingest()?;
        (0..50).try_for_each(|at| ingest.put(format!("y{at:02}"), [1; 300]))
    });
    of("backup", &|| db.backup("/backups").map(drop));
    of("copy_to", &|| db.copy_to("/copy").map(drop));
    of("fork", &|| db.fork("/fork").map(drop));
    let found = outside.found();
    db.close().expect("closes");
    found
}

#[test]
fn every_call_that_changes_files_is_inside_of_the_gate() {
    assert_eq!(found(Plant::Nothing), [""; 0]);
}

#[test]
fn p99_p100_p101_calls_that_do_not_enter_are_noticed() {
    assert_eq!(found(Plant::FlushesOutside), ["flush"]);
    let of_ranges = ["compact_range", "compact_prefix"];
    assert_eq!(found(Plant::CompactsOutside), of_ranges);
    let of_keyspaces = ["keyspace", "keyspace_with", "drop_keyspace"];
    assert_eq!(found(Plant::KeyspacesOutside), of_keyspaces);
}
