//! Options of databases and of keyspaces, by name and text.

use super::merge::Operator;
use super::settings;
use crate::border::handle::{argument, call_own_mut, free_slot};
use crate::border::{ErrorPlace, Place, Result, Shared, Slot, Status, Text, plain};
use evendb::{KeyspaceOptions, Options};

/// `evendb_options`.
pub type OptionsHandle = Slot<Options>;
/// `evendb_keyspace_options`.
pub type KeyspaceOptionsHandle = Slot<KeyspaceOptions>;

#[unsafe(no_mangle)]
extern "C" fn evendb_options_create(
    options: Place<'_, *mut OptionsHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let options = options.cleared();
    plain(error, || {
        options.needed("options")?;
        options.fill(Slot::give(Options::new()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_options_set(
    options: Option<&OptionsHandle>,
    name: Text,
    text: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call_own_mut(options, error, |options| {
        let (name, text) = (name.str("name")?, text.str("text")?);
        *options = settings::set(options.clone(), name, text)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_options_free(options: *mut OptionsHandle) {
    free_slot(options);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_create(
    options: Place<'_, *mut KeyspaceOptionsHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let options = options.cleared();
    plain(error, || {
        options.needed("options")?;
        options.fill(Slot::give(KeyspaceOptions::new()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_set(
    options: Option<&KeyspaceOptionsHandle>,
    name: Text,
    text: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call_own_mut(options, error, |options| {
        let (name, text) = (name.str("name")?, text.str("text")?);
        *options = settings::set_of_keyspace(options.clone(), name, text)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_merge_operator(
    options: Option<&KeyspaceOptionsHandle>,
    operator: Option<&Shared<Operator>>,
    error: ErrorPlace<'_>,
) -> Status {
    call_own_mut(options, error, |options| {
        let operator = argument(operator, "operator")?;
        *options = operator.given_to(options.clone());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_free(options: *mut KeyspaceOptionsHandle) {
    free_slot(options);
}

/// The options of a keyspace that a call is given; NULL chooses none.
pub(crate) fn chosen(options: Option<&KeyspaceOptionsHandle>) -> Result<Option<KeyspaceOptions>> {
    options
        .map(|options| options.enter(|options| Ok(options.clone())))
        .transpose()
}

/// The options of a database; NULL stands for the defaults.
pub(crate) fn of_database(options: Option<&OptionsHandle>) -> Result<Options> {
    match options {
        Some(options) => options.enter(|options| Ok(options.clone())),
        None => Ok(Options::new()),
    }
}
