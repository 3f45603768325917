//! `evendb delete`: removes one key or all keys with a prefix.

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;

/// Remove a key, or all keys with a prefix
///
/// Removing a key that is not there is no error. The number of keys removed by a prefix is told on
/// standard error.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb delete files.db usr/bin/env
  evendb delete files.db --prefix usr/share/doc/")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(required_unless_present = "prefix")]
    key: Option<String>,
    /// Remove every key that starts with this
    #[arg(long, conflicts_with = "key")]
    prefix: Option<String>,
    #[command(flatten)]
    form: KeyForm,
    /// What the deletion survives when the command returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let key = arguments
        .key
        .as_ref()
        .map(|key| arguments.form.key(key))
        .transpose()?;
    let prefix = arguments
        .prefix
        .as_ref()
        .map(|text| arguments.form.bound(text))
        .transpose()?;
    let (database, keyspace) = arguments
        .database
        .open(Access::Existing, arguments.durability)?;
    if let Some(key) = key {
        keyspace.delete(&key)?;
    }
    if let Some(prefix) = prefix {
        let deleted = keyspace.delete_prefix(&prefix)?;
        output::complain(&format!("deleted {deleted} keys"));
    }
    drop(keyspace);
    database.close()?;
    Ok(Success::Done)
}
