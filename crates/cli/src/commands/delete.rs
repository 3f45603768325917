//! `evendb delete`: removes one key, all keys with a prefix, or all keys.
//!
//! Every key starts with the empty prefix. A script whose variable is empty must not delete everything
//! by that, so deleting everything takes `--all`.

use crate::commands::key_arguments::{KeyForm, Keys};
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};

/// Remove a key, all keys with a prefix, or all keys of a keyspace
///
/// Removing a key that is not there is no error. Many keys are removed as fast as one, all or none. An empty
/// prefix is refused unless --all is given.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb delete files.db usr/bin/env
  evendb delete files.db --prefix usr/share/doc/
  evendb delete files.db --keyspace sizes --all")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(required_unless_present_any = ["prefix", "all"])]
    #[arg(allow_hyphen_values = true)]
    key: Option<String>,
    /// Remove every key that starts with this
    #[arg(long, conflicts_with = "key", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Remove every key of the keyspace
    #[arg(long, conflicts_with = "key")]
    all: bool,
    #[command(flatten)]
    form: KeyForm,
    /// What the deletion survives when the command returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let of_many = arguments.prefix.is_some() || arguments.all;
    let (access, durability) = (Access::Existing, arguments.durability);
    let (store, keyspace) = match of_many {
        true => {
            let what = "deletes of many keys at once (--prefix, --all)";
            let (store, keyspace) = arguments.database.open_evendb(what, access, durability)?;
            (store, Some(keyspace))
        }
        false => (arguments.database.open(access, durability)?, None),
    };
    let keys = arguments.form.agreed(&store)?;
    let key = arguments
        .key
        .as_ref()
        .map(|key| keys.key(key))
        .transpose()?;
    let prefix = prefix(arguments, &keys)?;
    if let Some(key) = key {
        store.delete(&key)?;
    }
    if let (Some(keyspace), Some(prefix)) = (&keyspace, prefix) {
        keyspace.delete_prefix(&prefix)?;
    }
    drop(keyspace);
    store.close()?;
    Ok(Success::Done)
}

/// The prefix of the keys to remove: empty with `--all`, and only then.
fn prefix(arguments: &Arguments, keys: &Keys<'_>) -> Result<Option<Vec<u8>>, Failure> {
    let Some(text) = &arguments.prefix else {
        return Ok(arguments.all.then(Vec::new));
    };
    let prefix = keys.bound(text)?;
    match (prefix.is_empty(), arguments.all) {
        (true, false) => Err(Failure::Usage(
            "--prefix is empty, so every key would be removed; give --all if you want that"
                .to_owned(),
        )),
        (false, true) => Err(Failure::Usage(
            "--all removes every key; leave out --prefix, or --all".to_owned(),
        )),
        _ => Ok(Some(prefix)),
    }
}
