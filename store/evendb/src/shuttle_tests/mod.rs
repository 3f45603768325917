//! Scenarios S1 to S13 under shuttle: the whole engine on a simulated file system, a few threads,
//! thousands of schedules each. `RUSTFLAGS="--cfg evendb_shuttle" cargo test --lib shuttle_`
//!
//! There are no worker threads: a thread of the scenario calls every switch-over (checkpoint, load,
//! absorb, evict, rebalance, split, merge), so schedules stay short. [`world::World`] judges the
//! results of the database. `EVENDB_SCHEDULES` sets the number of schedules, in percent of the
//! usual number. A named test must catch each planted fault of [`crate::plant`] ([`planted`]).

mod batches;
mod freeze;
mod guards;
mod layouts;
mod lifecycle;
mod munks;
mod planted;
mod ranges;
#[path = "../../../storage/tests/schedules/mod.rs"]
mod schedules;
mod transactions;
mod world;

use schedules::{explore, files, finds, notices};
