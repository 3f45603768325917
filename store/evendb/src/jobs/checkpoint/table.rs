//! One table of a chunk's log, built in RAM: of a checkpoint's run, or of runs that are merged.
//!
//! Small runs of large records are keyed ([`crate::tables::are_worth_naming`]): a scan reads
//! only the records that it returns. Other runs have a filter, unless they are so small that an
//! open one is in RAM. So each open run tells a get without a read whether it may have a key, also
//! where there is no log index. Thread safety: none is needed, nothing is shared. Not here: where a
//! table goes, and what names it.

use crate::engine::core::Core;
use crate::engine::disk::Disk;
use crate::error::Result;
use crate::manifest::KeyspaceId;
use crate::manifest::edit::{Part, Place, Role};
use crate::merge::Merge;
use crate::plant::planted;
use crate::sync::Arc;
use crate::tables::are_worth_naming;
use evendb_storage::TableId;
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::{Codec, TableMeta, TableWriter};

/// A table in RAM that has no place yet.
pub(crate) struct BuiltTable {
    pub(crate) id: TableId,
    pub(crate) meta: TableMeta,
    /// Hash and block of each key, for the log index.
    pub(crate) keys: Vec<(RamHash, usize)>,
}

/// A table of a log, or one that joined the base, written but not yet published.
pub(crate) struct NewTable {
    pub(crate) part: Part,
    /// Hash and block of each key, for the log index.
    pub(crate) keys: Vec<(RamHash, usize)>,
}

impl BuiltTable {
    /// The table in its extent of the container.
    pub(crate) fn placed(self, disk: &Disk, offset: u64, role: Role, checkpoint: u64) -> NewTable {
        let part = Part {
            table: self.id,
            place: Place::Extent { offset },
            role,
            epoch: disk.epoch,
            checkpoint,
            meta: Arc::new(self.meta),
        };
        NewTable {
            part,
            keys: self.keys,
        }
    }
}

/// The limits and the form of a table of a log.
pub(crate) struct TableShape<'a> {
    /// The table ends at about this number of bytes.
    pub(crate) bytes_max: u64,
    /// The table ends before a key for which this returns true.
    pub(crate) ends: &'a dyn Fn(&[u8]) -> bool,
    /// Records, and bytes of keys and values, that a run has at most; `None` for a table that may
    /// join the base.
    pub(crate) run: Option<(u64, u64)>,
    /// Told of the newest record of each key, and its value as it is stored.
    pub(crate) look: &'a dyn Fn(&[u8], &[u8]),
}

/// Bits for each key of a run's filter: one question in 300 is answered wrongly.
const FILTER_BITS: u32 = 12;
/// A run with no more bytes of keys and values is in RAM while it is open.
const IN_RAM_BYTES: u64 = 8 << 10;

/// Appends to `buffer` one table of the merge's next records. The merge has at least one record.
/// After an error the buffer is empty.
pub(crate) fn build_table(
    core: &Core,
    disk: &Disk,
    keyspace: KeyspaceId,
    merge: &mut Merge<'_>,
    buffer: &mut Vec<u8>,
    shape: &TableShape<'_>,
) -> Result<BuiltTable> {
    let id = disk.new_table_id();
    let sink = std::mem::take(buffer);
    let mut options = core.table_options(keyspace).without_dictionary();
    let secrets = disk.vfs.secrets();
    let secrets = secrets.filter(|_| !planted!(core.options, RunLeftPlain));
    let is_plain = options.codec == Codec::None;
    let is_keyed = is_plain
        && shape
            .run
            .is_some_and(|(records, bytes)| are_worth_naming(records, bytes));
    let is_in_ram = |(_, bytes)| is_plain && bytes <= IN_RAM_BYTES;
    if !is_keyed && shape.run.is_some_and(|run| !is_in_ram(run)) {
        options.filter_bits_per_key = options.filter_bits_per_key.max(FILTER_BITS);
    }
    let mut writer = TableWriter::new(sink, id, options)
        .sealed(secrets)
        .keyed(is_keyed);
    let mut keys: Vec<(RamHash, usize)> = Vec::new();
    let mut last_key: Vec<u8> = Vec::new();
    while let Some(entry) = merge.current() {
        let new_key = keys.is_empty() || *last_key != *entry.key;
        // All versions of a key stay in one table.
        let is_full = writer.bytes_estimate() >= shape.bytes_max;
        if new_key && (is_full || !keys.is_empty() && (shape.ends)(entry.key)) {
            break;
        }
        if !(planted!(core.options, RunLosesRecord) && entry.key.ends_with(b"7")) {
            writer.add(entry)?;
        }
        if new_key {
            (shape.look)(entry.key, entry.value);
            keys.push((RamHash::of(entry.key), writer.block_ordinal()));
            last_key.clear();
            last_key.extend_from_slice(entry.key);
        }
        merge.advance()?;
    }
    let (sink, meta) = writer.finish()?;
    *buffer = sink;
    Ok(BuiltTable { id, meta, keys })
}
