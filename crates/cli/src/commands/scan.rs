//! `evendb scan`: prints or counts the records of a range.

use std::io::{self, BufWriter, Write};
use std::ops::Bound;

use crate::commands::key_arguments::{KeyForm, Keys};
use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::keys::prefix_end;
use crate::open::DatabaseArguments;
use crate::output::{self, Form};

/// Print or count records in key order
///
/// --prefix, --from (inclusive) and --to (exclusive) may be combined; of keys of several columns
/// they may leave out the last ones. The keyspace remembers the types of an import's keys.
/// `import` reads the forms tsv and json back to the same bytes, as scan-tsv and scan-json; give it
/// the --key-types if the new database is empty. Opens the database for reading only, beside other
/// readers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb scan files.db --prefix usr/share/doc/ --count
  evendb scan files.db --from usr/ --to usr/c --limit 10 --output tsv
  evendb scan events.db --prefix app7 --reverse --limit 1 --output json
  evendb scan files.db --output json | evendb import copy.db - --format scan-json
  evendb scan events.db --output tsv | evendb import copy.db - --format scan-tsv --key-types str,u64")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Only keys that start with this
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// Only keys at or after this
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys before this
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
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
    /// How to write the records: tsv if not given and the output is a terminal, else raw
    #[arg(long, value_enum)]
    output: Option<Form>,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let (database, keyspace) = arguments.database.open_for_reading()?;
    let keys = arguments.form.agreed(&keyspace)?;
    let range = range(arguments, &keys)?;
    let form = Form::chosen(arguments.output);
    let interrupt = Interrupt::install()?;
    let mut target = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut records = 0;
    if !is_empty(&range) {
        let mut cursor = keyspace.cursor(range);
        let limit = arguments.limit.unwrap_or(u64::MAX);
        while records < limit && !interrupt.raised() {
            let next = if arguments.reverse {
                cursor.next_back()?
            } else {
                cursor.next()?
            };
            let Some((key, value)) = next else { break };
            records += 1;
            if !arguments.count {
                let value = (!arguments.keys_only).then_some(value);
                output::write_record(&mut target, form, &keys.types, key, value)?;
            }
        }
    }
    if arguments.count && !interrupt.raised() {
        writeln!(target, "{records}")?;
    }
    target.flush()?;
    drop(keyspace);
    database.close()?;
    if interrupt.raised() {
        output::complain(&format!("interrupted after {records} records"));
        return Err(Failure::Interrupted);
    }
    Ok(Success::Done)
}

type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The intersection of the prefix's range and that from `--from` to `--to`.
fn range(arguments: &Arguments, keys: &Keys<'_>) -> Result<Range, Failure> {
    let bound = |text: &Option<String>| text.as_ref().map(|text| keys.bound(text)).transpose();
    let (prefix, from, to) = (
        bound(&arguments.prefix)?,
        bound(&arguments.from)?,
        bound(&arguments.to)?,
    );
    let end = prefix.as_deref().and_then(prefix_end);
    // None sorts before every key, which is right for the lower bound.
    let low = from.max(prefix);
    let high = match (to, end) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Ok((
        low.map_or(Bound::Unbounded, Bound::Included),
        high.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

fn is_empty(range: &Range) -> bool {
    matches!(range, (Bound::Included(low), Bound::Excluded(high)) if low >= high)
}
