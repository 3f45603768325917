//! A bounded number of threads that do the background work of many databases, turn by turn.
//!
//! ```text
//!   add, hasten --> due now  --+
//!                   due later -+--> a thread runs one turn --> Again at a time, Asleep, Ended
//!                   asleep           '- hastened meanwhile: due at once
//! ```
//! A **task** is the work of one role for one database: upkeep, a worker, the reaper. A turn is
//! short, or one job: after it the task says when its next turn is due, and others come first. So a
//! database that rests takes no thread, and a thousand that work take as many as a few.
//!
//! **Who comes first.** Tasks that were due first, but tasks of jobs take at most all threads but
//! one: checkpoints, for which puts may wait, never stand behind jobs of minutes.
//!
//! **Threads** are started for tasks that are due while all others are busy, up to the bound, and
//! end when nothing was due for [`LINGER`]. The last one stays as long as there is any task: so a
//! task that is hastened has a thread even if the system starts none any more.
//!
//! **Many tasks** take turns more rarely: with each [`CROWD`] tasks that do not sleep, the time
//! between two looks of a task is as long again. Otherwise the looks of a thousand databases would
//! take a processor. Hastened tasks, jobs, and turns that are due later than a look, as those of
//! checkpoints, do not wait for that.
//!
//! **The end of a database.** [`Crew::end`] runs the tasks of the owner in the calling thread: they
//! see that they must end. It waits for those that other threads run. So closing waits for no other
//! database, even if a thread of the crew closes.
//!
//! Invariants: a turn of a task is run by one thread at a time. No turn waits for another task's
//! turn. A task that is hastened has a turn that begins after that: while it runs it is noted, and
//! otherwise it becomes due, both under the lock under which a turn's end is noted.
//!
//! Thread safety: any thread. The lock is a leaf and is not held during a turn. Not here: what a
//! turn does (`worker/staff.rs`).

use crate::sync::{Arc, Condvar, Mutex, start_thread};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// How long a thread stays for which nothing is due.
const LINGER: Duration = match cfg!(any(evendb_loom, evendb_shuttle)) {
    // A model has no time.
    true => Duration::ZERO,
    false => Duration::from_secs(1),
};

/// The number of tasks that take turns as often as each would alone.
const CROWD: usize = 64;

/// The longest time between two looks of a task that works.
const LOOK: Duration = Duration::from_millis(50);

/// What follows a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Another turn at this time.
    Again(Instant),
    /// No turn until the task is hastened.
    Asleep,
    /// The task is done.
    Ended,
}

/// One turn of a task.
pub(crate) type Turn = Box<dyn FnMut() -> Next + Send>;

/// The name of a task: its owner, its role, and a number among tasks of the same role.
pub(crate) type TaskId = (u64, u8, u64);

/// See the module.
pub(super) struct Crew {
    threads_max: usize,
    state: Mutex<State>,
    /// Signals a task that is due, or earlier than the others.
    work: Condvar,
    /// Signals the end of a turn for which a closing database waits.
    turned: Condvar,
    /// A fault that the models must notice: a task that is hastened while it runs is forgotten.
    #[cfg(test)]
    forgets: bool,
}

struct Task {
    /// `None` while a thread runs it.
    turn: Option<Turn>,
    is_job: bool,
    /// Its place among the tasks that are due now or later.
    due: Option<(Instant, u64)>,
    hastened: bool,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<TaskId, Task>,
    /// Tasks that are no jobs, and jobs: by the time at which they are due, and in order.
    others: BTreeMap<(Instant, u64), TaskId>,
    jobs: BTreeMap<(Instant, u64), TaskId>,
    next: u64,
    threads: usize,
    waiting: usize,
    /// The number of threads that run jobs.
    at_jobs: usize,
    /// The number of databases that wait for turns.
    ending: usize,
}

impl State {
    fn queue(&mut self, is_job: bool) -> &mut BTreeMap<(Instant, u64), TaskId> {
        match is_job {
            true => &mut self.jobs,
            false => &mut self.others,
        }
    }

    /// Makes the task due at this time.
    fn set_due(&mut self, id: TaskId, at: Instant) {
        self.unset_due(id);
        let place = (at, self.next);
        self.next += 1;
        if let Some(task) = self.tasks.get_mut(&id) {
            task.due = Some(place);
            let is_job = task.is_job;
            self.queue(is_job).insert(place, id);
        }
    }

    fn unset_due(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.get_mut(&id)
            && let Some(place) = task.due.take()
        {
            let is_job = task.is_job;
            self.queue(is_job).remove(&place);
        }
    }

    /// The task that is due first: its time, and whether a thread may take it.
    fn first(&self, at_jobs_max: usize) -> Option<(Instant, TaskId)> {
        let first = |queue: &BTreeMap<(Instant, u64), TaskId>| {
            queue.first_key_value().map(|(&place, &id)| (place, id))
        };
        let job = match self.at_jobs < at_jobs_max {
            true => first(&self.jobs),
            false => None,
        };
        let other = first(&self.others);
        let next = [other, job].into_iter().flatten().min_by_key(|next| next.0);
        next.map(|((at, _), id)| (at, id))
    }

