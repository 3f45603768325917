//! Figures of counts, sizes and times beside those of a naive program that counts the same
//! operations in maps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accesses;
mod load;
mod models;
mod places_of_scans;
mod sizes;
mod small;
mod stored;
mod tables;
mod times;
