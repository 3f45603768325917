//! What a load is: one pass over the first operations of a trace, in bounded memory.
//!
//! Kinds, sizes and outcomes are counted exactly. The facts about keys come from a sample by hashes
//! of keys: how many keys there are, how unevenly they are accessed, whether the hot ones lie
//! beside each other. The sample gets thinner while more keys come, and keeps at most `KEYS_MAX` of
//! them. With fewer keys it is exact.
//!
//! A trace may begin with a loading phase. Its operations count for the data that there is, and for
//! nothing else.

use std::collections::HashMap;
use std::io::Read;

use evendb_trace::{Compressible, Kind, Losses, Operation, Outcome, Reader, value_hash};
use hdrhistogram::Histogram;

use crate::replay::command::LeftOut;

/// The sample holds at most this number of keys.
const KEYS_MAX: usize = 1 << 18;
/// The key space is divided into this number of ranges of equally many keys, to see whether hot
/// keys are neighbours.
const RANGES: usize = 100;
/// Memory of a store with little data, in bytes.
const LEAST_BYTES: u64 = 16 << 20;

/// What was found out about a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Operations that were read, without the loading phase.
    pub operations: u64,
    /// Operations of the loading phase.
    pub loading: u64,
    /// All operations that were read, in both phases and with every outcome.
    pub read: u64,
    /// Whether the trace has more operations than were read.
    pub goes_on: bool,
    /// Whether the user gave the number of operations, so that reading did not end for want of
    /// time.
    pub end_is_asked: bool,
    /// What is damaged or missing in the trace, as far as it was read.
    pub losses: Losses,
    /// What a replay does not ask a store.
    pub left_out: LeftOut,
    /// Lookups of single keys.
    pub point_reads: u64,
    /// Point reads whose outcome is known.
    pub answered: u64,
    /// Point reads that found nothing.
    pub absent: u64,
    /// Puts, deletions and merges of single keys.
    pub writes: u64,
    /// The share of writes that write over a record which is there, and leave a record there.
    pub overwrites: f64,
    /// Merges of single keys.
    pub merges: u64,
    /// Scans.
    pub scans: u64,
    /// Scans whose number of records the trace does not tell.
    pub scans_untold: u64,
    /// Records that the other scans gave.
    pub scanned: u64,
    /// Operations of other kinds.
    pub others: u64,
    /// Mean length of keys.
    pub key_bytes: f64,
    /// Mean length of values whose length is known. If no length is known, the assumed length.
    pub value_bytes: f64,
    /// Whether the trace has the length of any value.
    pub value_bytes_known: bool,
    /// Records at the end whose value is of unknown length. Each of them counts with `value_bytes`.
    pub unknown_lengths: u64,
    /// Whether an operation writes or may find a value of unknown length. A replay makes up such
    /// values.
    pub makes_up_values: bool,
    /// Whether any operation is a merge, in the loading phase too.
    pub has_merges: bool,
    /// Nine of ten values are at most this long.
    pub value_bytes_p90: u64,
    /// Whether the trace has the values themselves, and not their lengths alone.
    pub has_values: bool,
    /// What LZ4 makes of these values in blocks: compressed bytes divided by bytes.
    pub compressed: Option<f64>,
    /// Different keys.
    pub keys: u64,
    /// Bytes of keys and values at the end, as far as the trace tells.
    pub data_bytes: u64,
    /// Share of accesses that go to the hottest hundredth of the keys.
    pub hottest_1: f64,
    /// Share of accesses that go to the hottest tenth of the keys.
    pub hottest_10: f64,
    /// What `hottest_10` would be if all keys were accessed evenly: with few accesses some keys
    /// come more often by chance.
    pub even_10: f64,
    /// Share of accesses that go to the hottest tenth of the ranges of the key space.
    pub hottest_ranges_10: f64,
    /// Share of puts whose key is above every key that was put before.
    pub appended: f64,
    /// One key in this number was in the sample. 1: all keys were.
    pub one_in: u64,
}

impl Load {
    /// A part divided by all operations.
    #[must_use]
    pub fn share(&self, part: u64) -> f64 {
        part as f64 / self.operations.max(1) as f64
    }

