//! `evendb merge`: merges an operand into one key.

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::input_stream;
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::values;

/// Merge an operand into the value of a key, by the keyspace's operator
///
/// `evendb keyspaces --merge` makes a keyspace with an operator. The operator decides what the
/// operand is: a number to add, a text to append, to compare with, or to unite with a set.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb keyspaces site.db --keyspace hits --merge add-u64
  evendb merge site.db /index.html 1 --keyspace hits
  evendb merge site.db greeting ', world' --keyspace texts")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The operand; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    operand: String,
    #[command(flatten)]
    form: KeyForm,
    /// What the write survives when the command returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.form.check(&arguments.key)?;
    let operand = input_stream::bytes_of(&arguments.operand, arguments.database.memory)?;
    let store = arguments
        .database
        .open(Access::Existing, arguments.durability)?;
    let operand = values::given(&store, operand)?;
    let key = arguments.form.agreed_for_put(&store)?.key(&arguments.key)?;
    store.keyspace.merge(&key, &operand)?;
    store.db.close()?;
    Ok(Success::Done)
}
