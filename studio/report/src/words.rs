//! Text and numbers for people, in a form for HTML.
//!
//! Invariant: the results of [`escape`], [`shown`] and [`cell`] have no `<`, `>`, `&` or quote of
//! their input, no control character and no mark that turns the direction of the text around it.

use serde_json::Value;

use crate::Unit;

/// The highest number of characters of a text in a table. The middle of a longer text is left out.
pub(crate) const CELL_CHARACTERS: usize = 240;

/// Text for an element or an attribute in quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            _ if is_unseen(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

/// Controls, marks of direction and joiners, which change how the text around them looks, and code
/// points that are no character.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// [`escape`]. If there are more than `most` characters, the middle is left out.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return escape(text);
    }
    let end = most / 3;
    let head: String = text.chars().take(most - end - 1).collect();
    let tail: String = text.chars().skip(count - end).collect();
    format!("{}&#8230;{}", escape(&head), escape(&tail))
}

/// The name of a column, as a label.
pub(crate) fn label(name: &str) -> String {
    let words = name.replace('_', " ");
    match words.strip_suffix("up to") {
        Some("") => "share, up to here".into(),
        Some(of) => format!("share of {}, up to here", of.trim_end()),
        None => words,
    }
}

/// A cell of a table.
pub(crate) fn cell(value: &Value, unit: Unit) -> String {
    match value {
        Value::Null => "&#8211;".into(),
        Value::Bool(yes) => yes.to_string(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) if matches!(unit, Unit::Count | Unit::Number | Unit::Text) => {
                grouped(&whole.to_string())
            }
            (_, Some(value)) if value.abs() <= 1e300 => written(value, unit, 4),
            _ => escape(&number.to_string()),
        },
        Value::String(text) => shown(text, CELL_CHARACTERS),
        Value::Array(_) | Value::Object(_) => shown(&value.to_string(), CELL_CHARACTERS),
    }
}

/// A number with its unit in the form of a page, as plain text: for sentences and summaries.
#[must_use]
pub fn number_shown(value: f64, unit: Unit) -> String {
    let html = written(value, unit, 3);
    html.replace("&#8722;", "-").replace("&#181;", "u")
}

/// The place of a cell on an axis. None if it is no finite number.
pub(crate) fn number(value: &Value) -> Option<f64> {
    let value = value.as_f64().filter(|value| value.is_finite())?;
    // The limit makes differences of two such numbers finite, and no part of one zero.
    match value.abs() < 1e-280 {
        true => Some(0.0),
        false => Some(value.clamp(-1e300, 1e300)),
    }
}

/// The name of a cell, for things that are distinguished by name.
pub(crate) fn name(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}

/// A number with its unit, to `digits` digits.
pub(crate) fn written(value: f64, unit: Unit, digits: usize) -> String {
    let (divisor, suffix) = scale(value.abs(), unit);
    in_scale(value, divisor, suffix, digits)
}

/// A number in a scale that [`scale`] gave.
pub(crate) fn in_scale(value: f64, divisor: f64, suffix: &str, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    format!("{}{suffix}", significant(value / divisor, digits))
}

