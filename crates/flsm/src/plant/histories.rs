//! Histories of real threads with a planted fault, which the checker of histories refuses. With `EVENDB_HISTORY_OUT` they are
//! written to files, so that it shows whether another checker refuses them, too: `scripts/check-linearizability`.

#![allow(dead_code, reason = "the other parts serve integration tests")]

#[path = "../../../evendb/tests/common/clients.rs"]
mod clients;
#[path = "../../../evendb/tests/common/history_file.rs"]
mod history_file;
#[path = "../../../evendb/tests/common/linearizable.rs"]
mod linearizable;
#[path = "../../../evendb/tests/common/order.rs"]
mod order;
#[path = "../../../evendb/tests/common/planted_histories.rs"]
mod planted_histories;

use super::Plant;
use crate::api::db::Db;
use crate::api::snapshot::Snapshot;
use crate::options::Options;
use clients::{Plan, Run};
use evendb_storage::vfs::SimVfs;
use linearizable::Op;
use std::sync::Arc;

clients::store!(Db, Snapshot);

fn record(plan: Plan, plant: Plant) -> Vec<Op> {
    let vfs = SimVfs::new(plan.seed);
    let mut options = Options::new()
        .vfs(Arc::new(vfs))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .write_buffer_bytes(8192)
                .last_guard_bytes(900)
                .table_bytes_max(4096)
                .level0_tables(2, 4, 6)
        });
    options.plant = plant;
    let db = options.open("/db").expect("opens");
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
