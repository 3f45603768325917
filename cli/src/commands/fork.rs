//! `evendb fork`: makes a database that shares its files with another one.

use std::io::Write;
use std::path::PathBuf;

use evendb::ForkOptions;
use evendb_lab::readable::{bytes, counted};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;

/// Make a fork of a database: a database of its own that shares its files
///
/// The fork holds what the database holds now, and shares tables, files of large values and logs
/// with it by hard links. So the data takes no room and no time, whatever its size. From then on
/// either is written, moved or deleted without the other. Both must lie on one file system;
/// elsewhere `--copy` copies what cannot be linked. A fork is no backup: a damaged file that both
/// share is damaged in both. A program that has the database open forks it by Db::fork, while it
/// goes on writing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb fork files.db trial.db
  evendb fork files.db /mnt/other/trial.db --copy

Exit codes: 0 forked, 5 the database is damaged, 1 failure, 2 wrong arguments")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The directory of the fork, which is empty or not there
    #[arg(value_name = "FORK")]
    into: PathBuf,
    /// Copy the files that cannot be linked
    #[arg(long)]
    copy: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    if arguments.database.keyspace.is_some() {
        let message = "a fork has all keyspaces; to take one along, use `evendb export`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (access, durability) = (Access::Existing, DurabilityArgument::Process);
    let database = arguments.database.open_database(access, durability)?;
    let how = ForkOptions::new().copy_if_needed(arguments.copy);
    let done = database.fork_with(&arguments.into, &how)?;
    database.close()?;
    let mut target = output::out();
    if arguments.json {
        let object = json!({
            "files_linked": done.files_linked,
            "bytes_linked": done.bytes_linked,
            "tables_copied": done.tables_copied,
            "bytes_copied": done.bytes_copied,
            "seconds": done.elapsed.as_secs_f64(),
        });
        writeln!(target, "{object}")?;
    } else {
        writeln!(
            target,
            "forked: {} of {} shared, {} copied, in {:.3} s",
            counted(done.files_linked, "file"),
            bytes(done.bytes_linked),
            bytes(done.bytes_copied),
            done.elapsed.as_secs_f64(),
        )?;
    }
    target.flush()?;
    Ok(Success::Done)
}
