//! [`Portrait`]: one pass over a trace, for comparison with another.

use std::collections::BTreeMap;
use std::io::Read;

use evendb_trace::{Compressible, Kind, Losses, Operation, Outcome, Reader, Times};
use hdrhistogram::Histogram;

use super::popularity::Popularity;

/// Sizes and lengths above this are counted as this.
const SIZE_MAX: u64 = 1 << 40;
/// Rates are counted for each second of this number of seconds at most.
const SECONDS_MAX: usize = 4 << 20;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The counts.
    pub counts: BTreeMap<String, u64>,
    /// Their sum.
    pub sum: u64,
}

impl Shares {
    fn add(&mut self, name: &str) {
        match self.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(name.to_owned(), 1)),
        }
        self.sum += 1;
    }

    /// The share of a name.
    #[must_use]
    pub fn share(&self, name: &str) -> f64 {
        let count = self.counts.get(name).copied().unwrap_or(0);
        count as f64 / self.sum.max(1) as f64
    }

    /// The share of operations that would have to have another name. `None` if one of them is
    /// empty.
    #[must_use]
    pub fn distance(&self, other: &Shares) -> Option<f64> {
        if self.sum == 0 || other.sum == 0 {
            return None;
        }
        let names = self.counts.keys().chain(other.counts.keys());
        let names: std::collections::BTreeSet<_> = names.collect();
        let off = names
            .iter()
            .map(|name| (self.share(name) - other.share(name)).abs());
        Some(off.sum::<f64>() / 2.0)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Portrait {
    /// The number of operations.
    pub operations: u64,
    /// From the first operation to the beginning of the last one.
    pub seconds: f64,
    /// How far times can be believed.
    pub times: Times,
    /// One key in this number is in the trace.
    pub one_in: u64,
    /// Operations by kind.
    pub kinds: Shares,
    /// Operations on keys by keyspace.
    pub keyspaces: Shares,
    /// What point reads found: `found`, `absent`, `failed`. Unknown ones are not here.
    pub reads: Shares,
    /// All point reads.
    pub point_reads: u64,
    /// Operations in each second.
    pub per_second: Vec<u64>,
    /// Sizes of keys of point reads and writes.
    pub key_sizes: Histogram<u64>,
    /// Sizes of values that were written.
    pub written_sizes: Histogram<u64>,
    /// Sizes of values that were found.
    pub found_sizes: Histogram<u64>,
    /// Records that scans gave.
    pub scan_lengths: Histogram<u64>,
    /// All scans.
    pub scans: u64,
    /// How far recorded values compress.
    pub compressible: Compressible,
    /// What is damaged or missing.
    pub losses: Losses,
    pub(super) popularity: Popularity,
}

impl Portrait {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// The trace's.
    pub fn of<R: Read>(mut reader: Reader<R>) -> evendb_trace::Result<Portrait> {
        let sizes = || Histogram::new(3).expect("three digits are allowed");
        let mut portrait = Portrait {
            operations: 0,
            seconds: 0.0,
            times: reader.header().times,
            one_in: reader.header().one_in,
            kinds: Shares::default(),
            keyspaces: Shares::default(),
            reads: Shares::default(),
            point_reads: 0,
            per_second: Vec::new(),
            key_sizes: sizes(),
            written_sizes: sizes(),
            found_sizes: sizes(),
            scan_lengths: sizes(),
            scans: 0,
            compressible: Compressible::default(),
            losses: Losses::default(),
            popularity: Popularity::default(),
        };
        let (mut first, mut last) = (u64::MAX, 0);
        let mut key = Vec::new();
        while let Some(operation) = reader.next()? {
            first = first.min(operation.start_nanos);
            last = last.max(operation.start_nanos);
            portrait.count(operation);
            let number = operation.keyspace;
            let is_point = operation.kind.is_point_read() || operation.kind.is_point_write();
            if !is_point && !matches!(operation.kind, Kind::Scan | Kind::DeleteRange | Kind::Pop) {
                continue;
            }
            if is_point {
                key.clear();
                key.extend_from_slice(&operation.key);
            }
            let names = reader.keyspaces();
            let unnamed = || format!("#{number}");
            let name = names.get(&number).cloned().unwrap_or_else(unnamed);
            portrait.keyspaces.add(&name);
            if is_point {
                let mut whole = name.into_bytes();
                whole.push(0);
                whole.extend_from_slice(&key);
                portrait.popularity.add(&whole);
            }
        }
        portrait.seconds = last.saturating_sub(first.min(last)) as f64 / 1e9;
        portrait.losses = reader.losses();
        Ok(portrait)
    }

    fn count(&mut self, operation: &Operation) {
        self.operations += 1;
        self.kinds.add(operation.kind.name());
        let second = (operation.start_nanos / 1_000_000_000) as usize;
        if second < SECONDS_MAX {
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += 1;
        }
        let kind = operation.kind;
        let mut found = None;
        if kind.is_point_read() {
            self.point_reads += 1;
            match operation.outcome {
                Outcome::Present { len, .. } => {
                    found = len;
                    self.reads.add("found");
                }
                Outcome::Absent => self.reads.add("absent"),
                Outcome::Failed(_) => self.reads.add("failed"),
                Outcome::Unknown | Outcome::Done => {}
            }
        }
        if kind == Kind::Scan {
            self.scans += 1;
        }
        let is_point = kind.is_point_read() || kind.is_point_write();
        let sizes = [
            (
                &mut self.key_sizes,
                Some(operation.key.len() as u64).filter(|_| is_point),
            ),
            (&mut self.written_sizes, operation.value_len),
            (&mut self.found_sizes, found),
            (
                &mut self.scan_lengths,
                operation.count.filter(|_| kind == Kind::Scan),
            ),
        ];
        for (histogram, size) in sizes {
            if let Some(size) = size {
                // The histogram grows when it must.
                let _ = histogram.record(size.min(SIZE_MAX));
            }
        }
        if let Some(value) = &operation.value {
            self.compressible.add(value);
        }
    }

    /// Mean operations a second. `None` if the trace has no times.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let has_times = self.times != Times::Order && self.seconds > 0.0;
        has_times.then(|| self.operations as f64 / self.seconds)
    }

    /// Operations in the busiest second. `None` if the trace has no times.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        self.per_second
            .iter()
            .copied()
            .max()
            .filter(|_| self.times != Times::Order)
    }

    /// The number of different keys of point reads and writes.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.popularity.keys()
    }

    /// The share of accesses that the hottest keys have, this number of them.
    #[must_use]
    pub fn share_of_hottest(&self, count: usize) -> Option<f64> {
        let accesses = self.popularity.accesses();
        let hottest = self.popularity.hottest(count);
        let sum: u64 = hottest.iter().map(|(_, count)| count).sum();
        (accesses > 0).then(|| sum as f64 / accesses as f64)
    }
}

