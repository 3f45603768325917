//! Where functions look keys up: small sorted lists of keys, read from a Parquet file once in a
//! process.
//!
//! * borders: `keyspace`, `id`, `key`: the first key of each part of the key space, in key order.
//! * units: `keyspace`, `ordinal`, `grain`, `unit`, `first_key`, `last_key`: the sampled units of
//!   each grain, in key order.
//!
//! A file that was read stays in memory until [`KEPT`] other files were read. A file with the same
//! name but another length or time is read again. Threads: the list of files is behind a lock,
//! which is held while a file is read.

use crate::error::{Error, Result};
use arrow::array::cast::AsArray;
use arrow::array::{Array, BinaryViewArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt32Type, UInt64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

#[expect(
    clippy::disallowed_types,
    reason = "loom and shuttle do not run the analysis"
)]
type Lock<T> = std::sync::Mutex<T>;

/// The grains of accesses: a pair, a block, a chunk, and all keys of a prefix.
pub(crate) const GRAINS: [&str; 4] = ["row", "block", "chunk", "prefix"];

/// At most this number of files stays in memory.
const KEPT: usize = 4;

/// Keys in order, in one piece of memory.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[at]]
    }

    /// The number of keys at or before `key`. The keys are in order.
    fn up_to(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) <= key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// The parts of one keyspace.
#[derive(Default)]
pub(super) struct Borders {
    keys: Keys,
    ids: Vec<u64>,
}

impl Borders {
    /// The id of the first key of the part that holds `key`. None before the first part.
    pub(super) fn id_at(&self, key: &[u8]) -> Option<u64> {
        let at = self.keys.up_to(key).checked_sub(1)?;
        Some(self.ids[at])
    }
}

/// The sampled units of one grain of one keyspace.
#[derive(Default)]
struct Units {
    first: Keys,
    last: Keys,
    units: Vec<u32>,
}

/// The sampled units of one keyspace.
#[derive(Default)]
pub(super) struct Sampled {
    pub(super) ordinal: u32,
    grains: [Units; GRAINS.len()],
}

impl Sampled {
    /// The unit of the n-th grain that holds `key`, if it is in the sample.
    pub(super) fn unit(&self, grain: usize, key: &[u8]) -> Option<u32> {
        let units = &self.grains[grain];
        let at = units.first.up_to(key).checked_sub(1)?;
        (key <= units.last.get(at)).then(|| units.units[at])
    }
}

/// Data of each keyspace.
pub(super) type ByKeyspace<T> = BTreeMap<String, T>;

/// Files that were read, the last one first.
pub(super) struct Files<T>(Lock<VecDeque<(Name, Arc<ByKeyspace<T>>)>>);

type Name = (PathBuf, u64, Option<SystemTime>);

pub(super) static BORDERS: Files<Borders> = Files(Lock::new(VecDeque::new()));
pub(super) static SAMPLED: Files<Sampled> = Files(Lock::new(VecDeque::new()));

impl<T: Read> Files<T> {
    /// The content of the file.
    pub(super) fn get(&self, path: &str) -> Result<Arc<ByKeyspace<T>>> {
        let failed = |error| Error::io(format_args!("cannot open {path}"), error);
        let metadata = fs::metadata(path).map_err(failed)?;
        let name = (
            PathBuf::from(path),
            metadata.len(),
            metadata.modified().ok(),
        );
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = files.iter().find(|(known, _)| *known == name) {
            return Ok(Arc::clone(found));
        }
        let file = File::open(path).map_err(failed)?;
        let mut read = ByKeyspace::new();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
            T::read(&mut read, &batch?)?;
        }
        let read = Arc::new(read);
        files.retain(|((path, ..), _)| path != Path::new(&name.0));
        files.push_front((name, Arc::clone(&read)));
        files.truncate(KEPT);
        Ok(read)
    }
}

/// The form in which a file is read.
pub(super) trait Read: Sized {
    /// Adds rows of the file.
    fn read(to: &mut ByKeyspace<Self>, rows: &RecordBatch) -> Result<()>;
}

impl Read for Borders {
    fn read(to: &mut ByKeyspace<Borders>, rows: &RecordBatch) -> Result<()> {
        let (keyspaces, ids) = (text(rows, "keyspace")?, numbers(rows, "id")?);
        let keys = bytes(rows, "key")?;
        for (row, id) in ids.into_iter().enumerate() {
            let borders = to.entry(keyspaces.value(row).to_owned()).or_default();
            borders.keys.push(keys.value(row));
            borders.ids.push(id);
        }
        Ok(())
    }
}

impl Read for Sampled {
    fn read(to: &mut ByKeyspace<Sampled>, rows: &RecordBatch) -> Result<()> {
        let keyspaces = text(rows, "keyspace")?;
        let ordinals = small_numbers(rows, "ordinal")?;
        let (grains, units) = (small_numbers(rows, "grain")?, small_numbers(rows, "unit")?);
        let (first, last) = (bytes(rows, "first_key")?, bytes(rows, "last_key")?);
        for row in 0..rows.num_rows() {
            let sampled = to.entry(keyspaces.value(row).to_owned()).or_default();
            sampled.ordinal = ordinals[row];
            let grain = sampled.grains.get_mut(grains[row] as usize);
            let grain = grain.ok_or_else(|| Error::Query("no such grain".into()))?;
            grain.first.push(first.value(row));
            grain.last.push(last.value(row));
            grain.units.push(units[row]);
        }
        Ok(())
    }
}

fn column(rows: &RecordBatch, name: &str, of: &DataType) -> Result<Arc<dyn Array>> {
    let column = rows.column_by_name(name);
    let column = column.ok_or_else(|| Error::Query(format!("there is no column {name}")))?;
    Ok(cast(column, of)?)
}

/// A column of text.
pub(crate) fn text(rows: &RecordBatch, name: &str) -> Result<StringViewArray> {
    Ok(column(rows, name, &DataType::Utf8View)?
        .as_string_view()
        .clone())
}

/// A column of bytes.
pub(crate) fn bytes(rows: &RecordBatch, name: &str) -> Result<BinaryViewArray> {
    Ok(column(rows, name, &DataType::BinaryView)?
        .as_binary_view()
        .clone())
}

/// A column of numbers without null.
pub(crate) fn numbers(rows: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    let column = column(rows, name, &DataType::UInt64)?;
    Ok(column.as_primitive::<UInt64Type>().values().to_vec())
}

/// A column of real numbers without null.
pub(crate) fn reals(rows: &RecordBatch, name: &str) -> Result<Vec<f64>> {
    let column = column(rows, name, &DataType::Float64)?;
    Ok(column.as_primitive::<Float64Type>().values().to_vec())
}

fn small_numbers(rows: &RecordBatch, name: &str) -> Result<Vec<u32>> {
    let column = column(rows, name, &DataType::UInt32)?;
    Ok(column.as_primitive::<UInt32Type>().values().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_part_that_begins_at_or_before_it() {
        let mut borders = Borders::default();
        for (id, key) in [(3, &b""[..]), (5, b"b"), (9, b"b\0"), (11, b"\xff\xff")] {
            borders.keys.push(key);
            borders.ids.push(id);
        }
        let id = |key: &[u8]| borders.id_at(key).unwrap();
        assert_eq!([id(b""), id(b"a"), id(b"b")], [3, 3, 5]);
        assert_eq!([id(b"b\0"), id(b"b\0\0"), id(b"\xff\xff\xff")], [9, 9, 11]);
        assert_eq!(Borders::default().id_at(b"a"), None);
    }
}
