//! A process takes at most its budget and 64 MiB of memory, whatever it does
//! (`common/resident.rs`).
//!
//! `EVENDB_RESIDENT=1` runs all workloads; without it two are run.

mod common;

use common::resident;
use evendb::{Db, Options};

resident::workloads!(Db, Options, ALL.len());
