//! The providers of keys.

use crate::error::{Error, ErrorKind, Result};
use evendb_storage::sealing::Key;
use std::path::Path;
use std::sync::Arc;

/// The reason why a provider gives no key: any error, or a message
/// (`"the key server does not answer".into()`).
pub type KeyError = Box<dyn std::error::Error + Send + Sync>;

/// Gives the keys that encrypt databases, by their ids; a database gets it by
/// [`Advanced::encryption`](crate::Advanced::encryption). docs/encryption.md describes all of it.
///
/// A database calls it when it is opened, created or inspected, and when its key is changed, and at
/// no other time. The call may take long, and must not call the database.
///
/// ```
/// use evendb::{Key, KeyError, KeyProvider};
///
/// /// Keys of a file for each.
/// struct Folder(std::path::PathBuf);
///
/// impl KeyProvider for Folder {
///     fn current(&self) -> Result<String, KeyError> {
///         Ok("2026-11".to_owned())
///     }
///     fn key(&self, id: &str) -> Result<Option<Key>, KeyError> {
///         match std::fs::read(self.0.join(id)) {
///             Ok(bytes) => Ok(Some(Key::new(bytes[..].try_into()?))),
///             Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
///             Err(error) => Err(error.into()),
///         }
///     }
/// }
/// ```
pub trait KeyProvider: Send + Sync + 'static {
    /// The id of the key that encrypts from now on: 1 to 255 bytes, which are stored in plain form.
    ///
    /// # Errors
    /// Any: opening fails with it.
    fn current(&self) -> std::result::Result<String, KeyError>;

    /// The key with this id; `None` if there is none.
    ///
    /// # Errors
    /// Any: opening fails with it.
    fn key(&self, id: &str) -> std::result::Result<Option<Key>, KeyError>;
}

/// Keys that the program holds: one key that encrypts, and former keys. Ids are derived from the
/// keys ([`Key::fingerprint`](crate::Key::fingerprint)).
#[derive(Clone, Debug)]
pub struct KeyRing {
    current: Key,
    former: Vec<Key>,
}

impl KeyRing {
    /// A ring with one key, which encrypts.
    pub fn new(key: Key) -> KeyRing {
        KeyRing {
            current: key,
            former: Vec::new(),
        }
    }

    /// Adds a former key, for databases that are still encrypted by it; the first key shall encrypt
    /// them.
    #[must_use]
    pub fn with_former(mut self, key: Key) -> KeyRing {
        self.former.push(key);
        self
    }
}

impl KeyProvider for KeyRing {
    fn current(&self) -> std::result::Result<String, KeyError> {
        Ok(id_of(&self.current))
    }

    fn key(&self, id: &str) -> std::result::Result<Option<Key>, KeyError> {
        let mut keys = std::iter::once(&self.current).chain(&self.former);
        Ok(keys.find(|key| id_of(key) == id).cloned())
    }
}

fn id_of(key: &Key) -> String {
    match key.fingerprint() {
        none if none.is_empty() => "none".to_owned(),
        id => id,
    }
}

/// A provider in the form in which options keep it.
#[derive(Clone)]
pub(crate) struct Provider(pub(crate) Arc<dyn KeyProvider>);

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyProvider(..)")
    }
}

/// The largest length of an id, in bytes.
const ID_BYTES_MAX: usize = 255;

impl Provider {
    /// The key that encrypts from now on, with its id.
    pub(crate) fn current(&self, dir: &Path) -> Result<(String, Key)> {
        let id = self.0.current().map_err(|error| failed(dir, &error))?;
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            let message = "the id of a key must have 1 to 255 bytes";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let key = self.key(&id, dir)?;
        Ok((id, key))
    }

    /// The key with this id.
    pub(crate) fn key(&self, id: &str, dir: &Path) -> Result<Key> {
        let found = self.0.key(id).map_err(|error| failed(dir, &error))?;
        found.ok_or_else(|| {
            let message = format!(
                "the database in {} is encrypted by the key with the id {id}, which was not given",
                dir.display()
            );
            Error::new(ErrorKind::WrongKey, message)
        })
    }
}

fn failed(dir: &Path, error: &KeyError) -> Error {
    let message = format!(
        "the provider of keys failed for the database in {}: {error}",
        dir.display()
    );
    Error::new(ErrorKind::NeedsKey, message)
}
