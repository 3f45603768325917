//! The merge operators that come with the crate, each known by its name alone.

use super::{MergeError, MergeOperator, Operator};
use evendb_storage::{operands, push_operand};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Merge operators that come with the crate. A keyspace with one of these is opened without naming
/// the operator: its stored name is enough. All of them are associative, so operands are folded
/// wherever they meet.
///
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use evendb::{Db, KeyspaceOptions, Merges};
/// let db = Db::open(dir.path())?;
/// let hits = db.keyspace_with("hits", &KeyspaceOptions::new().merge_operator(Merges::AddU64))?;
/// hits.merge("page/1", 1u64.to_le_bytes())?;
/// hits.merge("page/1", 41u64.to_le_bytes())?;
/// assert_eq!(hits.get("page/1")?.unwrap(), 42u64.to_le_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Merges {
    /// Adds unsigned numbers of 8 bytes, little-endian; a key without a value has 0. A sum beyond
    /// the greatest number continues from 0 (it wraps): a sum that stopped there would depend on
    /// where operands meet.
    AddU64,
    /// Adds signed numbers of 8 bytes, little-endian (two's complement), in the same way.
    AddI64,
    /// Keeps the greatest of value and operands, byte by byte, as keys are compared.
    Max,
    /// Keeps the least of value and operands.
    Min,
    /// Appends the operands to the value.
    Append,
    /// Unites sets of byte strings. Value and operands are sets as [`Merges::set`] makes them.
    Union,
}

impl Merges {
    /// All of them.
    pub const ALL: [Merges; 6] = [
        Merges::AddU64,
        Merges::AddI64,
        Merges::Max,
        Merges::Min,
        Merges::Append,
        Merges::Union,
    ];

    /// The operator with this name.
    pub fn named(name: &str) -> Option<Merges> {
        let mut all = Merges::ALL.into_iter();
        all.find(|merges| merges.name() == name)
    }

    /// A set in the form of [`Merges::Union`]: its elements in order, each once. An element is its
    /// length (7 bits a byte, low bits first, the top bit set on all bytes except the last) and its
    /// bytes.
    ///
    /// ```
    /// use evendb::Merges;
    /// let set = Merges::set(["b", "a", "b"]);
    /// assert_eq!(Merges::elements(&set), Some(vec![&b"a"[..], b"b"]));
    /// ```
    pub fn set<E: AsRef<[u8]>>(elements: impl IntoIterator<Item = E>) -> Vec<u8> {
        let elements: Vec<E> = elements.into_iter().collect();
        set_of(elements.iter().map(AsRef::as_ref))
    }

    /// The elements of a set, in order; `None` if the bytes are no set.
    pub fn elements(set: &[u8]) -> Option<Vec<&[u8]>> {
        operands(set).collect()
    }

    /// Values and operands have the same form.
    fn check(self, bytes: &[u8]) -> Result<(), MergeError> {
        match self {
            Merges::AddU64 | Merges::AddI64 => number(bytes).map(drop),
            Merges::Max | Merges::Min | Merges::Append => Ok(()),
            Merges::Union => match Merges::elements(bytes) {
                Some(_) => Ok(()),
                None => Err(NO_SET.into()),
            },
        }
    }

    pub(crate) fn operator(self) -> Operator {
        Arc::new(self)
    }
}

const NO_SET: &str = "a set that makes no sense";

fn set_of<'e>(elements: impl Iterator<Item = &'e [u8]>) -> Vec<u8> {
    let elements: BTreeSet<&[u8]> = elements.collect();
    let mut set = Vec::new();
    elements
        .into_iter()
        .for_each(|element| push_operand(&mut set, element));
    set
}

fn number(bytes: &[u8]) -> Result<u64, MergeError> {
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| match bytes.len() {
        1 => "1 byte where a number has 8".to_owned(),
        len => format!("{len} bytes where a number has 8"),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

impl MergeOperator for Merges {
    fn name(&self) -> &str {
        match self {
            Merges::AddU64 => "evendb.add-u64",
            Merges::AddI64 => "evendb.add-i64",
            Merges::Max => "evendb.max",
            Merges::Min => "evendb.min",
            Merges::Append => "evendb.append",
            Merges::Union => "evendb.union",
        }
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let mut all = existing.into_iter().chain(operands.iter().copied());
        Ok(match self {
            // In two's complement, the sum modulo 2^64 equals that of the unsigned numbers.
            Merges::AddU64 | Merges::AddI64 => {
                let sum = all.try_fold(0u64, |sum, bytes| {
                    number(bytes).map(|number| sum.wrapping_add(number))
                });
                Some(sum?.to_le_bytes().to_vec())
            }
            Merges::Max => all.max().map(<[u8]>::to_vec),
            Merges::Min => all.min().map(<[u8]>::to_vec),
            Merges::Append => Some(all.collect::<Vec<_>>().concat()),
            Merges::Union => {
                let sets: Option<Vec<Vec<&[u8]>>> = all.map(Merges::elements).collect();
                let sets = sets.ok_or(NO_SET)?;
                Some(set_of(sets.into_iter().flatten()))
            }
        })
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        // An operand that makes no sense has to stay, so that reads meet it and report the error.
        self.full_merge(key, None, operands).ok()?
    }

    fn check_value(&self, _key: &[u8], value: &[u8]) -> Result<(), MergeError> {
        self.check(value)
    }

    fn check_operand(&self, _key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        self.check(operand)
    }
}
