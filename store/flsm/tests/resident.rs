//! A process takes no more memory than its budget and 64 MiB, whatever it does
//! (`common/resident.rs`).
//!
//! `EVENDB_RESIDENT=1` runs all workloads except one; without it two run.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::resident;
use evendb_flsm::{Db, Options};

// An iterator keeps the memory tables of its moment, as `Iter` says. So a workload with more
// iterators than buffers takes more memory.
resident::workloads!(Db, Options, ALL.len() - 1);
