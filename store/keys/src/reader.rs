//! [`Reader`]: a key that is being decoded, column after column.
//!
//! ```text
//!   key      a  p  p  7 00 01 00 00 00 00 65 53 f1 00
//!            `-- column 0 --' ^at: column 1 begins here
//! ```
//! Invariant: `at` is at most the key's length. A failed read leaves `at` unchanged. In a
//! descending column every byte is read as its complement, so columns get a reader and not a bare
//! slice. A reader knows no types: columns know what the bytes mean.

use std::borrow::Cow;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::text::{END, ESCAPE, ESCAPED_ZERO};

/// The rest of a key while its columns are decoded.
///
/// Only implementations of [`ReadColumn`](crate::ReadColumn) need one, and nearly all of these only
/// hand it on.
///
/// ```
/// use evendb_keys::{self as keys, ReadColumn, Reader};
///
/// let key = keys::key(&("app7", 7u8));
/// let mut reader = Reader::new(&key);
/// assert_eq!(<&str>::read(&mut reader)?, "app7");
/// assert_eq!(u8::read(&mut reader)?, 7);
/// assert!(reader.finish().is_ok());
/// # Ok::<(), keys::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'k> {
    key: &'k [u8],
    at: usize,
    column: usize,
    descending: bool,
}

impl<'k> Reader<'k> {
    /// Begins at the first byte of a key.
    ///
    /// ```
    /// let reader = evendb_keys::Reader::new(b"");
    /// assert!(reader.finish().is_ok());
    /// ```
    pub fn new(key: &'k [u8]) -> Self {
        Self {
            key,
            at: 0,
            column: 0,
            descending: false,
        }
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// `CutShort`.
    ///
    /// ```
    /// let mut reader = evendb_keys::Reader::new(b"abc");
    /// assert_eq!(reader.array::<2>().unwrap(), *b"ab");
    /// assert!(reader.array::<2>().is_err());
    /// ```
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((bytes, _)) = self.left().split_first_chunk::<N>() else {
            return Err(self.refuse(0, DecodeErrorKind::CutShort));
        };
        self.at += N;
        let mask = self.mask();
        Ok(bytes.map(|byte| byte ^ mask))
    }

    /// Reads `count` bytes, borrowed from the key unless the column is descending.
    ///
    /// # Errors
    /// `CutShort`.
    ///
    /// ```
    /// let mut reader = evendb_keys::Reader::new(b"abc");
    /// assert_eq!(*reader.bytes(2).unwrap(), *b"ab");
    /// ```
    pub fn bytes(&mut self, count: usize) -> Result<Cow<'k, [u8]>, DecodeError> {
        let Some(bytes) = self.left().get(..count) else {
            return Err(self.refuse(0, DecodeErrorKind::CutShort));
        };
        self.at += count;
        Ok(self.plain(bytes))
    }

    /// Reads escaped bytes and their end mark. They are borrowed from the key unless they hold a
    /// zero byte or the column is descending.
    ///
    /// # Errors
    /// `CutShort`, `BadEscape`.
    ///
    /// ```
    /// let mut reader = evendb_keys::Reader::new(b"a\x00\xffb\x00\x01rest");
    /// assert_eq!(*reader.text().unwrap(), *b"a\0b");
    /// ```
    pub fn text(&mut self) -> Result<Cow<'k, [u8]>, DecodeError> {
        let (left, mask) = (self.left(), self.mask());
        let mut copy: Option<Vec<u8>> = None;
        let mut from = 0;
        loop {
            let rest = left.get(from..).unwrap_or_default();
            let zero = rest.iter().position(|&byte| byte == ESCAPE ^ mask);
            let marked = zero.and_then(|zero| Some((&rest[..zero], *rest.get(zero + 1)?)));
            let Some((piece, mark)) = marked else {
                return Err(self.refuse(0, DecodeErrorKind::CutShort));
            };
            let zero_at = from + piece.len();
            from = zero_at + 2;
            match mark ^ mask {
                END => {
                    self.at += from;
                    let Some(mut copy) = copy else {
                        return Ok(self.plain(piece));
                    };
                    copy.extend(piece.iter().map(|byte| byte ^ mask));
                    return Ok(Cow::Owned(copy));
                }
                ESCAPED_ZERO => {
                    let copy = copy.get_or_insert_default();
                    copy.extend(piece.iter().map(|byte| byte ^ mask));
                    copy.push(0);
                }
                _ => {
                    let position = self.at + zero_at;
                    return Err(DecodeError::new(
                        DecodeErrorKind::BadEscape,
                        self.column,
                        position,
                    ));
                }
            }
        }
    }

    /// Reads all that is left: a key of one text alone.
    ///
    /// ```
    /// let mut reader = evendb_keys::Reader::new(b"usr/share");
    /// assert_eq!(*reader.all(), *b"usr/share");
    /// ```
    pub fn all(&mut self) -> Cow<'k, [u8]> {
        let left = self.left();
        self.at = self.key.len();
        self.plain(left)
    }

    /// An error of the column that is being read, at the part that began `bytes_back` bytes ago.
    ///
    /// ```
    /// use evendb_keys::{DecodeError, DecodeErrorKind, Reader};
    ///
    /// /// Reads a digit.
    /// fn digit(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    ///     let [byte] = reader.array()?;
    ///     match byte {
    ///         b'0'..=b'9' => Ok(byte - b'0'),
    ///         _ => Err(reader.refuse(1, DecodeErrorKind::NoValue)),
    ///     }
    /// }
    /// assert_eq!(digit(&mut Reader::new(b"7")), Ok(7));
    /// assert_eq!(digit(&mut Reader::new(b"x")).unwrap_err().position(), 0);
    /// ```
    pub fn refuse(&self, bytes_back: usize, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.column, self.at.saturating_sub(bytes_back))
    }

    /// Ends the key.
    ///
    /// # Errors
    /// `TooLong` if bytes are left.
    ///
    /// ```
    /// assert!(evendb_keys::Reader::new(b"x").finish().is_err());
    /// ```
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.at < self.key.len() {
            true => Err(self.refuse(0, DecodeErrorKind::TooLong)),
            false => Ok(()),
        }
    }

    /// The bytes behind the columns that were read.
    pub(crate) fn left(&self) -> &'k [u8] {
        self.key.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn begin_column(&mut self, column: usize) {
        self.column = column;
    }

    /// Reads a descending column. A descending column in another descending column ascends again.
    pub(crate) fn descending<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.descending = !self.descending;
        let outcome = read(self);
        self.descending = !self.descending;
        outcome
    }

    fn mask(&self) -> u8 {
        if self.descending { u8::MAX } else { 0 }
    }

    fn plain(&self, bytes: &'k [u8]) -> Cow<'k, [u8]> {
        match self.descending {
            true => Cow::Owned(bytes.iter().map(|byte| !byte).collect()),
            false => Cow::Borrowed(bytes),
        }
    }
}
