//! The spread that describes counted sizes.
//!
//! * **decides**: Akaike's criterion, `2 * parameters - 2 * log-likelihood`: the likelihood, with
//!   each parameter charged. The smallest is chosen.
//! * **told as well**: the log-likelihood itself, and the largest difference between the counted
//!   and the fitted share of sizes up to any size.
//!
//! The likelihood is that of whole numbers: size 7 has the share from 6.5 to 7.5. So sizes at the
//! lower end of the spread do no harm (a density would call them infinitely likely), and the draws
//! of [`Sizes::quantile`], which rounds, are described without a bias. It also knows limits:
//! lengths that were cut at 10,000 do not count as the whole spread. Probability-weighted moments
//! are not used: the study's scan lengths (k = 2.5) have no mean.

use std::fmt;

use crate::error::FitError;
use crate::simplex;
use crate::sizes::{Sizes, Spread};

/// The kinds that are fitted to counted sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// k and sigma, with theta given.
    GeneralizedPareto,
    /// Shape and scale.
    Weibull,
    /// The mean.
    Exponential,
}

impl Candidate {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GeneralizedPareto, Self::Weibull, Self::Exponential];

    fn parameters(self) -> usize {
        match self {
            Self::Exponential => 1,
            Self::GeneralizedPareto | Self::Weibull => 2,
        }
    }

    /// The spread with these numbers. A number that must be above 0 is given by its logarithm.
    fn spread(self, p: &[f64], theta: f64) -> Spread {
        match self {
            Self::GeneralizedPareto => Spread::GeneralizedPareto {
                k: p[0],
                sigma: p[1].exp(),
                theta,
            },
            Self::Weibull => Spread::Weibull {
                shape: p[0].exp(),
                scale: p[1].exp(),
            },
            Self::Exponential => Spread::Exponential { mean: p[0].exp() },
        }
    }

    /// Numbers to begin at, for sizes with this median above theta.
    fn starts(self, median: f64) -> Vec<Vec<f64>> {
        let scale = median.max(0.1);
        match self {
            // The scale that gives the median.
            Self::GeneralizedPareto => [-0.2f64, 0.1, 0.5, 1.5, 3.0, 6.0]
                .iter()
                .map(|k| vec![*k, (scale * k / (k * 2f64.ln()).exp_m1()).ln()])
                .collect(),
            Self::Weibull => [0.3f64, 0.7, 1.5, 4.0]
                .iter()
                .map(|shape| vec![shape.ln(), scale.ln() - 2f64.ln().ln() / shape])
                .collect(),
            Self::Exponential => vec![vec![(scale / 2f64.ln()).ln()]],
        }
    }
}

/// What is known of sizes before they are fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The beginning of the generalized Pareto spread. The study has 0.
    pub theta: f64,
    /// The least size that could have been counted.
    pub least: u64,
    /// The largest size that could have been counted.
    pub most: u64,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            theta: 0.0,
            least: 0,
            most: u64::MAX >> 12,
        }
    }
}

/// A spread and how well it describes what was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeFit {
    /// The spread and the limits that were known.
    pub sizes: Sizes,
    /// The logarithm of the likelihood of all counted sizes.
    pub log_likelihood: f64,
    /// Akaike's criterion; the smallest is best.
    pub criterion: f64,
    /// The largest difference of the shares of sizes up to any size.
    pub distance: f64,
}

/// The fits of all candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeFits {
    /// The chosen one.
    pub best: SizeFit,
    /// All, the best first.
    pub all: Vec<SizeFit>,
}

/// Counts equal sizes, in the form that [`choose`] takes.
#[must_use]
pub fn counted(sizes: &[u64]) -> Vec<(u64, u64)> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len() as u64)).collect()
}

