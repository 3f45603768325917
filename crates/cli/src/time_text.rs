//! Times and lengths of time as text: seconds in decimal digits, with up to nine digits behind the point.
//!
//! A time is its seconds since 1970-01-01 UTC, negative before that: `1700000000`, `-0.5`. What is shown is
//! read back as the same time, to the nanosecond. More than nine digits behind the point are refused, since
//! they would have to be rounded.

use std::time::{Duration, SystemTime};

const FRACTION_DIGITS: usize = 9;

/// The time that a text means, if the platform can represent it.
pub fn read_time(text: &[u8]) -> Option<SystemTime> {
    let text = text.trim_ascii();
    match text.strip_prefix(b"-") {
        Some(before) => SystemTime::UNIX_EPOCH.checked_sub(read_digits(before)?),
        None => SystemTime::UNIX_EPOCH.checked_add(read_digits(text)?),
    }
}

/// The length of time that a text means.
pub fn read_duration(text: &[u8]) -> Option<Duration> {
    read_digits(text.trim_ascii())
}

/// The length of time of an argument.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let why = || "a length of time is its seconds, as 1800 or 0.5".to_owned();
    read_duration(text.as_bytes()).ok_or_else(why)
}

/// The time of an argument.
pub fn parse_time(text: &str) -> Result<SystemTime, String> {
    let why = || "a time is its seconds since 1970, as 1700000000 or 1700000000.5".to_owned();
    read_time(text.as_bytes()).ok_or_else(why)
}

fn read_digits(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || !(1..=FRACTION_DIGITS).contains(&fraction.len()) {
        return None;
    }
    let nanos = format!("{fraction:0<FRACTION_DIGITS$}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

/// A time as text.
pub fn show_time(time: &SystemTime) -> String {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => show_duration(&since),
        Err(error) => format!("-{}", show_duration(&error.duration())),
    }
}

/// A length of time as text.
pub fn show_duration(length: &Duration) -> String {
    let (seconds, nanos) = (length.as_secs(), length.subsec_nanos());
    let text = format!("{seconds}.{nanos:0FRACTION_DIGITS$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_what_they_say() {
        let epoch = SystemTime::UNIX_EPOCH;
        let half = Duration::from_millis(500);
        assert_eq!(read_time(b"-0.5"), Some(epoch - half));
        assert_eq!(show_time(&(epoch - half)), "-0.5");
        assert_eq!(
            read_time(b" 1700000000 "),
            Some(epoch + Duration::from_secs(1_700_000_000))
        );
        assert_eq!(show_time(&(epoch + Duration::from_secs(10))), "10");
        assert_eq!(show_time(&epoch), "0");
        assert_eq!(read_duration(b"1.000000001"), Some(Duration::new(1, 1)));
        for wrong in [
            "",
            "-",
            ".5",
            "5.",
            "+1",
            "1.2.3",
            "1e3",
            "1.0000000001",
            "--1",
            "x",
        ] {
            assert_eq!(read_time(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(read_duration(b"-1"), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(seconds: u64, nanos in 0u32..1_000_000_000, before: bool) {
            let length = Duration::new(seconds, nanos);
            prop_assert_eq!(read_duration(show_duration(&length).as_bytes()), Some(length));
            let epoch = SystemTime::UNIX_EPOCH;
            let time = match before {
                true => epoch.checked_sub(length),
                false => epoch.checked_add(length),
            };
            if let Some(time) = time {
                prop_assert_eq!(read_time(show_time(&time).as_bytes()), Some(time));
            }
        }
    }
}
