//! The curve that comes nearest to points.
//!
//! * **decides**: the fit standard error, `sqrt(sum of squares / (points - parameters))`, which the
//!   study takes too. It charges each parameter, so that a curve does not win by having more of
//!   them. If several curves are within [`ALIKE_PERCENT`] of the least error, the one with fewest
//!   parameters is chosen.
//! * **told as well**: R^2, the share of the variance that the curve explains. It is below 0 if a
//!   constant would do better.
//!
//! Points are scaled before and parameters back afterwards, so that units of measure do not matter.
//! `starts.rs` has the beginning of the search, `least_squares.rs` the rest.

use std::f64::consts::{PI, TAU};
use std::fmt;

use crate::curve::{Curve, Shape};
use crate::error::{FitError, finite};
use crate::least_squares::{polished, squares};
use crate::starts::{sine, starts};

/// Errors that differ by less than this are alike.
pub const ALIKE_PERCENT: f64 = 1.0;

/// Errors below this share of the largest y come from the arithmetic, and count as alike.
const ARITHMETIC: f64 = 1e-9;

/// Periods with which the search for a sine begins, as parts of the one that is given, and how far
/// the one that is found may be off.
const PERIODS_TRIED: [f64; 3] = [0.97, 1.0, 1.03];
const PERIOD_OFF_MAX: f64 = 0.1;

/// A curve and its distance from the points.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFit {
    /// The curve.
    pub curve: Curve,
    /// The fit standard error, in the unit of y.
    pub standard_error: f64,
    /// The share of the variance that is explained.
    pub r_squared: f64,
}

/// The fits of all candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFits {
    /// The chosen one.
    pub best: CurveFit,
    /// All, the smallest error first.
    pub all: Vec<CurveFit>,
    /// Candidates that do not fit at all, with the reason.
    pub refused: Vec<(Shape, FitError)>,
}

/// Fits one shape.
///
/// # Errors
/// There are no more points than parameters, something is not finite, all x or all y are equal, or
/// the shape is not defined at a point.
pub fn fit(points: &[(f64, f64)], shape: Shape) -> Result<CurveFit, FitError> {
    check(points)?;
    let (needed, given) = (shape.parameters() + 1, points.len());
    if given < needed {
        return Err(FitError::TooFew { needed, given });
    }
    let negative = points.iter().position(|&(x, _)| x <= 0.0);
    if let Some(index) = negative.filter(|_| shape.needs_positive_x()) {
        let rule = "x must be above 0";
        return Err(FitError::Outside { rule, index });
    }
    nearest(points, shape, |_, scaled| starts(shape, scaled))
}

/// Fits a sine whose swing takes about this time: within a tenth.
///
/// # Errors
/// As [`fit`]; `NotConverged` if no sine of about this period is near.
pub fn sine_of(points: &[(f64, f64)], period: f64) -> Result<CurveFit, FitError> {
    check(points)?;
    let (needed, given) = (Shape::Sine.parameters() + 1, points.len());
    if given < needed {
        return Err(FitError::TooFew { needed, given });
    }
    let fitted = nearest(points, Shape::Sine, |scale, scaled| {
        let rates = PERIODS_TRIED.map(|times| TAU / (period * times) * scale.x);
        rates
            .iter()
            .filter_map(|rate| sine(*rate, scaled))
            .collect()
    })?;
    let found = TAU / fitted.curve.parameters[1];
    match (found / period - 1.0).abs() <= PERIOD_OFF_MAX {
        true => Ok(fitted),
        false => Err(FitError::NotConverged),
    }
}

/// The curve that is nearest to the points among those to which a start leads. Starts are of the
/// points as they are scaled.
fn nearest(
    points: &[(f64, f64)],
    shape: Shape,
    starts: impl FnOnce(&Scale, &[(f64, f64)]) -> Vec<Vec<f64>>,
) -> Result<CurveFit, FitError> {
    let scale = Scale::of(shape, points);
    let scaled: Vec<(f64, f64)> = points.iter().map(|&point| scale.apply(point)).collect();
    let ends = starts(&scale, &scaled)
        .into_iter()
        .map(|start| polished(shape, start, &scaled))
        .map(|(parameters, _)| scale.back(shape, parameters))
        .map(|parameters| (squares(shape, &parameters, points), parameters))
        .filter(|(squares, _)| squares.is_finite());
    let (left, parameters) = ends
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .ok_or(FitError::NotConverged)?;
    let curve = Curve::new(shape, parameters).ok_or(FitError::NotConverged)?;
    Ok(CurveFit {
        curve,
        standard_error: (left / (points.len() - shape.parameters()) as f64).sqrt(),
        r_squared: 1.0 - left / variation(points),
    })
}

/// Fits all candidates, and chooses.
///
/// # Errors
/// As [`fit`]. If no candidate fits, the reason of the first.
pub fn choose(points: &[(f64, f64)], candidates: &[Shape]) -> Result<CurveFits, FitError> {
    check(points)?;
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for &shape in candidates {
        match fit(points, shape) {
            Ok(fitted) => all.push(fitted),
            Err(error) => refused.push((shape, error)),
        }
    }
    all.sort_by(|a, b| a.standard_error.total_cmp(&b.standard_error));
    let Some(least) = all.first().map(|fitted| fitted.standard_error) else {
        let first = refused.into_iter().next();
        return Err(first.map_or(FitError::Empty, |(_, error)| error));
    };
    let largest = points.iter().map(|&(_, y)| y.abs()).fold(0.0, f64::max);
    let alike = (least * (1.0 + ALIKE_PERCENT / 100.0)).max(largest * ARITHMETIC);
    let best = all
        .iter()
        .filter(|fitted| fitted.standard_error <= alike)
        .min_by_key(|fitted| fitted.curve.shape.parameters())
        .unwrap_or(&all[0])
        .clone();
    Ok(CurveFits { best, all, refused })
}

