//! Reads: gets and scans.
//!
//! * `get` - one key: memory tables, level 0, then one guard of each level, newest first; filters
//!   before blocks.
//! * `moment` - the registration of a snapshot or a scan.
//! * `end` - one end of a scan: the merge of all sources, and for each key the record that the
//!   reader sees.
//! * `looks` - which seeks and scans are counted; reports seeks to trees.
//! * `cursor`, `iter` - the two ends of a range.
//! * `size` - about how much a range holds.

pub(crate) mod cursor;
mod end;
pub(crate) mod get;
pub(crate) mod iter;
mod looks;
pub(crate) mod moment;
pub(crate) mod size;