/// The largest difference between the shares up to any size. `None` if one of them is empty.
pub(super) fn distance(one: &Histogram<u64>, other: &Histogram<u64>) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let of = |histogram: &Histogram<u64>| {
        let all = histogram.iter_recorded();
        let shares = all.map(|step| (step.value_iterated_to(), step.count_at_value()));
        let mut below = 0;
        let whole = histogram.len() as f64;
        shares
            .map(|(size, count)| {
                below += count;
                (size, below as f64 / whole)
            })
            .collect::<Vec<_>>()
    };
    let (one, other) = (of(one), of(other));
    let mut largest = 0.0_f64;
    let (mut a, mut b) = (0, 0);
    let (mut share_a, mut share_b) = (0.0, 0.0);
    while a < one.len() || b < other.len() {
        let next = one
            .get(a)
            .map(|step| step.0)
            .into_iter()
            .chain(other.get(b).map(|step| step.0))
            .min();
        let Some(next) = next else { break };
        if one.get(a).is_some_and(|step| step.0 == next) {
            (share_a, a) = (one[a].1, a + 1);
        }
        if other.get(b).is_some_and(|step| step.0 == next) {
            (share_b, b) = (other[b].1, b + 1);
        }
        largest = largest.max((share_a - share_b).abs());
    }
    Some(largest)
}
