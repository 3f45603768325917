//! The types of a keyspace's keys: as they are given, and as the keyspace remembers them.
//!
//! An import, and a put into an empty keyspace, note the types in a property of the keyspace. Every
//! command takes them from there. Types in the arguments that differ from them are refused: a key made
//! with wrong types is another key. `raw` takes keys as their bytes, whatever is remembered. An empty
//! keyspace takes new types, since it has no keys that they could contradict.

use std::str::FromStr;

use evendb::Keyspace;

use crate::failure::Failure;
use crate::input::Wanted;
use crate::keys::{ColumnType, column_type};
use crate::output::complain;

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

/// The types that the keyspace remembers.
pub fn remembered(keyspace: &Keyspace) -> Result<Option<Vec<ColumnType>>, Failure> {
    let Some(bytes) = keyspace.property(PROPERTY)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    columns(&text).map(Some).map_err(|why| {
        Failure::Message(format!(
            "the keyspace remembers key types that this version does not know: {why}; \
             --key-types raw reads the keys' bytes"
        ))
    })
}

/// The types to read keys with: those given, or those remembered, or none.
pub fn agreed(keyspace: &Keyspace, given: Option<&KeyTypes>) -> Result<Vec<ColumnType>, Failure> {
    let types = match given {
        Some(KeyTypes::Raw) => return Ok(Vec::new()),
        Some(KeyTypes::Columns(types)) => Some(types),
        None => None,
    };
    match (types, remembered(keyspace)?) {
        (Some(types), Some(remembered)) if *types != remembered => {
            Err(contradiction(keyspace, types, &remembered))
        }
        (Some(types), _) => Ok(types.clone()),
        (None, remembered) => Ok(remembered.unwrap_or_default()),
    }
}

fn contradiction(keyspace: &Keyspace, types: &[ColumnType], remembered: &[ColumnType]) -> Failure {
    Failure::Usage(format!(
        "the keys of keyspace `{}` have the types `{}`, not `{}`; leave the types out to use \
         those, take another --keyspace, or give --key-types raw to take keys as they are",
        keyspace.name(),
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
pub fn remember(
    keyspace: &Keyspace,
    types: &[ColumnType],
    untyped: Untyped,
) -> Result<(), Failure> {
    let known = remembered(keyspace)?;
    if known.as_deref() == Some(types) {
        return Ok(());
    }
    // Whether there are keys is only asked where it matters: it may read from a damaged table.
    match (known, untyped) {
        (Some(known), _) if !is_empty(keyspace)? => {
            return Err(contradiction(keyspace, types, &known));
        }
        (None, Untyped::Keep) if !is_empty(keyspace)? => return Ok(()),
        _ => {}
    }
    let text = shown(types);
    keyspace.set_property(PROPERTY, &text)?;
    complain(&format!(
        "keyspace `{}` remembers the key types `{text}`",
        keyspace.name()
    ));
    Ok(())
}

/// Whether the keyspace is empty, so that no key contradicts new types.
fn is_empty(keyspace: &Keyspace) -> Result<bool, Failure> {
    Ok(keyspace.cursor::<&[u8]>(..).next()?.is_none())
}

/// The types of the keys that an import is about to write, which the keyspace remembers from now on.
pub fn of_import(keyspace: &Keyspace, wanted: &Wanted) -> Result<Vec<ColumnType>, Failure> {
    if *wanted == Wanted::Raw {
        return Ok(Vec::new());
    }
    let known = remembered(keyspace)?;
    let types = wanted.resolve(known.as_deref());
    if matches!(wanted, Wanted::Columns(_)) {
        remember(keyspace, &types, Untyped::Remember)?;
    }
    Ok(types)
}

/// The types of the keys of an import that was made.
pub fn of_imported(keyspace: &Keyspace, wanted: &Wanted) -> Result<Vec<ColumnType>, Failure> {
    if *wanted == Wanted::Raw {
        return Ok(Vec::new());
    }
    let known = remembered(keyspace)?;
    let types = wanted.resolve(known.as_deref());
    match known {
        Some(known) if types != known => Err(contradiction(keyspace, &types, &known)),
        _ => Ok(types),
    }
}
