//! The traits of one column: [`KeyColumn`] writes it, [`ReadColumn`] reads it.
//!
//! What every implementation keeps, for the values of one type:
//! * **order**: the bytes of a lesser value are less;
//! * **no beginnings**: the bytes of one value are never the beginning of the bytes of another
//!   value. So the first byte that differs decides between two values, whatever columns follow, and
//!   the complement of all bytes is the opposite order ([`Desc`](crate::Desc));
//! * at least one byte, so that a key of more columns is longer.
//!
//! The implementations for Rust's own types lie in `text.rs`, `number.rs`, `time.rs` and
//! `wrapped.rs`.

mod number;
pub(crate) mod text;
mod time;
pub(crate) mod wrapped;

use crate::error::DecodeError;
use crate::reader::Reader;

/// A value that can be a column of a key.
///
/// A type of your own becomes a column by the columns that it is made of. It must keep the three
/// rules: the bytes sort as the values do; no value's bytes begin with another value's bytes; and
/// there is at least one byte.
///
/// ```
/// use evendb_keys::{self as keys, DecodeError, KeyColumn, ReadColumn, Reader};
///
/// #[derive(PartialEq, Debug)]
/// struct UserId(u32);
///
/// impl KeyColumn for UserId {
///     fn encode(&self, key: &mut Vec<u8>) {
///         self.0.encode(key);
///     }
/// }
///
/// impl<'k> ReadColumn<'k> for UserId {
///     fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
///         u32::read(reader).map(UserId)
///     }
/// }
///
/// let key = keys::key(&(UserId(7), "inbox"));
/// assert_eq!(keys::decode(&key), Ok((UserId(7), "inbox")));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column of a key",
    note = "columns are texts, bytes, numbers of a fixed width, bool, char, Option, Desc, times",
    note = "a literal like b\"abc\" is `b\"abc\".as_slice()` for bytes of any length, or \
            `*b\"abc\"` for always three bytes"
)]
pub trait KeyColumn {
    /// Appends the column's bytes.
    ///
    /// ```
    /// use evendb_keys::KeyColumn;
    ///
    /// let mut bytes = Vec::new();
    /// "ab".encode(&mut bytes);
    /// 258u16.encode(&mut bytes);
    /// assert_eq!(bytes, b"ab\x00\x01\x01\x02");
    /// ```
    fn encode(&self, key: &mut Vec<u8>);

    /// Appends the bytes of a key that is this column alone, in no tuple: text and bytes as they
    /// are, and everything else as in a tuple. A type of your own that is made of text must forward
    /// this call, too.
    ///
    /// ```
    /// use evendb_keys::KeyColumn;
    ///
    /// let mut bytes = Vec::new();
    /// "ab".encode_alone(&mut bytes);
    /// assert_eq!(bytes, b"ab");
    /// ```
    fn encode_alone(&self, key: &mut Vec<u8>) {
        self.encode(key);
    }
}

/// A value that can be decoded from a column of a key.
///
/// `'k` is the life of the key's bytes: `&'k str` and `&'k [u8]` are borrowed from them. See
/// [`KeyColumn`] for a type of your own.
///
/// ```
/// use evendb_keys::{ReadColumn, Reader};
///
/// assert_eq!(<&str>::read(&mut Reader::new(b"ab\x00\x01")), Ok("ab"));
/// ```
pub trait ReadColumn<'k>: Sized {
    /// Reads the column.
    ///
    /// # Errors
    /// If the bytes are not a column of this type.
    ///
    /// ```
    /// use evendb_keys::{ReadColumn, Reader};
    ///
    /// assert_eq!(u16::read(&mut Reader::new(&[1, 2])), Ok(258));
    /// assert!(u16::read(&mut Reader::new(&[1])).is_err());
    /// ```
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError>;

    /// Reads a key that is this column alone, in no tuple.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// ```
    /// use evendb_keys::{ReadColumn, Reader};
    ///
    /// assert_eq!(<&str>::read_alone(&mut Reader::new(b"ab")), Ok("ab"));
    /// ```
    fn read_alone(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        Self::read(reader)
    }
}

/// Lets a reference to a column be a column. References to arrays are left out on purpose: a
/// literal `b"abc"` is one, and would be written as exactly three bytes where bytes of any length
/// are meant.
macro_rules! by_reference {
    ($($of:ty),+ $(,)?) => {$(
        impl $crate::KeyColumn for &$of {
            fn encode(&self, key: &mut Vec<u8>) {
                (**self).encode(key);
            }

            fn encode_alone(&self, key: &mut Vec<u8>) {
                (**self).encode_alone(key);
            }
        }
    )+};
}
pub(crate) use by_reference;