    /// Mean records per scan, over the scans whose number of records the trace tells. None if it
    /// tells no number.
    #[must_use]
    pub fn records_per_scan(&self) -> Option<f64> {
        let told = self.scans - self.scans_untold;
        (told > 0).then(|| self.scanned as f64 / told as f64)
    }

    /// Whether the trace names the data that there is. It does not name records that only scans
    /// have seen: it names the least data that there may be, unless it begins with a loading phase.
    #[must_use]
    pub fn tells_data(&self) -> bool {
        self.keys > 0 && (self.loading > 0 || self.share(self.scans) < 0.01)
    }

    /// The part of lookups that find nothing.
    #[must_use]
    pub fn absent_share(&self) -> f64 {
        self.absent as f64 / self.answered.max(1) as f64
    }

    /// Mean bytes of a record.
    #[must_use]
    pub fn record_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// Whether there are enough accesses to single keys to say how they are spread.
    #[must_use]
    pub fn has_heat(&self) -> bool {
        self.share(self.point_reads + self.writes) >= 0.2
    }

    /// Whether the load can be done again on a store that has done it, and is then still the same
    /// load: it makes and removes few records.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.writes == 0 || self.overwrites >= 0.9
    }

    /// The budget of memory that is advised on where `allowed` is allowed. It is no more than the
    /// data needs, if the whole load was read and names its data. Data needs twice its bytes, for
    /// what is kept beside it and for what is written over meanwhile, and something for a store
    /// that is nearly empty.
    #[must_use]
    pub fn budget_within(&self, allowed: u64) -> u64 {
        let needed = (2 * self.data_bytes + LEAST_BYTES).next_multiple_of(1 << 20);
        match self.tells_data() && !self.goes_on {
            true => allowed.min(needed),
            false => allowed,
        }
    }

    /// The bytes to write over in a store before it is like one that has served the load for long:
    /// half of its data. That is twice the garbage that the default settings allow. Measured: it is
    /// enough for a put to write as many bytes as later.
    #[must_use]
    pub fn age_bytes(&self) -> u64 {
        match self.writes > 0 && self.overwrites > 0.0 {
            true => self.data_bytes / 2,
            false => 0,
        }
    }

    /// Whether few keys take a large share of the accesses.
    #[must_use]
    pub fn is_skewed(&self) -> bool {
        self.has_heat() && self.hottest_10 >= 0.4 && self.hottest_10 >= 1.3 * self.even_10
    }

    /// Whether the hot keys lie beside each other: a tenth of the key space takes nearly as many
    /// accesses as the hottest tenth of the keys.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.is_skewed() && self.hottest_ranges_10 >= 0.6 * self.hottest_10
    }
}

/// Reads operations of a trace: the `loading` first ones, and then up to `operations_max`. A value
/// whose length the trace does not tell is taken to have `value_bytes`.
///
/// # Errors
/// The trace's.
pub fn observe<R: Read>(
    mut reader: Reader<R>,
    (loading, operations_max): (u64, u64),
    value_bytes: u32,
) -> evendb_trace::Result<Load> {
    let mut pass = Pass::new();
    let last = loading.saturating_add(operations_max);
    let mut count = 0;
    while let Some(operation) = reader.next()? {
        if count == last {
            pass.load.goes_on = true;
            break;
        }
        pass.take(operation, count < loading);
        count += 1;
    }
    pass.load.read = count;
    pass.load.losses = reader.losses();
    Ok(pass.finish(value_bytes))
}

#[derive(Default)]
struct Note {
    accesses: u64,
    /// Whether there is a record, as far as the trace tells.
    is_there: bool,
    /// The length of its value, while there is one and it is known.
    value: Option<u64>,
}

impl Note {
    /// Updates the state of the key after this operation.
    fn take(&mut self, operation: &Operation, value_len: Option<u64>) {
        match (operation.kind, operation.outcome) {
            (Kind::Delete | Kind::SingleDelete, _) | (_, Outcome::Absent) => {
                (self.is_there, self.value) = (false, None);
            }
            (Kind::Merge, _) => {
                (self.is_there, self.value) = (true, self.value.max(value_len));
            }
            // An operation without a length leaves the length that an earlier one told.
            _ => (self.is_there, self.value) = (true, value_len.or(self.value)),
        }
    }
}