fn check(points: &[(f64, f64)]) -> Result<(), FitError> {
    finite(points.iter().map(|&(x, y)| x + y))?;
    if points.len() < 2 {
        let (needed, given) = (2, points.len());
        return Err(FitError::TooFew { needed, given });
    }
    let equal = |of: fn(&(f64, f64)) -> f64| {
        let first = of(&points[0]);
        points.iter().all(|point| of(point) == first)
    };
    if equal(|point| point.0) {
        return Err(FitError::AllEqual { what: "x" });
    }
    if equal(|point| point.1) {
        return Err(FitError::AllEqual { what: "y" });
    }
    Ok(())
}

/// The sum of squares by which the mean misses the points.
fn variation(points: &[(f64, f64)]) -> f64 {
    let mean = points.iter().map(|&(_, y)| y).sum::<f64>() / points.len() as f64;
    points.iter().map(|&(_, y)| (y - mean).powi(2)).sum()
}

/// The number that is subtracted from x, and the divisors of x and y.
struct Scale {
    shift: f64,
    x: f64,
    y: f64,
}

impl Scale {
    fn of(shape: Shape, points: &[(f64, f64)]) -> Self {
        let xs = || points.iter().map(|&(x, _)| x);
        let y = points.iter().map(|&(_, y)| y.abs()).fold(0.0, f64::max);
        let (least, most) = (xs().fold(f64::MAX, f64::min), xs().fold(f64::MIN, f64::max));
        match shape {
            Shape::Polynomial(_) => {
                let x = least.abs().max(most.abs());
                Self { shift: 0.0, x, y }
            }
            Shape::Exponential | Shape::TwoExponentials | Shape::Sine => Self {
                shift: least,
                x: most - least,
                y,
            },
            _ => {
                let middle = xs().map(f64::ln).sum::<f64>() / points.len() as f64;
                let x = middle.exp();
                // The y of a density has the unit 1 / x.
                let y = if shape == Shape::Weibull { 1.0 / x } else { y };
                Self { shift: 0.0, x, y }
            }
        }
    }

    fn apply(&self, (x, y): (f64, f64)) -> (f64, f64) {
        ((x - self.shift) / self.x, y / self.y)
    }

    fn back(&self, shape: Shape, mut p: Vec<f64>) -> Vec<f64> {
        match shape {
            Shape::Power | Shape::PowerConstant | Shape::TwoPowers => {
                p[0] *= self.y * self.x.powf(-p[1]);
                match shape {
                    Shape::PowerConstant => p[2] *= self.y,
                    Shape::TwoPowers => p[2] *= self.y * self.x.powf(-p[3]),
                    _ => {}
                }
            }
            Shape::Exponential | Shape::TwoExponentials => {
                for term in p.chunks_exact_mut(2) {
                    term[1] /= self.x;
                    term[0] *= self.y * (-term[1] * self.shift).exp();
                }
            }
            Shape::Polynomial(_) => {
                let mut divisor = 1.0;
                for factor in &mut p {
                    *factor *= self.y / divisor;
                    divisor *= self.x;
                }
            }
            Shape::Weibull => p[0] *= self.x.powf(-p[1]),
            Shape::Sine => {
                p[0] *= self.y;
                p[1] /= self.x;
                p[2] -= p[1] * self.shift;
                p[3] *= self.y;
            }
        }
        ordered(shape, p)
    }
}

/// The parameters for reports, among all that mean the same curve: the steeper term first, a swing
/// with a size and a frequency above 0.
fn ordered(shape: Shape, mut p: Vec<f64>) -> Vec<f64> {
    match shape {
        Shape::TwoPowers | Shape::TwoExponentials if p[1] > p[3] => p.rotate_left(2),
        Shape::Sine => {
            if p[1] < 0.0 {
                // sin(-b x + c) = sin(b x + pi - c)
                p[1] = -p[1];
                p[2] = PI - p[2];
            }
            if p[0] < 0.0 {
                p[0] = -p[0];
                p[2] += PI;
            }
            p[2] = p[2].rem_euclid(TAU);
        }
        _ => {}
    }
    p
}

impl fmt::Display for CurveFits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22}{:>16}{:>10}", "curve", "standard error", "R^2")?;
        for one in &self.all {
            let chosen = if one == &self.best { "  <- chosen" } else { "" };
            let (name, error, r) = (one.curve.shape, one.standard_error, one.r_squared);
            writeln!(f, "{name:<22}{error:>16.6e}{r:>10.5}{chosen}")?;
        }
        for (shape, error) in &self.refused {
            writeln!(f, "{shape:<22}not fitted: {error}")?;
        }
        writeln!(f, "chosen by the standard error: {}", self.best.curve)
    }
}

#[cfg(test)]
mod tests;
