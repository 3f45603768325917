//! Keys made of typed columns, as bytes that sort as the columns do.
//!
//! ```
//! use evendb_keys as keys; // evendb::keys, where the store is there
//!
//! let key = keys::key(&("app7", 1_700_000_000u64));
//! let (app, time): (&str, u64) = keys::decode(&key)?; // nothing is copied
//! assert_eq!((app, time), ("app7", 1_700_000_000));
//! assert!(key < keys::key(&("app7", 1_700_000_001u64)) && key < keys::key(&("app70", 0u64)));
//!
//! // What the database is asked for: db.prefix(all), db.range(late), db.delete_prefix(all).
//! let all = keys::prefix(&("app7",));
//! let late = keys::range(("app7", 1_700_000_000u64..));
//! assert!(key.starts_with(all.as_ref()) && late.contains(&key));
//! # Ok::<(), keys::DecodeError>(())
//! ```
//!
//! # Bytes
//!
//! ```text
//!   &str, String, &[u8], Vec<u8>   the bytes, 0x00 written as 0x00 0xff; end mark 0x00 0x01
//!   [u8; N]                        N bytes as they are
//!   u8..u128                       1 to 16 bytes, big endian
//!   i8..i128                       the same, sign bit flipped
//!   f32, f64                       4 or 8 bytes, big endian; sign bit flipped, or if set all bits
//!   bool                           0x00 or 0x01
//!   char                           4 bytes, big endian
//!   Option<T>                      0x00, or 0x01 and the column: None sorts first
//!   SystemTime                     seconds since 1970 as i64, then nanoseconds as u32
//!   Duration                       seconds as u64, then nanoseconds as u32
//!   Desc<T>                        the column with every byte complemented: descending order
//!
//!   a tuple                        its columns, end to end
//!   one text or byte string alone  the bytes as they are, with no end mark
//! ```
//! Within a type, bytes sort as values do, and no value's bytes begin with another's. The files of
//! the types in `column` say why: `text.rs`, `number.rs`, `time.rs`, `wrapped.rs`. These bytes are
//! a format: a key that was written stays readable, and `tests/golden.rs` has one of each kind.
//!
//! # A tuple, and a column alone
//!
//! `keys::key(&("app7",))` is a tuple of one column and has an end mark. `keys::key("app7")` is a
//! text alone and has none, so that a map of paths or names has them unchanged as its keys. The two
//! are different keys. Only a tuple can be a prefix of longer keys: the compiler refuses [`prefix`]
//! of a text alone, because the bytes of `"app7"` are also the beginning of the bytes of `"app70"`.
//! For keys that are texts alone the database takes texts: `db.prefix("usr/")`,
//! `db.range("a".."b")`.
//!
//! # What it does not do
//!
//! A key does not say what types it has. It is decoded with the types with which it was made. Other
//! types give an error or other values, and never a panic. The database limits the length of a key,
//! and refuses a longer one when it is put. Text sorts by its bytes, not by the rules of a
//! language.

mod column;
mod dynamic;
mod error;
mod key;
mod range;
mod reader;

use column::{text, wrapped};

pub use column::{KeyColumn, ReadColumn};
pub use dynamic::{Column, ColumnType, KeyEncoder, UnknownType, decode_columns};
pub use error::{DecodeError, DecodeErrorKind};
pub use key::{Columns, Key, ReadKey};
pub use range::{ColumnRange, KeyRange, Prefix, RangeColumns, StartsWith, prefix_end};
pub use reader::Reader;
pub use wrapped::Desc;

/// The bytes of a key.
///
/// ```
/// use evendb_keys as keys;
///
/// assert_eq!(keys::key(&("app7", 7u16)), b"app7\x00\x01\x00\x07");
/// assert_eq!(keys::key("usr/share"), b"usr/share"); // a text alone
/// ```
pub fn key<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

