//! The bytes of one key of each kind, as they must stay: a line here never changes, lines may be
//! added.
//!
//! Each line is checked in both directions: the value gives these bytes, and these bytes give the
//! value.

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use evendb_keys::{self as keys, Desc, Key, ReadKey};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check<T: Key + for<'k> ReadKey<'k> + Debug>(value: &T, golden: &str) {
    let golden: String = golden.split_whitespace().collect();
    let key = keys::key(value);
    assert_eq!(hex(&key), golden, "{value:?}");
    let read: Result<T, _> = keys::decode(&key);
    // Compared as texts, in which NaN is equal to NaN, and -0 is not 0.
    assert_eq!(format!("{read:?}"), format!("Ok({value:?})"));
}

fn text(text: &str) -> String {
    text.to_owned()
}

const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

#[test]
fn one_key_of_each_kind() {
    let half = Duration::from_millis(500);
    // Alone: bytes as they are.
    check(&text("a\0b"), "61 00 62");
    check(&text(""), "");
    check(&b"a\0b".to_vec(), "61 00 62");
    check(&7u64, "0000000000000007");
    check(&Desc(text("a")), "9e fffe");
    // Text and bytes.
    check(&(text("app7"),), "61707037 0001");
    check(&(text(""),), "0001");
    check(&(text("a\0b"), 1u8), "61 00ff 62 0001 01");
    check(&(b"\0\xff".to_vec(), 1u8), "00ff ff 0001 01");
    check(&(text("\u{e9}"),), "c3a9 0001");
    check(&(*b"a\0b",), "61 00 62");
    // Whole numbers.
    check(&(1u8, 2u16, 3u32), "01 0002 00000003");
    check(
        &(4u64, 5u128),
        "0000000000000004 00000000000000000000000000000005",
    );
    check(&(-1i8, -1i16, -1i32), "7f 7fff 7fffffff");
    check(
        &(-1i64, 1i128),
        "7fffffffffffffff 80000000000000000000000000000001",
    );
    check(&(i64::MIN, i64::MAX), "0000000000000000 ffffffffffffffff");
    // Floats.
    check(&(1.0f32, -1.0f32), "bf800000 407fffff");
    check(&(0.0f64, -0.0f64), "8000000000000000 7fffffffffffffff");
    check(
        &(f64::NEG_INFINITY, f64::INFINITY),
        "000fffffffffffff fff0000000000000",
    );
    check(&(f64::NAN, f32::NAN), "fff8000000000000 ffc00000");
    // Others of a fixed width.
    check(&(false, true), "00 01");
    check(&('a', '\u{1f600}'), "00000061 0001f600");
    check(&(EPOCH + half,), "8000000000000000 1dcd6500");
    check(&(EPOCH - half,), "7fffffffffffffff 1dcd6500");
    check(
        &(EPOCH + Duration::from_secs(1_700_000_000),),
        "800000006553f100 00000000",
    );
    check(&(Duration::new(1, 2),), "0000000000000001 00000002");
    // Around a column.
    check(&(None::<u8>, Some(7u8)), "00 01 07");
    check(&(Some(text("a")), Some(None::<u8>)), "01 61 0001 01 00");
    check(&(Desc(7u8), Desc(text("a\0"))), "f8 9e ff00 fffe");
    check(&(Desc(Some(1u8)), Desc(None::<u8>)), "fe fe ff");
    check(&(Some(Desc(1u8)), Desc(Desc(1u8))), "01 fe 01");
    // What the command has always written.
    check(
        &(text("a\0b"), -1i64, 2u64),
        "61 00ff 62 0001 7fffffffffffffff 0000000000000002",
    );
    check(
        &(vec![0u8], -0.0f64, 1.0f32),
        "00ff 0001 7fffffffffffffff bf800000",
    );
    let twelve = (
        1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8, 11u8, 12u8,
    );
    check_twelve(&twelve, "0102030405060708090a0b0c");
}

fn check_twelve<T: Key + for<'k> ReadKey<'k> + PartialEq + Debug>(value: &T, golden: &str) {
    let key = keys::key(value);
    assert_eq!(hex(&key), golden);
    assert_eq!(keys::decode::<T>(&key).as_ref(), Ok(value));
}

#[test]
fn all_forms_of_text_have_the_same_bytes() {
    let one = keys::key(&("a\0", "b"));
    assert_eq!(keys::key(&(text("a\0"), &text("b"))), one);
    assert_eq!(
        keys::key(&(Cow::Borrowed("a\0"), Cow::<str>::Owned(text("b")))),
        one
    );
    assert_eq!(keys::key(&(b"a\0".as_slice(), b"b".to_vec())), one);
    assert_eq!(
        keys::key(&(&b"a\0".to_vec(), Cow::Borrowed(b"b".as_slice()))),
        one
    );
    let (first, second): (Cow<'_, str>, &str) = keys::decode(&one).unwrap();
    assert_eq!((&*first, second), ("a\0", "b"));
    let (first, second): (Cow<'_, [u8]>, &[u8]) = keys::decode(&one).unwrap();
    assert_eq!((&*first, second), (b"a\0".as_slice(), b"b".as_slice()));
    assert_eq!(keys::key("a\0"), keys::key(b"a\0".as_slice()));
}

#[test]
fn nothing_is_copied_that_the_key_has_as_it_is() {
    let key = keys::key(&("app7", b"bytes".as_slice(), "rest"));
    let inside = |bytes: &[u8]| key.as_ptr_range().contains(&bytes.as_ptr());
    let (app, bytes, rest): (&str, &[u8], Cow<'_, str>) = keys::decode(&key).unwrap();
    assert!(inside(app.as_bytes()) && inside(bytes));
    assert!(matches!(rest, Cow::Borrowed(rest) if inside(rest.as_bytes())));
    let alone: &str = keys::decode(b"app7").unwrap();
    assert_eq!(alone, "app7");
}

#[test]
fn ends_of_ranges_are_what_the_picture_says() {
    let range = |range: keys::KeyRange| (hex(range.low()), range.high().map(hex));
    let some = |low: &str, high: &str| (text(low), Some(text(high)));
    assert_eq!(
        range(keys::range(("a", 1u8..3))),
        some("61000101", "61000103")
    );
    assert_eq!(
        range(keys::range(("a", 1u8..=3))),
        some("61000101", "61000104")
    );
    assert_eq!(range(keys::range(("a", 1u8..))), some("61000101", "610002"));
    assert_eq!(
        range(keys::range(("a", ..3u8))),
        some("61000100", "61000103")
    );
    assert_eq!(
        range(keys::range(("a", ..=255u8))),
        some("61000100", "610002")
    );
    assert_eq!(range(keys::range(("a", ..))), some("61000100", "610002"));
    assert_eq!(range(keys::range(("a".."b",))), some("610001", "620001"));
    assert_eq!(range(keys::range(("a"..="b",))), some("610001", "620002"));
    assert_eq!(range(keys::range((..,))), (text("00"), None));
    assert_eq!(range(keys::range((..=255u8,))), (text("00"), None));
    let starts = keys::range((1u8, keys::StartsWith("a\0")));
    assert_eq!(range(starts), some("016100ff", "016101"));
}
