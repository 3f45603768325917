//! Keyspaces that are made with options of their own, and how these are changed later.

use crate::api::db::{Db, create_keyspace};
use crate::api::keyspace::Keyspace;
use crate::api::property::change_properties;
use crate::error::{Error, ErrorKind, Result};
use crate::options::KeyspaceOptions;
use evendb_storage::Version;

impl Db {
    /// Opens the keyspace `name` with options of its own, creating it if need be. A keyspace that is there must have been
    /// made with the same: what is chosen in `options` and is not so in the keyspace is refused. What is not chosen is
    /// left as it is. [`keyspace`](Self::keyspace) opens it whatever its options are.
    ///
    /// The default keyspace is made with the database, without options; [`Keyspace::set_options`] gives it some.
    ///
    /// # Errors
    /// `InvalidArgument` for an option outside of its limits, and for one that is not so in a keyspace that is there: the
    /// message names the option and both values; and as [`keyspace`](Self::keyspace).
    pub fn keyspace_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        options.check()?;
        let keyspace = match self.keyspace_exists(name) {
            true => self.keyspace(name)?,
            false => self.open_keyspace(name, |engine| create_keyspace(engine, name, options))?,
        };
        // Another thread may have made it meanwhile.
        let recorded = keyspace.options()?;
        match options.contradiction(&recorded) {
            None => Ok(keyspace),
            Some((option, there, asked)) => Err(contradicts(name, option, there, &asked)),
        }
    }
}

fn contradicts(name: &str, option: &str, there: Option<String>, asked: &str) -> Error {
    let has = match there {
        Some(there) => format!("has {option} {there}, and {asked} was asked for"),
        None => format!("has no {option} of its own, and {asked} was asked for"),
    };
    let message = format!(
        "the keyspace {name:?} {has}; open it without that option, or change it by set_options"
    );
    Error::new(ErrorKind::InvalidArgument, message)
}

impl Keyspace {
    /// The options that it has of its own.
    ///
    /// # Errors
    /// `Closed`, `KeyspaceDropped`.
    pub fn options(&self) -> Result<KeyspaceOptions> {
        self.handle.engine.core.health.check_readable()?;
        self.state.check_readable_at(Version::MAX)?;
        Ok(self.handle.engine.core.choices.of(self.state.id))
    }

    /// Sets all its options: what is not chosen in `options` follows the database from now on. They survive power loss on
    /// return, and hold for tables that are written from then on.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use evendb::{Compression, KeyspaceOptions};
    /// let db = evendb::Db::open(dir.path())?;
    /// let options = KeyspaceOptions::new().compression(Compression::Lz4);
    /// db.default_keyspace().set_options(&options)?;
    /// assert_eq!(db.default_keyspace().options()?, options);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an option outside of its limits, and as [`set_property`](Self::set_property).
    pub fn set_options(&self, options: &KeyspaceOptions) -> Result<()> {
        options.check()?;
        let engine = &self.handle.engine;
        change_properties(engine, &self.state, options.to_properties().collect())
    }
}
