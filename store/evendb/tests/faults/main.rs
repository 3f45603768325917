//! I/O errors at every operation of a workload, and full disks at every size.
//!
//! After an error: no panic, reads give the right answers, no acknowledged write is lost, and a
//! database that has latched refuses every write with that error. A full disk never latches; with
//! room again everything continues. The files on the disk open and are a legal prefix, whatever
//! happens next.
//!
//! `EVENDB_FAULT_STRIDE` sets the number of operations between two faults (default 29; 1 is the
//! full campaign), `EVENDB_CAPACITY_STRIDE` does so for full disks, in pages.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod real_disk;
mod real_file_systems;
mod room;
mod run;
mod waiting;
