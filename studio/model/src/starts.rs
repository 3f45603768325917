//! The beginning of the search for a curve's parameters.
//!
//! Exponents, rates and frequencies are tried over a grid; for each, the factors follow by linear
//! least squares. So the search begins near the least of all minima, and not at a guess: two terms
//! have many minima that are not the least.

use std::f64::consts::TAU;

use crate::curve::Shape;
use crate::least_squares::{factors, squares};

/// Starting points that each grid keeps.
const KEPT: usize = 4;

/// Points with which the grid is tried: enough to see the form.
const POINTS_MAX: usize = 256;

/// The most promising parameters of this shape, best first. For exponentials and sines `x` goes
/// from 0 to 1, for others it lies around 1; `y` is at most 1 in size.
pub(crate) fn starts(shape: Shape, points: &[(f64, f64)]) -> Vec<Vec<f64>> {
    let some: Vec<(f64, f64)> = points
        .iter()
        .step_by(points.len().div_ceil(POINTS_MAX).max(1))
        .copied()
        .collect();
    // The number of these points must stay above the number of parameters.
    let few = if some.len() > 2 * shape.parameters() {
        &some[..]
    } else {
        points
    };
    let candidates: Vec<Vec<f64>> = match shape {
        Shape::Polynomial(degree) => polynomial(points, degree).into_iter().collect(),
        Shape::Power => each(&exponents(), |b| {
            Some(vec![factors(few, &[&|x: f64| x.powf(b)])?[0], b])
        }),
        Shape::PowerConstant => each(&exponents(), |b| {
            let found = factors(few, &[&|x: f64| x.powf(b), &|_: f64| 1.0])?;
            Some(vec![found[0], b, found[1]])
        }),
        Shape::TwoPowers => pairs(&exponents(), |b, d| {
            let found = factors(few, &[&|x: f64| x.powf(b), &|x: f64| x.powf(d)])?;
            Some(vec![found[0], b, found[1], d])
        }),
        Shape::Exponential => each(&rates(), |b| {
            Some(vec![factors(few, &[&|x: f64| (b * x).exp()])?[0], b])
        }),
        Shape::TwoExponentials => pairs(&rates(), |b, d| {
            let found = factors(few, &[&|x: f64| (b * x).exp(), &|x: f64| (d * x).exp()])?;
            Some(vec![found[0], b, found[1], d])
        }),
        Shape::Weibull => weibull(),
        // A swing may be narrow in its frequency, and a grid over some of the points would see
        // another one.
        Shape::Sine => each(&frequencies(points.len()), |b| sine(b, few)),
    };
    let mut ranked: Vec<(f64, Vec<f64>)> = candidates
        .into_iter()
        .map(|parameters| (squares(shape, &parameters, few), parameters))
        .filter(|(squares, _)| squares.is_finite())
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked.truncate(KEPT);
    ranked
        .into_iter()
        .map(|(_, parameters)| parameters)
        .collect()
}

/// The polynomial itself: it has no other parameters than factors.
fn polynomial(points: &[(f64, f64)], degree: u8) -> Option<Vec<f64>> {
    let powers: Vec<Box<dyn Fn(f64) -> f64>> = (0..=i32::from(degree))
        .map(|power| -> Box<dyn Fn(f64) -> f64> { Box::new(move |x: f64| x.powi(power)) })
        .collect();
    let terms: Vec<&dyn Fn(f64) -> f64> = powers.iter().map(|term| &**term).collect();
    factors(points, &terms)
}

/// The sine of this frequency that is nearest to the points.
pub(crate) fn sine(frequency: f64, points: &[(f64, f64)]) -> Option<Vec<f64>> {
    let terms: [&dyn Fn(f64) -> f64; 3] = [
        &|x: f64| (frequency * x).sin(),
        &|x: f64| (frequency * x).cos(),
        &|_: f64| 1.0,
    ];
    let found = factors(points, &terms)?;
    let (size, phase) = (found[0].hypot(found[1]), found[1].atan2(found[0]));
    Some(vec![size, frequency, phase, found[2]])
}

fn each(grid: &[f64], of: impl Fn(f64) -> Option<Vec<f64>>) -> Vec<Vec<f64>> {
    grid.iter().filter_map(|&one| of(one)).collect()
}

fn pairs(grid: &[f64], of: impl Fn(f64, f64) -> Option<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for (place, &first) in grid.iter().enumerate() {
        all.extend(
            grid[place + 1..]
                .iter()
                .filter_map(|&second| of(first, second)),
        );
    }
    all
}

fn exponents() -> Vec<f64> {
    (-16..=16).map(|step| f64::from(step) / 4.0).collect()
}

fn rates() -> Vec<f64> {
    let sizes = (-4..=18).map(|step| f64::from(step).exp2().sqrt());
    let mut all: Vec<f64> = sizes.flat_map(|size| [-size, size]).collect();
    all.push(0.0);
    all.sort_by(f64::total_cmp);
    all
}

fn weibull() -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for shape in 1..=20 {
        let b = f64::from(shape) / 4.0;
        all.extend((-12..=12).map(|step| vec![f64::from(step).exp2().sqrt(), b]));
    }
    all
}

/// From a quarter of a swing over all points to one swing in two points, close enough that none is
/// skipped.
fn frequencies(points: usize) -> Vec<f64> {
    let most = (points / 2).clamp(1, 128);
    (1..=most * 4)
        .map(|quarter| TAU * quarter as f64 / 4.0)
        .collect()
}
