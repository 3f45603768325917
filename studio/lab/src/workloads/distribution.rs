//! Which record an operation touches: the access distributions of the paper's section 5.3.1.
//!
//! * `zipf-simple`: Zipf ranks over a random permutation of all records.
//! * `zipf-composite`: the key space is cut into 2^14 equal ranges (the key's 14 most significant
//!   bits). The range is Zipf and scattered, the record in it uniform.
//! * `zipf-composite-contiguous`: as zipf-composite, but hot ranges lie side by side at the start
//!   of the key space.
//! * `zipf-composite-suffix`: as zipf-composite, but the record within the range is Zipf as well.
//! * `zipf-composite-scaled`: as zipf-composite, but each range holds 4,883 records, as it does
//!   with the paper's 80 million.
//! * `latest`: Zipf distance from the record that was inserted last.
//! * `uniform`: every record alike.
//!
//! With fewer records than 2^14, each range has one record.
//!
//! In the paper a range has 4 MB. A smaller data set can keep the number of ranges
//! (zipf-composite). Their size then shrinks in relation to a chunk and to the memory, which is the
//! harder form. Or it keeps their size (zipf-composite-scaled), and so the ratios of the paper.
//!
//! A [`Distribution`] is immutable and shared; a [`Chooser`] belongs to one thread.

use std::fmt;
use std::str::FromStr;

use crate::permutation::Permutation;
use crate::random::Random;
use crate::zipf::Zipf;

/// The skew of YCSB and of nearly all experiments of the paper.
pub const THETA_DEFAULT: f64 = 0.99;

/// The number of most significant bits that make up the primary attribute of composite
/// distributions.
pub const COMPOSITE_PREFIX_BITS: u32 = 14;

/// Records in a range of the paper's largest data set: 80 million records of 800 bytes in 2^14
/// ranges.
const PAPER_RANGE_RECORDS: u64 = 80_000_000 >> COMPOSITE_PREFIX_BITS;

/// A skew as a user gives it.
///
/// # Errors
/// The text is no number strictly between 0 and 1.
pub fn parse_theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if theta > 0.0 && theta < 1.0 => Ok(theta),
        _ => Err(format!("`{text}` does not lie between 0 and 1")),
    }
}

/// The kinds of access distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionKind {
    /// Zipf over a random permutation of the records.
    ZipfSimple,
    /// Zipf over scattered key ranges, uniform within.
    ZipfComposite,
    /// Zipf over key ranges with the hot ones side by side, uniform within.
    ZipfCompositeContiguous,
    /// Zipf over scattered key ranges, Zipf within.
    ZipfCompositeSuffix,
    /// Zipf over scattered key ranges that are as large as in the paper, uniform within.
    ZipfCompositeScaled,
    /// Skewed towards the records inserted last.
    Latest,
    /// Every record alike.
    Uniform,
}

impl DistributionKind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::ZipfSimple,
        Self::ZipfComposite,
        Self::ZipfCompositeContiguous,
        Self::ZipfCompositeSuffix,
        Self::ZipfCompositeScaled,
        Self::Latest,
        Self::Uniform,
    ];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ZipfSimple => "zipf-simple",
            Self::ZipfComposite => "zipf-composite",
            Self::ZipfCompositeContiguous => "zipf-composite-contiguous",
            Self::ZipfCompositeSuffix => "zipf-composite-suffix",
            Self::ZipfCompositeScaled => "zipf-composite-scaled",
            Self::Latest => "latest",
            Self::Uniform => "uniform",
        }
    }
}

impl fmt::Display for DistributionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DistributionKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("unknown distribution `{text}`; known are {names}")
            })
    }
}

/// A distribution over a number of records.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    kind: DistributionKind,
    records: u64,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Uniform,
    Latest(Zipf),
    Simple(Zipf, Permutation),
    Composite {
        prefix: Zipf,
        scatter: Option<Permutation>,
        suffix: Option<(Zipf, Permutation)>,
    },
}

