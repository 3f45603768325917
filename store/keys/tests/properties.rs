//! Properties of random keys: bytes sort as values do, bytes are read back to the values, any bytes
//! are read without a panic, and ranges select what a filter over the values selects.
//!
//! Values are chosen from a few difficult ones, so that equal columns, beginnings and zeros are
//! common.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::time::{Duration, SystemTime};

use evendb_keys::{self as keys, Column, ColumnType, Desc, StartsWith};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
    vec(byte, 0..5)
}

fn text() -> impl Strategy<Value = String> {
    let letters = select(vec![
        '\0',
        '\u{1}',
        'a',
        'b',
        '\u{7f}',
        '\u{e9}',
        '\u{10ffff}',
    ]);
    vec(letters, 0..4).prop_map(|letters| letters.into_iter().collect())
}

/// Floats of all kinds, and one NaN.
fn double() -> impl Strategy<Value = f64> {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.5,
        -1.5,
        5e-324,
        -5e-324,
    ];
    let any = any::<u64>().prop_map(f64::from_bits);
    prop_oneof![select(special.to_vec()), any]
        .prop_map(|float| if float.is_nan() { f64::NAN } else { float })
}

fn single() -> impl Strategy<Value = f32> {
    double().prop_map(|float| {
        if float.is_nan() {
            f32::NAN
        } else {
            float as f32
        }
    })
}

