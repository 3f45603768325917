//! The one write path. A put is a batch of one. Batches that come at the same time are written
//! together, as a group.
//!
//! ```text
//!   threads --- append their records ---> the open group  (queue's lock, some 100 bytes copied)
//!                                            |  the first thread that finds no leader leads
//!                                            v
//!   leader: room, versions, log (one write, at most one sync), memory tables, published version;
//!           then the group is finished
//! ```
//! 1. `room`: a full generation is ended, and the next one begins. The leader waits if too many
//!    generations wait to be flushed, or level 0 has too many tables. Meanwhile the open group
//!    grows.
//! 2. Each record gets a version of its own, in the order of the group. A batch is not divided.
//! 3. The log is written, and synced if a call of the group asks for it. After a failure the
//!    database is latched, because it is not known what the log holds. Lack of room is no such
//!    failure, because the log shows it: then nothing of the group has happened.
//! 4. The records go into memory tables. The tables are in the views before that.
//! 5. The version is published: from here on readers see all of the group.
//!
//! Invariants: groups are written in the order in which they were opened, one at a time. A call
//! returns success only after its group is published, and durable as far as the call asked for. A
//! panic of the leader latches the database.
//!
//! Not here: which records are allowed ([`limits`]), how a generation ends ([`crate::generation`]).

pub(crate) mod limits;
pub(crate) mod writer;

use crate::engine::Engine;
use crate::engine::write_path::{Group, Queue};
use crate::error::{Error, ErrorKind, Result};
use crate::generation::flush_all;
use crate::keyspace::KeyspaceState;
use crate::log::record::GroupBody;
use crate::plant::planted;
use evendb_base::Durability;
use evendb_base::sync::atomic::Ordering::Relaxed;
use evendb_base::sync::{Arc, MutexGuard};

/// A group with more than this many bytes takes no more records, so that no frame of the log is too
/// long.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// How often deletes are written again that were refused on a full disk. Puts of other calls in the
/// same group may have caused the refusal.
const RETRIES_MAX: usize = 2;

/// What a call wants to write.
pub(crate) struct Request<'r> {
    /// The keyspaces of its records.
    pub(crate) keyspaces: &'r [Arc<KeyspaceState>],
    /// Bytes of its keys and values.
    pub(crate) user_bytes: u64,
    /// Whether there is a put among the records.
    pub(crate) has_puts: bool,
    /// What the write has to survive, if that is more than the database's level.
    pub(crate) durability: Durability,
    /// Appends its records.
    pub(crate) append: &'r dyn Fn(&mut GroupBody),
}

/// Writes, and waits until the write survives what it should.
pub(crate) fn write(engine: &Engine, request: &Request<'_>) -> Result<()> {
    let _inside = engine.health.enter()?;
    for keyspace in request.keyspaces {
        keyspace.check_there()?;
    }
    if request.has_puts {
        if engine.full_disk.is_stuck() {
            return Err(engine.work.no_space());
        }
        engine.full_disk.check()?;
    }
    let mut outcome = write_in_group(engine, request);
    // Deletes may use the room that is kept back for them. A group that has puts of other calls may
    // not.
    for _ in 0..RETRIES_MAX {
        let is_full = |error: &Error| error.kind() == ErrorKind::NoSpace;
        if request.has_puts || !outcome.as_ref().is_err_and(is_full) {
            break;
        }
        outcome = write_in_group(engine, request);
    }
    outcome?;
    let level = engine.options.durability;
    match level == Durability::Relaxed && request.durability > level {
        // There is no log: only tables survive.
        true => flush_all(engine).map_err(Error::not_durable_yet),
        false => Ok(()),
    }
}

/// Writes as a part of the open group.
fn write_in_group(engine: &Engine, request: &Request<'_>) -> Result<()> {
    let mut queue = engine.writes.queue.lock();
    while queue.open.body.len() > GROUP_BYTES_MAX {
        let full = queue.number;
        queue = lead_or_wait(engine, queue, full);
    }
    let number = queue.number;
    queue.join(request);
    while queue.finished < number {
        queue = lead_or_wait(engine, queue, number);
    }
    queue.outcome(number)
}

