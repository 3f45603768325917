//! Copied files are verified before the copy counts: a damaged source must not become the only copy
//! that is left.
//!
//! A table is read again from the copy's file, past everything in memory, block by block against
//! its checksums; and so are the values that it names in value files.
//!
//! Thread safety: belongs to one copy.

use crate::error::{Error, ErrorKind, Result};
use crate::files::in_container;
use crate::manifest::edit::{Part, Place};
use crate::sync::{Arc, thread};
use crate::tables::table_path;
use crate::value_files;
use evendb_storage::table::Table;
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Apart, Error as StorageError};
use std::path::Path;
use std::time::{Duration, Instant};

/// The default of [`CopyOptions::verify_rate`], in bytes per second.
const RATE: u64 = 128 << 20;
/// The number of bytes that are read between two rests.
const STEP_BYTES: u64 = 1 << 20;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(1);
/// A reader that was slower than allowed catches up at most this time.
const CREDIT: Duration = Duration::from_millis(100);

/// Which files of a copy or a backup are verified when it is made: see [`CopyOptions::verify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyCheck {
    /// No file. Damage of the database comes into the copy unnoticed.
    Nothing,
    /// All files that no verified backup has already. This is the default.
    #[default]
    New,
    /// As `New`, and files that a backup would share with the one before are first compared with
    /// the list of that backup; a file that differs is taken from the database instead.
    All,
}

/// Options of a copy or a backup: [`Db::copy_to_with`](crate::Db::copy_to_with),
/// [`Db::backup_with`](crate::Db::backup_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    pub(crate) check: CopyCheck,
    rate: u64,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            check: CopyCheck::New,
            rate: RATE,
        }
    }
}

impl CopyOptions {
    /// New files are verified, at most at 128 MiB per second.
    #[must_use]
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    /// Sets which files are verified against the checksums of the database, by reading them from
    /// the disk. Damage fails the call with `Corruption`, which names the file and the offset.
    #[must_use]
    pub fn verify(mut self, check: CopyCheck) -> Self {
        self.check = check;
        self
    }

    /// Sets the largest number of bytes per second that are read to verify them; 0 sets no limit.
    /// Less than 1 MiB per second counts as 1 MiB. The calling thread rests in between, so that it
    /// leaves disk and processor to others.
    #[must_use]
    pub fn verify_rate(mut self, bytes_per_second: u64) -> Self {
        self.rate = bytes_per_second;
        self
    }

    pub(crate) fn pace(&self) -> ReadPace {
        ReadPace {
            rate: self.rate,
            begun: Instant::now(),
            bytes: 0,
            since_rest: 0,
            total: 0,
        }
    }
}

/// Bounds the rate of reads for verification.
pub(crate) struct ReadPace {
    /// Bytes per second.
    rate: u64,
    begun: Instant,
    /// Bytes read since then.
    bytes: u64,
    since_rest: u64,
    /// All bytes read.
    pub(crate) total: u64,
}

impl ReadPace {
    /// Notes that bytes were read, and rests if they came faster than allowed.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        self.since_rest = self.since_rest.saturating_add(bytes);
        if self.rate == 0 || self.since_rest < STEP_BYTES {
            return;
        }
        self.since_rest = 0;
        let passed = self.begun.elapsed();
        let due = time_of(self.bytes, self.rate);
        if due > passed {
            thread::sleep((due - passed).min(REST_MAX));
        }
        if passed > due + CREDIT || due > passed + REST_MAX {
            (self.begun, self.bytes) = (Instant::now(), 0);
        }
    }
}

/// The time for `bytes` at a rate that is not 0.
fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The files with tables and values.
#[derive(Clone, Copy)]
pub(super) struct Lying<'l> {
    pub(super) vfs: &'l dyn Vfs,
    pub(super) dir: &'l Path,
    pub(super) container: &'l Arc<dyn File>,
}

