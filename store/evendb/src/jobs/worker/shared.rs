//! The work of each role as turns, for the threads that the databases of a shared budget have
//! together ([`crate::memory::shared`]).
//!
//! Where a thread of one database waits (`staff.rs`, `upkeep.rs`), a turn ends and says when the
//! next one is due. Nothing lingers: a task that has nothing to do ends, and the next call adds it
//! anew, which costs little. So a database that rests has one task, upkeep's, which is asleep.
//!
//! Invariants: as in `staff.rs`. A turn waits for nothing that another turn does. A panic in a turn
//! latches the database, and ends the task.
//!
//! Not here: the threads that serve futures (`serving.rs`). A database has them for itself while it
//! has futures that wait.

use super::staff::{helper_left, helper_turn, is_enough, note_panic};
use super::upkeep;
use crate::engine::Engine;
use crate::engine::staff::ThreadRole;
use crate::engine::work::{TICK, Work};
use crate::memory::shared::{Next, Turn};
use crate::sync::Arc;
use crate::worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A turn of a role, again and again.
type RoleTurn = Box<dyn FnMut(&Engine) -> Next + Send>;

/// The turns of a role for this database; `None` for a role that has threads of its own.
pub(super) fn turns_of(role: ThreadRole, engine: &Arc<Engine>) -> Option<Turn> {
    let mut turn = role_turn(role)?;
    let engine = engine.clone();
    Some(Box::new(move || {
        let _own = engine.core.health.mark();
        let next = catch_unwind(AssertUnwindSafe(|| turn(&engine)));
        next.unwrap_or_else(|_| {
            note_panic(role, &engine);
            Next::Ended
        })
    }))
}

fn role_turn(role: ThreadRole) -> Option<RoleTurn> {
    Some(match role {
        ThreadRole::Upkeep => Box::new(upkeep::turns()),
        ThreadRole::Worker => Box::new(do_a_job),
        ThreadRole::Reaper | ThreadRole::Log | ThreadRole::Stats | ThreadRole::Heat => {
            let mut turn = helper_turn(role);
            Box::new(move |engine| {
                let Some((rest, busy)) = turn(engine) else {
                    engine.work.left(role);
                    return Next::Ended;
                };
                let next = next(&engine.work, role, rest, busy);
                if next == Next::Ended {
                    helper_left(role, engine);
                }
                next
            })
        }
        // They run code of the application, which may take any time.
        ThreadRole::Reader | ThreadRole::Writer | ThreadRole::Syncer => return None,
    })
}

/// One job, if there is one and not enough workers work.
fn do_a_job(engine: &Engine) -> Next {
    let work = &engine.work;
    let job = {
        let mut queue = work.queue.lock();
        if !queue.stop && !queue.is_empty() && is_enough(engine, &queue) {
            return Next::Again(Instant::now() + TICK);
        }
        let job = match queue.stop {
            true => None,
            false => work.take(&mut queue),
        };
        match job {
            Some(job) => job,
            None => {
                queue.present[ThreadRole::Worker as usize] -= 1;
                return Next::Ended;
            }
        }
    };
    work.turn_begins();
    worker::do_job(engine, &job);
    Next::Again(Instant::now())
}

/// What follows a helper's turn: the next one `rest` from now, or the end if it has nothing to do
/// while upkeep rests.
fn next(work: &Work, role: ThreadRole, rest: Duration, has_work: bool) -> Next {
    let mut queue = work.queue.lock();
    let called = std::mem::take(&mut queue.called[role as usize]);
    if queue.stop || (!has_work && !called && work.is_resting()) {
        queue.present[role as usize] -= 1;
        return Next::Ended;
    }
    work.turn_begins();
    Next::Again(Instant::now() + rest)
}
