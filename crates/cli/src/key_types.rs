//! The types of a keyspace's keys: as they are given, and as the keyspace remembers them.
//!
//! An import, and a put into an empty keyspace, note the types in a property of the keyspace. Every
//! command takes them from there. Types in the arguments that differ from them are refused: a key made
//! with wrong types is another key. `raw` takes keys as their bytes, whatever is remembered. An empty
//! keyspace takes new types, since it has no keys that they could contradict.
//!
//! Keyspaces of the second engine have no properties: types hold for the command that is given them.

use std::str::FromStr;

use crate::failure::Failure;
use crate::input::Wanted;
use crate::keys::{ColumnType, column_type};
use crate::output::complain;
use crate::store::Store;

/// The property that has the types, as they are written in arguments.
const PROPERTY: &str = "evendb.key-types";

/// The types of keys, as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTypes {
    /// The keys' bytes as they are.
    Raw,
    /// Columns of these types.
    Columns(Vec<ColumnType>),
}

impl FromStr for KeyTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raw" => Ok(Self::Raw),
            _ => columns(text).map(Self::Columns),
        }
    }
}

fn columns(text: &str) -> Result<Vec<ColumnType>, String> {
    text.split(',').map(column_type).collect()
}

/// Types as they are written in arguments.
pub fn shown(types: &[ColumnType]) -> String {
    let names: Vec<String> = types.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The types that the keyspace remembers, as they are written, also if this version does not know
/// them.
pub fn remembered_text(store: &Store) -> Result<Option<String>, Failure> {
    let bytes = store.property(PROPERTY)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The types that the keyspace remembers.
pub fn remembered(store: &Store) -> Result<Option<Vec<ColumnType>>, Failure> {
    let Some(text) = remembered_text(store)? else {
        return Ok(None);
    };
    columns(&text).map(Some).map_err(|why| {
        Failure::Message(format!(
            "the keyspace remembers key types that this version does not know: {why}; \
             --key-types raw reads the keys' bytes"
        ))
    })
}

/// The types to read keys with: those given, or those remembered, or none.
pub fn agreed(store: &Store, given: Option<&KeyTypes>) -> Result<Vec<ColumnType>, Failure> {
    let types = match given {
        Some(KeyTypes::Raw) => return Ok(Vec::new()),
        Some(KeyTypes::Columns(types)) => Some(types),
        None => None,
    };
    match (types, remembered(store)?) {
        (Some(types), Some(remembered)) if *types != remembered => {
            Err(contradiction(store, types, &remembered))
        }
        (Some(types), _) => Ok(types.clone()),
        (None, remembered) => Ok(remembered.unwrap_or_default()),
    }
}

fn contradiction(store: &Store, types: &[ColumnType], remembered: &[ColumnType]) -> Failure {
    Failure::Usage(format!(
        "the keys of keyspace `{}` have the types `{}`, not `{}`; leave the types out to use \
         those, take another --keyspace, or give --key-types raw to take keys as they are",
        store.keyspace_name(),
        shown(remembered),
        shown(types)
    ))
}

/// What the types of new keys are if the keyspace already has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {
    /// The keyspace remembers the new types from now on, whatever keys it has.
    Remember,
    /// The new types hold for this command only.
    Keep,
}

/// Has the keyspace remember the types of the keys that are about to be written, and says so.
pub fn remember(store: &Store, types: &[ColumnType], untyped: Untyped) -> Result<(), Failure> {
    let known = remembered(store)?;
    if known.as_deref() == Some(types) {
        return Ok(());
    }
    // Whether there are keys is only asked where it matters: it may read from a damaged table.
    match (known, untyped) {
        (Some(known), _) if !is_empty(store)? => {
            return Err(contradiction(store, types, &known));
        }
        (None, Untyped::Keep) if !is_empty(store)? => return Ok(()),
        _ => {}
    }
    let text = shown(types);
    let Store::EvenDb { keyspace, .. } = store else {
        complain(&format!(
            "a keyspace of the engine {} does not remember key types: give --key-types {text} to every command",
            store.engine().name()
        ));
        return Ok(());
    };
    keyspace.set_property(PROPERTY, &text)?;
    complain(&format!(
        "keyspace `{}` remembers the key types `{text}`",
        store.keyspace_name()
    ));
    Ok(())
}

/// Whether the keyspace is empty, so that no key contradicts new types.
fn is_empty(store: &Store) -> Result<bool, Failure> {
    Ok(store.all().next()?.is_none())
}

/// The types of the keys that an import is about to write, which the keyspace remembers from now on.
pub fn of_import(store: &Store, wanted: &Wanted) -> Result<Vec<ColumnType>, Failure> {
    if *wanted == Wanted::Raw {
        return Ok(Vec::new());
    }
    let known = remembered(store)?;
    let types = wanted.resolve(known.as_deref());
    if matches!(wanted, Wanted::Columns(_)) {
        remember(store, &types, Untyped::Remember)?;
    }
    Ok(types)
}

/// The types of the keys of an import that was made.
pub fn of_imported(store: &Store, wanted: &Wanted) -> Result<Vec<ColumnType>, Failure> {
    if *wanted == Wanted::Raw {
        return Ok(Vec::new());
    }
    let known = remembered(store)?;
    let types = wanted.resolve(known.as_deref());
    match known {
        Some(known) if types != known => Err(contradiction(store, &types, &known)),
        _ => Ok(types),
    }
}
