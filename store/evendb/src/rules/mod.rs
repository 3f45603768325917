//! What decides about records, without any of them.

pub(crate) mod encryption;
pub(crate) mod expiry;
pub(crate) mod folding;
pub(crate) mod merge_operator;
pub(crate) mod options;
pub(crate) mod picker;
pub(crate) mod range_set;
pub(crate) mod version;
pub(crate) mod visibility;
