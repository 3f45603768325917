//! Edits as bytes. An edit is a list of changes, one after the other:
//!
//! ```text
//!   edit   = | change | change | ...
//!   change = | tag u8 | fields |    numbers are varints; keys and names follow their length
//! ```
//! Tags, changes and fields:
//! * 1 - format, the first change of a manifest: engine's name, format version.
//! * 2 - keyspace created: id, name.
//! * 3 - keyspace dropped, with its tree: id.
//! * 4 - file numbers from this one on are free: number.
//! * 5 - keyspace ids from this one on are free: id.
//! * 6 - no record has a greater version: version.
//! * 7 - logs with a lower number are not needed: number.
//! * 8 - table added: keyspace, level, number, age, bytes, records, deletes, bytes of keys and
//!   values, greatest version, least key, greatest key, checksum.
//! * 9 - table removed: keyspace, number.
//! * 10 - guard set: keyspace, the least level in which the key is a guard (7: in none), key.
//! * 11 - table moved: keyspace, number, new level, new age.
//! * 12 - secret of the choice of guards, at most one in a manifest: any number of 64 bits. A
//!   manifest of an older build has none, and older builds refuse a manifest that has one.
//!
//! The whole edit is one change of the state. The order of its changes does not matter, except that
//! the format comes first. Decoding never panics, and takes only whole changes. A tag that is not
//! known is refused as unknown: a later version wrote it.

use crate::types::{Age, FileNumber, KEYSPACE_MAX, KeyspaceId, LEVELS, Level};
use evendb_storage::codec::{get_slice, get_varint, put_slice, put_varint};
use evendb_storage::table::TableMeta;
use evendb_storage::{NUMBER_MAX, TableId, Version};

/// The engine's name in the format change.
pub(crate) const ENGINE: &str = "flsm";
/// The version of the whole format of edits, and of what they say about other files.
pub(crate) const FORMAT_VERSION: u64 = 1;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Format {
        engine: String,
        version: u64,
    },
    CreateKeyspace {
        id: KeyspaceId,
        name: String,
    },
    DropKeyspace {
        id: KeyspaceId,
    },
    NextFile(FileNumber),
    NextKeyspace(KeyspaceId),
    LastVersion(Version),
    LogNumber(FileNumber),
    GuardSecret(u64),
    AddTable(Box<AddTable>),
    RemoveTable {
        keyspace: KeyspaceId,
        number: TableId,
    },
    MoveTable {
        keyspace: KeyspaceId,
        number: TableId,
        to: Level,
        age: Age,
    },
    SetGuard {
        keyspace: KeyspaceId,
        from: Option<Level>,
        key: Vec<u8>,
    },
}

/// A table, as an edit names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AddTable {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) level: Level,
    pub(crate) number: TableId,
    pub(crate) age: Age,
    pub(crate) meta: TableMeta,
}

/// Why an edit cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// A later version wrote it.
    Unknown(String),
    /// It makes no sense.
    Malformed,
}

/// Appends a change.
pub(crate) fn encode(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Format { engine, version } => {
            out.push(1);
            put_slice(out, engine.as_bytes());
            put_varint(out, *version);
        }
        Change::CreateKeyspace { id, name } => {
            put_numbers(out, 2, &[id.0.into()]);
            put_slice(out, name.as_bytes());
        }
        Change::DropKeyspace { id } => put_numbers(out, 3, &[id.0.into()]),
        Change::NextFile(number) => put_numbers(out, 4, &[number.0]),
        Change::NextKeyspace(id) => put_numbers(out, 5, &[id.0.into()]),
        Change::LastVersion(version) => put_numbers(out, 6, &[version.0]),
        Change::LogNumber(number) => put_numbers(out, 7, &[number.0]),
        Change::GuardSecret(secret) => put_numbers(out, 12, &[*secret]),
        Change::AddTable(table) => put_table(out, table),
        Change::RemoveTable { keyspace, number } => {
            put_numbers(out, 9, &[keyspace.0.into(), number.0]);
        }
        Change::MoveTable {
            keyspace,
            number,
            to,
            age,
        } => put_numbers(out, 11, &[keyspace.0.into(), number.0, to.0.into(), age.0]),
        Change::SetGuard {
            keyspace,
            from,
            key,
        } => {
            let from = from.map_or(LEVELS as u64, |from| from.0.into());
            put_numbers(out, 10, &[keyspace.0.into(), from]);
            put_slice(out, key);
        }
    }
}

