//! [`WritePath`]: the state that the write path keeps from call to call. [`crate::write`] works on
//! it.
//!
//! It has two locks. A call holds the queue's lock for a moment. The leader of a group holds the
//! writer's lock while it writes.

use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::log::record::GroupBody;
use crate::log::writer::LogWriter;
use crate::memory::MemoryTable;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::sync::{Arc, Condvar, Mutex, MutexGuard};
use evendb_storage::Version;
use std::collections::{BTreeMap, HashMap};

/// The groups of writes, numbered from 1.
#[derive(Debug)]
pub(crate) struct WritePath {
    pub(crate) queue: Mutex<Queue>,
    /// A call that waits for group `n` waits at `n % 2`. So the end of a group wakes no call of the
    /// next group except the one that leads it.
    pub(crate) turns: [Condvar; 2],
    pub(crate) writer: Mutex<Writer>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Whether a thread is writing a group.
    pub(crate) is_led: bool,
    pub(crate) open: Group,
    /// Number of the open group.
    pub(crate) number: u64,
    /// Groups up to this one are finished.
    pub(crate) finished: u64,
    /// The number of calls that wait at each of the [`WritePath::turns`]. If none waits, the system
    /// call that wakes is saved.
    pub(crate) waiting: [usize; 2],
    /// For each failed group: the error, and the number of calls that have not got it yet.
    pub(crate) failed: BTreeMap<u64, (Error, usize)>,
    /// The memory of the last group, for reuse.
    pub(crate) spare: Option<GroupBody>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) body: GroupBody,
    /// Keyspaces of its records, each once.
    pub(crate) keyspaces: Vec<Arc<KeyspaceState>>,
    /// The number of its calls.
    pub(crate) members: usize,
    /// Bytes of its keys and values.
    pub(crate) user_bytes: u64,
    pub(crate) has_puts: bool,
    pub(crate) sync: bool,
}

impl Group {
    pub(crate) fn new(body: GroupBody) -> Group {
        Group {
            body,
            keyspaces: Vec::new(),
            members: 0,
            user_bytes: 0,
            has_puts: false,
            sync: false,
        }
    }
}

impl WritePath {
    pub(crate) fn new(writer: Writer) -> WritePath {
        WritePath {
            queue: Mutex::new(Queue {
                is_led: false,
                open: Group::new(GroupBody::new()),
                number: 1,
                finished: 0,
                waiting: [0; 2],
                failed: BTreeMap::new(),
                spare: None,
            }),
            turns: [Condvar::new(), Condvar::new()],
            writer: Mutex::new(writer),
        }
    }

    /// Waits until the calls of group `number` are woken.
    pub(crate) fn wait_for_turn(&self, number: u64, queue: &mut MutexGuard<'_, Queue>) {
        let turn = turn_of(number);
        queue.waiting[turn] += 1;
        self.turns[turn].wait(queue);
        queue.waiting[turn] -= 1;
    }

    /// Wakes the calls that wait for group `number`, which is finished, and one call of the next
    /// group, which may lead it. The queue is locked. So a call that is about to wait has looked at
    /// the queue before and is counted, or it looks at the queue afterwards.
    pub(crate) fn tell_finished(&self, number: u64, queue: &Queue) {
        let (own, next) = (turn_of(number), turn_of(number + 1));
        if queue.waiting[own] > 0 {
            self.turns[own].notify_all();
        }
        if queue.waiting[next] > 0 {
            self.turns[next].notify_one();
        }
    }
}

fn turn_of(number: u64) -> usize {
    (number % 2) as usize
}

/// The state that the leader of a group works with.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` at the relaxed level.
    pub(crate) log: Option<LogWriter>,
    /// Number of the generation.
    pub(crate) generation: FileNumber,
    pub(crate) memories: HashMap<KeyspaceId, (Arc<KeyspaceState>, Arc<MemoryTable>)>,
    /// Bytes of its memory tables.
    pub(crate) bytes: u64,
    /// The version of the last record.
    pub(crate) last: Version,
}

impl Writer {
    /// A writer with an empty generation, after the record of version `last`.
    pub(crate) fn new(generation: FileNumber, log: Option<LogWriter>, last: Version) -> Writer {
        Writer {
            log,
            generation,
            memories: HashMap::new(),
            bytes: 0,
            last,
        }
    }
}