    /// Takes the task's turn, if no thread runs it.
    fn take(&mut self, id: TaskId) -> Option<Turn> {
        self.unset_due(id);
        let task = self.tasks.get_mut(&id)?;
        task.hastened = false;
        let turn = task.turn.take()?;
        self.at_jobs += usize::from(task.is_job);
        Some(turn)
    }

    /// Notes the end of a turn, which [`run`] made.
    fn put_back(&mut self, id: TaskId, (turn, next): (Option<Turn>, Next)) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        self.at_jobs -= usize::from(task.is_job);
        let others = if task.is_job { 0 } else { self.others.len() };
        let hastened = std::mem::take(&mut task.hastened);
        let at = match next {
            Next::Ended => {
                self.tasks.remove(&id);
                return;
            }
            Next::Again(_) | Next::Asleep if hastened => Some(Instant::now()),
            Next::Again(at) => {
                let now = Instant::now();
                Some(now + rest(at.saturating_duration_since(now), others))
            }
            Next::Asleep => None,
        };
        task.turn = turn;
        if let Some(at) = at {
            self.set_due(id, at);
        }
    }
}

/// Runs a turn without the lock. A task that has ended is dropped here, before that is noted: so
/// when [`Crew::end`] returns, no thread of the crew has a reference to the database.
fn run(mut turn: Turn) -> (Option<Turn>, Next) {
    let next = turn();
    ((next != Next::Ended).then_some(turn), next)
}

/// How long a task rests that asks for `asked`, while this number of other tasks is due now or
/// later. Rests that are longer than a look's are promises, as the time of a checkpoint: they
/// stay.
fn rest(asked: Duration, others: usize) -> Duration {
    match asked <= LOOK {
        true => asked * (1 + others / CROWD) as u32,
        false => asked,
    }
}

impl Crew {
    pub(super) fn new(threads_max: usize) -> Crew {
        Crew {
            threads_max,
            state: Mutex::default(),
            work: Condvar::default(),
            turned: Condvar::default(),
            #[cfg(test)]
            forgets: false,
        }
    }

    #[cfg(all(test, evendb_loom))]
    pub(super) fn forgetting(mut self) -> Crew {
        self.forgets = true;
        self
    }

    fn is_forgetful(&self) -> bool {
        #[cfg(test)]
        if self.forgets {
            return true;
        }
        false
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// Adds a task of this owner and role, which is due now. `is_job` says that its turns may take
    /// long.
    pub(super) fn add(
        self: &Arc<Self>,
        (owner, role): (u64, u8),
        is_job: bool,
        turn: Turn,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        let id = (owner, role, state.next);
        let task = Task {
            turn: Some(turn),
            is_job,
            due: None,
            hastened: false,
        };
        state.tasks.insert(id, task);
        state.set_due(id, Instant::now());
        let called = self.call(&mut state);
        if called.is_err() && state.threads == 0 {
            state.unset_due(id);
            let task = state.tasks.remove(&id);
            drop(state);
            drop(task);
            return called;
        }
        Ok(())
    }

    /// Makes the tasks of an owner due at once: all of them, or those of a role.
    pub(super) fn hasten(self: &Arc<Self>, owner: u64, role: Option<u8>) {
        let mut state = self.state.lock();
        let from = (owner, role.unwrap_or(0), 0);
        let to = (owner, role.unwrap_or(u8::MAX), u64::MAX);
        let ids: Vec<TaskId> = state.tasks.range(from..=to).map(|(&id, _)| id).collect();
        let now = Instant::now();
        for id in ids {
            let Some(task) = state.tasks.get_mut(&id) else {
                continue;
            };
            if task.turn.is_none() {
                task.hastened = !self.is_forgetful();
            } else if task.due.is_none_or(|(at, _)| at > now) {
                state.set_due(id, now);
            }
        }
        // Without a thread the next call tries again.
        let _ = self.call(&mut state);
    }

    /// Ends the owner's tasks, which have been told to end.
    pub(super) fn end(&self, owner: u64) {
        let mut state = self.state.lock();
        state.ending += 1;
        loop {
            let range = (owner, 0, 0)..=(owner, u8::MAX, u64::MAX);
            let mut own = state.tasks.range(range);
            let idle = own.clone().find(|(_, task)| task.turn.is_some());
            if let Some((&id, _)) = idle {
                let Some(turn) = state.take(id) else {
                    continue;
                };
                drop(state);
                let ran = run(turn);
                state = self.state.lock();
                state.put_back(id, ran);
            } else if own.next().is_some() {
                self.turned.wait(&mut state);
            } else {
                break;
            }
        }
        state.ending -= 1;
        if state.tasks.is_empty() {
            // The last thread may go.
            self.work.notify_all();
        }
    }

    /// The number of threads that may run jobs at the same time.
    fn at_jobs_max(&self) -> usize {
        (self.threads_max - 1).max(1)
    }

    /// Makes sure that a thread sees the task that is due first.
    fn call(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.waiting > 0 {
            self.work.notify_one();
            return Ok(());
        }
        if state.threads >= self.threads_max || state.first(self.at_jobs_max()).is_none() {
            return Ok(());
        }
        let crew = self.clone();
        start_thread("evendb-crew", move || crew.run())?;
        state.threads += 1;
        Ok(())
    }

    /// What a thread does from beginning to end.
    fn run(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let mut idle_since = Instant::now();
        loop {
            let now = Instant::now();
            let first = state.first(self.at_jobs_max());
            if let Some((at, id)) = first
                && at <= now
            {
                if let Some(turn) = state.take(id) {
                    state = self.run_turn(state, id, turn);
                    idle_since = Instant::now();
                }
                continue;
            }
            // One thread waits for what comes; the others go after a while.
            let lingers = LINGER.saturating_sub(now.saturating_duration_since(idle_since));
            let stays = state.waiting == 0 && !state.tasks.is_empty();
            if lingers.is_zero() && !stays {
                break;
            }
            let until_due = first.map(|(at, _)| at.saturating_duration_since(now));
            state.waiting += 1;
            match (stays, until_due) {
                (true, Some(due)) => drop(self.work.wait_for(&mut state, due)),
                (true, None) => self.work.wait(&mut state),
                (false, due) => {
                    let wait = due.unwrap_or(lingers).min(lingers);
                    self.work.wait_for(&mut state, wait);
                }
            }
            state.waiting -= 1;
        }
        state.threads -= 1;
        // Its last turn may have made a task due earlier than the one that stays knows.
        if state.waiting > 0 {
            self.work.notify_one();
        }
    }

    /// Runs a turn without the lock.
    fn run_turn<'s>(
        self: &'s Arc<Self>,
        mut state: crate::sync::MutexGuard<'s, State>,
        id: TaskId,
        turn: Turn,
    ) -> crate::sync::MutexGuard<'s, State> {
        // Others may be due as well: the thread that goes to work leaves nobody asleep.
        let _ = self.call(&mut state);
        drop(state);
        let ran = run(turn);
        let mut state = self.state.lock();
        state.put_back(id, ran);
        if state.ending > 0 {
            self.turned.notify_all();
        }
        state
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A task that says that its turn begins, waits for a word, and ends.
    fn waiting_task() -> (Turn, Receiver<()>, Sender<()>) {
        let ((begun, begins), (go, goes)) = (channel(), channel());
        let turn = move || {
            begun.send(()).unwrap();
            goes.recv().unwrap();
            Next::Ended
        };
        (Box::new(turn), begins, go)
    }

