//! The manifest's edits and their bytes (format in docs/format.md). Decoding never panics: bytes
//! that make no sense are `None`.

use super::fields::{
    get_chunk, get_covers, get_guards, get_parts, get_tables, put_chunk, put_covers, put_guards,
    put_parts, put_tables,
};
use super::{Age, ChunkId, GuardKey, GuardSet, KeyspaceId, Level};
use crate::commit_log::Lsn;
use crate::sync::Arc;
use evendb_storage::codec::{get_slice, get_varint, put_slice, put_varint};
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::BootId;
use evendb_storage::{TableId, Version};

/// The place of a table's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A file of its own.
    File,
    /// An extent of a log container.
    Extent {
        /// First byte; it says in which container, too ([`crate::files::in_container`]).
        offset: u64,
    },
}

/// The role of a table in its chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Part of the sorted base: disjoint from the other base tables, older than every run.
    Base,
    /// A run of the log; a higher ordinal is newer.
    Run {
        /// Position in the log's order.
        ordinal: u32,
    },
    /// A table of a guard: older than every run, and than every table of a lesser level.
    Fragment {
        /// From 1 on.
        level: Level,
        /// A table of its guard with a greater age is newer.
        age: Age,
    },
}

impl Role {
    /// Puts the tables of a chunk in order, the oldest ones first.
    pub(crate) fn order(self) -> (u8, u64, u64) {
        match self {
            Role::Fragment { level, age } => (0, u64::from(u8::MAX - level.0), age.0),
            Role::Base => (1, 0, 0),
            Role::Run { ordinal } => (2, u64::from(ordinal), 0),
        }
    }

    /// Whether it is a run of the log.
    pub(crate) fn is_run(self) -> bool {
        matches!(self, Role::Run { .. })
    }
}

/// One table of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) table: TableId,
    pub(crate) place: Place,
    pub(crate) role: Role,
    /// The epoch and checkpoint that wrote it (checkpoint 0: a rewrite of completed ones).
    pub(crate) epoch: u64,
    pub(crate) checkpoint: u64,
    /// Shared by the manifest's state and the table's handle.
    pub(crate) meta: Arc<TableMeta>,
}

impl Part {
    /// The version of all records, if the rows have none: the table was ingested. `meta` is what
    /// the table says of itself.
    pub(crate) fn version_of_rows(&self, meta: &TableMeta) -> Option<Version> {
        let own = self.meta.max_version;
        (meta.max_version == Version::ZERO && own > Version::ZERO).then_some(own)
    }

    /// Whether this part names a table that says this of itself.
    pub(crate) fn is_of(&self, meta: &TableMeta) -> bool {
        let max_version = self.version_of_rows(meta).unwrap_or(meta.max_version);
        let meta = TableMeta {
            max_version,
            ..meta.clone()
        };
        meta == *self.meta
    }
}

/// A range deletion of a completed checkpoint, clipped to one chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CoverRecord {
    pub(crate) low: Vec<u8>,
    /// `None`: the chunk's end.
    pub(crate) high: Option<Vec<u8>>,
    pub(crate) version: Version,
}

/// A chunk as the manifest knows it; its upper limit is the next chunk's low key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRecord {
    pub(crate) id: ChunkId,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) low: Vec<u8>,
    pub(crate) parts: Vec<Part>,
    pub(crate) covers: Vec<CoverRecord>,
    /// Its guards, if its keyspace lies in guards.
    pub(crate) guards: Option<GuardSet>,
}

/// The life of the database between two unclean opens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EpochRecord {
    pub(crate) epoch: u64,
    /// Seed of the checksums of its commit-log records.
    pub(crate) seed: u64,
    /// First commit-log position of the epoch; the previous epoch is closed there.
    pub(crate) start: Lsn,
    /// The end of the previous epoch, as recovery found it.
    pub(crate) previous_closed_at: Lsn,
    /// The last completed checkpoint when the epoch began (a row of the recovery table).
    pub(crate) completed_before: u64,
    /// The start of the machine in which the epoch began, if that can be told.
    pub(crate) boot: Option<BootId>,
}

