//! Scenarios S1 to S11 under shuttle: the whole engine on a simulated file system, a few threads,
//! thousands of schedules each. `RUSTFLAGS="--cfg evendb_shuttle" cargo test --lib shuttle_`
//!
//! No worker threads: every switch-over (checkpoint, load, absorb, evict, rebalance, split, merge)
//! is called by a thread of the scenario, so that schedules stay short. What the database returns
//! is judged by [`world::World`]. `EVENDB_SCHEDULES` sets the number of schedules, in percent of the usual.
//! Each planted fault of [`crate::plant`] must be caught by a named test ([`planted`]).

mod batches;
mod freeze;
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
