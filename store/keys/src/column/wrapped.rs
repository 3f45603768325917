//! Columns around a column: one that may be missing, and one in descending order.
//!
//! ```text
//!   Option<T>   0x00 for None; 0x01 and then the column for Some
//!   Desc<T>     the bytes of the column, each complemented (b becomes 0xff - b)
//! ```
//! `None` sorts first. In a descending column it sorts last.
//!
//! Why `Desc` sorts, whatever the length of the column: no value's bytes begin with another's
//! (`column.rs`). So two values differ at some byte that both have, and that byte decides. The
//! complement of that byte decides the other way round. The complemented bytes do not begin with
//! one another either, so the columns that follow never decide between two values. For text: the
//! end mark 0x00 0x01 becomes 0xff 0xfe. That is greater than the bytes of a longer text in the
//! same place (0xff 0x00, or a byte below 0xff). So a text sorts after its extensions.

use std::cmp::{Ordering, Reverse};

use crate::column::{KeyColumn, ReadColumn};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::reader::Reader;

impl<T: KeyColumn> KeyColumn for Option<T> {
    fn encode(&self, key: &mut Vec<u8>) {
        key.push(u8::from(self.is_some()));
        if let Some(column) = self {
            column.encode(key);
        }
    }
}

impl<'k, T: ReadColumn<'k>> ReadColumn<'k> for Option<T> {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        match reader.array()? {
            [0] => Ok(None),
            [1] => T::read(reader).map(Some),
            _ => Err(reader.refuse(1, DecodeErrorKind::NoValue)),
        }
    }
}

/// A column in descending order: the greatest value comes first.
///
/// Two `Desc` values compare as their keys do, opposite to the values that they hold. A decoded
/// value is owned, because the key has other bytes: `Desc<String>` and `Desc<Vec<u8>>`, not
/// `Desc<&str>`.
///
/// ```
/// use evendb_keys::{self as keys, Desc};
///
/// let newest_first = |time: u64| keys::key(&("app7", Desc(time)));
/// assert!(newest_first(9) < newest_first(8));
/// assert!(Desc(9) < Desc(8));
///
/// let key = newest_first(9);
/// let (app, Desc(time)): (&str, Desc<u64>) = keys::decode(&key)?;
/// assert_eq!((app, time), ("app7", 9));
///
/// // From time 9 back to time 5.
/// let range = keys::range(("app7", Desc(9u64)..=Desc(5)));
/// assert!(range.contains(&newest_first(7)) && !range.contains(&newest_first(4)));
/// # Ok::<(), keys::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Desc<T>(
    /// The value.
    pub T,
);

impl<T: PartialOrd> PartialOrd for Desc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        other.0.partial_cmp(&self.0)
    }
}

impl<T: Ord> Ord for Desc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        Reverse(&self.0).cmp(&Reverse(&other.0))
    }
}

/// Appends what `encode` appends, each byte complemented.
pub(crate) fn encode_descending(key: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let from = key.len();
    encode(key);
    for byte in key.iter_mut().skip(from) {
        *byte = !*byte;
    }
}

impl<T: KeyColumn> KeyColumn for Desc<T> {
    fn encode(&self, key: &mut Vec<u8>) {
        encode_descending(key, |key| self.0.encode(key));
    }
}

impl<'k, T> ReadColumn<'k> for Desc<T>
where
    // A column that does not borrow from the key.
    T: for<'any> ReadColumn<'any>,
{
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        reader.descending(T::read).map(Desc)
    }
}
