//! What is kept in RAM of chunks that are on disk: the policy of munks, and the row cache.

pub(crate) mod policy;
pub(crate) mod row;
