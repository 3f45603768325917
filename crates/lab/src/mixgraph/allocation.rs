//! Where hot pairs lie: the study's four allocations, and YCSB's request distributions over the same key space.
//!
//! | name | ranges | pairs in them |
//! |---|---|---|
//! | prefix-dist | hot and cold as the model says, scattered | as hot as the model says, hot ones side by side |
//! | prefix-random | the same | as hot as the model says, scattered in their range |
//! | prefix-uniform | the same | all alike |
//! | all-dist | one | as hot as the model says, hot ones side by side |
//! | all-random | one | as hot as the model says, scattered |
//! | uniform | one | all alike |
//! | zipfian | one | Zipf 0.99, scattered |
//! | hotspot | one | a fifth of the pairs, scattered, has four fifths of the operations |
//! | exponential | one | 95 % of the operations go to the hottest 85.7 %, exponentially, scattered |
//!
//! The first four are as section 7.2 of the study describes them: they differ in where hot pairs lie and in nothing else. The
//! commands of its appendix leave parameters out instead: there Prefix_random is prefix-uniform, and All_random is uniform. The
//! last four are YCSB's with its defaults; it hashes keys, so hot pairs are scattered.

use std::sync::Arc;

use evendb_model::Model;
use evendb_model::access::Accesses;

use crate::distribution::{Chooser, Distribution, DistributionKind, THETA_DEFAULT};
use crate::permutation::Permutation;
use crate::random::{Random, mix64};

/// Where hot pairs lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Allocation {
    /// Hot ranges, in each of them hot pairs side by side
    PrefixDist,
    /// Hot ranges, in each of them hot pairs scattered
    PrefixRandom,
    /// Hot ranges, in each of them all pairs alike
    PrefixUniform,
    /// Hot pairs side by side in the whole key space
    AllDist,
    /// Hot pairs scattered over the whole key space
    AllRandom,
    /// YCSB: all pairs alike
    Uniform,
    /// YCSB: Zipf 0.99, scattered
    Zipfian,
    /// YCSB: a fifth of the pairs has four fifths of the operations
    Hotspot,
    /// YCSB: exponential, scattered
    Exponential,
}

impl Allocation {
    /// The eight benchmarks of the study's figure 14, in its order.
    pub const FIGURE_14: [Self; 8] = [
        Self::Uniform,
        Self::Zipfian,
        Self::Hotspot,
        Self::Exponential,
        Self::AllRandom,
        Self::AllDist,
        Self::PrefixRandom,
        Self::PrefixDist,
    ];

    /// The name in arguments and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PrefixDist => "prefix-dist",
            Self::PrefixRandom => "prefix-random",
            Self::PrefixUniform => "prefix-uniform",
            Self::AllDist => "all-dist",
            Self::AllRandom => "all-random",
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Hotspot => "hotspot",
            Self::Exponential => "exponential",
        }
    }

    /// Whether it has the hot ranges of the model.
    #[must_use]
    pub fn has_ranges(self) -> bool {
        matches!(
            self,
            Self::PrefixDist | Self::PrefixRandom | Self::PrefixUniform
        )
    }
}

/// YCSB's hotspot: this share of the pairs is hot, and this share of the operations goes there.
const HOTSPOT: (f64, f64) = (0.2, 0.8);
/// YCSB's exponential: this share of the operations goes to this share of the pairs.
const EXPONENTIAL: (f64, f64) = (0.95, 0.857_142_857_1);

/// How a pair is drawn within a range.
enum Within {
    /// By the model's accesses.
    Ranked {
        accesses: Accesses,
        touched: f64,
    },
    Alike,
    Zipfian(Arc<Distribution>),
    Hotspot,
    /// Ranks fall by e in so many.
    Exponential(f64),
}

/// The pairs of a model, and how hot each is. Immutable.
pub struct KeySpace {
    pairs: u64,
    /// Up to each range, by how hot it is, the share of the operations.
    shares_up_to: Vec<f64>,
    /// Where the ranges lie, by how hot they are.
    places: Permutation,
    within: Within,
    /// Whether ranks are scattered within their range.
    scatters: bool,
    seed: u64,
}

