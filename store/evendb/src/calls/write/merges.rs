//! Merges on their way into a delta: a record that meets another record of its key is folded with
//! it, so that hot keys stay short.
//!
//! ```text
//! newest record in the delta     the merge +2 at version 9
//! none, or merge at 8            linked above it as it is
//! merge +1 at 9                  merge +3 at 9: of one version there is one record of a key
//! put 40 at 8 or 9               put 42 at 9
//! ```
//! All this is done before the write is logged. The log gets the operand alone. Where two records
//! of one version cannot become one (the operator fails, or the record would become long), the
//! write takes the next version.
//!
//! The operator is called under the chunk's latch, announced: other threads wait for it.
//!
//! Thread safety: the caller holds the chunk's latch.

use crate::chunk::{Chunk, ChunkWriter};
use crate::delta::Delta;
use crate::folding;
use crate::merge_operator::{self, Operator};
use crate::op::Op;
use crate::record::{Record, RecordRef};
use crate::sync::reclaim;
use evendb_storage::{Kind, Version};

/// Two records that have more bytes together are not combined: copying them would cost too much.
const COMBINED_BYTES_MAX: usize = 4096;

/// Prepares the merges among the records of one chunk. Returns false if the write cannot have this
/// version.
pub(super) fn prepare(
    chunk: &Chunk,
    writer: &ChunkWriter,
    (ops, with_ranges): (&mut [Op<'_>], bool),
    version: Version,
) -> bool {
    // Below a range deletion the operands would have nothing to lie on. Operands of its version
    // came after it.
    let is_covered = with_ranges || chunk.view.load_full().covers.is_some();
    let mut merges = ops.iter_mut().filter(|op| op.record.kind() == Kind::Merge);
    merges.all(|op| {
        let operator = op.keyspace.merge_operator.get();
        let prepared = combine(&writer.active, &op.record, version, operator, is_covered);
        op.folded = match prepared {
            Prepared::AsItIs => None,
            Prepared::Folded(record) => Some(record),
            Prepared::Tied => return false,
        };
        true
    })
}

enum Prepared {
    AsItIs,
    Folded(RecordRef),
    /// The delta has a record of this version, and the two cannot become one.
    Tied,
}

/// It asks the active delta alone, and not the other layers: a record of the other layers stays as
/// it is, and a read folds the merge with it.
fn combine(
    delta: &Delta,
    record: &Record,
    version: Version,
    operator: Option<&Operator>,
    is_covered: bool,
) -> Prepared {
    let pin = reclaim::pin();
    let hash = record.kept_hash();
    let key = record.key();
    let Some(newest) = delta.get(key, hash, Version::MAX, &pin) else {
        return Prepared::AsItIs;
    };
    let is_same = newest.version() == version;
    let otherwise = match is_same {
        true => Prepared::Tied,
        false => Prepared::AsItIs,
    };
    let is_long = newest.value().len() + record.value().len() > COMBINED_BYTES_MAX;
    if is_long || !is_same && (is_covered || newest.kind() == Kind::Merge) {
        return otherwise;
    }
    let made = |kind, value: &[u8]| Prepared::Folded(RecordRef::new(key, value, kind, hash));
    let existing = match newest.kind() {
        Kind::Merge => {
            let lists = [newest.value(), record.value()];
            return made(Kind::Merge, &folding::joined(operator, key, &lists));
        }
        Kind::Put => Some(newest.value()),
        Kind::Delete | Kind::SingleDelete => None,
        // The existing value expires, while a merged one does not; or it lies apart and would have
        // to be read.
        Kind::PutUntil | Kind::PutApart | Kind::PutUntilApart => return otherwise,
    };
    let Some(operator) = operator else {
        return otherwise;
    };
    let operands: Vec<&[u8]> = folding::operands_of(record.value()).collect();
    match merge_operator::full(&**operator, key, existing, &operands) {
        Ok(Some(value)) => made(Kind::Put, &value),
        Ok(None) => made(Kind::Delete, &[]),
        Err(_) => otherwise,
    }
}
