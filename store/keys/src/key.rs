//! Whole keys: tuples of columns, and columns alone.
//!
//! ```text
//!   (a, b, c)   the bytes of a, b and c, end to end: each says where it ends
//!   a           text or bytes as they are; everything else as in a tuple
//! ```
//! The bytes of a tuple are the beginning of the bytes of every longer tuple that begins with the
//! same columns, and of no other tuple. So the key of `("app7",)` sorts just before the keys
//! `("app7", ...)`, as a parent before its children, and it is their prefix. A text alone has no
//! end mark, and is the beginning of longer texts: `"app7"` is the beginning of `"app70"`. This is
//! why a text is a prefix of keys only in a tuple.
//!
//! Tuples have 1 to 12 columns. They do not nest: a tuple is no column.

use crate::column::{KeyColumn, ReadColumn};
use crate::error::DecodeError;
use crate::reader::Reader;

/// What can be made into a key: a tuple of columns, or a column alone.
///
/// A struct of your own becomes a key by a tuple of its fields.
///
/// ```
/// use evendb_keys::{self as keys, Key};
///
/// struct Event {
///     app: String,
///     time: u64,
/// }
///
/// impl Key for Event {
///     fn encode_key(&self, key: &mut Vec<u8>) {
///         (&self.app, self.time).encode_key(key);
///     }
/// }
///
/// let event = Event { app: "app7".to_owned(), time: 7 };
/// assert_eq!(keys::key(&event), keys::key(&("app7", 7u64)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    note = "a key is a tuple of 1 to 12 columns, or a column alone"
)]
pub trait Key {
    /// Appends the key's bytes.
    ///
    /// ```
    /// use evendb_keys::Key;
    ///
    /// let mut bytes = Vec::new();
    /// (true, 'a').encode_key(&mut bytes);
    /// assert_eq!(bytes, [1, 0, 0, 0, 0x61]);
    /// ```
    fn encode_key(&self, key: &mut Vec<u8>);
}

impl<C: KeyColumn + ?Sized> Key for C {
    fn encode_key(&self, key: &mut Vec<u8>) {
        self.encode_alone(key);
    }
}

/// A tuple of 1 to 12 columns: a key, or the first columns of longer keys.
///
/// ```
/// use evendb_keys::{self as keys, Columns};
///
/// fn children(parent: &impl Columns) -> keys::Prefix {
///     keys::prefix(parent)
/// }
/// assert_eq!(children(&("app7",)), keys::prefix(&("app7",)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of columns",
    note = "the prefix of one column is `(column,)`, with a comma",
    note = "keys that are one text each, in no tuple, are their own bytes: give the database the \
            text itself, as in `db.prefix(\"usr/\")`"
)]
pub trait Columns: Key {}

/// The types to which a key can be decoded: a tuple of columns, or a column alone.
///
/// ```
/// use evendb_keys::{self as keys, ReadKey};
///
/// fn app<'k>(key: &'k [u8]) -> Result<&'k str, keys::DecodeError> {
///     let (app, _): (&'k str, u64) = keys::decode(key)?;
///     Ok(app)
/// }
/// assert_eq!(app(&keys::key(&("app7", 7u64))), Ok("app7"));
/// ```
pub trait ReadKey<'k>: Sized {
    /// Reads the columns, and leaves the bytes behind them.
    ///
    /// # Errors
    /// If the bytes do not begin with these columns.
    ///
    /// ```
    /// use evendb_keys::{ReadKey, Reader};
    ///
    /// let mut reader = Reader::new(&[1, 0, 7]);
    /// assert_eq!(<(bool, bool)>::read_key(&mut reader), Ok((true, false)));
    /// assert_eq!(<(u8,)>::read_key(&mut reader), Ok((7,)));
    /// ```
    fn read_key(reader: &mut Reader<'k>) -> Result<Self, DecodeError>;
}

impl<'k, C: ReadColumn<'k>> ReadKey<'k> for C {
    fn read_key(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        C::read_alone(reader)
    }
}

macro_rules! tuples {
    ($($column:ident $index:tt)+) => {
        impl<$($column: KeyColumn),+> Key for ($($column,)+) {
            fn encode_key(&self, key: &mut Vec<u8>) {
                $(self.$index.encode(key);)+
            }
        }

        impl<$($column: KeyColumn),+> Columns for ($($column,)+) {}

        impl<'k, $($column: ReadColumn<'k>),+> ReadKey<'k> for ($($column,)+) {
            fn read_key(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                Ok(($({
                    reader.begin_column($index);
                    $column::read(reader)?
                },)+))
            }
        }
    };
}
tuples!(A 0);
tuples!(A 0 B 1);
tuples!(A 0 B 1 C 2);
tuples!(A 0 B 1 C 2 D 3);
tuples!(A 0 B 1 C 2 D 3 E 4);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
