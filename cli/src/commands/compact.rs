//! `evendb compact`: makes a database as small as it can be.

use std::io::Write;

use evendb::{CompactionSummary, SpaceStats};
use evendb_lab::readable::{counted, grouped};
use serde_json::json;

use crate::commands::key_arguments::KeyForm;
use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;

/// Rewrite everything that has garbage, so that the database is as small as it can be
///
/// Does all reorganisation that is owed, then rewrites each chunk that has a log, tombstones,
/// several tables or old versions. Without --keyspace and --prefix: all keyspaces, and what is
/// reserved for future puts is given back. Sizes are those of tables and logs before and after,
/// then those of all files, as du counts them. With the layout guards: all of it, or of the prefix,
/// goes to the last level, one sorted run in each guard.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb compact files.db
  evendb compact files.db --prefix usr/share/doc/
  evendb compact files.db --keyspace sizes --json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Only chunks that hold keys that start with this
    #[arg(long, allow_hyphen_values = true)]
    prefix: Option<String>,
    #[command(flatten)]
    form: KeyForm,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let store = arguments
        .database
        .open(Access::Existing, DurabilityArgument::Process)?;
    let keys = arguments.form.agreed(&store)?;
    let prefix = arguments
        .prefix
        .as_ref()
        .map(|text| keys.bound(text))
        .transpose()?;
    let before = store.db.stats().space.disk_bytes;
    let done = match (prefix, &arguments.database.keyspace) {
        (Some(prefix), _) => store.keyspace.compact_prefix(&prefix)?,
        (None, Some(_)) => store.keyspace.compact()?,
        (None, None) => store.db.compact()?,
    };
    store.db.close()?;
    // The state now: closing gave back the rest.
    let left = arguments.database.try_reading()?.stats().space;
    let mut target = output::out();
    match arguments.json {
        true => writeln!(target, "{}", as_json(&done, before, &left))?,
        false => writeln!(target, "{}\n{}", as_text(&done), on_disk(before, &left))?,
    }
    target.flush()?;
    Ok(Success::Done)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
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
    format!(
        "{:.1} MiB before, {:.1} MiB after, {:.1} s; {} of {} rewritten beyond what was owed",
        mib(done.bytes_before),
        mib(done.bytes_after),
        done.elapsed.as_secs_f64(),
        grouped(done.rewritten),
        counted(done.chunks, "chunk")
    )
}

/// The bytes that are left, and how many of them hold no records.
fn on_disk(before: u64, left: &SpaceStats) -> String {
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
