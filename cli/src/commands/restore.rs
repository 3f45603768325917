//! `evendb restore`: makes a database from a backup.

use std::path::PathBuf;

use evendb::{Backups, ErrorKind};

use crate::failure::{Failure, Success};
use crate::key_file::KeyFile;
use crate::output;

/// Make a database from a backup
///
/// Every byte is compared with the checksums of the backup. A backup that was not verified when it
/// was made is verified first, which takes the key if it is encrypted (without a key it is only
/// compared). From a damaged backup `evendb repair` saves what is whole. The directory must be
/// empty or not there.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb restore /mnt/backups/files restored.db
  evendb restore /mnt/backups/files restored.db --number 3

Exit codes: 0 restored, 5 the backup is damaged, 1 failure")]
pub struct Arguments {
    /// The directory of backups
    backups: PathBuf,
    /// Where the database goes
    into: PathBuf,
    /// Which backup; the newest if not given
    #[arg(long)]
    number: Option<u64>,
    #[command(flatten)]
    key_file: KeyFile,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let backups = arguments
        .key_file
        .given_to_backups(Backups::at(&arguments.backups));
    let restored = backups.restore(arguments.number, &arguments.into);
    let number = restored.map_err(|error| {
        let text = match error.kind() {
            ErrorKind::Corruption => format!(
                "{error}. `evendb backups {} --verify` tells which backups are whole",
                arguments.backups.display()
            ),
            _ => error.to_string(),
        };
        Failure::caused(text, &error)
    })?;
    let into = arguments.into.display();
    output::complain(&format!("backup {number} is restored in {into}"));
    Ok(Success::Done)
}
