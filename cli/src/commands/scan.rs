//! `evendb scan`: prints or counts the records of a range.

use std::io::{BufWriter, Write};

use evendb_lab::readable::counted;
use evendb_lab::standard_streams;

use crate::commands::key_arguments::KeyForm;
use crate::commands::key_range::RangeArguments;
use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::open::DatabaseArguments;
use crate::output::{self, Form};

/// Print or count records in key order
///
/// --prefix or --starts-with, --from (inclusive) and --to (exclusive) may be combined; for keys of
/// several columns they may leave out the last ones. The keyspace remembers the types of an
/// import's keys. `import` reads the forms tsv and json back to the same bytes, as scan-tsv and
/// scan-json; give it the --key-types if the new database is empty. Opens the database for reading
/// only, beside other readers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb scan files.db --prefix usr/share/doc/ --count
  evendb scan files.db --from usr/ --to usr/c --limit 10 --output tsv
  evendb scan events.db --prefix app7 --reverse --limit 1 --output json
  evendb scan cities.db --starts-with Par
  evendb scan files.db --output json | evendb import copy.db - --format scan-json
  evendb scan events.db --output tsv | evendb import copy.db - --format scan-tsv --key-types str,u64")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    range: RangeArguments,
    #[command(flatten)]
    form: KeyForm,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Stop after this number of records
    #[arg(long, value_name = "RECORDS")]
    limit: Option<u64>,
    /// Print only the number of records
    #[arg(long)]
    count: bool,
    /// Print only the keys
    #[arg(long, conflicts_with = "count")]
    keys_only: bool,
    /// How to write the records. If not given: tsv on a terminal, and elsewhere if the keys have
    /// columns or the values are numbers that the keyspace adds to; hex with --hex; else raw
    #[arg(long, value_enum)]
    output: Option<Form>,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments.database.open_for_reading()?;
    let keys = arguments.form.agreed(&store)?;
    let range = arguments.range.range(&keys)?;
    let shape = keys.shape(&store, arguments.output)?;
    let interrupt = Interrupt::install()?;
    let mut target = BufWriter::with_capacity(1 << 16, standard_streams::output());
    let mut records = 0;
    let keys_only = arguments.keys_only || arguments.count;
    let mut cursor = store.cursor(range, arguments.limit, keys_only);
    let limit = arguments.limit.unwrap_or(u64::MAX);
    while records < limit && !interrupt.raised() {
        let next = match arguments.reverse {
            true => cursor.next_back()?,
            false => cursor.next()?,
        };
        let Some((key, value)) = next else {
            break;
        };
        records += 1;
        if !arguments.count {
            shape.write_record(&mut target, key, value)?;
        }
    }
    if arguments.count && !interrupt.raised() {
        writeln!(target, "{records}")?;
    }
    target.flush()?;
    drop(cursor);
    store.db.close()?;
    if interrupt.raised() {
        output::complain(&format!("interrupted after {}", counted(records, "record")));
        return Err(Failure::Interrupted);
    }
    if let Some(hint) = arguments.range.hint(&keys).filter(|_| records == 0) {
        output::complain(&hint);
    }
    Ok(Success::Done)
}
