//! YCSB's sizes and lengths, as the study set them (its section 7.1): values of one size, the
//! model's average, and scans whose lengths follow Zipf's law.
//!
//! The study does not print the longest scan. Here it is the one that gives the lengths the model's
//! mean, so that scans return the same number of pairs on average.

use clap::ValueEnum;
use evendb_model::Model;
use evendb_model::sizes::{Sizes, Spread};

use crate::distribution::THETA_DEFAULT;
use crate::mixgraph::allocation::Allocation;

/// The sizes of values and the lengths of scans in YCSB's distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum YcsbSizes {
    /// The model's, as in the other allocations: only the places of hot pairs differ
    #[default]
    Model,
    /// As the study had it: values of the average size, scans by Zipf's law with the same mean
    Mean,
}

impl YcsbSizes {
    /// The name in settings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Mean => "mean",
        }
    }

    /// The model that an allocation draws from.
    pub(super) fn of(self, model: &Model, allocation: Allocation) -> Model {
        let mut own = model.clone();
        if self == Self::Mean && allocation.is_ycsb() {
            own.values.sizes = Sizes::constant(model.values.sizes.mean().round() as u64);
            own.scans = model.scans.as_ref().map(|scans| zipf_of_mean(scans.mean()));
        }
        own
    }
}

/// Lengths from 1 on by Zipf's law, up to the longest that gives them this mean.
fn zipf_of_mean(mean: f64) -> Sizes {
    let weight = |length: u64| (length as f64).powf(-THETA_DEFAULT);
    let (mut longest, mut weights, mut records) = (0, 0.0, 0.0);
    while longest == 0 || records / weights < mean {
        longest += 1;
        weights += weight(longest);
        records += weight(longest) * longest as f64;
    }
    let bars = (1..=longest).map(|length| (length, weight(length) / weights));
    Sizes {
        spread: Spread::Histogram(bars.collect()),
        least: 1,
        most: longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb_model::presets;

    #[test]
    fn only_ycsbs_distributions_have_the_mean_size_and_the_same_mean_length() {
        let model = presets::named("zippydb").unwrap();
        let own = YcsbSizes::Mean.of(&model, Allocation::Zipfian);
        // The formula's mean is 34.5; no value has less than a byte, which makes it a little more.
        assert_eq!(own.values.sizes, Sizes::constant(35));
        assert_eq!(own.values.loaded, model.values.loaded);
        let lengths = own.scans.unwrap();
        let mean = model.scans.as_ref().unwrap().mean();
        assert!((lengths.mean() / mean - 1.0).abs() < 0.01, "{mean}");
        // Zipf's law: twice the length has about half the share.
        let halved = lengths.share(100) / lengths.share(50);
        assert!((halved - 0.5f64.powf(THETA_DEFAULT)).abs() < 1e-9);
        for (sizes, allocation) in [
            (YcsbSizes::Mean, Allocation::PrefixDist),
            (YcsbSizes::Mean, Allocation::AllRandom),
            (YcsbSizes::Model, Allocation::Zipfian),
        ] {
            let own = sizes.of(&model, allocation);
            assert_eq!(own.to_toml().unwrap(), model.to_toml().unwrap());
        }
    }
}
