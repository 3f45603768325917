//! `evendb delete`: removes one key, all keys of a range, or all keys.
//!
//! Every key starts with the empty prefix. A script whose variable is empty must not delete
//! everything by accident. So deleting everything takes `--all`, and every other limit that is
//! empty is refused, too.

use std::ops::Bound;

use crate::commands::key_arguments::{KeyForm, Keys};
use crate::commands::key_range::RangeArguments;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output::complain;
use crate::store::Range;

/// Remove a key, all keys of a range, or all keys of a keyspace
///
/// --prefix or --starts-with, --from (inclusive) and --to (exclusive) may be combined, as in
/// `evendb scan`. Removing a key that is not there is no error. Many keys are removed as fast as
/// one, all or none. To remove every key takes --all: an empty limit is refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb delete files.db usr/bin/env
  evendb delete files.db --prefix usr/share/doc/
  evendb delete events.db --from app7,1700000000 --to app7,1700003600
  evendb delete files.db --keyspace sizes --all")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The key
    #[arg(
        required_unless_present_any = ["prefix", "starts_with", "from", "to", "all"],
        conflicts_with_all = ["prefix", "starts_with", "from", "to", "all"],
        allow_hyphen_values = true
    )]
    key: Option<String>,
    #[command(flatten)]
    range: RangeArguments,
    /// Remove every key of the keyspace
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: KeyForm,
    /// What the deletion survives when the command returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let (access, durability) = (Access::Existing, arguments.durability);
    let Some(key) = &arguments.key else {
        return many(arguments);
    };
    let store = arguments.database.open(access, durability)?;
    let key = arguments.form.agreed(&store)?.key(key)?;
    store.keyspace.delete(&key)?;
    store.db.close()?;
    Ok(Success::Done)
}

fn many(arguments: &Arguments) -> Result<Success, Failure> {
    let (access, durability) = (Access::Existing, arguments.durability);
    let store = arguments.database.open(access, durability)?;
    let keys = arguments.form.agreed(&store)?;
    let range = range(arguments, &keys)?;
    let hint = arguments
        .range
        .hint_if_empty(&keys, &store, range.clone())?;
    if let Some(hint) = hint {
        complain(&hint);
    }
    store.keyspace.delete_range(range)?;
    store.db.close()?;
    Ok(Success::Done)
}

/// The range of the keys to remove: all with `--all`, and only then.
fn range(arguments: &Arguments, keys: &Keys<'_>) -> Result<Range, Failure> {
    let mut given = arguments.range.given();
    if arguments.all {
        return match given.find(|(_, text)| !text.is_empty()) {
            None => Ok((Bound::Unbounded, Bound::Unbounded)),
            Some((name, _)) => Err(Failure::Usage(format!(
                "--all removes every key; leave out {name}, or --all"
            ))),
        };
    }
    for (name, text) in given {
        if keys.bound(text)?.is_empty() {
            let what = match name {
                "--prefix" | "--starts-with" => "every key would be removed; give --all",
                _ => "it is no limit; leave it out, or give --all for every key,",
            };
            return Err(Failure::Usage(format!(
                "{name} is empty, so {what} if you want that"
            )));
        }
    }
    arguments.range.range(keys)
}
