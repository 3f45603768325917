//! Reads: gets and scans.
//!
//! * `get` - one key: memory tables, level 0, then one guard of each level, newest first; filters
//!   before blocks.
//! * `moment` - the registration of a snapshot or a scan.
//! * `end` - one end of a scan: the merge of all sources, and for each key the record that the
//!   reader sees.
//! * `looks` - reports seeks to trees.
//! * `lengths` - how long scans were, for the reading ahead of later scans.
//! * `cursor`, `iter` - the two ends of a range.
//! * `size` - about how much a range holds.

pub(crate) mod cursor;
mod end;
pub(crate) mod get;
pub(crate) mod iter;
pub(crate) mod lengths;
mod looks;
pub(crate) mod moment;
pub(crate) mod size;