/// Fits one kind to pairs of size and count.
///
/// # Errors
/// There is nothing, or too little, or all sizes are equal, or a size lies outside of the known
/// limits.
pub fn fit(pairs: &[(u64, u64)], candidate: Candidate, known: Known) -> Result<SizeFit, FitError> {
    let pairs = checked(pairs, candidate, known)?;
    let median = quantile_of(&pairs, 0.5) as f64 - known.theta.max(0.0);
    let limited = |p: &[f64]| Sizes {
        spread: candidate.spread(p, known.theta),
        least: known.least,
        most: known.most,
    };
    let unlikely = |p: &[f64]| -log_likelihood(&pairs, &limited(p));
    let mut starts: Vec<(f64, Vec<f64>)> = candidate
        .starts(median)
        .into_iter()
        .map(|start| (unlikely(&start), start))
        .filter(|(unlikely, _)| unlikely.is_finite())
        .collect();
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    starts.truncate(2);
    let ends = starts
        .iter()
        .map(|(_, start)| simplex::least(start, 0.3, &unlikely));
    let (parameters, unlikely) = ends
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|end| end.1.is_finite() && end.1 < f64::MAX)
        .ok_or(FitError::NotConverged)?;
    let sizes = limited(&parameters);
    Ok(SizeFit {
        distance: distance(&pairs, &sizes),
        sizes,
        log_likelihood: -unlikely,
        criterion: 2.0 * (candidate.parameters() as f64 + unlikely),
    })
}

