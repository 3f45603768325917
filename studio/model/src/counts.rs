//! How often a model expects keys to be named: the counts of an analysis, without a trace.
//!
//! Operations are drawn one by one. So the number of times that a pair with the share s of n
//! operations is named is a Poisson number with the mean n s. The sums are taken over steps of
//! ranks, which grow with the rank; all pairs of a step count as alike.

use crate::access::{Accesses, hot};
use crate::model::{Kind, Model};

/// Steps of ranks in a range.
const STEPS: i32 = 96;
/// This number of ranges stands for all.
const RANGES_MAX: usize = 256;

/// The keys that a kind of operation names: their number, and how often they are named.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Keys that are named at all.
    pub keys: f64,
    /// How often each is named, on average.
    pub mean: f64,
    /// The share of keys that are named once.
    pub once: f64,
    /// The share of keys that are named 10 times or more.
    pub at_least_10: f64,
    /// The share of keys that are named 100 times or more.
    pub at_least_100: f64,
    /// The share of operations that go to keys that are named more than 100 times.
    pub of_those_above_100: f64,
}

/// The expected counts for this number of operations of this kind. None if there are no operations.
#[must_use]
pub fn expected(model: &Model, kind: Kind, operations: f64) -> Option<Counts> {
    let mut sums = Counts::default();
    each_step(model, kind, operations, |pairs, mean| sums.add(pairs, mean));
    (operations > 0.0 && sums.keys > 0.0).then(|| Counts {
        mean: operations / sums.keys,
        once: sums.once / sums.keys,
        at_least_10: sums.at_least_10 / sums.keys,
        at_least_100: sums.at_least_100 / sums.keys,
        of_those_above_100: sums.of_those_above_100 / operations,
        keys: sums.keys,
    })
}

/// The shares of the named keys that are expected to be named once, twice, and so on, up to `most`
/// times. None if there are no operations.
#[must_use]
pub fn times(model: &Model, kind: Kind, operations: f64, most: u32) -> Option<Vec<f64>> {
    let (mut keys, mut named) = (0.0, vec![0.0; most as usize]);
    each_step(model, kind, operations, |pairs, mean| {
        keys += pairs * above(0, mean);
        // Poisson's chances, each from the one before. Where e^-mean is no number any more, all
        // of them are too small to count.
        let mut chance = (-mean).exp();
        for (number, named) in (1..).zip(&mut named) {
            chance *= mean / f64::from(number);
            *named += pairs * chance;
        }
    });
    (operations > 0.0 && keys > 0.0).then(|| named.iter().map(|pairs| pairs / keys).collect())
}

/// Calls `each` with a number of pairs and with how often each of them is named on average.
fn each_step(model: &Model, kind: Kind, operations: f64, mut each: impl FnMut(f64, f64)) {
    let ranges = model.ranges_of(kind).and_then(|ranges| ranges.shares());
    let ranges = grouped(&ranges.unwrap_or_else(|| vec![1.0]), RANGES_MAX);
    let count: f64 = ranges.iter().map(|(_, count)| count).sum();
    let among = ((model.pairs as f64 / count) as u64).max(1);
    let alike = Accesses::ByRank { b: 0.0 };
    let accesses = model.accesses_of(kind).unwrap_or(alike);
    let steps = steps(&accesses, among, accesses.touched(model.pairs), STEPS);
    for (of_range, ranges) in ranges {
        for &(pairs, share) in &steps {
            each(ranges * pairs, operations * of_range * share / pairs);
        }
    }
}

impl Counts {
    /// Adds `pairs` pairs. Each of them is named `mean` times on average.
    fn add(&mut self, pairs: f64, mean: f64) {
        let above = |times: u32| pairs * above(times, mean);
        let named = above(0);
        self.keys += named;
        self.once += named - above(1);
        self.at_least_10 += above(9);
        self.at_least_100 += above(99);
        // The mean of the part of a Poisson number above 100 is its mean multiplied by the chance
        // to be above 99.
        self.of_those_above_100 += mean * above(99);
    }
}

/// The chance that a Poisson number with this mean is above `times`.
pub(crate) fn above(times: u32, mean: f64) -> f64 {
    // Further up, e^-mean is no number any more, and nearly all are above every `times` that is
    // used here.
    const MEAN_MAX: f64 = 700.0;
    if times == 0 {
        return -(-mean).exp_m1();
    }
    if mean > MEAN_MAX {
        return 1.0;
    }
    let mut term = (-mean).exp();
    let mut up_to = term;
    for number in 1..=times {
        term *= mean / f64::from(number);
        up_to += term;
    }
    (1.0 - up_to).max(0.0)
}

