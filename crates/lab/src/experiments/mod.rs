//! Experiments beyond the phases: each a function that runs on a store and returns a report.

pub mod pauses;
pub mod space;
