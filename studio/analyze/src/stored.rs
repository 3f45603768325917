//! All keys of the store, if somebody lists them: the table `stored`, from which `keys` is made.
//!
//! A list is a text that [`KeyLines`] reads: with the keyspace in each line, or of one keyspace as
//! a whole. There may be several lists. If a trace has one key in n, the same keys in n are taken
//! from the list. A key that is listed twice is two rows. A line may name a keyspace that
//! was asked nothing: the store has it all the same.
//!
//! | column | what |
//! |---|---|
//! | `keyspace` | that of the line, or of the list |
//! | `key` | a key |
//!
//! Memory: a batch of rows, and one group of rows of the file.

use crate::error::{Error, Result};
use crate::operations::{BATCH_BYTES, Summary};
use crate::tables;
use arrow::array::{ArrayRef, BinaryBuilder, RecordBatch, StringBuilder};
use evendb_trace::{KeyLines, Sampler};
use parquet::arrow::ArrowWriter;
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
    /// The keyspace of all of these keys. If not given, lines name theirs, or it is the only one of
    /// the trace.
    pub keyspace: Option<String>,
}

/// Writes the keys of all lists to the table at `to`, which is made.
pub(crate) fn write(
    lists: Vec<(&Stored, BufReader<File>)>,
    trace: &Summary,
    to: &Path,
) -> Result<()> {
    let mut rows = Rows::default();
    let mut writer = tables::writer(rows.taken()?.schema(), to)?;
    for (stored, list) in lists {
        stored.write(list, trace, (&mut rows, &mut writer))?;
    }
    writer.write(&rows.taken()?)?;
    writer.close()?;
    Ok(())
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

    fn write(
        &self,
        from: impl BufRead,
        trace: &Summary,
        (rows, writer): (&mut Rows, &mut ArrowWriter<File>),
    ) -> Result<()> {
        // The keyspace of lines without a name. An error counts if there is such a line.
        let whole = self.keyspace_in(trace);
        if self.keyspace.is_some() {
            whole
                .as_ref()
                .map_err(|refused| Error::Argument(refused.clone()))?;
        }
        let sampler = Sampler::new(trace.one_key_in);
        let failed =
            |error: evendb_trace::Error| Error::Source(format!("{}: {error}", self.file.display()));
        let mut lines = KeyLines::new(from);
        while let Some((name, key)) = lines.next_listed().map_err(failed)? {
            let keyspace = match (name, &self.keyspace) {
                (Some(name), Some(whole)) if name != whole => {
                    let file = self.file.display();
                    return Err(Error::Source(format!(
                        "{file}: a key of keyspace {name:?} in a list that is said to be of {whole:?}"
                    )));
                }
                (Some(name), _) => name,
                (None, _) => whole
                    .as_deref()
                    .map_err(|refused| Error::Argument(refused.clone()))?,
            };
            if sampler.takes(key) {
                rows.add(keyspace, key);
            }
            if rows.is_full() {
                writer.write(&rows.taken()?)?;
            }
        }
        Ok(())
    }

    /// The keyspace of keys whose lines name none, or why there is none.
    fn keyspace_in(&self, trace: &Summary) -> std::result::Result<String, String> {
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
        Err(match (&self.keyspace, known.next(), known.next()) {
            (Some(name), Some(_), _) if trace.keyspaces.values().all(|known| known != name) => {
                format!("the trace has no keyspace {name:?}; it has {}", names())
            }
            (None, Some(_), Some(_)) => {
                let file = self.file.display();
                format!(
                    "the trace has several keyspaces ({}), and it is not told which of them has the keys of {file} (--keys-of, or the name and a tab before each key)",
                    names()
                )
            }
            (Some(name), ..) | (None, Some(name), None) => return Ok(name.clone()),
            (None, None, _) => return Ok(DEFAULT.to_owned()),
        })
    }
}

/// Rows that are gathered before they are given to the file.
#[derive(Default)]
struct Rows {
    keyspaces: StringBuilder,
    keys: BinaryBuilder,
    count: usize,
}

impl Rows {
    fn add(&mut self, keyspace: &str, key: &[u8]) {
        self.keyspaces.append_value(keyspace);
        self.keys.append_value(key);
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.count >= BATCH_ROWS || self.keys.values_slice().len() >= BATCH_BYTES
    }

    /// The rows, which are then removed.
    fn taken(&mut self) -> Result<RecordBatch> {
        self.count = 0;
        let columns: [(&str, ArrayRef); 2] = [
            ("keyspace", Arc::new(self.keyspaces.finish())),
            ("key", Arc::new(self.keys.finish())),
        ];
        Ok(RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, false)),
        )?)
    }
}
