//! YCSB's sizes and lengths, as the study set them (its section 7.1): values of one size, the
//! model's average, and scans whose lengths follow Zipf's law.
//!
//! The study does not print the longest scan. Here it is the one that gives the lengths the model's
//! mean, so that scans return the same number of pairs on average.

use clap::ValueEnum;
use evendb_model::Workload;
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

    /// The workload that an allocation draws from. Each keyspace has its own average.
    pub(super) fn of(self, workload: &Workload, allocation: Allocation) -> Workload {
        let mut own = workload.clone();
        if self == Self::Mean && allocation.is_ycsb() {
            for keyspace in &mut own.keyspaces {
                let load = &mut keyspace.load;
                load.values.sizes = Sizes::constant(load.values.sizes.mean().round() as u64);
                let scans = load.scans.take();
                load.scans = scans.map(|scans| zipf_of_mean(scans.mean()));
            }
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
    use evendb_model::{Model, presets};

    #[test]
    fn only_ycsbs_distributions_have_the_mean_size_and_the_same_mean_length() {
        let workload = presets::workload("zippydb").unwrap();
        let model = &workload.keyspaces[0].load;
        let mut own = YcsbSizes::Mean.of(&workload, Allocation::Zipfian);
        let own = own.keyspaces.remove(0).load;
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
            assert_eq!(sizes.of(&workload, allocation), workload);
        }
    }

    #[test]
    fn each_keyspace_has_its_own_mean_size_and_length() {
        let workload = presets::workload("udb").unwrap();
        let own = YcsbSizes::Mean.of(&workload, Allocation::Uniform);
        assert_eq!(own.keyspaces.len(), 6);
        for (own, of) in own.keyspaces.iter().zip(&workload.keyspaces) {
            let mean = of.load.values.sizes.mean();
            let right = Sizes::constant(mean.round() as u64);
            assert_eq!((&own.name, own.share), (&of.name, of.share));
            assert_eq!(own.load.values.sizes, right, "{}", own.name);
            let mean = |load: &Model| load.scans.as_ref().map(Sizes::mean);
            match (mean(&own.load), mean(&of.load)) {
                (Some(own), Some(of)) => assert!((own / of - 1.0).abs() < 0.2, "{own} {of}"),
                (own, of) => assert_eq!(own, of),
            }
        }
    }
}
