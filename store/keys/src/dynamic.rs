//! Keys whose types are known only at run time, as in the `evendb` command.
//!
//! ```text
//!   name       type             name       type               name       type
//!   str        any text         u8..u128   unsigned           bool       false, true
//!   bytes      any bytes        i8..i128   signed             char       a code point
//!   fixed:N    N bytes          f32, f64   a float            time       SystemTime
//!   opt:TYPE   None or TYPE     desc:TYPE  TYPE, descending   duration   Duration
//! ```
//! The bytes are the static types' bytes, column by column. A list of one type stands for a column
//! alone, in no tuple: a single `str` is its bytes as they are.
//!
//! `Column::Text` holds bytes and not `str`: a key's text need not be UTF-8, and a tool that shows
//! keys must not refuse such keys. Not here: how values are written as text, which each tool
//! decides.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::column::{KeyColumn, ReadColumn, by_reference};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::reader::Reader;
use crate::wrapped::encode_descending;

/// The greatest number of `opt:` and `desc:` with which a name may begin. Names come from outside,
/// and each of these makes decoding go one call deeper.
const WRAPPED_MAX: usize = 8;

macro_rules! dynamic {
    ($($variant:ident($of:ty) $name:literal $what:literal,)+) => {
        /// The type of a column.
        ///
        /// It has a name. The type is shown as this name, and can be parsed from it.
        ///
        /// ```
        /// use evendb_keys::ColumnType;
        ///
        /// let newest_first: ColumnType = "desc:u64".parse()?;
        /// assert_eq!(newest_first, ColumnType::Descending(Box::new(ColumnType::U64)));
        /// assert_eq!(newest_first.to_string(), "desc:u64");
        /// # Ok::<(), evendb_keys::UnknownType>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ColumnType {
            /// `str`: text.
            Text,
            /// `bytes`: bytes of any length.
            Bytes,
            /// `fixed:N`: always `N` bytes.
            Fixed(usize),
            $(#[doc = concat!("`", $name, "`: ", $what, ".")] $variant,)+
            /// `opt:TYPE`: a column that may be missing.
            Optional(Box<ColumnType>),
            /// `desc:TYPE`: a column in descending order.
            Descending(Box<ColumnType>),
        }

        /// The value of a column.
        ///
        /// It is itself a column, with the bytes of its static type.
        ///
        /// ```
        /// use evendb_keys::{self as keys, Column};
        ///
        /// let key = keys::key(&(Column::Text(b"app7".into()), Column::U64(7)));
        /// assert_eq!(key, keys::key(&("app7", 7u64)));
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Column<'k> {
            /// Text: any bytes, which need not be UTF-8.
            Text(Cow<'k, [u8]>),
            /// Bytes of any length.
            Bytes(Cow<'k, [u8]>),
            /// The number of bytes that the type says.
            Fixed(Cow<'k, [u8]>),
            $(#[doc = concat!("A `", stringify!($of), "`.")] $variant($of),)+
            /// A column, or none.
            Optional(Option<Box<Column<'k>>>),
            /// A column in descending order.
            Descending(Box<Column<'k>>),
        }

        impl fmt::Display for ColumnType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Text => f.write_str("str"),
                    Self::Bytes => f.write_str("bytes"),
                    Self::Fixed(length) => write!(f, "fixed:{length}"),
                    $(Self::$variant => f.write_str($name),)+
                    Self::Optional(inner) => write!(f, "opt:{inner}"),
                    Self::Descending(inner) => write!(f, "desc:{inner}"),
                }
            }
        }

        /// The type of a name without `opt:` and `desc:`.
        fn plain_type(name: &str) -> Option<ColumnType> {
            match name {
                "str" | "text" => Some(ColumnType::Text),
                "bytes" => Some(ColumnType::Bytes),
                $($name => Some(ColumnType::$variant),)+
                _ => {
                    let length = name.strip_prefix("fixed:")?.parse().ok();
                    length.filter(|&length| length > 0).map(ColumnType::Fixed)
                }
            }
        }

        impl KeyColumn for Column<'_> {
            fn encode(&self, key: &mut Vec<u8>) {
                match self {
                    Self::Text(bytes) | Self::Bytes(bytes) => bytes.encode(key),
                    Self::Fixed(bytes) => key.extend_from_slice(bytes),
                    $(Self::$variant(value) => value.encode(key),)+
                    Self::Optional(None) => key.push(0),
                    Self::Optional(Some(column)) => {
                        key.push(1);
                        column.encode(key);
                    }
                    Self::Descending(column) => encode_descending(key, |key| column.encode(key)),
                }
            }

            fn encode_alone(&self, key: &mut Vec<u8>) {
                match self {
                    Self::Text(bytes) | Self::Bytes(bytes) => bytes.encode_alone(key),
                    other => other.encode(key),
                }
            }
        }

        impl ColumnType {
            fn read<'k>(&self, reader: &mut Reader<'k>) -> Result<Column<'k>, DecodeError> {
                Ok(match self {
                    Self::Text => Column::Text(reader.text()?),
                    Self::Bytes => Column::Bytes(reader.text()?),
                    Self::Fixed(length) => Column::Fixed(reader.bytes(*length)?),
                    $(Self::$variant => Column::$variant(<$of>::read(reader)?),)+
                    Self::Optional(inner) => match reader.array()? {
                        [0] => Column::Optional(None),
                        [1] => Column::Optional(Some(Box::new(inner.read(reader)?))),
                        _ => return Err(reader.refuse(1, DecodeErrorKind::NoValue)),
                    },
                    Self::Descending(inner) => {
                        let column = reader.descending(|reader| inner.read(reader))?;
                        Column::Descending(Box::new(column))
                    }
                })
            }
        }
    };
}
dynamic! {
    U8(u8) "u8" "a whole number from 0, of 8 bits",
    U16(u16) "u16" "of 16 bits",
    U32(u32) "u32" "of 32 bits",
    U64(u64) "u64" "of 64 bits",
    U128(u128) "u128" "of 128 bits",
    I8(i8) "i8" "a whole number that may be negative, of 8 bits",
    I16(i16) "i16" "of 16 bits",
    I32(i32) "i32" "of 32 bits",
    I64(i64) "i64" "of 64 bits",
    I128(i128) "i128" "of 128 bits",
    F32(f32) "f32" "a float of 32 bits",
    F64(f64) "f64" "a float of 64 bits",
    Bool(bool) "bool" "false or true",
    Char(char) "char" "a code point",
    Time(SystemTime) "time" "a moment",
    Duration(Duration) "duration" "a length of time",
}
by_reference!(Column<'_>);

/// A name that no type has.
///
/// ```
/// let error = "u65".parse::<evendb_keys::ColumnType>().unwrap_err();
/// assert_eq!(error.to_string(), "no such type `u65`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownType {
    name: String,
}

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no such type `{}`", self.name)
    }
}

