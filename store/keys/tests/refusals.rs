//! How bytes are refused, and at which place; and uses of prefixes that would be mistakes.

use std::borrow::Cow;
use std::time::Duration;

use evendb_keys::DecodeErrorKind::{BadEscape, CutShort, NoValue, NotBorrowed, NotUtf8, TooLong};
use evendb_keys::{self as keys, ColumnType, DecodeErrorKind, Desc, ReadKey};

/// Columns are counted from 1, bytes from 0.
#[track_caller]
fn refused<'k, K: ReadKey<'k>>(key: &'k [u8], kind: DecodeErrorKind, column: usize, at: usize) {
    let Err(error) = keys::decode::<K>(key) else {
        panic!("{key:?} is read");
    };
    assert_eq!(
        (error.kind(), error.column(), error.position()),
        (kind, column, at),
        "{error}"
    );
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    refused::<(u8, u32)>(b"\x01\x02\x03", CutShort, 2, 1);
    refused::<(u8,)>(b"\x01\x02\x03", TooLong, 1, 1);
    refused::<(u8, &str)>(b"\x01abc", CutShort, 2, 1);
    refused::<(u8, &str)>(b"\x01abc\x00", CutShort, 2, 1);
    refused::<(u8, &str)>(b"\x01abc\x00\x07", BadEscape, 2, 4);
    refused::<(u8, String)>(b"\x01a\x00\xffb\x00\x07", BadEscape, 2, 5);
    refused::<(u8, &str)>(b"\x01\xff\x00\x01", NotUtf8, 2, 1);
    refused::<(u8, Cow<'_, str>)>(b"\x01\xff\x00\xff\x00\x01", NotUtf8, 2, 1);
    refused::<&str>(b"\xff", NotUtf8, 1, 0);
    refused::<(u8, &str)>(b"\x01a\x00\xff\x00\x01", NotBorrowed, 2, 1);
    refused::<(u8, &[u8])>(b"\x01a\x00\xff\x00\x01", NotBorrowed, 2, 1);
    refused::<(bool, bool)>(b"\x01\x02", NoValue, 2, 1);
    refused::<(bool, Option<u8>)>(b"\x01\x02", NoValue, 2, 1);
    refused::<(char,)>(b"\x00\x00\xd8\x00", NoValue, 1, 0);
    refused::<f64>(b"\xff\xf8\x00\x00\x00\x00\x00\x01", NoValue, 1, 0);
    refused::<f32>(b"\x00\x00\x00\x00", NoValue, 1, 0);
    refused::<(Duration,)>(b"\0\0\0\0\0\0\0\0\x3b\x9a\xca\x00", NoValue, 1, 8);
    refused::<Desc<String>>(b"\x9e\xff", CutShort, 1, 0);
    refused::<Desc<String>>(b"\x9e\xff\xf0", BadEscape, 1, 1);
    let error = keys::decode_columns(&[ColumnType::U8, ColumnType::Bool], b"\x01\x02").unwrap_err();
    assert_eq!(
        (error.kind(), error.column(), error.position()),
        (NoValue, 2, 1)
    );
}

/// The mistake that matters: a prefix that takes other people's keys, too.
#[test]
fn a_prefix_never_takes_longer_texts() {
    let other = keys::key(&("app70", 1u64));
    for prefix in [keys::prefix(&("app7",)).as_ref(), &keys::key(&("app7",))] {
        assert!(!other.starts_with(prefix));
        assert!(keys::key(&("app7", 1u64)).starts_with(prefix));
    }
    // A text alone would take them. So it is no `Columns`, and `prefix` does not take it.
    assert!(other.starts_with(&keys::key("app7")));
    assert_ne!(keys::key("app7"), keys::key(&("app7",)));
}

#[test]
fn a_parent_is_in_the_prefix_and_before_its_children() {
    let (parent, child) = (keys::key(&("app7",)), keys::key(&("app7", 0u64)));
    assert!(parent < child);
    assert!(parent.starts_with(keys::prefix(&("app7",)).as_ref()));
    for range in [keys::range(("app7", ..)), keys::range(("app7", ..5u64))] {
        assert!(!range.contains(&parent) && range.contains(&child));
    }
}

#[test]
fn an_inverted_range_is_empty() {
    let (low, high) = (9u8, 5);
    let inverted = keys::range((low..high,));
    assert_eq!(Some(inverted.low()), inverted.high());
    let beyond = keys::range(((std::ops::Bound::Excluded(255u8), std::ops::Bound::Unbounded),));
    assert!(!beyond.contains([255, 255, 255]) && !beyond.contains([]));
    let map = std::collections::BTreeMap::from([(vec![7u8], ())]);
    assert_eq!(map.range(inverted).count() + map.range(beyond).count(), 0);
}

#[test]
fn names_of_types_are_read_back() {
    for name in [
        "str",
        "bytes",
        "fixed:16",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "f32",
        "f64",
        "bool",
        "char",
        "time",
        "duration",
        "opt:u64",
        "desc:str",
        "desc:opt:fixed:2",
        "opt:desc:time",
    ] {
        assert_eq!(name.parse::<ColumnType>().unwrap().to_string(), name);
    }
    assert_eq!("text".parse::<ColumnType>(), Ok(ColumnType::Text));
    let many = "desc:".repeat(1_000_000) + "u8";
    for name in [
        "", "u7", "opt:", "desc", "fixed:0", "fixed:x", "fixed:-1", "STR", &many,
    ] {
        assert!(name.parse::<ColumnType>().is_err());
    }
}
