//! The funk: a chunk on disk, its SSTable and its log.

pub(crate) mod extents;
pub(crate) mod log_index;
