//! [`Changes`]: reads the log from a position on.
//!
//! Steps for one change: find the end up to which it may read (the log's end; then it waits for the
//! puts below it); find the life that wrote the place; copy and verify the record; read its value
//! extent, if it names one; list its writes, with the names of their keyspaces. After a failure the
//! feed gives no more changes, and its position stays.

use super::change::{Change, Place};
use super::filter::Filter;
use super::position::Position;
use super::resume::{check, file_of, gone, life_at};
use crate::checkpoint;
use crate::commit_log::{LogRecord, Lsn, Passage, ReadBack, Segment};
use crate::engine::Engine;
use crate::engine::handle::Handle;
use crate::engine::log::Followed;
use crate::error::{Error, ErrorKind, Result};
use crate::files::COMMIT_LOG;
use crate::kept_changes::{Frame, KeptReader};
use crate::op::OpKind;
use crate::options::Durability;
use crate::payload::{self, DecodedOp, ExtentName, WithValues};
use crate::plant::planted;
use crate::sync::Arc;
use crate::{value_extents, value_files};
use evendb_base::wakers::Ticket;
use evendb_storage::{Apart, Error as StorageError, Kind, Version};
use std::collections::HashMap;
use std::path::PathBuf;

/// The writes since a position, in the order of the commit log: all of them
/// ([`Db::changes_since`](crate::Db::changes_since)), or those to a key range
/// ([`Keyspace::watch`](crate::Keyspace::watch)).
///
/// As an iterator it ends at the current end of the changes, and continues when there are more;
/// [`wait`](Self::wait), [`next_blocking`](Self::next_blocking) and
/// [`next_async`](Self::next_async) wait for them. It gives an error once, and then nothing; the
/// calls that wait give the error again.
///
/// It keeps the database open, as every handle does; [`Db::close`](crate::Db::close) ends it, and
/// wakes what waits. It holds up no write and no part of the log.
pub struct Changes {
    pub(super) handle: Arc<Handle>,
    reader: ReadBack,
    /// A file of kept changes, where the ring no longer holds the next change.
    kept: Option<KeptReader>,
    /// The position after the last change that was given.
    position: Position,
    /// The reader's place: at `position` or behind it.
    pub(super) at: Lsn,
    /// The place up to which it may read.
    pub(super) readable: Lsn,
    /// Names of keyspaces by number; `None` for dropped keyspaces.
    names: HashMap<u32, Option<Arc<str>>>,
    /// The number of renamings that `names` follow.
    renamings: u64,
    /// The part that is given; `None` for all changes.
    pub(super) filter: Option<Filter>,
    /// The place of a task that waits.
    pub(super) ticket: Ticket,
    pub(super) failure: Option<Error>,
}

/// What a feed came to.
pub(super) enum Step {
    Change(Change),
    /// It passed over many bytes, and there may be more.
    Paused,
    /// There is nothing more now.
    End,
}

/// A record, copied out of the reader's buffer.
struct Taken {
    position: Position,
    lsn: Lsn,
    end: Lsn,
    version: Version,
    /// What of it the feed gives; `None` for nothing. The name of a value extent is always there.
    payload: Option<Vec<u8>>,
}

/// The contents of the ring at a place.
enum FromRing {
    Record(Taken),
    /// Nothing more up to this place.
    End(Lsn),
    Gone(&'static str),
}

impl Taken {
    fn new(record: &LogRecord<'_>, life: &Segment, filter: Option<&Filter>) -> Taken {
        let filter = filter.filter(|_| payload::extent_of(record.payload).is_none());
        Taken {
            position: Position::new(life, record.version, (record.end, record.end)),
            lsn: record.lsn,
            end: record.end,
            version: record.version,
            payload: match filter {
                Some(filter) => filter.cut(record.payload),
                None => Some(record.payload.to_vec()),
            },
        }
    }

