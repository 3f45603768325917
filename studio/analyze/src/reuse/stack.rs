//! An LRU stack of units, which counts accesses by their distance, and the different units of
//! periods.
//!
//! ```text
//!   position   0 1 2 3 4 5 6 7 8 ...        each access takes the next position
//!   unit       . . c . a . b d .            a unit is at its last access; the others are free
//!   distance of an access of a: units behind position 4, and a itself = 3
//! ```
//! A Fenwick tree has the sums of the numbers that units stand for, so that the sum behind a
//! position is found in logarithmic time. When positions run out, units move together in their
//! order. Sums are of whole numbers ([`ONE`] is one unit), so that they stay exact. Invariant: the
//! number of taken positions is the number of units that were accessed.

/// No position, no unit.
const NONE: u32 = u32::MAX;

/// One unit in sums.
const ONE: u64 = 1 << 16;

/// The stack of one grain of one keyspace.
pub(crate) struct Stack {
    /// The number of units that each unit stands for.
    weights: Vec<u64>,
    position_of: Vec<u32>,
    unit_at: Vec<u32>,
    /// Fenwick tree over the weights of units at their positions.
    taken: Vec<u64>,
    next: usize,
    /// The sum over all units that were accessed.
    seen: u64,
    last_nanos: Vec<u64>,
    ends: Vec<u64>,
    /// For each end, the accesses up to it and above the one before.
    bins: Vec<u64>,
    periods: Vec<Period>,
}

/// The number of different units in periods of one length.
struct Period {
    nanos: u64,
    began: u64,
    so_far: u64,
    whole: u64,
}

/// A size of cache, and the accesses whose distance is at most that and above the size before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    /// The size, in units of the whole trace.
    pub(crate) distance: u64,
    /// The accesses, in the whole trace.
    pub(crate) accesses: f64,
}

/// The ends of bins: each number at first, then each a tenth more.
pub(crate) fn ends() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1u64), |&end| {
        Some((end + 1).max((end as f64 * 1.1) as u64))
    })
}

impl Stack {
    /// A stack of units. `sample` says for how many units each of them stands. Periods have these
    /// lengths.
    pub(crate) fn new(sample: &[f64], periods: &[u64]) -> Stack {
        let units = sample.len();
        let positions = (units * 2).max(64);
        let period = |&nanos: &u64| Period {
            nanos,
            began: 0,
            so_far: 0,
            whole: 0,
        };
        let ends: Vec<u64> = ends().take_while(|&end| end < 1 << 40).collect();
        let weight = |stands_for: &f64| (stands_for * ONE as f64).round() as u64;
        Stack {
            weights: sample.iter().map(weight).collect(),
            position_of: vec![NONE; units],
            unit_at: vec![NONE; positions],
            taken: vec![0; positions + 1],
            next: 0,
            seen: 0,
            last_nanos: vec![0; units],
            bins: vec![0; ends.len() + 1],
            ends,
            periods: periods.iter().map(period).collect(),
        }
    }

    /// An access of a unit.
    pub(crate) fn access(&mut self, unit: u32, nanos: u64) {
        let at = unit as usize;
        if self.next == self.unit_at.len() {
            self.move_together();
        }
        let (before, weight) = (self.position_of[at], self.weights[at]);
        let last = (before != NONE).then_some(self.last_nanos[at]);
        for period in &mut self.periods {
            period.access(last, nanos, weight);
        }
        self.last_nanos[at] = self.last_nanos[at].max(nanos);
        match before {
            NONE => self.seen += weight,
            position => {
                let position = position as usize;
                // The units up to it, with itself, are not behind it.
                let distance = self.seen - self.up_to(position) + weight;
                let distance = (distance + ONE / 2) / ONE;
                let bin = self.ends.partition_point(|&end| end < distance);
                self.bins[bin] += weight;
                self.take(position, weight.wrapping_neg());
                self.unit_at[position] = NONE;
            }
        }
        self.unit_at[self.next] = unit;
        self.position_of[at] = self.next as u32;
        self.take(self.next, weight);
        self.next += 1;
    }

    /// The sum at positions up to this one.
    fn up_to(&self, position: usize) -> u64 {
        let (mut at, mut sum) = (position + 1, 0);
        while at > 0 {
            sum += self.taken[at];
            at &= at - 1;
        }
        sum
    }

    /// Adds to the sum at a position, modulo 2^64: to subtract, the complement is added.
    fn take(&mut self, position: usize, weight: u64) {
        let mut at = position + 1;
        while at < self.taken.len() {
            self.taken[at] = self.taken[at].wrapping_add(weight);
            at += at & at.wrapping_neg();
        }
    }

