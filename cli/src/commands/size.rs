//! `evendb size`: about how much a range holds, without reading it.

use std::io::Write;
use std::ops::Bound;

use evendb::RangeSize;
use evendb_lab::readable::{bytes, counted};
use serde_json::json;

use crate::commands::key_arguments::KeyForm;
use crate::commands::key_range::RangeArguments;
use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output;
use crate::store::{Range, Store};

/// A part of a keyspace that has at most this number of records is counted.
const COUNTED_RECORDS_MAX: u64 = 10_000;
const COUNTED_BYTES_MAX: u64 = 1 << 20;

/// Say about how much a keyspace or a range of it holds, in records and bytes
///
/// Takes no longer for larger ranges: in a large range it reads no records on the disk. Then
/// records that were overwritten or deleted since the last compaction may count, and each end of
/// the range is off by some blocks of 4 KiB. A part of a keyspace that seems to have at most 10,000
/// records and 1 MiB is read, and its records and their bytes are exact. `scan --count` counts all
/// exactly, and reads everything. Opens the database for reading only, beside other readers.
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
    let (size, is_counted) = measured(&store, range.clone())?;
    if let Some(hint) = arguments.range.hint_if_empty(&keys, &store, range)? {
        output::complain(&hint);
    }
    store.db.close()?;
    let mut target = output::out();
    match arguments.json {
        true => {
            let mut object = as_json(&size);
            object["exact"] = json!(is_counted);
            writeln!(target, "{object}")?;
        }
        false if is_counted => writeln!(target, "{}", figures(&size, "about "))?,
        false => writeln!(target, "{}", as_text(&size))?,
    }
    target.flush()?;
    Ok(Success::Done)
}

/// The size of a range, and whether it was counted. A part that seems small is counted, since the
/// blocks at its ends would be a large part of it.
fn measured(store: &Store, range: Range) -> Result<(RangeSize, bool), Failure> {
    let is_part = range != (Bound::Unbounded, Bound::Unbounded);
    let mut size = store.keyspace.approximate_size(range.clone())?;
    if !is_part || size.records > COUNTED_RECORDS_MAX || size.bytes > COUNTED_BYTES_MAX {
        return Ok((size, false));
    }
    (size.records, size.bytes) = (0, 0);
    let mut cursor = store.cursor(range, None, false);
    while let Some((key, value)) = cursor.next()? {
        size.records += 1;
        size.bytes += (key.len() + value.unwrap_or_default().len()) as u64;
    }
    Ok((size, true))
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
    "about ".to_owned() + &figures(size, "")
}

fn figures(size: &RangeSize, about: &str) -> String {
    format!(
        "{}, {} of keys and values, {about}{} on disk",
        counted(size.records, "record"),
        bytes(size.bytes),
        bytes(size.disk_bytes)
    )
}
