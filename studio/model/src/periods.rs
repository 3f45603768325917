//! Periods: after which time a course of rates comes again.
//!
//! ```text
//!   course of equal stretches, and a lag
//!     - its mean over a whole lag around each stretch    what is slower than the lag is gone
//!     --> correlation of each stretch with the one a lag later: the strength of the lag
//!   strengths of all lags --> peaks that chance does not make --> the first high one: the period
//! ```
//! A mean over a whole period keeps nothing of the period, so what is taken away is trend. The
//! strength is from -1 to 1; 1 says that every stretch is as the one a period before.
//!
//! A period is told if four things hold:
//! * The course is at least [`CYCLES_MIN`] periods long, and a period has [`LAG_MIN`] stretches.
//! * Its strength is a peak: on both sides, within a quarter of the lag, it falls by half. A course
//!   that only rises or falls has none.
//! * Chance does not make it: it is [`ERRORS_MIN`] standard errors above 0. The more alike
//!   neighbouring stretches are, the fewer of them count, so a course that wanders needs more.
//! * One cycle is like the next in most cases: two bursts that happen to be a lag apart are none.

use crate::correlation::pearson;
use crate::least_squares::factors;

/// A course has at least this number of periods.
pub const CYCLES_MIN: usize = 3;
/// A period has at least this number of stretches.
pub const LAG_MIN: usize = 4;
/// The least strength of a period, in standard errors of a correlation.
pub const ERRORS_MIN: f64 = 5.0;
/// A peak with this share of the highest one's strength is as good: the period is the shortest such
/// lag. Its multiples are peaks as well.
const ALIKE: f64 = 0.8;
/// On both sides of a peak the strength falls to this share of it.
const FALLS: f64 = 0.5;
/// Half of all pairs of neighbouring cycles have a correlation of this share of the strength.
const CYCLES_ALIKE: f64 = 1.0 / 3.0;
/// Differences below this share of the largest rate come from the arithmetic.
const ARITHMETIC: f64 = 1e-9;

/// A period of a course.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Its length in stretches; a part of one where the peak lies between two lags.
    pub stretches: f64,
    /// The correlation of stretches that are a period apart, without what is slower.
    pub strength: f64,
    /// The number of periods in the course.
    pub cycles: f64,
}

/// The period of a course of equal stretches. `None` if it has none, or is too short to tell.
#[must_use]
pub fn find(course: &[f64]) -> Option<Period> {
    let longest = course.len() / CYCLES_MIN;
    if longest < LAG_MIN || course.iter().any(|rate| !rate.is_finite()) {
        return None;
    }
    // Lags 0 and 1 have no mean over a lag; no peak looks at them.
    let lags = (2..=around(longest).1).map(|lag| Lag::new(course, lag));
    let mut all = vec![Lag::default(); 2];
    all.extend(lags);
    let is_told = |lag: &usize| all[*lag].is_sure(*lag) && is_peak(&all, *lag);
    let peaks: Vec<usize> = (LAG_MIN..=longest).filter(is_told).collect();
    let most = peaks.iter().map(|lag| all[*lag].strength);
    let most = most.fold(0.0, f64::max);
    let mut high = peaks.into_iter();
    let peak = high.find(|lag| all[*lag].strength >= ALIKE * most)?;
    let strength = all[peak].strength;
    if cycles_alike(course, peak) < CYCLES_ALIKE * strength {
        return None;
    }
    let stretches = middle(&all, peak);
    Some(Period {
        stretches,
        strength,
        cycles: course.len() as f64 / stretches,
    })
}

/// The lags within a quarter of a lag from it.
fn around(lag: usize) -> (usize, usize) {
    (lag - lag.div_ceil(4), lag + lag.div_ceil(4))
}

/// What is known of one lag.
#[derive(Clone, Copy, Default)]
struct Lag {
    strength: f64,
    /// The correlation of neighbouring stretches.
    neighbours: f64,
    /// The number of pairs of stretches that are compared.
    pairs: usize,
}

impl Lag {
    fn new(course: &[f64], lag: usize) -> Lag {
        let left = without_slower(course, lag);
        let Some(pairs) = left
            .len()
            .checked_sub(lag)
            .filter(|_| has_course(&left, course))
        else {
            return Lag::default();
        };
        let apart = |lag: usize| pearson(&left[..left.len() - lag], &left[lag..]);
        Lag {
            strength: apart(lag).unwrap_or_default(),
            neighbours: apart(1).unwrap_or_default(),
            pairs,
        }
    }

