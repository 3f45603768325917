//! The bytes of what changes hold: the figures of a table, parts, range deletions, chunks.
//!
//! Invariants: what is read is what was written; bytes that no writer makes give `None`, and never
//! panic. Thread safety: pure. Not here: the changes themselves, and their frames ([`super::edit`],
//! [`super::writer`]).

use super::edit::{ChunkRecord, CoverRecord, Part, Place, Role};
use super::{Age, ChunkId, GuardKey, KeyspaceId, Level};
use crate::sync::Arc;
use crate::version::clock::{CHECKPOINT_MAX, checkpoint_of};
use evendb_storage::codec::{get_slice, get_varint, put_slice, put_varint};
use evendb_storage::table::TableMeta;
use evendb_storage::{TableId, Time, Version};

/// Added to the place of a table in which records expire: at its end the part says how many expire,
/// and when the last one does.
const EXPIRES: u64 = 2;

/// Added to the place of a table with values apart: at its end the part says in which files they
/// lie, and how many bytes.
const APART: u64 = 4;
/// Added to the place of a table of a guard: its role is its level, and its age follows.
const GUARDED: u64 = 8;

/// The least bytes of a part: one for each of table, place, role, epoch and checkpoint, and for the
/// eight fields of the table's figures.
const PART_BYTES_MIN: usize = 13;

pub(super) fn put_part(out: &mut Vec<u8>, part: &Part) {
    put_varint(out, part.table.0);
    let expires = if part.meta.expiring > 0 { EXPIRES } else { 0 };
    let is_apart = !part.meta.value_files.is_empty();
    let apart = if is_apart { APART } else { 0 };
    let guarded = match part.role {
        Role::Fragment { .. } => GUARDED,
        Role::Base | Role::Run { .. } => 0,
    };
    let more = expires + apart + guarded;
    match part.place {
        Place::File => put_varint(out, more),
        Place::Extent { offset } => {
            put_varint(out, 1 + more);
            put_varint(out, offset);
        }
    }
    match part.role {
        Role::Base => put_varint(out, 0),
        Role::Run { ordinal } => put_varint(out, u64::from(ordinal) + 1),
        Role::Fragment { level, age } => {
            put_varint(out, u64::from(level.0));
            put_varint(out, age.0);
        }
    }
    put_varint(out, part.epoch);
    put_varint(out, part.checkpoint);
    part.meta.put_figures(out);
    if expires > 0 {
        put_varint(out, part.meta.expiring);
        put_varint(out, part.meta.last_expiry.0);
    }
    if is_apart {
        part.meta.put_value_files(out);
    }
}

pub(super) fn get_part(input: &mut &[u8]) -> Option<Part> {
    let table = TableId(get_varint(input)?);
    let place = get_varint(input)?;
    let (is_apart, expires) = (place & APART != 0, place & EXPIRES != 0);
    let is_guarded = place & GUARDED != 0;
    let place = match place & !(APART | EXPIRES | GUARDED) {
        0 => Place::File,
        1 => Place::Extent {
            offset: get_varint(input)?,
        },
        _ => return None,
    };
    let role = match get_varint(input)? {
        level if is_guarded => Role::Fragment {
            level: Level(u8::try_from(level).ok()?),
            age: Age(get_varint(input)?),
        },
        0 => Role::Base,
        ordinal => Role::Run {
            ordinal: u32::try_from(ordinal - 1).ok()?,
        },
    };
    let (epoch, checkpoint) = (get_varint(input)?, get_varint(input)?);
    let mut meta = TableMeta::get_figures(input)?;
    if checkpoint_of(meta.max_version) > CHECKPOINT_MAX {
        return None;
    }
    if expires {
        meta.expiring = get_varint(input)?;
        meta.last_expiry = Time(get_varint(input)?);
        if meta.expiring == 0 {
            return None;
        }
    }
    if is_apart {
        meta.value_files = TableMeta::get_value_files(input)?;
    }
    // With all that belongs to it.
    if !meta.is_possible() {
        return None;
    }
    Some(Part {
        table,
        place,
        role,
        epoch,
        checkpoint,
        meta: Arc::new(meta),
    })
}

pub(super) fn put_parts(out: &mut Vec<u8>, parts: &[Part]) {
    put_varint(out, parts.len() as u64);
    for part in parts {
        put_part(out, part);
    }
}

pub(super) fn get_parts(input: &mut &[u8]) -> Option<Vec<Part>> {
    let count = get_varint(input)?;
    // A count from a hostile file ends at the first missing part.
    let most = (input.len() / PART_BYTES_MIN) as u64;
    let mut parts = Vec::with_capacity(count.min(most) as usize);
    for _ in 0..count {
        parts.push(get_part(input)?);
    }
    Some(parts)
}

pub(super) fn put_covers(out: &mut Vec<u8>, covers: &[CoverRecord]) {
    put_varint(out, covers.len() as u64);
    for cover in covers {
        put_slice(out, &cover.low);
        // No key lies below an empty key, so it can stand for no limit.
        put_slice(out, cover.high.as_deref().unwrap_or_default());
        put_varint(out, cover.version.0);
    }
}

pub(super) fn get_covers(input: &mut &[u8]) -> Option<Vec<CoverRecord>> {
    let count = get_varint(input)?;
    let mut covers = Vec::new();
    for _ in 0..count {
        let low = get_slice(input)?.to_vec();
        let high = Some(get_slice(input)?.to_vec()).filter(|high| !high.is_empty());
        let version = Version(get_varint(input)?);
        let too_long = low.len() > usize::from(u16::MAX);
        if too_long || checkpoint_of(version) > CHECKPOINT_MAX {
            return None;
        }
        covers.push(CoverRecord { low, high, version });
    }
    Some(covers)
}

pub(super) fn put_tables(out: &mut Vec<u8>, tables: &[TableId]) {
    put_varint(out, tables.len() as u64);
    for table in tables {
        put_varint(out, table.0);
    }
}

pub(super) fn get_tables(input: &mut &[u8]) -> Option<Vec<TableId>> {
    let count = get_varint(input)?;
    // A count from a hostile file ends at the first missing table.
    let mut tables = Vec::new();
    for _ in 0..count {
        tables.push(TableId(get_varint(input)?));
    }
    Some(tables)
}

pub(super) fn put_guards(out: &mut Vec<u8>, guards: &[GuardKey]) {
    put_varint(out, guards.len() as u64);
    for guard in guards {
        put_slice(out, &guard.key);
        put_varint(out, u64::from(guard.level.0));
    }
}

pub(super) fn get_guards(input: &mut &[u8]) -> Option<Vec<GuardKey>> {
    let count = get_varint(input)?;
    let mut guards = Vec::new();
    for _ in 0..count {
        guards.push(GuardKey {
            key: get_slice(input)?.into(),
            level: Level(u8::try_from(get_varint(input)?).ok()?),
        });
    }
    Some(guards)
}

pub(super) fn put_chunk(out: &mut Vec<u8>, chunk: &ChunkRecord) {
    put_varint(out, chunk.id.0);
    put_varint(out, u64::from(chunk.keyspace.0));
    put_slice(out, &chunk.low);
    put_parts(out, &chunk.parts);
}

/// A chunk without range deletions and guards.
pub(super) fn get_chunk(input: &mut &[u8]) -> Option<ChunkRecord> {
    Some(ChunkRecord {
        id: ChunkId(get_varint(input)?),
        keyspace: KeyspaceId(u32::try_from(get_varint(input)?).ok()?),
        low: get_slice(input)?.to_vec(),
        parts: get_parts(input)?,
        covers: Vec::new(),
        guards: None,
    })
}