/// Makes all earlier writes durable, by syncing the log.
pub(crate) fn sync_log(engine: &Engine) -> Result<()> {
    write(
        engine,
        &Request {
            keyspaces: &[],
            user_bytes: 0,
            has_puts: false,
            durability: Durability::Sync,
            append: &|_| {},
        },
    )
}

/// Writes the open group if no thread writes one. Otherwise it waits at the turn of the group
/// `number`. That need not be the open group: a later call may have gone ahead of the calls that
/// were woken to lead. A call that waited at the turn of the next group would take the one wake-up
/// that belongs to that group.
fn lead_or_wait<'e>(
    engine: &'e Engine,
    mut queue: MutexGuard<'e, Queue>,
    number: u64,
) -> MutexGuard<'e, Queue> {
    let paths = &engine.writes;
    if queue.is_led {
        let number = match planted!(engine.options, WaitsForNextGroup) {
            true => queue.number,
            false => number,
        };
        paths.wait_for_turn(number, &mut queue);
        return queue;
    }
    queue.is_led = true;
    let body = queue.spare.take().unwrap_or_else(GroupBody::new);
    let group = std::mem::replace(&mut queue.open, Group::new(body));
    let mut lead = Lead {
        engine,
        number: queue.number,
        group,
        outcome: None,
    };
    queue.number += 1;
    drop(queue);
    lead.outcome = Some(lead.write());
    drop(lead);
    paths.queue.lock()
}

impl Queue {
    fn join(&mut self, request: &Request<'_>) {
        let group = &mut self.open;
        (request.append)(&mut group.body);
        group.members += 1;
        group.user_bytes += request.user_bytes;
        group.has_puts |= request.has_puts;
        group.sync |= request.durability == Durability::Sync;
        for keyspace in request.keyspaces {
            if !group.keyspaces.iter().any(|own| own.id == keyspace.id) {
                group.keyspaces.push(keyspace.clone());
            }
        }
    }

    /// The result of a finished group, for one of its calls.
    fn outcome(&mut self, number: u64) -> Result<()> {
        let Some((error, left)) = self.failed.get_mut(&number) else {
            return Ok(());
        };
        let error = error.clone();
        *left -= 1;
        if *left == 0 {
            self.failed.remove(&number);
        }
        Err(error)
    }
}

/// A group that is being written. Its drop wakes the calls of the group, whatever happened.
struct Lead<'e> {
    engine: &'e Engine,
    number: u64,
    group: Group,
    /// `None`: the leader panicked.
    outcome: Option<Result<()>>,
}

impl Lead<'_> {
    fn write(&mut self) -> Result<()> {
        let engine = self.engine;
        let group = &mut self.group;
        let mut writer = engine.writes.writer.lock();
        engine.health.check_latched()?;
        if group.body.records() > 0 {
            writer.make_room(engine)?;
            if group.has_puts {
                writer.cover(engine, &group.body)?;
            }
            writer.append(engine, &mut group.body, group.has_puts)?;
        }
        if group.sync || engine.options.durability == Durability::Sync {
            writer.sync(engine)?;
        }
        writer.apply(engine, &group.body, &group.keyspaces)?;
        engine.figures.groups.fetch_add(1, Relaxed);
        engine
            .figures
            .user_bytes
            .fetch_add(group.user_bytes, Relaxed);
        Ok(())
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let error = Error::new(ErrorKind::Io, "a thread panicked while it wrote");
            self.engine.latch(&error);
            Err(error)
        });
        let paths = &self.engine.writes;
        let mut queue = paths.queue.lock();
        queue.is_led = false;
        queue.finished = self.number;
        if let Err(error) = outcome {
            let left = self.group.members;
            queue.failed.insert(self.number, (error, left));
        }
        self.group.body.clear();
        let body = std::mem::replace(&mut self.group.body, GroupBody::new());
        queue.spare = Some(body);
        paths.tell_finished(self.number, &queue);
    }
}
