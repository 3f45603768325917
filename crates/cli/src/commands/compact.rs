//! `evendb compact`: makes a database as small as it can be.

use std::io::{self, Write};

use evendb::{CompactionSummary, Options, SpaceStats};
use serde_json::json;

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};

/// Rewrite what has garbage, so that the database is as small as it can be
///
/// Does all reorganisation that is owed, then rewrites each chunk that has a log, tombstones,
/// several tables or old versions. Without --keyspace and --prefix: all keyspaces, and what is reserved
/// for puts to come is given back. Sizes are those of tables and logs before and after, then those of all
/// files, as du counts them.
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
    let before = database.stats().space.disk_bytes;
    let done = match (prefix, &arguments.database.keyspace) {
        (Some(prefix), _) => keyspace.compact_prefix(&prefix)?,
        (None, Some(_)) => keyspace.compact()?,
        (None, None) => database.compact()?,
    };
    drop(keyspace);
    database.close()?;
    // What is there now: closing gave back the rest.
    let options = Options::new().read_only(true);
    let options = arguments.database.key_file.given_to(options);
    let left = options.open(&arguments.database.db)?.stats().space;
    let mut target = io::stdout().lock();
    if arguments.json {
        writeln!(target, "{}", as_json(&done, before, &left))?;
    } else {
        writeln!(target, "{}", as_text(&done))?;
        writeln!(target, "{}", on_disk(before, &left))?;
    }
    target.flush()?;
    Ok(Success::Done)
}

fn as_json(done: &CompactionSummary, before: u64, left: &SpaceStats) -> serde_json::Value {
    json!({
        "chunks": done.chunks,
        "rewritten": done.rewritten,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
        "seconds": done.elapsed.as_secs_f64(),
        "disk_bytes_before": before,
        "disk_bytes_after": left.disk_bytes,
        "commit_log_bytes": left.commit_log_bytes,
        "ballast_bytes": left.ballast_bytes,
        "manifest_bytes": left.manifest_bytes,
    })
}

fn as_text(done: &CompactionSummary) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{:.1} MiB before, {:.1} MiB after, {:.1} s; {} of {} chunks rewritten beyond what was owed",
        mib(done.bytes_before),
        mib(done.bytes_after),
        done.elapsed.as_secs_f64(),
        done.rewritten,
        done.chunks
    )
}

/// The bytes that are left, and how many of them hold no records.
fn on_disk(before: u64, left: &SpaceStats) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{:.1} MiB on disk before, {:.1} MiB after; of these, the commit log {:.1}, kept back for deletes \
         on a full disk {:.1}, the manifest {:.1}",
        mib(before),
        mib(left.disk_bytes),
        mib(left.commit_log_bytes),
        mib(left.ballast_bytes),
        mib(left.manifest_bytes)
    )
}