    fn move_together(&mut self) {
        let mut next = 0;
        for position in 0..self.unit_at.len() {
            let unit = std::mem::replace(&mut self.unit_at[position], NONE);
            if unit != NONE {
                self.unit_at[next] = unit;
                self.position_of[unit as usize] = next as u32;
                next += 1;
            }
        }
        self.taken.fill(0);
        for position in 0..next {
            self.take(position, self.weights[self.unit_at[position] as usize]);
        }
        self.next = next;
    }

    /// The accesses by distance. In the whole trace, `again` accesses were not the first of their
    /// unit. First accesses are in no bin.
    pub(crate) fn distances(&self, again: u64) -> Vec<Bin> {
        let sum: u64 = self.bins.iter().sum();
        let scale = again as f64 / sum as f64;
        let bins = self.ends.iter().zip(&self.bins);
        let bins = bins.filter(|(_, sum)| **sum > 0);
        bins.map(|(&distance, &sum)| Bin {
            distance,
            accesses: sum as f64 * scale,
        })
        .collect()
    }

    /// The mean number of different units in whole periods of each length, in a trace of
    /// `duration_nanos` and `units` units. `None` if the trace has no whole period of the length.
    pub(crate) fn working_sets(&self, duration_nanos: u64, units: u64) -> Vec<(u64, Option<f64>)> {
        let scale = units as f64 / self.weights.iter().sum::<u64>() as f64;
        let of = |period: &Period| {
            let periods = duration_nanos / period.nanos;
            // The last period counts if the trace does not end in it.
            let is_whole = period.began + period.nanos <= duration_nanos;
            let sum = period.whole + if is_whole { period.so_far } else { 0 };
            (periods > 0).then(|| sum as f64 * scale / periods as f64)
        };
        let periods = self.periods.iter();
        periods.map(|period| (period.nanos, of(period))).collect()
    }
}

impl Period {
    /// An access of a unit whose access before was at `last`.
    fn access(&mut self, last: Option<u64>, nanos: u64, weight: u64) {
        if nanos >= self.began + self.nanos {
            self.whole += self.so_far;
            self.so_far = 0;
            self.began = nanos / self.nanos * self.nanos;
        }
        if last.is_none_or(|last| last < self.began) {
            self.so_far += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Numbers that look drawn at random.
    fn drawn(count: usize, below: u64) -> Vec<u32> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The lower of two numbers, so that some are hot.
            (state % below).min((state >> 32) % below) as u32
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn distances_are_those_of_a_list_that_is_searched() {
        let units = drawn(5000, 100);
        // Weights of two and three: no bin puts them together.
        let weights: Vec<f64> = (0..100).map(|unit| f64::from(2 + unit % 2)).collect();
        let mut stack = Stack::new(&weights, &[]);
        let mut list: Vec<u32> = Vec::new();
        let mut right = vec![0.0; stack.bins.len()];
        for &unit in &units {
            stack.access(unit, 0);
            let of = |unit: &u32| weights[*unit as usize];
            if let Some(at) = list.iter().rposition(|other| *other == unit) {
                let distance: f64 = list[at..].iter().map(of).sum();
                let bin = stack.ends.iter().position(|&end| end as f64 >= distance);
                right[bin.unwrap()] += of(&unit);
                list.remove(at);
            }
            list.push(unit);
        }
        let found = stack.bins.iter().map(|&sum| sum as f64 / ONE as f64);
        assert_eq!(found.collect::<Vec<_>>(), right);
        let again = 5000 - list.len() as u64;
        let all: f64 = stack.distances(again).iter().map(|bin| bin.accesses).sum();
        assert!((all - again as f64).abs() < 1e-6);
    }

    #[test]
    fn a_working_set_is_what_whole_periods_have_different_on_average() {
        let units = drawn(997, 50);
        let mut stack = Stack::new(&[1.0; 50], &[10, 64, 2000]);
        for (nanos, &unit) in units.iter().enumerate() {
            stack.access(unit, nanos as u64);
        }
        let mean = |length: usize| {
            let periods = units.chunks_exact(length);
            let count = periods.len();
            let sum: usize = periods
                .map(|period| period.iter().collect::<BTreeSet<_>>().len())
                .sum();
            (count > 0).then(|| sum as f64 / count as f64)
        };
        let right = [(10, mean(10)), (64, mean(64)), (2000, None)];
        assert_eq!(stack.working_sets(997, 50), right);
    }
}
