//! Where hot pairs lie: the study's four allocations, and YCSB's request distributions over the
//! same key space.
//!
//! | name | ranges | pairs in them |
//! |---|---|---|
//! | prefix-dist | hot and cold by the model, scattered | hot by the model, hot ones side by side |
//! | prefix-random | as prefix-dist | hot by the model, scattered in their range |
//! | prefix-uniform | as prefix-dist | all alike |
//! | all-dist | one | hot by the model, hot ones side by side |
//! | all-random | one | hot by the model, scattered |
//! | uniform | one | all alike |
//! | zipfian | one | Zipf 0.99, scattered |
//! | hotspot | one | a fifth of the pairs, scattered, has four fifths of the operations |
//! | exponential | one | 95 % of the operations on 85.7 % of the pairs, exponentially, scattered |
//!
//! The first four follow the description in section 7.2 of the study: they differ only in where hot
//! pairs lie. The commands of its appendix leave parameters out instead: there Prefix_random is
//! prefix-uniform, and All_random is uniform. The last four are YCSB's with its defaults; it hashes
//! keys, so hot pairs are scattered.
//!
//! A kind that has hot ranges or pairs of its own has them in the first five allocations; in YCSB's
//! all kinds are alike. Its ranks go over the same places as those of the other kinds, but begin
//! elsewhere:
//!
//! ```text
//!   heat of a range, + first, modulo ranges --places--> place of the range
//!   rank of a pair,  + first, modulo pairs  --scattered or not--> place in the range
//! ```

use std::sync::Arc;