impl std::error::Error for UnknownType {}

impl FromStr for ColumnType {
    type Err = UnknownType;

    fn from_str(name: &str) -> Result<Self, UnknownType> {
        let unknown = || UnknownType {
            name: name.to_owned(),
        };
        let mut wraps: Vec<fn(Box<Self>) -> Self> = Vec::new();
        let mut rest = name;
        loop {
            if let Some(inner) = rest.strip_prefix("opt:") {
                wraps.push(Self::Optional);
                rest = inner;
            } else if let Some(inner) = rest.strip_prefix("desc:") {
                wraps.push(Self::Descending);
                rest = inner;
            } else {
                break;
            }
            if wraps.len() > WRAPPED_MAX {
                return Err(unknown());
            }
        }
        let plain = plain_type(rest).ok_or_else(unknown)?;
        let wrap = |inner, wrap: fn(Box<Self>) -> Self| wrap(Box::new(inner));
        Ok(wraps.into_iter().rev().fold(plain, wrap))
    }
}

/// Encodes the columns of one key one after the other.
///
/// ```
/// use evendb_keys::{self as keys, Column, KeyEncoder};
///
/// let mut buffer = Vec::new();
/// let mut encoder = KeyEncoder::new(&mut buffer, 2);
/// encoder.push("app7");
/// encoder.push(&Column::U64(7));
/// assert_eq!(buffer, keys::key(&("app7", 7u64)));
///
/// // One column is a column alone.
/// KeyEncoder::new(&mut buffer, 1).push("app7");
/// assert_eq!(buffer, b"app7");
/// ```
#[derive(Debug)]
pub struct KeyEncoder<'a> {
    key: &'a mut Vec<u8>,
    alone: bool,
}

impl<'a> KeyEncoder<'a> {
    /// Starts a key of `columns` columns in `key`, which is cleared. Fewer columns make a prefix of
    /// keys.
    ///
    /// ```
    /// use evendb_keys::{self as keys, KeyEncoder};
    ///
    /// let mut buffer = Vec::new();
    /// KeyEncoder::new(&mut buffer, 2).push("app7");
    /// assert_eq!(buffer, keys::prefix(&("app7",)).as_ref());
    /// ```
    pub fn new(key: &'a mut Vec<u8>, columns: usize) -> Self {
        key.clear();
        Self {
            key,
            alone: columns == 1,
        }
    }

    /// Appends a column.
    ///
    /// ```
    /// let mut buffer = Vec::new();
    /// evendb_keys::KeyEncoder::new(&mut buffer, 3).push(&true);
    /// assert_eq!(buffer, [1]);
    /// ```
    pub fn push(&mut self, column: &(impl KeyColumn + ?Sized)) {
        match self.alone {
            true => column.encode_alone(self.key),
            false => column.encode(self.key),
        }
    }
}

/// The columns of a key of these types.
///
/// # Errors
/// If the bytes are not a key of these types.
///
/// ```
/// use evendb_keys::{self as keys, Column, ColumnType};
///
/// let key = keys::key(&("app7", 7u64));
/// let columns = keys::decode_columns(&[ColumnType::Text, ColumnType::U64], &key)?;
/// assert_eq!(columns, [Column::Text(b"app7".into()), Column::U64(7)]);
/// # Ok::<(), keys::DecodeError>(())
/// ```
pub fn decode_columns<'k>(
    types: &[ColumnType],
    key: &'k [u8],
) -> Result<Vec<Column<'k>>, DecodeError> {
    match types {
        [ColumnType::Text] => return Ok(vec![Column::Text(Cow::Borrowed(key))]),
        [ColumnType::Bytes] => return Ok(vec![Column::Bytes(Cow::Borrowed(key))]),
        _ => {}
    }
    let mut reader = Reader::new(key);
    let mut columns = Vec::with_capacity(types.len());
    for (index, kind) in types.iter().enumerate() {
        reader.begin_column(index);
        columns.push(kind.read(&mut reader)?);
    }
    reader.finish()?;
    Ok(columns)
}
