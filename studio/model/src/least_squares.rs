//! Least squares: linear factors by singular values, all others by Levenberg and Marquardt's
//! method.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};

use crate::curve::{PARAMETERS_MAX, Shape};

/// The sum of squares by which a curve misses the points. Infinite if it has no value at a point.
pub(crate) fn squares(shape: Shape, parameters: &[f64], points: &[(f64, f64)]) -> f64 {
    let missed = points.iter().map(|&(x, y)| shape.value(parameters, x) - y);
    let sum: f64 = missed.map(|by| by * by).sum();
    if sum.is_finite() { sum } else { f64::INFINITY }
}

/// The factors of `terms` whose sum comes nearest to the points. `None` if a term has no value at a
/// point.
pub(crate) fn factors(points: &[(f64, f64)], terms: &[&dyn Fn(f64) -> f64]) -> Option<Vec<f64>> {
    let matrix = DMatrix::from_fn(points.len(), terms.len(), |row, column| {
        terms[column](points[row].0)
    });
    if matrix.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let target = DVector::from_iterator(points.len(), points.iter().map(|&(_, y)| y));
    let solved = matrix.svd(true, true).solve(&target, 1e-13).ok()?;
    let factors: Vec<f64> = solved.iter().copied().collect();
    factors.iter().all(|one| one.is_finite()).then_some(factors)
}

struct Problem<'a> {
    shape: Shape,
    points: &'a [(f64, f64)],
    parameters: DVector<f64>,
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, parameters: &DVector<f64>) {
        self.parameters.copy_from(parameters);
    }

    fn params(&self) -> DVector<f64> {
        self.parameters.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let parameters = self.parameters.as_slice();
        let missed = self
            .points
            .iter()
            .map(|&(x, y)| self.shape.value(parameters, x) - y);
        let residuals = DVector::from_iterator(self.points.len(), missed);
        all_finite(residuals.as_slice()).then_some(residuals)
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let parameters = self.parameters.as_slice();
        let mut jacobian = DMatrix::zeros(self.points.len(), parameters.len());
        let mut gradient = [0.0; PARAMETERS_MAX];
        for (row, &(x, _)) in self.points.iter().enumerate() {
            self.shape.gradient(parameters, x, &mut gradient);
            for (column, slope) in gradient[..parameters.len()].iter().enumerate() {
                jacobian[(row, column)] = *slope;
            }
        }
        all_finite(jacobian.as_slice()).then_some(jacobian)
    }
}

fn all_finite(numbers: &[f64]) -> bool {
    numbers.iter().all(|number| number.is_finite())
}

/// Moves the parameters to the least squares nearby. Returns both.
pub(crate) fn polished(shape: Shape, start: Vec<f64>, points: &[(f64, f64)]) -> (Vec<f64>, f64) {
    let before = squares(shape, &start, points);
    let problem = Problem {
        shape,
        points,
        parameters: DVector::from_vec(start.clone()),
    };
    let (problem, _) = LevenbergMarquardt::new()
        .with_patience(200)
        .minimize(problem);
    let parameters: Vec<f64> = problem.parameters.iter().copied().collect();
    let after = squares(shape, &parameters, points);
    // Only a better result is taken, however the search says it ended.
    match after < before && all_finite(&parameters) {
        true => (parameters, after),
        false => (start, before),
    }
}
