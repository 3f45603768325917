//! The new tables of a rewrite: one file after another, each written front to back and synced.
//!
//! Invariants: every record of the merge is in one table, and counted in and out. A table is synced
//! when it is returned; after a failed sync the database is latched. A table that could not be
//! written is removed, unless the database is latched.
//!
//! Thread safety: one job's own. Not here: where a table ends ([`Pieces`], `cutting`), and what
//! names it.

use crate::catalog::KeyspaceState;
use crate::engine::JobContext;
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::manifest::edit::{Part, Place, Role};
use crate::memory::{Charge, Use};
use crate::merge::Merge;
use crate::merge::count::Count;
use crate::pace::{self, Rest};
use crate::plant::planted;
use crate::rebalance::growth::Stream;
use crate::rebalance::pieces::Pieces;
use crate::rebalance::value_moves::Moves;
use crate::sync::Arc;
use crate::tables::table_path;
use evendb_storage::table::{TableOptions, TableSink, TableWriter};
use evendb_storage::vfs::{Appender, BLOCK_BYTES, File};
use evendb_storage::{EntryRef, TableId};

/// The least and the most bytes that are gathered for one write to a table's file. Not more: a
/// device may take at most 254 parts in a request, so a MiB of memory that is not contiguous needs
/// two requests.
const WRITE_BYTES_MIN: u64 = 128 << 10;

const WRITE_BYTES_MAX: u64 = 640 << 10;

/// A new SSTable's file.
struct FileSink<'c> {
    core: &'c Core,
    out: Appender,
    /// The memory charge of the buffer.
    charge: Charge,
}

impl FileSink<'_> {
    fn new(core: &Core, file: Arc<dyn File>, past_cache: bool) -> FileSink<'_> {
        // A smaller write where memory is short and chunks are small.
        let piece = (core.options.chunk_bytes_max() / 16).clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX);
        let piece = (piece as usize).next_multiple_of(BLOCK_BYTES);
        let out = Appender::new(file, piece, past_cache);
        FileSink {
            charge: Charge::new(core.ledger(), Use::Buffers, out.capacity()),
            core,
            out,
        }
    }
}

impl TableSink for FileSink<'_> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    fn pass_on(&mut self, is_last: bool) -> evendb_storage::Result<()> {
        if !self.out.is_full() && !is_last {
            return Ok(());
        }
        self.charge.set(self.out.capacity());
        self.out.set_depth(pace::writes_ahead(&self.core.admission));
        TableSink::pass_on(&mut self.out, is_last)
    }
}

/// How tables are written.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    /// See [`goes_past_cache`](super::goes_past_cache).
    pub(crate) past_cache: bool,
    pub(crate) options: TableOptions,
}

pub(crate) fn making_options(core: &Core, keyspace: &KeyspaceState) -> TableOptions {
    match planted!(core.options, KeyspaceOptionsForgotten) {
        true => core.options.table_options(),
        false => core.table_options(keyspace.id),
    }
}

/// Where tables end: at their size, and around streams.
pub(crate) struct Cuts {
    pieces: Pieces,
    /// The keys before which a table ends, the least one last.
    before: Vec<Vec<u8>>,
}

impl Cuts {
    /// Tables end before each of these keys, which ascend, and at the size of the pieces.
    pub(crate) fn at(pieces: Pieces, keys: Vec<Arc<[u8]>>) -> Cuts {
        let before = keys.iter().rev().map(|key| key.to_vec()).collect();
        Cuts { pieces, before }
    }

    pub(crate) fn new(pieces: Pieces, streams: &[Stream]) -> Cuts {
        let ends = |stream: &Stream| [Some(stream.low.clone()), stream.end.clone()];
        let mut before: Vec<Vec<u8>> = streams.iter().flat_map(ends).flatten().collect();
        before.reverse();
        Cuts { pieces, before }
    }
}

