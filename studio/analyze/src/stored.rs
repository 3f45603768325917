//! All keys of the store, if somebody lists them: the table `stored`, from which `keys` is made.
//!
//! The list is a text that [`KeyLines`] reads, with the keys of one keyspace. If a trace has one
//! key in n, the same keys in n are taken from the list. A key that is listed twice is two rows.
//!
//! | column | what |
//! |---|---|
//! | `keyspace` | that of the list, the same in all rows |
//! | `key` | a key |
//!
//! Memory: a batch of rows, and one group of rows of the file.

use crate::error::{Error, Result};
use crate::operations::{BATCH_BYTES, Summary};
use crate::tables;
use arrow::array::{ArrayRef, BinaryBuilder, RecordBatch, StringArray};
use evendb_trace::{KeyLines, Sampler};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of rows in `keys` that say that the store has a key. No operation has this kind.
pub const STORED: &str = "stored";
/// The number of rows that are gathered before they are given to the file.
const BATCH_ROWS: usize = 16 << 10;
/// The keyspace of a trace that names none.
const DEFAULT: &str = "default";
/// An error names at most this number of keyspaces.
const NAMES_TOLD: usize = 8;

/// A list of keys.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The file.
    pub file: PathBuf,
    /// The keyspace of these keys. If not given, the only one of the trace.
    pub keyspace: Option<String>,
}

impl Stored {
    /// Opens the list: before the trace is read, so that a wrong name is told at once.
    pub(crate) fn open(&self) -> Result<BufReader<File>> {
        let file = File::open(&self.file);
        let file = file.map_err(|error| {
            Error::io(format_args!("cannot open {}", self.file.display()), error)
        })?;
        Ok(BufReader::with_capacity(256 << 10, file))
    }

    /// Writes the table to `to`, which is made.
    pub(crate) fn write(&self, from: impl BufRead, trace: &Summary, to: &Path) -> Result<()> {
        let keyspace = self.keyspace_in(trace)?;
        let sampler = Sampler::new(trace.one_key_in);
        let failed =
            |error: evendb_trace::Error| Error::Source(format!("{}: {error}", self.file.display()));
        let mut lines = KeyLines::new(from);
        let mut keys = BinaryBuilder::new();
        let mut writer = tables::writer(rows(&mut keys, &keyspace, 0)?.schema(), to)?;
        let mut gathered = 0;
        while let Some(key) = lines.next_key().map_err(failed)? {
            if !sampler.takes(key) {
                continue;
            }
            keys.append_value(key);
            gathered += 1;
            if gathered == BATCH_ROWS || keys.values_slice().len() >= BATCH_BYTES {
                writer.write(&rows(&mut keys, &keyspace, gathered)?)?;
                gathered = 0;
            }
        }
        writer.write(&rows(&mut keys, &keyspace, gathered)?)?;
        writer.close()?;
        Ok(())
    }

    /// The keyspace of the listed keys.
    fn keyspace_in(&self, trace: &Summary) -> Result<String> {
        let names = || {
            let names = trace.keyspaces.values().take(NAMES_TOLD);
            let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
            let more = if trace.keyspaces.len() > NAMES_TOLD {
                ", ..."
            } else {
                ""
            };
            names.join(", ") + more
        };
        let mut known = trace.keyspaces.values();
        let refused = match (&self.keyspace, known.next(), known.next()) {
            (Some(name), Some(_), _) if trace.keyspaces.values().all(|known| known != name) => {
                format!("the trace has no keyspace {name:?}; it has {}", names())
            }
            (None, Some(_), Some(_)) => {
                let file = self.file.display();
                format!(
                    "the trace has several keyspaces ({}), and it is not told which of them has the keys of {file} (--keys-of)",
                    names()
                )
            }
            (Some(name), ..) | (None, Some(name), None) => return Ok(name.clone()),
            (None, None, _) => return Ok(DEFAULT.to_owned()),
        };
        Err(Error::Argument(refused))
    }
}

/// Rows of the keys, which are then removed.
fn rows(keys: &mut BinaryBuilder, keyspace: &str, count: usize) -> Result<RecordBatch> {
    let keyspaces = StringArray::from(vec![keyspace; count]);
    let columns: [(&str, ArrayRef); 2] = [
        ("keyspace", Arc::new(keyspaces)),
        ("key", Arc::new(keys.finish())),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
