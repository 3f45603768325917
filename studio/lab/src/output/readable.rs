//! Numbers for people: with units, and with groups of digits.

/// A number in groups of three digits: `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun, which takes an s in the plural: `1 record`, `1,234 records`.
#[must_use]
pub fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {one}{ending}", grouped(number))
}

/// Bytes in the unit that suits: `1.50 GiB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{number} B")
            } else {
                format!("{value:.2} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.2} TiB")
}

/// Nanoseconds in the unit that suits: `12.3 us`.
#[must_use]
pub fn duration(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// A time in seconds since 1970, in UTC in the form of RFC 3339: `2000-02-28T23:59:59Z`. A time
/// after the year 9999 becomes the last second of that year.
#[must_use]
pub fn rfc_3339(seconds: u64) -> String {
    let seconds = seconds.min(253_402_300_799);
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = 365 + u64::from(leap);
        if days < length {
            let february = 28 + u64::from(leap);
            let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let mut month = 0;
            while days >= months[month] {
                days -= months[month];
                month += 1;
            }
            let (hour, minute) = (second / 3600, second / 60 % 60);
            return format!(
                "{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{:02}Z",
                month + 1,
                days + 1,
                second % 60
            );
        }
        days -= length;
        year += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_every_other_number_plural() {
        assert_eq!(
            [0, 1, 2, 1234].map(|number| counted(number, "bad line")),
            [
                "0 bad lines",
                "1 bad line",
                "2 bad lines",
                "1,234 bad lines"
            ]
        );
    }

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc_3339(seconds), expected);
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_234_567)],
            ["0", "999", "1,234,567"]
        );
        assert_eq!(
            [bytes(1023), bytes(1536), bytes(3 << 40)],
            ["1023 B", "1.50 KiB", "3.00 TiB"]
        );
    }
}
