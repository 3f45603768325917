//! Operands that a transaction has merged into one key, oldest first.
//!
//! ```text
//!   merges    1..64         65..80     81    82      lists; each stands for at most half as many
//!                                                    merges as the one before it
//!   one more  1..64         65..80     81..82   83   two lists of equally many merges become one,
//!                                                    by the operator if it can
//! ```
//! A list is never changed, so a savepoint keeps earlier lists by their handles. Each operand is
//! copied once each time that its list doubles, and not once for each merge that follows.
//!
//! Thread safety: plain data. Not here: the record that the operands lie on ([`super::writes`]).

use crate::folding;
use crate::merge_operator::Operator;
use crate::sync::Arc;
use smallvec::{SmallVec, smallvec};

/// See the module. For each list, the number of its merges, and the operands in the list form of a
/// record.
#[derive(Clone, Debug)]
pub(crate) struct Operands(SmallVec<[(u64, Arc<[u8]>); 2]>);

impl Operands {
    /// The operands of one merge.
    pub(super) fn of(list: Vec<u8>) -> Operands {
        Operands(smallvec![(1, Arc::from(list))])
    }

    /// Adds the operands of one more merge.
    pub(super) fn push(&mut self, operator: Option<&Operator>, key: &[u8], list: Vec<u8>) {
        let (mut merges, mut list) = (1, list);
        while let Some((own, before)) = self.0.last()
            && *own <= merges
        {
            merges += own;
            list = folding::joined(operator, key, &[before, &list]);
            self.0.pop();
        }
        self.0.push((merges, Arc::from(list)));
    }

    pub(super) fn lists(&self) -> SmallVec<[&[u8]; 2]> {
        self.0.iter().map(|(_, list)| &**list).collect()
    }

    /// Bytes of all lists.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, list)| list.len()).sum()
    }
}
