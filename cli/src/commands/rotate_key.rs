//! `evendb rotate-key`: another key for an encrypted database.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use evendb::{Key, KeyRing, Options};

use crate::failure::{Failure, Success};
use crate::key_file::{KeyFile, read_key};
use crate::open::{Purpose, refused};
use crate::output;

/// Encrypt a database by another key from now on
///
/// Only the file KEYS changes: the data is encrypted by a key that stays, and that is kept there,
/// encrypted by yours. Copies and backups that were made before keep the key that they have. Nobody
/// may have the database open.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb rotate-key files.db --key-file old.key --new-key-file new.key")]
pub struct Arguments {
    /// The database's directory
    db: PathBuf,
    #[command(flatten)]
    key_file: KeyFile,
    /// The key from now on: a file of 32 bytes or 64 hexadecimal digits
    #[arg(long, value_name = "PATH", value_parser = read_key)]
    new_key_file: Key,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let mut keys = KeyRing::new(arguments.new_key_file.clone());
    if let Some(key) = arguments.key_file.key() {
        keys = keys.with_former(key.clone());
    }
    let options = Options::new()
        .create_if_missing(false)
        .advanced(|advanced| advanced.warm_reopening(false).encryption(Arc::new(keys)));
    let database = options
        .open(&arguments.db)
        .map_err(|error| refused(&arguments.db, Purpose::Writing, &error))?;
    database.rotate_key()?;
    database.close()?;
    writeln!(
        output::out(),
        "the database opens by the new key, and no more by the one before"
    )?;
    Ok(Success::Done)
}
