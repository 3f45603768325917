//! Every call that changes files is inside the gate meanwhile, so that closing waits for it. These
//! tests leave nothing to chance: the simulated disk asks the gate at each operation.
//! `tests/closing.rs` runs the same rounds with real threads.

#[path = "../../../../evendb/tests/common/outside.rs"]
mod outside;

use super::{Plant, tiny};
use crate::api::db::Db;
use evendb_base::Durability;
use evendb_storage::vfs::SimVfs;
use outside::Outside;
use std::sync::Arc;

fn fill(db: &Db) {
    for number in 0..200 {
        db.put(format!("key {number:03}"), [7; 100]).expect("puts");
    }
}

/// The calls that changed a file outside the gate.
fn found(plant: Plant) -> Vec<&'static str> {
    let vfs = SimVfs::new(1);
    let db = tiny(&vfs, plant).open("/db").expect("opens");
    let keyspace = db.default_keyspace();
    let engine = Arc::downgrade(&keyspace.handle.engine);
    let outside = Outside::of(&vfs, move || {
        let engine = engine.upgrade();
        engine.is_none_or(|engine| engine.health.is_empty())
    });
    let of = |name, run: &dyn Fn() -> crate::Result<()>| {
        fill(&db);
        let done = outside.call(&vfs, name, run);
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    of("put", &|| db.put("k", "v"));
    of("delete", &|| db.delete("k"));
    of("synced batch", &|| {
        let mut batch = db.batch();
        batch.put(keyspace, "a", "1").put(keyspace, "b", "2");
        batch.durability(Durability::Sync);
        batch.commit()
    });
    of("flush", &|| db.flush());
    of("persist", &|| db.persist());
    of("settle_debt", &|| db.settle_debt());
    of("compact", &|| db.compact().map(drop));
    of("compact_range", &|| {
        keyspace.compact_range("key 0".."key 9").map(drop)
    });
    of("keyspace", &|| db.keyspace("made").map(drop));
    of("drop_keyspace", &|| db.drop_keyspace("made"));
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
    assert_eq!(found(Plant::CompactsOutside), ["compact_range"]);
    let of_keyspaces = ["keyspace", "drop_keyspace"];
    assert_eq!(found(Plant::KeyspacesOutside), of_keyspaces);
}
