//! The commit log: where its valid records end (step 2), how it goes on (step 3), and its records
//! of checkpoints that were not completed, as deltas (step 4).

use super::{Opening, damage, io};
use crate::catalog::KeyspaceState;
use crate::chunk::covers::{Covers, range_record};
use crate::chunk::{Chunk, ChunkWriter, View};
use crate::commit_log::{self, CommitLog, LivePart, LogRecord, Lsn, Segment};
use crate::error::{Error, Result};
use crate::files::COMMIT_LOG;
use crate::folding;
use crate::full_disk::{Ballast, Need};
use crate::manifest::edit::EpochRecord;
use crate::manifest::{KeyspaceId, epochs};
use crate::memory::Ledger;
use crate::op::OpKind;
use crate::options::Durability;
use crate::payload::{self, Decoded, DecodedOp, ExtentName};
use crate::plant::planted;
use crate::record::RecordRef;
use crate::sync::{Arc, Weak, reclaim};
use crate::value_extents;
use crate::value_files;
use crate::version::clock::{CHECKPOINT_MAX, checkpoint_of};
use crate::version::horizon::Horizon;
use evendb_storage::key_hash::RamHash;
use evendb_storage::vfs::{File, Vfs};
use evendb_storage::{Apart, Error as StorageError, ErrorKind as StorageErrorKind, Kind, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Operations to apply; `None` where the rest makes no sense.
type OpsToApply<'i, 'a> = &'i mut dyn Iterator<Item = Option<DecodedOp<'a>>>;

/// Chunks that wait for a checkpoint, with its number.
type Dirty = Vec<(Weak<Chunk>, u64)>;

/// The commit log as recovery found it.
pub(super) struct Replay {
    /// The end of the valid records.
    pub(super) end: Lsn,
    /// The records behind the end were lost by damage, and the caller gave them up.
    pub(super) given_up: Option<damage::Damage>,
    /// Highest checkpoint number seen in any record or in the manifest.
    pub(super) checkpoint_max: u64,
    /// Value extents that valid records name, with the ends of these records.
    pub(super) extents: Vec<(Lsn, u64)>,
    /// Value files that replayed records name.
    pub(super) value_files: BTreeSet<u64>,
    /// The values in these files that verify.
    pub(super) values: Vec<Apart>,
    /// Begin and end of a filler, which no put reserved.
    pub(super) filler: Option<(Lsn, Lsn)>,
}

impl Replay {
    /// Bytes of the log from `replay_from` on that puts reserved.
    pub(super) fn live_bytes(&self, replay_from: Lsn) -> u64 {
        let filler = self.filler.map_or(0, |(start, end)| end.0 - start.0);
        self.end.0 - replay_from.0.min(self.end.0) - filler
    }
}

impl Opening {
    pub(super) fn segments(&self) -> Vec<Segment> {
        epochs::segments(&self.state)
    }

    /// Hands out the valid records above the replay position. `each` says whether to go on; the
    /// returned position is the end of the valid records.
    fn for_each_record(&self, each: &mut dyn FnMut(&LogRecord<'_>) -> Result<bool>) -> Result<Lsn> {
        let from = self.state.replay_from;
        let Some(ring) = &self.ring else {
            return Ok(from);
        };
        let mut stopped = None;
        let mut failure = None;
        let end = commit_log::recover(
            &**ring,
            self.state.ring_bytes,
            from,
            &self.segments(),
            &mut |record| {
                if stopped.is_some() || failure.is_some() {
                    return Ok(());
                }
                match each(&record) {
                    Ok(true) => {}
                    Ok(false) => stopped = Some(record.lsn),
                    Err(error) => failure = Some(error),
                }
                Ok(())
            },
        )?;
        match failure {
            Some(error) => Err(error),
            None => Ok(stopped.unwrap_or(end)),
        }
    }

    /// Step 2: finds the end of the valid records, changing nothing.
    pub(super) fn scan_commit_log(&self) -> Result<Replay> {
        // Records that were ingested, and rewritten while a snapshot was open, may belong to the
        // checkpoint that was under way.
        let parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        let in_tables = parts.map(|part| checkpoint_of(part.meta.max_version)).max();
        let mut checkpoint_max = self.state.completed.max(in_tables.unwrap_or(0));
        let mut extents = Vec::new();
        // A record that does not begin where the one before ended has a filler before it.
        let (mut last_end, mut filler) = (self.state.replay_from, None);
        let mut note_gap = |start: Lsn, end: Lsn| {
            if start > last_end {
                filler = Some((last_end, start));
            }
            last_end = end;
        };
        let mut bad = None;
        let mut looks = ValueLooks::new(&*self.vfs, &self.dir);
        let end = self.for_each_record(&mut |record| {
            if record.tail > self.state.replay_from {
                let path = self.dir.join(COMMIT_LOG);
                let offset = record.lsn.0 % self.state.ring_bytes.max(1);
                let detail = "the commit log was recycled further than the manifest knows";
                return Err(StorageError::corruption(&path, offset, detail).into());
            }
            bad = self.why_bad(record, &mut extents, &mut looks)?;
            let valid = bad.is_none();
            if checkpoint_of(record.version) > CHECKPOINT_MAX {
                return Err(self.bad_record(record));
            }
            if valid {
                checkpoint_max = checkpoint_max.max(checkpoint_of(record.version));
                note_gap(record.lsn, record.end);
            }
            Ok(valid)
        })?;
        note_gap(end, end);
        extents.retain(|(record_end, _)| *record_end <= end);
        let given_up = self.find_damage(end, bad)?;
        if let Some(damage) = &given_up {
            self.refuse_damage(damage)?;
        }
        Ok(Replay {
            end,
            given_up,
            checkpoint_max,
            extents,
            value_files: looks.named,
            values: looks.places,
            filler,
        })
    }

    /// The reason why this record ends the log, if it does. Notes the extent and the values that it
    /// names.
    fn why_bad(
        &self,
        record: &LogRecord<'_>,
        extents: &mut Vec<(Lsn, u64)>,
        looks: &mut ValueLooks<'_>,
    ) -> Result<Option<Bad>> {
        let is_new = checkpoint_of(record.version) > self.state.completed;
        let whole = match payload::decode(record.payload) {
            None => return Err(self.bad_record(record)),
            Some(Decoded::Inline(ops)) => {
                !is_new || self.values_are_there(&mut ops.into_iter(), looks)?
            }
            Some(Decoded::Extent(name)) => {
                extents.push((record.end, name.id));
                let Some(contents) = self.read_extent(&name)? else {
                    return Ok(Some(Bad::Extent(name)));
                };
                let make_sense = || payload::each_op(&contents).all(|op| op.is_some());
                let mut ops = payload::each_op(&contents).flatten();
                !(is_new && make_sense()) || self.values_are_there(&mut ops, looks)?
            }
        };
        Ok((!whole).then_some(Bad::Value))
    }

    fn bad_record(&self, record: &LogRecord<'_>) -> Error {
        let path = self.dir.join(COMMIT_LOG);
        let offset = record.lsn.0 % self.state.ring_bytes.max(1);
        match payload::has_later_kind(record.payload) {
            true => {
                let detail =
                    format!("a record at {offset} has a kind that this build does not know");
                StorageError::unsupported(&path, detail).into()
            }
            false => {
                let detail = "a commit-log record makes no sense";
                StorageError::corruption(&path, offset, detail).into()
            }
        }
    }

    /// Whether all values apart are at the places that a record's operations name. After a power
    /// loss one may be missing: then the record ends the log, like one that does not verify.
    fn values_are_there(
        &self,
        ops: &mut dyn Iterator<Item = DecodedOp<'_>>,
        looks: &mut ValueLooks<'_>,
    ) -> Result<bool> {
        let places = ops.filter_map(|op| place_of(&op));
        if planted!(self.options, ValuesNotLookedAt) {
            looks.named.extend(places.map(|place| place.file));
            return Ok(true);
        }
        for place in places {
            if !looks.is_there(&place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the values that replayed records name again, at their places. A sync of the life
    /// before may have failed, and then the kernel may call their pages clean although they are not
    /// on the disk: the next sync would leave them out.
    pub(super) fn write_values_again(&self, replay: &Replay) -> Result<()> {
        let mut files = LastOpened::new(&*self.vfs, &self.dir, true);
        for place in &replay.values {
            let path = value_files::file_path(&self.dir, place.file);
            let found = files.open(place.file);
            let file =
                found.map_err(|source| StorageError::open(&path, "open a value file", source))?;
            let stored = value_files::read_stored(&*file, &path, place)?;
            let written = file.write_at(&stored, place.offset);
            written.map_err(io(&path, "write a value again"))?;
        }
        Ok(())
    }

    /// The contents of a value extent, if they verify.
    fn read_extent(&self, name: &ExtentName) -> Result<Option<Vec<u8>>> {
        Ok(value_extents::read(&*self.vfs, &self.dir, name)?)
    }

    pub(super) fn start_commit_log(
        &self,
        epoch: &EpochRecord,
        replay: &Replay,
        ballast: &mut Ballast,
    ) -> Result<Option<CommitLog>> {
        let Some(ring) = &self.ring else {
            return Ok(None);
        };
        if self.options.durability == Durability::Relaxed {
            return Ok(None);
        }
        let path = self.dir.join(COMMIT_LOG);
        let capacity = self.state.ring_bytes;
        let live = LivePart {
            tail: self.state.replay_from,
            end: epoch.start,
            filler: replay.filler.map(|(start, _)| start),
        };
        let allocated = ring
            .allocated_bytes()
            .map_err(io(&path, "look at the commit log"))?;
        let grower = self
            .vfs
            .open(&path, true)
            .map_err(io(&path, "open the commit log"))?;
        let manifest = self.manifest.as_ref().expect("the epoch is in it");
        match manifest.seal(false) {
            // The mark only helps to tell damage from a torn end.
            Err(error) if error.kind() == StorageErrorKind::NoSpace => {}
            sealed => sealed?,
        }
        let log = CommitLog::start(
            ring.clone(),
            capacity,
            self.options.commit_log_writing(),
            epoch.epoch,
            epoch.seed,
            self.state.replay_from..epoch.start,
        )?
        .with_room(commit_log::room_found(live, allocated, capacity), grower)
        .with_filler(replay.filler);
        match log.back() {
            // A full disk must not keep a database from opening: puts ask again.
            Err(error) if error.kind() == StorageErrorKind::NoSpace => {
                if ballast.release(Need::Jobs)
                    && let Err(error) = log.back()
                    && error.kind() != StorageErrorKind::NoSpace
                {
                    return Err(error.into());
                }
            }
            backed => backed?,
        }
        Ok(Some(log))
    }

    /// Step 4. Returns the chunks that are dirty now, and the version of the last record.
    ///
    /// All records have one version, except that a range deletion, and a single delete, must have a
    /// greater one than the records before it.
    pub(super) fn apply(
        &self,
        replay: &Replay,
        version: Version,
        catalog: &BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
        ledger: Ledger,
    ) -> Result<(Dirty, Version, bool)> {
        let mut onto = Onto {
            version,
            ledger,
            dirty: Vec::new(),
            expires: false,
        };
        let mut apply_ops = |ops: OpsToApply<'_, '_>, record: &LogRecord<'_>| -> Result<()> {
            for op in ops {
                let op = &op.ok_or_else(|| self.bad_record(record))?;
                match catalog.get(&op.keyspace) {
                    Some(keyspace) if op.kind == OpKind::RangeDelete => {
                        onto.delete_range(keyspace, op);
                    }
                    Some(keyspace) if op.kind == OpKind::One(Kind::Merge) => {
                        onto.merge(keyspace, op)
                            .ok_or_else(|| self.bad_record(record))?;
                    }
                    Some(keyspace) => onto.put(keyspace, op),
                    // The keyspace was dropped since; an id that was never given out is a different
                    // case.
                    None if op.keyspace.0 >= self.state.next_keyspace => {
                        return Err(self.bad_record(record));
                    }
                    None => {}
                }
            }
            Ok(())
        };
        self.for_each_record(&mut |record| {
            if record.lsn >= replay.end {
                return Ok(false);
            }
            if checkpoint_of(record.version) <= self.state.completed {
                return Ok(true);
            }
            match payload::decode(record.payload) {
                Some(Decoded::Inline(ops)) => {
                    apply_ops(&mut ops.into_iter().map(Some), record)?;
                }
                Some(Decoded::Extent(name)) => {
                    // An extent may be longer than the memory budget: no list is made of it.
                    let bytes = self.read_extent(&name)?;
                    let bytes = bytes.ok_or_else(|| self.bad_record(record))?;
                    apply_ops(&mut payload::each_op(&bytes), record)?;
                }
                None => return Err(self.bad_record(record)),
            }
            Ok(true)
        })?;
        Ok((onto.dirty, onto.version, onto.expires))
    }
}

/// The place of an operation's value, if it lies apart.
fn place_of(op: &DecodedOp<'_>) -> Option<Apart> {
    match op.kind {
        OpKind::One(kind) => Apart::of(kind, op.value),
        OpKind::RangeDelete => None,
    }
}

/// The reason why the log ends although its record verifies.
#[derive(Clone, Copy)]
pub(super) enum Bad {
    /// The value extent that it names does not verify.
    Extent(ExtentName),
    /// A value that it names, in a value file, does not verify.
    Value,
}

/// Opens value files, one after the other. A value is usually followed by another one of the same
/// file.
struct LastOpened<'a> {
    vfs: &'a dyn Vfs,
    dir: &'a Path,
    for_writing: bool,
    last: Option<(u64, Arc<dyn File>)>,
}

impl<'a> LastOpened<'a> {
    fn new(vfs: &'a dyn Vfs, dir: &'a Path, for_writing: bool) -> LastOpened<'a> {
        LastOpened {
            vfs,
            dir,
            for_writing,
            last: None,
        }
    }

    fn open(&mut self, id: u64) -> std::io::Result<Arc<dyn File>> {
        if let Some((last, file)) = &self.last
            && *last == id
        {
            return Ok(file.clone());
        }
        let path = value_files::file_path(self.dir, id);
        let file = self.vfs.open(&path, self.for_writing)?;
        self.last = Some((id, file.clone()));
        Ok(file)
    }
}

/// Looks at the values that records of the commit log name.
struct ValueLooks<'a> {
    dir: &'a Path,
    files: LastOpened<'a>,
    /// The files that they name, and the values.
    named: BTreeSet<u64>,
    places: Vec<Apart>,
}

impl<'a> ValueLooks<'a> {
    fn new(vfs: &'a dyn Vfs, dir: &'a Path) -> ValueLooks<'a> {
        ValueLooks {
            dir,
            files: LastOpened::new(vfs, dir, false),
            named: BTreeSet::new(),
            places: Vec::new(),
        }
    }

    fn is_there(&mut self, place: &Apart) -> Result<bool> {
        let path = value_files::file_path(self.dir, place.file);
        let file = match self.files.open(place.file) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(source) => {
                return Err(StorageError::open(&path, "open a value file", source).into());
            }
        };
        match value_files::read_stored(&*file, &path, place) {
            Ok(_) => {
                self.named.insert(place.file);
                self.places.push(*place);
                Ok(true)
            }
            Err(error) if error.kind() == StorageErrorKind::Corruption => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Operands of one key and version are gathered in one record up to this number of bytes.
const OPERANDS_BYTES_MAX: usize = 4096;

/// The target of replayed records. They are charged whatever the limit is, because the ring bounds
/// them. Nearly all have one version, so each makes the previous one of its key superfluous.
struct Onto {
    /// The version of the last record.
    version: Version,
    ledger: Ledger,
    dirty: Dirty,
    /// Some record expires.
    expires: bool,
}

impl Onto {
    fn put(&mut self, keyspace: &KeyspaceState, op: &DecodedOp<'_>) {
        let chunk = keyspace.index.load_full().find(op.key).clone();
        let kind = match op.kind {
            // As the write did it, if the keyspace has got a merge operator since the call.
            OpKind::One(Kind::SingleDelete) => keyspace.kind_of_single_delete(),
            OpKind::One(kind) => kind,
            OpKind::RangeDelete => Kind::Delete,
        };
        let mut writer = chunk.latch.lock();
        let tied = match kind {
            Kind::SingleDelete => writer.changed_at,
            _ => writer.single_at,
        };
        if tied >= self.version {
            self.next_version();
        }
        // When there are no more versions, a delete that hides all older records does as well.
        let kind = match kind {
            Kind::SingleDelete if tied >= self.version => Kind::Delete,
            kind => kind,
        };
        if kind == Kind::SingleDelete {
            writer.single_at = self.version;
        }
        self.expires |= matches!(kind, Kind::PutUntil | Kind::PutUntilApart);
        let mut new = RecordRef::new(op.key, op.value, kind, RamHash::of(op.key));
        new.set_version(self.version);
        self.touch(&chunk, &mut writer);
        writer.active.adopt(new);
    }

    /// A merge, which becomes one record with the operands that its key has at this version. Over
    /// another kind of record of this version it gets the next version. Returns `None` if there is
    /// no next version: after sixteen million such merges.
    fn merge(&mut self, keyspace: &KeyspaceState, op: &DecodedOp<'_>) -> Option<()> {
        let chunk = keyspace.index.load_full().find(op.key).clone();
        let hash = RamHash::of(op.key);
        let mut writer = chunk.latch.lock();
        let mut value = op.value.to_vec();
        {
            let pin = reclaim::pin();
            let newest = writer.active.get(op.key, hash, Version::MAX, &pin);
            if let Some(newest) = newest.filter(|newest| newest.version() == self.version) {
                let is_long = newest.value().len() > OPERANDS_BYTES_MAX;
                let next = Version(self.version.0 + 1);
                let is_last = checkpoint_of(next) != checkpoint_of(self.version);
                match newest.kind() {
                    Kind::Merge if !is_long || is_last => {
                        let operator = keyspace.merge_operator.get();
                        value = folding::joined(operator, op.key, &[newest.value(), op.value]);
                    }
                    _ if is_last => return None,
                    _ => self.version = next,
                }
            }
        }
        let mut new = RecordRef::new(op.key, &value, Kind::Merge, hash);
        new.set_version(self.version);
        self.touch(&chunk, &mut writer);
        writer.active.adopt(new);
        Some(())
    }

    /// Goes on with the next version, if there is one: all versions belong to one checkpoint. It
    /// has sixteen million of them, which is more than nearly every log needs.
    fn next_version(&mut self) -> bool {
        let next = Version(self.version.0 + 1);
        let is_there = checkpoint_of(next) == checkpoint_of(self.version);
        if is_there {
            self.version = next;
        }
        is_there
    }

    /// Notes that the chunk has a record of this version.
    fn touch(&mut self, chunk: &Arc<Chunk>, writer: &mut ChunkWriter) {
        writer.changed_at = self.version;
        if !writer.queued {
            writer.queued = true;
            let checkpoint = writer.active.checkpoint();
            self.dirty.push((Arc::downgrade(chunk), checkpoint));
        }
    }

    fn delete_range(&mut self, keyspace: &KeyspaceState, op: &DecodedOp<'_>) {
        let high = Some(op.value).filter(|high| !high.is_empty());
        if high.is_some_and(|high| *high <= *op.key) {
            return;
        }
        let index = keyspace.index.load_full();
        let chunks: Vec<Arc<Chunk>> = index.overlapping(op.key, high).cloned().collect();
        let ties = |chunk: &Arc<Chunk>| chunk.latch.lock().changed_at >= self.version;
        let tied = chunks.iter().any(ties);
        let is_last = tied && !self.next_version();
        // There are no readers yet.
        let horizon = Horizon {
            floor: Version::MAX,
            snapshots: Vec::new(),
            ..Horizon::default()
        };
        let mut record = range_record(op.key, high);
        record.set_version(self.version);
        for chunk in &chunks {
            let mut writer = chunk.latch.lock();
            if is_last {
                self.delete_each(&writer, op.key, high);
            }
            self.touch(chunk, &mut writer);
            let mut view: View = (*chunk.view.load_full()).clone();
            let covers = view.covers.as_deref();
            let covers = Covers::with(covers, &chunk.range, &record, &horizon, self.ledger);
            view.covers = Some(Arc::new(covers));
            chunk.publish(view);
        }
    }

    /// Deletes the delta's keys in a range one by one, where records have the version of the range
    /// deletion.
    fn delete_each(&self, writer: &ChunkWriter, low: &[u8], high: Option<&[u8]>) {
        let pin = reclaim::pin();
        let mut live: Vec<Vec<u8>> = Vec::new();
        let mut cursor = writer.active.cursor(&pin);
        cursor.seek(low);
        while cursor.valid() && high.is_none_or(|high| *cursor.key() < *high) {
            let newest = cursor.versions().next();
            if newest.is_some_and(|newest| !newest.kind().is_tombstone()) {
                live.push(cursor.key().to_vec());
            }
            cursor.next();
        }
        for key in live {
            let mut record = RecordRef::new(&key, &[], Kind::Delete, RamHash::of(&key));
            record.set_version(self.version);
            writer.active.adopt(record);
        }
    }
}