/// One change. An edit is a list of them, applied together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// First change of every manifest: facts fixed at creation.
    Format {
        ring_bytes: u64,
    },
    Epoch(EpochRecord),
    CreateKeyspace {
        id: KeyspaceId,
        name: String,
    },
    DropKeyspace {
        id: KeyspaceId,
    },
    /// Gives a keyspace another name. Two names are exchanged by two changes of one edit.
    RenameKeyspace {
        id: KeyspaceId,
        name: String,
    },
    /// Sets a property of a keyspace, or removes it.
    SetProperty {
        keyspace: KeyspaceId,
        name: String,
        value: Option<Vec<u8>>,
    },
    SetChunk(ChunkRecord),
    RemoveChunk {
        id: ChunkId,
    },
    AddParts {
        id: ChunkId,
        parts: Vec<Part>,
    },
    /// Range deletions of a checkpoint, which the same edit completes.
    AddCovers {
        id: ChunkId,
        covers: Vec<CoverRecord>,
    },
    /// Changes tables and guards of a chunk with guards. A table that is gone and comes back has
    /// moved.
    EditFragments {
        id: ChunkId,
        gone: Vec<TableId>,
        parts: Vec<Part>,
        guards: Vec<GuardKey>,
    },
    Checkpoint {
        number: u64,
        replay_from: Lsn,
    },
    /// New runs go to the container of this number; nothing is written to those before it.
    Container {
        number: u64,
    },
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Format { ring_bytes } => {
                put_varint(out, 1);
                put_varint(out, *ring_bytes);
            }
            Change::Epoch(epoch) => {
                put_varint(out, 2);
                epoch.encode(out);
            }
            Change::CreateKeyspace { id, name } => put_named(out, 3, *id, name),
            Change::RenameKeyspace { id, name } => put_named(out, 15, *id, name),
            Change::DropKeyspace { id } => {
                put_varint(out, 4);
                put_varint(out, u64::from(id.0));
            }
            Change::SetChunk(chunk) => put_set_chunk(out, chunk),
            Change::RemoveChunk { id } => {
                put_varint(out, 6);
                put_varint(out, id.0);
            }
            Change::AddParts { id, parts } => {
                put_varint(out, 7);
                put_varint(out, id.0);
                put_parts(out, parts);
            }
            Change::AddCovers { id, covers } => {
                put_varint(out, 11);
                put_varint(out, id.0);
                put_covers(out, covers);
            }
            Change::EditFragments {
                id,
                gone,
                parts,
                guards,
            } => {
                put_varint(out, 13);
                put_varint(out, id.0);
                put_tables(out, gone);
                put_parts(out, parts);
                put_guards(out, guards);
            }
            Change::Checkpoint {
                number,
                replay_from,
            } => {
                put_varint(out, 8);
                put_varint(out, *number);
                put_varint(out, replay_from.0);
            }
            Change::Container { number } => {
                put_varint(out, 14);
                put_varint(out, *number);
            }
            Change::SetProperty {
                keyspace,
                name,
                value,
            } => put_property(out, *keyspace, name, value.as_deref()),
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Change> {
        let keyspace =
            |input: &mut &[u8]| Some(KeyspaceId(u32::try_from(get_varint(input)?).ok()?));
        let text = |input: &mut &[u8]| String::from_utf8(get_slice(input)?.to_vec()).ok();
        Some(match get_varint(input)? {
            1 => Change::Format {
                ring_bytes: get_varint(input)?,
            },
            2 => Change::Epoch(EpochRecord::decode(input)?),
            3 => Change::CreateKeyspace {
                id: keyspace(input)?,
                name: text(input)?,
            },
            4 => Change::DropKeyspace {
                id: keyspace(input)?,
            },
            5 => Change::SetChunk(get_chunk(input)?),
            6 => Change::RemoveChunk {
                id: ChunkId(get_varint(input)?),
            },
            7 => Change::AddParts {
                id: ChunkId(get_varint(input)?),
                parts: get_parts(input)?,
            },
            8 => Change::Checkpoint {
                number: get_varint(input)?,
                replay_from: Lsn(get_varint(input)?),
            },
            9 => Change::SetProperty {
                keyspace: keyspace(input)?,
                name: text(input)?,
                value: match get_varint(input)? {
                    0 => None,
                    1 => Some(get_slice(input)?.to_vec()),
                    _ => return None,
                },
            },
            10 => {
                let chunk = get_chunk(input)?;
                let covers = get_covers(input)?;
                Change::SetChunk(ChunkRecord { covers, ..chunk })
            }
            11 => Change::AddCovers {
                id: ChunkId(get_varint(input)?),
                covers: get_covers(input)?,
            },
            12 => Change::SetChunk(get_guarded_chunk(input)?),
            13 => Change::EditFragments {
                id: ChunkId(get_varint(input)?),
                gone: get_tables(input)?,
                parts: get_parts(input)?,
                guards: get_guards(input)?,
            },
            14 => Change::Container {
                number: get_varint(input)?,
            },
            15 => Change::RenameKeyspace {
                id: keyspace(input)?,
                name: text(input)?,
            },
            _ => return None,
        })
    }
}

