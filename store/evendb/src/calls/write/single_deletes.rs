//! Single deletes in a write.
//!
//! ```text
//!   version      7: put x      8: single delete of x      9: put x again
//! ```
//! In a delta, a record replaces a record of the same key and version. A single delete must not be
//! lost in that way. If its put lies in another component, the put would come back once the record
//! that replaced the single delete is deleted in the same way. And if the single delete replaced
//! its own put, it would never meet it. So its version is greater than the versions of all earlier
//! records of the chunk, and later records have a greater one. The write withdraws, moves the
//! global version by one, and announces again, as a range deletion does
//! ([`super::range_deletions`]).
//!
//! **Beside a merge operator** a single delete is a plain delete. An older value of the key may lie
//! beside the value that operands were folded into, and a single delete would remove only the newer
//! of the two. A keyspace may get its operator between the call and the write; in a batch or a
//! transaction, long after the call. So the write asks again under the latches ([`settle`]): any
//! operand in one of these chunks was put after the keyspace knew that it has an operator. The log
//! keeps the single delete; replay asks the keyspace, too.
//!
//! Thread safety: the caller holds the latches.

use super::latched::Latched;
use crate::chunk::ChunkWriter;
use crate::op::Op;
use crate::record::RecordRef;
use evendb_storage::{Kind, Version};

fn is_single(op: &Op<'_>) -> bool {
    op.linked().kind() == Kind::SingleDelete
}

/// Turns single deletes into plain deletes where their keyspace does not take single deletes any
/// more. Returns whether single deletes are left.
#[cold]
pub(super) fn settle(ops: &mut [Op<'_>]) -> bool {
    let mut left = false;
    for op in ops.iter_mut().filter(|op| is_single(op)) {
        let kind = op.keyspace.kind_of_single_delete();
        if kind == Kind::SingleDelete {
            left = true;
        } else {
            let hash = op.record.kept_hash();
            op.folded = Some(RecordRef::new(op.record.key(), &[], kind, hash));
        }
    }
    left
}

/// Whether a chunk of the write has a single delete of `version`, or a record of `version` beside
/// which the write puts a single delete. `singles` says that the write has single deletes.
#[inline]
pub(super) fn tie(ops: &[Op<'_>], singles: bool, latched: &Latched<'_>, version: Version) -> bool {
    let mut written = latched.all().filter(|(target, _)| !target.ops.is_empty());
    written.any(|(target, writer)| {
        writer.single_at >= version
            || singles
                && writer.changed_at >= version
                && ops[target.ops.clone()].iter().any(is_single)
    })
}

/// Notes the version of a write's single deletes.
#[inline]
pub(super) fn note(own: &[Op<'_>], writer: &mut ChunkWriter, version: Version) {
    if own.iter().any(is_single) {
        writer.single_at = version;
    }
}
