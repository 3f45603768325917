//! `evendb backup`: backs a database up, beside earlier backups.

use std::io::{self, Write};
use std::path::PathBuf;

use evendb_lab::readable::{bytes, counted};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};

/// Back a database up into a directory of backups
///
/// Each backup is whole, and shares the tables that the one before has by hard links, so that only what is new takes
/// time and room. The directory of backups is made if it is not there. A program that has the database open makes backups by
/// Db::backup, while it goes on writing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb backup files.db /mnt/backups/files
  evendb backups /mnt/backups/files
  evendb restore /mnt/backups/files restored.db")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    into: PathBuf,
    /// Keep so many backups, and remove older ones afterwards
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    if arguments.database.keyspace.is_some() {
        let message = "a backup has all keyspaces; to take one along, use `evendb export`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let database = arguments.database.open_evendb_database(
        "backups",
        Access::Existing,
        DurabilityArgument::Process,
    )?;
    let done = database.backup(&arguments.into)?;
    database.close()?;
    let removed = match arguments.keep {
        Some(keep) => evendb::Backups::at(&arguments.into).prune(keep)?,
        None => 0,
    };
    let mut target = io::stdout().lock();
    if arguments.json {
        let object = json!({
            "number": done.number,
            "bytes": done.bytes,
            "bytes_shared": done.bytes_shared,
            "seconds": done.elapsed.as_secs_f64(),
            "removed": removed,
        });
        writeln!(target, "{object}")?;
    } else {
        writeln!(
            target,
            "backup {}: {}, {} of them new, in {:.1} s; {} removed",
            done.number,
            bytes(done.bytes),
            bytes(done.bytes - done.bytes_shared),
            done.elapsed.as_secs_f64(),
            counted(removed, "older backup")
        )?;
    }
    target.flush()?;
    Ok(Success::Done)
}
