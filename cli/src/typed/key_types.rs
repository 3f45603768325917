//! The types of a keyspace's keys: as they are given, and as the keyspace remembers them.
//!
//! An import, and a put into an empty keyspace, note the types in a property of the keyspace. Every
//! command takes them from there. Types in the arguments that differ from them are refused: a key
//! made with wrong types is another key. `raw` takes keys as their bytes, and ignores remembered
//! types. An empty keyspace takes new types, since it has no keys that they could contradict.

use std::ops::Bound;
use std::path::Path;
use std::str::FromStr;

use crate::failure::Failure;
use crate::input::Wanted;
use crate::keys::{ColumnType, column_type, decode};
use crate::output::{complain, escaped};
use crate::scan_output::is_plain;
use crate::store::{Record, Store};

/// The property that has the types, as they are written in arguments.
pub const PROPERTY: &str = "evendb.key-types";

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

/// The types that the keyspace remembers, as they are written. This version need not know them.
pub fn remembered_text(store: &Store) -> Result<Option<String>, Failure> {
    let bytes = store.keyspace.property(PROPERTY)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The types that the keyspace remembers.
pub fn remembered(store: &Store) -> Result<Option<Vec<ColumnType>>, Failure> {
    let text = remembered_text(store)?;
    text.map(|text| noted(&text)).transpose()
}

fn noted(text: &str) -> Result<Vec<ColumnType>, Failure> {
    columns(text).map_err(|why| {
        Failure::Message(format!(
            "the keyspace remembers key types that this version does not know: {why}; \
             --key-types raw reads the keys' bytes"
        ))
    })
}

/// The types that the keyspace of an export remembered.
pub fn of_export(dir: &Path) -> Result<Option<Vec<ColumnType>>, Failure> {
    let properties = evendb::exported_properties(dir)?;
    let text = properties.get(PROPERTY);
    let text = text.map(|text| noted(&String::from_utf8_lossy(text)));
    text.transpose()
}

/// Makes the keyspace remember the types of an export's keys before it takes them. Refuses them if
/// it has keys of other types.
pub fn remember_exported(
    store: &Store,
    exported: Option<Vec<ColumnType>>,
    given: Option<&KeyTypes>,
) -> Result<(), Failure> {
    let types = match (given, exported) {
        (Some(KeyTypes::Raw), _) => return Ok(()),
        (Some(KeyTypes::Columns(given)), Some(types)) if *given != types => {
            return Err(Failure::Usage(format!(
                "the keys of the export have the types `{}`, not `{}`; leave --key-types out, or give raw to take \
                 keys as they are",
                shown(&types),
                shown(given)
            )));
        }
        (Some(KeyTypes::Columns(given)), _) => Some(given.clone()),
        (None, exported) => exported,
    };
    if let Some(types) = types {
        return remember(store, &types, Untyped::Remember);
    }
    match remembered(store)? {
        Some(known) if !is_plain(&known) => Err(Failure::Usage(format!(
            "the keys of keyspace `{}` have the types `{known}`, and the export says nothing of its keys: \
             --key-types {known} says that they have the same, --key-types raw takes them as they are",
            store.keyspace.name(),
            known = shown(&known)
        ))),
        _ => Ok(()),
    }
}

/// The types with which keys are read: the given ones, or the remembered ones, or none.
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
        store.keyspace.name(),
        shown(remembered),
        shown(types)
    ))
}

/// What happens to the types of new keys if the keyspace already has keys without types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untyped {
    /// The keyspace remembers the new types from now on, if its keys may have them.
    Remember,
    /// The new types hold for this command only.
    Keep,
}

/// Makes the keyspace remember the types of the keys that will be written, and says so.
pub fn remember(store: &Store, types: &[ColumnType], untyped: Untyped) -> Result<(), Failure> {
    let known = remembered(store)?;
    if known.as_deref() == Some(types) {
        return Ok(());
    }
    let text = shown(types);
    // It asks for keys only if that matters: the question may read from a damaged table.
    match (known, untyped) {
        (Some(known), _) if !store.is_empty()? => {
            return Err(contradiction(store, types, &known));
        }
        (None, _) => {
            if let Some(key) = key_of_others(store, types)? {
                return Err(Failure::Usage(format!(
                    "keyspace `{}` has keys that have not the types `{text}`, as `{}`; take another --keyspace, or \
                     give --key-types raw to take keys as they are",
                    store.keyspace.name(),
                    escaped(&key)
                )));
            }
            if untyped == Untyped::Keep && !store.is_empty()? {
                if !is_plain(types) {
                    complain(&format!(
                        "keyspace `{}` remembers no key types: `{text}` holds for this command",
                        store.keyspace.name()
                    ));
                }
                return Ok(());
            }
        }
        _ => {}
    }
    store.keyspace.set_property(PROPERTY, &text)?;
    complain(&format!(
        "keyspace `{}` remembers the key types `{text}`",
        store.keyspace.name()
    ));
    Ok(())
}

/// The first key of the keyspace, or the last one, if it cannot have these types.
fn key_of_others(store: &Store, types: &[ColumnType]) -> Result<Option<Vec<u8>>, Failure> {
    if is_plain(types) {
        return Ok(None);
    }
    let all = || {
        let range = (Bound::Unbounded, Bound::Unbounded);
        store.cursor(range, Some(1), true)
    };
    let key_of = |record: Option<Record<'_>>| record.map(|(key, _)| key.to_vec());
    let ends = [key_of(all().next()?), key_of(all().next_back()?)];
    let mut ends = ends.into_iter().flatten();
    Ok(ends.find(|key| decode(types, key).is_none()))
}

/// The types of the keys that an import will write. The keyspace remembers them from now on.
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

/// The types of the keys that an import wrote.
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
