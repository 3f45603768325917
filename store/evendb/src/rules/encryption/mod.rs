//! The secret of an encrypted database: who gives its key, and how the secret is found before
//! anything else is read.
//!
//! ```text
//! KeyProvider: key of an id ---> KEYS: | id of the key | data key, encrypted by it |
//!                                                          |
//!                                Secrets -----> SealedVfs -> every file of the directory
//! ```
//! The data key is random, is made with the database, and never changes; the provider's key
//! encrypts only the data key. So a change of the provider's key only writes `KEYS` again
//! ([`rotate`]). Everything else that the database writes is encrypted by keys derived from the
//! data key: code that reads or writes a file asks the file for the secret
//! ([`evendb_storage::sealing`]).
//!
//! Order: `KEYS` is durable before anything else of a new database is made. [`find`] reads it
//! before the directory is locked or changed. So a wrong key, a missing key, and a key for a plain
//! database are errors that leave every byte unchanged.
//!
//! Thread safety: plain functions; one thread at a time calls [`rotate`]. Not here: what is
//! encrypted, and how.

pub(crate) mod keys_file;
#[cfg(all(test, feature = "encryption", not(any(evendb_loom, evendb_shuttle))))]
mod planted;
mod provider;

pub use evendb_storage::sealing::Key;
pub(crate) use provider::Provider;
pub use provider::{KeyError, KeyProvider, KeyRing};

use crate::error::{Error, ErrorKind, Result};
use crate::files::{KEYS, KEYS_UNFINISHED};
use evendb_storage::Error as StorageError;
use evendb_storage::sealing::{HAS_ENCRYPTION, Secrets};
use evendb_storage::vfs::{SealedVfs, Vfs, read_exact_at, write_beside};
use keys_file::{KEYS_BYTES_MAX, KeysFile};
use std::path::Path;
use std::sync::Arc;

fn io(path: &Path, what: &str, source: std::io::Error) -> Error {
    StorageError::io(path, what, source).into()
}

/// The files of the existing database in `dir`, with its secret if it is encrypted. Writes nothing.
pub(crate) fn find(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    provider: Option<&Provider>,
) -> Result<Arc<dyn Vfs>> {
    let path = dir.join(KEYS);
    let is_encrypted = vfs
        .exists(&path)
        .map_err(|error| io(&path, "look for the keys", error))?;
    match (is_encrypted, provider) {
        (false, None) => return Ok(vfs.clone()),
        (false, Some(_)) => {
            let message = format!(
                "the database in {} is not encrypted, and a key was given: open it without, or export it and import \
                 it into a new one",
                dir.display()
            );
            return Err(Error::new(ErrorKind::NotEncrypted, message));
        }
        (true, _) => check_feature(dir)?,
    }
    let Some(provider) = provider else {
        let message = format!(
            "the database in {} is encrypted, and no key was given (Advanced::encryption, --key-file)",
            dir.display()
        );
        return Err(Error::new(ErrorKind::NeedsKey, message));
    };
    let file = read(vfs, &path)?;
    let key = provider.key(&file.key_id, dir)?;
    let secrets = file
        .open(&key)
        .map_err(|error| io(&path, "get random numbers", error))?;
    let secrets = secrets.ok_or_else(|| {
        let message = format!(
            "the key does not open the database in {}: it is encrypted by the key with the id {}",
            dir.display(),
            file.key_id
        );
        Error::new(ErrorKind::WrongKey, message)
    })?;
    Ok(Arc::new(SealedVfs::new(vfs.clone(), secrets)))
}

/// The files of a new database in `dir`, encrypted from the first byte if there is a provider:
/// `KEYS` is durable on return.
pub(crate) fn begin(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    provider: Option<&Provider>,
) -> Result<Arc<dyn Vfs>> {
    let Some(provider) = provider else {
        return Ok(vfs.clone());
    };
    check_feature(dir)?;
    let random = |error| io(dir, "get random numbers", error);
    let secrets = Secrets::new(Key::random().map_err(random)?).map_err(random)?;
    write(vfs, dir, provider, &secrets)?;
    Ok(Arc::new(SealedVfs::new(vfs.clone(), secrets)))
}

/// Checks that a database with these options could be created.
pub(crate) fn check_creation(dir: &Path, provider: Option<&Provider>) -> Result<()> {
    match provider {
        None => Ok(()),
        Some(provider) => {
            check_feature(dir)?;
            provider.current(dir).map(|_| ())
        }
    }
}

/// Encrypts the data key of the open database in `dir` by the provider's current key, and removes
/// the copy that the former key encrypted.
pub(crate) fn rotate(vfs: &Arc<dyn Vfs>, dir: &Path, provider: Option<&Provider>) -> Result<()> {
    match (vfs.secrets(), provider) {
        (Some(secrets), Some(provider)) => write(vfs, dir, provider, secrets),
        _ => {
            let message = format!("the database in {} is not encrypted", dir.display());
            Err(Error::new(ErrorKind::NotEncrypted, message))
        }
    }
}

fn check_feature(dir: &Path) -> Result<()> {
    if HAS_ENCRYPTION {
        return Ok(());
    }
    let message = format!(
        "encryption, of the database in {}, needs the feature `encryption`, which this build of EvenDB lacks",
        dir.display()
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn read(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<KeysFile> {
    let failed = |error| io(path, "read the keys", error);
    let file = vfs.open(path, false).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let corrupt = |what| Error::from(StorageError::corruption(path, 0, what));
    if len > KEYS_BYTES_MAX {
        return Err(corrupt("the file of keys is too long"));
    }
    let mut bytes = vec![0; len as usize];
    read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
    match KeysFile::decode(&bytes) {
        Ok(file) => Ok(file),
        Err(keys_file::Refused::Corrupt(what)) => Err(corrupt(what)),
        Err(keys_file::Refused::Unsupported(what)) => {
            Err(StorageError::unsupported(path, what).into())
        }
    }
}

/// Replaces `KEYS`: temporary file, sync, rename, sync of the directory. A crash leaves the old or
/// the new file, and either opens the database with the key that it names.
fn write(vfs: &Arc<dyn Vfs>, dir: &Path, provider: &Provider, secrets: &Secrets) -> Result<()> {
    let (key_id, key) = provider.current(dir)?;
    let bytes = KeysFile::seal(&key_id, &key, secrets)
        .map_err(|error| io(dir, "get random numbers", error))?
        .encode();
    let (path, temporary) = (dir.join(KEYS), dir.join(KEYS_UNFINISHED));
    let written = write_beside(&**vfs, &temporary, &bytes);
    let written = written.and_then(|()| vfs.rename(&temporary, &path));
    written.map_err(|error| io(&temporary, "write the keys", error))?;
    vfs.sync_dir(dir)
        .map_err(|error| io(dir, "sync the directory", error))
}