    /// Whether chance does not make this strength. If neighbours are alike, several of them count
    /// as one; what is slower than the lag is gone, so a quarter of the lag is the most.
    fn is_sure(&self, lag: usize) -> bool {
        let alike = self.neighbours.max(0.0).powi(2);
        let as_one = ((1.0 + alike) / (1.0 - alike)).min(lag as f64 / 4.0);
        let free = self.pairs as f64 / as_one.max(1.0) - 2.0;
        // That of Student's t for a correlation, solved for the correlation.
        free > 0.0 && self.strength >= ERRORS_MIN / (ERRORS_MIN.powi(2) + free).sqrt()
    }
}

/// Whether the numbers differ by more than arithmetic makes of the course.
fn has_course(left: &[f64], course: &[f64]) -> bool {
    let largest = course.iter().copied().map(f64::abs).fold(0.0, f64::max);
    let least = left.iter().copied().fold(f64::MAX, f64::min);
    let most = left.iter().copied().fold(f64::MIN, f64::max);
    most - least > largest * ARITHMETIC
}

/// Whether a lag is the strongest around, and the strength falls on both sides.
fn is_peak(all: &[Lag], lag: usize) -> bool {
    let (first, last) = around(lag);
    let strength = all[lag].strength;
    let sides = [&all[first..lag], &all[lag + 1..=last]];
    sides.iter().all(|side| {
        let falls = side.iter().any(|other| other.strength <= FALLS * strength);
        falls && side.iter().all(|other| other.strength <= strength)
    })
}

/// The course minus its mean over a lag around each stretch. Half a lag is missing at either end.
fn without_slower(course: &[f64], lag: usize) -> Vec<f64> {
    let half = lag / 2;
    // Of an even number of stretches around one, the two at the ends count by half.
    let end = if lag.is_multiple_of(2) { 0.5 } else { 1.0 };
    let mut sums = vec![0.0];
    sums.extend(course.iter().scan(0.0, |sum, rate| {
        *sum += rate;
        Some(*sum)
    }));
    let off = |at: usize| {
        let (first, last) = (at - half, at + half);
        let inner = sums[last] - sums[first + 1];
        let ends = course[first] + course[last];
        course[at] - (inner + ends * end) / lag as f64
    };
    (half..course.len().saturating_sub(half)).map(off).collect()
}

/// The correlation of a cycle with the next one that half of the pairs of cycles reach; 0 for
/// cycles that have no course.
fn cycles_alike(course: &[f64], lag: usize) -> f64 {
    let cycles: Vec<&[f64]> = course.chunks_exact(lag).collect();
    let pairs = cycles.windows(2);
    let mut alike: Vec<f64> = pairs
        .map(|pair| pearson(pair[0], pair[1]).unwrap_or_default())
        .collect();
    alike.sort_by(f64::total_cmp);
    let middle = alike.len().saturating_sub(1) / 2;
    alike.get(middle).copied().unwrap_or_default()
}

