//! Sizes as people write them: `4096`, `64KiB`, `256MiB`, `1.5GiB`.

/// Parses a number of bytes with an optional unit: B, KiB, MiB, GiB, TiB, PiB, EiB (powers of 1024)
/// or KB, MB, GB, TB, PB, EB (powers of 1000); upper or lower case; a fraction is allowed before a
/// unit.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
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
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(factor)
            .ok_or_else(|| format!("`{text}` is too large"));
    }
    match number.parse::<f64>() {
        Ok(fraction) if factor > 1 && fraction * (factor as f64) < u64::MAX as f64 => {
            Ok((fraction * factor as f64) as u64)
        }
        _ => Err(format!(
            "`{text}` is no size; write for example 4096, 64KiB or 1.5GiB"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn reads_sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1.5GiB", 3 << 29),
            ("2MB", 2_000_000),
            ("1T", 1 << 40),
            ("1EiB", 1 << 60),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
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
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
