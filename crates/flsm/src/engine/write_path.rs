//! [`WritePath`]: what the write path keeps from call to call. What is done with it is in [`crate::write`].
//!
//! Two locks: the queue's, which a call has for a moment, and the writer's, which the leader of a group has while it writes.

use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::log::record::GroupBody;
use crate::log::writer::LogWriter;
use crate::memory::MemoryTable;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::sync::{Arc, Condvar, Mutex, MutexGuard};
use evendb_storage::Version;
use std::collections::{BTreeMap, HashMap};

/// Groups, numbered from 1.
#[derive(Debug)]
pub(crate) struct WritePath {
    pub(crate) queue: Mutex<Queue>,
    /// Who waits for group `n` waits at `n % 2`, so that the end of a group wakes those of the next one alone that leads.
    pub(crate) turns: [Condvar; 2],
    pub(crate) writer: Mutex<Writer>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Whether somebody is writing a group.
    pub(crate) is_led: bool,
    pub(crate) open: Group,
    /// Number of the open group.
    pub(crate) number: u64,
    /// Groups up to this one are finished.
    pub(crate) finished: u64,
    /// How many wait at each of the [`WritePath::turns`]: where nobody does, nobody is woken, which is a system call.
    pub(crate) waiting: [usize; 2],
    /// Of groups that failed: why, and how many have not heard of it.
    pub(crate) failed: BTreeMap<u64, (Error, usize)>,
    /// The memory of the last group.
    pub(crate) spare: Option<GroupBody>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) body: GroupBody,
    /// Keyspaces of the records, each once.
    pub(crate) keyspaces: Vec<Arc<KeyspaceState>>,
    /// Calls.
    pub(crate) members: usize,
    /// Keys and values.
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

    /// Waits for what is told to those of a group.
    pub(crate) fn wait_for_turn(&self, number: u64, queue: &mut MutexGuard<'_, Queue>) {
        let turn = turn_of(number);
        queue.waiting[turn] += 1;
        self.turns[turn].wait(queue);
        queue.waiting[turn] -= 1;
    }

    /// Tells those who wait for a group that it is finished, and one of the next group that it may lead. The queue is locked, so that
    /// whoever is about to wait has looked at it before, and is counted, or looks at it afterwards.
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

/// What the leader of a group works with.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` at the relaxed level.
    pub(crate) log: Option<LogWriter>,
    /// Number of the generation.
    pub(crate) generation: FileNumber,
    pub(crate) memories: HashMap<KeyspaceId, (Arc<KeyspaceState>, Arc<MemoryTable>)>,
    /// Of its memory tables.
    pub(crate) bytes: u64,
    /// Of the last record.
    pub(crate) last: Version,
}

impl Writer {
    /// With an empty generation, behind the record of version `last`.
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
