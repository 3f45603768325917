//! `evendb compact`: makes a database as small as it can be.

use std::io::{self, Write};

use evendb::Compaction;
use serde_json::json;

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};

/// Rewrite what has garbage, so that the database is as small as it can be
///
/// Does all reorganisation that is owed, then rewrites each chunk that has a log, tombstones,
/// several tables or old versions. Without --keyspace and --prefix: all keyspaces. Sizes are those
/// of tables and logs before and after.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb compact files.db
  evendb compact files.db --prefix usr/share/doc/
  evendb compact files.db --keyspace sizes --json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Only chunks that hold keys that start with this
    #[arg(long)]
    prefix: Option<String>,
    #[command(flatten)]
    form: KeyForm,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let (database, keyspace) = arguments
        .database
        .open(Access::Existing, DurabilityArgument::Process)?;
    let keys = arguments.form.agreed(&keyspace)?;
    let prefix = arguments
        .prefix
        .as_ref()
        .map(|text| keys.bound(text))
        .transpose()?;
    let done = match (prefix, &arguments.database.keyspace) {
        (Some(prefix), _) => keyspace.compact_prefix(&prefix)?,
        (None, Some(_)) => keyspace.compact()?,
        (None, None) => database.compact()?,
    };
    drop(keyspace);
    database.close()?;
    let mut target = io::stdout().lock();
    if arguments.json {
        writeln!(target, "{}", as_json(&done))?;
    } else {
        writeln!(target, "{}", as_text(&done))?;
    }
    target.flush()?;
    Ok(Success::Done)
}

fn as_json(done: &Compaction) -> serde_json::Value {
    json!({
        "chunks": done.chunks,
        "rewritten": done.rewritten,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "seconds": done.duration.as_secs_f64(),
    })
}

fn as_text(done: &Compaction) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{:.1} MiB before, {:.1} MiB after, {:.1} s; {} of {} chunks rewritten beyond what was owed",
        mib(done.bytes_before),
        mib(done.bytes_after),
        done.duration.as_secs_f64(),
        done.rewritten,
        done.chunks
    )
}
