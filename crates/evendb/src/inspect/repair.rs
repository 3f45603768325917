//! `repair`: what can be read of a damaged database, as a new one; the old one is left as it is.
//!
//! 1. The commit log is read, over its holes too: what it has is newer than any table, in its order.
//! 2. Chunk by chunk, in key order, the chunk's tables are read block by block and merged: the
//!    greatest version of a key wins, of equal ones the newer table; deletes hide what is older.
//! 3. Where edits of the manifest are lost, tables that no edit names are looked for in all files.
//!    A table does not say which keyspace it is of: each goes to a keyspace of its own, or all
//!    into the one there is, if the caller vouches that there was one.
//! 4. The winners are put into the new database, which is then closed.
//!
//! Every stretch that could not be read is a [`Loss`] with the keys it may have held, and whether
//! older values of those keys may have come to light. Memory: the operations of the commit log, and
//! one chunk.

use super::load::{Loaded, LockedDirectory, io};
use super::{ChunkName, Finding, InspectOptions, Progress, Severity, chunk_name, tables};
use crate::api::db::Db;
use crate::api::keyspace::Keyspace;
use crate::commit_log::{self, LogRecord, Lsn, Proof, Surveyed};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{COMMIT_LOG, CONTAINER};
use crate::manifest::KeyspaceId;
use crate::manifest::edit::{ChunkRecord, Part, Place, Role};
use crate::manifest::epochs::segments;
use crate::options::{Durability, Options};
use crate::payload::{self, Decoded, DecodedOp, ExtentName};
use crate::sync::Arc;
use crate::value_extents;
use crate::version::clock::checkpoint_of;
use evendb_storage::codec::checksum;
use evendb_storage::table::{
    self, FOOTER_LEN, FOOTER_MAGIC, TableDamage, TableFacts, TableVisitor,
};
use evendb_storage::vfs::{File, read_exact_at};
use evendb_storage::{EntryRef, Kind, TableId, Version};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// Records of tables without a chunk are merged in pieces of about this.
const PIECE_BYTES: u64 = 64 << 20;
/// What a scan for tables reads at once.
const SCAN_BYTES: usize = 1 << 20;

/// How to repair.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    /// The database had one keyspace: tables that nothing names are merged into it.
    pub one_keyspace: bool,
}

/// Something that could not be saved, or not for sure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Name of the file.
    pub file: String,
    /// The bytes that could not be used.
    pub place: Option<Range<u64>>,
    /// What is wrong with them, and what follows.
    pub what: String,
    /// The chunks concerned, where it is known.
    pub chunks: Vec<ChunkName>,
    /// Keys at or above this may be concerned; `None`: from the least.
    pub keys_from: Option<Vec<u8>>,
    /// Keys up to and with this may be concerned; `None`: up to the greatest.
    pub keys_to: Option<Vec<u8>>,
    /// How many records are lost, where it is known.
    pub records: Option<u64>,
    /// Keys concerned may have an older value now, or one although they were deleted.
    pub older_may_show: bool,
    /// False where nothing may be lost at all: a last write that a crash cut short looks the same.
    pub certain: bool,
}

impl Loss {
    fn new(file: &str, place: Option<Range<u64>>, what: impl Into<String>) -> Loss {
        Loss {
            file: file.to_owned(),
            place,
            what: what.into(),
            chunks: Vec::new(),
            keys_from: None,
            keys_to: None,
            records: None,
            older_may_show: true,
            certain: true,
        }
    }

    /// Whether the loss may concern a key of a keyspace.
    pub fn concerns(&self, keyspace: &str, key: &[u8]) -> bool {
        let of_chunk = |chunk: &ChunkName| {
            chunk.keyspace == keyspace
                && *chunk.low <= *key
                && chunk.high.as_ref().is_none_or(|high| *key < **high)
        };
        (self.chunks.is_empty() || self.chunks.iter().any(of_chunk))
            && self.keys_from.as_ref().is_none_or(|from| **from <= *key)
            && self.keys_to.as_ref().is_none_or(|to| *key <= **to)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let certain = if self.certain { "lost" } else { "perhaps lost" };
        write!(f, "{certain}: {}", self.file)?;
        if let Some(place) = &self.place {
            write!(f, " at {}, {} bytes", place.start, place.end - place.start)?;
        }
        write!(f, ": {}", self.what)?;
        match self.records {
            Some(1) => f.write_str("; 1 record")?,
            Some(records) => write!(f, "; {records} records")?,
            None => {}
        }
        let key = |key: &[u8]| format!("`{}`", key.escape_ascii());
        for chunk in &self.chunks {
            write!(f, "; chunk {} of keyspace `{}`", chunk.id, chunk.keyspace)?;
        }
        if self.keys_from.is_some() || self.keys_to.is_some() {
            let from = self.keys_from.as_deref().map_or("the least".into(), key);
            let to = self.keys_to.as_deref().map_or("the greatest".into(), key);
            write!(f, "; keys {from} to {to}")?;
        }
        if self.older_may_show {
            f.write_str("; older values of such keys may have come to light")?;
        }
        Ok(())
    }
}

