//! The key of an encrypted database, from a file: it is never on the command line, where every
//! process can read it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use evendb::inspect::InspectOptions;
use evendb::{Backups, Key, KeyRing, Options};

use crate::escapes::escaped;
use crate::output::complain;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// A file with a key has at most this number of bytes, with all that may stand around its digits.
const FILE_BYTES_MAX: u64 = 4096;

/// The key that encrypts the database.
#[derive(Args)]
pub struct KeyFile {
    /// The key of an encrypted database, and of one that is created: a file of 32 bytes or 64
    /// hexadecimal digits
    #[arg(long, value_name = "PATH", value_parser = read_key)]
    key_file: Option<Key>,
}

impl KeyFile {
    /// The same options, with the key if there is one.
    pub fn given_to(&self, options: Options) -> Options {
        match &self.key_file {
            Some(key) => {
                let keys = Arc::new(KeyRing::new(key.clone()));
                options.advanced(|advanced| advanced.encryption(keys))
            }
            None => options,
        }
    }

    /// The options of an inspection, with the key if there is one.
    pub fn given_to_inspection<'a>(&self, options: InspectOptions<'a>) -> InspectOptions<'a> {
        match &self.key_file {
            Some(key) => options.encryption(Arc::new(KeyRing::new(key.clone()))),
            None => options,
        }
    }

    /// A directory of backups, with the key if there is one.
    pub fn given_to_backups(&self, backups: Backups) -> Backups {
        match &self.key_file {
            Some(key) => backups.encryption(Arc::new(KeyRing::new(key.clone()))),
            None => backups,
        }
    }

    /// The key.
    pub fn key(&self) -> Option<&Key> {
        self.key_file.as_ref()
    }
}

/// The key in the file `path`. The text of an error shows nothing of the file.
pub fn read_key(path: &str) -> Result<Key, String> {
    let mut bytes = read_secret(Path::new(path)).map_err(|error| error.to_string())?;
    let parsed = parse(&bytes);
    bytes.fill(0);
    parsed.ok_or_else(|| "a key is 32 bytes, or 64 hexadecimal digits".to_owned())
}

/// The bytes of the file `path`, which has a key or another secret. A file that is longer than any
/// of these is refused, and no more of it is read. If others than its owner may use the file, that
/// is told once.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    warn_of_others(path, &file)?;
    // In one allocation, so that no copy is left behind.
    let mut bytes = Vec::with_capacity(FILE_BYTES_MAX as usize + 1);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= FILE_BYTES_MAX {
        true => Ok(bytes),
        false => Err(io::Error::other("the file is longer than any key")),
    }
}

fn warn_of_others(path: &Path, file: &File) -> io::Result<()> {
    thread_local! {
        static WARNED_OF: RefCell<BTreeSet<PathBuf>> = const { RefCell::new(BTreeSet::new()) };
    }
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    // A pipe has a mode too, but it means nothing.
    if !metadata.is_file() || mode & 0o077 == 0 {
        return Ok(());
    }
    let is_new = WARNED_OF.with_borrow_mut(|warned_of| warned_of.insert(path.to_owned()));
    if is_new {
        complain(&format!(
            "evendb: others than its owner may use the key file {} (mode {mode:03o}); \
             chmod 600 changes that",
            escaped(path.as_os_str().as_encoded_bytes())
        ));
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Option<Key> {
    if let Ok(raw) = bytes.try_into() {
        return Some(Key::new(raw));
    }
    let digits = bytes.trim_ascii();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    let parsed = Key::new(key);
    key.fill(0);
    Some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bytes_or_digits_and_nothing_else() {
        let digits = "0aFf".repeat(16);
        assert!(parse(digits.as_bytes()).is_some());
        assert!(parse(format!("{digits}\n").as_bytes()).is_some());
        assert!(parse(&[7; 32]).is_some());
        for bad in [
            "",
            "00",
            &digits[1..],
            &format!("{digits}00"),
            &digits.replace('a', "g"),
        ] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
