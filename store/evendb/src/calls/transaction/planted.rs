//! P94: a transaction that read keys of a range which was deleted meanwhile.

use crate::plant::Plant;
use crate::{Db, ErrorKind, Options};
use evendb_storage::vfs::SimVfs;
use std::sync::Arc;

fn open(plant: Plant) -> Db {
    let mut options = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0)
        .memory_budget(1 << 20);
    options.plant = plant;
    options.open("/db").expect("opens")
}

/// A transaction writes what it read, which is deleted before it commits. Returns whether nothing
/// is written.
fn nothing_comes_of_what_was_deleted(plant: Plant, reads_range: bool) -> bool {
    let db = open(plant);
    let keyspace = db.default_keyspace();
    db.put("account/1", "100").expect("puts");
    let mut transaction = db.transaction().expect("begins");
    let read = match reads_range {
        true => {
            let mut range = transaction
                .range(keyspace, "account/".."account0")
                .expect("reads");
            range.next().map(|item| item.expect("reads").1)
        }
        false => transaction.get(keyspace, "account/1").expect("gets"),
    };
    let sum = read.expect("it is there");
    transaction.put(keyspace, "moved", &sum).expect("puts");
    db.delete_range("account/".."account0").expect("deletes");
    match transaction.commit() {
        Ok(()) => false,
        Err(error) => {
            error.kind() == ErrorKind::Conflict && db.get("moved").expect("gets").is_none()
        }
    }
}

#[test]
fn p94_a_range_that_was_deleted_is_a_conflict() {
    for reads_range in [false, true] {
        assert!(nothing_comes_of_what_was_deleted(
            Plant::Nothing,
            reads_range
        ));
        let planted = nothing_comes_of_what_was_deleted(Plant::RangesNotCompared, reads_range);
        assert!(!planted, "a range {reads_range}");
    }
}
