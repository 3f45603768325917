//! Merge operators: how the operands of `Keyspace::merge` become a value.
//!
//! ```text
//! put 40   merge +1   merge +2   get        an operator of a keyspace, by its name in the manifest
//!                                 full_merge(40, [+1, +2]) = 43
//!             partial_merge([+1, +2]) = +3    where operands meet without the record below them
//! ```
//! Here are the trait, the operators that come with the crate ([`ready`]), and the calls by which
//! all other code calls an operator: [`full`], [`partial`]. These turn an error and a panic of the
//! operator into an [`Error`] of the key. [`check`] asks the operator about a value or an operand
//! before that is written.
//!
//! Thread safety: any thread calls an operator, several at a time, and some while they hold a
//! chunk's latch. Not here: which operands belong together ([`crate::folding`]).

pub(crate) mod ready;

use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Why an operator cannot merge: any error, also a message (`"not a number".into()`).
pub type MergeError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a value from operands: given to a keyspace by
/// [`KeyspaceOptions::merge_operator`](crate::KeyspaceOptions::merge_operator). docs/merges.md
/// describes all of it.
///
/// An operator must always give the same result for the same arguments: it is called again whenever
/// an operand is read, and it is not promised when operands are folded for good. It must not call
/// the database.
///
/// ```
/// use evendb::{Db, KeyspaceOptions, MergeError, MergeOperator};
///
/// /// Keeps the longest operand.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///     fn full_merge(
///         &self,
///         _key: &[u8],
///         existing: Option<&[u8]>,
///         operands: &[&[u8]],
///     ) -> Result<Option<Vec<u8>>, MergeError> {
///         let all = existing.into_iter().chain(operands.iter().copied());
///         Ok(all.max_by_key(|value| value.len()).map(<[u8]>::to_vec))
///     }
/// }
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let words = db.keyspace_with("words", &KeyspaceOptions::new().merge_operator(Longest))?;
/// words.merge("a", "ant")?;
/// words.merge("a", "albatross")?;
/// assert_eq!(words.get("a")?.unwrap(), "albatross");
/// # Ok(())
/// # }
/// ```
pub trait MergeOperator: Send + Sync + 'static {
    /// Its name, which the keyspace remembers: 1 to 255 bytes. An operator that gives another
    /// result for stored operands must have another name. Names that begin with `evendb.` belong to
    /// [`Merges`](crate::Merges).
    fn name(&self) -> &str;

    /// The value of `key` after `operands`, oldest first and at least one, over `existing`: the
    /// value before them, or `None` if there was none. `Ok(None)` means that the key has no value
    /// then.
    ///
    /// # Errors
    /// After an error, reads of the key fail with `MergeFailed`. Nothing is lost: the operands
    /// stay, and a later put or delete of the key goes over them. A panic counts as an error.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError>;

    /// One operand that stands for `operands`, oldest first and at least two, over any value below
    /// them. `None` means that they have to be kept apart, which costs memory and time if many come
    /// to one key.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// Whether [`full_merge`](Self::full_merge) could read `value`. It is asked before a value is
    /// put, also by a batch, a transaction or an ingest, and not about values that the operator has
    /// made.
    ///
    /// # Errors
    /// After an error the put is refused with `InvalidArgument`. A panic counts as an error.
    fn check_value(&self, key: &[u8], value: &[u8]) -> std::result::Result<(), MergeError> {
        let _ = (key, value);
        Ok(())
    }

    /// Whether [`full_merge`](Self::full_merge) could read `operand`. It is asked before an operand
    /// is merged.
    ///
    /// # Errors
    /// After an error the merge is refused with `InvalidArgument`. A panic counts as an error.
    fn check_operand(&self, key: &[u8], operand: &[u8]) -> std::result::Result<(), MergeError> {
        let _ = (key, operand);
        Ok(())
    }
}

/// A shared operator.
pub(crate) type Operator = Arc<dyn MergeOperator>;

/// The longest value in bytes that an operator may make.
const VALUE_BYTES_MAX: usize = u32::MAX as usize;

fn failed(operator: &dyn MergeOperator, key: &[u8], what: &str) -> Error {
    let message = format!(
        "the merge operator {:?} failed for the key b\"{}\": {what}",
        operator.name(),
        key.escape_ascii()
    );
    Error::new(ErrorKind::MergeFailed, message)
}

/// The message of an operator that panicked.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("without a message"))
}

/// A value or operand that a caller gives to a key.
#[derive(Clone, Copy)]
pub(crate) enum Given<'g> {
    /// A value that is put.
    Value(&'g [u8]),
    /// An operand that is merged.
    Operand(&'g [u8]),
}

/// Refuses a value or operand that the operator could not read later.
pub(crate) fn check(operator: &dyn MergeOperator, key: &[u8], given: Given<'_>) -> Result<()> {
    let call = AssertUnwindSafe(|| match given {
        Given::Value(value) => operator.check_value(key, value),
        Given::Operand(operand) => operator.check_operand(key, operand),
    });
    let why = match catch_unwind(call) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panicked(&*panic),
    };
    let what = match given {
        Given::Value(_) => "value",
        Given::Operand(_) => "operand",
    };
    let message = format!(
        "the merge operator {:?} cannot read the {what} for the key b\"{}\": {why}",
        operator.name(),
        key.escape_ascii()
    );
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// The value after `operands`, oldest first, over `existing`.
pub(crate) fn full(
    operator: &dyn MergeOperator,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Option<Vec<u8>>> {
    let call = AssertUnwindSafe(|| operator.full_merge(key, existing, operands));
    match catch_unwind(call) {
        Ok(Ok(Some(value))) if value.len() > VALUE_BYTES_MAX => {
            let what = format!("it made a value of {} bytes", value.len());
            Err(failed(operator, key, &what))
        }
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(failed(operator, key, &error.to_string())),
        Err(panic) => Err(failed(operator, key, &panicked(&*panic))),
    }
}

/// One operand for `operands`, oldest first; `None` if they have to be kept apart, or if the
/// operator panicked.
pub(crate) fn partial(
    operator: &dyn MergeOperator,
    key: &[u8],
    operands: &[&[u8]],
) -> Option<Vec<u8>> {
    if let [one] = operands {
        return Some(one.to_vec());
    }
    let call = AssertUnwindSafe(|| operator.partial_merge(key, operands));
    let merged = catch_unwind(call).ok()??;
    (merged.len() <= VALUE_BYTES_MAX).then_some(merged)
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests;
