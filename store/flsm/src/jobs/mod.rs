//! What runs beside the calls: the end of a generation, compactions, and the threads that do them.

pub(crate) mod compaction;
pub(crate) mod generation;
pub(crate) mod worker;
