//! Properties: what a keyspace remembers beside its records, such as how its keys are made.
//!
//! A few short byte strings by name, kept in the manifest: one edit sets or removes one. The
//! handle's copy is replaced under the catalog mutex after the edit is durable, so a reader never
//! sees a value that a crash could take back. Reading takes a leaf lock and no I/O, and works on a
//! database opened for reading only.

use super::lifecycle;
use crate::api::keyspace::Keyspace;
use crate::catalog::KeyspaceState;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::edit::Change;
use crate::manifest::state::Properties;
use crate::options::{KeyspaceOptions, OPTION_PREFIX};
use evendb_storage::Version;

/// The largest length of a name, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The largest sum of bytes of a keyspace's names and values: they are in RAM, and in every rotated
/// manifest.
pub(crate) const TOTAL_BYTES_MAX: usize = 16 << 10;

impl Keyspace {
    /// The value of the property `name`, if it was set. See [`set_property`](Self::set_property).
    ///
    /// # Errors
    /// `Closed`, `KeyspaceDropped`.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.handle.engine.core.health.check_readable()?;
        self.state.check_readable_at(Version::MAX)?;
        Ok(self.state.properties.lock().get(name).cloned())
    }

    /// Sets a property: something small that the keyspace remembers beside its records, such as how
    /// its keys are made. It survives power loss on return, belongs to this keyspace alone, goes
    /// with it when it is dropped, and is part of copies ([`Db::copy_to`](crate::Db::copy_to)), of
    /// the records that a repair saves, and of exports
    /// ([`exported_properties`](crate::exported_properties)). It is no part of batches and
    /// snapshots: readers see it at once.
    ///
    /// A name has 1 to 255 bytes; names and values of one keyspace have at most 16 KiB together.
    /// Names that begin with `evendb.` are for EvenDB and its command; only
    /// [`set_options`](Self::set_options) sets names that begin with `evendb.option.`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("events.db");
    /// let db = evendb::Db::open(&path)?;
    /// let events = db.keyspace("events")?;
    /// events.set_property("schema", "app,time")?;
    /// db.close()?;
    ///
    /// let db = evendb::Db::open(&path)?;
    /// let schema = db.keyspace("events")?.property("schema")?;
    /// assert_eq!(schema.as_deref(), Some(&b"app,time"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` over a limit, `NoSpace` (nothing changed), `Latched`, `ReadOnly`,
    /// `Closed`, `KeyspaceDropped`, `Io`.
    pub fn set_property(&self, name: &str, value: impl AsRef<[u8]>) -> Result<()> {
        let set = || self.change(name, Some(value.as_ref().to_vec()));
        self.recording().other("set_property", set)
    }

    /// Removes a property, if it was set. Survives power loss on return.
    ///
    /// # Errors
    /// The errors of [`set_property`](Self::set_property).
    pub fn remove_property(&self, name: &str) -> Result<()> {
        let remove = || self.change(name, None);
        self.recording().other("remove_property", remove)
    }

    fn change(&self, name: &str, value: Option<Vec<u8>>) -> Result<()> {
        if name.starts_with(OPTION_PREFIX) {
            let message = format!(
                "properties that begin with `{OPTION_PREFIX}` are options of the keyspace: set them by set_options"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        change_properties(
            &self.handle.engine,
            &self.state,
            vec![(name.to_owned(), value)],
        )
    }
}

fn check_limits(properties: &Properties) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
    let sizes = properties
        .iter()
        .map(|(name, value)| (name.len(), value.len()));
    if sizes
        .clone()
        .any(|(name, _)| !(1..=NAME_BYTES_MAX).contains(&name))
    {
        return refuse(format!("a property's name has 1 to {NAME_BYTES_MAX} bytes"));
    }
    let total: usize = sizes.map(|(name, value)| name + value).sum();
    if total > TOTAL_BYTES_MAX {
        return refuse(format!(
            "names and values of a keyspace's properties would have {total} bytes together; \
             {TOTAL_BYTES_MAX} is the most: put large things into the keyspace itself"
        ));
    }
    Ok(())
}

/// Sets properties, or removes the ones without a value. It makes one edit, or none if nothing
/// changes.
pub(crate) fn change_properties(
    engine: &Engine,
    keyspace: &KeyspaceState,
    wanted: Vec<(String, Option<Vec<u8>>)>,
) -> Result<()> {
    let _inside = engine.core.health.enter_writable()?;
    engine.disk.full_disk.check(&engine.catalog)?;
    // Held through the edit: it orders the changes of one keyspace, and keeps it from being
    // dropped.
    let _catalog = engine.catalog.lock();
    keyspace.check_readable_at(Version::MAX)?;
    let mut changed = keyspace.properties.lock().clone();
    let mut changes = Vec::new();
    for (name, value) in wanted {
        let before = match &value {
            Some(value) => changed.insert(name.clone(), value.clone()),
            None => changed.remove(&name),
        };
        if before != value {
            changes.push(Change::SetProperty {
                keyspace: keyspace.id,
                name,
                value,
            });
        }
    }
    check_limits(&changed)?;
    if changes.is_empty() {
        return Ok(());
    }
    lifecycle::flush(engine, changes)?;
    if let Ok(options) = KeyspaceOptions::of_properties(&changed) {
        keyspace.follow(&options);
        engine.core.choices.set(keyspace.id, options);
    }
    *keyspace.properties.lock() = changed;
    Ok(())
}
