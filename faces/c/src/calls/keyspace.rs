//! Keyspaces: made, opened, renamed, dropped, listed; their options, properties and compaction.

use super::database::DbHandle;
use super::reads::{ValueHandle, give_bytes};
use crate::border::bytes::terminated;
use crate::border::handle::free;
use crate::border::range::KeyRange;
use crate::border::{Bytes, ErrorPlace, Place, Shared, Slot, Status, Text, call};
use crate::setup::options::{KeyspaceOptionsHandle, chosen};
use crate::tools::summary::Summary;
use evendb::Keyspace;
use std::ffi::{CString, c_char};

/// `evendb_keyspace`.
pub type KeyspaceHandle = Shared<Keyspace>;
/// `evendb_names`.
pub type NamesHandle = Shared<Vec<CString>>;

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_open(
    db: Option<&DbHandle>,
    name: Text,
    options: Option<&KeyspaceOptionsHandle>,
    keyspace: Place<'_, *mut KeyspaceHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let keyspace = keyspace.cleared();
    call(db, error, |db| {
        keyspace.needed("keyspace")?;
        let name = name.str("name")?;
        let opened = match chosen(options)? {
            Some(options) => db.keyspace_with(name, &options)?,
            None => db.keyspace(name)?,
        };
        keyspace.fill(Shared::give(opened));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_exists(
    db: Option<&DbHandle>,
    name: Text,
    found: Place<'_, i32>,
    error: ErrorPlace<'_>,
) -> Status {
    let found = found.cleared();
    call(db, error, |db| {
        found.needed("found")?;
        found.fill(i32::from(db.keyspace_exists(name.str("name")?)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_drop(
    db: Option<&DbHandle>,
    name: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call(db, error, |db| {
        let name = name.str("name")?;
        Ok(db.drop_keyspace(name)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_rename_keyspace(
    db: Option<&DbHandle>,
    from: Text,
    to: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call(db, error, |db| {
        let (from, to) = (from.str("from")?, to.str("to")?);
        Ok(db.rename_keyspace(from, to)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_swap_keyspaces(
    db: Option<&DbHandle>,
    one: Text,
    other: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call(db, error, |db| {
        let (one, other) = (one.str("one")?, other.str("other")?);
        Ok(db.swap_keyspaces(one, other)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_free(keyspace: *mut KeyspaceHandle) {
    free(keyspace);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_names(
    db: Option<&DbHandle>,
    names: Place<'_, *mut NamesHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let names = names.cleared();
    call(db, error, |db| {
        names.needed("names")?;
        let each = db.keyspace_names().into_iter();
        let each = each.map(|name| terminated(name.into_bytes()));
        names.fill(Shared::give(each.collect()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_names_count(names: Option<&NamesHandle>) -> usize {
    names.map_or(0, |names| names.inner().len())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_names_at(names: Option<&NamesHandle>, index: usize) -> *const c_char {
    let name = names.and_then(|names| names.inner().get(index));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn evendb_names_free(names: *mut NamesHandle) {
    free(names);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_name(
    keyspace: Option<&KeyspaceHandle>,
    name: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let name = name.cleared();
    call(keyspace, error, |keyspace| {
        name.needed("name")?;
        name.fill(give_bytes(Some(keyspace.name().into())));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_id(
    keyspace: Option<&KeyspaceHandle>,
    id: Place<'_, u32>,
    error: ErrorPlace<'_>,
) -> Status {
    let id = id.cleared();
    call(keyspace, error, |keyspace| {
        id.needed("id")?;
        id.fill(keyspace.id());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_option(
    keyspace: Option<&KeyspaceHandle>,
    name: Text,
    text: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let text = text.cleared();
    call(keyspace, error, |keyspace| {
        text.needed("text")?;
        let name = name.str("name")?;
        let options = keyspace.options()?;
        let found = options.chosen().find(|(chosen, _)| *chosen == name);
        text.fill(give_bytes(found.map(|(_, text)| text.into_bytes())));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_set_options(
    keyspace: Option<&KeyspaceHandle>,
    options: Option<&KeyspaceOptionsHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let options = chosen(options)?.unwrap_or_default();
        Ok(keyspace.set_options(&options)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_property(
    keyspace: Option<&KeyspaceHandle>,
    name: Text,
    property: Place<'_, *mut ValueHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let property = property.cleared();
    call(keyspace, error, |keyspace| {
        property.needed("property")?;
        property.fill(give_bytes(keyspace.property(name.str("name")?)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_set_property(
    keyspace: Option<&KeyspaceHandle>,
    name: Text,
    property: Bytes,
    property_size: usize,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        let property = property.of(property_size, "property")?;
        Ok(keyspace.set_property(name.str("name")?, property)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_remove_property(
    keyspace: Option<&KeyspaceHandle>,
    name: Text,
    error: ErrorPlace<'_>,
) -> Status {
    call(keyspace, error, |keyspace| {
        Ok(keyspace.remove_property(name.str("name")?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_compact(
    keyspace: Option<&KeyspaceHandle>,
    range: i32,
    low: Bytes,
    low_size: usize,
    high: Bytes,
    high_size: usize,
    summary: Place<'_, *mut Slot<Summary>>,
    error: ErrorPlace<'_>,
) -> Status {
    let summary = summary.cleared();
    call(keyspace, error, |keyspace| {
        let range = KeyRange::of(range, (low, low_size), (high, high_size))?;
        let done = keyspace.compact_range::<&[u8]>(range.bounds())?;
        summary.give(|| Summary::of_compaction(&done));
        Ok(())
    })
}