    fn kept(frame: Frame, filter: Option<&Filter>) -> Taken {
        let life = (frame.epoch, frame.tag);
        Taken {
            position: Position::at(life, frame.version, frame.end),
            lsn: frame.lsn,
            end: frame.end,
            version: frame.version,
            payload: given(frame.operations, filter),
        }
    }
}

fn followed(filter: Option<&Filter>) -> Followed {
    filter.map_or(Followed::All, |filter| Followed::One(filter.keyspace()))
}

/// What a feed gives of operations.
fn given(operations: Vec<u8>, filter: Option<&Filter>) -> Option<Vec<u8>> {
    match filter {
        Some(filter) => filter.cut(&operations),
        None => Some(operations),
    }
}

/// Has a checkpoint take the records of earlier lives: they count as durable only then. The
/// checkpoint may remove them from the log, so this comes before the search for the first change.
pub(super) fn take_inherited(engine: &Engine) -> Result<()> {
    match engine.core.options.durability == Durability::Sync && !engine.log.history.read_only {
        true => checkpoint::take_inherited(engine),
        false => Ok(()),
    }
}

impl Changes {
    pub(crate) fn begin(
        handle: &Arc<Handle>,
        position: &Position,
        filter: Option<Filter>,
    ) -> Result<Changes> {
        let engine = &handle.engine;
        let _inside = engine.core.health.enter()?;
        file_of(&engine.log)?;
        if let Some(ring) = &engine.log.commit_log {
            ring.keep_for_readers();
        }
        take_inherited(engine)?;
        if let Some(found) = &engine.log.history.found {
            engine
                .log
                .history
                .look_further(found, followed(filter.as_ref()))?;
        }
        check(engine, position)?;
        let mut changes = Changes {
            handle: handle.clone(),
            reader: ReadBack::new(),
            kept: None,
            position: *position,
            at: position.from(),
            readable: Lsn(0),
            names: HashMap::new(),
            filter,
            ticket: Ticket::default(),
            renamings: 0,
            failure: None,
        };
        // An error about the first change comes now, not later.
        changes.look_ahead()?;
        Ok(changes)
    }

    /// The position after the last change that was given or passed over; at first the position at
    /// which the feed began. A consumer of a watch stores it now and then, also while nothing
    /// comes: the log is used again, whether or not its changes touch the range.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The bytes of the commit log between the feed's position and the end of what it may give: how
    /// far its consumer is behind, with what a watch will pass over. The log is not held for a
    /// feed. One that is further behind than the log is long
    /// ([`Advanced::commit_log_bytes`](crate::Advanced::commit_log_bytes)) has lost its position,
    /// unless changes are [kept](crate::Advanced::keep_changes_bytes).
    pub fn lag(&self) -> u64 {
        let log = &self.handle.engine.log;
        let end = match &log.commit_log {
            Some(ring) => Some(ring.readable(durable_only(&self.handle.engine))),
            None => log.end(),
        };
        end.map_or(0, |end| end.0.saturating_sub(self.at.0))
    }

    /// The same feed or watch, from another position on.
    ///
    /// # Errors
    /// The errors of [`Db::changes_since`](crate::Db::changes_since).
    pub fn since(mut self, position: &Position) -> Result<Changes> {
        let (handle, filter) = (self.handle.clone(), self.filter.take());
        let engine = &handle.engine;
        let since = || Changes::begin(&handle, position, filter);
        engine.core.recording.other("changes_since", since)
    }

    /// Goes on to the next change, past at most about `left` bytes of the log that it does not
    /// give.
    pub(super) fn step(&mut self, left: &mut u64) -> Result<Step> {
        let handle = self.handle.clone();
        let _inside = handle.engine.core.health.enter()?;
        if let Some(filter) = &self.filter {
            filter.check()?;
        }
        while let Some(taken) = self.take_record()? {
            let (end, position) = (taken.end, taken.position.after(&self.position));
            let bytes = end.0.saturating_sub(taken.lsn.0);
            if self.position.has(taken.version, end) {
                self.at = end;
            } else {
                let change = self.change_of(Taken { position, ..taken })?;
                // A change without remaining writes counts as given all the same.
                self.at = end;
                self.position = position;
                if let Some(change) = change {
                    return Ok(Step::Change(change));
                }
            }
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                return Ok(Step::Paused);
            }
        }
        Ok(Step::End)
    }

