//! `evendb size`: about how much a range holds, without reading it.

use std::io::{self, Write};

use evendb::RangeSize;
use evendb_lab::readable::{bytes, counted};
use serde_json::json;

use crate::commands::key_arguments::KeyForm;
use crate::commands::key_range::RangeArguments;
use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output;

/// Say about how many records and bytes a keyspace or a range of it holds
///
/// Takes no longer where there is more: it reads no records on the disk. What was overwritten or deleted since the last
/// compaction may count; each end of a range is off by some blocks of 4 KiB. `scan --count` counts exactly, and
/// reads everything. Opens the database for reading only, beside other readers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb size files.db
  evendb size files.db --prefix usr/share/doc/
  evendb size events.db --from app7,1700000000 --to app8 --json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    range: RangeArguments,
    #[command(flatten)]
    form: KeyForm,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments.database.open_for_reading()?;
    let keys = arguments.form.agreed(&store)?;
    let range = arguments.range.range(&keys)?;
    let size = store.approximate_size(range.clone())?;
    if let Some(hint) = arguments.range.hint_if_empty(&keys, &store, range)? {
        output::complain(&hint);
    }
    store.close()?;
    let mut target = io::stdout().lock();
    match arguments.json {
        true => writeln!(target, "{}", as_json(&size))?,
        false => writeln!(target, "{}", as_text(&size))?,
    }
    target.flush()?;
    Ok(Success::Done)
}

/// The figures as fields of a JSON object.
pub fn as_json(size: &RangeSize) -> serde_json::Value {
    json!({
        "records": size.records,
        "bytes": size.bytes,
        "disk_bytes": size.disk_bytes,
    })
}

/// The figures in a line.
pub fn as_text(size: &RangeSize) -> String {
    format!(
        "about {}, {} of keys and values, {} on disk",
        counted(size.records, "record"),
        bytes(size.bytes),
        bytes(size.disk_bytes)
    )
}
