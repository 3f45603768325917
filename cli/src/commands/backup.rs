//! `evendb backup`: backs a database up, beside earlier backups.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use evendb::{CopyCheck, CopyOptions};
use evendb_lab::readable::{bytes, counted};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::open::{Access, DatabaseArguments, DurabilityArgument};
use crate::output;
use evendb::forms::parse_size;

/// Back a database up into a directory of backups
///
/// What is taken is verified against the checksums: a damaged database is not backed up, and then
/// no older backup is removed. Each backup is whole, and shares tables with the one before by hard
/// links, so that only new data takes time and room. The directory of backups is made if it is not
/// there. A program that has the database open makes backups by Db::backup, while it goes on
/// writing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb backup files.db /mnt/backups/files
  evendb backups /mnt/backups/files
  evendb restore /mnt/backups/files restored.db

Exit codes: 0 backed up, 5 the database is damaged, 1 failure, 2 wrong arguments")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// The directory of backups
    #[arg(value_name = "BACKUPS")]
    into: PathBuf,
    /// Keep this number of backups, and remove older ones afterwards
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    /// What is verified: what is new, nothing, or all, with what the backup before has
    #[arg(long, value_name = "WHAT", default_value = "new")]
    verify: Verify,
    /// Verify at most this number of bytes a second, as 64MiB; 0 for no limit
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "128MiB")]
    verify_rate: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The part of a backup that is verified when it is taken.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verify {
    /// Everything that the backup before does not have
    New,
    /// That, and what the backup before has; a file that is damaged there is taken anew
    All,
    /// Nothing: damage of the database comes into the backup
    Nothing,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    if arguments.database.keyspace.is_some() {
        let message = "a backup has all keyspaces; to take one along, use `evendb export`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (access, durability) = (Access::Existing, DurabilityArgument::Process);
    let database = arguments.database.open_database(access, durability)?;
    let check = match arguments.verify {
        Verify::New => CopyCheck::New,
        Verify::All => CopyCheck::All,
        Verify::Nothing => CopyCheck::Nothing,
    };
    let how = CopyOptions::new().verify(check);
    let how = how.verify_rate(arguments.verify_rate);
    let done = database.backup_with(&arguments.into, &how)?;
    database.close()?;
    let removed = match arguments.keep {
        Some(keep) => evendb::Backups::at(&arguments.into).prune(keep)?,
        None => 0,
    };
    let mut target = output::out();
    if arguments.json {
        let object = json!({
            "number": done.number,
            "bytes": done.bytes,
            "bytes_shared": done.bytes_shared,
            "bytes_verified": done.bytes_verified,
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
