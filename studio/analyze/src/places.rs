//! How the keys of a keyspace are cut into parts, by their number, their sizes and their first
//! bytes.
//!
//! ```text
//!   keys in order:  a  a1 a2 b  b1 c  c1 c2 d ...     ids 0, 1, 2 ...
//!   n parts:        [ 0     ][ 1     ][ 2  ...       part = id * n / keys: sizes differ by <= 1
//!   blocks, chunks: [ 0  ][ 1  ][ 2  ][ 3  ...        unit = id / pairs in a unit
//!   prefixes:       [ a     ][ b  ][ c     ][ d ...   the shortest length at which there are many
//! ```
//! Keys of the store's list ([`crate::stored`]) are among the keys that are cut, even if nobody
//! asked for them. The sizes of a pair are those of its key and value, without what a store adds.
//! If no operation tells the length of a value, it is taken to be the mean of the others of its
//! keyspace, or 0 if there are no others.
//!
//! Memory: a few numbers for each keyspace, and one for each length of a common beginning of keys.

use crate::error::Result;
use crate::functions;
use crate::stored::STORED;
use crate::tables::READ_KINDS;
use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use std::sync::Arc;

/// How the key space is cut, and how much of it is sampled.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The number of ranges of the key space, from 1 on. If not given, the number of sorted files
    /// of [`FILE_BYTES`] that it would fill.
    pub ranges: Option<u64>,
    /// Length of the prefixes that group keys. If not given, the shortest length at which there are
    /// [`PREFIXES_MIN`] prefixes.
    pub prefix_bytes: Option<u64>,
    /// Bytes of a block of pairs.
    pub block_bytes: u64,
    /// Bytes of a chunk of pairs.
    pub chunk_bytes: u64,
    /// At most this number of units of each grain and keyspace is followed through the trace, and
    /// the same number of keys for pairs of operations. With many keyspaces fewer are followed, so
    /// that all together are at most [`UNITS_MAX`].
    pub sampled_units: usize,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut {
            ranges: None,
            prefix_bytes: None,
            block_bytes: 4 << 10,
            chunk_bytes: 10 << 20,
            sampled_units: 32 << 10,
        }
    }
}

/// Bytes of a sorted file, which give the number of ranges: in the study a range has the number of
/// pairs of a file.
pub const FILE_BYTES: u64 = 64 << 20;
/// The number of different prefixes that is looked for.
pub const PREFIXES_MIN: u64 = 64;
/// The highest number of sampled units of one grain in all keyspaces.
pub const UNITS_MAX: usize = 1 << 20;
/// Bounds of the number of ranges, if it is not given.
const RANGES: (u64, u64) = (30, 4096);
/// The number of parts of the key space that give operations their place.
const FINE: u64 = 4000;
/// Parts of the key space in a plot of accesses. A divisor of [`FINE`].
const PARTS: u64 = 500;
/// Parts of the key space in a plot of accesses and time. A divisor of [`FINE`].
const HEAT: u64 = 200;
/// Only this number of keyspaces, the ones with the highest number of accesses, is in plots that
/// have many points of each.
const PLOTTED: usize = 12;

/// The keys of one keyspace.
#[derive(Default)]
struct Keyspace {
    name: String,
    keys: u64,
    accesses: u64,
    reads: u64,
    /// The number of keys that were accessed; that were read; that the store has by the list; and
    /// of listed keys that were accessed.
    named: u64,
    read_keys: u64,
    stored: u64,
    stored_named: u64,
    /// What the rows said of the last key.
    last: Seen,
    key_bytes: u64,
    values: u64,
    value_bytes: f64,
    /// By the number of bytes that a key has in common with the key before: the number of such
    /// keys.
    alike: Vec<u64>,
}

/// What is known of one key.
#[derive(Clone, Copy, Default)]
struct Seen {
    is_named: bool,
    is_read: bool,
    is_stored: bool,
}

/// The counts of keys that came in order.
#[derive(Default)]
pub(crate) struct Counted {
    keyspaces: Vec<Keyspace>,
    last: Vec<u8>,
}