/// Fits all candidates to pairs of size and count, and chooses.
///
/// # Errors
/// As [`fit`]. If no candidate fits, the reason of the first.
pub fn choose(
    pairs: &[(u64, u64)],
    candidates: &[Candidate],
    known: Known,
) -> Result<SizeFits, FitError> {
    let (mut all, mut refused) = (Vec::new(), None);
    for &candidate in candidates {
        match fit(pairs, candidate, known) {
            Ok(fitted) => all.push(fitted),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    all.sort_by(|a, b| a.criterion.total_cmp(&b.criterion));
    match all.first().cloned() {
        Some(best) => Ok(SizeFits { best, all }),
        None => Err(refused.unwrap_or(FitError::Empty)),
    }
}

/// The pairs in the order of sizes, without pairs whose count is 0.
fn checked(
    pairs: &[(u64, u64)],
    candidate: Candidate,
    known: Known,
) -> Result<Vec<(u64, u64)>, FitError> {
    let outside = |&(size, _): &(u64, u64)| {
        let too_low =
            candidate == Candidate::GeneralizedPareto && (size as f64) < known.theta - 0.5;
        too_low || size < known.least || size > known.most
    };
    if let Some(index) = pairs.iter().position(outside) {
        let rule = "sizes must lie within what is known of them";
        return Err(FitError::Outside { rule, index });
    }
    if !known.theta.is_finite() {
        return Err(FitError::NotFinite { index: 0 });
    }
    let mut sorted: Vec<_> = pairs.iter().copied().filter(|pair| pair.1 > 0).collect();
    sorted.sort_unstable();
    let count = sorted
        .iter()
        .fold(0u64, |sum, pair| sum.saturating_add(pair.1));
    if count == 0 {
        return Err(FitError::Empty);
    }
    let needed = candidate.parameters() + 1;
    if count < needed as u64 {
        let given = count as usize;
        return Err(FitError::TooFew { needed, given });
    }
    if sorted.iter().all(|pair| pair.0 == sorted[0].0) {
        return Err(FitError::AllEqual { what: "sizes" });
    }
    Ok(sorted)
}

fn total(pairs: &[(u64, u64)]) -> f64 {
    pairs.iter().map(|&(_, count)| count as f64).sum()
}

/// This share of the counted sizes lies below the result.
fn quantile_of(pairs: &[(u64, u64)], share: f64) -> u64 {
    let mut left = share * total(pairs);
    let place = pairs.iter().find(|&&(_, count)| {
        left -= count as f64;
        left < 0.0
    });
    place.or(pairs.last()).map_or(0, |&(size, _)| size)
}

fn log_likelihood(pairs: &[(u64, u64)], sizes: &Sizes) -> f64 {
    let of =
        |&(size, count): &(u64, u64)| count as f64 * sizes.share(size).max(f64::MIN_POSITIVE).ln();
    pairs.iter().map(of).sum()
}

fn distance(pairs: &[(u64, u64)], sizes: &Sizes) -> f64 {
    let (all, spread) = (total(pairs), &sizes.spread);
    let above = |x: f64| spread.above(x.clamp(sizes.least as f64 - 0.5, sizes.most as f64 + 0.5));
    let (low, high) = (above(f64::MIN), above(f64::MAX));
    let (mut counted, mut most) = (0.0, 0.0f64);
    for &(size, count) in pairs {
        let fitted = |x: f64| (low - above(x)) / (low - high);
        most = most.max((counted / all - fitted(size as f64 - 0.5)).abs());
        counted += count as f64;
        most = most.max((counted / all - fitted(size as f64 + 0.5)).abs());
    }
    most
}

impl fmt::Display for SizeFits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["log-likelihood", "criterion", "distance"];
        writeln!(
            f,
            "{:<20}{:>16}{:>16}{:>10}",
            "spread", heads[0], heads[1], heads[2]
        )?;
        for one in &self.all {
            let chosen = if one == &self.best { "  <- chosen" } else { "" };
            let (name, log, by) = (one.sizes.spread.name(), one.log_likelihood, one.criterion);
            writeln!(
                f,
                "{name:<20}{log:>16.1}{by:>16.1}{:>10.4}{chosen}",
                one.distance
            )?;
        }
        writeln!(
            f,
            "chosen by Akaike's criterion: {:?}",
            self.best.sizes.spread
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `draws` draws, evenly over all shares and then moved at random by up to `noise` of their
    /// size.
    fn drawn(sizes: &Sizes, draws: u32, noise: f64) -> Vec<(u64, u64)> {
        let random = |index: u32| {
            let z = (u64::from(index) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((z ^ (z >> 32)) >> 11) as f64 / (1u64 << 53) as f64
        };
        let draw = |index: u32| {
            let size = sizes.quantile(random(index)) as f64;
            let moved = size * (1.0 + noise * (2.0 * random(index + draws) - 1.0));
            (moved.round() as u64).clamp(sizes.least, sizes.most)
        };
        counted(&(0..draws).map(draw).collect::<Vec<_>>())
    }

    fn pareto(k: f64, sigma: f64, theta: f64, most: u64) -> Sizes {
        let spread = Spread::GeneralizedPareto { k, sigma, theta };
        let least = theta as u64;
        Sizes {
            spread,
            least,
            most,
        }
    }

    const MANY: u64 = 1 << 40;

    #[test]
    fn planted_paretos_come_back() {
        // The study's values and scan lengths, the lengths also cut; a spread with an end; one that
        // begins at 10.
        let cases = [
            pareto(0.2615, 25.45, 0.0, MANY),
            pareto(2.517, 14.236, 0.0, MANY),
            pareto(2.517, 14.236, 0.0, 10_000),
            pareto(-0.3, 60.0, 0.0, MANY),
            pareto(0.05, 38.0, 10.0, 200),
        ];
        for planted in cases {
            let Spread::GeneralizedPareto { k, sigma, theta } = planted.spread else {
                unreachable!("all are Paretos");
            };
            // The allowed error of k, and of sigma divided by its size, with this noise.
            for (noise, k_within, sigma_within) in
                [(0.0, 0.03, 0.03), (0.1, 0.05, 0.05), (0.3, 0.15, 0.1)]
            {
                let pairs = drawn(&planted, 100_000, noise);
                let known = Known {
                    theta,
                    least: planted.least,
                    most: planted.most,
                };
                let found = fit(&pairs, Candidate::GeneralizedPareto, known).unwrap();
                let Spread::GeneralizedPareto {
                    k: k_found,
                    sigma: sigma_found,
                    ..
                } = found.sizes.spread
                else {
                    unreachable!("a Pareto was asked for");
                };
                assert!(
                    (k_found - k).abs() < k_within,
                    "{planted:?} {noise}: {found:?}"
                );
                assert!(
                    (sigma_found / sigma - 1.0).abs() < sigma_within,
                    "{planted:?} {noise}: {found:?}"
                );
                assert!(found.distance < 0.01 + noise / 5.0, "{noise}: {found:?}");
            }
        }
    }

    #[test]
    fn other_spreads_come_back_and_are_chosen() {
        let known = Known::default();
        let limited = |spread| Sizes {
            spread,
            least: 0,
            most: known.most,
        };
        let (shape, scale, mean) = (1.7, 400.0, 90.0);
        for planted in [
            Spread::Weibull { shape, scale },
            Spread::Exponential { mean },
        ] {
            let pairs = drawn(&limited(planted.clone()), 50_000, 0.0);
            let found = choose(&pairs, &Candidate::ALL, known).unwrap();
            assert_eq!(found.best.sizes.spread.name(), planted.name(), "{found}");
            assert!(found.to_string().contains("<- chosen"));
            for x in [20.0, 100.0, 300.0] {
                let off = found.best.sizes.spread.above(x) - planted.above(x);
                assert!(off.abs() < 0.01, "{x}: {found}");
            }
        }
        let planted = pareto(0.2615, 25.45, 0.0, MANY);
        let found = choose(&drawn(&planted, 50_000, 0.0), &Candidate::ALL, known).unwrap();
        assert_eq!(
            found.best.sizes.spread.name(),
            "generalized-pareto",
            "{found}"
        );
    }

    #[test]
    fn a_cut_spread_is_not_taken_for_a_whole_one() {
        let pairs = drawn(&pareto(2.517, 14.236, 0.0, 1000), 50_000, 0.0);
        let known = |most| Known {
            most,
            ..Known::default()
        };
        let of = |most| fit(&pairs, Candidate::GeneralizedPareto, known(most)).unwrap();
        let k = |fitted: &SizeFit| match fitted.sizes.spread {
            Spread::GeneralizedPareto { k, .. } => k,
            _ => f64::NAN,
        };
        assert!((k(&of(1000)) - 2.517).abs() < 0.1);
        assert!(
            (k(&of(MANY)) - 2.517).abs() > 0.5,
            "the test sees no difference"
        );
    }

    #[test]
    fn degenerate_sizes_are_refused() {
        let all = |pairs: &[(u64, u64)]| choose(pairs, &Candidate::ALL, Known::default());
        assert_eq!(all(&[]).unwrap_err(), FitError::Empty);
        assert_eq!(all(&[(5, 0)]).unwrap_err(), FitError::Empty);
        let equal = FitError::AllEqual { what: "sizes" };
        assert_eq!(all(&[(5, 9)]).unwrap_err(), equal);
        let (needed, given) = (3, 1);
        assert_eq!(
            all(&[(5, 1)]).unwrap_err(),
            FitError::TooFew { needed, given }
        );
        let known = Known {
            theta: 10.0,
            ..Known::default()
        };
        let below = fit(&[(5, 1), (20, 9)], Candidate::GeneralizedPareto, known);
        assert!(matches!(below, Err(FitError::Outside { index: 0, .. })));
        let known = Known {
            theta: f64::NAN,
            ..Known::default()
        };
        let broken = fit(&[(5, 1), (20, 9)], Candidate::GeneralizedPareto, known);
        assert_eq!(broken, Err(FitError::NotFinite { index: 0 }));
        // Sizes from none to very many are fitted somehow, by finite numbers.
        let wide = all(&[(0, u64::MAX / 4), (1, 1), (1 << 50, 3)]).unwrap();
        assert!(wide.best.log_likelihood.is_finite(), "{wide}");
    }

    #[test]
    fn sizes_are_counted_in_order() {
        assert_eq!(counted(&[3, 1, 3, 3]), [(1, 1), (3, 3)]);
        assert_eq!(counted(&[]), []);
    }
}
