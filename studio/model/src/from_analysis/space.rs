//! A model's ranges and accesses over the whole key space, in the form of the measurements.

use super::course::{Above, Course, Measured};
use crate::access::{Accesses, Ranges};
use crate::counts::{above, grouped, steps};

/// This number of ranges stands for all.
const RANGES: usize = 64;
/// Steps of ranks in a range.
const STEPS: i32 = 48;
/// The share of keys that were named once counts as one point for this number of ranks.
const ONCE_PART: usize = 4;

/// Ranges with their shares. Some of them stand for several.
pub(super) struct Space {
    /// The share of the accesses of one range, and the number of ranges like it.
    ranges: Vec<(f64, f64)>,
    pairs_of_range: u64,
    pairs: u64,
}

impl Space {
    pub(super) fn new(ranges: Option<&Ranges>, pairs: u64) -> Space {
        let shares = ranges.and_then(Ranges::shares).unwrap_or_else(|| vec![1.0]);
        Space {
            pairs_of_range: (pairs / shares.len() as u64).max(1),
            ranges: grouped(&shares, RANGES),
            pairs,
        }
    }

    /// The error in the measurements and in the number of named pairs: the root of the mean square.
    pub(super) fn off(&self, accesses: &Accesses, course: &Course, named: u64) -> f64 {
        let touched = accesses.touched(self.pairs);
        // This counts as one point.
        let pairs =
            self.named(accesses, touched, course.accesses) / course.pairs.min(named as f64) - 1.0;
        let mut squares = vec![pairs.powi(2)];
        match &course.measured {
            Measured::Ranks(points) => {
                squares.extend(points.iter().map(|&(rank, share)| {
                    (self.share_up_to(rank, accesses, touched) - share).powi(2)
                }));
                // Ranks belong to hot pairs. For the cold ones, the share that was named once
                // counts as this number of points.
                let once = (self.once(accesses, course) - course.once).powi(2);
                squares.extend(vec![once; points.len().div_ceil(ONCE_PART)]);
            }
            Measured::Counts(levels) => squares.extend(levels.iter().flat_map(|level| {
                let here = self.above(level.times, accesses, touched, course.accesses);
                [
                    (here.keys - level.keys).powi(2),
                    (here.accesses - level.accesses).powi(2),
                ]
            })),
        }
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    }

    /// The share of the named keys that are named once.
    pub(super) fn once(&self, accesses: &Accesses, course: &Course) -> f64 {
        let touched = accesses.touched(self.pairs);
        1.0 - self.above(1, accesses, touched, course.accesses).keys
    }

    /// The accessed share of the pairs in a cumulative description. With it, chance names the
    /// measured number of pairs.
    pub(super) fn touched(&self, b: f64, course: &Course, named: u64) -> f64 {
        let least = (course.pairs.min(named as f64) / self.pairs as f64).min(1.0);
        let (mut low, mut high) = (least, 1.0);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            let accesses = Accesses::Cumulative {
                a: (middle * self.pairs as f64).powf(-b),
                b,
            };
            match self.named(&accesses, middle, course.accesses) < course.pairs {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }

    /// The number of different pairs that `drawn` accesses name, by chance.
    fn named(&self, accesses: &Accesses, touched: f64, drawn: f64) -> f64 {
        self.sum(accesses, touched, drawn, |mean| above(0, mean))
    }

    /// The shares of the keys that `drawn` accesses name more often than `times`, by chance.
    fn above(&self, times: u32, accesses: &Accesses, touched: f64, drawn: f64) -> Above {
        let keys = self.sum(accesses, touched, drawn, |mean| above(times, mean));
        // The mean of the part of a Poisson number above `times` is its mean multiplied by the
        // chance to be above one less.
        let of_those = |mean: f64| mean * above(times - 1, mean);
        Above {
            times,
            keys: keys / self.named(accesses, touched, drawn),
            accesses: self.sum(accesses, touched, drawn, of_those) / drawn,
        }
    }

    /// The sum of `each` over all pairs. `each` gets the mean number of accesses of a pair.
    fn sum(&self, accesses: &Accesses, touched: f64, drawn: f64, each: impl Fn(f64) -> f64) -> f64 {
        let steps = steps(accesses, self.pairs_of_range, touched, STEPS);
        let of_range = |&(of_range, count): &(f64, f64)| {
            let pairs = steps.iter();
            count
                * pairs
                    .map(|&(pairs, share)| pairs * each(drawn * of_range * share / pairs))
                    .sum::<f64>()
        };
        self.ranges.iter().map(of_range).sum()
    }

    /// The share of accesses of the hottest `rank` pairs of all ranges.
    fn share_up_to(&self, rank: f64, accesses: &Accesses, touched: f64) -> f64 {
        // The heat of the coldest of them, by bisection between the extremes of heat, in
        // logarithms.
        let (mut low, mut high) = (-80.0_f64, 20.0_f64);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            match self.hotter(middle.exp(), accesses, touched).0 > rank {
                true => low = middle,
                false => high = middle,
            }
        }
        self.hotter(high.exp(), accesses, touched).1
    }

    /// The number of pairs that are hotter than this share of the accesses each, and their common
    /// share.
    fn hotter(&self, heat: f64, accesses: &Accesses, touched: f64) -> (f64, f64) {
        let (mut pairs, mut share) = (0.0, 0.0);
        for &(of_range, count) in &self.ranges {
            let below = accesses.hotter_than(
                heat / of_range.max(f64::MIN_POSITIVE),
                self.pairs_of_range,
                touched,
            );
            pairs += count * below;
            share += count * of_range * accesses.share_up_to(below, self.pairs_of_range, touched);
        }
        (pairs, share)
    }
}
