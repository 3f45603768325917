//! The decoders of the engine's files, opened to the fuzzer (`proof/fuzz`): thin wrappers in plain
//! types, with the results of opening, inspecting and reading.
//!
//! * `CURRENT` and edits of the manifest: from bytes to their contents, and back to bytes.
//! * The ring of the commit log, read as in a recovery and as in an inspection. [`seal_ring`]
//!   corrects checksums, so that records which they would keep out get in.
//! * Bodies of records, value extents, values apart.
//! * Small files: lists of backups and exports, properties of an export, `HEAT`, `KEYS`.
//! * [`Runs`]: the log of a chunk, runs in a container, with their search structure.
//!
//! Not part of the public interface: anything here may change at any time.

use crate::commit_log::{self, Lsn, Segment, Survey, Surveyed};
use crate::encryption::keys_file;
use crate::error::Result;
use crate::funk::{Funk, Run, SearchSettings};
use crate::manifest::current::{Current, VERSION, decode_current, encode_current};
use crate::manifest::edit::{self, Part, Place, Role};
use crate::manifest::state::ManifestState;
use crate::memory::Ledger;
use crate::memory_policy::warming::heat_file;
use crate::op::OpKind;
use crate::options::LogSearch;
use crate::payload::{self, ExtentName};
use crate::sync::Arc;
use crate::tables::Tables;
use crate::tables::container::Container;
use crate::tables::extents::Extents;
use crate::value_extents;
use crate::value_files::{self, ValueFiles};
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::Table;
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Apart, TableId, Version};
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of `CURRENT`: the manifest, the position up to which it must verify, whether the
/// database was closed, and whether the file has the format version that is written now.
pub fn current(path: &Path, bytes: &[u8]) -> evendb_storage::Result<(u64, u64, bool, bool)> {
    let (current, version) = decode_current(path, bytes)?;
    let Current {
        id,
        verified,
        closed,
    } = current;
    Ok((id, verified, closed, version == VERSION))
}

/// The bytes of a `CURRENT` with these contents.
pub fn current_bytes(id: u64, verified: u64, closed: bool) -> Vec<u8> {
    let current = Current {
        id,
        verified,
        closed,
    };
    encode_current(current, VERSION)
}

/// Decodes an edit and encodes it again.
pub fn edit_again(payload: &[u8]) -> Option<Vec<u8>> {
    edit::decode(payload).map(|changes| edit::encode(&changes))
}

/// Applies the edits. Returns their state as one edit from nothing, or the contradiction among
/// them.
pub fn state_of(edits: &[&[u8]]) -> std::result::Result<Vec<u8>, &'static str> {
    let mut state = ManifestState::default();
    for payload in edits {
        for change in edit::decode(payload).ok_or("an edit cannot be decoded")? {
            state.apply(change)?;
        }
    }
    state.check()?;
    Ok(edit::encode(&state.to_changes()))
}

/// Decodes a list of a backup or of an export, reads all of it in every way, and encodes it again.
pub fn list_again(bytes: &[u8]) -> Result<Vec<u8>> {
    crate::backup::list::again(Path::new("BACKUP-LIST"), bytes)
}

/// The properties of an export, by their names.
pub fn properties(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    crate::backup::export::decode_properties(bytes)
}

/// Decodes `HEAT` and encodes it again, for a budget of this number of bytes.
pub fn heat_again(bytes: &[u8], budget: u64) -> Option<Vec<u8>> {
    let memory_max = heat_file::memory_max(budget);
    let spans = heat_file::decode(bytes, memory_max)?;
    let again = heat_file::encode(&spans, memory_max);
    // Any contents of the file can be put in order.
    heat_file::in_tiers(spans);
    Some(again)
}

/// Decodes `KEYS` and encodes it again.
pub fn keys_again(bytes: &[u8]) -> Option<Vec<u8>> {
    keys_file::again(bytes)
}

/// The part of a commit log that one life of the database wrote.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The number of the life.
    pub epoch: u64,
    /// Its seed.
    pub seed: u64,
    /// The LSN where it began.
    pub start: u64,
    /// The LSN where a later life closed it.
    pub closed_at: Option<u64>,
}

/// A record of the commit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The LSN of its first byte.
    pub lsn: u64,
    /// The LSN behind it.
    pub end: u64,
    /// The version of its writes.
    pub version: u64,
    /// Its contents.
    pub payload: Vec<u8>,
}

fn segments(lives: &[Life]) -> Vec<Segment> {
    let segment = |life: &Life| Segment {
        epoch: life.epoch,
        seed: life.seed,
        start: Lsn(life.start),
        closed_at: life.closed_at.map(Lsn),
    };
    lives.iter().map(segment).collect()
}

fn record(record: &commit_log::LogRecord<'_>) -> Record {
    Record {
        lsn: record.lsn.0,
        end: record.end.0,
        version: record.version.0,
        payload: record.payload.to_vec(),
    }
}

/// The records that a recovery finds, and the LSN of their end.
pub fn recover(
    ring: &dyn File,
    capacity: u64,
    from: u64,
    lives: &[Life],
) -> evendb_storage::Result<(Vec<Record>, u64)> {
    let mut found = Vec::new();
    let end = commit_log::recover(ring, capacity, Lsn(from), &segments(lives), &mut |each| {
        found.push(record(&each));
        Ok(())
    })?;
    Ok((found, end.0))
}