struct Pass {
    load: Load,
    compressible: Compressible,
    keys: HashMap<Vec<u8>, Note>,
    /// A key is in the sample if its hash is at most this.
    highest: u64,
    key_lengths: (u64, u64),
    values: Histogram<u64>,
    /// The sum of the lengths of values and their number, for the load and for the loading phase.
    value_lengths: [(f64, u64); 2],
    greatest: Vec<u8>,
    puts: u64,
    appended: u64,
    /// Writes of keys of the sample, and writes among them that write over a record. Each counts
    /// for `one_in` writes.
    sampled_writes: f64,
    overwrites: f64,
}

impl Pass {
    fn new() -> Pass {
        Pass {
            load: Load::default(),
            compressible: Compressible::default(),
            keys: HashMap::new(),
            highest: u64::MAX,
            key_lengths: (0, 0),
            value_lengths: [(0.0, 0); 2],
            values: Histogram::new(2).expect("two digits are allowed"),
            greatest: Vec::new(),
            puts: 0,
            appended: 0,
            sampled_writes: 0.0,
            overwrites: 0.0,
        }
    }

    fn take(&mut self, operation: &Operation, is_loading: bool) {
        if matches!(operation.outcome, Outcome::Failed(_)) {
            return;
        }
        let found = match operation.outcome {
            Outcome::Present { len, .. } => len,
            _ => None,
        };
        let value_len = operation.value_len.or(found);
        if let Some(value) = &operation.value {
            self.load.has_values = true;
            self.compressible.add(value);
        }
        self.load.has_merges |= operation.kind == Kind::Merge;
        let puts = matches!(operation.kind, Kind::Put | Kind::Ingest | Kind::Merge);
        self.load.makes_up_values |= puts && value_len.is_none() && operation.value.is_none();
        match is_loading {
            true => self.load.loading += 1,
            false => self.count(operation, value_len),
        }
        if operation.kind.is_point_read() || operation.kind.is_point_write() {
            if let Some(len) = value_len {
                let (sum, count) = &mut self.value_lengths[usize::from(is_loading)];
                (*sum, *count) = (*sum + len as f64, *count + 1);
            }
            self.key(operation, value_len, is_loading);
        }
    }

    fn count(&mut self, operation: &Operation, value_len: Option<u64>) {
        let load = &mut self.load;
        load.operations += 1;
        let kind = operation.kind;
        if kind.is_point_read() {
            load.point_reads += 1;
            let known = !matches!(operation.outcome, Outcome::Unknown | Outcome::Done);
            load.answered += u64::from(known);
            load.absent += u64::from(operation.outcome == Outcome::Absent);
        } else if kind.is_point_write() {
            load.writes += 1;
            load.merges += u64::from(kind == Kind::Merge);
        } else if kind == Kind::Scan {
            load.scans += 1;
            // A limit beyond all numbers is no limit.
            let limit = operation.limit.filter(|limit| *limit < u64::from(u32::MAX));
            let records = operation.count.or(limit);
            load.scans_untold += u64::from(records.is_none());
            load.scanned += records.unwrap_or(0);
        } else {
            load.others += 1;
        }
        let is_point = kind.is_point_read() || kind.is_point_write();
        if let Some(len) = value_len.filter(|_| is_point) {
            // The histogram grows when it must. Lengths that no store takes are not counted.
            let _ = self.values.record(len.min(1 << 40));
        }
        if matches!(kind, Kind::Put | Kind::Ingest) {
            self.puts += 1;
            if operation.key > self.greatest {
                self.appended += 1;
                self.greatest.clone_from(&operation.key);
            }
        }
    }

