//! Single deletes in a write.
//!
//! ```text
//!   version      7: put x      8: single delete of x      9: put x again
//! ```
//! A record of a delta takes the place of one of the same key and version. A single delete must not be lost in that way:
//! when its put lies in another component, that would come back once what took its place is deleted in the same way. And
//! where it took the place of its put, it would never meet it. So its version is greater than that of all that was put to the
//! chunk before, and what is put there later has a greater one. The write withdraws, moves the global version by one, and
//! announces again, as a range deletion does ([`super::ranges`]).
//!
//! Thread safety: the caller holds the latches.

use super::{Guards, Target};
use crate::chunk::ChunkWriter;
use crate::op::Op;
use evendb_storage::{Kind, Version};

fn is_single(op: &Op<'_>) -> bool {
    op.record.kind() == Kind::SingleDelete
}

/// Whether a chunk that the write goes to has a single delete of `version`, or a record of it beside which a single delete is
/// put.
#[inline]
pub(super) fn tie(
    ops: &[Op<'_>],
    targets: &[Target],
    guards: &Guards<'_>,
    version: Version,
) -> bool {
    let all = targets.iter().zip(guards);
    let mut written = all.filter(|(target, _)| !target.ops.is_empty());
    written.any(|(target, writer)| {
        writer.single_at >= version
            || writer.changed_at >= version && ops[target.ops.clone()].iter().any(is_single)
    })
}

/// Notes single deletes of a write of `version`.
#[inline]
pub(super) fn note(own: &[Op<'_>], writer: &mut ChunkWriter, version: Version) {
    if own.iter().any(is_single) {
        writer.single_at = version;
    }
}