/// What [`repair`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// What was wrong with the structure.
    pub findings: Vec<Finding>,
    /// What could not be saved.
    pub losses: Vec<Loss>,
    /// The keyspaces of the new database and the records put into each.
    pub keyspaces: Vec<(String, u64)>,
    /// Records read from tables, all versions.
    pub table_records: u64,
    /// Operations read from the commit log.
    pub log_operations: u64,
}

impl RepairReport {
    /// Whether everything was saved, as far as can be known.
    pub fn is_complete(&self) -> bool {
        !self.losses.iter().any(|loss| loss.certain)
    }

    /// Records in the new database.
    pub fn records(&self) -> u64 {
        self.keyspaces.iter().map(|(_, records)| records).sum()
    }
}

/// Saves what can be read of the closed database in `path` into a new one in `into`.
///
/// # Errors
/// `NotFound` without a database, `Locked` if it is open for writing, `AlreadyExists` if `into` is
/// not an empty or new directory, and as for writing the new one.
pub fn repair(
    path: impl AsRef<Path>,
    into: impl AsRef<Path>,
    options: RepairOptions,
    mut inspect: InspectOptions<'_>,
) -> Result<RepairReport> {
    let directory = LockedDirectory::open(inspect.files(), path.as_ref())?;
    let into = into.as_ref();
    refuse_used(&directory, into)?;
    let loaded = Loaded::read(&directory);
    let mut report = RepairReport::default();
    report.findings.clone_from(&loaded.findings);
    structure_losses(&loaded, &mut report);
    let container = tables::container(&directory)?;
    let mut repairer = Repairer {
        directory: &directory,
        loaded: &loaded,
        options,
        container,
        report,
        stale: loaded.edits_lost,
        log: BTreeMap::new(),
        lost_extents: Vec::new(),
        unplaced: Vec::new(),
        misplaced: BTreeMap::new(),
        progress: Progress::default(),
        inspect: &mut inspect,
    };
    repairer.read_commit_log()?;
    repairer.find_tables()?;
    let database = repairer.create(into)?;
    repairer.keyspaces(&database)?;
    repairer.rest_of_log(&database)?;
    repairer.unnamed_tables(&database)?;
    database.close()?;
    Ok(repairer.report)
}

