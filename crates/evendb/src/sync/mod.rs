//! The seam for everything that schedules: locks, condition variables, atomics, threads, and
//! epoch-based reclamation.
//!
//! Normal builds: `parking_lot` locks, `std` atomics and threads, `crossbeam-epoch`. With
//! `--cfg evendb_loom` and `--cfg evendb_shuttle` the same names are loom's and shuttle's, so that
//! a schedule is a test input. Nothing else in the crate may name `std::sync::atomic`, `std::thread`
//! or a lock directly.
pub(crate) mod epoch;
