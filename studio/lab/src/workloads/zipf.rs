//! Zipf-distributed ranks in constant time, as in YCSB (Gray et al., "Quickly generating
//! billion-record synthetic databases").
//!
//! Rank `i` (from 0) has probability `(i + 1)^-theta / zeta(n, theta)`. Ranks 0 and 1 are exact;
//! the others follow the method's continuous approximation. `zeta` is summed exactly for its first
//! terms and continued by Euler and Maclaurin's formula. So 80 million items cost microseconds, and
//! the number of items may grow at every call ([`Zipf::resize`]).

/// Terms of zeta that are summed one by one.
const EXACT_TERMS: u64 = 1024;

/// `sum of i^-theta for i in 1..=items`, to about twelve digits.
#[must_use]
pub fn zeta(items: u64, theta: f64) -> f64 {
    let exact = items.min(EXACT_TERMS);
    let head: f64 = (1..=exact).map(|i| (i as f64).powf(-theta)).sum();
    head + zeta_tail(exact, items, theta)
}

/// `sum of i^-theta for i in from + 1..=to`.
fn zeta_tail(from: u64, to: u64, theta: f64) -> f64 {
    if to <= from {
        return 0.0;
    }
    let (a, b) = (from as f64, to as f64);
    let integral = if (theta - 1.0).abs() < 1e-12 {
        (b / a).ln()
    } else {
        (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta)
    };
    integral
        + 0.5 * (b.powf(-theta) - a.powf(-theta))
        + theta / 12.0 * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0))
}

/// Draws ranks in `0..items`. Cheap to copy; one per thread where it grows.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    items: u64,
    theta: f64,
    head: f64,
    alpha: f64,
    zeta_items: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// A generator over `items` ranks with skew `theta` in `(0, 1)`.
    ///
    /// # Panics
    /// If `items` is zero or `theta` is not strictly between 0 and 1, where the method holds.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0, "a distribution needs at least one item");
        assert!(
            theta > 0.0 && theta < 1.0,
            "theta must lie strictly between 0 and 1"
        );
        let mut zipf = Self {
            items,
            theta,
            head: zeta(EXACT_TERMS, theta),
            alpha: 1.0 / (1.0 - theta),
            zeta_items: 0.0,
            eta: 0.0,
            second: 1.0 + 0.5f64.powf(theta),
        };
        zipf.prepare();
        zipf
    }

    /// Changes the number of ranks; costs three powers, not a summation.
    pub fn resize(&mut self, items: u64) {
        if items != self.items && items > 0 {
            self.items = items;
            self.prepare();
        }
    }

    fn prepare(&mut self) {
        self.zeta_items = if self.items < EXACT_TERMS {
            zeta(self.items, self.theta)
        } else {
            self.head + zeta_tail(EXACT_TERMS, self.items, self.theta)
        };
        let ratio = (2.0 / self.items as f64).powf(1.0 - self.theta);
        self.eta = (1.0 - ratio) / (1.0 - self.second / self.zeta_items);
    }

    /// The number of ranks.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The probability of rank 0.
    #[must_use]
    pub fn top_frequency(&self) -> f64 {
        1.0 / self.zeta_items
    }

    /// The probability that [`rank`](Self::rank) gives this rank.
    #[must_use]
    pub fn share(&self, rank: u64) -> f64 {
        self.share_of((rank + 1) as f64) - self.share_of(rank as f64)
    }

    /// The probability that [`rank`](Self::rank) gives one of the ranks below `ranks`. A fraction
    /// of a rank counts with that fraction of its probability.
    #[must_use]
    pub fn share_of(&self, ranks: f64) -> f64 {
        let share = match ranks {
            ranks if ranks <= 1.0 => ranks / self.zeta_items,
            ranks if ranks <= 2.0 => (1.0 + (ranks - 1.0) * (self.second - 1.0)) / self.zeta_items,
            // The number to which `rank` gives this rank.
            ranks => {
                let part = (ranks / self.items as f64).powf(1.0 / self.alpha);
                (part - 1.0 + self.eta) / self.eta
            }
        };
        match ranks >= self.items as f64 {
            true => 1.0,
            false => share.clamp(0.0, 1.0),
        }
    }

    /// The rank that belongs to `unit`, a uniform number in `[0, 1)`. Rank 0 has the highest
    /// probability.
    #[must_use]
    pub fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta_items;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn zeta_agrees_with_summation() {
        for theta in [0.5, 0.8, 0.99] {
            for items in [1, 2, 1024, 1025, 5000, 1_000_000] {
                let plain: f64 = (1..=items).map(|i| (i as f64).powf(-theta)).sum();
                let ours = zeta(items, theta);
                assert!(
                    (ours - plain).abs() < 1e-8 * plain,
                    "{theta} {items}: {ours} {plain}"
                );
            }
        }
    }

    #[test]
    fn resized_equals_new() {
        let mut grown = Zipf::new(1, 0.99);
        for items in [2, 3, 1023, 1024, 1025, 77_777] {
            grown.resize(items);
            let fresh = Zipf::new(items, 0.99);
            for step in 0..100 {
                let unit = f64::from(step) / 100.0;
                assert_eq!(grown.rank(unit), fresh.rank(unit), "{items} at {unit}");
            }
        }
    }

    #[test]
    fn shares_are_those_of_the_ranks_drawn() {
        for (items, theta) in [(1, 0.9), (2, 0.5), (3, 0.9), (1024, 0.99), (5000, 0.8)] {
            let zipf = Zipf::new(items, theta);
            let sum: f64 = (0..items).map(|rank| zipf.share(rank)).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{items}: {sum}");
            assert_eq!(zipf.share_of(1e9), 1.0);
            // The middle of each rank's part of the unit interval gives that rank.
            for rank in 0..items {
                let middle = zipf.share_of(rank as f64) + zipf.share(rank) / 2.0;
                assert_eq!(zipf.rank(middle), rank, "{items}, {theta}");
            }
            let law = zeta(items / 2, theta) / zeta(items, theta);
            let share = zipf.share_of((items / 2) as f64);
            assert!((share - law).abs() < 0.03, "{items}: {share} {law}");
        }
    }

    #[test]
    fn sampled_shares_follow_the_law() {
        let items = 10_000;
        let zipf = Zipf::new(items, 0.99);
        let mut random = Random::new(3, 0);
        let draws = 1_000_000;
        let mut counts = vec![0u32; items as usize];
        for _ in 0..draws {
            counts[zipf.rank(random.unit()) as usize] += 1;
        }
        for rank in [0u32, 1] {
            let expected = f64::from(rank + 1).powf(-0.99) * zipf.top_frequency();
            let sampled = f64::from(counts[rank as usize]) / f64::from(draws);
            assert!(
                (sampled / expected - 1.0).abs() < 0.02,
                "{rank}: {sampled} {expected}"
            );
        }
        let top_hundred: u32 = counts[..100].iter().sum();
        let expected = zeta(100, 0.99) / zeta(items, 0.99);
        let sampled = f64::from(top_hundred) / f64::from(draws);
        assert!(
            (sampled / expected - 1.0).abs() < 0.03,
            "{sampled} {expected}"
        );
    }

    #[test]
    fn tiny_ranges_stay_in_range() {
        for items in 1..6 {
            let zipf = Zipf::new(items, 0.99);
            assert!((0..=1000).all(|step| zipf.rank(f64::from(step) / 1001.0) < items));
        }
    }
}
