//! Times and lengths of time as text: seconds in decimal digits, with up to nine digits after the
//! point.
//!
//! A time is its seconds since 1970-01-01 UTC, negative before that: `1700000000`, `-0.5`. A shown
//! time is read back as the same time, to the nanosecond. More than nine digits after the point are
//! refused, since they would have to be rounded.
//!
//! A time is also read in the forms of ISO 8601 and RFC 3339:
//! ```text
//! 2026-01-31                        midnight UTC
//! 2026-01-31T12:30                  T may be t or a space; without a zone, UTC
//! 2026-01-31T12:30:05.25Z           Z or z, for UTC
//! 2026-01-31T12:30:05,25+01:00      or +0100 or +01: this time east of UTC
//! ```
//! Years have four digits, from 0001 on. Days that no month has and seconds from 60 on are refused.

use std::time::{Duration, SystemTime};

const FRACTION_DIGITS: usize = 9;

/// The time that a text means, if the platform can represent it.
pub fn read_time(text: &[u8]) -> Option<SystemTime> {
    let text = text.trim_ascii();
    if text.get(4) == Some(&b'-') {
        return read_calendar(std::str::from_utf8(text).ok()?);
    }
    match text.strip_prefix(b"-") {
        Some(before) => SystemTime::UNIX_EPOCH.checked_sub(read_digits(before)?),
        None => SystemTime::UNIX_EPOCH.checked_add(read_digits(text)?),
    }
}

/// The length of time that a text means.
pub fn read_duration(text: &[u8]) -> Option<Duration> {
    read_digits(text.trim_ascii())
}

/// The time of an argument.
pub fn parse_time(text: &str) -> Result<SystemTime, String> {
    let why = || {
        "a time is its seconds since 1970, as 1700000000 or 1700000000.5, or as 2026-01-31T12:00:00Z".to_owned()
    };
    read_time(text.as_bytes()).ok_or_else(why)
}

/// A number, if the text is exactly `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

/// The time of a date, with a time of the day after it or without.
fn read_calendar(text: &str) -> Option<SystemTime> {
    let (date, clock) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut part = |digits| number(parts.next()?, digits);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if parts.next().is_some() || year == 0 || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let (seconds, nanos) = clock.map_or(Some((0, 0)), read_clock)?;
    if !(1..=length).contains(&day) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + seconds;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let at = match seconds < 0 {
        true => epoch.checked_sub(whole)?,
        false => epoch.checked_add(whole)?,
    };
    at.checked_add(Duration::from_nanos(nanos))
}

/// The days from 1970-01-01 to a day of the Gregorian calendar. A year is counted from March on, so
/// that the leap day is its last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + day_of_year - 719_468
}

/// Seconds since midnight UTC, and nanoseconds, of a time of the day with its zone.
fn read_clock(text: &str) -> Option<(i64, u64)> {
    let (clock, east) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) if matches!(text.as_bytes()[at], b'Z' | b'z') => {
            (text[at + 1..].is_empty().then_some(&text[..at])?, 0)
        }
        Some(at) => {
            let zone = &text[at + 1..];
            let (hours, minutes) = match zone.len() {
                2 => (zone, "00"),
                4 => zone.split_at_checked(2)?,
                _ => zone.split_once(':')?,
            };
            let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            let is_west = text.as_bytes()[at] == b'-';
            (&text[..at], if is_west { -seconds } else { seconds })
        }
        None => (text, 0),
    };
    let mut parts = clock.split(':');
    let (hours, minutes) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let last = parts.next().unwrap_or("00");
    if parts.next().is_some() {
        return None;
    }
    let (seconds, fraction) = last.split_once(['.', ',']).unwrap_or((last, "0"));
    let seconds = number(seconds, 2)?;
    if hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let nanos = number(&format!("{fraction:0<FRACTION_DIGITS$}"), FRACTION_DIGITS)?;
    let nanos = if fraction.is_empty() {
        return None;
    } else {
        nanos
    };
    Some((hours * 3600 + minutes * 60 + seconds - east, nanos as u64))
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

    /// The seconds are the output of `date -u -d TEXT +%s`.
    #[test]
    fn times_of_the_calendar_are_read() {
        let seconds = |text: &str| read_time(text.as_bytes()).map(|at| show_time(&at));
        for (text, expected) in [
            ("1970-01-01", "0"),
            ("1970-01-01T00:00:00Z", "0"),
            ("2026-01-31", "1769817600"),
            ("2026-01-31T12:30", "1769862600"),
            ("2026-01-31 12:30:05", "1769862605"),
            (" 2026-01-31t12:30:05.25z ", "1769862605.25"),
            (
                "2026-01-31T12:30:05,000000001+01:00",
                "1769859005.000000001",
            ),
            ("2026-01-31T12:30:05-0530", "1769882405"),
            ("2026-01-31T00:30:00+02", "1769812200"),
            ("2024-02-29", "1709164800"),
            ("2000-02-29", "951782400"),
            ("2000-03-01", "951868800"),
            ("1969-12-31T23:59:59.5Z", "-0.5"),
            ("1900-03-01", "-2203891200"),
            ("0001-01-01", "-62135596800"),
            ("9999-12-31T23:59:59Z", "253402300799"),
        ] {
            assert_eq!(seconds(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-04-31",
            "0000-01-01",
            "2026-1-1",
            "2026-01",
            "2026-01-01T",
            "2026-01-01T24:00",
            "2026-01-01T12",
            "2026-01-01T12:60",
            "2026-01-01T12:00:60",
            "2026-01-01T12:00:00.",
            "2026-01-01T12:00:00.0000000001",
            "2026-01-01T12:00:00+1",
            "2026-01-01T12:00:00+24:00",
            "2026-01-01T12:00:00+01:60",
            "2026-01-01T12:00:00Zx",
            "2026-01-01x",
            "2026-01-01T12:00:00:00",
            "2026-01-01-01",
            "+026-01-01",
            "2026-01-01T1\u{e9}:00+0\u{e9}1",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_a_time_without_panic(text in "[0-9TZz:.+ \u{e9}-]{0,30}", tail in "[0-9TZz:.+ \u{e9}-]{0,12}") {
            let _ = read_time(text.as_bytes());
            let _ = read_time(format!("2026-01-31T{text}").as_bytes());
            let _ = read_time(format!("2026-01-31T12:30:05{tail}").as_bytes());
        }

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