fn duration() -> impl Strategy<Value = Duration> {
    let seconds = prop_oneof![0u64..3, Just(u64::MAX), any::<u64>()];
    let nanos = select(vec![0u32, 1, 500_000_000, 999_999_999]);
    (seconds, nanos).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

/// Times before and after 1970, as far as the platform has them.
fn time() -> impl Strategy<Value = SystemTime> {
    (duration(), any::<bool>()).prop_map(|(from, before)| {
        let epoch = SystemTime::UNIX_EPOCH;
        let moved = match before {
            true => epoch.checked_sub(from),
            false => epoch.checked_add(from),
        };
        moved.unwrap_or(epoch)
    })
}

fn small() -> impl Strategy<Value = i64> {
    prop_oneof![-2i64..3, Just(i64::MIN), Just(i64::MAX), any::<i64>()]
}

fn desc_text() -> impl Strategy<Value = Desc<String>> {
    text().prop_map(Desc)
}

/// Checks that two keys compare as the values of their columns do.
fn same_order<K: keys::Key>(first: &K, second: &K, wanted: Ordering) -> Result<(), TestCaseError> {
    prop_assert_eq!(keys::key(first).cmp(&keys::key(second)), wanted);
    Ok(())
}

/// Checks that bytes are no key, or exactly the bytes of the key that is read from them.
fn read_or_refused<K>(key: &[u8]) -> Result<(), TestCaseError>
where
    K: keys::Key + for<'k> keys::ReadKey<'k>,
{
    match keys::decode::<K>(key) {
        Ok(columns) => prop_assert_eq!(keys::key(&columns), key),
        Err(error) => prop_assert!(error.position() <= key.len() && !error.to_string().is_empty()),
    }
    Ok(())
}

/// Keys of three columns, with the values from which they are made.
type Row = (String, Option<i64>, Desc<String>);

fn row() -> impl Strategy<Value = Row> {
    (text(), option::of(-2i64..3), desc_text())
}

/// Checks that a range takes just the rows that a filter takes, from the database's ordered map.
fn selects(
    rows: &[Row],
    range: impl RangeBounds<Vec<u8>>,
    filter: impl Fn(&Row) -> bool,
) -> Result<(), TestCaseError> {
    let map: BTreeMap<Vec<u8>, Row> = rows
        .iter()
        .map(|row| (keys::key(row), row.clone()))
        .collect();
    let found: Vec<Row> = map.range(range).map(|(_, row)| row.clone()).collect();
    let mut wanted: Vec<Row> = rows.iter().filter(|row| filter(row)).cloned().collect();
    wanted.sort();
    wanted.dedup();
    prop_assert_eq!(found, wanted);
    Ok(())
}

fn bound<T: Clone + std::fmt::Debug + 'static>(
    of: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Bound<T>> {
    let of = of.boxed();
    prop_oneof![
        Just(Bound::Unbounded),
        of.clone().prop_map(Bound::Included),
        of.prop_map(Bound::Excluded),
    ]
}

proptest! {
    #[test]
    fn bytes_sort_as_columns_do(
        a in (bytes(), option::of(text()), desc_text(), small(), time(), any::<bool>()),
        b in (bytes(), option::of(text()), desc_text(), small(), time(), any::<bool>()),
    ) {
        same_order(&a, &b, a.cmp(&b))?;
    }

    #[test]
    fn wrapped_columns_sort_as_they_say(
        a in (option::of(desc_text()), option::of(bytes()).prop_map(Desc), time().prop_map(Desc), text()),
        b in (option::of(desc_text()), option::of(bytes()).prop_map(Desc), time().prop_map(Desc), text()),
    ) {
        same_order(&a, &b, a.cmp(&b))?;
    }

    #[test]
    fn numbers_sort_by_their_value(
        a: (u8, i16, char, u128, i128), b: (u8, i16, char, u128, i128), c in small(), d in small(),
        e in duration(), f in duration(),
    ) {
        same_order(&a, &b, a.cmp(&b))?;
        same_order(&(a.0 % 2, c, e), &(b.0 % 2, d, f), (a.0 % 2, c, e).cmp(&(b.0 % 2, d, f)))?;
        same_order(&(c as i8, c as u16), &(d as i8, d as u16), (c as i8, c as u16).cmp(&(d as i8, d as u16)))?;
        same_order(&(c as i32, c as u32), &(d as i32, d as u32), (c as i32, c as u32).cmp(&(d as i32, d as u32)))?;
    }

    #[test]
    fn floats_are_in_total_order(a in double(), b in double(), c in single(), d in single()) {
        same_order(&a, &b, a.total_cmp(&b))?;
        same_order(&c, &d, c.total_cmp(&d))?;
        same_order(&Desc(a), &Desc(b), b.total_cmp(&a))?;
    }

    #[test]
    fn what_is_encoded_is_decoded(
        first in (bytes(), option::of(text()), desc_text(), small(), time(), any::<bool>()),
        second in (any::<char>(), duration(), any::<u128>(), any::<[u8; 3]>(), option::of(bytes()).prop_map(Desc)),
    ) {
        let key = keys::key(&first);
        prop_assert_eq!(keys::decode(&key), Ok(first.clone()));
        let key = keys::key(&second);
        prop_assert_eq!(keys::decode(&key), Ok(second));
        let key = keys::key(&(&first.0, first.3));
        let (lent, number): (Cow<'_, [u8]>, i64) = keys::decode(&key).unwrap();
        prop_assert_eq!(matches!(lent, Cow::Borrowed(_)), !first.0.contains(&0));
        prop_assert_eq!((&*lent, number), (&first.0[..], first.3));
        // Alone, as its bytes.
        prop_assert_eq!(&keys::key(&first.0), &first.0);
        prop_assert_eq!(keys::decode(&first.0), Ok(&first.0[..]));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(start in bytes(), more in vec(any::<u8>(), 0..30), end in bytes()) {
        let key = [start, more, end].concat();
        read_or_refused::<String>(&key)?;
        read_or_refused::<(Vec<u8>, i64)>(&key)?;
        read_or_refused::<(Option<Desc<Vec<u8>>>, bool)>(&key)?;
        read_or_refused::<(Desc<Option<String>>, char)>(&key)?;
        read_or_refused::<(SystemTime, Duration)>(&key)?;
        read_or_refused::<(f32, f64, [u8; 2])>(&key)?;
        read_or_refused::<SystemTime>(&key)?;
        read_or_refused::<f64>(&key)?;
        let _ = keys::decode::<(&str, &[u8])>(&key);
        for types in ["str", "bytes", "str,desc:opt:bytes", "opt:time,f32", "desc:fixed:3,bool,u8", "desc:desc:str"] {
            let types: Vec<ColumnType> = types.split(',').map(|name| name.parse().unwrap()).collect();
            if let Ok(columns) = keys::decode_columns(&types, &key) {
                prop_assert_eq!(encode(&columns), key.clone());
            }
        }
    }

    #[test]
    fn ranges_select_what_a_filter_selects(
        rows in vec(row(), 0..20), at in row(), low in bound(-2i64..3), high in bound(-2i64..3),
    ) {
        let (first, second, third) = at;
        // Rows of one first column are common.
        let mut rows = rows;
        for (index, row) in rows.iter_mut().enumerate() {
            if index % 2 == 0 {
                row.0.clone_from(&first);
            }
        }
        let rows = &rows;
        selects(rows, keys::prefix(&(&first,)), |row| row.0 == first)?;
        selects(rows, keys::prefix(&(&first, second)), |row| row.0 == first && row.1 == second)?;
        selects(rows, keys::range((..,)), |_| true)?;
        selects(rows, keys::range((&first, ..)), |row| row.0 == first)?;
        selects(rows, keys::range((first.clone()..,)), |row| row.0 >= first)?;
        selects(rows, keys::range((..=first.clone(),)), |row| row.0 <= first)?;
        let optional = |bound: Bound<i64>| bound.map(Some);
        let columns = (optional(low), optional(high));
        selects(rows, keys::range((&first, columns)), |row| row.0 == first && columns.contains(&row.1))?;
        selects(rows, keys::range((&first, ..second)), |row| row.0 == first && row.1 < second)?;
        selects(rows, keys::range((&first, second, ..third.clone())), |row| {
            row.0 == first && row.1 == second && row.2 < third
        })?;
        selects(rows, keys::range((&first, second, third.clone()..)), |row| {
            row.0 == first && row.1 == second && row.2 >= third
        })?;
        selects(rows, keys::range((StartsWith(&third.0),)), |row| row.0.starts_with(&third.0))?;
    }

    #[test]
    fn ranges_of_short_numbers_reach_their_ends(
        rows in vec((any::<u8>(), any::<u8>()), 0..20), low in bound(any::<u8>()), high in bound(any::<u8>()),
    ) {
        let map: BTreeMap<Vec<u8>, (u8, u8)> = rows.iter().map(|row| (keys::key(row), *row)).collect();
        let found: Vec<_> = map.range(keys::range(((low, high),))).map(|(_, row)| *row).collect();
        let wanted: Vec<_> = map.values().copied().filter(|row| (low, high).contains(&row.0)).collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn prefix_end_is_the_tight_bound(prefix in bytes(), tail in bytes(), other in bytes()) {
        let end = keys::prefix_end(&prefix);
        let inside = [prefix.clone(), tail].concat();
        prop_assert!(end.as_ref().is_none_or(|end| &inside < end));
        if other >= prefix && !other.starts_with(&prefix) {
            prop_assert!(end.is_some_and(|end| other >= end));
        }
    }

    #[test]
    fn dynamic_columns_have_the_bytes_of_static_ones(
        (text, bytes, number) in (text(), bytes(), small()), (float, time, length) in (double(), time(), duration()),
        (flag, letter, some) in (any::<bool>(), any::<char>(), option::of(any::<u16>())),
    ) {
        let columns = [
            Column::Text(text.as_bytes().into()),
            Column::Descending(Box::new(Column::Bytes(bytes.as_slice().into()))),
            Column::I64(number),
            Column::F64(float),
            Column::Time(time),
            Column::Duration(length),
            Column::Bool(flag),
            Column::Char(letter),
            Column::Optional(some.map(|some| Box::new(Column::U16(some)))),
        ];
        let key = keys::key(&(&text, Desc(&bytes), number, float, time, length, flag, letter, some));
        prop_assert_eq!(&encode(&columns), &key);
        let types = "str,desc:bytes,i64,f64,time,duration,bool,char,opt:u16";
        let types: Vec<ColumnType> = types.split(',').map(|name| name.parse().unwrap()).collect();
        let read = keys::decode_columns(&types, &key).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{columns:?}"));
        let alone = [Column::Text(text.as_bytes().into())];
        prop_assert_eq!(encode(&alone), text.as_bytes());
        prop_assert_eq!(keys::decode_columns(&types[..1], text.as_bytes()), Ok(alone.to_vec()));
    }
}

fn encode(columns: &[Column<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    let mut encoder = keys::KeyEncoder::new(&mut key, columns.len());
    for column in columns {
        encoder.push(column);
    }
    key
}