impl Distribution {
    /// The distribution of this kind over `records` records.
    ///
    /// # Panics
    /// If there are no records, or `theta` is not strictly between 0 and 1.
    #[must_use]
    pub fn new(kind: DistributionKind, records: u64, theta: f64, seed: u64) -> Self {
        assert!(records > 0, "a distribution needs at least one record");
        let zipf = Zipf::new(records, theta);
        let paper_prefixes = records.min(1 << COMPOSITE_PREFIX_BITS);
        let composite = |prefixes: u64, contiguous: bool, zipf_suffix: bool| {
            let span = records / prefixes;
            Shape::Composite {
                prefix: Zipf::new(prefixes, theta),
                scatter: (!contiguous).then(|| Permutation::new(prefixes, seed)),
                suffix: zipf_suffix
                    .then(|| (Zipf::new(span, theta), Permutation::new(span, seed ^ 1))),
            }
        };
        let shape = match kind {
            DistributionKind::Uniform => Shape::Uniform,
            DistributionKind::Latest => Shape::Latest(zipf),
            DistributionKind::ZipfSimple => Shape::Simple(zipf, Permutation::new(records, seed)),
            DistributionKind::ZipfComposite => composite(paper_prefixes, false, false),
            DistributionKind::ZipfCompositeContiguous => composite(paper_prefixes, true, false),
            DistributionKind::ZipfCompositeSuffix => composite(paper_prefixes, false, true),
            DistributionKind::ZipfCompositeScaled => {
                composite((records / PAPER_RANGE_RECORDS).max(1), false, false)
            }
        };
        Self {
            kind,
            records,
            shape,
        }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> DistributionKind {
        self.kind
    }

    /// The records it was made for.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The expected share of operations that touch the `kept` most popular records. `None` for
    /// `latest`, whose popular records change, and for a Zipf suffix, whose records have no simple
    /// order of popularity.
    #[must_use]
    pub fn hottest_share(&self, kept: u64) -> Option<f64> {
        let kept = kept.min(self.records) as f64;
        match &self.shape {
            Shape::Uniform => Some(kept / self.records as f64),
            Shape::Simple(zipf, _) => Some(zipf.share_of(kept)),
            Shape::Composite {
                prefix,
                suffix: None,
                ..
            } => Some(prefix.share_of(kept * prefix.items() as f64 / self.records as f64)),
            Shape::Latest(_) | Shape::Composite { .. } => None,
        }
    }

    /// Visits each record once, in any order, with the expected share of operations that choose it.
    /// For `latest` this share changes, so there is no visit and the result is `None`.
    pub fn for_each(&self, mut visit: impl FnMut(u64, f64)) -> Option<()> {
        let records = self.records;
        match &self.shape {
            Shape::Latest(_) => return None,
            Shape::Uniform => (0..records).for_each(|record| visit(record, 1.0 / records as f64)),
            Shape::Simple(zipf, scatter) => {
                (0..records).for_each(|rank| visit(scatter.apply(rank), zipf.share(rank)));
            }
            Shape::Composite {
                prefix,
                scatter,
                suffix,
            } => {
                for rank in 0..prefix.items() {
                    let range = scatter.map_or(rank, |permutation| permutation.apply(rank));
                    let start = range_start(range, prefix.items(), records);
                    let end = range_start(range + 1, prefix.items(), records);
                    let share = prefix.share(rank);
                    match suffix {
                        None => (start..end)
                            .for_each(|record| visit(record, share / (end - start) as f64)),
                        Some((zipf, within)) => (0..zipf.items()).for_each(|rank| {
                            visit(start + within.apply(rank), share * zipf.share(rank));
                        }),
                    }
                }
            }
        }
        Some(())
    }

    /// A chooser for one thread.
    #[must_use]
    pub fn chooser(&self, random: Random) -> Chooser {
        Chooser {
            distribution: *self,
            random,
        }
    }

    /// The expected share of operations that touch the record with the highest share.
    #[must_use]
    pub fn top_frequency(&self) -> f64 {
        match &self.shape {
            Shape::Uniform => 1.0 / self.records as f64,
            Shape::Latest(zipf) | Shape::Simple(zipf, _) => zipf.top_frequency(),
            Shape::Composite { prefix, suffix, .. } => {
                let span = (self.records / prefix.items()) as f64;
                let within = suffix.map_or(1.0 / span, |(zipf, _)| zipf.top_frequency());
                prefix.top_frequency() * within
            }
        }
    }
}

/// Draws records for one thread.
#[derive(Clone, Debug)]
pub struct Chooser {
    distribution: Distribution,
    random: Random,
}

impl Chooser {
    /// The next record. `present` is the number of records that certainly exist. Only `latest` uses
    /// it; the other distributions keep to the records that they were made for.
    pub fn next(&mut self, present: u64) -> u64 {
        let records = self.distribution.records;
        let random = &mut self.random;
        match &mut self.distribution.shape {
            Shape::Uniform => random.below(records),
            Shape::Latest(zipf) => {
                zipf.resize(present);
                let newest = zipf.items() - 1;
                newest - zipf.rank(random.unit())
            }
            Shape::Simple(zipf, scatter) => scatter.apply(zipf.rank(random.unit())),
            Shape::Composite {
                prefix,
                scatter,
                suffix,
            } => {
                let rank = prefix.rank(random.unit());
                let range = scatter.map_or(rank, |permutation| permutation.apply(rank));
                let start = range_start(range, prefix.items(), records);
                let end = range_start(range + 1, prefix.items(), records);
                match suffix {
                    Some((zipf, within)) => start + within.apply(zipf.rank(random.unit())),
                    None => start + random.below(end - start),
                }
            }
        }
    }

