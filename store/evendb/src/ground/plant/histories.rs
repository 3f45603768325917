//! Histories of real threads with a planted fault, which the checker of histories refuses. With
//! `EVENDB_HISTORY_OUT` they are written to files, to show whether another checker refuses them,
//! too: `scripts/check-linearizability`.

#![allow(dead_code, reason = "the other parts serve integration tests")]

#[path = "../../../tests/common/clients.rs"]
mod clients;
#[path = "../../../tests/common/history_file.rs"]
mod history_file;
#[path = "../../../tests/common/linearizable.rs"]
mod linearizable;
#[path = "../../../tests/common/order.rs"]
mod order;
#[path = "../../../tests/common/planted_histories.rs"]
mod planted_histories;

use super::Plant;
use crate::{Db, Options, Snapshot};
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
                .commit_log_bytes(64 << 10)
                .chunk_bytes(8 << 10)
                .block_bytes(512)
                .munks(false)
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
    planted_histories::is_refused(&format!("evendb-{name}"), record);
}

#[test]
fn p10_a_deleted_value_comes_back() {
    is_refused("p10", Plant::NoTombstonesInRuns);
}

#[test]
fn p26_a_value_is_there_after_its_range_was_deleted() {
    is_refused("p26", Plant::RangeSharesVersion);
}

#[test]
fn p27_a_cached_row_outlives_its_range() {
    is_refused("p27", Plant::RowTagKept);
}
