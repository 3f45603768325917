//! How often pairs are accessed: ranges of the key space, and the pairs within.
//!
//! ```text
//!   key space, sorted:  |  range 4  |  range 0  |  range 2  | ...   ranges lie anywhere
//!                            \ share of the accesses: curve(1 + number), made to add up to 1
//!                              range 0 is the hottest
//!   in a range:         [ rank 0, rank 1, ... ]                     0 is the hottest pair
//!                            \ share of the range's accesses: `Accesses`
//! ```
//! The study takes the average number of pairs in a table file as the size of a range: then pairs
//! that are hot together lie in the same blocks and files. [`Ranges::count_for`] does so.
//!
//! There are two descriptions of the accesses of pairs. *Cumulative*: the hottest x pairs together
//! have the share `a x^b` of all accesses. This is the meaning of the study's numbers (a = 0.002312
//! and b = 0.3467 reach 1 at 40 of its 50 million pairs: the others are not accessed). *By rank*:
//! the x-th hottest pair is accessed in proportion to `x^b`, with b below 0.
//!
//! A kind of operation may have a curve of its own for either, [`Own`]. Ranges are the same for all
//! kinds, but kinds may differ in which ranges are hot, and in which pairs of a range are hot.
//!
//! ```text
//!   pairs of a range, in the common order:   [ 0, 1, 2, ..., n/2, ..., n-1 ]
//!   ranks of a kind with first = 0.5:          n/2 ...  n-1  0 ... n/2-1
//!                                              the same order, begun elsewhere
//! ```
//! So each order goes over all pairs once, and the distance between a kind's hot pairs and the
//! common ones is one number.

use crate::curve::Curve;

/// The highest number of ranges of a model.
pub const RANGES_MAX: u64 = 1 << 24;

/// How hot ranges of the key space are.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// The number of parts of equal size into which the key space is cut.
    pub count: u64,
    /// The heat of a range, by its number from 1 on.
    pub curve: Curve,
}

impl Ranges {
    /// The number of ranges, at least one, if each has the average number of pairs of a table file.
    #[must_use]
    pub fn count_for(pairs: u64, average_pairs_per_table: f64) -> u64 {
        let tables = (pairs as f64 / average_pairs_per_table.max(1.0)).round();
        (tables as u64).clamp(1, RANGES_MAX)
    }

    /// The share of accesses that goes to each range, the hottest numbered 0. `None` if the curve
    /// has no value for a range, a value below 0, or no value above 0.
    #[must_use]
    pub fn shares(&self) -> Option<Vec<f64>> {
        let heats: Vec<f64> = (1..=self.count)
            .map(|number| self.curve.value(number as f64))
            .collect();
        let sum: f64 = heats.iter().sum();
        let sound = heats.iter().all(|heat| heat.is_finite() && *heat >= 0.0);
        let sound = sound && sum.is_finite() && sum > 0.0;
        sound.then(|| heats.iter().map(|heat| heat / sum).collect())
    }
}

/// What one kind of operation has of its own, instead of what is common to all kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct Own<T> {
    /// Its heat, by number or rank.
    pub curve: T,
    /// The place of its hottest one in the common order, as a share of all places from 0 to 1. At 0
    /// the common hottest one is its own.
    pub first: f64,
}

impl<T> Own<T> {
    /// The place of its hottest one in the common order of `among` places.
    #[must_use]
    pub fn first_of(&self, among: u64) -> u64 {
        first_of(self.first, among)
    }
}

/// The place at this share of `among` places.
#[must_use]
pub fn first_of(share: f64, among: u64) -> u64 {
    ((share * among as f64) as u64).min(among.saturating_sub(1))
}

/// How often pairs are accessed in relation to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accesses {
    /// The hottest x of the model's pairs have the share `a x^b` together.
    Cumulative {
        /// Above 0.
        a: f64,
        /// Above 0 and at most 1.
        b: f64,
    },
    /// The x-th hottest pair is accessed in proportion to `x^b`.
    ByRank {
        /// At most 0 and at least -4.
        b: f64,
    },
}

