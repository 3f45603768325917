//! The course of a phase's rate: the rate in each fifth of the phase, and whether it still falls at
//! the end.
//!
//! A rate that still falls at the end is a property of the length of the phase, not of the store: a
//! longer phase would show a lower one. Tables mark it.
//!
//! ```text
//!   steps:    |.........|.........|.........|.........|.........|      all of one width
//!   fifths:        1         2      middle    before     last
//!   blocks:                        |. |. |. |. |                       four in a fifth
//! ```
//! **The rule.** A course falls if two things hold. The mean rate of the last fifth is below that
//! of the middle fifth by more than a tolerance. It is also below that of the fifth before by more
//! than half of the tolerance. The tolerance is the larger of 5 % of the middle rate and 2.5
//! standard errors of the difference between two fifths.
//!
//! * Two comparisons: the middle fifth says that the rate is lower by enough to matter, the fifth
//!   before that it was still falling. A rate that fell early and is steady since then does not
//!   fall.
//! * The standard error comes from the blocks of the last three fifths, each compared with the mean
//!   of its own fifth. It takes blocks instead of steps, because neighbouring steps are alike: a
//!   checkpoint slows several of them. So waves that are shorter than a fifth, and a stall within
//!   one, make the tolerance wider and are not taken for a fall.
//! * About one in a hundred steady courses with independent noise is called falling. A course that
//!   loses a third from start to end, with noise of 5 %, is always called falling if the phase has
//!   120 steps.
//!
//! A course of fewer than 20 whole steps is too short for a judgement.

/// Steps in the shortest course that can be judged: four in each fifth.
const STEPS_MIN: usize = 20;
/// Blocks of a fifth.
const BLOCKS: usize = 4;
/// The least fall that matters, as a share of the middle rate.
const FALL_MIN: f64 = 0.05;
/// Noise hardly makes a difference of more standard errors than this.
const ERRORS: f64 = 2.5;

/// The rate in each fifth of a course.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fifths {
    /// Mean operations a second, in the order of time.
    pub rates: [f64; 5],
    /// Whether the rate still fell at the end, by the rule of the module.
    pub falls: bool,
}

/// Judges a course: for each step the seconds from the start to its end, and the operations in it.
/// `None` if it is too short. Steps of another width than the first one are left out (the last is
/// often cut off). Up to four steps at the start are left out too, so that the others make five
/// equal parts.
///
/// ```
/// let steady: Vec<(f64, u64)> = (1..=40).map(|i| (i as f64 * 0.5, 1000)).collect();
/// let fifths = evendb_lab::course::fifths(&steady).unwrap();
/// assert_eq!(fifths.rates, [2000.0; 5]);
/// assert!(!fifths.falls);
/// ```
#[must_use]
pub fn fifths(course: &[(f64, u64)]) -> Option<Fifths> {
    let rates = step_rates(course);
    if rates.len() < STEPS_MIN {
        return None;
    }
    let parts: Vec<&[f64]> = rates[rates.len() % 5..]
        .chunks_exact(rates.len() / 5)
        .collect();
    let means: [f64; 5] = std::array::from_fn(|fifth| mean(parts[fifth]));
    let [_, _, middle, before, last] = means;
    let tolerance = (FALL_MIN * middle).max(ERRORS * error_of_difference(&parts[2..]));
    Some(Fifths {
        rates: means,
        falls: last < middle - tolerance && last < before - tolerance / 2.0,
    })
}

/// Operations a second in each whole step.
fn step_rates(course: &[(f64, u64)]) -> Vec<f64> {
    let width = course.first().map_or(0.0, |(end, _)| *end);
    let starts = std::iter::once(0.0).chain(course.iter().map(|(end, _)| *end));
    let steps = starts
        .zip(course)
        .map(|(start, &(end, operations))| (end - start, operations));
    steps
        .filter(|(span, _)| width > 0.0 && (span - width).abs() < 0.1 * width)
        .map(|(span, operations)| operations as f64 / span)
        .collect()
}

