//! The tests of reading and of opening once more, over the layout `guards`: `common::creating` sees
//! that it is this test binary.

#![expect(
    clippy::duplicate_mod,
    reason = "each of the two test files has its helpers, as it does by itself"
)]

#[path = "opening.rs"]
mod opening;
#[path = "reading.rs"]
mod reading;
