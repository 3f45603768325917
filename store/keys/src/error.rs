//! Why bytes are not a key of the types that were asked for, and where in the key that shows.
//!
//! An error is three numbers and nothing else, so making one costs no memory: what is wrong, the
//! column (counted from 1), and the byte of the key at which the wrong part begins. Encoding a key
//! has no errors.

use std::fmt;

/// Why a key could not be decoded.
///
/// ```
/// use evendb_keys::{self as keys, DecodeErrorKind};
///
/// let key = keys::key(&("app7", true));
/// let error = keys::decode::<(&str, u64)>(&key).unwrap_err();
/// assert_eq!(error.kind(), DecodeErrorKind::CutShort);
/// assert_eq!((error.column(), error.position()), (2, 6));
/// assert_eq!(error.to_string(), "column 2 of the key, at byte 6: the key ends within this column");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    /// Counted from 0.
    column: usize,
    position: usize,
}

/// The kinds of [`DecodeError`].
///
/// ```
/// use evendb_keys::{self as keys, DecodeErrorKind};
///
/// let error = keys::decode::<bool>(&[7]).unwrap_err();
/// assert_eq!(error.kind(), DecodeErrorKind::NoValue);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The key ends within a column.
    CutShort,
    /// Bytes follow the last column.
    TooLong,
    /// In text or bytes, a zero byte is followed by neither the end mark nor the mark of an escaped
    /// zero.
    BadEscape,
    /// Text that is asked for as `str` is not UTF-8.
    NotUtf8,
    /// The bytes have the right length, but no value of the type has these bytes.
    NoValue,
    /// This platform cannot represent the time.
    TimeOutOfRange,
    /// The key does not contain these bytes unchanged, so they cannot be borrowed from it: they
    /// have a zero byte, which the key has escaped. Decode a `Cow`, a `String` or a `Vec<u8>`
    /// instead.
    NotBorrowed,
}

impl DecodeError {
    pub(crate) fn new(kind: DecodeErrorKind, column: usize, position: usize) -> Self {
        Self {
            kind,
            column,
            position,
        }
    }

    /// What is wrong.
    ///
    /// ```
    /// use evendb_keys::{self as keys, DecodeErrorKind};
    ///
    /// let error = keys::decode::<(u8,)>(&[1, 2]).unwrap_err();
    /// assert_eq!(error.kind(), DecodeErrorKind::TooLong);
    /// ```
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// The column that could not be decoded, counted from 1, as the message and the command count
    /// columns.
    ///
    /// ```
    /// let error = evendb_keys::decode::<(u8, bool)>(&[1, 2]).unwrap_err();
    /// assert_eq!(error.column(), 2);
    /// ```
    pub fn column(&self) -> usize {
        self.column + 1
    }

    /// The byte of the key, counted from 0, at which the wrong part begins.
    ///
    /// ```
    /// let error = evendb_keys::decode::<(u32, bool)>(&[0, 0, 0, 1, 2]).unwrap_err();
    /// assert_eq!(error.position(), 4);
    /// ```
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, position) = (self.column(), self.position);
        write!(f, "column {column} of the key, at byte {position}: ")?;
        f.write_str(match self.kind {
            DecodeErrorKind::CutShort => "the key ends within this column",
            DecodeErrorKind::TooLong => "bytes follow the last column",
            DecodeErrorKind::BadEscape => "a zero byte is followed by neither 0x01 nor 0xff",
            DecodeErrorKind::NotUtf8 => "the text is not UTF-8",
            DecodeErrorKind::NoValue => "no value of this type is written like this",
            DecodeErrorKind::TimeOutOfRange => "this platform cannot represent the time",
            DecodeErrorKind::NotBorrowed => {
                "the bytes hold an escaped zero and cannot be borrowed; decode a Cow, a String or \
                 a Vec<u8> instead"
            }
        })
    }
}

impl std::error::Error for DecodeError {}
