//! `evendb backups`: lists, verifies and prunes backups.

use std::io::Write;
use std::path::PathBuf;

use evendb::{BackupInfo, Backups};
use evendb_lab::readable::{bytes, rfc_3339};
use serde_json::json;

use crate::failure::{Failure, Success};
use crate::key_file::KeyFile;
use crate::output;

/// List the backups in a directory, verify them, or remove old ones
///
/// Prints a line of names, and then a line for each backup: its number, when it was begun (UTC),
/// its size, how much of that was new then, and its state: `damaged`, `whole` (with --verify), or
/// `not read now`. With --json: number, time, seconds since 1970, files, bytes, bytes_shared (with
/// the backup before), verified and damage of each.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb backups /mnt/backups/files
  evendb backups /mnt/backups/files --verify
  evendb backups /mnt/backups/files --keep 7

Exit codes: 0 all is well, 5 a backup is damaged, 1 failure")]
pub struct Arguments {
    /// The directory of backups
    backups: PathBuf,
    /// Read every byte, and compare it with the checksums of the backup and of the database in it
    #[arg(long)]
    verify: bool,
    /// Remove all but this number of the newest; with --verify only if these are whole
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    #[command(flatten)]
    key_file: KeyFile,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let backups = arguments
        .key_file
        .given_to_backups(Backups::at(&arguments.backups));
    let prune = || match arguments.keep {
        Some(keep) => backups.prune(keep).map(drop),
        None => Ok(()),
    };
    if !arguments.verify {
        prune()?;
    }
    let mut infos = backups.list()?;
    if infos.is_empty() && arguments.verify {
        let place = arguments.backups.display();
        return Err(Failure::Message(format!("there is no backup in {place}")));
    }
    let gone = match arguments.keep {
        Some(keep) if arguments.verify => infos.len().saturating_sub(keep.max(1)),
        _ => 0,
    };
    // The backups that would be removed are shown only if they stay.
    let (old, kept) = infos.split_at_mut(gone);
    if arguments.verify {
        kept.iter_mut().for_each(|info| look(&backups, info));
    }
    let is_damaged = |infos: &[BackupInfo]| infos.iter().any(|info| info.damage.is_some());
    let shown = match (arguments.verify, is_damaged(kept)) {
        (false, _) => kept,
        (true, false) => {
            prune()?;
            kept
        }
        (true, true) => {
            old.iter_mut().for_each(|info| look(&backups, info));
            if arguments.keep.is_some() {
                output::complain("a backup that was to be kept is damaged: none is removed");
            }
            &mut infos[..]
        }
    };
    let outcome = match is_damaged(shown) {
        true => Success::Corrupt,
        false => Success::Done,
    };
    let mut target = output::out();
    if !arguments.json {
        writeln!(target, "number\ttime\tsize\tnew\tstate")?;
    }
    for info in shown {
        match arguments.json {
            true => writeln!(target, "{}", as_json(info))?,
            false => writeln!(target, "{}", as_text(info, arguments.verify))?,
        }
    }
    target.flush()?;
    Ok(outcome)
}

/// Looks for damage in a backup whose list can be read.
fn look(backups: &Backups, info: &mut BackupInfo) {
    if info.damage.is_none() {
        let verified = backups.verify(Some(info.number));
        info.damage = verified.err().map(|error| error.to_string());
    }
}

fn as_json(info: &BackupInfo) -> serde_json::Value {
    json!({
        "number": info.number,
        "time": time(info),
        "seconds": info.seconds,
        "files": info.files,
        "bytes": info.bytes,
        "bytes_shared": info.bytes_shared,
        "verified": info.verified,
        "damage": info.damage,
    })
}

/// When it was begun. None if its list cannot be read.
fn time(info: &BackupInfo) -> Option<String> {
    (info.files > 0).then(|| rfc_3339(info.seconds))
}

fn as_text(info: &BackupInfo, is_read: bool) -> String {
    let time = time(info);
    let of = |bytes_of: u64| match time {
        Some(_) => bytes(bytes_of),
        None => "-".to_owned(),
    };
    let state = match (&info.damage, is_read, info.verified) {
        (Some(damage), ..) => format!("damaged: {}", output::printable(damage)),
        (None, true, _) => "whole".to_owned(),
        (None, false, true) => "not read now".to_owned(),
        (None, false, false) => "not read now, nor verified when it was made".to_owned(),
    };
    format!(
        "{}\t{}\t{}\t{}\t{state}",
        info.number,
        time.as_deref().unwrap_or("-"),
        of(info.bytes),
        of(info.bytes.saturating_sub(info.bytes_shared))
    )
}