    /// The keyspaces whose fate ends it, beside a writer.
    pub(super) fn followed(&self) -> Followed {
        followed(self.filter.as_ref())
    }

    /// Notes the error that ends the feed.
    pub(super) fn note_failure(&mut self, error: &Error) {
        if error.kind() != ErrorKind::Forked {
            self.failure = Some(error.clone());
        }
    }

    /// Checks that the next change can be read, without giving it.
    fn look_ahead(&mut self) -> Result<()> {
        let found = self.take_record().map(|_| ());
        // A reader of a file only goes forward: it would continue behind the change that was
        // checked.
        if !planted!(self.handle.engine.core.options, LookTakes) {
            self.kept = None;
        }
        found
    }

    /// The record at the feed's place; `None` if there are no more.
    fn take_record(&mut self) -> Result<Option<Taken>> {
        loop {
            if self.at >= self.readable {
                self.readable = readable_now(&self.handle.engine, self.at, self.followed())?;
                if self.at >= self.readable {
                    return Ok(None);
                }
            }
            if let Some(reader) = &mut self.kept {
                match reader.next(self.at)? {
                    Some(frame) => return Ok(Some(Taken::kept(frame, self.filter.as_ref()))),
                    None => {
                        self.at = self.at.max(reader.end());
                        self.kept = None;
                        continue;
                    }
                }
            }
            let why = match self.read_ring()? {
                FromRing::Record(taken) => return Ok(Some(taken)),
                FromRing::End(at) => {
                    self.at = at;
                    continue;
                }
                FromRing::Gone(why) => why,
            };
            let engine = &self.handle.engine;
            self.kept = find_kept(engine, self.at)?;
            if self.kept.is_none() {
                return Err(gone(engine, why));
            }
        }
    }

    /// The contents of the ring at the feed's place.
    fn read_ring(&mut self) -> Result<FromRing> {
        let engine = &self.handle.engine;
        let history = &engine.log.history;
        let Some(life) = life_at(history, self.at) else {
            return Ok(FromRing::Gone("a life wrote no log there, or is forgotten"));
        };
        let limit = life.closed_at.unwrap_or(self.readable).min(self.readable);
        let (file, log) = (file_of(&engine.log)?, engine.log.commit_log.as_deref());
        let found = self
            .reader
            .next(file, history.capacity, log, self.at, limit, life)?;
        Ok(match found {
            Passage::Record(record) => {
                FromRing::Record(Taken::new(&record, life, self.filter.as_ref()))
            }
            Passage::End => FromRing::End(limit),
            Passage::Overwritten => FromRing::Gone("the log has gone round"),
            Passage::Foreign => {
                check_foreign(engine, life, self.at)?;
                FromRing::Gone("the log does not hold them")
            }
        })
    }

    /// The writes of a record that are left; `None` if all its keyspaces were dropped, or if none
    /// touches the range of a watch.
    fn change_of(&mut self, taken: Taken) -> Result<Option<Change>> {
        let (position, lsn, end) = (taken.position, taken.lsn, taken.end);
        let mut payload = taken.payload;
        if let Some(name) = payload.as_deref().and_then(payload::extent_of) {
            let contents = read_extent(&self.handle.engine, (lsn, end), &name)?;
            payload = given(contents, self.filter.as_ref());
        }
        let Some(payload) = payload else {
            return Ok(None);
        };
        let payload = in_place(&self.handle.engine, lsn, payload, self.filter.as_ref())?;
        let Some(places) = self.places_of(&payload, lsn)? else {
            return Err(senseless(&self.handle.engine, lsn));
        };
        let log = self.handle.engine.log.commit_log.as_ref();
        let durable = log.is_some_and(|log| log.durable() >= end);
        Ok((!places.is_empty()).then_some(Change {
            position,
            durability: match durable {
                true => Durability::Sync,
                false => Durability::Process,
            },
            payload,
            places,
        }))
    }

