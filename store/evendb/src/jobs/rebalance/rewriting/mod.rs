//! New tables in the place of old ones.

pub(crate) mod covered_tables;
pub(crate) mod expired_tables;
pub(crate) mod growth;
pub(crate) mod log_merge;
pub(crate) mod pieces;
pub(crate) mod rewrite;
pub(crate) mod value_moves;
