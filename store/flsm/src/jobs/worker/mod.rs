//! The threads of the background: one flushes, others compact. And the calls that wait for them:
//! flush, settle, close.
//!
//! * `flush` - makes tables from a generation, and removes its log.
//! * `compact` - a job of the picker, from choosing it to showing the result.
//! * `sweep` - compacts a whole range, because a call asks for it.
//! * `show` - makes an edit durable, and shows its trees.

mod compact;
mod flush;
mod show;
mod sweep;

pub(crate) use compact::level0_due_bytes;
pub(crate) use sweep::sweep;

use compact::Ended;

use crate::compaction::rewrite::Stopped;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::generation::{self, flush_all, wait_for};
use crate::manifest::kept::Kept;
use crate::tables::{Making, TableForm};
use evendb_base::Durability;
use evendb_base::ballast::Need;
use evendb_base::sync::Arc;
use evendb_base::sync::reclaim;
use evendb_base::sync::thread;
use evendb_storage::vfs::WriteBehind;

/// Starts the threads of an open database. A read-only database has none.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    if engine.options.read_only {
        return Ok(());
    }
    let mut started = add_thread(engine, "flsm-flush".to_owned(), flusher);
    for number in 0..engine.options.advanced.compaction_threads {
        let name = format!("flsm-compact-{number}");
        started = started.and_then(|()| add_thread(engine, name, compactor));
    }
    if started.is_err() {
        engine.work.stop();
    }
    started
}

fn add_thread(engine: &Arc<Engine>, name: String, role: fn(&Engine)) -> Result<()> {
    let own = engine.clone();
    let run = move || {
        let guard = LatchOnPanic(&own);
        role(&own);
        std::mem::forget(guard);
    };
    let started = thread::Builder::new().name(name).spawn(run);
    let started = started.map_err(|source| {
        Error::with_source(ErrorKind::Io, "a thread could not be started", source)
    })?;
    engine.work.add_thread(started);
    Ok(())
}

struct LatchOnPanic<'e>(&'e Engine);

impl Drop for LatchOnPanic<'_> {
    fn drop(&mut self) {
        let message = "a thread of the database panicked";
        self.0.latch(&Error::new(ErrorKind::Io, message));
    }
}

/// How tables are made now. It depends on whether a call waits for them.
fn making(engine: &Engine) -> Making {
    let level0_due = engine.options.advanced.level0.compact;
    let writes_ahead = WriteBehind::depth(engine.work.is_behind(level0_due));
    let making = &engine.making;
    Making {
        form: TableForm {
            writes_ahead,
            ..making.form
        },
        ..making.clone()
    }
}

fn flusher(engine: &Engine) {
    while let Some(generation) = engine.work.wait_for_generation(&engine.health) {
        let flush = || flush::flush(engine, &generation);
        match engine.full_disk.with(Need::Jobs, flush) {
            Ok(()) => drop(engine.full_disk.note_job(false)),
            Err(Stopped::Cancelled) => return,
            Err(Stopped::Failed(error)) => {
                if !goes_on_after(engine, error.into()) {
                    return;
                }
            }
        }
        engine.full_disk.tend();
    }
}

fn compactor(engine: &Engine) {
    // In a latched database a job would end at once, and be due again.
    while engine.health.check_latched().is_ok() {
        let seen = engine.work.changes();
        match compact::take(engine) {
            Some(job) => {
                match compact::run(engine, &job, engine.full_disk.is_stuck(), &|| false) {
                    // Calls that ask for compactions get the error of tables that were set aside.
                    Ok(_) => drop(engine.full_disk.note_job(false)),
                    Err(Stopped::Cancelled) => {}
                    Err(Stopped::Failed(error)) => {
                        if !goes_on_after(engine, error.into()) {
                            return;
                        }
                    }
                }
                engine.full_disk.tend();
            }
            None => {
                engine.full_disk.note_job(false);
                if !engine.work.wait_for_job(&engine.health, seen) {
                    return;
                }
            }
        }
    }
}

/// Whether a worker tries again after this failure: only if there was no room or no descriptor. Any
/// other failure latches the database.
fn goes_on_after(engine: &Engine, error: Error) -> bool {
    match error.kind().is_for_want() {
        true => {
            let found_no_room = error.kind() == ErrorKind::NoSpace;
            let failures = engine.full_disk.note_job(found_no_room);
            engine.work.rest_after(&error, failures)
        }
        false => {
            engine.latch(&error);
            false
        }
    }
}

/// Flushes, and does compactions until none is due. The calling thread compacts, too.
pub(crate) fn settle(engine: &Engine) -> Result<()> {
    let _hurry = engine.work.hurry();
    flush_all(engine)?;
    loop {
        engine.health.check_writable()?;
        let seen = engine.work.changes();
        match compact::take(engine) {
            // If one job finds damage, all other jobs are done all the same.
            Some(job) => {
                run_here(engine, &job)?;
            }
            None => {
                let waited = engine.work.wait_for_jobs(&engine.health)?;
                // A job that ended meanwhile may have made another job due.
                if !waited && engine.work.changes() == seen {
                    reclaim::collect();
                    return engine.work.check_damage();
                }
            }
        }
    }
}

/// Does a job for a call that waits for it. The job may use the room that is kept back for jobs on
/// a full disk.
fn run_here(engine: &Engine, job: &compact::Job) -> Result<Ended> {
    let ended = compact::run(engine, job, true, &|| engine.health.is_closed());
    engine.full_disk.tend();
    match ended {
        Ok(ended) => {
            engine.full_disk.note_job(false);
            Ok(ended)
        }
        // The database was latched or closed, which the caller checks before each job; or the
        // keyspace was dropped.
        Err(Stopped::Cancelled) => Ok(Ended::Done),
        Err(Stopped::Failed(error)) => {
            let error = Error::from(error);
            if !error.kind().is_for_want() {
                engine.latch(&error);
            }
            Err(error)
        }
    }
}

/// Waits for running calls, makes all writes durable, ends all work, and unlocks the directory:
/// nothing is written to it after that. If several threads close at once, one of them does it, and
/// the others wait and get its result.
pub(crate) fn close(engine: &Engine) -> Result<()> {
    let wake = || engine.work.wake_all();
    engine.health.close(wake, || end(engine))
}

/// Closes the parts of a database. No call is running, and none can come.
fn end(engine: &Engine) -> Result<()> {
    let outcome = match engine.options.read_only {
        true => Ok(()),
        false => last_writes(engine),
    };
    engine.work.stop();
    engine.work.join_threads();
    reclaim::collect();
    remove_unneeded(engine);
    engine.making.place.give_up();
    engine.claim.give_up();
    outcome
}

/// Removes the remaining files that no edit names any more, though iterators and other databases of
/// the process may still hold them. A file that cannot be removed is left to the next opening. All
/// files are left to it if it is not known what the disk holds.
fn remove_unneeded(engine: &Engine) {
    let trusted = engine.health.check_latched().is_ok() && engine.check_claim().is_ok();
    if let (true, Kept::Written(manifest)) = (trusted, &*engine.manifest.lock()) {
        let _ = manifest.remove_unneeded();
    }
}

fn last_writes(engine: &Engine) -> Result<()> {
    let newest = {
        let mut writer = engine.writes.writer.lock();
        engine.health.check_latched()?;
        if engine.options.durability > Durability::Relaxed {
            return writer.sync(engine);
        }
        generation::end(engine, &mut writer)?
    };
    wait_for(engine, newest)
}