impl KeySpace {
    /// The key space of a model. (A model's file was checked when it was read: its curve has a share for each range.)
    #[must_use]
    pub fn new(model: &Model, allocation: Allocation, seed: u64) -> Self {
        let pairs = model.pairs;
        let ranges = model.ranges.as_ref().filter(|_| allocation.has_ranges());
        let shares = ranges
            .and_then(|ranges| ranges.shares())
            .filter(|shares| shares.len() as u64 <= pairs)
            .unwrap_or_else(|| vec![1.0]);
        let mut sum = 0.0;
        let up_to = |share: &f64| {
            sum += share;
            sum
        };
        let within = match allocation {
            Allocation::Uniform | Allocation::PrefixUniform => Within::Alike,
            Allocation::Zipfian => {
                let kind = DistributionKind::ZipfSimple;
                Within::Zipfian(Arc::new(Distribution::new(
                    kind,
                    pairs,
                    THETA_DEFAULT,
                    seed,
                )))
            }
            Allocation::Hotspot => Within::Hotspot,
            Allocation::Exponential => {
                let (operations, share) = EXPONENTIAL;
                Within::Exponential(-(share * pairs as f64) / (1.0 - operations).ln())
            }
            _ => model
                .accesses
                .map_or(Within::Alike, |accesses| Within::Ranked {
                    accesses,
                    touched: accesses.touched(pairs),
                }),
        };
        let side_by_side = matches!(allocation, Allocation::PrefixDist | Allocation::AllDist);
        Self {
            pairs,
            places: Permutation::new(shares.len() as u64, mix64(seed ^ 0x7261_6e67)),
            shares_up_to: shares.iter().map(up_to).collect(),
            scatters: !side_by_side && !matches!(within, Within::Zipfian(_) | Within::Alike),
            within,
            seed,
        }
    }

    /// How many pairs there are.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// How many ranges there are.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.shares_up_to.len() as u64
    }

    /// The first pair of the range at a place, and how many pairs it has.
    #[must_use]
    pub fn range_at(&self, place: u64) -> (u64, u64) {
        let border = |place: u64| {
            let border = u128::from(place) * u128::from(self.pairs) / u128::from(self.ranges());
            border as u64
        };
        (border(place), border(place + 1) - border(place))
    }

    /// The place of a range, by how hot it is: 0 is the hottest.
    #[must_use]
    pub fn place_of(&self, heat: u64) -> u64 {
        self.places.apply(heat)
    }

    /// One thread's draws.
    #[must_use]
    pub fn chooser(self: &Arc<Self>, random: Random) -> KeyChooser {
        let zipf = match &self.within {
            Within::Zipfian(distribution) => Some(distribution.chooser(random.clone())),
            _ => None,
        };
        KeyChooser {
            space: Arc::clone(self),
            random,
            zipf,
        }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let heat = self.shares_up_to.partition_point(|up_to| *up_to <= unit);
        // What the last share misses of 1 by rounding is the last range's.
        let heat = (heat as u64).min(self.ranges() - 1);
        let place = self.place_of(heat);
        let (first, among) = self.range_at(place);
        let rank = self.rank(among, random);
        match self.scatters {
            false => first + rank,
            true => first + Permutation::new(among, mix64(self.seed) ^ place).apply(rank),
        }
    }

    fn rank(&self, among: u64, random: &mut Random) -> u64 {
        match &self.within {
            Within::Ranked { accesses, touched } => accesses.rank(random.unit(), among, *touched),
            Within::Alike | Within::Zipfian(_) => random.below(among),
            Within::Hotspot => {
                let (share, operations) = HOTSPOT;
                let hot = ((among as f64 * share) as u64).clamp(1, among);
                match random.unit() < operations || hot == among {
                    true => random.below(hot),
                    false => hot + random.below(among - hot),
                }
            }
            Within::Exponential(falls_in) => loop {
                let rank = (-(1.0 - random.unit()).ln() * falls_in) as u64;
                if rank < among {
                    return rank;
                }
            },
        }
    }
}

/// One thread's draws of pairs.
pub struct KeyChooser {
    space: Arc<KeySpace>,
    random: Random,
    zipf: Option<Chooser>,
}

impl KeyChooser {
    /// The pair of the next operation.
    pub fn pair(&mut self) -> u64 {
        match &mut self.zipf {
            Some(zipf) => zipf.next(self.space.pairs),
            None => self.space.draw(&mut self.random),
        }
    }
}