    /// The places of the writes whose keyspaces exist; `None` if the payload makes no sense.
    /// `Stale` beside a writer that has made one of the keyspaces since: it counts as unknown, not
    /// as dropped.
    fn places_of(&mut self, payload: &[u8], lsn: Lsn) -> Result<Option<Vec<Place>>> {
        let handle = self.handle.clone();
        let (engine, catalog) = (&handle.engine, &handle.engine.catalog);
        let Some(ops) = payload::decode_ops(payload) else {
            return Ok(None);
        };
        if let Some(found) = &engine.log.history.found
            && ops.iter().any(|op| op.keyspace.0 >= found.next_keyspace)
        {
            return Err(too_new(engine, lsn));
        }
        loop {
            self.follow_renamings(engine);
            let mut places = Vec::with_capacity(ops.len());
            for op in &ops {
                let id = op.keyspace.0;
                let name = self.names.entry(id).or_insert_with(|| name_of(engine, id));
                if let Some(keyspace) = name {
                    places.push(place(payload, op, keyspace));
                }
            }
            // Otherwise a name is from before a renaming, and another one from after it.
            if catalog.renamings() == self.renamings {
                return Ok(Some(places));
            }
        }
    }

    /// Looks the names up again if a keyspace was renamed. One that was dropped keeps its last
    /// name.
    fn follow_renamings(&mut self, engine: &Engine) {
        let renamings = engine.catalog.renamings();
        if renamings == self.renamings {
            return;
        }
        for (id, known) in &mut self.names {
            if known.is_some()
                && let Some(name) = name_of(engine, *id)
            {
                *known = Some(name);
            }
        }
        self.renamings = renamings;
    }
}

/// Whether the feed gives only durable changes.
pub(super) fn durable_only(engine: &Engine) -> bool {
    engine.core.options.durability == Durability::Sync
}

/// The place up to which a reader that is at `at` may read now. Everything below it is visible to
/// the caller.
pub(super) fn readable_now(engine: &Engine, at: Lsn, followed: Followed) -> Result<Lsn> {
    let log = &engine.log;
    let Some(ring) = &log.commit_log else {
        let end = log.end().unwrap_or(at);
        return match &log.history.found {
            Some(found) if end <= at => Ok(log.history.look_further(found, followed)?),
            _ => Ok(end),
        };
    };
    let mut end = ring.readable(durable_only(engine));
    if end <= at {
        let written = ring.write_out();
        written.map_err(|error| engine.core.health.latch(error.into()))?;
        end = ring.readable(durable_only(engine));
    }
    // Records below `epoch_start` were visible when this life began.
    if end > at && end > log.epoch_start {
        engine.core.clock.await_seen();
    }
    Ok(end)
}

/// A write by its places in the payload.
fn place(payload: &[u8], op: &DecodedOp<'_>, keyspace: &Arc<str>) -> Place {
    let range = |part: &[u8]| {
        let from = part.as_ptr().addr() - payload.as_ptr().addr();
        from..from + part.len()
    };
    Place {
        keyspace: keyspace.clone(),
        keyspace_id: op.keyspace.0,
        key: range(op.key),
        value: match op.kind {
            OpKind::One(kind) if kind.is_put() => Some(range(&op.value[kind.prefix_bytes()..])),
            _ => None,
        },
        operands: (op.kind == OpKind::One(Kind::Merge)).then(|| range(op.value)),
        expires: match op.kind {
            OpKind::One(kind) => kind.expires(op.value),
            OpKind::RangeDelete => None,
        },
        behind: (op.kind == OpKind::RangeDelete).then(|| range(op.value)),
    }
}

/// The name of a keyspace that exists. A drop holds the same lock, so no keyspace is seen half
/// dropped.
fn name_of(engine: &Engine, id: u32) -> Option<Arc<str>> {
    let keyspaces = engine.catalog.lock();
    let mut all = keyspaces.values();
    let known = all.find(|keyspace| keyspace.id.0 == id)?;
    Some(known.name().into())
}