/// Encodes a key into a buffer, which is cleared first, and returns its bytes. A buffer that is
/// used again allocates nothing.
///
/// ```
/// use evendb_keys as keys;
///
/// let mut buffer = Vec::new();
/// for time in 0..3u64 {
///     let key = keys::encode_into(&mut buffer, &("app7", time));
///     assert_eq!(keys::decode(key), Ok(("app7", time)));
/// }
/// ```
pub fn encode_into<'b, K: Key + ?Sized>(buffer: &'b mut Vec<u8>, key: &K) -> &'b [u8] {
    buffer.clear();
    key.encode_key(buffer);
    buffer
}

/// The columns of a key. `&str` and `&[u8]` are borrowed from it.
///
/// Bytes that hold a zero are escaped in the key, and cannot be borrowed. If that can happen, ask
/// for a `Cow`, which is borrowed as a rule, or for a `String` or `Vec<u8>`.
///
/// # Errors
/// If the bytes are not a key of these columns.
///
/// ```
/// use std::borrow::Cow;
/// use evendb_keys as keys;
///
/// let key = keys::key(&("a\0b", Some(-7i32)));
/// let (text, number): (Cow<'_, str>, Option<i32>) = keys::decode(&key)?;
/// assert_eq!((&*text, number), ("a\0b", Some(-7)));
/// # Ok::<(), keys::DecodeError>(())
/// ```
pub fn decode<'k, K: ReadKey<'k>>(key: &'k [u8]) -> Result<K, DecodeError> {
    let mut reader = Reader::new(key);
    let columns = K::read_key(&mut reader)?;
    reader.finish()?;
    Ok(columns)
}

/// The first columns of a key, and the bytes of the others.
///
/// # Errors
/// If the key does not begin with these columns.
///
/// ```
/// use evendb_keys as keys;
///
/// let key = keys::key(&("app7", 7u64, true));
/// let ((app,), rest): ((&str,), _) = keys::decode_first(&key)?;
/// assert_eq!(app, "app7");
/// assert_eq!(keys::decode(rest), Ok((7u64, true)));
/// # Ok::<(), keys::DecodeError>(())
/// ```
pub fn decode_first<'k, K: ReadKey<'k> + Columns>(
    key: &'k [u8],
) -> Result<(K, &'k [u8]), DecodeError> {
    let mut reader = Reader::new(key);
    let columns = K::read_key(&mut reader)?;
    Ok((columns, reader.left()))
}

/// All keys that begin with these columns: the key of just these columns, and the keys of more.
///
/// ```
/// use evendb_keys as keys;
///
/// let prefix = keys::prefix(&("app7",));
/// for inside in [keys::key(&("app7",)), keys::key(&("app7", 7u64)), keys::key(&("app7", "x", true))] {
///     assert!(inside.starts_with(prefix.as_ref()));
/// }
/// assert!(!keys::key(&("app70", 7u64)).starts_with(prefix.as_ref()));
/// ```
///
/// A text alone is refused, because it is no tuple:
///
/// ```compile_fail
/// evendb_keys::prefix("app7");
/// ```
pub fn prefix<C: Columns + ?Sized>(columns: &C) -> Prefix {
    Prefix::of(columns)
}

/// The keys that begin with some columns and have their next column in a range: a tuple whose last
/// element is a range.
///
/// The range is one of columns, not of bytes. `..=t` takes every key with the column t, whatever
/// columns follow it, and the first key of `t..` is the first of these. A key without a column in
/// the range's place is not in the range.
///
/// ```
/// use evendb_keys as keys;
///
/// let range = keys::range(("app7", 5u64..=9));
/// assert!(range.contains(&keys::key(&("app7", 5u64))));
/// assert!(range.contains(&keys::key(&("app7", 9u64, "and more"))));
/// assert!(!range.contains(&keys::key(&("app7", 10u64))));
/// assert!(!range.contains(&keys::key(&("app7",))));
/// ```
pub fn range<R: RangeColumns>(columns: R) -> KeyRange {
    columns.key_range()
}
