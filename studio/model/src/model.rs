//! A model of a load: everything that drives the benchmark. Its text form is in `file`.
//!
//! All kinds have the same hot ranges and pairs, unless [`Model::own`] says otherwise.
//!
//! It does not say how an operation depends on earlier ones, and what changes over days. Key sizes
//! belong to pairs, value sizes to writes.

use crate::access::{Accesses, Own, Ranges};
use crate::curve::Curve;
use crate::sizes::Sizes;

/// The bytes of a key that name its pair: no key is shorter.
pub const KEY_BYTES_MIN: u64 = 8;
/// No key has more bytes.
pub const KEY_BYTES_MAX: u64 = 4096;
/// No value has more bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 24;
/// No scan has more records.
pub const SCAN_LENGTH_MAX: u64 = 1 << 24;
/// A model has at most this number of pairs: keys can distinguish no more.
pub const PAIRS_MAX: u64 = 1 << 40;
/// Bytes of each value if values are merged: a counter.
pub const COUNTER_BYTES: u64 = 8;

/// A kind of operation of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads one pair.
    Get,
    /// Writes one pair.
    Put,
    /// Removes one pair.
    Delete,
    /// Adds one to a counter.
    Merge,
    /// Reads consecutive pairs.
    Scan,
}

impl Kind {
    /// All kinds, in the order of reports; `kind as usize` is the place in it.
    pub const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Delete, Self::Merge, Self::Scan];

    /// The name in files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::Scan => "scan",
        }
    }
}

/// The shares of the kinds of operation; they add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    /// Reads of one pair.
    pub get: f64,
    /// Writes of one pair.
    pub put: f64,
    /// Removals of one pair.
    pub delete: f64,
    /// Additions to a counter without reading it.
    pub merge: f64,
    /// Reads of consecutive pairs.
    pub scan: f64,
}

impl Mix {
    /// The shares with their names, in the order of reports.
    #[must_use]
    pub fn shares(&self) -> [(&'static str, f64); 5] {
        Kind::ALL.map(|kind| (kind.name(), self.share(kind)))
    }

    /// The share of a kind.
    #[must_use]
    pub fn share(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Get => self.get,
            Kind::Put => self.put,
            Kind::Delete => self.delete,
            Kind::Merge => self.merge,
            Kind::Scan => self.scan,
        }
    }

    /// The share of a kind, for a change.
    pub fn share_mut(&mut self, kind: Kind) -> &mut f64 {
        match kind {
            Kind::Get => &mut self.get,
            Kind::Put => &mut self.put,
            Kind::Delete => &mut self.delete,
            Kind::Merge => &mut self.merge,
            Kind::Scan => &mut self.scan,
        }
    }
}

/// Sizes of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Sizes of values that are put.
    pub sizes: Sizes,
    /// Sizes of values that are there before.
    pub loaded: Sizes,
    /// The percentage of a value that compresses to next to nothing.
    pub compressible: u8,
}

/// Operations a second: `a sin(b t + c) + d`, with t in seconds; d is above a, so that there is
/// always something to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The height of the swing to each side.
    pub a: f64,
    /// 2 pi divided by the seconds of a swing.
    pub b: f64,
    /// The phase at the beginning.
    pub c: f64,
    /// The mean.
    pub d: f64,
}

impl Rate {
    /// Operations a second at this time.
    #[must_use]
    pub fn at(&self, seconds: f64) -> f64 {
        self.a * (self.b * seconds + self.c).sin() + self.d
    }

    /// Operations that are due up to this time.
    #[must_use]
    pub fn due(&self, seconds: f64) -> f64 {
        let swing = match self.b {
            0.0 => self.c.sin() * seconds,
            b => (self.c.cos() - (b * seconds + self.c).cos()) / b,
        };
        self.a * swing + self.d * seconds
    }

    /// The time at which this number of operations is due.
    #[must_use]
    pub fn time_of(&self, operations: f64) -> f64 {
        // Between the times at the highest and the lowest rate. The number of due operations only
        // grows, so bisection finds the time. Newton's steps are used if they stay between.
        let (mut low, mut high) = (
            operations / (self.d + self.a.abs()),
            operations / (self.d - self.a.abs()),
        );
        let mut time = operations / self.d;
        for _ in 0..100 {
            let off = self.due(time) - operations;
            if off > 0.0 {
                high = time
            } else {
                low = time
            }
            let next = time - off / self.at(time);
            let next = if next > low && next < high {
                next
            } else {
                f64::midpoint(low, high)
            };
            if (next - time).abs() <= 1e-12 * (1.0 + time) {
                return next;
            }
            time = next;
        }
        time
    }