/// The middle of a peak: the vertex of the parabola through the strengths within an eighth of the
/// lag. Chance moves it less than the peak.
fn middle(all: &[Lag], peak: usize) -> f64 {
    let mut found = peak as f64;
    for _ in 0..2 {
        let around = found.round() as usize;
        let wide = (around / 8).max(1);
        let lags = around - wide..=(around + wide).min(all.len() - 1);
        let points: Vec<_> = lags
            .map(|lag| (lag as f64 - found, all[lag].strength))
            .collect();
        let parabola = factors(&points, &[&|_: f64| 1.0, &|x: f64| x, &|x: f64| x * x]);
        let Some(&[_, slope, bend]) = parabola.as_deref() else {
            return found;
        };
        let vertex = found - slope / (2.0 * bend);
        if !(bend < 0.0 && (vertex - peak as f64).abs() <= wide as f64) {
            return found;
        }
        found = vertex;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    /// Numbers that look drawn at random, from -0.5 to 0.5.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        }

        /// About normal: the sum of twelve has a variance of 1.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.next()).sum()
        }
    }

    /// Stretches of 5 minutes: a day has 288.
    const HOUR: f64 = 12.0;

    fn swing(stretches: usize, period: f64, noise: f64, seed: u64) -> Vec<f64> {
        let mut random = Noise(seed);
        let rate = |at: usize| 1000.0 + 200.0 * (TAU * at as f64 / period + 1.0).sin();
        (0..stretches)
            .map(|at| rate(at) + noise * random.normal())
            .collect()
    }

    #[test]
    fn a_period_of_six_hours_comes_back_from_noise() {
        for seed in 0..40 {
            // A day; the noise has a fifth of the swing's variance.
            let course = swing(288, 6.0 * HOUR, 60.0, seed);
            let found = find(&course).unwrap_or_else(|| panic!("no period of seed {seed}"));
            let hours = found.stretches / HOUR;
            assert!((hours - 6.0).abs() < 0.25, "seed {seed}: {found:?}");
            assert!((found.cycles - 4.0).abs() < 0.2, "{found:?}");
            assert!((0.6..0.95).contains(&found.strength), "{found:?}");
        }
        // Without noise it is near, also between two stretches, and of strength 1.
        for period in [72.0, 40.5, 24.0, 13.0] {
            let found = find(&swing(288, period, 0.0, 1)).unwrap();
            assert!((found.stretches - period).abs() < 0.3, "{period} {found:?}");
            assert!(found.strength > 0.98, "{period} {found:?}");
        }
    }

    #[test]
    fn white_noise_and_what_wanders_or_rises_have_no_period() {
        let mut wandering = 0;
        for seed in 0..200 {
            let mut random = Noise(seed * 77);
            let white: Vec<f64> = (0..300).map(|_| 1000.0 + 50.0 * random.normal()).collect();
            assert_eq!(find(&white), None, "seed {seed}");
            let few: Vec<f64> = white[..40].to_vec();
            assert_eq!(find(&few), None, "seed {seed}");
            let mut at = 1000.0;
            let step = |_| {
                at += random.normal();
                at
            };
            let walk: Vec<f64> = (0..300).map(step).collect();
            wandering += usize::from(find(&walk).is_some());
        }
        assert!(wandering <= 2, "{wandering} of 200");
        let rises = (0..300).map(|at| 5.0 + 0.7 * f64::from(at));
        assert_eq!(find(&rises.collect::<Vec<_>>()), None);
        let curve = (0..300).map(|at| 5.0 + f64::from(at).powi(2));
        assert_eq!(find(&curve.collect::<Vec<_>>()), None);
        for noise in [0.0, 1.0, 20.0] {
            let mut random = Noise(3);
            let falls = (0..300).map(|at| 1000.0 * (-f64::from(at) / 90.0).exp());
            let falls = falls.map(|rate| rate + noise * random.normal());
            assert_eq!(find(&falls.collect::<Vec<_>>()), None, "noise {noise}");
        }
        assert_eq!(find(&[7.0; 300]), None);
        assert_eq!(find(&[0.0; 300]), None);
    }

    #[test]
    fn peaks_that_come_again_are_a_period_and_two_bursts_are_none() {
        let mut random = Noise(5);
        let mut each_hour: Vec<f64> = (0..288).map(|_| 100.0 + 20.0 * random.normal()).collect();
        for peak in each_hour.iter_mut().step_by(12) {
            *peak += 900.0;
        }
        let found = find(&each_hour).unwrap();
        assert!((found.stretches - 12.0).abs() < 0.1, "{found:?}");
        assert!(found.strength > 0.8, "{found:?}");
        // The same on a rising ground, which is steeper than the peaks are high.
        let rising = (0..).zip(&each_hour);
        let rising: Vec<f64> = rising
            .map(|(at, rate)| rate + 20.0 * f64::from(at))
            .collect();
        let found = find(&rising).unwrap();
        assert!((found.stretches - 12.0).abs() < 0.1, "{found:?}");
        for ground in [0.0, 100.0] {
            let mut bursts = vec![ground; 300];
            (bursts[40], bursts[90]) = (5000.0, 4000.0);
            assert_eq!(find(&bursts), None);
            bursts[140] = 6000.0;
            assert_eq!(find(&bursts), None);
        }
    }

    #[test]
    fn of_two_periods_the_stronger_is_told_and_no_multiple_of_it() {
        let day = |at: usize| 300.0 * (TAU * at as f64 / 24.0).sin();
        let noon = |at: usize| 60.0 * (TAU * at as f64 / 12.0).sin();
        let mut random = Noise(9);
        // Two weeks by the hour: a day, and two small swings of half a day in it.
        let course: Vec<f64> = (0..336)
            .map(|at| 1000.0 + day(at) + noon(at) + 50.0 * random.normal())
            .collect();
        let found = find(&course).unwrap();
        assert!((found.stretches - 24.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn a_course_of_fewer_than_three_periods_tells_none() {
        let course = swing(288, 96.0, 0.0, 1);
        assert!(find(&course).is_some());
        assert_eq!(find(&course[..280]), None);
        for short in [&[][..], &[1.0], &[1.0, 2.0, 1.0, 2.0], &[f64::NAN; 30]] {
            assert_eq!(find(short), None);
        }
    }
}