impl Accesses {
    /// The same accesses on this share of the pairs. The accessed share of the pairs stays.
    #[must_use]
    pub fn scaled(self, share: f64) -> Self {
        match self {
            Self::Cumulative { a, b } => Self::Cumulative {
                a: a * share.powf(-b),
                b,
            },
            by_rank @ Self::ByRank { .. } => by_rank,
        }
    }

    /// The share of the pairs that is accessed at all, if the model has `pairs` pairs.
    #[must_use]
    pub fn touched(&self, pairs: u64) -> f64 {
        match self {
            Self::Cumulative { a, b } => (a.recip().powf(b.recip()) / pairs as f64).min(1.0),
            Self::ByRank { .. } => 1.0,
        }
    }

    /// The rank of an accessed pair among `among` pairs (0 is the hottest), for a `unit` that is
    /// drawn evenly from 0 to 1. `touched` is the result of [`Accesses::touched`] for the model.
    #[must_use]
    pub fn rank(&self, unit: f64, among: u64, touched: f64) -> u64 {
        let last = among.saturating_sub(1);
        let rank = match *self {
            Self::Cumulative { b, .. } => hot(among, touched) * unit.powf(b.recip()),
            Self::ByRank { b } => {
                let e = b + 1.0;
                let end = among as f64 + 1.0;
                match e.abs() < 1e-9 {
                    true => end.powf(unit) - 1.0,
                    false => (unit * (end.powf(e) - 1.0) + 1.0).powf(e.recip()) - 1.0,
                }
            }
        };
        (rank.max(0.0) as u64).min(last)
    }

    /// The share of accesses that the pairs with a lower rank than `rank` have together: the
    /// inverse of [`Accesses::rank`].
    #[must_use]
    pub fn share_below(&self, rank: u64, among: u64, touched: f64) -> f64 {
        self.share_up_to(rank as f64, among, touched)
    }

    /// The same, between whole ranks too.
    pub(crate) fn share_up_to(&self, rank: f64, among: u64, touched: f64) -> f64 {
        if rank >= among as f64 {
            return 1.0;
        }
        match *self {
            Self::Cumulative { b, .. } => (rank / hot(among, touched)).min(1.0).powf(b),
            Self::ByRank { b } => {
                let e = b + 1.0;
                let (begin, end) = (rank + 1.0, among as f64 + 1.0);
                match e.abs() < 1e-9 {
                    true => begin.ln() / end.ln(),
                    false => (begin.powf(e) - 1.0) / (end.powf(e) - 1.0),
                }
            }
        }
    }

    /// The number of pairs that have at least the share `heat` of the accesses each: the slope of
    /// [`Accesses::share_up_to`] falls to `heat` there.
    pub(crate) fn hotter_than(&self, heat: f64, among: u64, touched: f64) -> f64 {
        // The slope of a straight line does not fall. It is treated as one that falls a little.
        const STRAIGHT: f64 = -1e-9;
        let hot = hot(among, touched);
        let (whole, rank) = match *self {
            Self::Cumulative { b, .. } => {
                let falls = (b - 1.0).min(STRAIGHT).recip();
                (hot, hot * (heat * hot / b).powf(falls))
            }
            Self::ByRank { b } => {
                let e = b + 1.0;
                let end = among as f64 + 1.0;
                let sum = match e.abs() < 1e-9 {
                    true => end.ln(),
                    false => (end.powf(e) - 1.0) / e,
                };
                (
                    among as f64,
                    (heat * sum).powf(b.min(STRAIGHT).recip()) - 1.0,
                )
            }
        };
        rank.clamp(0.0, whole)
    }
}

