//! Columns of numbers, `bool` and `char`, each of a fixed width.
//!
//! ```text
//!   u8..u128   1 to 16 bytes, big endian
//!   i8..i128   the same, sign bit flipped
//!   f32, f64   4 or 8 bytes, big endian; sign bit flipped, or all bits if it is set
//!   bool       0x00 false, 0x01 true
//!   char       its code point as u32
//! ```
//! Floats are in the total order of IEEE 754: -inf, negative numbers, -0, 0, positive numbers, inf,
//! NaN. -0 and 0 are two keys. NaN is one key whatever its bits were, and other NaNs are refused
//! when read.
//!
//! `usize` and `isize` are not columns: their width differs from machine to machine.
#![expect(clippy::big_endian_bytes, reason = "numbers must sort by their bytes")]

use crate::column::{KeyColumn, ReadColumn, by_reference};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::reader::Reader;

macro_rules! whole {
    ($($unsigned:ident $signed:ident),+) => {$(
        impl KeyColumn for $unsigned {
            fn encode(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(&self.to_be_bytes());
            }
        }

        impl<'k> ReadColumn<'k> for $unsigned {
            fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                reader.array().map($unsigned::from_be_bytes)
            }
        }

        impl KeyColumn for $signed {
            fn encode(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(&(self ^ $signed::MIN).to_be_bytes());
            }
        }

        impl<'k> ReadColumn<'k> for $signed {
            fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                reader.array().map(|bytes| $signed::from_be_bytes(bytes) ^ $signed::MIN)
            }
        }

        by_reference!($unsigned, $signed);
    )+};
}
whole!(u8 i8, u16 i16, u32 i32, u64 i64, u128 i128);

macro_rules! float {
    ($float:ident, $bits:ident, $nan:literal) => {
        impl KeyColumn for $float {
            fn encode(&self, key: &mut Vec<u8>) {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let bits = if self.is_nan() { $nan } else { self.to_bits() };
                let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
                ordered.encode(key);
            }
        }

        impl<'k> ReadColumn<'k> for $float {
            fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let ordered = $bits::read(reader)?;
                let bits = match ordered & SIGN {
                    0 => !ordered,
                    _ => ordered ^ SIGN,
                };
                let float = $float::from_bits(bits);
                match float.is_nan() && bits != $nan {
                    true => Err(reader.refuse(size_of::<$float>(), DecodeErrorKind::NoValue)),
                    false => Ok(float),
                }
            }
        }

        by_reference!($float);
    };
}
float!(f32, u32, 0x7FC0_0000);
float!(f64, u64, 0x7FF8_0000_0000_0000);

impl KeyColumn for bool {
    fn encode(&self, key: &mut Vec<u8>) {
        key.push(u8::from(*self));
    }
}

impl<'k> ReadColumn<'k> for bool {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        match reader.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(reader.refuse(1, DecodeErrorKind::NoValue)),
        }
    }
}

impl KeyColumn for char {
    fn encode(&self, key: &mut Vec<u8>) {
        u32::from(*self).encode(key);
    }
}

impl<'k> ReadColumn<'k> for char {
    fn read(reader: &mut Reader<'k>) -> Result<Self, DecodeError> {
        let code = u32::read(reader)?;
        char::from_u32(code).ok_or_else(|| reader.refuse(4, DecodeErrorKind::NoValue))
    }
}

by_reference!(bool, char);
