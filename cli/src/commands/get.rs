//! `evendb get`: prints the value of one key, or the records of several.

use std::io::Write;

use evendb_lab::standard_streams;

use crate::commands::key_arguments::{KeyForm, Keys};
use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output::{self, Form, Shape};
use crate::store::Store;

/// Print the value of a key, or the records of several keys
///
/// For one key it prints the value and a line feed; exit code 4 and no output if the key is not
/// there. For several keys it prints a record for each that is there, in the order of the
/// arguments, as `evendb scan` does; exit code 4 if one is not there, and standard error has its
/// name. Opens the database for reading only, beside other readers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb get files.db usr/bin/env
  evendb get files.db 75737200 --hex --output hex
  evendb get events.db app7,1700000000
  evendb get events.db app7,1700000000 app8,1700000003 --output json

The keyspace remembers the types of an import's keys; --key-types raw takes keys as they are.")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// More keys; options may come before and after them, so a key that begins with a hyphen and is
    /// no number comes after `--`
    #[arg(value_name = "MORE_KEYS", allow_negative_numbers = true)]
    more: Vec<String>,
    #[command(flatten)]
    form: KeyForm,
    /// How to write a value or a record. If not given: a value as text on a terminal, and if it is
    /// a number that the keyspace adds to, else raw; records as `evendb scan`
    #[arg(long, value_enum)]
    output: Option<Form>,
    /// Write no line feed after the value; for one key only
    #[arg(long)]
    no_newline: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments.database.open_for_reading()?;
    let keys = arguments.form.agreed(&store)?;
    let success = match arguments.more.is_empty() {
        true => one(arguments, &store, &keys.key(&arguments.key)?)?,
        _ if arguments.no_newline => {
            let message = "--no-newline is for the value of one key";
            return Err(Failure::Usage(message.to_owned()));
        }
        _ => several(arguments, &store, &keys)?,
    };
    store.db.close()?;
    Ok(success)
}

fn one(arguments: &Arguments, store: &Store, key: &[u8]) -> Result<Success, Failure> {
    let Some(value) = store.keyspace.get(key)? else {
        return Ok(Success::NotFound);
    };
    let shape = Shape::of_value(store, arguments.output)?;
    let mut target = standard_streams::output();
    shape.write_value(&mut target, &value)?;
    if !arguments.no_newline {
        target.write_all(b"\n")?;
    }
    target.flush()?;
    Ok(Success::Done)
}

fn several(arguments: &Arguments, store: &Store, keys: &Keys<'_>) -> Result<Success, Failure> {
    let shape = keys.shape(store, arguments.output)?;
    // Before anything is printed, each text must be a key.
    let texts = || std::iter::once(&arguments.key).chain(&arguments.more);
    let wanted = texts().map(|text| keys.key(text));
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let mut success = Success::Done;
    let mut target = standard_streams::output();
    for (key, text) in wanted.iter().zip(texts()) {
        match store.keyspace.get(key)? {
            Some(value) => shape.write_record(&mut target, key, Some(&value))?,
            None => {
                output::complain(&format!("there is no key `{text}`"));
                success = Success::NotFound;
            }
        }
    }
    target.flush()?;
    Ok(success)
}
