//! Malformed variables for tests are refused with a message, never ignored.

mod knobs;

use knobs::{choice, count, flag, number};
use std::ffi::OsString;

fn held(text: &str) -> Option<OsString> {
    Some(text.into())
}

#[test]
fn a_number_is_digits_alone() {
    assert_eq!(number(None, 7), Ok(7));
    assert_eq!(number(held("0"), 7), Ok(0));
    assert_eq!(number(held("30"), 7), Ok(30));
    for malformed in [
        "", " 30", "30%", "4_000", "4,000", "+4", "-4", "1e3", "thirty",
    ] {
        let what = number(held(malformed), 7).unwrap_err();
        assert!(what.contains(&format!("{malformed:?}")), "{what}");
    }
    assert!(number(held("18446744073709551616"), 7).is_err());
}

#[test]
fn a_campaign_of_nothing_is_refused() {
    assert_eq!(count(None, 100), Ok(100));
    assert_eq!(count(held("1"), 100), Ok(1));
    assert!(count(held("0"), 100).unwrap_err().contains("at least 1"));
    assert!(count(held("many"), 100).is_err());
}

#[test]
fn a_switch_is_one_or_zero() {
    let read = ["1", "0"].map(|text| flag(held(text)));
    assert_eq!(read, [Ok(true), Ok(false)]);
    assert_eq!(flag(None), Ok(false));
    for malformed in ["", "yes", "true", "2"] {
        assert!(flag(held(malformed)).is_err(), "{malformed}");
    }
}

#[test]
fn a_choice_is_one_of_those_there_are() {
    let levels = ["Process", "Sync"];
    assert_eq!(choice(None, &levels).unwrap(), levels);
    assert_eq!(choice(held("Sync"), &levels).unwrap(), ["Sync"]);
    for malformed in ["", "sync", "Syn", "Process,Sync"] {
        let what = choice(held(malformed), &levels).unwrap_err();
        assert!(what.contains("Process"), "{what}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let raw = || Some(OsString::from_vec(vec![b'3', 0xff]));
    assert!(number(raw(), 1).is_err());
    assert!(flag(raw()).is_err());
    assert!(choice(raw(), &["3"]).is_err());
}