fn refuse_used(directory: &LockedDirectory, into: &Path) -> Result<()> {
    let vfs = &directory.vfs;
    let used = vfs.exists(into).and_then(|there| match there {
        true => vfs.list(into).map(|names| !names.is_empty()),
        false => Ok(false),
    });
    match used.map_err(io(into, "look at the new directory"))? {
        true => {
            let message = format!("{} is not empty", into.display());
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        false => Ok(()),
    }
}

/// Damage to the structure, as what may be lost by it.
fn structure_losses(loaded: &Loaded, report: &mut RepairReport) {
    for finding in &loaded.findings {
        let offset = finding.offset;
        let place = offset
            .zip(finding.len)
            .map(|(start, len)| start..start + len);
        let mut loss = Loss::new(&finding.file, place, &*finding.what);
        match finding.kind {
            super::FindingKind::Lock => continue,
            // The manifest that stands in is the one in force, or the one before or after it.
            super::FindingKind::Current | super::FindingKind::Missing
                if loaded.manifest.is_some() && !loaded.edits_lost =>
            {
                loss.certain = false;
                loss.what += "; the newest manifest stands in";
            }
            _ => loss.certain = finding.severity == Severity::Corruption,
        }
        report.losses.push(loss);
    }
}

/// Operations of the commit log by key; `None` is a delete.
type Operations = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
/// The winners of a key range so far: version, table, and the value if it is no delete.
type Winners = BTreeMap<Vec<u8>, (Version, TableId, Option<Vec<u8>>)>;

struct Repairer<'r, 'o> {
    directory: &'r LockedDirectory,
    loaded: &'r Loaded,
    options: RepairOptions,
    container: Option<Arc<dyn File>>,
    report: RepairReport,
    /// Edits of the manifest are lost: there may be tables that it should name and does not.
    stale: bool,
    log: BTreeMap<KeyspaceId, Operations>,
    /// Value extents that do not verify: the record that names each, and whether it was synced before.
    lost_extents: Vec<(Lsn, bool, Loss)>,
    /// Tables that nothing names, by id.
    unplaced: Vec<Found>,
    /// Tables found in files of other names.
    misplaced: BTreeMap<TableId, Found>,
    progress: Progress,
    inspect: &'r mut InspectOptions<'o>,
}

/// A table found by its footer.
#[derive(Clone, Debug)]
struct Found {
    id: TableId,
    name: String,
    offset: u64,
    len: u64,
    min_key: Vec<u8>,
    max_key: Vec<u8>,
}

impl Repairer<'_, '_> {
    fn advance(&mut self, bytes: u64) {
        self.progress.done = self.progress.done.saturating_add(bytes);
        self.progress.total = self.progress.total.max(self.progress.done);
        self.inspect.tell(self.progress);
    }

    fn read_commit_log(&mut self) -> Result<()> {
        let state = &self.loaded.state;
        let capacity = state.ring_bytes;
        if capacity == 0 {
            if self.loaded.edits == 0 && self.directory.has(COMMIT_LOG) {
                let what = "the key to its checksums was in the manifest: nothing of it can be \
                            read";
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            }
            return Ok(());
        }
        let path = self.directory.dir.join(COMMIT_LOG);
        let file: Arc<dyn File> = match self.directory.vfs.open(&path, false) {
            Ok(file) => file,
            Err(error) => {
                let what = format!("cannot be opened: {error}");
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
                return Ok(());
            }
        };
        let lives = segments(state);
        let how = self.loaded.survey(self.directory, &lives);
        let padded: Arc<dyn File> = Arc::new(Padded(file.clone(), capacity));
        let len = file.len().map_err(io(&path, "look at the commit log"))?;
        if len < capacity {
            let what = "the file is cut short";
            self.report
                .losses
                .push(Loss::new(COMMIT_LOG, Some(len..capacity), what));
        }
        // Whether a hole is damage is known only when all was seen: then the losses are told.
        let mut ends = Vec::new();
        let outcome = commit_log::survey(&*padded, &how, &mut |found| {
            match found {
                Surveyed::Record { record, .. } => self.log_record(&record, capacity),
                Surveyed::Hole { lsn, end, sealed } => ends.push((lsn, Some(end), sealed, true)),
                Surveyed::End { lsn, torn, sealed } => ends.push((lsn, torn, sealed, false)),
                Surveyed::Filler { .. } => {}
            }
            Ok(())
        });
        match outcome {
            Ok(proof) => {
                self.extent_losses(&proof);
                for (lsn, end, sealed, followed) in ends {
                    let certain = proof.is_damage(lsn, sealed);
                    self.log_end(capacity, lsn, end, followed, certain);
                }
            }
            Err(error) => {
                self.extent_losses(&Proof::default());
                let what = error.to_string();
                self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            }
        }
        self.advance(capacity);
        Ok(())
    }

    /// Bytes of the log that do not verify. `certain`: they did once.
    fn log_end(
        &mut self,
        capacity: u64,
        lsn: Lsn,
        end: Option<Lsn>,
        followed: bool,
        certain: bool,
    ) {
        let Some(end) = end else { return };
        let start = lsn.0 % capacity;
        let what = match (followed, certain) {
            (true, true) => format!(
                "records between LSN {} and {} do not verify; those behind were taken",
                lsn.0, end.0
            ),
            (true, false) => format!(
                "records between LSN {} and {} do not verify, as after a power loss that took what was \
                 not synced yet; those behind were taken, which opening would not do",
                lsn.0, end.0
            ),
            (false, true) => "the last record does not verify, though it was complete".to_owned(),
            (false, false) => {
                "the last record does not verify: a crash in the middle of a write, or \
                               damage"
                    .to_owned()
            }
        };
        let place = Some(start..start.saturating_add(end.0.saturating_sub(lsn.0)));
        let mut loss = Loss::new(COMMIT_LOG, place, what);
        loss.certain = certain || followed;
        self.report.losses.push(loss);
    }

    fn log_record(&mut self, record: &LogRecord<'_>, capacity: u64) {
        let start = record.lsn.0 % capacity;
        let place = Some(start..start + (record.end.0 - record.lsn.0));
        if record.tail > self.loaded.state.replay_from && !self.stale {
            self.stale = true;
            let what = "the log was recycled further than the manifest knows: edits of the \
                        manifest are lost";
            let place = place.clone();
            self.report.losses.push(Loss::new(COMMIT_LOG, place, what));
        }
        // Those of completed checkpoints are in tables, with what came after.
        if checkpoint_of(record.version) <= self.loaded.state.completed {
            return;
        }
        let decoded = payload::decode(record.payload);
        match decoded {
            Some(Decoded::Inline(ops)) => self.take_operations(&ops),
            Some(Decoded::Extent(name)) => self.take_extent(record.lsn, &name),
            None => {
                let what = "a record makes no sense";
                self.report.losses.push(Loss::new(COMMIT_LOG, place, what));
            }
        }
    }

    fn take_operations(&mut self, ops: &[DecodedOp<'_>]) {
        let state = &self.loaded.state;
        for op in ops {
            // Dropped since, if it was given out; else its creation is lost.
            let known = state.keyspaces.contains_key(&op.keyspace);
            if !known && op.keyspace.0 < state.next_keyspace {
                continue;
            }
            self.report.log_operations += 1;
            let value = (op.kind == Kind::Put).then(|| op.value.to_vec());
            let operations = self.log.entry(op.keyspace).or_default();
            operations.insert(op.key.to_vec(), value);
        }
    }

    fn take_extent(&mut self, lsn: Lsn, name: &ExtentName) {
        let path = value_extents::file_path(&self.directory.dir, name.id);
        let read = self.directory.read(&path);
        let whole = read.and_then(
            |bytes| match checksum(name.id, &[&bytes]) == name.checksum {
                true => Ok(bytes),
                false => Err("does not verify".to_owned()),
            },
        );
        let ops = whole.as_ref().map(|bytes| payload::decode_ops(bytes));
        let (what, is_synced) = match ops {
            Ok(Some(ops)) => return self.take_operations(&ops),
            // What makes no sense now made none then.
            Ok(None) => ("its contents make no sense".to_owned(), true),
            Err(what) => (
                format!("the batch in it is lost: it {what}"),
                name.is_synced,
            ),
        };
        let loss = Loss::new(&value_extents::file_name(name.id), Some(0..name.len), what);
        self.lost_extents.push((lsn, is_synced, loss));
    }

    /// Whether what is lost with value extents was on the disk once, is known only when all of the log was
    /// seen.
    fn extent_losses(&mut self, proof: &Proof) {
        for (lsn, is_synced, mut loss) in std::mem::take(&mut self.lost_extents) {
            loss.certain = proof.is_damaged_extent(lsn, is_synced);
            if !loss.certain {
                loss.what += ", as after a power loss that took what was not synced yet";
            }
            self.report.losses.push(loss);
        }
    }

    /// Looks for tables where the state does not lead: in SSTables whose name or contents are not
    /// what it says, and, if edits are lost, everywhere.
    fn find_tables(&mut self) -> Result<()> {
        let state = &self.loaded.state;
        let parts = || state.chunks.values().flat_map(|chunk| &chunk.parts);
        let named: BTreeSet<TableId> = parts().map(|part| part.table).collect();
        let total = parts()
            .map(|part| part.meta.len)
            .fold(0, u64::saturating_add);
        self.progress.total = self.progress.total.saturating_add(total);
        let missing = |part: &Part| {
            part.place == Place::File && !self.directory.has(&tables::table_file_name(part.table))
        };
        // An SSTable goes only after the edit that drops it.
        if parts().any(missing) {
            self.stale = true;
        }
        let names: Vec<String> = self.directory.names.clone();
        for name in names.iter().filter(|name| name.ends_with(".sst")) {
            let path = self.directory.dir.join(name);
            let Ok(file) = self.directory.vfs.open(&path, false) else {
                continue;
            };
            if let Some(found) = find_at_end(&*file, name) {
                if named.contains(&found.id) {
                    self.misplaced.insert(found.id, found);
                } else if self.stale && self.may_be_unplaced(found.id) {
                    self.unplaced.push(found);
                }
            }
        }
        if self.stale
            && let Some(file) = self.container.clone()
        {
            let found = scan(&*file, CONTAINER);
            let new = |found: &Found| !named.contains(&found.id) && self.may_be_unplaced(found.id);
            let new: Vec<Found> = found.into_iter().filter(new).collect();
            self.unplaced.extend(new);
        }
        self.unplaced.sort_by_key(|found| found.id);
        self.unplaced.dedup_by_key(|found| found.id);
        Ok(())
    }

    /// Ids ascend: what the lost edits named is newer than what those before them did.
    fn may_be_unplaced(&self, id: TableId) -> bool {
        !self.loaded.named_ever.contains(&id) && id > self.loaded.greatest_before_loss
    }

    fn create(&mut self, into: &Path) -> Result<Db> {
        let state = &self.loaded.state;
        let parts = state.chunks.values().flat_map(|chunk| &chunk.parts);
        let greatest = parts.map(|part| part.meta.data_bytes).max().unwrap_or(0);
        let unplaced = self.unplaced.iter().map(|found| found.len).max();
        let logged = self.log.values().flatten().map(|(key, value)| {
            key.len() as u64 + value.as_ref().map_or(0, |value| value.len() as u64)
        });
        let greatest = greatest
            .max(unplaced.unwrap_or(0))
            .max(logged.max().unwrap_or(0));
        Options::new()
            .vfs(self.directory.vfs.clone())
            .create_if_missing(true)
            .error_if_exists(true)
            .durability(Durability::Relaxed)
            // A value may take a quarter of the budget.
            .memory_budget((256 << 20).max(greatest.saturating_mul(5)))
            .advanced(|advanced| advanced.munks(false).row_cache(false))
            .open(into)
    }

    fn keyspaces(&mut self, database: &Db) -> Result<()> {
        let loaded = self.loaded;
        for (id, name) in &loaded.state.keyspaces {
            let keyspace = match database.keyspace(name) {
                Ok(keyspace) => keyspace,
                Err(error) if error.kind() == ErrorKind::InvalidArgument => continue,
                Err(error) => return Err(error),
            };
            for (name, value) in loaded.state.properties.get(id).into_iter().flatten() {
                match keyspace.set_property(name, value) {
                    Err(error) if error.kind() != ErrorKind::InvalidArgument => return Err(error),
                    _ => {}
                }
            }
            let mut chunks: Vec<&ChunkRecord> = loaded.state.chunks.values().collect();
            chunks.retain(|chunk| chunk.keyspace == *id);
            chunks.sort_by(|a, b| a.low.cmp(&b.low));
            let operations = self.log.remove(id).unwrap_or_default();
            let merge_unplaced = self.options.one_keyspace && loaded.state.keyspaces.len() == 1;
            let mut records = 0;
            for (index, chunk) in chunks.iter().enumerate() {
                let high = chunks.get(index + 1).map(|next| next.low.as_slice());
                let mut winners = self.chunk(chunk, high);
                if merge_unplaced {
                    self.merge_unplaced(&chunk.low, high, &mut winners);
                }
                overlay(&mut winners, &operations, &chunk.low, high);
                records += self.put(&keyspace, winners)?;
            }
            if merge_unplaced {
                self.tell_unplaced(name);
                self.unplaced.clear();
            }
            self.report.keyspaces.push((name.clone(), records));
        }
        Ok(())
    }

    /// What the tables of a chunk hold.
    fn chunk(&mut self, chunk: &ChunkRecord, high: Option<&[u8]>) -> Winners {
        let mut parts: Vec<&Part> = chunk.parts.iter().collect();
        parts.sort_by_key(|part| match part.role {
            Role::Base => 0,
            Role::Run { ordinal } => u64::from(ordinal) + 1,
        });
        let mut winners = Winners::new();
        for (index, part) in parts.iter().enumerate() {
            self.part(chunk, high, part, &parts[..index], &mut winners);
        }
        winners
    }

    fn part(
        &mut self,
        chunk: &ChunkRecord,
        high: Option<&[u8]>,
        part: &Part,
        older: &[&Part],
        winners: &mut Winners,
    ) {
        let mut look = Salvage {
            low: &chunk.low,
            high,
            table: part.table,
            expected: Some(&part.meta),
            refused: false,
            by_version: true,
            winners,
            damages: Vec::new(),
        };
        let (mut name, mut start) = (tables::file_name(part), tables::start(part));
        let mut file = tables::open(self.directory, self.container.as_ref(), part);
        // Exchanged or renamed files: the footer says where it is.
        if let Some(found) = self.misplaced.get(&part.table)
            && part.place == Place::File
            && found.name != name
            && let Ok(elsewhere) = self
                .directory
                .vfs
                .open(&self.directory.dir.join(&found.name), false)
        {
            (file, name, start) = (Ok(elsewhere), found.name.clone(), found.offset);
        }
        let read = match &file {
            Ok(file) => {
                let done = table::examine(&**file, start, part.meta.len, part.table, &mut look);
                done.records
            }
            Err(what) => {
                look.damages.push(whole(part, what));
                0
            }
        };
        if look.refused {
            let what = "verifies but is not the table that the manifest names; not used";
            look.damages.push(whole(part, what));
        }
        let damages = look.damages;
        self.report.table_records += read;
        self.advance(part.meta.len);
        let mut lost = Some(part.meta.entries.saturating_sub(read));
        for damage in damages {
            if !damage.loses_records {
                continue;
            }
            let from = damage
                .keys_from
                .unwrap_or_else(|| part.meta.min_key.clone());
            let to = damage.keys_to.unwrap_or_else(|| part.meta.max_key.clone());
            let shows = |other: &&Part| other.role != Role::Base || part.role != Role::Base;
            let overlaps = |other: &&Part| other.meta.min_key <= to && from <= other.meta.max_key;
            let at = |relative: u64| start.saturating_add(relative);
            let place = Some(at(damage.place.start)..at(damage.place.end));
            let what = format!(
                "{} of table {:#x}: {}",
                damage.part, part.table.0, damage.what
            );
            let mut loss = Loss::new(&name, place, what);
            loss.older_may_show = damage.continues;
            loss.older_may_show |= older.iter().any(|other| shows(other) && overlaps(other));
            loss.chunks = vec![chunk_name(&self.loaded.state, chunk)];
            (loss.keys_from, loss.keys_to) = (Some(from), Some(to));
            // Of several losses of one table only the sum is known: the first one has it.
            loss.records = lost.take();
            self.report.losses.push(loss);
        }
    }

    fn put(&mut self, keyspace: &Keyspace, winners: Winners) -> Result<u64> {
        let mut records = 0;
        for (key, (_, _, value)) in winners {
            if let Some(value) = value {
                keyspace.put(&key, &value)?;
                records += 1;
            }
        }
        Ok(records)
    }

    /// Operations of keyspaces whose creation is lost.
    fn rest_of_log(&mut self, database: &Db) -> Result<()> {
        for (id, operations) in std::mem::take(&mut self.log) {
            let name = format!("recovered-{}", id.0);
            let mut winners = Winners::new();
            overlay(&mut winners, &operations, &[], None);
            let records = self.put(&database.keyspace(&name)?, winners)?;
            let what = format!(
                "keyspace {} was created by a lost edit: what the log has of it is in `{name}`",
                id.0
            );
            self.report.losses.push(Loss::new(COMMIT_LOG, None, what));
            self.report.keyspaces.push((name, records));
        }
        Ok(())
    }

    /// Tables that nothing names, into keyspaces of their own or all into the default one.
    fn unnamed_tables(&mut self, database: &Db) -> Result<()> {
        let unplaced = std::mem::take(&mut self.unplaced);
        if unplaced.is_empty() {
            return Ok(());
        }
        let pieces = match self.options.one_keyspace && self.loaded.state.keyspaces.is_empty() {
            true => pieces(&unplaced, "default"),
            false => unplaced
                .iter()
                .map(|found| Piece {
                    keyspace: format!("recovered-{:x}", found.id.0),
                    low: Vec::new(),
                    high: None,
                    tables: vec![found.clone()],
                })
                .collect(),
        };
        for piece in pieces {
            let mut winners = Winners::new();
            for found in &piece.tables {
                self.found(
                    found,
                    &piece.low,
                    piece.high.as_deref(),
                    false,
                    &mut winners,
                );
            }
            let records = self.put(&database.keyspace(&piece.keyspace)?, winners)?;
            match self.report.keyspaces.last_mut() {
                Some((name, sum)) if *name == piece.keyspace => *sum += records,
                _ => self.report.keyspaces.push((piece.keyspace, records)),
            }
        }
        self.unplaced = unplaced;
        self.tell_unplaced(match self.options.one_keyspace {
            true => "default",
            false => "",
        });
        Ok(())
    }

    fn merge_unplaced(&mut self, low: &[u8], high: Option<&[u8]>, winners: &mut Winners) {
        for found in self.unplaced.clone() {
            if found.overlaps(low, high) {
                self.found(&found, low, high, true, winners);
            }
        }
    }

    fn found(
        &mut self,
        found: &Found,
        low: &[u8],
        high: Option<&[u8]>,
        by_version: bool,
        winners: &mut Winners,
    ) {
        let Ok(file) = self
            .directory
            .vfs
            .open(&self.directory.dir.join(&found.name), false)
        else {
            return;
        };
        let mut look = Salvage {
            low,
            high,
            table: found.id,
            expected: None,
            refused: false,
            by_version,
            winners,
            damages: Vec::new(),
        };
        let done = table::examine(&*file, found.offset, found.len, found.id, &mut look);
        let damages = look.damages;
        self.report.table_records += done.records;
        for damage in damages.into_iter().filter(|damage| damage.loses_records) {
            let place = found.offset + damage.place.start..found.offset + damage.place.end;
            let what = format!(
                "{} of table {:#x}: {}",
                damage.part, found.id.0, damage.what
            );
            let mut loss = Loss::new(&found.name, Some(place), what);
            (loss.keys_from, loss.keys_to) = (damage.keys_from, damage.keys_to);
            self.report.losses.push(loss);
        }
    }

    /// One table that nothing names and where it went is a loss of certainty each.
    fn tell_unplaced(&mut self, keyspace: &str) {
        for found in &self.unplaced {
            let place = Some(found.offset..found.offset + found.len);
            let went = match keyspace {
                "" => format!("keyspace `recovered-{:x}`", found.id.0),
                name => format!("keyspace `{name}`"),
            };
            let what = format!(
                "table {:#x} is named by no edit that can be read, and does not say what it is \
                 of: its records are in {went}; it may be one that was given up long ago",
                found.id.0
            );
            let mut loss = Loss::new(&found.name, place, what);
            (loss.keys_from, loss.keys_to) =
                (Some(found.min_key.clone()), Some(found.max_key.clone()));
            self.report.losses.push(loss);
        }
    }
}

/// Damage that is all of a table.
fn whole(part: &Part, what: impl Into<String>) -> TableDamage {
    TableDamage {
        part: table::TablePart::Whole,
        place: 0..part.meta.len,
        what: what.into(),
        keys_from: Some(part.meta.min_key.clone()),
        keys_to: Some(part.meta.max_key.clone()),
        loses_records: true,
        continues: false,
    }
}

/// What the log says of a key range, over what the tables say.
fn overlay(winners: &mut Winners, operations: &Operations, low: &[u8], high: Option<&[u8]>) {
    let from =
        operations.range::<[u8], _>((std::ops::Bound::Included(low), std::ops::Bound::Unbounded));
    let within = from.take_while(|(key, _)| high.is_none_or(|high| key.as_slice() < high));
    for (key, value) in within {
        winners.insert(
            key.clone(),
            (Version::MAX, TableId(u64::MAX), value.clone()),
        );
    }
}

/// Takes a table's records in.
struct Salvage<'s> {
    low: &'s [u8],
    high: Option<&'s [u8]>,
    table: TableId,
    expected: Option<&'s table::TableMeta>,
    refused: bool,
    /// Versions decide, and of equal ones the later call. Else versions count only where neither is
    /// zero, which stands for any: tables come in the order of their ids then.
    by_version: bool,
    winners: &'s mut Winners,
    damages: Vec<TableDamage>,
}

impl TableVisitor for Salvage<'_> {
    fn facts(&mut self, facts: &TableFacts) {
        let other = |meta| self.expected.is_some_and(|expected| expected != meta);
        self.refused = facts.meta.as_ref().is_some_and(other);
    }

    fn entry(&mut self, _ordinal: usize, entry: EntryRef<'_>) -> ControlFlow<()> {
        if self.refused {
            return ControlFlow::Break(());
        }
        if entry.key < self.low {
            return ControlFlow::Continue(());
        }
        if self.high.is_some_and(|high| entry.key >= high) {
            // Damage further on is of the chunks that are told of it anyway.
            return ControlFlow::Continue(());
        }
        let value = || (entry.kind == Kind::Put).then(|| entry.value.to_vec());
        match self.winners.entry(entry.key.to_vec()) {
            Entry::Vacant(place) => {
                place.insert((entry.version, self.table, value()));
            }
            Entry::Occupied(mut place) => {
                let (version, table, _) = place.get();
                let unknown = !self.by_version
                    && *table != self.table
                    && (*version == Version::ZERO || entry.version == Version::ZERO);
                let newer =
                    entry.version > *version || (entry.version == *version && *table != self.table);
                if newer || unknown {
                    place.insert((entry.version, self.table, value()));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn damage(&mut self, damage: TableDamage) {
        self.damages.push(damage);
    }
}

impl Found {
    fn overlaps(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        *self.max_key >= *low && high.is_none_or(|high| *self.min_key < *high)
    }

    /// A table whose footer was found at `footer_at`, if the rest of its tail verifies.
    fn new(file: &dyn File, name: &str, id: TableId, offset: u64, len: u64) -> Found {
        struct Limits(TableFacts);
        impl TableVisitor for Limits {
            fn facts(&mut self, facts: &TableFacts) {
                self.0 = facts.clone();
            }
            fn block(&mut self, _: &table::BlockFacts<'_>) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
            fn damage(&mut self, _: TableDamage) {}
        }
        let mut limits = Limits(TableFacts::default());
        table::examine(file, offset, len, id, &mut limits);
        let meta = limits.0.meta;
        // Unknown limits are all keys.
        let greatest = vec![u8::MAX; table::KEY_BYTES_MAX];
        Found {
            id,
            name: name.to_owned(),
            offset,
            len,
            min_key: meta
                .as_ref()
                .map(|meta| meta.min_key.clone())
                .unwrap_or_default(),
            max_key: meta.map_or(greatest, |meta| meta.max_key),
        }
    }
}

/// The table that an SSTable's file ends with, or else the one its name promises.
fn find_at_end(file: &dyn File, name: &str) -> Option<Found> {
    let len = file.len().ok()?;
    let mut footer = [0; FOOTER_LEN];
    let at = len.checked_sub(FOOTER_LEN as u64)?;
    let read = read_exact_at(file, &mut footer, at).is_ok();
    if let Some((id, table_len)) = read.then(|| table::identify_footer(&footer)).flatten()
        && table_len <= len
    {
        return Some(Found::new(file, name, id, len - table_len, table_len));
    }
    let digits = name
        .strip_suffix(".sst")
        .filter(|digits| digits.len() == 16)?;
    let id = TableId(u64::from_str_radix(digits, 16).ok()?);
    Some(Found::new(file, name, id, 0, len))
}

/// All tables whose footers verify anywhere in a file.
fn scan(file: &dyn File, name: &str) -> Vec<Found> {
    let len = file.len().unwrap_or(0);
    let mut found = Vec::new();
    let mut bytes = Vec::new();
    let mut start = 0u64;
    while start < len {
        let want = (SCAN_BYTES as u64).min(len - start) as usize;
        bytes.resize(want, 0);
        if read_exact_at(file, &mut bytes, start).is_err() {
            start += want as u64;
            continue;
        }
        for at in 0..want.saturating_sub(FOOTER_LEN - 1) {
            if bytes[at + FOOTER_LEN - 8..at + FOOTER_LEN] != FOOTER_MAGIC {
                continue;
            }
            let footer = table::identify_footer(&bytes[at..at + FOOTER_LEN]);
            let end = start + (at + FOOTER_LEN) as u64;
            if let Some((id, table_len)) = footer
                && let Some(offset) = end.checked_sub(table_len)
            {
                found.push(Found::new(file, name, id, offset, table_len));
            }
        }
        let last = start + want as u64 >= len;
        // A footer may lie across the end of what was read.
        start += if last { want } else { want - (FOOTER_LEN - 1) } as u64;
    }
    found
}

/// A key range of tables without chunks.
struct Piece {
    keyspace: String,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    tables: Vec<Found>,
}

/// Key ranges that cover everything, each of tables of not much more than [`PIECE_BYTES`].
fn pieces(found: &[Found], keyspace: &str) -> Vec<Piece> {
    let mut by_key: Vec<&Found> = found.iter().collect();
    by_key.sort_by(|a, b| a.min_key.cmp(&b.min_key));
    let mut lows = vec![Vec::new()];
    let mut bytes = 0;
    for table in by_key {
        if bytes > PIECE_BYTES && lows.last().is_some_and(|low| *low < table.min_key) {
            lows.push(table.min_key.clone());
            bytes = 0;
        }
        bytes += table.len;
    }
    let limits = lows
        .iter()
        .enumerate()
        .map(|(index, low)| (low, lows.get(index + 1)));
    limits
        .map(|(low, high)| Piece {
            keyspace: keyspace.to_owned(),
            low: low.clone(),
            high: high.cloned(),
            tables: found
                .iter()
                .filter(|found| found.overlaps(low, high.map(Vec::as_slice)))
                .cloned()
                .collect(),
        })
        .collect()
}

/// A file that reads as zeros where it is cut short or unreadable.
#[derive(Debug)]
struct Padded(Arc<dyn File>, u64);

impl File for Padded {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) | Err(_) => break,
                Ok(n) => done += n,
            }
        }
        buf[done..].fill(0);
        Ok(buf.len())
    }
    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.1)
    }
    fn set_len(&self, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn preallocate(&self, _: u64, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn punch_hole(&self, _: u64, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    fn map(&self, _: usize) -> std::io::Result<Box<dyn evendb_storage::vfs::Mapping>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
