//! What a keyspace is given: functions of Python that the engine calls.

pub(crate) mod filter;
pub(crate) mod merge;