/// Returns an error if bytes that a life should have written do not verify, and only damage can be
/// the cause.
fn check_foreign(engine: &Engine, life: &Segment, at: Lsn) -> Result<()> {
    let log = &engine.log;
    // All that this life appended and a file can hold is in the file.
    let ring = log.commit_log.as_ref().filter(|ring| ring.is_all_written());
    if life.closed_at.is_some() || ring.is_none() {
        return Ok(());
    }
    let (path, offset) = in_file(engine, at);
    let detail = "a record that this process appended does not verify";
    Err(StorageError::corruption(&path, offset, detail).into())
}

/// A reader of the kept changes from `at` on.
fn find_kept(engine: &Engine, at: Lsn) -> Result<Option<KeptReader>> {
    match &engine.log.history.kept {
        Some(kept) => Ok(kept.find(at)?),
        None => Ok(None),
    }
}

/// The log's file, and the offset in it, for errors.
fn in_file(engine: &Engine, lsn: Lsn) -> (PathBuf, u64) {
    let offset = lsn.0 % engine.log.history.capacity.max(1);
    (engine.disk.dir.join(COMMIT_LOG), offset)
}

fn senseless(engine: &Engine, lsn: Lsn) -> Error {
    let (path, offset) = in_file(engine, lsn);
    StorageError::corruption(&path, offset, "a commit-log record makes no sense").into()
}

/// The error for a write to a keyspace that a writer has made after the moment of this reader.
fn too_new(engine: &Engine, lsn: Lsn) -> Error {
    let (path, offset) = in_file(engine, lsn);
    let detail = "a keyspace that is newer than this moment; refresh";
    StorageError::stale(&path, offset, detail).into()
}

/// The operations, with values that lie apart in place. If the file of a value is gone, the change
/// is gone unless kept changes hold it: its records were overwritten or moved since. Beside a
/// writer, the file may be newer than the reader's moment, and then only the directory has it.
fn in_place(
    engine: &Engine,
    lsn: Lsn,
    payload: Vec<u8>,
    filter: Option<&Filter>,
) -> Result<Vec<u8>> {
    let (values, disk) = (&engine.core.value_files, &engine.disk);
    let is_beside = engine.log.history.found.is_some();
    let read = |place: &Apart| match values.read(place)? {
        None if is_beside => value_files::read(&*disk.vfs, &disk.dir, place),
        found => Ok(found),
    };
    match payload::with_values(&payload, &read)? {
        WithValues::AsItIs => Ok(payload),
        WithValues::Read(read) => Ok(read),
        WithValues::Gone => {
            // Kept changes contain the values.
            if let Some(mut kept) = find_kept(engine, lsn)?
                && let Some(frame) = kept.next(lsn)?
                && frame.lsn == lsn
            {
                return Ok(given(frame.operations, filter).unwrap_or_default());
            }
            Err(gone(engine, "the file of a large value was removed"))
        }
    }
}

/// The contents of a value extent, from its file or from kept changes.
fn read_extent(engine: &Engine, (lsn, end): (Lsn, Lsn), name: &ExtentName) -> Result<Vec<u8>> {
    let disk = &engine.disk;
    if let Some(contents) = value_extents::read(&*disk.vfs, &disk.dir, name)? {
        return Ok(contents);
    }
    if let Some(mut kept) = find_kept(engine, lsn)?
        && let Some(frame) = kept.next(lsn)?
        && frame.end == end
    {
        return Ok(frame.operations);
    }
    let log = &engine.log;
    let is_passed = log
        .commit_log
        .as_ref()
        .is_none_or(|ring| ring.tail() >= end);
    if is_passed {
        return Err(gone(
            engine,
            "a checkpoint removed the file of a large write",
        ));
    }
    let path = value_extents::file_path(&disk.dir, name.id);
    Err(StorageError::corruption(&path, 0, "a value extent does not verify").into())
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        if self.failure.is_some() {
            return None;
        }
        let mut no_limit = u64::MAX;
        match self.step(&mut no_limit) {
            Ok(Step::Change(change)) => Some(Ok(change)),
            Ok(Step::Paused | Step::End) => None,
            Err(error) => {
                self.note_failure(&error);
                Some(Err(error))
            }
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes({})", self.position)
    }
}