    fn key(&mut self, operation: &Operation, value_len: Option<u64>, is_loading: bool) {
        self.key_lengths.0 += operation.key.len() as u64;
        self.key_lengths.1 += 1;
        let mut key = operation.keyspace.to_le_bytes().to_vec();
        key.extend_from_slice(&operation.key);
        if value_hash(&key) > self.highest {
            return;
        }
        // A read that comes first may find a record that a replay has to put before. For keys that
        // are not in the sample, nobody knows which operation is the first.
        let is_first = self.highest < u64::MAX || !self.keys.contains_key(&key);
        let may_find = operation.kind.is_point_read() && operation.outcome != Outcome::Absent;
        self.load.makes_up_values |= is_first && may_find && value_len.is_none();
        let note = self.keys.entry(key).or_default();
        note.accesses += u64::from(!is_loading);
        if operation.kind.is_point_write() && !is_loading {
            let weight = u64::MAX as f64 / self.highest as f64;
            let removes = matches!(operation.kind, Kind::Delete | Kind::SingleDelete);
            self.sampled_writes += weight;
            self.overwrites += weight * f64::from(u8::from(note.is_there && !removes));
        }
        note.take(operation, value_len);
        if self.keys.len() > KEYS_MAX {
            self.highest /= 2;
            let highest = self.highest;
            self.keys.retain(|key, _| value_hash(key) <= highest);
        }
    }

    fn finish(mut self, value_bytes: u32) -> Load {
        let one_in = (u64::MAX / self.highest.max(1)).max(1);
        let mut keys: Vec<_> = self.keys.drain().collect();
        let load = &mut self.load;
        load.compressed = self.compressible.ratio();
        load.one_in = one_in;
        load.keys = keys.len() as u64 * one_in;
        load.key_bytes = self.key_lengths.0 as f64 / self.key_lengths.1.max(1) as f64;
        // If the load tells no length, the loading phase may tell one.
        let known = self.value_lengths.iter().find(|(_, count)| *count > 0);
        load.value_bytes_known = known.is_some();
        load.value_bytes = known.map_or(value_bytes.into(), |(sum, count)| sum / *count as f64);
        load.value_bytes_p90 = match self.values.is_empty() {
            true => load.value_bytes.ceil() as u64,
            false => self.values.value_at_quantile(0.9),
        };
        let records = keys.iter().filter(|(_, note)| note.is_there);
        let (mut bytes, mut unknown) = (0, 0);
        for (key, note) in records {
            bytes += (key.len() - size_of::<u32>()) as u64 + note.value.unwrap_or(0);
            unknown += u64::from(note.value.is_none());
        }
        load.unknown_lengths = unknown * one_in;
        load.data_bytes =
            bytes * one_in + (load.unknown_lengths as f64 * load.value_bytes).round() as u64;
        load.overwrites = self.overwrites / self.sampled_writes.max(1.0);
        load.appended = self.appended as f64 / self.puts.max(1) as f64;
        keys.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let accesses = keys
            .iter()
            .map(|(_, note)| note.accesses)
            .collect::<Vec<_>>();
        let ranges = accesses.chunks(accesses.len().div_ceil(RANGES).max(1));
        let ranges: Vec<u64> = ranges.map(|range| range.iter().sum()).collect();
        load.hottest_ranges_10 = share_of_hottest(ranges, 10);
        load.hottest_1 = share_of_hottest(accesses.clone(), 100);
        let sum: u64 = accesses.iter().sum();
        load.even_10 = even_share(sum as f64 / accesses.len().max(1) as f64, 0.1);
        load.hottest_10 = share_of_hottest(accesses, 10);
        self.load
    }
}

/// The share of the sum that the greatest counts have. One count in `one_in` is among them, and at
/// least one.
fn share_of_hottest(mut counts: Vec<u64>, one_in: usize) -> f64 {
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let sum: u64 = counts.iter().sum();
    let hottest: u64 = counts.iter().take(counts.len().div_ceil(one_in)).sum();
    hottest as f64 / sum.max(1) as f64
}

/// The share of accesses that the hottest keys get by chance. They are `part` of all keys, each key
/// gets `mean` accesses on average, and no key is preferred: counts have a Poisson distribution
/// then.
fn even_share(mean: f64, part: f64) -> f64 {
    if mean > 500.0 || mean <= 0.0 {
        return part;
    }
    // Begins with the share of keys without an access. What is above the cold keys stays.
    let (mut share, mut cold, mut count) = ((-mean).exp(), 1.0 - part, 0.0);
    let mut accesses_of_cold = 0.0;
    while cold > 0.0 && count < mean + 40.0 * mean.sqrt() + 40.0 {
        let taken = cold.min(share);
        accesses_of_cold += taken * count;
        cold -= taken;
        count += 1.0;
        share *= mean / count;
    }
    1.0 - accesses_of_cold / mean
}