    #[test]
    fn jobs_leave_a_thread_for_others() {
        let crew = Arc::new(Crew::new(2));
        let (job, begins, go) = waiting_task();
        crew.add((1, 1), true, job).unwrap();
        begins.recv().unwrap();
        let (second, second_begins, second_go) = waiting_task();
        crew.add((1, 1), true, second).unwrap();
        let (other, other_begins, other_go) = waiting_task();
        crew.add((2, 0), false, other).unwrap();
        other_begins.recv().unwrap();
        assert!(second_begins.try_recv().is_err(), "two jobs at once");
        assert_eq!(crew.threads(), 2);
        other_go.send(()).unwrap();
        go.send(()).unwrap();
        second_begins.recv().unwrap();
        second_go.send(()).unwrap();
        crew.end(1);
        crew.end(2);
        assert!(crew.state.lock().tasks.is_empty());
    }

    /// Although another owner's turn has the only thread.
    #[test]
    fn an_end_runs_the_last_turns_itself() {
        let crew = Arc::new(Crew::new(1));
        let (busy, begins, go) = waiting_task();
        crew.add((1, 0), false, busy).unwrap();
        begins.recv().unwrap();
        let (turn, ran, word) = waiting_task();
        word.send(()).unwrap();
        crew.add((2, 0), false, turn).unwrap();
        crew.end(2);
        ran.recv().unwrap();
        assert_eq!(crew.state.lock().tasks.len(), 1);
        go.send(()).unwrap();
        crew.end(1);
    }

    /// Otherwise a directory could still be locked after its database was closed.
    #[test]
    fn an_end_waits_until_the_tasks_are_dropped() {
        let crew = Arc::new(Crew::new(2));
        for _ in 0..100 {
            let database = Arc::new(());
            let held = database.clone();
            let turn = move || {
                let _engine = &held;
                Next::Ended
            };
            crew.add((1, 0), false, Box::new(turn)).unwrap();
            crew.end(1);
            assert_eq!(Arc::strong_count(&database), 1);
        }
    }

    /// A checkpoint every five seconds stays one of five seconds.
    #[test]
    fn many_tasks_look_more_rarely_and_later_turns_stay() {
        assert_eq!(rest(LOOK, 10), LOOK);
        assert_eq!(rest(LOOK, 10 * CROWD), LOOK * 11);
        let checkpoint = Duration::from_secs(5);
        assert_eq!(rest(checkpoint, 10 * CROWD), checkpoint);
    }
}