impl Lying<'_> {
    /// Reads all of a table, and the values that it names, and returns an error if anything does
    /// not verify. `place` is the table's place in these files.
    pub(super) fn verify(&self, part: &Part, place: Place, pace: &mut ReadPace) -> Result<()> {
        let (file, offset) = match place {
            Place::Extent { offset } => (self.container.clone(), in_container(offset).1),
            Place::File => (self.open(&table_path(self.dir, part.table))?, 0),
        };
        let path = file.path().to_owned();
        if place == Place::File {
            let failed = |source| StorageError::io(&path, "ask for the length of", source);
            let len = file.len().map_err(failed)?;
            if len != part.meta.len {
                let what = format!("{len} bytes instead of {}", part.meta.len);
                let at = len.min(part.meta.len);
                return Err(StorageError::corruption(&path, at, what).into());
            }
        }
        // Opened for this alone: copies in memory say nothing about the disk.
        let table = Table::open(file, offset, part.meta.len, part.table)?;
        if !part.is_of(table.meta()) {
            let what = "not the table that the manifest names";
            return Err(StorageError::corruption(&path, offset, what).into());
        }
        let mut values = Vec::new();
        table.verify_each(&mut |entry| {
            values.extend(Apart::of(entry.kind, entry.value));
            pace.note((entry.key.len() + entry.value.len()) as u64);
        })?;
        values.sort_unstable_by_key(|value| (value.file, value.offset));
        self.values(&values, pace)
    }

    fn values(&self, values: &[Apart], pace: &mut ReadPace) -> Result<()> {
        for of_one in values.chunk_by(|a, b| a.file == b.file) {
            let path = value_files::file_path(self.dir, of_one[0].file);
            let file = self.open(&path)?;
            for value in of_one {
                value_files::read_value(&*file, &path, value)?;
                pace.note(u64::from(value.len));
            }
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let opened = self.vfs.open(path, false);
        Ok(
            opened
                .map_err(|source| StorageError::open(path, "open a file to verify it", source))?,
        )
    }
}

/// The error of a copy that does not verify: the error of the source, if the damage comes from
/// there.
pub(super) fn whose(copied: Result<()>, source: impl FnOnce() -> Result<()>) -> Result<()> {
    let error = match copied {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    source()?;
    let what = "the source verifies, and the copy that was made of it does not";
    Err(match error.kind() {
        ErrorKind::Corruption => Error::with_source(ErrorKind::Corruption, what, error),
        _ => error,
    })
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_rate_says_how_long_bytes_take_and_no_number_is_too_large() {
        assert_eq!(time_of(RATE, RATE), Duration::from_secs(1));
        assert_eq!(time_of(3 << 20, 2 << 20), Duration::from_millis(1500));
        assert_eq!(time_of(0, 1), Duration::ZERO);
        for rate in [0, 1, u64::MAX - 1, u64::MAX] {
            assert!(time_of(u64::MAX, rate) >= Duration::from_millis(999));
            assert!(time_of(u64::MAX, rate) <= Duration::from_nanos(u64::MAX));
            let mut pace = CopyOptions::new().verify_rate(rate).pace();
            pace.note(STEP_BYTES - 1);
            assert_eq!(pace.total, STEP_BYTES - 1);
        }
        let mut pace = CopyOptions::new().verify_rate(u64::MAX).pace();
        pace.note(u64::MAX);
        pace.note(u64::MAX);
        assert_eq!(pace.total, u64::MAX);
    }

    #[test]
    fn damage_is_told_of_the_source_where_it_is_the_sources() {
        let damage = |path: &str| -> Result<()> {
            Err(StorageError::corruption(Path::new(path), 7, "damaged").into())
        };
        let of_source = whose(damage("/copy/a"), || damage("/db/a")).unwrap_err();
        assert!(of_source.to_string().contains("/db/a"), "{of_source}");
        let of_copy = whose(damage("/copy/a"), || Ok(())).unwrap_err();
        assert_eq!(of_copy.kind(), ErrorKind::Corruption);
        assert!(of_copy.to_string().contains("the copy"), "{of_copy}");
        assert!(whose(Ok(()), || damage("/db/a")).is_ok());
    }
}
