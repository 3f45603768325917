//! `evendb pop`: takes the first or the last record out of a keyspace.

use std::io::Write;

use evendb_lab::standard_streams;

use crate::commands::key_arguments::KeyForm;
use crate::commands::key_range::RangeArguments;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output::{self, Form};

/// Remove the first record of a range and print it
///
/// Exit code 4 and no output if there is none. The removal survives what --durability says before
/// the record is printed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb pop jobs.db
  evendb pop jobs.db --prefix mail/ --last --output json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    range: RangeArguments,
    #[command(flatten)]
    form: KeyForm,
    /// The last record instead of the first
    #[arg(long)]
    last: bool,
    /// How to write the record: as `evendb scan` if not given
    #[arg(long, value_enum)]
    output: Option<Form>,
    /// What the removal survives
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments
        .database
        .open(Access::Existing, arguments.durability)?;
    let keys = arguments.form.agreed(&store)?;
    let range = arguments.range.range(&keys)?;
    let shape = keys.shape(&store, arguments.output)?;
    // What cannot be printed stays.
    standard_streams::check_output()?;
    let popped = match arguments.last {
        true => store.keyspace.pop_last_range(range)?,
        false => store.keyspace.pop_first_range(range)?,
    };
    let success = if let Some((key, value)) = &popped {
        let mut target = standard_streams::output();
        shape.write_record(&mut target, key, Some(value))?;
        target.flush()?;
        Success::Done
    } else {
        if let Some(hint) = arguments.range.hint(&keys) {
            output::complain(&hint);
        }
        Success::NotFound
    };
    drop(popped);
    store.db.close()?;
    Ok(success)
}