impl Counted {
    /// Counts rows of `keys` and gives them an `id`.
    pub(crate) fn number(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        let keyspaces = functions::text(&rows, "keyspace")?;
        let keys = functions::bytes(&rows, "key")?;
        let kinds = functions::text(&rows, "kind")?;
        let accesses = functions::numbers(&rows, "accesses")?;
        let values = rows.column_by_name("value_bytes");
        let values = values.map(|values| cast(values, &DataType::Float64));
        let values = values.transpose()?;
        let mut ids = Vec::with_capacity(rows.num_rows());
        for (row, (keyspace, key)) in keyspaces.iter().zip(keys.iter()).enumerate() {
            let value = values.as_ref().filter(|values| values.is_valid(row));
            let value = value.map(|values| values.as_primitive::<Float64Type>().value(row));
            let (keyspace, key) = (keyspace.unwrap_or_default(), key.unwrap_or_default());
            ids.push(self.add(keyspace, key, value));
            self.count(kinds.value(row), accesses[row]);
        }
        let schema = rows.schema();
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("id", DataType::UInt64, false)));
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from(ids)));
        Ok(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?)
    }

    /// A row of a key: its id.
    fn add(&mut self, name: &str, key: &[u8], value: Option<f64>) -> u64 {
        let is_known = self.keyspaces.last().is_some_and(|last| last.name == name);
        if !is_known {
            self.keyspaces.push(Keyspace {
                name: name.to_owned(),
                ..Keyspace::default()
            });
            self.last.clear();
        }
        let at = self.keyspaces.len() - 1;
        let keyspace = &mut self.keyspaces[at];
        if let Some(bytes) = value {
            keyspace.values += 1;
            keyspace.value_bytes += bytes;
        }
        if keyspace.keys > 0 && self.last == key {
            return keyspace.keys - 1;
        }
        let alike = key.iter().zip(&self.last).take_while(|(a, b)| a == b);
        let alike = alike.count();
        if keyspace.alike.len() <= alike {
            keyspace.alike.resize(alike + 1, 0);
        }
        keyspace.alike[alike] += 1;
        keyspace.keys += 1;
        keyspace.last = Seen::default();
        keyspace.key_bytes += key.len() as u64;
        key.clone_into(&mut self.last);
        keyspace.keys - 1
    }

    /// Counts the accesses of the key that was added last, or that the store has it. There is one
    /// row of a kind.
    fn count(&mut self, kind: &str, accesses: u64) {
        let Some(keyspace) = self.keyspaces.last_mut() else {
            return;
        };
        let before = keyspace.last;
        keyspace.accesses += accesses;
        if kind == STORED {
            keyspace.stored += 1;
            keyspace.last.is_stored = true;
        } else {
            keyspace.named += u64::from(!before.is_named);
            keyspace.last.is_named = true;
        }
        if READ_KINDS.contains(&kind) {
            keyspace.reads += accesses;
            keyspace.read_keys += u64::from(!before.is_read);
            keyspace.last.is_read = true;
        }
        let is_both = |seen: Seen| seen.is_named && seen.is_stored;
        keyspace.stored_named += u64::from(is_both(keyspace.last) && !is_both(before));
    }

    /// The table `places`.
    pub(crate) fn places(&self, cut: &Cut) -> Result<RecordBatch> {
        let mut by_accesses: Vec<u64> = self.keyspaces.iter().map(|one| one.accesses).collect();
        by_accesses.sort_unstable_by(|a, b| b.cmp(a));
        let plotted = by_accesses.get(PLOTTED - 1).copied().unwrap_or_default();
        let units = UNITS_MAX / self.keyspaces.len().max(1);
        let units = cut.sampled_units.min(units).max(1) as u64;
        let all = &self.keyspaces;
        let number = |of: &dyn Fn(&Keyspace) -> u64| -> ArrayRef {
            Arc::new(all.iter().map(|one| Some(of(one))).collect::<UInt64Array>())
        };
        let real = |of: &dyn Fn(&Keyspace) -> f64| -> ArrayRef {
            Arc::new(
                all.iter()
                    .map(|one| Some(of(one)))
                    .collect::<Float64Array>(),
            )
        };
        let names: StringArray = all.iter().map(|one| Some(one.name.as_str())).collect();
        let plots: BooleanArray = all
            .iter()
            .map(|one| Some(one.accesses >= plotted))
            .collect();
        let columns: [(&str, ArrayRef); 18] = [
            ("keyspace", Arc::new(names)),
            ("keys", number(&|one| one.keys)),
            ("named", number(&|one| one.named)),
            ("stored", number(&|one| one.stored)),
            ("stored_named", number(&|one| one.stored_named)),
            ("pair_bytes", real(&Keyspace::pair_bytes)),
            ("ranges", number(&|one| one.ranges(cut))),
            ("fine", number(&|one| one.keys.min(FINE))),
            ("parts", number(&|one| one.keys.min(PARTS))),
            ("heat", number(&|one| one.keys.min(HEAT))),
            ("block_pairs", number(&|one| one.pairs_in(cut.block_bytes))),
            ("chunk_pairs", number(&|one| one.pairs_in(cut.chunk_bytes))),
            ("prefix_bytes", number(&|one| one.prefix_bytes(cut))),
            ("prefixes", number(&|one| one.prefixes(cut))),
            ("reads_per_key", real(&Keyspace::reads_per_key)),
            ("sampled_units", number(&|_| units)),
            (
                "sampled_share",
                real(&|one| (units as f64 / one.named as f64).min(1.0)),
            ),
            ("plotted", Arc::new(plots)),
        ];
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}

impl Keyspace {
    fn pair_bytes(&self) -> f64 {
        let value = self.value_bytes / self.values.max(1) as f64;
        (self.key_bytes as f64 / self.keys as f64 + value).max(1.0)
    }

