//! Keys of typed columns. Any bytes are refused, or they are the only form of their columns. Any
//! columns are read back, and their bytes sort as the columns do.

use crate::bytes::Input;
use evendb_keys::{Column, ColumnType, KeyEncoder, decode_columns};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

fn kind(input: &mut Input<'_>) -> ColumnType {
    let plain = [
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Fixed(1 + input.below(9)),
        ColumnType::U8,
        ColumnType::U16,
        ColumnType::U32,
        ColumnType::U64,
        ColumnType::U128,
        ColumnType::I8,
        ColumnType::I16,
        ColumnType::I32,
        ColumnType::I64,
        ColumnType::I128,
        ColumnType::F32,
        ColumnType::F64,
        ColumnType::Bool,
        ColumnType::Char,
        ColumnType::Time,
        ColumnType::Duration,
    ];
    let choice = input.byte();
    let mut kind = plain[usize::from(choice & 31) % plain.len()].clone();
    if choice & 32 != 0 {
        kind = ColumnType::Optional(Box::new(kind));
    }
    if choice & 64 != 0 {
        kind = ColumnType::Descending(Box::new(kind));
    }
    kind
}

/// A column of this type, from the next bytes of the input.
fn column(kind: &ColumnType, input: &mut Input<'_>) -> Column<'static> {
    let wide =
        |input: &mut Input<'_>| u128::from(input.number()) << 64 | u128::from(input.number());
    match kind {
        ColumnType::Text => Column::Text(text(input)),
        ColumnType::Bytes => Column::Bytes(text(input)),
        ColumnType::Fixed(len) => {
            let mut bytes = input.take(*len).to_vec();
            bytes.resize(*len, 0);
            Column::Fixed(Cow::Owned(bytes))
        }
        ColumnType::U8 => Column::U8(input.byte()),
        ColumnType::U16 => Column::U16(input.two()),
        ColumnType::U32 => Column::U32(input.number() as u32),
        ColumnType::U64 => Column::U64(input.number()),
        ColumnType::U128 => Column::U128(wide(input)),
        ColumnType::I8 => Column::I8(input.byte() as i8),
        ColumnType::I16 => Column::I16(input.two() as i16),
        ColumnType::I32 => Column::I32(input.number() as i32),
        ColumnType::I64 => Column::I64(input.number() as i64),
        ColumnType::I128 => Column::I128(wide(input) as i128),
        ColumnType::F32 => Column::F32(f32::from_bits(input.number() as u32)),
        ColumnType::F64 => Column::F64(f64::from_bits(input.number())),
        ColumnType::Bool => Column::Bool(input.byte() & 1 == 1),
        ColumnType::Char => {
            let code = input.number() as u32 % 0x11_0000;
            Column::Char(char::from_u32(code).unwrap_or('\u{fffd}'))
        }
        ColumnType::Time => {
            let before = input.byte() & 1 == 1;
            let length = duration(input);
            let moved = match before {
                true => SystemTime::UNIX_EPOCH.checked_sub(length),
                false => SystemTime::UNIX_EPOCH.checked_add(length),
            };
            Column::Time(moved.unwrap_or(SystemTime::UNIX_EPOCH))
        }
        ColumnType::Duration => Column::Duration(duration(input)),
        ColumnType::Optional(inner) => Column::Optional(match input.byte() & 1 {
            0 => None,
            _ => Some(Box::new(column(inner, input))),
        }),
        ColumnType::Descending(inner) => Column::Descending(Box::new(column(inner, input))),
        other => unreachable!("no type of ours: {other}"),
    }
}

fn text(input: &mut Input<'_>) -> Cow<'static, [u8]> {
    let len = input.below(24);
    Cow::Owned(input.take(len).to_vec())
}

fn duration(input: &mut Input<'_>) -> Duration {
    let seconds = input.number();
    Duration::new(seconds, input.number() as u32 % 1_000_000_000)
}

/// The order of columns, independent of their bytes: that of their values. For floats it is the
/// total order, with every NaN as the greatest.
fn order(left: &Column<'_>, right: &Column<'_>) -> Ordering {
    fn of<F: Copy>(
        (left, right): (F, F),
        is_nan: fn(F) -> bool,
        total: fn(&F, &F) -> Ordering,
    ) -> Ordering {
        match (is_nan(left), is_nan(right)) {
            (false, false) => total(&left, &right),
            (left, right) => left.cmp(&right),
        }
    }
    match (left, right) {
        (Column::Text(a), Column::Text(b))
        | (Column::Bytes(a), Column::Bytes(b))
        | (Column::Fixed(a), Column::Fixed(b)) => a.cmp(b),
        (Column::F32(a), Column::F32(b)) => of((*a, *b), f32::is_nan, f32::total_cmp),
        (Column::F64(a), Column::F64(b)) => of((*a, *b), f64::is_nan, f64::total_cmp),
        (Column::Descending(a), Column::Descending(b)) => order(b, a),
        (Column::Optional(a), Column::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => order(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        },
        (Column::U8(a), Column::U8(b)) => a.cmp(b),
        (Column::U16(a), Column::U16(b)) => a.cmp(b),
        (Column::U32(a), Column::U32(b)) => a.cmp(b),
        (Column::U64(a), Column::U64(b)) => a.cmp(b),
        (Column::U128(a), Column::U128(b)) => a.cmp(b),
        (Column::I8(a), Column::I8(b)) => a.cmp(b),
        (Column::I16(a), Column::I16(b)) => a.cmp(b),
        (Column::I32(a), Column::I32(b)) => a.cmp(b),
        (Column::I64(a), Column::I64(b)) => a.cmp(b),
        (Column::I128(a), Column::I128(b)) => a.cmp(b),
        (Column::Bool(a), Column::Bool(b)) => a.cmp(b),
        (Column::Char(a), Column::Char(b)) => a.cmp(b),
        (Column::Time(a), Column::Time(b)) => a.cmp(b),
        (Column::Duration(a), Column::Duration(b)) => a.cmp(b),
        (a, b) => unreachable!("columns of two types: {a:?}, {b:?}"),
    }
}

fn encoded(columns: &[Column<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    let mut encoder = KeyEncoder::new(&mut key, columns.len());
    for column in columns {
        encoder.push(column);
    }
    key
}

fn order_of(left: &[Column<'_>], right: &[Column<'_>]) -> Ordering {
    let pairs = left.iter().zip(right);
    let unequal = pairs.map(|(a, b)| order(a, b)).find(|order| order.is_ne());
    unequal.unwrap_or(Ordering::Equal)
}

/// Types, and then the bytes of a key, or the columns of two keys.
pub fn keys(data: &[u8]) {
    let mut input = Input(data);
    let form = input.byte();
    let types: Vec<ColumnType> = (0..=form >> 1 & 3).map(|_| kind(&mut input)).collect();
    for kind in &types {
        assert_eq!(kind.to_string().parse().as_ref(), Ok(kind), "a type's name");
    }
    if form & 1 == 0 {
        match decode_columns(&types, input.0) {
            Ok(columns) => assert_eq!(encoded(&columns), input.0, "a key has one form"),
            Err(error) => {
                assert!(error.position() <= input.0.len() && !error.to_string().is_empty());
            }
        }
        return;
    }
    let row = |input: &mut Input<'_>| -> Vec<Column<'static>> {
        types.iter().map(|kind| column(kind, input)).collect()
    };
    let (left, right) = (row(&mut input), row(&mut input));
    let keys = [encoded(&left), encoded(&right)];
    for (columns, key) in [&left, &right].into_iter().zip(&keys) {
        let back = decode_columns(&types, key).expect("what was written is read");
        assert_eq!(order_of(columns, &back), Ordering::Equal, "read back");
        assert_eq!(encoded(&back), *key);
    }
    assert_eq!(
        keys[0].cmp(&keys[1]),
        order_of(&left, &right),
        "bytes sort as columns: {left:?}, {right:?}"
    );
}
