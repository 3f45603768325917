//! What a model's ranges and accesses come to over the whole key space, beside what was measured.

use super::course::{Above, Course, Measured};
use crate::access::{Accesses, Ranges};
use crate::counts::{above, grouped, steps};

/// So many ranges stand for all.
const RANGES: usize = 64;
/// Steps of ranks in a range.
const STEPS: i32 = 48;
/// The share of keys that were named once counts for one point in so many ranks.
const ONCE_PART: usize = 4;

/// Ranges with their shares, some of them standing for several.
pub(super) struct Space {
    /// Share of the accesses of one range, and how many ranges are like it.
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

    /// How far what is measured is off, and the number of pairs named: the root of the mean square.
    pub(super) fn off(&self, accesses: &Accesses, course: &Course, named: u64) -> f64 {
        let touched = accesses.touched(self.pairs);
        // Counted as one point.
        let pairs =
            self.named(accesses, touched, course.accesses) / course.pairs.min(named as f64) - 1.0;
        let mut squares = vec![pairs.powi(2)];
        match &course.measured {
            Measured::Ranks(points) => {
                squares.extend(points.iter().map(|&(rank, share)| {
                    (self.share_up_to(rank, accesses, touched) - share).powi(2)
                }));
                // Ranks are of hot pairs. Of the cold ones, how many were named once counts for so
                // many points.
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

    /// The share of the keys named that are named once.
    pub(super) fn once(&self, accesses: &Accesses, course: &Course) -> f64 {
        let touched = accesses.touched(self.pairs);
        1.0 - self.above(1, accesses, touched, course.accesses).keys
    }

    /// The share of pairs of a cumulative description of which as many are named as were, by chance.
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

    /// How many different pairs so many accesses name, by chance.
    fn named(&self, accesses: &Accesses, touched: f64, drawn: f64) -> f64 {
        self.sum(accesses, touched, drawn, |mean| above(0, mean))
    }

    /// The shares of the keys that so many accesses name more often than `times`, by chance.
    fn above(&self, times: u32, accesses: &Accesses, touched: f64, drawn: f64) -> Above {
        let keys = self.sum(accesses, touched, drawn, |mean| above(times, mean));
        // The mean of a Poisson number where it is above `times` is its mean by the chance to be above one less.
        let of_those = |mean: f64| mean * above(times - 1, mean);
        Above {
            times,
            keys: keys / self.named(accesses, touched, drawn),
            accesses: self.sum(accesses, touched, drawn, of_those) / drawn,
        }
    }

    /// The sum over all pairs of what `each` says of how often one is accessed on average.
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
        // The heat of the coldest of them, by halving between the extremes of heat, in logarithms.
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

    /// How many pairs are hotter than this share of the accesses each, and the share that they have together.
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