/// Ranks of a range in steps that grow: the number of pairs in a step, and their common share of
/// the range's accesses. Pairs that are not accessed are in no step.
pub(crate) fn steps(accesses: &Accesses, among: u64, touched: f64, steps: i32) -> Vec<(f64, f64)> {
    let end = hot(among, touched).min(among as f64);
    let ratio = (end + 1.0).powf(f64::from(steps).recip());
    let (mut from, mut below) = (0.0, 0.0);
    let mut found = Vec::new();
    for step in 1..=steps {
        let to = (ratio.powi(step) - 1.0).min(end);
        let share = if step == steps {
            1.0
        } else {
            accesses.share_up_to(to, among, touched)
        };
        if to > from {
            found.push((to - from, share - below));
        }
        (from, below) = (to, share);
    }
    found
}

/// Shares of ranges with the number of ranges that have them. There are at most `most` entries:
/// some of them are the mean of several ranges.
pub(crate) fn grouped(shares: &[f64], most: usize) -> Vec<(f64, f64)> {
    let step = shares.len().div_ceil(most).max(1);
    let groups = shares.chunks(step).map(|group| {
        let count = group.len() as f64;
        (group.iter().sum::<f64>() / count, count)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Own;

    #[test]
    fn chances_are_those_of_poissons_table() {
        // P(X > n) for a mean of 2: 1 - e^-2 (1 + 2 + 2 + ...).
        let e = (-2.0_f64).exp();
        for (times, up_to) in [(0, 1.0), (1, 3.0), (2, 5.0), (3, 5.0 + 4.0 / 3.0)] {
            assert!(
                (above(times, 2.0) - (1.0 - e * up_to)).abs() < 1e-12,
                "{times}"
            );
        }
        assert_eq!((above(99, 0.0), above(99, 1e4)), (0.0, 1.0));
        // A rare event is not rounded away.
        assert!((above(0, 1e-12) / 1e-12 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn shares_by_times_are_those_of_the_counts() {
        let model = crate::presets::named("udb-assoc").unwrap().scaled(0.001);
        let counts = expected(&model, Kind::Get, 1e5).unwrap();
        let times = times(&model, Kind::Get, 1e5, 400).unwrap();
        let up_to = |most: usize| times[..most].iter().sum::<f64>();
        assert!((times[0] - counts.once).abs() < 1e-9);
        assert!((up_to(9) - (1.0 - counts.at_least_10)).abs() < 1e-9);
        assert!((up_to(99) - (1.0 - counts.at_least_100)).abs() < 1e-9);
        assert!(super::times(&model, Kind::Get, 0.0, 9).is_none());
    }

    #[test]
    fn steps_have_all_pairs_and_all_accesses() {
        let cumulative = Accesses::Cumulative { a: 0.01, b: 0.5 };
        for (accesses, touched) in [(cumulative, 0.3), (Accesses::ByRank { b: -0.8 }, 1.0)] {
            let steps = steps(&accesses, 1000, touched, 50);
            let sum = |of: fn(&(f64, f64)) -> f64| steps.iter().map(of).sum::<f64>();
            assert!((sum(|step| step.0) - 1000.0 * touched).abs() < 1e-6);
            assert!((sum(|step| step.1) - 1.0).abs() < 1e-12);
        }
    }

    /// 1000 pairs, all alike for gets, and a tenth of them for puts.
    #[test]
    fn kinds_are_counted_by_what_they_have() {
        let mut model = crate::presets::named("zippydb").unwrap();
        model.pairs = 1000;
        (model.ranges, model.accesses) = (None, None);
        let (a, b) = (0.01, 1.0);
        let curve = Accesses::Cumulative { a, b };
        model.own[Kind::Put as usize].accesses = Some(Own { curve, first: 0.0 });
        let [gets, puts] =
            [Kind::Get, Kind::Put].map(|kind| expected(&model, kind, 1000.0).unwrap());
        let named = 1.0 - (-1.0_f64).exp();
        assert!((gets.keys - 1000.0 * named).abs() < 1e-6, "{gets:?}");
        assert!((gets.once - (1.0 - named) / named).abs() < 1e-9, "{gets:?}");
        assert!(
            (puts.keys - 100.0).abs() < 0.01 && (puts.mean - 10.0).abs() < 0.01,
            "{puts:?}"
        );
        assert!((puts.at_least_10 - above(9, 10.0)).abs() < 1e-3, "{puts:?}");
        assert_eq!(expected(&model, Kind::Scan, 0.0), None);
    }
}
