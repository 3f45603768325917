//! The C interface as C programs see it: what the header says, what the libraries export, and
//! programs over them.
#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

mod abi;
mod header;
mod library;
mod linking;
mod programs;
mod prototypes;
mod symbols;

#[path = "../../../../store/evendb/tests/common/skipped.rs"]
mod skipped;