    /// The random numbers of the thread, for further choices.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

/// The first record of the `range`-th of `ranges` nearly equal ranges.
fn range_start(range: u64, ranges: u64, records: u64) -> u64 {
    (u128::from(range) * u128::from(records) / u128::from(ranges)) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const THETAS: [f64; 5] = [0.99, 0.95, 0.90, 0.85, 0.80];

    fn counts(kind: DistributionKind, records: u64, draws: u32) -> HashMap<u64, u32> {
        let distribution = Distribution::new(kind, records, THETA_DEFAULT, 5);
        let mut chooser = distribution.chooser(Random::new(11, 0));
        let mut counts = HashMap::new();
        for _ in 0..draws {
            *counts.entry(chooser.next(records)).or_default() += 1;
        }
        counts
    }

    /// Table 3's first row belongs to 80 million records: 64 GB of 800-byte values.
    #[test]
    fn zipf_simple_has_the_frequencies_of_the_papers_table_3() {
        for (theta, percent) in THETAS.into_iter().zip([4.87, 3.30, 1.91, 1.04, 0.54]) {
            let ours = Distribution::new(DistributionKind::ZipfSimple, 80_000_000, theta, 1)
                .top_frequency();
            assert!(
                (ours * 100.0 - percent).abs() < 0.006,
                "{theta}: {ours} {percent}"
            );
        }
    }

    /// Table 3's second row (0.013, 0.012, 0.010, 0.009, 0.008 %) does not follow from the text's
    /// own parameters. 14 bits of 80 million keys leave 4,883 keys to a prefix, which makes 0.0019
    /// % at 0.99. The printed ratio of the ends, 1.6, needs between 68 and 404 prefixes; 2^14
    /// prefixes have a ratio of 2.8. We keep to the text, and to what it gives.
    #[test]
    fn zipf_composite_keeps_to_the_papers_text() {
        for (theta, percent) in THETAS
            .into_iter()
            .zip([0.00190, 0.00157, 0.00121, 0.00091, 0.00067])
        {
            let ours = Distribution::new(DistributionKind::ZipfComposite, 80_000_000, theta, 1)
                .top_frequency();
            assert!(
                (ours * 100.0 - percent).abs() < 0.00001,
                "{theta}: {ours} {percent}"
            );
        }
        let row = [0.013, 0.012, 0.010, 0.009, 0.008];
        let fits = |prefixes: u64| {
            let keys = THETAS.map(|theta| 100.0 / crate::zipf::zeta(prefixes, theta));
            let low = keys
                .iter()
                .zip(row)
                .map(|(key, cell)| key / (cell + 0.0005));
            let high = keys
                .iter()
                .zip(row)
                .map(|(key, cell)| key / (cell - 0.0005));
            low.fold(0.0, f64::max) <= high.fold(f64::MAX, f64::min)
        };
        assert!(fits(68) && fits(404) && !fits(1 << 14));
    }

    #[test]
    fn sampled_top_frequency_is_the_computed_one() {
        for kind in [
            DistributionKind::ZipfSimple,
            DistributionKind::ZipfCompositeSuffix,
        ] {
            let records = 1 << 20;
            let expected = Distribution::new(kind, records, THETA_DEFAULT, 5).top_frequency();
            let draws = 400_000;
            let top = counts(kind, records, draws).into_values().max().unwrap();
            let sampled = f64::from(top) / f64::from(draws);
            assert!(
                (sampled / expected - 1.0).abs() < 0.06,
                "{kind}: {sampled} {expected}"
            );
        }
    }

    #[test]
    fn composite_heats_whole_ranges_and_contiguous_puts_them_side_by_side() {
        let records = 1 << 20;
        let span = records >> COMPOSITE_PREFIX_BITS;
        for kind in [
            DistributionKind::ZipfComposite,
            DistributionKind::ZipfCompositeContiguous,
        ] {
            let mut ranges: HashMap<u64, u32> = HashMap::new();
            for (record, count) in counts(kind, records, 300_000) {
                *ranges.entry(record / span).or_default() += count;
            }
            let mut hottest: Vec<_> = ranges.into_iter().collect();
            hottest.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            let share = f64::from(hottest[0].1) / 300_000.0;
            assert!((share - 0.0929).abs() < 0.003, "{kind}: {share}");
            let first_five = hottest[..5].iter().all(|&(range, _)| range < 6);
            assert_eq!(
                first_five,
                kind == DistributionKind::ZipfCompositeContiguous
            );
        }
    }

    #[test]
    fn scaled_ranges_are_as_large_as_the_papers() {
        let records = 32 * PAPER_RANGE_RECORDS;
        let mut ranges: HashMap<u64, u32> = HashMap::new();
        for (record, count) in counts(DistributionKind::ZipfCompositeScaled, records, 200_000) {
            *ranges.entry(record / PAPER_RANGE_RECORDS).or_default() += count;
        }
        assert_eq!(ranges.len(), 32);
        let hottest = f64::from(ranges.into_values().max().unwrap()) / 200_000.0;
        let expected = 1.0 / crate::zipf::zeta(32, THETA_DEFAULT);
        assert!(
            (hottest / expected - 1.0).abs() < 0.03,
            "{hottest} {expected}"
        );
        // With the paper's data both forms are the same.
        let top =
            |kind, records| Distribution::new(kind, records, THETA_DEFAULT, 5).top_frequency();
        let [scaled, fixed] = [
            DistributionKind::ZipfCompositeScaled,
            DistributionKind::ZipfComposite,
        ]
        .map(|kind| top(kind, 80_000_000));
        assert!((scaled / fixed - 1.0).abs() < 0.001, "{scaled} {fixed}");
    }

    #[test]
    fn every_distribution_stays_in_range_for_awkward_sizes() {
        for kind in DistributionKind::ALL {
            for records in [1, 2, 3, 100, 16_383, 16_384, 16_385, 40_000] {
                let drawn = counts(kind, records, 3000);
                assert!(
                    drawn.keys().all(|&record| record < records),
                    "{kind} {records}"
                );
            }
        }
    }

    #[test]
    fn shares_are_of_all_records_and_the_hottest_have_the_most() {
        for kind in DistributionKind::ALL {
            for records in [1, 100, 16_385, 40_000] {
                let distribution = Distribution::new(kind, records, THETA_DEFAULT, 5);
                let mut shares = vec![0.0; records as usize];
                let visited =
                    distribution.for_each(|record, share| shares[record as usize] += share);
                assert_eq!(visited.is_none(), kind == DistributionKind::Latest);
                let sum: f64 = shares.iter().sum();
                assert!(
                    visited.is_none() || (sum - 1.0).abs() < 1e-6,
                    "{kind} {records}: {sum}"
                );
                shares.sort_by(|a, b| b.total_cmp(a));
                for kept in [0, 1, records / 3, records] {
                    let hottest: f64 = shares[..kept as usize].iter().sum();
                    let told = distribution.hottest_share(kept);
                    // Ranges of two or three records differ from each other.
                    let fits = told.is_none_or(|told| (told - hottest).abs() < 0.01);
                    assert!(fits, "{kind} {kept} of {records}: {told:?} {hottest}");
                }
            }
        }
    }

    #[test]
    fn latest_follows_the_insertions() {
        let distribution = Distribution::new(DistributionKind::Latest, 1000, THETA_DEFAULT, 5);
        let mut chooser = distribution.chooser(Random::new(1, 1));
        let newest = (0..10_000).filter(|_| chooser.next(5000) == 4999).count();
        let expected = 10_000.0 / crate::zipf::zeta(5000, THETA_DEFAULT);
        assert!(
            (newest as f64 / expected - 1.0).abs() < 0.1,
            "{newest} {expected}"
        );
    }

    #[test]
    fn uniform_is_even() {
        let drawn = counts(DistributionKind::Uniform, 100, 100_000);
        assert_eq!(drawn.len(), 100);
        assert!(drawn.values().all(|count| (850..1150).contains(count)));
    }

    #[test]
    fn names_read_back() {
        for kind in DistributionKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("zipf".parse::<DistributionKind>().is_err());
    }
}
