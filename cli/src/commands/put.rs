//! `evendb put`: sets one key.

use std::time::{Duration, SystemTime};

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::input_stream;
use crate::open::{Access, DatabaseArguments, DurabilityArgument, LayoutArgument};
use crate::store::Expiry;
use crate::time_text::parse_time;
use crate::values;
use evendb::forms::parse_duration;

/// Set a key; creates the database if there is none
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb put files.db greeting hello
  evendb put files.db greeting - < value.bin
  evendb put log.db 1700000000 started --layout guards
  evendb put sessions.db ada token --ttl 1800
  evendb put sessions.db eve token --until 1893456000
  evendb put site.db /index.html 0 --keyspace hits
  evendb put events.db app7,1700000000 started --key-types str,u64 --durability sync

An empty keyspace remembers the --key-types of its first key; without them a key is what the
keyspace remembers, or the text as it is.")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    layout: LayoutArgument,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The value; `-` reads it from standard input. A number if the keyspace's operator adds
    /// numbers, one element if it unites sets
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    form: KeyForm,
    /// Keep the value for this time from now on, as 30m, 2d, or a number of seconds; then the key
    /// has none
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "until")]
    ttl: Option<Duration>,
    /// Keep the value until a time, in seconds since 1970
    #[arg(long, value_name = "SECONDS", value_parser = parse_time, allow_hyphen_values = true)]
    until: Option<SystemTime>,
    /// What the write survives when the command returns
    #[arg(long, value_enum, default_value = "process")]
    durability: DurabilityArgument,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.database.undoing(|| put(arguments))
}

fn put(arguments: &Arguments) -> Result<Success, Failure> {
    arguments.form.check(&arguments.key)?;
    let value = input_stream::bytes_of(&arguments.value, arguments.database.memory)?;
    let expiry = Expiry::of(arguments.ttl, arguments.until);
    let access = Access::Create(arguments.layout.layout);
    let store = arguments.database.open(access, arguments.durability)?;
    let value = values::given(&store, value)?;
    let key = arguments.form.agreed_for_put(&store)?.key(&arguments.key)?;
    store.put(&key, &value, expiry)?;
    store.db.close()?;
    Ok(Success::Done)
}
