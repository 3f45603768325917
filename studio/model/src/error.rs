//! Why something could not be fitted.

use std::fmt;

/// Why something could not be fitted, or has no correlation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// There are no numbers.
    Empty,
    /// There are fewer points than the parameters of the curve plus one.
    TooFew {
        /// The lowest number of points that is needed.
        needed: usize,
        /// The number of points that were given.
        given: usize,
    },
    /// A number is infinite, or not a number.
    NotFinite {
        /// The place of the first such number in the slice.
        index: usize,
    },
    /// All numbers are equal, so they cannot vary with others.
    AllEqual {
        /// Which numbers.
        what: &'static str,
    },
    /// Two slices that belong together have different lengths.
    LengthsDiffer {
        /// The length of the first.
        first: usize,
        /// The length of the second.
        second: usize,
    },
    /// A number lies outside of the range for which the curve is defined.
    Outside {
        /// What must hold.
        rule: &'static str,
        /// The place of the first number for which it does not hold.
        index: usize,
    },
    /// The search found no parameters from any of its starting points.
    NotConverged,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no numbers"),
            Self::TooFew { needed, given } => {
                write!(f, "{given} are too few: at least {needed} are needed")
            }
            Self::NotFinite { index } => write!(f, "number {index} is infinite or not a number"),
            Self::AllEqual { what } => write!(f, "all {what} are equal"),
            Self::LengthsDiffer { first, second } => {
                write!(f, "{first} and {second} numbers do not belong together")
            }
            Self::Outside { rule, index } => {
                write!(f, "{rule}, which number {index} does not keep")
            }
            Self::NotConverged => f.write_str("no parameters were found"),
        }
    }
}

impl std::error::Error for FitError {}

/// Refuses a slice that is empty or has a number that is not finite.
pub(crate) fn finite(numbers: impl IntoIterator<Item = f64>) -> Result<(), FitError> {
    let mut any = false;
    for (index, number) in numbers.into_iter().enumerate() {
        any = true;
        if !number.is_finite() {
            return Err(FitError::NotFinite { index });
        }
    }
    any.then_some(()).ok_or(FitError::Empty)
}
