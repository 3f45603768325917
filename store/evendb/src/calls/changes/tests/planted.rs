//! P91: the changes that a feed reads from kept changes, compared with the writes.

use crate::plant::Plant;
use crate::{Db, Durability, Options};
use evendb_storage::vfs::SimVfs;
use std::sync::Arc;

fn open(plant: Plant) -> Db {
    let mut options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            let small = advanced.commit_log_bytes(64 << 10).chunk_bytes(4096);
            small.keep_changes_bytes(8 << 20)
        })
        .durability(Durability::Process)
        .workers(0)
        .vfs(Arc::new(SimVfs::new(1)));
    options.plant = plant;
    options.open("/db").expect("opens")
}

/// Whether a feed gives everything since the beginning. The log has gone round several times by
/// then.
fn everything_comes(plant: Plant) -> bool {
    let db = open(plant);
    let start = db.position().expect("a position");
    let keys: Vec<String> = (0..2000).map(|number| format!("k{number:05}")).collect();
    for key in &keys {
        db.put(key, [7; 100]).expect("puts");
    }
    let feed = db.changes_since(&start).expect("they are kept");
    let changes = feed.map(|change| change.expect("reads"));
    let first_key = |change: crate::Change| {
        let first = change.writes().next().map(|write| write.key.to_vec());
        first.expect("a write")
    };
    changes
        .map(first_key)
        .eq(keys.iter().map(|key| key.as_bytes()))
}

#[test]
fn p91_a_look_ahead_that_takes_a_change_is_noticed() {
    assert!(everything_comes(Plant::Nothing));
    assert!(!everything_comes(Plant::LookTakes));
}
