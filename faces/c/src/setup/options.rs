//! Options of databases and of keyspaces, by name and text, and the lists of them.
//!
//! The engine has the tables. A list here has their texts with a 0 at the end; it is made at the
//! first call and stays, so that its texts need not be freed.

use super::merge::Operator;
use crate::border::bytes::terminated;
use crate::border::handle::{argument, call_own_mut, free_slot};
use crate::border::{ErrorPlace, Failure, Place, Result, Shared, Slot, Status, Text, plain};
use crate::calls::reads::{ValueHandle, give_bytes};
use evendb::{KeyspaceOptions, OptionInfo, Options, SharedBudget};
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

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
        *options = options.clone().set(name, text)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_options_get(
    options: Option<&OptionsHandle>,
    name: Text,
    text: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let text = text.cleared();
    call_own_mut(options, error, |options| {
        text.needed("text")?;
        let name = name.str("name")?;
        text.fill(text_for(name, options.text_of(name))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_options_set_shared(
    options: Option<&OptionsHandle>,
    shared: Option<&Shared<SharedBudget>>,
    error: ErrorPlace<'_>,
) -> Status {
    call_own_mut(options, error, |options| {
        let shared = argument(shared, "shared")?;
        *options = options.clone().advanced(|advanced| advanced.shared(shared));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_options_at(
    index: usize,
    name: Place<'_, *const c_char>,
    default_text: Place<'_, *const c_char>,
    takes: Place<'_, *const c_char>,
    limits: Place<'_, *const c_char>,
    about: Place<'_, *const c_char>,
    error: ErrorPlace<'_>,
) -> Status {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    let places = Places::new(name, default_text, takes, limits, about);
    plain(error, || {
        places.fill(ROWS.get_or_init(|| rows(Options::table())), index);
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
        *options = options.clone().set(name, text)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_get(
    options: Option<&KeyspaceOptionsHandle>,
    name: Text,
    text: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let text = text.cleared();
    call_own_mut(options, error, |options| {
        text.needed("text")?;
        let name = name.str("name")?;
        text.fill(text_for(name, options.text_of(name))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_options_at(
    index: usize,
    name: Place<'_, *const c_char>,
    default_text: Place<'_, *const c_char>,
    takes: Place<'_, *const c_char>,
    limits: Place<'_, *const c_char>,
    about: Place<'_, *const c_char>,
    error: ErrorPlace<'_>,
) -> Status {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    let places = Places::new(name, default_text, takes, limits, about);
    plain(error, || {
        places.fill(ROWS.get_or_init(|| rows(KeyspaceOptions::table())), index);
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

/// The text of an option, which the table has or does not have.
fn text_for(name: &str, text: Option<String>) -> Result<*mut ValueHandle> {
    match text {
        Some(text) => Ok(give_bytes(Some(text.into_bytes()))),
        None => Err(Failure::argument(format!("there is no option {name:?}"))),
    }
}

/// An option in a list.
struct Row {
    name: CString,
    default_text: CString,
    takes: CString,
    limits: CString,
    about: CString,
}

fn rows(table: &[OptionInfo]) -> Vec<Row> {
    let row = |option: &OptionInfo| Row {
        name: terminated(option.name().into()),
        default_text: terminated(option.default_text().into()),
        takes: terminated(option.takes().into()),
        limits: terminated(option.limits().into()),
        about: terminated(option.about().into()),
    };
    table.iter().map(row).collect()
}

/// Where the texts of a row go.
struct Places<'p>([Place<'p, *const c_char>; 5]);

impl<'p> Places<'p> {
    fn new(
        name: Place<'p, *const c_char>,
        default_text: Place<'p, *const c_char>,
        takes: Place<'p, *const c_char>,
        limits: Place<'p, *const c_char>,
        about: Place<'p, *const c_char>,
    ) -> Places<'p> {
        Places([name, default_text, takes, limits, about].map(Place::cleared))
    }

    /// Gives a row, or nothing behind the last one.
    fn fill(self, rows: &'static [Row], index: usize) {
        if let Some(row) = rows.get(index) {
            let texts = [
                &row.name,
                &row.default_text,
                &row.takes,
                &row.limits,
                &row.about,
            ];
            for (place, text) in self.0.into_iter().zip(texts) {
                place.fill(text.as_ptr());
            }
        }
    }
}