use evendb_model::Model;
use evendb_model::access::{Accesses, Ranges, first_of};
use evendb_model::model::Kind;

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

    /// Whether it is a request distribution of YCSB.
    #[must_use]
    pub fn is_ycsb(self) -> bool {
        matches!(
            self,
            Self::Uniform | Self::Zipfian | Self::Hotspot | Self::Exponential
        )
    }

    /// Whether it has the hot ranges of the model.
    #[must_use]
    pub fn has_ranges(self) -> bool {
        matches!(
            self,
            Self::PrefixDist | Self::PrefixRandom | Self::PrefixUniform
        )
    }

    /// Whether pairs of a range are as hot as the model says.
    fn has_hot_pairs(self) -> bool {
        matches!(
            self,
            Self::PrefixDist | Self::PrefixRandom | Self::AllDist | Self::AllRandom
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
    /// The number of ranks over which heat falls by a factor of e.
    Exponential(f64),
}

/// Where hot pairs lie for some kinds.
struct Spots {
    /// For each range, the hottest first: the share of the operations of the ranges up to it.
    shares_up_to: Vec<f64>,
    /// The place of the hottest range in the common order of ranges.
    first_range: u64,
    within: Within,
    /// The place of a range's hottest pair in the common order of its pairs, as a share of them.
    first_pair: f64,
}

/// The pairs of a model, and the heat of each for each kind. Immutable.
pub struct KeySpace {
    pairs: u64,
    ranges: u64,
    /// The places of the ranges, in the common order.
    places: Permutation,
    /// Whether ranks are scattered within their range.
    scatters: bool,
    /// The common spots, and one for each kind that has something of its own.
    spots: Vec<Spots>,
    /// The place in `spots` for each kind, in the order of [`Kind::ALL`].
    of_kind: [usize; 5],
    seed: u64,
}

impl KeySpace {
    /// The key space of a model. (A model's file was checked when it was read: its curves have a
    /// share for each range.)
    #[must_use]
    pub fn new(model: &Model, allocation: Allocation, seed: u64) -> Self {
        let pairs = model.pairs;
        let ranges = model.ranges.as_ref().filter(|_| allocation.has_ranges());
        let ranges = ranges.map_or(1, |ranges| ranges.count);
        let ranges = if ranges <= pairs { ranges } else { 1 };
        let common = Spots {
            shares_up_to: up_to(model.ranges.as_ref().and_then(Ranges::shares), ranges),
            first_range: 0,
            within: within(model.accesses, pairs, allocation, seed),
            first_pair: 0.0,
        };
        let mut space = Self {
            pairs,
            ranges,
            places: Permutation::new(ranges, mix64(seed ^ 0x7261_6e67)),
            scatters: match allocation {
                Allocation::PrefixRandom | Allocation::AllRandom => model.accesses.is_some(),
                Allocation::Hotspot | Allocation::Exponential => true,
                _ => false,
            },
            spots: vec![common],
            of_kind: [0; 5],
            seed,
        };
        for kind in Kind::ALL {
            space.add_own(model, allocation, kind);
        }
        space
    }

    /// Adds what a kind has of its own, if anything.
    fn add_own(&mut self, model: &Model, allocation: Allocation, kind: Kind) {
        let own = &model.own[kind as usize];
        let own_ranges = own.ranges.as_ref().filter(|_| allocation.has_ranges());
        let own_pairs = own.accesses.as_ref().filter(|_| allocation.has_hot_pairs());
        if own_ranges.is_none() && own_pairs.is_none() {
            return;
        }
        self.of_kind[kind as usize] = self.spots.len();
        let shares = model.ranges_of(kind).and_then(|ranges| ranges.shares());
        self.spots.push(Spots {
            shares_up_to: up_to(shares, self.ranges),
            first_range: own_ranges.map_or(0, |own| own.first_of(self.ranges)),
            within: within(model.accesses_of(kind), self.pairs, allocation, self.seed),
            first_pair: own_pairs.map_or(0.0, |own| own.first),
        });
    }

    /// The number of pairs.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// The number of ranges.
    #[must_use]
    pub fn ranges(&self) -> u64 {
        self.ranges
    }

    /// The first pair of the range at a place, and its number of pairs.
    #[must_use]
    pub fn range_at(&self, place: u64) -> (u64, u64) {
        let border = |place: u64| {
            let border = u128::from(place) * u128::from(self.pairs) / u128::from(self.ranges);
            border as u64
        };
        (border(place), border(place + 1) - border(place))
    }

    /// The place of a range by its heat for a kind: 0 is the hottest.
    #[must_use]
    pub fn place_of(&self, kind: Kind, heat: u64) -> u64 {
        self.place(self.spots_of(kind), heat)
    }

    /// The pair of a rank in the range at a place: 0 is the pair that is hottest there for a kind.
    #[must_use]
    pub fn pair_of(&self, kind: Kind, place: u64, rank: u64) -> u64 {
        self.pair(self.spots_of(kind), place, self.range_at(place), rank)
    }

    /// Whether two kinds have the same hot ranges and pairs by this allocation.
    #[must_use]
    pub fn alike(&self, first: Kind, second: Kind) -> bool {
        self.of_kind[first as usize] == self.of_kind[second as usize]
    }

    /// One thread's draws.
    #[must_use]
    pub fn chooser(self: &Arc<Self>, random: Random) -> KeyChooser {
        let zipf = match &self.spots[0].within {
            Within::Zipfian(distribution) => Some(distribution.chooser(random.clone())),
            _ => None,
        };
        KeyChooser {
            space: Arc::clone(self),
            random,
            zipf,
        }
    }

    fn spots_of(&self, kind: Kind) -> &Spots {
        &self.spots[self.of_kind[kind as usize]]
    }

    fn place(&self, spots: &Spots, heat: u64) -> u64 {
        self.places
            .apply(turned(heat, spots.first_range, self.ranges))
    }

    fn pair(&self, spots: &Spots, place: u64, (first, among): (u64, u64), rank: u64) -> u64 {
        let rank = turned(rank, first_of(spots.first_pair, among), among);
        match self.scatters {
            false => first + rank,
            true => first + Permutation::new(among, mix64(self.seed) ^ place).apply(rank),
        }
    }

    fn draw(&self, kind: Kind, random: &mut Random) -> u64 {
        let spots = self.spots_of(kind);
        let unit = random.unit();
        let heat = spots.shares_up_to.partition_point(|up_to| *up_to <= unit);
        // If rounding leaves the last sum below 1, the rest belongs to the last range.
        let place = self.place(spots, (heat as u64).min(self.ranges - 1));
        let range = self.range_at(place);
        let rank = spots.within.rank(range.1, random);
        self.pair(spots, place, range, rank)
    }
}

/// The place `by` places after `number`. The first place follows the last one.
fn turned(number: u64, by: u64, among: u64) -> u64 {
    match number + by {
        turned if turned < among => turned,
        over => over - among,
    }
}

/// For each range, the sum of the shares up to it. Without shares, all ranges are alike.
fn up_to(shares: Option<Vec<f64>>, ranges: u64) -> Vec<f64> {
    let shares = shares.filter(|shares| shares.len() as u64 == ranges);
    let mut sum = 0.0;
    let add = |share: f64| {
        sum += share;
        sum
    };
    shares
        .unwrap_or_else(|| vec![1.0 / ranges as f64; ranges as usize])
        .into_iter()
        .map(add)
        .collect()
}

fn within(accesses: Option<Accesses>, pairs: u64, allocation: Allocation, seed: u64) -> Within {
    match allocation {
        Allocation::Uniform | Allocation::PrefixUniform => Within::Alike,
        Allocation::Zipfian => {
            let kind = DistributionKind::ZipfSimple;
            let zipf = Distribution::new(kind, pairs, THETA_DEFAULT, seed);
            Within::Zipfian(Arc::new(zipf))
        }
        Allocation::Hotspot => Within::Hotspot,
        Allocation::Exponential => {
            let (operations, share) = EXPONENTIAL;
            Within::Exponential(-(share * pairs as f64) / (1.0 - operations).ln())
        }
        _ => accesses.map_or(Within::Alike, |accesses| Within::Ranked {
            accesses,
            touched: accesses.touched(pairs),
        }),
    }
}

impl Within {
    fn rank(&self, among: u64, random: &mut Random) -> u64 {
        match self {
            Self::Ranked { accesses, touched } => accesses.rank(random.unit(), among, *touched),
            Self::Alike | Self::Zipfian(_) => random.below(among),
            Self::Hotspot => {
                let (share, operations) = HOTSPOT;
                let hot = ((among as f64 * share) as u64).clamp(1, among);
                match random.unit() < operations || hot == among {
                    true => random.below(hot),
                    false => hot + random.below(among - hot),
                }
            }
            Self::Exponential(falls_in) => loop {
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
    /// The pair of the next operation, which is of this kind.
    pub fn pair(&mut self, kind: Kind) -> u64 {
        match &mut self.zipf {
            Some(zipf) => zipf.next(self.space.pairs),
            None => self.space.draw(kind, &mut self.random),
        }
    }
}
