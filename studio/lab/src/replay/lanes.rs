//! The queues from the one thread that reads a trace to the workers, the lanes of work, and where
//! lanes wait for each other.
//!
//! Tasks travel in chunks. A full queue holds the reader up. Meanwhile the tasks that were gathered
//! for the other lanes go on, even if they make less than a chunk: a lane may be waiting for
//! another lane whose part of a [`Join`] is still here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::work::{Ask, Part, Work};
use crate::random::mix64;

const CHUNK: usize = 32;
const CHUNKS: usize = 16;

/// The work for a worker.
pub(super) enum Task {
    /// One lane's work.
    Alone(Work),
    /// Work of several lanes: the last lane that arrives does it.
    Together(Arc<Join>),
}

/// Work for which several lanes come together.
pub(super) struct Join {
    pub(super) work: Work,
    missing: AtomicUsize,
    done: Mutex<bool>,
    changed: Condvar,
}

/// A worker's queue.
pub(super) type Queue = Receiver<Vec<Task>>;

/// The reader's end.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
}

struct Lane {
    /// `None` once its worker has ended.
    to: Option<SyncSender<Vec<Task>>>,
    gathered: Vec<Task>,
}

impl Join {
    /// Whether the caller is the last lane. It must then do the work and [`finish`](Self::finish).
    pub(super) fn arrive(&self) -> bool {
        // Acquire and release: the last one sees what all others did before.
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(super) fn finish(&self) {
        *self.done.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for the work, or until `is_stopped`, because a lane may have ended.
    pub(super) fn wait(&self, is_stopped: &dyn Fn() -> bool) {
        let mut done = self.done.lock();
        while !*done && !is_stopped() {
            self.changed.wait_for(&mut done, Duration::from_millis(50));
        }
    }
}

impl Lanes {
    pub(super) fn new(count: usize) -> (Lanes, Vec<Queue>) {
        let channels = (0..count).map(|_| sync_channel(CHUNKS));
        let (to, queues): (Vec<_>, Vec<_>) = channels.unzip();
        let lane = |to| Lane {
            to: Some(to),
            gathered: Vec::with_capacity(CHUNK),
        };
        let lanes = to.into_iter().map(lane).collect();
        (Lanes { lanes }, queues)
    }

    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn add(&mut self, lane: usize, work: Work) {
        self.lanes[lane].gathered.push(Task::Alone(work));
    }

    /// Work of several lanes, which are sorted and differ.
    pub(super) fn add_together(&mut self, lanes: &[usize], work: Work) {
        let [lane] = lanes else {
            let join = Arc::new(Join {
                work,
                missing: AtomicUsize::new(lanes.len()),
                done: Mutex::new(false),
                changed: Condvar::new(),
            });
            for &lane in lanes {
                let task = Task::Together(join.clone());
                self.lanes[lane].gathered.push(task);
            }
            return;
        };
        self.add(*lane, work);
    }

    /// Passes on full chunks, or waits until it can. False if that was stopped.
    pub(super) fn pass_on(&mut self, is_stopped: &dyn Fn() -> bool) -> bool {
        let is_due = |lane: &Lane| lane.gathered.len() >= CHUNK;
        if !self.lanes.iter().any(is_due) {
            return true;
        }
        for lane in &mut self.lanes {
            if is_due(lane) {
                lane.pass_on();
            }
        }
        while self.lanes.iter().any(is_due) {
            if is_stopped() {
                return false;
            }
            // All of them: see the module.
            self.lanes.iter_mut().for_each(Lane::pass_on);
            thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Passes everything on, and ends the queues.
    pub(super) fn finish(mut self) {
        while self.lanes.iter().any(|lane| !lane.gathered.is_empty()) {
            self.lanes.iter_mut().for_each(Lane::pass_on);
            thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Lane {
    /// Passes on what was gathered, if the queue has room. Tasks for a worker that has ended are
    /// dropped.
    fn pass_on(&mut self) {
        let Some(to) = &self.to else {
            self.gathered.clear();
            return;
        };
        if self.gathered.is_empty() {
            return;
        }
        match to.try_send(std::mem::take(&mut self.gathered)) {
            Ok(()) => self.gathered.reserve(CHUNK),
            Err(TrySendError::Full(back)) => self.gathered = back,
            Err(TrySendError::Disconnected(_)) => self.to = None,
        }
    }
}

/// The lane of a key.
fn lane_of(key: &[u8], lanes: usize) -> usize {
    (mix64(evendb_trace::value_hash(key)) % lanes as u64) as usize
}

/// Gives work to its lane, or to all lanes that it concerns.
pub(super) fn to_lanes(work: Work, lanes: &mut Lanes) {
    let count = lanes.count();
    let key = match &work.ask {
        Ask::Get(key)
        | Ask::Put(key, ..)
        | Ask::Delete(key)
        | Ask::Expire(key)
        | Ask::Merge(key, _) => Some(&key[..]),
        Ask::Scan { range, .. } => Some(&range.low[..]),
        Ask::DeleteRange(..) | Ask::Pop(..) | Ask::Parts(_) => None,
    };
    if let Some(key) = key {
        return lanes.add(lane_of(key, count), work);
    }
    let keys: Option<Vec<_>> = match &work.ask {
        Ask::Parts(parts) => parts.iter().map(Part::key).collect(),
        _ => None,
    };
    let mut of: Vec<_> = match keys {
        Some(keys) => keys.iter().map(|key| lane_of(key, count)).collect(),
        // Any key may be in a range.
        None => (0..count).collect(),
    };
    of.sort_unstable();
    of.dedup();
    lanes.add_together(&of, work);
}
