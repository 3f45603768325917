//! [`Filter`]: the part of the changes that a watch gives, one key range of one keyspace.
//!
//! ```text
//!   record   put a | put k | delete_range c..x | put z        watch of g..p
//!   given             put k   delete_range g..p               copied; of the others, nothing is
//! ```
//! Invariants: of a record that does not touch the range, no byte is copied. A write that touches
//! it is given whole; a range deletion is cut to the range, and is left out if nothing of it lies
//! there. The order of the writes stays.
//!
//! Thread safety: immutable. Not here: which records a feed may read ([`super::feed`]).

use crate::catalog::KeyspaceState;
use crate::error::Result;
use crate::manifest::KeyspaceId;
use crate::op::{OpKind, range_limits};
use crate::payload::{DecodedOp, each_op, push_op};
use crate::sync::Arc;
use evendb_storage::Version;

/// See the module.
pub(crate) struct Filter {
    keyspace: Arc<KeyspaceState>,
    /// The lowest key, and the first key behind the range if it ends. `None` for a range without
    /// keys.
    range: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Filter {
    pub(crate) fn new(keyspace: &Arc<KeyspaceState>, low: &[u8], high: Option<&[u8]>) -> Filter {
        Filter {
            keyspace: keyspace.clone(),
            range: range_limits(low, high),
        }
    }

    /// The keyspace whose changes it gives.
    pub(super) fn keyspace(&self) -> KeyspaceId {
        self.keyspace.id
    }

    /// `KeyspaceDropped` once the drop is done: nothing more comes.
    pub(super) fn check(&self) -> Result<()> {
        self.keyspace.check_readable_at(Version::MAX)
    }

    /// The writes of a payload that touch the range, as a payload; `None` if none does. A payload
    /// that makes no sense is given as it is: its reader finds that out and says so.
    pub(super) fn cut(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut given = Vec::new();
        for op in each_op(payload) {
            let Some(op) = op else {
                return Some(payload.to_vec());
            };
            if let Some(op) = self.part_of(&op) {
                push_op(&mut given, &op, &[]);
            }
        }
        (!given.is_empty()).then_some(given)
    }

    fn part_of<'a>(&'a self, op: &DecodedOp<'a>) -> Option<DecodedOp<'a>> {
        let (low, high) = self.range.as_ref()?;
        if op.keyspace != self.keyspace.id {
            return None;
        }
        let is_below_end = |key: &[u8]| high.as_ref().is_none_or(|high| key < &high[..]);
        if op.kind != OpKind::RangeDelete {
            return (op.key >= &low[..] && is_below_end(op.key)).then_some(*op);
        }
        // Of a range deletion, an empty value stands for the end of the keyspace.
        let from = op.key.max(low);
        let to = match (op.value, high) {
            (&[], None) => &[],
            (&[], Some(high)) => &high[..],
            (behind, None) => behind,
            (behind, Some(high)) => behind.min(high),
        };
        (to.is_empty() || from < to).then_some(DecodedOp {
            key: from,
            value: to,
            ..*op
        })
    }
}