/// The records that an inspection finds before the first bytes that do not verify, the records
/// behind them, and whether any reported stretch goes backwards.
pub fn survey(
    ring: &dyn File,
    capacity: u64,
    from: u64,
    lives: &[Life],
) -> evendb_storage::Result<(Vec<Record>, Vec<Record>, bool)> {
    let how = Survey {
        capacity,
        from: Lsn(from),
        start: Lsn(from),
        checkpointed: Version::ZERO,
        segments: &segments(lives),
        same_boot: false,
    };
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let (mut last, mut is_backward) = (from, false);
    let mut pass = |lsn: Lsn, end: Lsn| {
        is_backward |= lsn.0 < last || end < lsn;
        last = end.0;
    };
    commit_log::survey(ring, &how, &mut |found| {
        match found {
            Surveyed::Record {
                record: each,
                beyond,
                ..
            } => {
                pass(each.lsn, each.end);
                match beyond {
                    true => behind.push(record(&each)),
                    false => before.push(record(&each)),
                }
            }
            Surveyed::Filler { lsn, end } | Surveyed::Hole { lsn, end, .. } => pass(lsn, end),
            Surveyed::End { lsn, torn, .. } => pass(lsn, torn.unwrap_or(lsn)),
        }
        Ok(())
    })?;
    Ok((before, behind, is_backward))
}

/// Turns any bytes into a ring of records: each record that begins where the record before ended
/// gets the place, the epoch and the checksums of its life. Its length, its kind and the other
/// fields stay.
pub fn seal_ring(ring: &mut [u8], from: u64, lives: &[Life]) {
    commit_log::seal_ring(ring, Lsn(from), &segments(lives));
}

/// A write in a record's payload: the byte of its kind, its keyspace, key and value.
pub type Write<'a> = (u8, u32, &'a [u8], &'a [u8]);

/// The writes of a payload, or of a value extent's contents.
pub fn writes(payload: &[u8]) -> Option<Vec<Write<'_>>> {
    let ops = payload::decode_ops(payload)?;
    Some(ops.into_iter().map(write).collect())
}

fn write(op: payload::DecodedOp<'_>) -> Write<'_> {
    let kind = match op.kind {
        OpKind::One(kind) => kind as u8,
        OpKind::RangeDelete => 2,
    };
    (kind, op.keyspace.0, op.key, op.value)
}

/// The value extent that a payload names: number, length, checksum, and whether it was synced.
pub fn extent_named(payload: &[u8]) -> Option<(u64, u64, u32, bool)> {
    let name = payload::extent_of(payload)?;
    Some((name.id, name.len, name.checksum, name.is_synced))
}

/// The contents of the value extent of this number, length and checksum.
pub fn value_extent(
    vfs: &dyn Vfs,
    dir: &Path,
    (id, len, checksum): (u64, u64, u32),
) -> evendb_storage::Result<Option<Vec<u8>>> {
    let name = ExtentName {
        id,
        len,
        checksum,
        is_synced: true,
    };
    value_extents::read(vfs, dir, &name)
}

/// The names of the file of a value extent and of a value file.
pub fn value_file_names(id: u64) -> (String, String) {
    (value_extents::file_name(id), value_files::file_name(id))
}

/// A value that lies apart.
pub fn value_apart(
    vfs: &dyn Vfs,
    dir: &Path,
    apart: &Apart,
) -> evendb_storage::Result<Option<Vec<u8>>> {
    let value = value_files::read(vfs, dir, apart)?;
    Ok(value.map(|value| value.to_vec()))
}

/// The log of a chunk.
pub struct Runs {
    funk: Funk,
    settings: SearchSettings,
}

impl Runs {
    /// Opens runs in `container`, oldest first, by offset, length and id. Each is taken as the run
    /// that the manifest names, whatever it is. With `bloom`, keys are found by a filter with this
    /// number of sections, and not by an index.
    pub fn open(
        container: Arc<dyn File>,
        vfs: Arc<dyn Vfs>,
        runs: &[(u64, u64, u64)],
        bloom: Option<usize>,
    ) -> Result<Runs> {
        let dir = Path::new("/");
        let len = container.len().unwrap_or(0);
        let ledger = Ledger::SHARED;
        let values = Arc::new(ValueFiles::new(vfs.clone(), dir, 1 << 20, 0));
        let shared = Arc::new(Container::new(container.clone(), Extents::new(len), len));
        let tables = Tables::new(vfs, dir, shared, values, ledger, 64);
        let mut log = Vec::new();
        for (ordinal, &(offset, len, id)) in (1..).zip(runs) {
            let table = Table::open(container.clone(), offset, len, TableId(id))?;
            let part = Part {
                table: TableId(id),
                place: Place::Extent { offset },
                role: Role::Run { ordinal },
                epoch: 1,
                checkpoint: 0,
                meta: Arc::new(table.meta().clone()),
            };
            let table = tables.acquire(&part);
            log.push(Run { ordinal, table });
        }
        let run_end = log.len() as u32 + 1;
        let search = match bloom {
            None => LogSearch::Index,
            Some(split_factor) => LogSearch::Bloom { split_factor },
        };
        Ok(Runs {
            funk: Funk::new(Vec::new(), log, run_end),
            settings: SearchSettings {
                search,
                reads_sections: false,
                log_bytes_max: len.max(1),
                ledger,
            },
        })
    }

    /// The contradiction in the order of the runs, if there is one.
    pub fn fault(&self) -> Option<String> {
        self.funk.fault()
    }

    /// The newest record of the key at a version: its version, the byte of its kind, and its value
    /// as stored.
    pub fn get(&self, key: &[u8], at: Version) -> Result<Option<(Version, u8, Vec<u8>)>> {
        let found = self
            .funk
            .get(key, RamHash::of(key), at, &self.settings, None)?;
        Ok(found.map(|(_, found)| {
            let value = found.block.bytes()[found.value].to_vec();
            (found.version, found.kind as u8, value)
        }))
    }
}
