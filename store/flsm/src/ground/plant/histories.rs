//! Histories of real threads with a planted fault, which the checker of histories refuses. With
//! `EVENDB_HISTORY_OUT` they are written to files, to see whether another checker refuses them,
//! too: `scripts/check-linearizability`.

#![allow(dead_code, reason = "the other parts serve integration tests")]

#[path = "../../../../evendb/tests/common/clients.rs"]
mod clients;
#[path = "../../../../evendb/tests/common/history_file.rs"]
mod history_file;
#[path = "../../../../evendb/tests/common/linearizable.rs"]
mod linearizable;
#[path = "../../../../evendb/tests/common/order.rs"]
mod order;
#[path = "../../../../evendb/tests/common/planted_histories.rs"]
mod planted_histories;

use super::{Plant, tiny};
use crate::api::db::Db;
use crate::api::snapshot::Snapshot;
use clients::{Plan, Run};
use evendb_storage::vfs::SimVfs;
use linearizable::Op;

clients::store!(Db, Snapshot);

fn record(plan: Plan, plant: Plant) -> Vec<Op> {
    let vfs = SimVfs::new(plan.seed);
    let db = tiny(&vfs, plant).open("/db").expect("opens");
    let mut run = Run::new(&db, plan);
    run.go(&db);
    run.release();
    run.into_ops()
}

fn is_refused(name: &str, plant: Plant) {
    let record = |plan, has_fault| record(plan, if has_fault { plant } else { Plant::Nothing });
    planted_histories::is_refused(&format!("flsm-{name}"), false, record);
}

#[test]
fn p66_a_put_is_not_found() {
    is_refused("p66", Plant::OtherFilter);
}

#[test]
fn p68_a_deleted_value_comes_back() {
    is_refused("p68", Plant::TombstoneEarly);
}
