//! A merge operator for tests: the value shows every operand and its place.

use evendb::{KeyspaceOptions, MergeError, MergeOperator};

/// The most bytes of a value that merging makes.
const LEN_MAX: usize = 150;

/// The operand after which a key has no value.
pub const CLEAR: &[u8] = b"!";

/// Appends, and keeps the end. It is not commutative, so a wrong order shows; an operand that is
/// lost or counted twice shows too. [`CLEAR`] removes the value.
pub struct Tail {
    /// Whether operands are merged among themselves.
    pub partial: bool,
}

/// The value after one more operand.
pub fn merged(existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
    if operand == CLEAR {
        return None;
    }
    let all = [existing.unwrap_or_default(), operand].concat();
    Some(all[all.len().saturating_sub(LEN_MAX)..].to_vec())
}

impl MergeOperator for Tail {
    fn name(&self) -> &str {
        "tail"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        assert!(!operands.is_empty(), "no operands");
        let existing = existing.map(<[u8]>::to_vec);
        let each = operands.iter();
        Ok(each.fold(existing, |value, operand| merged(value.as_deref(), operand)))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        if !self.partial || operands.contains(&CLEAR) {
            return None;
        }
        let each = operands.iter();
        each.fold(None, |value: Option<Vec<u8>>, operand| {
            merged(value.as_deref(), operand)
        })
    }
}

/// Options of a keyspace with this operator.
pub fn options(partial: bool) -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator(Tail { partial })
}
