//! What a write says, as the body of a record of the commit log.

pub(crate) mod kept_changes;
pub(crate) mod op;
pub(crate) mod payload;
pub(crate) mod value_extents;
