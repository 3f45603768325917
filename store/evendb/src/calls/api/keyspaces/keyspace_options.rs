//! Keyspaces with options of their own, and how the options are changed later.

use super::lifecycle::create_keyspace;
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::api::property::change_properties;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{KeyspaceOptions, NamedOperator};
use evendb_storage::Version;

impl Db {
    /// Opens the keyspace `name` with options of its own, creating it if need be. An existing
    /// keyspace must have the same options: an option that `options` chooses and the keyspace has
    /// otherwise is refused. An option that is not chosen stays as it is.
    /// [`keyspace`](Self::keyspace) opens the keyspace whatever its options are.
    ///
    /// The default keyspace is made with the database, with no option but a layout
    /// ([`Options::layout`](crate::Options::layout)); [`Keyspace::set_options`] gives it some.
    ///
    /// # Errors
    /// `InvalidArgument` for an option outside of its limits, and for one that an existing keyspace
    /// has otherwise: the message names the option and both values; and as
    /// [`keyspace`](Self::keyspace).
    pub fn keyspace_with(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        let make = || self.make_keyspace(name, options);
        let recording = &self.engine().core.recording;
        recording.other("keyspace_with", make)
    }

    fn make_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        options.check()?;
        let keyspace = self.open_keyspace(name, |engine| create_keyspace(engine, name, options))?;
        // Another thread may have made it meanwhile.
        let recorded = keyspace.options()?;
        if let Some((option, there, asked)) = options.contradiction(&recorded) {
            return Err(contradicts(name, option, there, &asked));
        }
        match &options.merge_operator {
            Some(named) => keyspace.provide(named)?,
            None => keyspace.check_provided()?,
        }
        Ok(keyspace)
    }
}

fn contradicts(name: &str, option: &str, there: Option<String>, asked: &str) -> Error {
    let has = match there {
        Some(there) => format!("has {option} {there}, and {asked} was asked for"),
        None => format!("has no {option} of its own, and {asked} was asked for"),
    };
    let message = format!(
        "the keyspace {name:?} {has}; open it without that option, or change it (set_options, --change)"
    );
    Error::new(ErrorKind::InvalidArgument, message)
}

impl Keyspace {
    /// Its own options.
    ///
    /// # Errors
    /// `Closed`, `KeyspaceDropped`.
    pub fn options(&self) -> Result<KeyspaceOptions> {
        self.handle.engine.core.health.check_readable()?;
        self.state.check_readable_at(Version::MAX)?;
        Ok(self.handle.engine.core.choices.of(self.state.id))
    }

    /// Sets all its options. An option that `options` does not choose follows the database from now
    /// on, except layout and merge operator, which stay and which no other one can replace. The
    /// options survive power loss on return, and hold for tables that are written from then on.
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
    /// `InvalidArgument` for an option outside of its limits, and as
    /// [`set_property`](Self::set_property).
    pub fn set_options(&self, options: &KeyspaceOptions) -> Result<()> {
        let set = || self.change_options(options);
        self.recording().other("set_options", set)
    }

    fn change_options(&self, options: &KeyspaceOptions) -> Result<()> {
        options.check()?;
        let engine = &self.handle.engine;
        let mut options = options.clone();
        let there = self.options()?;
        self.keep_layout(&mut options, &there)?;
        if let Some(there) = there.merge_operator {
            let asked = options.merge_operator.get_or_insert_with(|| there.clone());
            if *asked != there {
                let message = format!(
                    "the keyspace {:?} has the merge operator {:?}, and {:?} was asked for: what is stored was made \
                     for the one it has",
                    self.state.name(),
                    there.name,
                    asked.name
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        change_properties(engine, &self.state, options.to_properties().collect())?;
        options
            .merge_operator
            .map_or(Ok(()), |named| self.provide(&named))
    }

    /// Refuses another layout than the one that is there, and keeps that one.
    fn keep_layout(&self, options: &mut KeyspaceOptions, there: &KeyspaceOptions) -> Result<()> {
        let (asked, there) = (options.layout, there.layout);
        if let Some(asked) = asked
            && asked != there.unwrap_or_default()
        {
            let (name, there) = (self.state.name(), there.unwrap_or_default());
            let message = format!(
                "the keyspace {name:?} has the layout {there}, which cannot be changed, and {asked} was asked \
                 for: make another keyspace and copy the records"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        options.layout = there;
        Ok(())
    }

    /// Notes the merge operator itself, which is known from now on.
    fn provide(&self, named: &NamedOperator) -> Result<()> {
        let Some(operator) = &named.operator else {
            return self.check_provided();
        };
        let choices = &self.handle.engine.core.choices;
        let mut options = choices.of(self.state.id);
        if let Some(known) = &mut options.merge_operator
            && known.operator.is_none()
        {
            known.operator = Some(operator.clone());
            choices.set(self.state.id, options);
        }
        // The first one given counts; both have the same name.
        let _ = self.state.merge_operator.set(operator.clone());
        Ok(())
    }

    /// Refuses a keyspace whose merge operator was not given.
    pub(crate) fn check_provided(&self) -> Result<()> {
        let named = self
            .handle
            .engine
            .core
            .choices
            .merge_operator(self.state.id);
        match named {
            Some(named) if named.operator.is_none() => {
                let message = format!(
                    "the keyspace {:?} has the merge operator {:?}, and none was given: a program gives it \
                     (keyspace_with); the command `evendb` has its own operators alone",
                    self.state.name(),
                    named.name
                );
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
            _ => Ok(()),
        }
    }
}
