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
//! **Beside a merge operator** a single delete is a plain delete: an older value of the key may lie beside one that operands were
//! folded into, and a single delete would go with the newer of the two alone. A keyspace may get its operator between the call
//! and the write, in a batch or transaction long after the call. So the write asks again under the latches ([`settle`]): an
//! operand that is in one of these chunks already was put after the keyspace knew that it has an operator. What is logged stays
//! a single delete; replay asks the keyspace, too.
//!
//! Thread safety: the caller holds the latches.

use super::{Guards, Target};
use crate::chunk::ChunkWriter;
use crate::op::Op;
use crate::record::RecordRef;
use evendb_storage::{Kind, Version};

fn is_single(op: &Op<'_>) -> bool {
    op.linked().kind() == Kind::SingleDelete
}

/// Makes plain deletes of the single deletes that their keyspaces do not take any more. Whether others are left.
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

/// Whether a chunk that the write goes to has a single delete of `version`, or a record of it beside which a single delete is
/// put; `singles`: the write has some.
#[inline]
pub(super) fn tie(
    (ops, singles): (&[Op<'_>], bool),
    targets: &[Target],
    guards: &Guards<'_>,
    version: Version,
) -> bool {
    let all = targets.iter().zip(guards);
    let mut written = all.filter(|(target, _)| !target.ops.is_empty());
    written.any(|(target, writer)| {
        writer.single_at >= version
            || singles
                && writer.changed_at >= version
                && ops[target.ops.clone()].iter().any(is_single)
    })
}

/// Notes single deletes of a write of `version`.
#[inline]
pub(super) fn note(own: &[Op<'_>], writer: &mut ChunkWriter, version: Version) {
    if own.iter().any(is_single) {
        writer.single_at = version;
    }
}
