//! The spread of sizes: of keys, of values, and lengths of scans.
//!
//! | name | parameters | share of sizes up to x |
//! |---|---|---|
//! | constant | bytes (for scans: records) | all from there on |
//! | histogram | pairs of size and share | as they say |
//! | uniform | least and most | (x - least) / (most - least) |
//! | generalized-pareto | k, sigma, theta | 1 - (1 + k (x - theta) / sigma)^(-1 / k) |
//! | weibull | shape, scale | 1 - e^(-(x / scale)^shape) |
//! | exponential | mean | 1 - e^(-x / mean) |
//!
//! With k = 0, generalized-pareto is 1 - e^(-(x - theta) / sigma).
//!
//! Sizes are whole numbers: a draw is rounded to the nearest. Limits cut the spread, and the rest
//! is scaled to a whole again: no drawn size lies outside, and none is moved to another place (the
//! known tool wraps sizes by modulo).

/// A spread of sizes without limits.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// Always the same.
    Constant(u64),
    /// Sizes and their shares; the shares add up to 1.
    Histogram(Vec<(u64, f64)>),
    /// Each whole number within the limits alike.
    Uniform,
    /// Few large ones among many small ones.
    GeneralizedPareto {
        /// The shape: above 0 the tail is heavy, from 1 on without a mean.
        k: f64,
        /// The scale, above 0.
        sigma: f64,
        /// The least.
        theta: f64,
    },
    /// Around a scale.
    Weibull {
        /// Below 1 the tail is heavy.
        shape: f64,
        /// Above 0.
        scale: f64,
    },
    /// Without memory.
    Exponential {
        /// Above 0.
        mean: f64,
    },
}

impl Spread {
    /// The name in files and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Constant(_) => "constant",
            Self::Histogram(_) => "histogram",
            Self::Uniform => "uniform",
            Self::GeneralizedPareto { .. } => "generalized-pareto",
            Self::Weibull { .. } => "weibull",
            Self::Exponential { .. } => "exponential",
        }
    }

    /// The share of sizes above `x`, for the spreads that have a formula; 1 for the others. Small
    /// shares keep their digits here; `1 - share` would lose them.
    #[must_use]
    pub fn above(&self, x: f64) -> f64 {
        match *self {
            Self::GeneralizedPareto { k, sigma, theta } => {
                let z = ((x - theta) / sigma).max(0.0);
                if k.abs() < 1e-9 {
                    return (-z).exp();
                }
                // With k below 0 there is a largest size.
                (-(k * z).max(-1.0).ln_1p() / k).exp()
            }
            Self::Weibull { shape, scale } => (-(x.max(0.0) / scale).powf(shape)).exp(),
            Self::Exponential { mean } => (-x.max(0.0) / mean).exp(),
            _ => 1.0,
        }
    }

    /// The density just above `x`, relative to the share of sizes above `x`.
    fn hazard(&self, x: f64) -> f64 {
        match *self {
            Self::GeneralizedPareto { k, sigma, theta } => 1.0 / (sigma + k * (x - theta)),
            Self::Weibull { shape, scale } => shape / scale * (x / scale).powf(shape - 1.0),
            Self::Exponential { mean } => 1.0 / mean,
            _ => 0.0,
        }
    }

    /// The size that this share of sizes is above, for the spreads that have a formula.
    fn inverse(&self, above: f64) -> f64 {
        match *self {
            Self::GeneralizedPareto { k, sigma, theta } if k.abs() < 1e-9 => {
                theta - sigma * above.ln()
            }
            Self::GeneralizedPareto { k, sigma, theta } => {
                theta + sigma * (-k * above.ln()).exp_m1() / k
            }
            Self::Weibull { shape, scale } => scale * (-above.ln()).powf(1.0 / shape),
            Self::Exponential { mean } => -mean * above.ln(),
            _ => 0.0,
        }
    }
}

/// A spread of sizes, and the limits that hold for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// The spread.
    pub spread: Spread,
    /// No size is below.
    pub least: u64,
    /// No size is above.
    pub most: u64,
}

impl Sizes {
    /// Always the same size.
    #[must_use]
    pub fn constant(size: u64) -> Self {
        Self {
            spread: Spread::Constant(size),
            least: size,
            most: size,
        }
    }

