//! Reading floats from text, without taking one number for another.
//!
//! Nearly every text that means a float only comes near it, so "exact" needs a rule:
//! * digits alone are a whole number, which the float must be: `9007199254740992` fits an `f64`,
//!   and `9007199254740993` does not;
//! * with a point or an exponent, a text fits in two cases: the float rounds to it at the number of
//!   digits that the text has, or it is the shortest text that means the float. `0.1`, `1.10`,
//!   `1e23`, and `0.10000000000000001` (a tenth at 17 digits) fit;
//! * a text that is finite, or other than zero, fits only a float that is so too.

use std::fmt::{Debug, Display, LowerExp};
use std::str::FromStr;

use crate::escapes::shown;

/// More digits than any float has.
const DIGITS_MAX: usize = 800;

/// `f32` or `f64`.
pub trait Float: Copy + FromStr + Debug + Display + LowerExp {
    /// Its type's name.
    const NAME: &'static str;
    /// The only NaN that is read from text.
    const NAN: Self;
    /// Which of NaN, infinite, zero or any other number it is.
    fn is(self) -> Special;
}

/// The kinds of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// Finite, not zero.
    None,
    /// Either zero.
    Zero,
    /// Either infinity.
    Infinite,
    /// Any NaN.
    Nan,
}

macro_rules! float {
    ($kind:ident, $nan:literal) => {
        impl Float for $kind {
            const NAME: &'static str = stringify!($kind);
            const NAN: Self = $kind::from_bits($nan);
            fn is(self) -> Special {
                match self {
                    _ if self.is_nan() => Special::Nan,
                    _ if self.is_infinite() => Special::Infinite,
                    _ if self == 0.0 => Special::Zero,
                    _ => Special::None,
                }
            }
        }
    };
}
float!(f32, 0x7fc0_0000);
float!(f64, 0x7ff8_0000_0000_0000);

/// The float that a text means: digits, `inf`, `-inf`, `NaN`.
pub fn read<F: Float>(text: &[u8]) -> Result<F, String> {
    let shown = shown(text);
    let name = F::NAME;
    let trimmed = std::str::from_utf8(text).unwrap_or_default().trim();
    let float: F = trimmed
        .parse()
        .map_err(|_| format!("`{shown}` is no {name}"))?;
    let digits = Digits::of(trimmed);
    match float.is() {
        Special::Nan if trimmed.eq_ignore_ascii_case("nan") => Ok(F::NAN),
        Special::Nan => Err(format!("`{shown}` is no {name}; NaN has no sign")),
        Special::Infinite if digits.is_none() => Ok(float),
        Special::Zero if digits.as_ref().is_some_and(|d| d.digits.is_empty()) => Ok(float),
        Special::None if digits.is_some_and(|digits| digits.fit(float)) => Ok(float),
        _ => Err(format!(
            "`{shown}` does not fit {name}: the nearest is {float:?}"
        )),
    }
}

/// A decimal number without its sign: the digits from the first to the last that are not zero, and
/// the exponent of the first one.
#[derive(Debug)]
struct Digits {
    digits: Vec<u8>,
    exponent: i64,
    /// Written without point and exponent.
    whole: bool,
}

impl Digits {
    /// The digits of a text that is a number. `None` if it has no digits.
    fn of(text: &str) -> Option<Digits> {
        let text = text.trim_start_matches(['+', '-']);
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = [whole.as_bytes(), fraction.as_bytes()].concat();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        // An exponent beyond all numbers is still an exponent: the float says which.
        let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
        let exponent = match digits.is_empty() {
            true => 0,
            false => exponent.saturating_add(whole.len() as i64 - zeros as i64 - 1),
        };
        Some(Digits {
            digits,
            exponent,
            whole: !text.contains(['.', 'e', 'E']),
        })
    }

    fn fit(&self, float: impl Float) -> bool {
        let count = self.digits.len();
        let is = |text: String| {
            let other = Digits::of(&text);
            other
                .is_some_and(|other| other.digits == self.digits && other.exponent == self.exponent)
        };
        match self.whole {
            _ if !(1..=DIGITS_MAX).contains(&count) => false,
            true => is(format!("{float:.0}")),
            false => is(format!("{float:.*e}", count - 1)) || is(format!("{float:e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_mean_a_float_fit() {
        for text in [
            "0",
            "-0",
            "0.0",
            "0e9",
            "1",
            "+1",
            "1.10",
            ".5",
            "5.",
            "1e23",
            "1E-7",
            "0.1",
            "-2.50",
            "0.10000000000000001",
            "1.00000000000000000000e23",
            "9007199254740992",
            "5e-324",
            "1.7976931348623157e308",
            "1152921504606846976",
            "1152921504606847000.0",
            "inf",
            "-inf",
            "NaN",
            " 7 ",
            "00012.300",
            "0.1000000000000000055511151231257827021181583404541015625",
        ] {
            assert!(read::<f64>(text.as_bytes()).is_ok(), "{text}");
        }
        assert!(read::<f64>(b"-0").unwrap().is_sign_negative());
        assert_eq!(read::<f32>(b"0.1"), Ok(0.1f32));
        assert_eq!(read::<f32>(b"16777216"), Ok(16_777_216.0));
    }

    #[test]
    fn texts_that_would_become_other_numbers_do_not_fit() {
        for text in [
            "",
            "x",
            "1.2.3",
            "0x10",
            "-NaN",
            "9007199254740993",
            "12345678901234567890123",
            "12345678901234567890124",
            "1e400",
            "-1e999999999999999999999",
            "1e-400",
            "0.100000000000000004",
            "1e",
            "--1",
            "1152921504606847000",
            "36028797018963970",
            "100000000000000000000000",
        ] {
            let outcome = read::<f64>(text.as_bytes());
            assert!(outcome.is_err(), "{text}: {outcome:?}");
        }
        assert!(read::<f32>(b"16777217").is_err());
        assert!(read::<f32>(b"1e39").is_err());
        let error = read::<f64>(b"9007199254740993").unwrap_err();
        assert!(error.contains("the nearest is 9007199254740992"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(bits: u64, short: u32) {
            let float = f64::from_bits(bits);
            let read_back = read::<f64>(format!("{float:?}").as_bytes());
            if !float.is_nan() {
                prop_assert_eq!(read_back.map(f64::to_bits), Ok(bits));
                let exact = read::<f64>(format!("{float:.17e}").as_bytes());
                prop_assert_eq!(exact.map(f64::to_bits), Ok(bits));
            }
            let float = f32::from_bits(short);
            if !float.is_nan() {
                let read_back = read::<f32>(format!("{float:?}").as_bytes());
                prop_assert_eq!(read_back.map(f32::to_bits), Ok(short));
                // As JSON has it, through the wider type.
                let wide: f64 = format!("{float:?}").parse().unwrap();
                let read_back = read::<f32>(format!("{wide:?}").as_bytes());
                prop_assert_eq!(read_back.map(f32::to_bits), Ok(short));
            }
        }

        #[test]
        fn whole_numbers_that_fit_are_exact(number: i64) {
            let fits = read::<f64>(number.to_string().as_bytes()).is_ok();
            prop_assert_eq!(fits, number as f64 as i128 == i128::from(number));
            prop_assert!(read::<f64>((number >> 11).to_string().as_bytes()).is_ok());
        }
    }
}
