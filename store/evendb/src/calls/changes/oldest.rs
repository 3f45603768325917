//! The oldest position from which the log holds every change.
//!
//! The manifest and the head name places where records begin. In the part of the log that is kept
//! below the tail, the first record has to be found: a header verifies only at its own place, with
//! its own life's seed. From there the search walks the records to the end. If a record does not
//! verify, or names a value extent that is gone, the walk starts again behind it.
//!
//! Thread safety: any thread, beside appenders; a stretch that is overwritten meanwhile counts as
//! gone.

use super::feed::{readable_now, take_inherited};
use super::position::Position;
use super::resume::{file_of, life_at, oldest};
use crate::commit_log::{Lsn, Passage, ReadBack, Segment, find_record};
use crate::engine::Engine;
use crate::engine::log::Followed;
use crate::error::Result;
use crate::kept_changes::KeptChanges;
use crate::payload;
use crate::value_extents;
use evendb_storage::Version;

/// See [`Db::oldest_position`](crate::Db::oldest_position).
pub(crate) fn oldest_position(engine: &Engine) -> Result<Position> {
    let _inside = engine.core.health.enter()?;
    let log = &engine.log;
    let file = file_of(log)?;
    take_inherited(engine)?;
    let history = &log.history;
    let kept = history.kept.as_ref();
    if let Some(position) = oldest(engine).filter(|_| kept.is_some_and(KeptChanges::keeps)) {
        return Ok(position);
    }
    let end = readable_now(engine, Lsn(0), Followed::None)?;
    let mut walk = Walk {
        engine,
        reader: ReadBack::new(),
        start: None,
    };
    let mut at = Lsn(end.0.saturating_sub(history.capacity));
    while at < end {
        let is_next = |life: &&Segment| {
            life.start > at && life.closed_at.is_none_or(|closed| life.start < closed)
        };
        let next = || history.lives.iter().find(is_next);
        let Some(life) = life_at(history, at).or_else(next) else {
            break;
        };
        at = at.max(life.start);
        let limit = life.closed_at.unwrap_or(end).min(end);
        match find_record(file, history.capacity, at, limit, life)? {
            Some(found) => at = walk.from(found, end)?,
            None => {
                walk.start = None;
                at = limit;
            }
        }
    }
    let position = match walk.start {
        Some((at, version)) => life_at(history, at)
            .or(history.lives.last())
            .map(|life| Position::new(life, version, (at, at))),
        None => oldest(engine),
    };
    match position {
        Some(position) => Ok(position),
        None => Err(super::resume::gone(engine, "there was no life before")),
    }
}

struct Walk<'e> {
    engine: &'e Engine,
    reader: ReadBack,
    /// The first record of the unbroken sequence up to the walk's place, and a version that no
    /// earlier record exceeds.
    start: Option<(Lsn, Version)>,
}

impl Walk<'_> {
    /// Walks from the record at `at` along records without a gap. Returns the place where the next
    /// search begins.
    fn from(&mut self, mut at: Lsn, end: Lsn) -> Result<Lsn> {
        let log = &self.engine.log;
        let (file, history) = (file_of(log)?, &log.history);
        self.start = None;
        while at < end {
            let Some(life) = life_at(history, at) else {
                self.start = None;
                return Ok(Lsn(at.0 + 8));
            };
            let limit = life.closed_at.unwrap_or(end).min(end);
            let ring = log.commit_log.as_deref();
            let capacity = history.capacity;
            let found = self.reader.next(file, capacity, ring, at, limit, life)?;
            match found {
                Passage::Record(record) => {
                    // Records before it have at most its version.
                    self.start.get_or_insert((at, record.version));
                    at = record.end;
                    if is_gone(self.engine, record.payload)? {
                        self.start = None;
                        return Ok(at);
                    }
                }
                Passage::End => at = limit,
                Passage::Overwritten | Passage::Foreign => {
                    self.start = None;
                    return Ok(Lsn(at.0 + 8));
                }
            }
        }
        Ok(at)
    }
}

/// Whether a record names a value extent that no longer exists.
fn is_gone(engine: &Engine, payload: &[u8]) -> Result<bool> {
    let Some(name) = payload::extent_of(payload) else {
        return Ok(false);
    };
    let disk = &engine.disk;
    let path = value_extents::file_path(&disk.dir, name.id);
    let exists = disk.vfs.exists(&path);
    let exists = exists
        .map_err(|error| evendb_storage::Error::io(&path, "look for a value extent", error))?;
    Ok(!exists)
}
