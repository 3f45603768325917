//! [`WritePath`]: what the write path keeps from call to call. What is done with it is in [`crate::write`].
//!
//! Two locks: the queue's, which a call has for a moment, and the writer's, which the leader of a group has while it writes.

use crate::error::Error;
use crate::keyspace::KeyspaceState;
use crate::log::record::GroupBody;
use crate::log::writer::LogWriter;
use crate::memory::MemoryTable;
use crate::types::{FileNumber, KeyspaceId};
use evendb_base::sync::{Arc, Condvar, Mutex};
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
    pub(crate) sync: bool,
}

impl Group {
    pub(crate) fn new(body: GroupBody) -> Group {
        Group {
            body,
            keyspaces: Vec::new(),
            members: 0,
            user_bytes: 0,
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
                failed: BTreeMap::new(),
                spare: None,
            }),
            turns: [Condvar::new(), Condvar::new()],
            writer: Mutex::new(writer),
        }
    }

    pub(crate) fn turn(&self, number: u64) -> &Condvar {
        &self.turns[(number % 2) as usize]
    }
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
    /// The database is being closed: nothing is written any more.
    pub(crate) is_closed: bool,
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
            is_closed: false,
        }
    }
}