/// The unit in which a number of this size is written: its divisor, and its suffix.
pub(crate) fn scale(size: f64, unit: Unit) -> (f64, &'static str) {
    const KIBI: f64 = 1024.0;
    const TIMES: [(f64, &str); 7] = [
        (1e-9, " ns"),
        (1e-6, " &#181;s"),
        (1e-3, " ms"),
        (1.0, " s"),
        (60.0, " min"),
        (3600.0, " h"),
        (86400.0, " d"),
    ];
    let largest = |steps: &[(f64, &'static str)], least: f64| {
        let fits = steps.iter().rev().find(|(step, _)| size >= step * least);
        *fits.unwrap_or(&steps[0])
    };
    match unit {
        Unit::Share => (0.01, " %"),
        Unit::Bytes => largest(
            &[
                (1.0, " B"),
                (KIBI, " KiB"),
                (KIBI * KIBI, " MiB"),
                (KIBI.powi(3), " GiB"),
                (KIBI.powi(4), " TiB"),
                (KIBI.powi(5), " PiB"),
            ],
            1.0,
        ),
        Unit::Seconds if size >= 1.0 => largest(&TIMES[3..], 2.0),
        Unit::Seconds => largest(&TIMES[..4], 1.0),
        Unit::Nanoseconds => {
            let (divisor, suffix) = scale(size * 1e-9 * (1.0 + 1e-12), Unit::Seconds);
            ((divisor * 1e9).round(), suffix)
        }
        Unit::PerSecond => largest(
            &[(1.0, "/s"), (1e3, " k/s"), (1e6, " M/s"), (1e9, " bn/s")],
            1.0,
        ),
        Unit::Count if size < 1e15 => {
            largest(&[(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " bn")], 1.0)
        }
        Unit::Text | Unit::Count | Unit::Number => (1.0, ""),
    }
}

/// A number with `digits` significant digits, without zeros after them.
fn significant(value: f64, digits: usize) -> String {
    let digits = digits.clamp(1, 15);
    // The power of ten after rounding: 999.96 with four digits is 1000.
    let scientific = format!("{value:.*e}", digits - 1);
    let power: i32 = scientific
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    if !(-5..15).contains(&power) {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return format!("{}e{power}", without_zeros(digits));
    }
    let decimals = (digits as i32 - 1 - power).max(0) as usize;
    grouped(without_zeros(&format!("{value:.decimals$}")))
}

fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// The text of a fact: a number with a comma for each three digits, anything else as it is.
pub(crate) fn fact(text: &str, longest: usize) -> String {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    match is_number && is_plain {
        true => grouped(without_zeros(text)),
        false => shown(text, longest),
    }
}

/// A decimal number with a comma for each three digits.
fn grouped(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("&#8722;", rest),
        None => ("", text),
    };
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_are_numbers_are_grouped() {
        for (text, shown) in [
            ("840001", "840,001"),
            ("38.300", "38.3"),
            ("1e5", "1e5"),
            ("12 of 13000", "12 of 13000"),
            ("<b>", "&lt;b&gt;"),
        ] {
            assert_eq!(fact(text, 20), shown);
        }
    }

    #[test]
    fn numbers_have_the_units_that_people_read() {
        for (value, unit, text) in [
            (0.0, Unit::Bytes, "0"),
            (800.0, Unit::Bytes, "800 B"),
            (4096.0, Unit::Bytes, "4 KiB"),
            (1.5 * 1024.0 * 1024.0, Unit::Bytes, "1.5 MiB"),
            (0.7832, Unit::Share, "78.32 %"),
            (0.00002, Unit::Share, "0.002 %"),
            (1.0, Unit::Share, "100 %"),
            (12_345.0, Unit::PerSecond, "12.35 k/s"),
            (999.99, Unit::PerSecond, "1,000/s"),
            (0.25, Unit::Seconds, "250 ms"),
            (90.0, Unit::Seconds, "90 s"),
            (600.0, Unit::Seconds, "10 min"),
            (14.0 * 86400.0, Unit::Seconds, "14 d"),
            (1234.0, Unit::Nanoseconds, "1.234 &#181;s"),
            (2.5e6, Unit::Nanoseconds, "2.5 ms"),
            (7.2e10, Unit::Nanoseconds, "72 s"),
            (4.2e8, Unit::Count, "420 M"),
            (1e300, Unit::Count, "1e300"),
            (-0.042, Unit::Number, "&#8722;0.042"),
            (1e-9, Unit::Number, "1e-9"),
        ] {
            assert_eq!(written(value, unit, 4), text);
        }
    }

    #[test]
    fn whole_numbers_in_tables_keep_their_digits() {
        assert_eq!(
            cell(&Value::from(u64::MAX), Unit::Count),
            "18,446,744,073,709,551,615"
        );
        assert_eq!(cell(&Value::from(-12_345), Unit::Count), "&#8722;12.35 k");
        assert_eq!(cell(&Value::Null, Unit::Count), "&#8211;");
    }

    #[test]
    fn no_text_can_leave_its_place() {
        let hostile = "</script><img src=x onerror=\"a('b')\">&\u{0}\u{1b}\u{202e}\u{200b}";
        let safe = escape(hostile);
        assert!(!safe.contains([
            '<', '>', '"', '\'', '\u{0}', '\u{1b}', '\u{202e}', '\u{200b}'
        ]));
        assert!(safe.ends_with("\\u{0}\\u{1b}\\u{202e}\\u{200b}"), "{safe}");
        let cut = shown(&"<".repeat(5000), 9);
        assert_eq!(
            cut,
            format!("{}&#8230;{}", "&lt;".repeat(5), "&lt;".repeat(3))
        );
    }

    #[test]
    fn shares_up_to_a_value_say_what_they_are_of() {
        assert_eq!(label("keys_up_to"), "share of keys, up to here");
        assert_eq!(label("up_to"), "share, up to here");
        assert_eq!(label("mean_seconds"), "mean seconds");
    }
}