impl EpochRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch);
        put_varint(out, self.seed);
        put_varint(out, self.start.0);
        put_varint(out, self.previous_closed_at.0);
        put_varint(out, self.completed_before);
        put_slice(out, self.boot.as_ref().map_or(&[], |boot| &boot[..]));
    }

    fn decode(input: &mut &[u8]) -> Option<EpochRecord> {
        Some(EpochRecord {
            epoch: get_varint(input)?,
            seed: get_varint(input)?,
            start: Lsn(get_varint(input)?),
            previous_closed_at: Lsn(get_varint(input)?),
            completed_before: get_varint(input)?,
            boot: match get_slice(input)? {
                [] => None,
                boot => Some(boot.try_into().ok()?),
            },
        })
    }
}

fn put_property(out: &mut Vec<u8>, keyspace: KeyspaceId, name: &str, value: Option<&[u8]>) {
    put_varint(out, 9);
    put_varint(out, u64::from(keyspace.0));
    put_slice(out, name.as_bytes());
    put_varint(out, u64::from(value.is_some()));
    if let Some(value) = value {
        put_slice(out, value);
    }
}

/// A change of this tag, which names a keyspace.
fn put_named(out: &mut Vec<u8>, tag: u64, id: KeyspaceId, name: &str) {
    put_varint(out, tag);
    put_varint(out, u64::from(id.0));
    put_slice(out, name.as_bytes());
}

fn put_set_chunk(out: &mut Vec<u8>, chunk: &ChunkRecord) {
    put_varint(out, tag_of(chunk));
    put_chunk(out, chunk);
    if !chunk.covers.is_empty() || chunk.guards.is_some() {
        put_covers(out, &chunk.covers);
    }
    if let Some(guards) = &chunk.guards {
        put_varint(out, guards.seed);
        put_guards(out, &guards.keys);
    }
}

fn get_guarded_chunk(input: &mut &[u8]) -> Option<ChunkRecord> {
    let chunk = get_chunk(input)?;
    Some(ChunkRecord {
        covers: get_covers(input)?,
        guards: Some(GuardSet {
            seed: get_varint(input)?,
            keys: get_guards(input)?,
        }),
        ..chunk
    })
}

/// The tag of a chunk's record: what follows its tables.
fn tag_of(chunk: &ChunkRecord) -> u64 {
    match (chunk.guards.is_some(), chunk.covers.is_empty()) {
        (true, _) => 12,
        (false, true) => 5,
        (false, false) => 10,
    }
}

/// The bytes of an edit.
pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::new();
    for change in changes {
        change.encode(&mut out);
    }
    out
}

/// The changes of an edit, one after the other, because each takes many times its bytes. If the
/// bytes make no sense, it gives `None`, and then ends.
pub(crate) fn changes(mut input: &[u8]) -> impl Iterator<Item = Option<Change>> {
    std::iter::from_fn(move || {
        let is_left = !input.is_empty();
        is_left.then(|| {
            let change = Change::decode(&mut input);
            if change.is_none() {
                input = &[];
            }
            change
        })
    })
}

