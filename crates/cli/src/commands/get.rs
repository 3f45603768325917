//! `evendb get`: prints the value of one key.

use std::io::{self, Write};

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::open::DatabaseArguments;
use crate::output::{self, Form};

/// Print the value of a key
///
/// Prints the value and a line feed; exit code 4 and no output if the key is not there. Opens the
/// database for reading only, beside other readers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb get files.db usr/bin/env
  evendb get files.db 75737200 --hex --output hex
  evendb get events.db app7,1700000000

The keyspace remembers the types of an import's keys; --key-types raw takes keys as they are.")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    form: KeyForm,
    /// How to write the value: tsv if not given and the output is a terminal, else raw
    #[arg(long, value_enum)]
    output: Option<Form>,
    /// Write no line feed after the value
    #[arg(long)]
    no_newline: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments.database.open_for_reading()?;
    let key = arguments.form.agreed(&store)?.key(&arguments.key)?;
    let found = store.get(&key)?;
    let success = if let Some(value) = &found {
        let mut target = io::stdout().lock();
        output::write_value(&mut target, Form::chosen(arguments.output), value)?;
        if !arguments.no_newline {
            target.write_all(b"\n")?;
        }
        target.flush()?;
        Success::Done
    } else {
        Success::NotFound
    };
    drop(found);
    store.close()?;
    Ok(success)
}
