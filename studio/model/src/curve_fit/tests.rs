//! Planted parameters come back within stated errors, and degenerate points are refused.

use super::*;

/// Numbers that look random, from -1 to 1, with a variance of a third.
fn noise(seed: u64, index: usize) -> f64 {
    let mut z = (seed << 32 ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Points of a curve; each y is off by up to this share of itself.
fn planted(shape: Shape, p: &[f64], xs: impl Iterator<Item = f64>, share: f64) -> Vec<(f64, f64)> {
    let at = |(index, x): (usize, f64)| (x, shape.value(p, x) * (1.0 + share * noise(7, index)));
    xs.enumerate().map(at).collect()
}

fn steps(count: u32, width: f64) -> impl Iterator<Item = f64> {
    (1..=count).map(move |step| f64::from(step) * width)
}

/// Asserts that each parameter comes back within `within` of its size.
fn comes_back(shape: Shape, p: &[f64], points: &[(f64, f64)], within: f64) {
    let found = fit(points, shape).unwrap();
    for (planted, fitted) in p.iter().zip(&found.curve.parameters) {
        let off = (fitted - planted).abs() / planted.abs();
        assert!(off <= within, "{}: {fitted} for {planted}", found.curve);
    }
}

#[test]
fn planted_parameters_come_back() {
    // Shape, parameters, step of x, and the allowed errors of parameters without noise, with 1 %
    // and with 10 % of it.
    let cases: [(Shape, &[f64], f64, [f64; 3]); 9] = [
        (Shape::Power, &[0.002312, 0.3467], 1000.0, [1e-6, 0.01, 0.1]),
        (Shape::Power, &[5e6, -1.3], 10.0, [1e-6, 0.02, 0.2]),
        (
            Shape::PowerConstant,
            &[3.0, -0.8, 0.5],
            0.5,
            [1e-5, 0.05, 0.4],
        ),
        (Shape::Exponential, &[14.18, -0.03], 1.0, [1e-6, 0.01, 0.1]),
        (
            Shape::TwoExponentials,
            &[14.18, -0.4, 1.64, -0.02],
            1.0,
            [1e-5, 0.03, 0.3],
        ),
        (
            Shape::Polynomial(2),
            &[3.0, -0.2, 0.01],
            1.0,
            [1e-6, 0.2, 1.0],
        ),
        (Shape::Polynomial(1), &[3.0, 0.25], 1.0, [1e-9, 0.05, 0.4]),
        (Shape::Weibull, &[0.05, 1.4], 0.2, [1e-6, 0.02, 0.2]),
        (
            Shape::Sine,
            &[1000.0, 0.073, 0.5, 4500.0],
            1.0,
            [1e-6, 0.02, 0.2],
        ),
    ];
    for (shape, p, width, within) in cases {
        for (share, within) in [0.0, 0.01, 0.1].into_iter().zip(within) {
            let points = planted(shape, p, steps(200, width), share);
            comes_back(shape, p, &points, within);
        }
    }
}

#[test]
fn the_studys_key_ranges_come_back() {
    // 30 ranges: the first term falls by e^-2.9 from each range to the next, so that only a few
    // points show it.
    let p = [14.18, -2.917, 0.0164, -0.08082];
    let shape = Shape::TwoExponentials;
    for (share, within) in [(0.0, 1e-4), (0.001, 0.03), (0.01, 0.3)] {
        let points = planted(shape, &p, steps(30, 1.0), share);
        let found = fit(&points, shape).unwrap();
        // The share of each range is drawn: this must come back, and it does better than a and b.
        for &(x, _) in &points {
            let off = (found.curve.value(x) / shape.value(&p, x) - 1.0).abs();
            assert!(off <= within, "{share}: {off} at {x}: {}", found.curve);
        }
    }
    let points = planted(shape, &p, steps(30, 1.0), 0.0);
    comes_back(shape, &p, &points, 1e-4);
    let candidates = choose(&points, &Shape::ALL).unwrap();
    assert_eq!(candidates.best.curve.shape, shape, "{candidates}");
}

#[test]
fn two_powers_come_back_as_a_curve() {
    // Terms compensate for each other: single parameters say little, and the curve is near.
    let (shape, p) = (Shape::TwoPowers, [40.0, -1.5, 2.0, -0.2]);
    for (share, within) in [(0.0, 1e-6), (0.01, 0.02), (0.1, 0.1)] {
        let points = planted(shape, &p, steps(200, 1.0), share);
        let found = fit(&points, shape).unwrap();
        for &(x, _) in points.iter().step_by(20) {
            let off = (found.curve.value(x) / shape.value(&p, x) - 1.0).abs();
            assert!(off <= within, "{share}: {off} at {x}: {}", found.curve);
        }
    }
}

#[test]
fn a_swing_of_a_day_comes_back_from_its_seconds() {
    // One and a half days, by steps of ten minutes, x in seconds since some year.
    let shape = Shape::Sine;
    let p = [1000.0, 0.000073, 1.0, 4500.0];
    let shifted = (0..216).map(|step| 1.7e9 + f64::from(step) * 600.0);
    let points: Vec<_> = shifted
        .enumerate()
        .map(|(index, x)| (x, shape.value(&p, x) + 50.0 * noise(3, index)))
        .collect();
    let found = fit(&points, shape).unwrap().curve.parameters;
    assert!((found[0] - 1000.0).abs() < 20.0, "{found:?}");
    assert!((found[1] / 0.000073 - 1.0).abs() < 0.01, "{found:?}");
    assert!((found[3] - 4500.0).abs() < 20.0, "{found:?}");
}

#[test]
fn the_planted_shape_is_chosen() {
    let cases: [(Shape, &[f64], f64); 6] = [
        (Shape::Power, &[9.0, -0.6], 1.0),
        (Shape::Exponential, &[9.0, -0.04], 1.0),
        (Shape::TwoExponentials, &[14.0, -0.4, 2.0, -0.01], 1.0),
        (Shape::Polynomial(1), &[3.0, 0.5], 1.0),
        (Shape::Weibull, &[0.05, 1.4], 0.1),
        (Shape::Sine, &[9.0, 0.3, 1.0, 20.0], 1.0),
    ];
    for (shape, p, width) in cases {
        for share in [0.0, 0.01] {
            let points = planted(shape, p, steps(150, width), share);
            let found = choose(&points, &Shape::ALL).unwrap();
            assert_eq!(found.best.curve.shape, shape, "{share}\n{found}");
            assert!(found.best.r_squared > 0.98, "{found}");
            assert!(found.to_string().contains("<- chosen"));
        }
    }
}

#[test]
fn more_parameters_do_not_win_by_being_more() {
    // A constant with noise: a line explains it as well as anything.
    let points: Vec<_> = (0..400)
        .map(|index| (1.0 + f64::from(index), 10.0 + noise(1, index as usize)))
        .collect();
    let lines = [4, 3, 2, 1].map(Shape::Polynomial);
    let found = choose(&points, &lines).unwrap();
    assert_eq!(found.best.curve.shape, Shape::Polynomial(1), "{found}");
    assert!(found.best.r_squared < 0.1, "{found}");
}

#[test]
fn degenerate_points_are_refused() {
    let all = |points: &[(f64, f64)]| choose(points, &Shape::ALL).unwrap_err();
    assert_eq!(all(&[]), FitError::Empty);
    let (needed, given) = (2, 1);
    assert_eq!(all(&[(1.0, 1.0)]), FitError::TooFew { needed, given });
    let equal = |what| FitError::AllEqual { what };
    assert_eq!(all(&[(1.0, 1.0); 9]), equal("x"));
    assert_eq!(all(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]), equal("y"));
    for hole in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let index = 1;
        let not_finite = FitError::NotFinite { index };
        assert_eq!(all(&[(1.0, 1.0), (2.0, hole), (3.0, 4.0)]), not_finite);
        assert_eq!(all(&[(1.0, 1.0), (hole, 2.0), (3.0, 4.0)]), not_finite);
    }
    let points = [(0.0, 1.0), (1.0, 2.0), (2.0, 1.0)];
    let refused = fit(&points, Shape::Power).unwrap_err();
    assert!(
        matches!(refused, FitError::Outside { index: 0, .. }),
        "{refused}"
    );
    let (needed, given) = (5, 3);
    let too_few = FitError::TooFew { needed, given };
    assert_eq!(fit(&points, Shape::Sine), Err(too_few));
    // The other points are still fitted, and a refused candidate has a reason.
    let some = choose(&points, &Shape::ALL).unwrap();
    assert_eq!(some.all.len() + some.refused.len(), Shape::ALL.len());
    assert!(
        some.to_string().contains("not fitted: x must be above 0"),
        "{some}"
    );
}

#[test]
fn extreme_numbers_do_no_harm() {
    let tiny = [(1e-300, 1e-300), (2e-300, 2e-300), (3e-300, 4e-300)];
    let huge = [(1e300, 1e300), (2e300, 2e300), (3e300, 4e300)];
    let mixed = [
        (1e-9, 1e9),
        (1.0, 0.0),
        (1e9, -1e9),
        (1e10, 3.0),
        (1e11, 4.0),
        (1e12, 5.0),
    ];
    for points in [&tiny[..], &huge, &mixed] {
        // Every curve that is found is finite.
        if let Ok(found) = choose(points, &Shape::ALL) {
            assert!(
                found.all.iter().all(|one| one.standard_error.is_finite()),
                "{found}"
            );
        }
    }
}