    /// The same swings with this many times the operations. Each swing takes its time divided by
    /// the same factor.
    #[must_use]
    pub fn faster(&self, times: f64) -> Self {
        let (a, b, c, d) = (self.a * times, self.b * times, self.c, self.d * times);
        Self { a, b, c, d }
    }
}

/// Where the hot keys of one kind lie, if they lie elsewhere than the others'.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnHeat {
    /// The heat of ranges for it. Their number is the common one of the model.
    pub ranges: Option<Own<Curve>>,
    /// The heat of pairs within a range for it.
    pub accesses: Option<Own<Accesses>>,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// A short name.
    pub name: String,
    /// Its origin, and what was measured.
    pub about: String,
    /// Pairs that are loaded before; all operations are on them.
    pub pairs: u64,
    /// Operations of the whole load.
    pub operations: u64,
    /// Memory of the store on which the load was seen, in bytes, if known.
    pub memory_bytes: Option<u64>,
    /// The kinds.
    pub mix: Mix,
    /// Sizes of keys, at least [`KEY_BYTES_MIN`].
    pub keys: Sizes,
    /// Sizes of values.
    pub values: Values,
    /// Lengths of scans in pairs. Needed if the mix has scans.
    pub scans: Option<Sizes>,
    /// The heat of ranges. Without it, the key space is one range.
    pub ranges: Option<Ranges>,
    /// The heat of pairs. Without it, all are alike.
    pub accesses: Option<Accesses>,
    /// What kinds have of their own instead of `ranges` and `accesses`, in the order of
    /// [`Kind::ALL`].
    pub own: [OwnHeat; 5],
    /// Operations a second. Without it, as fast as possible.
    pub rate: Option<Rate>,
}

impl Model {
    /// The same load with this share of the pairs, operations and memory. The number of ranges
    /// stays. So each share of the key space keeps its share of the accesses.
    #[must_use]
    pub fn scaled(&self, share: f64) -> Self {
        let scale = |number: u64| ((number as f64 * share).round() as u64).max(1);
        let mut own = self.own.clone();
        for accesses in own.iter_mut().filter_map(|own| own.accesses.as_mut()) {
            accesses.curve = accesses.curve.scaled(share);
        }
        Self {
            pairs: scale(self.pairs),
            operations: scale(self.operations),
            memory_bytes: self.memory_bytes.map(scale),
            accesses: self.accesses.map(|accesses| accesses.scaled(share)),
            own,
            ..self.clone()
        }
    }

    /// The heat of ranges for a kind. Without it, the key space is one range.
    #[must_use]
    pub fn ranges_of(&self, kind: Kind) -> Option<Ranges> {
        let common = self.ranges.as_ref()?;
        let own = self.own[kind as usize].ranges.as_ref();
        Some(own.map_or_else(
            || common.clone(),
            |own| Ranges {
                count: common.count,
                curve: own.curve.clone(),
            },
        ))
    }

    /// The heat of pairs within a range for a kind. Without it, all are alike.
    #[must_use]
    pub fn accesses_of(&self, kind: Kind) -> Option<Accesses> {
        let own = self.own[kind as usize].accesses.as_ref();
        own.map(|own| own.curve).or(self.accesses)
    }

    /// Bytes of all keys and values that are loaded; an estimate.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        ((self.keys.mean() + self.values.loaded.mean()) * self.pairs as f64) as u64
    }

    /// Whether values are counters for merges.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.mix.merge > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_operations_follow_the_rate() {
        let (a, b, c, d) = (1000.0, 0.01, 0.5, 4500.0);
        let rate = Rate { a, b, c, d };
        let summed: f64 = (0..100_000)
            .map(|step| rate.at((f64::from(step) + 0.5) / 100.0) / 100.0)
            .sum();
        assert!((rate.due(1000.0) / summed - 1.0).abs() < 1e-6);
        for operations in [0.0, 1.0, 17.5, 1e4, 1e7] {
            let time = rate.time_of(operations);
            assert!(
                (rate.due(time) - operations).abs() < 1e-6 * (1.0 + operations),
                "{operations}"
            );
        }
        // Over a whole swing, the mean is the number of operations that were done.
        let swing = std::f64::consts::TAU / b;
        assert!((rate.due(swing) / swing - d).abs() < 1e-6);
        let flat = Rate {
            b: 0.0,
            c: 0.0,
            ..rate
        };
        assert!((flat.time_of(9000.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_faster_rate_has_the_same_swings_sooner() {
        let (a, b, c, d) = (5.0, 0.1, 0.2, 20.0);
        let rate = Rate { a, b, c, d };
        let fast = rate.faster(4.0);
        for operations in [3.0, 100.0, 5000.0] {
            assert!((fast.time_of(operations) * 4.0 - rate.time_of(operations)).abs() < 1e-6);
        }
    }
}