/// Writes all records of the merge, and counts them. After an error `parts` has the tables that are
/// there.
pub(crate) fn write_pieces(
    moves: &mut Moves<'_>,
    mut merge: Merge<'_>,
    mut cuts: Cuts,
    making: Making,
    parts: &mut Vec<Part>,
) -> Result<Count> {
    let (core, disk) = (moves.core, moves.disk);
    let mut count = Count::default();
    count.begin(&merge);
    while let Some(entry) = merge.current() {
        while cuts.before.pop_if(|cut| **cut <= *entry.key).is_some() {}
        let id = disk.new_table_id();
        let path = table_path(&disk.dir, id);
        match write_table(moves, &mut merge, id, &mut cuts, making) {
            Ok(part) => parts.push(part),
            Err(error) => {
                if core.health.failure().is_none() {
                    let _ = disk.vfs.remove(&path);
                }
                return Err(error);
            }
        }
    }
    count.add(&merge, parts.iter().map(|part| &*part.meta));
    Ok(count)
}

/// Writes a table of keys below the next cut, of the size that the pieces allow.
fn write_table(
    moves: &mut Moves<'_>,
    merge: &mut Merge<'_>,
    id: TableId,
    cuts: &mut Cuts,
    making: Making,
) -> Result<Part> {
    let (core, disk) = (moves.core, moves.disk);
    let Cuts { pieces, before } = cuts;
    let end = before.last();
    let path = table_path(&disk.dir, id);
    let io = |what| {
        let path = path.clone();
        move |source| Error::from(evendb_storage::Error::io(&path, what, source))
    };
    let file = disk.vfs.create(&path).map_err(io("create an SSTable"))?;
    let sink = FileSink::new(core, file.clone(), making.past_cache);
    let mut writer = TableWriter::new(sink, id, making.options).sealed(disk.vfs.secrets());
    let mut last_key: Option<Vec<u8>> = None;
    let mut live_bytes = 0;
    let mut rest = Rest::of_reorganisation(core);
    while let Some(entry) = merge.current() {
        let new_key = last_key.as_deref() != Some(entry.key);
        if new_key {
            // A record too large for the rest gets a table of its own.
            let size = (entry.key.len() + entry.value.len()) as u64;
            let mut is_full = || {
                let taken = || merge.fates_so_far().taken();
                pieces.is_full(writer.bytes_estimate() + size)
                    && pieces.ends(live_bytes, taken(), merge.held().most)
            };
            let behind = || end.is_some_and(|end| *entry.key >= **end);
            if last_key.is_some() && (behind() || is_full()) {
                break;
            }
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(entry.key);
        }
        if !(planted!(core.options, RewriteLosesRecord) && entry.key.ends_with(b"7")) {
            let moved = moves.moved(&entry)?;
            let value = moved.as_deref().unwrap_or(entry.value);
            writer.add(EntryRef { value, ..entry })?;
        }
        live_bytes += (entry.key.len() + entry.value.len()) as u64;
        merge.advance()?;
        rest.take_sometimes();
    }
    let (_, meta) = writer.finish()?;
    core.metrics.bytes_sstable.add(meta.len);
    // After a failed sync it is not known which bytes of the file are on the disk: writing stops
    // for good.
    file.sync_data()
        .map_err(io("sync an SSTable"))
        .map_err(|error| core.health.latch(error))?;
    Ok(Part {
        table: id,
        place: Place::File,
        role: Role::Base,
        epoch: disk.epoch,
        checkpoint: 0,
        meta: Arc::new(meta),
    })
}

/// Removes tables that nothing names, unless the database is latched.
pub(crate) fn remove_tables(context: &JobContext<'_>, parts: &[Part]) {
    let &JobContext { core, disk, .. } = context;
    if core.health.failure().is_none() {
        for part in parts {
            let _ = disk.vfs.remove(&table_path(&disk.dir, part.table));
        }
    }
}