fn put_numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    for &number in numbers {
        put_varint(out, number);
    }
}

fn put_table(out: &mut Vec<u8>, table: &AddTable) {
    let meta = &table.meta;
    debug_assert!(
        meta.expiring == 0 && meta.value_files.is_empty(),
        "a table with properties that this version cannot tell"
    );
    let numbers = [
        table.keyspace.0.into(),
        table.level.0.into(),
        table.number.0,
        table.age.0,
    ];
    put_numbers(out, 8, &numbers);
    meta.put_figures(out);
}

/// The changes of an edit, one after the other, because a decoded change takes many times its
/// bytes. The first refused change is the last item.
pub(crate) fn changes(mut input: &[u8]) -> impl Iterator<Item = Result<Change, Refused>> {
    std::iter::from_fn(move || {
        let (&tag, rest) = input.split_first()?;
        input = rest;
        let change = match (1..=12).contains(&tag) {
            true => get_change(tag, &mut input).ok_or(Refused::Malformed),
            false => {
                let what =
                    format!("a manifest with a change {tag}, which this version does not know");
                Err(Refused::Unknown(what))
            }
        };
        if change.is_err() {
            input = &[];
        }
        Some(change)
    })
}

/// All changes of an edit.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn decode(input: &[u8]) -> Result<Vec<Change>, Refused> {
    changes(input).collect()
}

/// A number that a database can have reached.
fn number(input: &mut &[u8]) -> Option<u64> {
    get_varint(input).filter(|number| *number <= NUMBER_MAX)
}

fn get_change(tag: u8, input: &mut &[u8]) -> Option<Change> {
    Some(match tag {
        1 => Change::Format {
            engine: get_text(input)?,
            version: get_varint(input)?,
        },
        2 => Change::CreateKeyspace {
            id: get_keyspace(input)?,
            name: get_text(input)?,
        },
        3 => Change::DropKeyspace {
            id: get_keyspace(input)?,
        },
        4 => Change::NextFile(FileNumber(number(input)?)),
        5 => Change::NextKeyspace(get_keyspace(input)?),
        6 => Change::LastVersion(Version(number(input)?)),
        7 => Change::LogNumber(FileNumber(number(input)?)),
        8 => Change::AddTable(Box::new(get_table(input)?)),
        9 => Change::RemoveTable {
            keyspace: get_keyspace(input)?,
            number: TableId(get_varint(input)?),
        },
        10 => {
            let keyspace = get_keyspace(input)?;
            let from = get_varint(input)?;
            let from = match from == LEVELS as u64 {
                true => None,
                false => Some(level(from)?),
            };
            let key = get_slice(input)?.to_vec();
            Change::SetGuard {
                keyspace,
                from,
                key,
            }
        }
        11 => Change::MoveTable {
            keyspace: get_keyspace(input)?,
            number: TableId(get_varint(input)?),
            to: level(get_varint(input)?)?,
            age: Age(number(input)?),
        },
        12 => Change::GuardSecret(get_varint(input)?),
        _ => return None,
    })
}

fn get_table(input: &mut &[u8]) -> Option<AddTable> {
    let table = AddTable {
        keyspace: get_keyspace(input)?,
        level: level(get_varint(input)?)?,
        number: TableId(number(input)?),
        age: Age(number(input)?),
        meta: TableMeta::get_figures(input)?,
    };
    table.meta.is_possible().then_some(table)
}

fn get_keyspace(input: &mut &[u8]) -> Option<KeyspaceId> {
    let id = u32::try_from(get_varint(input)?).ok()?;
    (id <= KEYSPACE_MAX).then_some(KeyspaceId(id))
}

fn level(number: u64) -> Option<Level> {
    let level = u8::try_from(number).ok()?;
    (usize::from(level) < LEVELS).then_some(Level(level))
}

fn get_text(input: &mut &[u8]) -> Option<String> {
    String::from_utf8(get_slice(input)?.to_vec()).ok()
}
