//! Scenarios F1 to F7 under shuttle: the whole engine with its own threads on a simulated file system, a few threads that call
//! it, thousands of schedules each. `RUSTFLAGS="--cfg evendb_shuttle" cargo test -p evendb-flsm --lib shuttle_`
//!
//! The engine's threads are as always, one that flushes and one that compacts: what is handed over between them and the callers is
//! what is looked at. A wake-up that is lost is a deadlock, which shuttle tells. What the database returns is judged by
//! [`world::World`]. `EVENDB_SCHEDULES` sets the number of schedules, in percent of the usual.

mod groups;
mod hand_over;
mod lifecycle;
mod planted;
#[path = "../../../storage/tests/schedules/mod.rs"]
mod schedules;
mod world;

use schedules::{explore, files, finds, notices, oracle};
