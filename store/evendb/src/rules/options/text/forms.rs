//! Numbers, sizes and lengths of time as people write them; the command reads its arguments so,
//! too.
//!
//! ```text
//! size      4096   1_000_000   64KiB   1.5GiB   2MB     without a unit: bytes
//! number    12     65_536
//! time      100ms  30s   1.5h   2d   1800               without a unit: seconds
//! switch    on off true false yes no
//! ```
//! Units of sizes are B, KiB, MiB, GiB, TiB, PiB, EiB (powers of 1024; also K, M, G, T, P, E) and
//! KB, MB, GB, TB, PB, EB (powers of 1000), in upper or lower case. Units of time are ns, us, ms,
//! s, m or min, h, d, in lower case. A space may stand before a unit. A size that is no whole
//! number of bytes is rounded down; a time of less than a nanosecond is refused.
//!
//! What these functions write is read back as the same. Pure functions without state.

use std::time::Duration;

/// Parses a number of bytes. The error says what is wrong.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "pib" | "p" => 1 << 50,
        "eib" | "e" => 1 << 60,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "eb" => 1_000_000_000_000_000_000,
        _ => {
            return Err(format!(
                "unknown unit in `{text}`; write for example 64KiB or 1.5GiB"
            ));
        }
    };
    let is_whole = !number.contains('.');
    let digits = without_underscores(number);
    let bytes = digits
        .filter(|_| is_whole || factor > 1)
        .and_then(|digits| scaled(&digits, u128::from(factor)))
        .ok_or_else(|| format!("`{text}` is no size; write for example 4096, 64KiB or 1.5GiB"))?;
    u64::try_from(bytes.0).map_err(|_| format!("`{text}` is too large"))
}

/// Parses a whole number.
pub fn parse_number(text: &str) -> Option<u64> {
    let digits = without_underscores(text.trim())?;
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| digits.parse().ok()).flatten()
}

/// Parses a length of time. The error says what is wrong.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) = split(text);
    let why = || format!("`{text}` is no length of time; write for example 100ms, 30s, 1.5h or 2d");
    let nanos: u128 = match unit {
        "ns" => 1,
        "us" => 1000,
        "ms" => 1_000_000,
        "" | "s" => NANOS,
        "m" | "min" => 60 * NANOS,
        "h" => 3600 * NANOS,
        "d" => 86_400 * NANOS,
        _ => {
            return Err(format!(
                "unknown unit in `{text}`; write for example 100ms, 30s, 1.5h or 2d (a number alone is seconds)"
            ));
        }
    };
    let digits = without_underscores(number).ok_or_else(why)?;
    match scaled(&digits, nanos) {
        Some((nanos, 0)) => {
            let seconds =
                u64::try_from(nanos / NANOS).map_err(|_| format!("`{text}` is too long"))?;
            Ok(Duration::new(seconds, (nanos % NANOS) as u32))
        }
        Some(_) => Err(format!("`{text}` has parts of a nanosecond")),
        None => Err(why()),
    }
}

/// Parses what is on or off.
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.trim() {
        "on" | "true" | "yes" => Some(true),
        "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// A number of bytes in the greatest unit that leaves a whole number: `64KiB`, `1000`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = match bytes {
        0 => 0,
        bytes => (bytes.trailing_zeros() / 10) as usize,
    };
    format!("{}{}", bytes >> (10 * step), UNITS[step])
}

/// A length of time in the greatest unit that leaves a whole number: `100ms`, `2d`.
pub fn duration(length: Duration) -> String {
    let nanos = length.as_nanos();
    let units = [
        ("d", 86_400 * NANOS),
        ("h", 3600 * NANOS),
        ("m", 60 * NANOS),
        ("s", NANOS),
        ("ms", 1_000_000),
        ("us", 1000),
    ];
    let whole = units
        .iter()
        .find(|(_, of)| nanos > 0 && nanos.is_multiple_of(*of));
    match (nanos, whole) {
        (0, _) => "0s".to_owned(),
        (_, Some((unit, of))) => format!("{}{unit}", nanos / of),
        (_, None) => format!("{nanos}ns"),
    }
}

/// What is on or off.
pub fn switch(yes: bool) -> String {
    if yes { "on" } else { "off" }.to_owned()
}

const NANOS: u128 = 1_000_000_000;

/// A text's number and its unit.
fn split(text: &str) -> (&str, &str) {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// The digits without the underscores; each underscore stands between two digits.
fn without_underscores(number: &str) -> Option<String> {
    let parts = number.split(['_', '.']);
    let is_grouped = parts.into_iter().all(|part| !part.is_empty());
    is_grouped.then(|| number.replace('_', ""))
}

/// Decimal digits, with a point or without, times `factor`: the whole part of it, and what is left,
/// which is not 0 if anything was rounded.
fn scaled(digits: &str, factor: u128) -> Option<(u128, u128)> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = whole.len() <= 30 && fraction.len() <= 18;
    if whole.is_empty() || !fits || !is_decimal(whole) || !is_decimal(fraction) {
        return None;
    }
    let parts = 10u128.pow(fraction.len() as u32);
    let below = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()?.checked_mul(factor)?,
    };
    let above = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    Some((above.checked_add(below / parts)?, below % parts))
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_they_say() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1_000_000", 1_000_000),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1.5GiB", 3 << 29),
            ("2MB", 2_000_000),
            ("1T", 1 << 40),
            ("1EiB", 1 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(parse_size(&size(bytes)), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5",
            "1..5KiB",
            "12XB",
            "99999999TiB",
            "16EiB",
            "1e9",
            "NaN",
            "_1",
            "1_",
            "1__0",
            "1_.5KiB",
            "18446744073709551616",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            [size(0), size(1000), size(3 << 29)],
            ["0", "1000", "1536MiB"]
        );
    }

    #[test]
    fn lengths_of_time_are_what_they_say() {
        let millis = Duration::from_millis;
        for (text, length) in [
            ("0", Duration::ZERO),
            ("0.5", millis(500)),
            ("1800", Duration::from_secs(1800)),
            ("100ms", millis(100)),
            ("1 s", millis(1000)),
            ("5m", Duration::from_secs(300)),
            ("5min", Duration::from_secs(300)),
            ("1.5h", Duration::from_secs(5400)),
            ("2d", Duration::from_secs(172_800)),
            ("1.000000001", Duration::new(1, 1)),
            ("7us", Duration::from_micros(7)),
        ] {
            assert_eq!(parse_duration(text), Ok(length), "{text}");
            assert_eq!(parse_duration(&duration(length)), Ok(length), "{text}");
        }
        assert_eq!(parse_duration(&duration(Duration::MAX)), Ok(Duration::MAX));
        for text in [
            "",
            "-1",
            ".5",
            "5.",
            "1e3",
            "x",
            "5 parsecs",
            "1.0000000001",
            "0.5ns",
            "1M",
            "99999999999999999999d",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            [millis(1500), millis(7_200_000)].map(duration),
            ["1500ms", "2h"]
        );
    }
}
