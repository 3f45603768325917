//! `evendb backups`: lists, verifies and prunes backups.

use std::io::{self, Write};
use std::path::PathBuf;

use evendb::{BackupInfo, Backups};
use evendb_lab::readable::{bytes, rfc_3339};
use serde_json::json;

use crate::failure::{Failure, Success};

/// List the backups in a directory, verify them, or remove old ones
///
/// Prints a line of names, and then a line for each backup: its number, when it was begun (UTC),
/// its size, how much of that was new then, and whether it is damaged. With --json: number, time,
/// seconds since 1970, files, bytes, bytes_shared (with the backup before) and damage of each.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb backups /mnt/backups/files
  evendb backups /mnt/backups/files --verify
  evendb backups /mnt/backups/files --keep 7

Exit codes: 0 all is well, 5 a backup is damaged, 1 failure")]
pub struct Arguments {
    /// The directory of backups
    backups: PathBuf,
    /// Read every byte, and compare it with the checksums
    #[arg(long)]
    verify: bool,
    /// Remove all but so many of the newest, before anything else
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let backups = Backups::at(&arguments.backups);
    if let Some(keep) = arguments.keep {
        backups.prune(keep)?;
    }
    let mut outcome = Success::Done;
    let mut target = io::stdout().lock();
    if !arguments.json {
        writeln!(target, "number\ttime\tsize\tnew\tstate")?;
    }
    for mut info in backups.list()? {
        if arguments.verify && info.damage.is_none() {
            let verified = backups.verify(Some(info.number));
            info.damage = verified.err().map(|error| error.to_string());
        }
        if info.damage.is_some() {
            outcome = Success::Corrupt;
        }
        match arguments.json {
            true => writeln!(target, "{}", as_json(&info))?,
            false => writeln!(target, "{}", as_text(&info))?,
        }
    }
    target.flush()?;
    Ok(outcome)
}

fn as_json(info: &BackupInfo) -> serde_json::Value {
    json!({
        "number": info.number,
        "time": time(info),
        "seconds": info.seconds,
        "files": info.files,
        "bytes": info.bytes,
        "bytes_shared": info.bytes_shared,
        "damage": info.damage,
    })
}

/// When it was begun; none where its list cannot be read.
fn time(info: &BackupInfo) -> Option<String> {
    (info.files > 0).then(|| rfc_3339(info.seconds))
}

fn as_text(info: &BackupInfo) -> String {
    let time = time(info);
    let of = |bytes_of: u64| match time {
        Some(_) => bytes(bytes_of),
        None => "-".to_owned(),
    };
    let state = match &info.damage {
        Some(damage) => format!("damaged: {damage}"),
        None => "whole".to_owned(),
    };
    format!(
        "{}\t{}\t{}\t{}\t{state}",
        info.number,
        time.as_deref().unwrap_or("-"),
        of(info.bytes),
        of(info.bytes.saturating_sub(info.bytes_shared))
    )
}
