//! Where records lie: memory tables in RAM, the levels of the tree on disk; and the merge of both.

pub(crate) mod cursor;
pub(crate) mod memory;
pub(crate) mod tables;
pub(crate) mod tree;
pub(crate) mod value;