/// All changes of an edit; `None` if the bytes make no sense.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn decode(input: &[u8]) -> Option<Vec<Change>> {
    changes(input).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use evendb_storage::Time;

    fn part(table: u64, place: Place, role: Role) -> Part {
        Part {
            table: TableId(table),
            place,
            role,
            epoch: 2,
            checkpoint: 7,
            meta: Arc::new(TableMeta {
                len: 4000,
                entries: 40,
                deletes: 3,
                data_bytes: 3900,
                min_key: b"aa".to_vec(),
                max_key: b"zz".to_vec(),
                max_version: Version(7 << 24),
                checksum: 0xdead_beef,
                ..TableMeta::default()
            }),
        }
    }

    fn cover(high: Option<Vec<u8>>) -> CoverRecord {
        CoverRecord {
            low: b"ka".to_vec(),
            high,
            version: Version(7 << 24 | 3),
        }
    }

    pub(crate) fn samples() -> Vec<Change> {
        vec![
            Change::Format { ring_bytes: 65536 },
            Change::Epoch(EpochRecord {
                epoch: 2,
                seed: u64::MAX,
                start: Lsn(900),
                previous_closed_at: Lsn(896),
                completed_before: 6,
                boot: Some(*b"one start of it."),
            }),
            Change::CreateKeyspace {
                id: KeyspaceId(1),
                name: "events".into(),
            },
            Change::SetProperty {
                keyspace: KeyspaceId(1),
                name: "merge".into(),
                value: Some(b"add".to_vec()),
            },
            Change::SetProperty {
                keyspace: KeyspaceId(1),
                name: "order".into(),
                value: Some(Vec::new()),
            },
            Change::SetChunk(ChunkRecord {
                id: ChunkId(9),
                keyspace: KeyspaceId(1),
                low: b"k".to_vec(),
                parts: vec![part(3, Place::File, Role::Base)],
                covers: Vec::new(),
                guards: None,
            }),
            Change::AddParts {
                id: ChunkId(9),
                parts: vec![part(
                    4,
                    Place::Extent { offset: 512 },
                    Role::Run { ordinal: 5 },
                )],
            },
            Change::Checkpoint {
                number: 7,
                replay_from: Lsn(1024),
            },
            Change::SetProperty {
                keyspace: KeyspaceId(1),
                name: "merge".into(),
                value: None,
            },
            Change::AddCovers {
                id: ChunkId(9),
                covers: vec![cover(None)],
            },
            Change::SetChunk(ChunkRecord {
                id: ChunkId(9),
                keyspace: KeyspaceId(1),
                low: b"k".to_vec(),
                parts: vec![part(3, Place::File, Role::Base)],
                covers: vec![cover(Some(b"n".to_vec())), cover(None)],
                guards: None,
            }),
            Change::RemoveChunk { id: ChunkId(9) },
            Change::DropKeyspace { id: KeyspaceId(1) },
        ]
    }

    /// A chunk with guards, and what a compaction makes of it.
    pub(crate) fn guard_samples() -> Vec<Change> {
        let guard = |key: &[u8], level| GuardKey {
            key: key.into(),
            level: Level(level),
        };
        let fragment = |level, age| Role::Fragment {
            level: Level(level),
            age: Age(age),
        };
        vec![
            Change::CreateKeyspace {
                id: KeyspaceId(2),
                name: "guards".into(),
            },
            Change::SetChunk(ChunkRecord {
                id: ChunkId(10),
                keyspace: KeyspaceId(2),
                low: Vec::new(),
                parts: vec![
                    part(5, Place::File, fragment(6, 300)),
                    part(6, Place::Extent { offset: 512 }, Role::Run { ordinal: 5 }),
                ],
                covers: vec![cover(None)],
                guards: Some(GuardSet {
                    seed: 42,
                    keys: vec![guard(b"m", 5)],
                }),
            }),
            Change::EditFragments {
                id: ChunkId(10),
                gone: vec![TableId(5), TableId(6)],
                parts: vec![
                    part(5, Place::File, fragment(6, 301)),
                    part(7, Place::File, fragment(5, 301)),
                ],
                guards: vec![guard(b"c", 6), guard(b"m", 4)],
            },
            Change::Container { number: 3 },
        ]
    }

    /// Two keyspaces that exchange their names.
    pub(crate) fn renaming_samples() -> Vec<Change> {
        let name = |id, name: &str| (KeyspaceId(id), name.to_owned());
        let [(one, events), (other, next)] = [name(3, "events"), name(4, "next")];
        let create = |id, name| Change::CreateKeyspace { id, name };
        let rename = |id, name| Change::RenameKeyspace { id, name };
        vec![
            create(one, events.clone()),
            create(other, next.clone()),
            rename(one, next),
            rename(other, events),
        ]
    }

    /// Tables in which records expire.
    pub(crate) fn expiring_samples() -> Vec<Change> {
        let expiring = |table, place| {
            let mut part = part(table, place, Role::Base);
            let meta = TableMeta {
                expiring: 37,
                last_expiry: Time(1_700_000_000_000),
                ..(*part.meta).clone()
            };
            part.meta = Arc::new(meta);
            part
        };
        let places = [Place::File, Place::Extent { offset: 512 }];
        vec![Change::AddParts {
            id: ChunkId(9),
            parts: places.map(|place| expiring(3, place)).to_vec(),
        }]
    }

    /// Tables with values apart.
    pub(crate) fn apart_samples() -> Vec<Change> {
        let apart = |table, place, expiring| {
            let mut part = part(table, place, Role::Base);
            let meta = TableMeta {
                expiring,
                last_expiry: Time(expiring * 1000),
                value_files: vec![(1 << 32 | 3, 70_000), (1 << 32 | 9, 16_384)],
                ..(*part.meta).clone()
            };
            part.meta = Arc::new(meta);
            part
        };
        vec![Change::AddParts {
            id: ChunkId(9),
            parts: vec![
                apart(3, Place::File, 0),
                apart(4, Place::Extent { offset: 512 }, 5),
            ],
        }]
    }

    #[test]
    fn edits_round_trip() {
        for changes in [
            samples(),
            expiring_samples(),
            apart_samples(),
            guard_samples(),
            renaming_samples(),
        ] {
            assert_eq!(decode(&encode(&changes)), Some(changes));
        }
    }

    #[test]
    fn cut_or_flipped_edits_never_panic() {
        let bytes = encode(
            &[
                samples(),
                expiring_samples(),
                apart_samples(),
                guard_samples(),
                renaming_samples(),
            ]
            .concat(),
        );
        for end in 0..bytes.len() {
            let _ = decode(&bytes[..end]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = decode(&flipped);
        }
    }
}
