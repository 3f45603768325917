//! Columns of text and of bytes.
//!
//! ```text
//!   text, bytes   each byte; 0x00 as 0x00 0xff; then the end mark 0x00 0x01
//!   alone         a key that is one text or one byte string, in no tuple: the bytes as they are
//!   [u8; N]       N bytes as they are
//! ```
//! Why it sorts: a longer text has something greater in the place of the end mark (0x00 0xff, or a
//! byte above zero), so a text sorts before its extensions. Why no text's bytes begin with
//! another's: 0x00 0x01 is nowhere but at the end.
//!
//! Text is compared by its bytes, as in Rust, and not by the rules of a language. Bytes are
//! borrowed from the key if the key has them unescaped.

use std::borrow::Cow;

use crate::column::{KeyColumn, ReadColumn, by_reference};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::reader::Reader;

pub(crate) const ESCAPE: u8 = 0x00;
pub(crate) const END: u8 = 0x01;
pub(crate) const ESCAPED_ZERO: u8 = 0xFF;

/// Appends escaped bytes without an end mark.
pub(crate) fn push_escaped(key: &mut Vec<u8>, bytes: &[u8]) {
    for (index, piece) in bytes.split(|&byte| byte == ESCAPE).enumerate() {
        if index > 0 {
            key.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        }
        key.extend_from_slice(piece);
    }
}

macro_rules! written_as_bytes {
    ($($of:ty: $bytes:ident),+ $(,)?) => {$(
        impl KeyColumn for $of {
            fn encode(&self, key: &mut Vec<u8>) {
                push_escaped(key, self.$bytes());
                key.extend_from_slice(&[ESCAPE, END]);
            }

            fn encode_alone(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(self.$bytes());
            }
        }
    )+};
}
written_as_bytes! {
    str: as_bytes,
    String: as_bytes,
    Cow<'_, str>: as_bytes,
    [u8]: as_ref,
    Vec<u8>: as_slice,
    Cow<'_, [u8]>: as_ref,
}
by_reference!(str, String, Cow<'_, str>, [u8], Vec<u8>, Cow<'_, [u8]>);

impl<const N: usize> KeyColumn for [u8; N] {
    fn encode(&self, key: &mut Vec<u8>) {
        const { assert!(N > 0, "a column has at least one byte") };
        key.extend_from_slice(self);
    }
}

impl<'k, const N: usize> ReadColumn<'k> for [u8; N] {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        const { assert!(N > 0, "a column has at least one byte") };
        reader.array()
    }
}

/// Implements reading for types that are made from bytes read with `read`. `bytes_back` is the
/// place where the bytes began, for errors.
macro_rules! read_from_bytes {
    ($($of:ty: $convert:path),+ $(,)?) => {$(
        impl<'k> ReadColumn<'k> for $of {
            fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                let left = reader.left().len();
                let bytes = reader.text()?;
                let length = left - reader.left().len();
                $convert(bytes).map_err(|kind| reader.refuse(length, kind))
            }

            fn read_alone(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                let length = reader.left().len();
                let bytes = reader.all();
                $convert(bytes).map_err(|kind| reader.refuse(length, kind))
            }
        }
    )+};
}
read_from_bytes! {
    &'k str: borrowed_str,
    String: string,
    Cow<'k, str>: cow_str,
    &'k [u8]: borrowed,
    Vec<u8>: vector,
    Cow<'k, [u8]>: Ok,
}

fn borrowed(bytes: Cow<'_, [u8]>) -> Result<&[u8], DecodeErrorKind> {
    match bytes {
        Cow::Borrowed(bytes) => Ok(bytes),
        Cow::Owned(_) => Err(DecodeErrorKind::NotBorrowed),
    }
}

fn borrowed_str(bytes: Cow<'_, [u8]>) -> Result<&str, DecodeErrorKind> {
    str::from_utf8(borrowed(bytes)?).map_err(|_| DecodeErrorKind::NotUtf8)
}

fn string(bytes: Cow<'_, [u8]>) -> Result<String, DecodeErrorKind> {
    String::from_utf8(bytes.into_owned()).map_err(|_| DecodeErrorKind::NotUtf8)
}

fn cow_str(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, DecodeErrorKind> {
    match bytes {
        Cow::Borrowed(bytes) => borrowed_str(Cow::Borrowed(bytes)).map(Cow::Borrowed),
        Cow::Owned(bytes) => string(Cow::Owned(bytes)).map(Cow::Owned),
    }
}

fn vector(bytes: Cow<'_, [u8]>) -> Result<Vec<u8>, DecodeErrorKind> {
    Ok(bytes.into_owned())
}
