//! Scenarios F1 to F7 under shuttle: the whole engine with its own threads on a simulated file
//! system, and a few threads that call it, with thousands of schedules each.
//! `RUSTFLAGS="--cfg evendb_shuttle" cargo test -p evendb-flsm --lib shuttle_`
//!
//! The engine's threads are as always: one flushes and one compacts. The scenarios test the
//! hand-over between these threads and the callers. A lost wake-up is a deadlock, which shuttle
//! reports. [`world::World`] judges the database's answers. `EVENDB_SCHEDULES` sets the number of
//! schedules, in percent of the usual number.

mod groups;
mod hand_over;
mod lifecycle;
mod planted;
#[path = "../../../storage/tests/schedules/mod.rs"]
mod schedules;
mod world;

use schedules::{explore, files, finds, notices, oracle};
