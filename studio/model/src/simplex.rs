//! Nelder and Mead's simplex: the least value of a function of a few numbers, without slopes.
//!
//! The likelihoods here have two parameters and one hill each, so the simplest search suffices.

const STEPS_MAX: usize = 400;
/// The search ends when the values of all corners are alike within this.
const ALIKE: f64 = 1e-10;

/// The place of the least value near `start`, and that value. Values that are not finite count as
/// the worst.
pub(crate) fn least(start: &[f64], width: f64, of: &dyn Fn(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let value = |place: &[f64]| {
        Some(of(place))
            .filter(|v| v.is_finite())
            .unwrap_or(f64::MAX)
    };
    let mut corners = vec![(start.to_vec(), value(start))];
    for axis in 0..start.len() {
        let mut place = start.to_vec();
        place[axis] += width;
        let worth = value(&place);
        corners.push((place, worth));
    }
    for _ in 0..STEPS_MAX {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, last) = (corners[0].1, corners.len() - 1);
        if corners[last].1 - best <= ALIKE * (1.0 + best.abs()) {
            break;
        }
        let middle: Vec<f64> = (0..start.len())
            .map(|axis| corners[..last].iter().map(|one| one.0[axis]).sum::<f64>() / last as f64)
            .collect();
        // The worst corner, mirrored at the middle of the others and moved by this much.
        let moved = |by: f64| {
            let worst = &corners[last].0;
            let place: Vec<f64> = middle
                .iter()
                .zip(worst)
                .map(|(m, w)| m + by * (m - w))
                .collect();
            let worth = value(&place);
            (place, worth)
        };
        let mirrored = moved(1.0);
        let next = if mirrored.1 < best {
            let further = moved(2.0);
            Some(if further.1 < mirrored.1 {
                further
            } else {
                mirrored
            })
        } else if mirrored.1 < corners[last - 1].1 {
            Some(mirrored)
        } else {
            Some(moved(-0.5)).filter(|nearer| nearer.1 < corners[last].1)
        };
        match next {
            Some(corner) => corners[last] = corner,
            None => {
                let best = corners[0].0.clone();
                for corner in &mut corners[1..] {
                    for (axis, best) in corner.0.iter_mut().zip(&best) {
                        *axis = (*axis + best) / 2.0;
                    }
                    corner.1 = value(&corner.0);
                }
            }
        }
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    corners.swap_remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_bent_valley_is_found() {
        let valley = |p: &[f64]| (1.0 - p[0]).powi(2) + 100.0 * (p[1] - p[0] * p[0]).powi(2);
        let (place, worth) = least(&[-1.2, 1.0], 0.5, &valley);
        assert!((place[0] - 1.0).abs() < 1e-3 && worth < 1e-6, "{place:?}");
    }

    #[test]
    fn one_number_and_holes_do() {
        let holed = |p: &[f64]| {
            if p[0] < 0.0 {
                f64::NAN
            } else {
                (p[0] - 2.0).powi(2)
            }
        };
        let (place, _) = least(&[0.1], 1.0, &holed);
        assert!((place[0] - 2.0).abs() < 1e-3, "{place:?}");
    }
}
