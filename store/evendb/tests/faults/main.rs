//! I/O errors at every operation of a workload, and full disks at every size.
//!
//! After an error: no panic, reads give the right answers, nothing acknowledged is lost, and a
//! database that has latched says so to every write. A full disk never latches; with room again
//! everything goes on. What is on the disk opens and is a legal prefix, whatever happens next.
//!
//! `EVENDB_FAULT_STRIDE` sets how many operations are left out between two faults (default 29; 1
//! is the full campaign), `EVENDB_CAPACITY_STRIDE` likewise for full disks, in pages.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod real_disk;
mod real_file_systems;
mod room;
mod run;
mod waiting;