/// The number of pairs that are accessed, among `among`: at least one.
pub(crate) fn hot(among: u64, touched: f64) -> f64 {
    (among as f64 * touched).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Shape;

    #[test]
    fn ranges_have_as_many_pairs_as_tables() {
        assert_eq!(Ranges::count_for(50_000_000, 1_666_666.7), 30);
        assert_eq!(Ranges::count_for(10, 1e9), 1);
        assert_eq!(Ranges::count_for(10, 0.0), 10);
    }

    #[test]
    fn shares_of_ranges_are_those_of_the_curve() {
        let curve = |p: [f64; 4]| Curve::new(Shape::TwoExponentials, p.to_vec()).unwrap();
        let study = curve([14.18, -2.917, 0.0164, -0.08082]);
        let shares = Ranges {
            count: 30,
            curve: study,
        }
        .shares()
        .unwrap();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // The hottest of the study's 30 ranges has more accesses than all others together, and the
        // rest falls slowly.
        assert!(
            shares[0] > 0.7 && shares[1] < 0.1 && shares[29] > 0.001,
            "{shares:?}"
        );
        let negative = curve([1.0, -1.0, -9.0, -0.1]);
        assert_eq!(
            Ranges {
                count: 30,
                curve: negative
            }
            .shares(),
            None
        );
    }

    #[test]
    fn the_studys_accesses_touch_four_of_five_pairs() {
        let study = Accesses::Cumulative {
            a: 0.002312,
            b: 0.3467,
        };
        let touched = study.touched(50_000_000);
        assert!((touched - 0.8).abs() < 0.02, "{touched}");
    }

    #[test]
    fn as_many_are_hotter_as_the_slope_says() {
        for b in [0.2, 0.5, 0.9] {
            let cumulative = Accesses::Cumulative { a: 0.01, b };
            let ranked = Accesses::ByRank { b: -b };
            for (accesses, touched) in [(cumulative, 0.5), (ranked, 1.0)] {
                for rank in [3.0, 40.0, 300.0] {
                    let share = |at: f64| accesses.share_up_to(at, 1000, touched);
                    let slope = (share(rank + 0.01) - share(rank - 0.01)) / 0.02;
                    let hotter = accesses.hotter_than(slope, 1000, touched);
                    assert!(
                        (hotter - rank).abs() < 0.01 * rank,
                        "{accesses:?} {rank} {hotter}"
                    );
                }
                assert!(accesses.hotter_than(1e9, 1000, touched) < 1e-9);
                assert_eq!(accesses.hotter_than(1e-30, 1000, touched), 1000.0 * touched);
            }
        }
        // All alike.
        let alike = Accesses::ByRank { b: 0.0 };
        assert_eq!(alike.hotter_than(0.5e-3, 1000, 1.0), 1000.0);
        assert_eq!(alike.hotter_than(2e-3, 1000, 1.0), 0.0);
    }

    #[test]
    fn ranks_follow_their_shares() {
        let all = [
            Accesses::Cumulative { a: 0.01, b: 0.5 },
            Accesses::Cumulative { a: 1.0, b: 1.0 },
            Accesses::ByRank { b: 0.0 },
            Accesses::ByRank { b: -0.5 },
            Accesses::ByRank { b: -1.0 },
            Accesses::ByRank { b: -1.5 },
        ];
        for accesses in all {
            let touched = accesses.touched(20_000);
            for among in [1, 2, 7, 1000] {
                let below = |rank| accesses.share_below(rank, among, touched);
                assert_eq!((below(0), below(among)), (0.0, 1.0));
                for rank in 0..among {
                    let (from, to) = (below(rank), below(rank + 1));
                    assert!(from <= to, "{accesses:?} {among} {rank}");
                    if to - from > 1e-9 {
                        let middle = (from + to) / 2.0;
                        assert_eq!(
                            accesses.rank(middle, among, touched),
                            rank,
                            "{accesses:?} {among}"
                        );
                    }
                }
                assert!(accesses.rank(1.0, among, touched) < among);
            }
        }
    }
}
