//! The share of the accesses that the hottest part of a model's pairs has.
//!
//! Pairs of a range are gathered in steps whose width grows with the rank, so that the cost does
//! not depend on the number of pairs. All steps of all ranges are then sorted by the heat of a
//! pair.

use evendb_model::Model;
use evendb_model::model::Kind;

/// Steps for each doubling of the rank.
const STEPS: f64 = 8.0;
/// With more ranges, neighbours in the order of heat count as one.
const RANGES_MAX: usize = 2000;

/// The popularity of pairs, the hottest first: number of pairs, and their share of the accesses.
pub(super) struct Popularity {
    steps: Vec<(f64, f64)>,
    pairs: f64,
}

impl Popularity {
    /// That of the common curves of a model.
    pub(super) fn of(model: &Model) -> Option<Popularity> {
        let shares = match model.ranges_of(Kind::Get) {
            Some(ranges) => ranges.shares()?,
            None => vec![1.0],
        };
        let width = shares.len().div_ceil(RANGES_MAX);
        let among = (model.pairs / shares.len() as u64).max(1);
        let accesses = model.accesses_of(Kind::Get);
        let touched = accesses.map_or(1.0, |accesses| accesses.touched(model.pairs));
        let mut within = Vec::new();
        let (mut rank, mut below) = (0, 0.0);
        while rank < among {
            let next = (rank as f64 * 2_f64.powf(STEPS.recip())).ceil() as u64;
            let next = next.clamp(rank + 1, among);
            let up_to = match accesses {
                Some(accesses) => accesses.share_below(next, among, touched),
                None => next as f64 / among as f64,
            };
            within.push(((next - rank) as f64, up_to - below));
            (rank, below) = (next, up_to);
        }
        let mut steps = Vec::new();
        for shares in shares.chunks(width) {
            let (count, sum) = (shares.len() as f64, shares.iter().sum::<f64>());
            steps.extend(
                within
                    .iter()
                    .map(|(pairs, share)| (pairs * count, share * sum)),
            );
        }
        steps.sort_by(|one, other| (other.1 / other.0).total_cmp(&(one.1 / one.0)));
        let pairs = steps.iter().map(|(pairs, _)| pairs).sum();
        Some(Popularity { steps, pairs })
    }

    /// The share of the accesses that this share of the pairs has, the hottest ones.
    pub(super) fn of_hottest(&self, part: f64) -> f64 {
        let (mut left, mut share) = (part * self.pairs, 0.0);
        for (pairs, of_them) in &self.steps {
            if left <= *pairs {
                return share + of_them * left / pairs;
            }
            (left, share) = (left - pairs, share + of_them);
        }
        share
    }
}
