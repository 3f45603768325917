//! A process takes no more memory than its budget and 64 MiB, whatever it does (`common/resident.rs`).
//!
//! `EVENDB_RESIDENT=1` runs all workloads, else two.

mod common;

use common::resident;
use evendb::{Db, Options};

resident::workloads!(Db, Options, ALL.len());