/// The standard error of the difference between the means of two of these parts.
fn error_of_difference(parts: &[&[f64]]) -> f64 {
    let spread = |part: &&[f64]| {
        let bound = |block: usize| block * part.len() / BLOCKS;
        let blocks: [f64; BLOCKS] =
            std::array::from_fn(|block| mean(&part[bound(block)..bound(block + 1)]));
        let middle = mean(&blocks);
        let squares = blocks.iter().map(|block| (block - middle).powi(2));
        squares.sum::<f64>() / (BLOCKS - 1) as f64
    };
    let variance = parts.iter().map(spread).sum::<f64>() / parts.len() as f64;
    (2.0 * variance / BLOCKS as f64).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A course of half seconds whose step `i` has about `rate(i)` operations a second. The noise
    /// is a share of the rate, evenly spread to both sides.
    fn course(steps: usize, noise: f64, seed: u64, rate: impl Fn(usize) -> f64) -> Vec<(f64, u64)> {
        let mut random = Random::new(seed, 1);
        let mut step = |i: usize| {
            let side = random.below(2_000_001) as f64 / 1e6 - 1.0;
            let operations = rate(i) / 2.0 * (1.0 + noise * side);
            ((i + 1) as f64 / 2.0, operations.max(0.0) as u64)
        };
        (0..steps).map(&mut step).collect()
    }

    /// How many of 500 courses, of 20 and of 60 seconds, are called falling.
    fn called(noise: f64, rate: impl Fn(f64) -> f64) -> [usize; 2] {
        [40, 120].map(|steps| {
            let falls = (0..500).filter(|&seed| {
                let course = course(steps, noise, seed, |i| rate(i as f64 / steps as f64));
                fifths(&course).unwrap().falls
            });
            falls.count()
        })
    }

    #[test]
    fn flat_and_rising_courses_do_not_fall() {
        assert_eq!(called(0.0, |_| 1e5), [0, 0]);
        assert_eq!(called(0.0, |at| 5e4 + 1e5 * at), [0, 0]);
        assert_eq!(called(0.3, |at| 5e4 + 1e5 * at), [0, 0]);
        for noise in [0.05, 0.2, 0.5, 1.0] {
            let called = called(noise, |_| 1e5);
            assert!(
                called.iter().all(|&falls| falls <= 10),
                "{noise}: {called:?}"
            );
        }
    }

    #[test]
    fn falling_courses_fall() {
        assert_eq!(called(0.0, |at| 1e5 * (1.0 - 0.2 * at)), [500, 500]);
        assert_eq!(called(0.08, |at| 1e5 * (1.0 - 0.3 * at))[1], 500);
        assert!(called(0.08, |at| 1e5 * (1.0 - 0.3 * at))[0] >= 400);
        assert_eq!(called(0.2, |at| 1e5 * (-3.0 * at).exp()), [500, 500]);
        // It broke down only at the end.
        let late = |at: f64| if at < 0.85 { 1e5 } else { 2e3 };
        assert_eq!(called(0.1, late), [500, 500]);
    }

    #[test]
    fn what_fell_before_and_is_steady_now_does_not_fall() {
        let early = |at: f64| if at < 0.5 { 2e5 } else { 1e5 };
        assert_eq!(called(0.0, early), [0, 0]);
        let recovered = |at: f64| if (0.6..0.8).contains(&at) { 5e4 } else { 1e5 };
        assert_eq!(called(0.1, recovered), [0, 0]);
    }

    #[test]
    fn waves_and_stalls_are_no_fall() {
        for steps in [40, 120] {
            for (high, low) in [(4, 2), (3, 3), (1, 6)] {
                for start in 0..high + low {
                    let wave = |i: usize| match (i + start) % (high + low) < high {
                        true => 1e5,
                        false => 3e4,
                    };
                    let fifths = fifths(&course(steps, 0.05, 7, wave)).unwrap();
                    assert!(!fifths.falls, "{steps} {high} {low} {start}: {fifths:?}");
                }
            }
            for stalled in 0..steps {
                let stall = |i: usize| if i == stalled { 0.0 } else { 1e5 };
                assert!(!fifths(&course(steps, 0.05, 3, stall)).unwrap().falls);
            }
        }
    }

    #[test]
    fn only_whole_steps_count_and_short_courses_say_nothing() {
        let mut steps = course(22, 0.0, 1, |i| 1000.0 + i as f64 * 100.0);
        steps.push((11.1, 1));
        let rates = fifths(&steps).unwrap().rates;
        // 22 is no multiple of five: two steps are left out. The step that was cut off does not
        // count at all.
        assert_eq!(rates[0], 1350.0);
        assert_eq!(rates[4], 2950.0);
        steps.truncate(19);
        assert_eq!(fifths(&steps), None);
        assert_eq!(fifths(&[]), None);
        assert_eq!(fifths(&[(0.0, 5); 30]), None);
        assert!(!fifths(&course(40, 0.0, 1, |_| 0.0)).unwrap().falls);
    }
}
