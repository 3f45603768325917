//! Pearson's correlation: whether two parts of a load may be modelled one by one.
//!
//! The study that this follows draws kind, key, sizes and scan lengths of an operation
//! independently of each other. That is right if the correlations are near 0, so they are looked at
//! first.

use crate::error::{FitError, finite};

/// Correlations up to this count as none: then a model of independent parts loses at most 1 % of
/// the variance.
pub const INDEPENDENT_UP_TO: f64 = 0.1;

/// Pearson's coefficient of correlation of pairs of numbers, from -1 to 1.
///
/// # Errors
/// The lengths differ, there are fewer than two pairs, a number is not finite, or all numbers of a
/// side are equal.
pub fn pearson(x: &[f64], y: &[f64]) -> Result<f64, FitError> {
    if x.len() != y.len() {
        return Err(FitError::LengthsDiffer {
            first: x.len(),
            second: y.len(),
        });
    }
    finite(x.iter().copied())?;
    finite(y.iter().copied())?;
    let given = x.len();
    if given < 2 {
        return Err(FitError::TooFew { needed: 2, given });
    }
    // Centred first: sums of squares of large numbers with small differences would lose the
    // differences.
    let (mean_x, mean_y) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    if all_equal(x) || xx == 0.0 {
        return Err(FitError::AllEqual { what: "x" });
    }
    if all_equal(y) || yy == 0.0 {
        return Err(FitError::AllEqual { what: "y" });
    }
    Ok((xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn all_equal(numbers: &[f64]) -> bool {
    numbers.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_coefficients() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!((pearson(&x, &[2.0, 4.0, 6.0, 8.0, 10.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((pearson(&x, &[5.0, 4.0, 3.0, 2.0, 1.0]).unwrap() + 1.0).abs() < 1e-12);
        // By hand: sums of products 6, of squares 10 and 6.
        let some = pearson(&x, &[2.0, 4.0, 5.0, 4.0, 5.0]).unwrap();
        assert!((some - 6.0 / 60f64.sqrt()).abs() < 1e-12, "{some}");
        // Large numbers with small differences lose nothing.
        let far = x.map(|x| x + 1e9);
        assert!((pearson(&far, &x).unwrap() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_unrelated_is_near_zero() {
        let scramble = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let x: Vec<f64> = (0..5000).map(|i| scramble(i) as f64).collect();
        let y: Vec<f64> = (0..5000).map(|i| scramble(i * i + 77) as f64).collect();
        assert!(pearson(&x, &y).unwrap().abs() < INDEPENDENT_UP_TO);
    }

    #[test]
    fn degenerate_pairs_are_refused() {
        assert_eq!(pearson(&[], &[]), Err(FitError::Empty));
        let (needed, given) = (2, 1);
        assert_eq!(
            pearson(&[1.0], &[2.0]),
            Err(FitError::TooFew { needed, given })
        );
        let (first, second) = (1, 2);
        let differ = FitError::LengthsDiffer { first, second };
        assert_eq!(pearson(&[1.0], &[2.0, 3.0]), Err(differ));
        let same = [0.1; 3];
        let rising = [1.0, 2.0, 3.0];
        assert_eq!(
            pearson(&same, &rising),
            Err(FitError::AllEqual { what: "x" })
        );
        assert_eq!(
            pearson(&rising, &same),
            Err(FitError::AllEqual { what: "y" })
        );
        let index = 1;
        for hole in [f64::NAN, f64::INFINITY] {
            let broken = [1.0, hole, 3.0];
            assert_eq!(
                pearson(&rising, &broken),
                Err(FitError::NotFinite { index })
            );
        }
    }
}