    /// The number of pairs that fill this number of bytes.
    fn pairs_in(&self, bytes: u64) -> u64 {
        ((bytes as f64 / self.pair_bytes()).round() as u64).clamp(1, self.keys)
    }

    /// The mean number of reads of a key, over keys that were read.
    fn reads_per_key(&self) -> f64 {
        self.reads as f64 / self.read_keys.max(1) as f64
    }

    /// The number of different prefixes of this length.
    fn prefixes(&self, cut: &Cut) -> u64 {
        let length = usize::try_from(self.prefix_bytes(cut)).unwrap_or(usize::MAX);
        self.alike.iter().take(length).sum()
    }

    fn ranges(&self, cut: &Cut) -> u64 {
        let files = self.keys as f64 * self.pair_bytes() / FILE_BYTES as f64;
        let found = || (files.ceil() as u64).clamp(RANGES.0, RANGES.1);
        cut.ranges.unwrap_or_else(found).clamp(1, self.keys)
    }

    /// The shortest length at which there are enough different prefixes; 1 if there are too few
    /// keys.
    fn prefix_bytes(&self, cut: &Cut) -> u64 {
        let enough = PREFIXES_MIN.min(self.keys);
        let found = || {
            let prefixes = self.alike.iter().scan(0, |so_far, alike| {
                *so_far += alike;
                Some(*so_far)
            });
            let lengths = (1..).zip(prefixes);
            let mut enough = lengths.filter(|(_, prefixes)| *prefixes >= enough);
            enough.next().map_or(1, |(length, _)| length)
        };
        cut.prefix_bytes.unwrap_or_else(found).max(1)
    }
}

/// A row of `places`. Its fields have the names of the columns.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) keyspace: String,
    pub(crate) pair_bytes: f64,
    pub(crate) block_pairs: u64,
    pub(crate) chunk_pairs: u64,
    pub(crate) prefix_bytes: u64,
    /// The mean number of keys that begin alike.
    pub(crate) prefix_pairs: f64,
    /// The mean number of reads of a key, over keys that were read.
    pub(crate) reads_per_key: f64,
    pub(crate) sampled_units: usize,
}

impl Place {
    /// The rows of `places`.
    pub(crate) fn all(batches: &[RecordBatch]) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for rows in batches {
            let keyspaces = functions::text(rows, "keyspace")?;
            let number = |name| functions::numbers(rows, name);
            let (block, chunk) = (number("block_pairs")?, number("chunk_pairs")?);
            let (prefix, sampled) = (number("prefix_bytes")?, number("sampled_units")?);
            let (keys, prefixes) = (number("keys")?, number("prefixes")?);
            let real = |name| functions::reals(rows, name);
            let (bytes, per_key) = (real("pair_bytes")?, real("reads_per_key")?);
            for row in 0..rows.num_rows() {
                places.push(Place {
                    keyspace: keyspaces.value(row).to_owned(),
                    pair_bytes: bytes[row],
                    block_pairs: block[row],
                    chunk_pairs: chunk[row],
                    prefix_bytes: prefix[row],
                    prefix_pairs: keys[row] as f64 / prefixes[row] as f64,
                    reads_per_key: per_key[row],
                    sampled_units: usize::try_from(sampled[row]).unwrap_or(usize::MAX),
                });
            }
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(keys: &[&[u8]]) -> Counted {
        let mut counted = Counted::default();
        for key in keys {
            counted.add("k", key, None);
        }
        counted
    }

    #[test]
    fn prefixes_are_counted_as_if_each_length_was_tried() {
        let mut keys: Vec<Vec<u8>> = (0..3000u32)
            .map(|n| format!("k{:x}", n * n % 7919).into_bytes())
            .collect();
        keys.extend([vec![], vec![0xff; 9], vec![0xff; 10], b"k".to_vec()]);
        keys.sort();
        keys.dedup();
        let counted = counted(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let different = |length: usize| {
            let prefixes = keys.iter().map(|key| &key[..length.min(key.len())]);
            prefixes.collect::<std::collections::BTreeSet<_>>().len() as u64
        };
        let right = (1..).find(|&length| different(length) >= PREFIXES_MIN);
        let found = counted.keyspaces[0].prefix_bytes(&Cut::default());
        assert_eq!(found, right.unwrap() as u64);
        let prefixes = counted.keyspaces[0].prefixes(&Cut::default());
        assert_eq!(prefixes, different(right.unwrap()));
        assert!(found > 1);
    }

    #[test]
    fn ids_are_of_keys_and_not_of_rows() {
        let mut counted = Counted::default();
        let rows: [(&str, &[u8]); 6] = [
            ("a", b""),
            ("a", b""),
            ("a", b"x"),
            ("b", b""),
            ("b", b"\xff"),
            ("b", b"\xff"),
        ];
        let ids = rows.map(|(keyspace, key)| counted.add(keyspace, key, Some(10.0)));
        assert_eq!(ids, [0, 0, 1, 0, 1, 1]);
        assert_eq!(counted.keyspaces[1].pair_bytes(), 10.5);
    }
}
