//! Finds a position's place in this database's log, and gives the errors for positions that have
//! none.
//!
//! ```text
//!   position's life   known, same seed, and it reached the position     the feed starts there
//!                     known, but it ended before: a crash lost it       ChangesLost
//!                     another seed, or a life that is to come           ChangesLost: of another
//!                                                                       database, or unknown
//!                                                                       to this older copy
//!                     older than all known lives                        ChangesGone
//! ```
//! The feed checks whether the log still holds the changes at the position, and reports it if they
//! are gone.
//!
//! Invariants: a feed starts at a position only if everything before it is in the database, and it
//! gives each change after it. Thread safety: any thread.

use super::position::Position;
use crate::commit_log::{Lsn, Segment};
use crate::engine::Engine;
use crate::engine::log::{Followed, Found, History, Log};
use crate::error::{Error, ErrorKind, Result};
use crate::read::moment::Moment;
use crate::version::clock::last_version_of;
use evendb_storage::vfs::File;

/// The ring's file, or the error that says why there is none to read.
pub(super) fn file_of(log: &Log) -> Result<&dyn File> {
    match &log.history.file {
        Some(file) if log.end().is_some() => Ok(&**file),
        _ => {
            let message = match log.history.read_only {
                true => {
                    "changes are read from the commit log, and this database has none yet: it was \
                     restored or copied, or written at the relaxed level alone, and nobody has \
                     opened it for writing since at a higher level (Durability::Process, \
                     --durability process)"
                }
                false => {
                    "changes are read from the commit log, and at the relaxed level none is \
                     written: open the database at a higher level (Durability::Process, --durability \
                     process)"
                }
            };
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// The life that wrote the bytes at `at`; `None` if no known life logged there.
pub(super) fn life_at(history: &History, at: Lsn) -> Option<&Segment> {
    let mut lives = history.lives.iter();
    lives.find(|life| life.start <= at && life.closed_at.is_none_or(|closed| at < closed))
}

/// The position of a snapshot.
pub(crate) fn position_of(moment: &Moment) -> Result<Position> {
    let log = &moment.engine().log;
    file_of(log)?;
    if let Some(found) = &log.history.found {
        return position_beside(moment.engine(), found);
    }
    if let Some(ring) = &log.commit_log {
        ring.keep_for_readers();
    }
    let (Some(span), Some(life)) = (moment.in_log(), log.history.lives.last()) else {
        let message = "this snapshot was not asked for its place in the log";
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    Ok(Position::new(life, moment.version(), span))
}

/// The position of what a reader beside the writer sees: it has the records of completed
/// checkpoints. Some of them lie behind the place where a replay would begin, and the file may not
/// have all of them yet: their version tells them.
fn position_beside(engine: &Engine, found: &Found) -> Result<Position> {
    let history = &engine.log.history;
    let end = history.look_further(found, Followed::None)?;
    let from = history.replayed.0;
    let Some(life) = life_at(history, from).or(history.lives.last()) else {
        return Err(gone(engine, "no life wrote a log"));
    };
    let from = from.max(life.start);
    let until = life
        .closed_at
        .map_or(end, |closed| end.min(closed))
        .max(from);
    let completed = *engine.flow.completed.lock();
    let version = last_version_of(completed);
    Ok(Position::new(life, version, (from, until)).of_checkpoints(version))
}

/// The oldest position that is certainly kept: the begin of the kept changes, or else the place
/// where recovery begins.
pub(super) fn oldest(engine: &Engine) -> Option<Position> {
    let log = &engine.log;
    let tail = match &log.commit_log {
        Some(ring) => ring.tail(),
        None => log.history.replayed.0,
    };
    // A life that logged nothing more may have ended at the tail, below the start of the next
    // life.
    let mut lives = log.history.lives.iter();
    let life = lives.find(|life| life.closed_at.is_none_or(|closed| tail < closed))?;
    let at = tail.max(life.start);
    let completed = *engine.flow.completed.lock();
    if let Some(kept) = &log.history.kept
        && let Some(begin) = kept.begins_before(tail)
        && let Ok(Some(mut reader)) = kept.find(begin)
        && let Ok(Some(frame)) = reader.next(begin)
    {
        // The record's place, not `begin`: at the ring's end, bytes of an older life may lie
        // between.
        let life = (frame.epoch, frame.tag);
        return Some(Position::at(life, frame.version, frame.lsn));
    }
    Some(Position::new(life, last_version_of(completed), (at, at)))
}

/// The error for a position whose changes are no longer kept.
pub(super) fn gone(engine: &Engine, why: &str) -> Error {
    let kept = match oldest(engine) {
        Some(oldest) => format!("those from {oldest} on are"),
        None => "none are".to_owned(),
    };
    let message = format!(
        "changes at this position are not kept any more ({why}); {kept}: read what there is, and go on from \
         its position (Snapshot::position, `evendb changes --position`)"
    );
    Error::new(ErrorKind::ChangesGone, message)
}

fn lost(why: &str) -> Error {
    let message = format!(
        "{why}: who holds this position may have seen changes that this database does not have; read \
         what there is in place of what was seen, and go on from its position (Snapshot::position, `evendb changes \
         --position`)"
    );
    Error::new(ErrorKind::ChangesLost, message)
}

/// Checks that a feed can start at `position`.
pub(super) fn check(engine: &Engine, position: &Position) -> Result<()> {
    let log = &engine.log;
    file_of(log)?;
    let lives = &log.history.lives;
    let kept = log.history.kept.as_ref();
    let Some(life) = lives.iter().find(|life| life.epoch == position.epoch) else {
        let reached = kept.and_then(|kept| kept.reached(position.epoch, position.tag()));
        if reached.is_some_and(|end| position.until <= end) {
            return Ok(());
        }
        return Err(match lives.first() {
            Some(first) if position.epoch < first.epoch => gone(engine, "its life is forgotten"),
            _ => lost(
                "the position is of another database, or of a life that this copy or restored \
                 backup of it never had",
            ),
        });
    };
    if !position.is_of(life) {
        return Err(lost(
            "the position is of another database, or of another course of this one, as that of one \
             restored from a backup",
        ));
    }
    let end = match life.closed_at {
        Some(closed) => closed,
        None => log.end().unwrap_or(life.start),
    };
    if position.until > end && log.history.found.is_some() && life.closed_at.is_none() {
        let message = "the position lies behind what the writer's process has written to the log's file so far";
        return Err(Error::new(ErrorKind::Stale, message));
    }
    if position.until > end {
        return Err(lost(
            "a crash took back what lies before the position, or the database is an older copy or a \
             restored backup",
        ));
    }
    if position.from() < life.start {
        let message = "the position lies before its own life";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    if let Some(ring) = &log.commit_log
        && !ring.still_has(position.from())
        && kept
            .map_or(Ok(None), |kept| kept.find(position.from()))?
            .is_none()
    {
        return Err(gone(engine, "the log has gone round"));
    }
    Ok(())
}