    /// The size below which this share of sizes lies. With `unit` drawn evenly from 0 to 1 this is
    /// a draw. Never outside of the limits.
    #[must_use]
    pub fn quantile(&self, unit: f64) -> u64 {
        match &self.spread {
            Spread::Constant(size) => *size,
            Spread::Histogram(bars) => {
                let mut left = unit;
                for &(size, share) in bars {
                    left -= share;
                    if left < 0.0 {
                        return size;
                    }
                }
                bars.last().map_or(self.least, |&(size, _)| size)
            }
            Spread::Uniform => {
                let width = self.most.saturating_sub(self.least) as f64 + 1.0;
                let size = self.least.saturating_add((unit * width) as u64);
                size.min(self.most)
            }
            spread => {
                let [low, high] = self.edges();
                let (all, few) = (spread.above(low), spread.above(high));
                let size = spread.inverse(all - unit * (all - few)).round();
                (size.max(0.0) as u64).clamp(self.least, self.most)
            }
        }
    }

    /// The share of draws that have this size.
    #[must_use]
    pub fn share(&self, size: u64) -> f64 {
        if size < self.least || size > self.most {
            return 0.0;
        }
        match &self.spread {
            Spread::Constant(only) => f64::from(u8::from(*only == size)),
            Spread::Histogram(bars) => {
                let own = bars.iter().filter(|(bar, _)| *bar == size);
                own.map(|(_, share)| share).sum()
            }
            Spread::Uniform => 1.0 / ((self.most - self.least) as f64 + 1.0),
            spread => {
                let [low, high] = self.edges();
                let within = spread.above(low) - spread.above(high);
                let size = size as f64;
                let (from, to) = ((size - 0.5).max(low), (size + 0.5).min(high));
                let (above, own) = (spread.above(from), spread.above(from) - spread.above(to));
                // Far out, the difference of two nearly equal shares has lost its digits.
                let own = match own < above * 1e-8 {
                    true => spread.above(size) * spread.hazard(size),
                    false => own,
                };
                own / within
            }
        }
    }

    /// The mean of the draws.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.spread {
            Spread::Constant(size) => *size as f64,
            Spread::Histogram(bars) => bars.iter().map(|&(size, share)| size as f64 * share).sum(),
            // The middle of thin slices of equal share.
            _ => {
                const SLICES: u32 = 20_000;
                let middle = |slice: u32| (f64::from(slice) + 0.5) / f64::from(SLICES);
                let sum: f64 = (0..SLICES)
                    .map(|slice| self.quantile(middle(slice)) as f64)
                    .sum();
                sum / f64::from(SLICES)
            }
        }
    }

    /// The ends of the part that is rounded to the limits.
    fn edges(&self) -> [f64; 2] {
        [self.least as f64 - 0.5, self.most as f64 + 0.5]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Sizes> {
        let (k, sigma) = (0.2615, 25.45);
        let limited = |spread, least, most| Sizes {
            spread,
            least,
            most,
        };
        let pareto = |k, sigma, theta| Spread::GeneralizedPareto { k, sigma, theta };
        let weibull = |shape, scale| Spread::Weibull { shape, scale };
        vec![
            Sizes::constant(48),
            limited(Spread::Histogram(vec![(28, 0.9), (32, 0.1)]), 28, 32),
            limited(Spread::Uniform, 5, 14),
            limited(pareto(k, sigma, 0.0), 1, 200),
            limited(pareto(2.517, 14.236, 0.0), 1, 150),
            limited(pareto(-0.4, 20.0, 10.0), 10, 1000),
            limited(pareto(0.0, 20.0, 0.0), 0, 100),
            limited(weibull(1.7, 40.0), 1, 150),
            limited(Spread::Exponential { mean: 30.0 }, 3, 90),
        ]
    }

    #[test]
    fn shares_add_up_and_quantiles_follow_them() {
        for sizes in all() {
            let shares: f64 = (0..=1000).map(|size| sizes.share(size)).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{sizes:?}: {shares}");
            let mut before = 0.0;
            for size in sizes.least..=sizes.most.min(1000) {
                let share = sizes.share(size);
                if share > 1e-6 {
                    let unit = before + share / 2.0;
                    assert_eq!(sizes.quantile(unit), size, "{sizes:?} at {unit}");
                }
                before += share;
            }
        }
    }

    #[test]
    fn nothing_lies_outside_of_the_limits() {
        for sizes in all() {
            for unit in [0.0, 1e-12, 0.5, 1.0 - 1e-15, 1.0] {
                let size = sizes.quantile(unit);
                assert!(
                    (sizes.least..=sizes.most).contains(&size),
                    "{sizes:?}: {size}"
                );
            }
        }
    }

    #[test]
    fn means_are_those_of_the_shares() {
        for sizes in all() {
            let by_share: f64 = (0..=1000).map(|size| size as f64 * sizes.share(size)).sum();
            let off = (sizes.mean() / by_share - 1.0).abs();
            assert!(off < 1e-3, "{sizes:?}: {} {by_share}", sizes.mean());
        }
    }
}
