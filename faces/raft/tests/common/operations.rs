//! What clients do to single keys, and the record of it: the same for nodes in one process and for
//! processes.
//!
//! A value begins with its version, and no two writes have the same one. [`Recorder`] gives
//! versions and moments, and keeps the history for [`super::linearizable::check`].

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]

use super::linearizable::{Kind, NEVER, Op};
use super::put;
use evendb_raft::machine::{Answer, Command, Compare, Condition};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The keyspace in which the keys are, and how long a value is.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub keyspace: &'static str,
    /// At least four: the version.
    pub value_bytes: usize,
}

impl Keys {
    pub fn name(self, key: u64) -> Vec<u8> {
        format!("key {key}").into_bytes()
    }

    pub fn value(self, version: u32) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        value.resize(self.value_bytes, version as u8);
        value
    }

    /// The version of a value that was found; 0 for none.
    pub fn version(self, value: Option<&[u8]>) -> u32 {
        let Some(value) = value else { return 0 };
        let version = u32::from_le_bytes(value[..4].try_into().expect("four bytes"));
        assert_eq!(value, self.value(version), "a value that nobody wrote");
        version
    }

    pub fn write(self, key: u64, version: u32) -> Command {
        let (name, value) = (self.name(key), self.value(version));
        Command::Batch(vec![put(self.keyspace, &name, &value)])
    }

    /// Writes if the key still has the version that was seen; the answer has its value.
    pub fn swap(self, key: u64, seen: u32, version: u32) -> Command {
        let compare = match seen {
            0 => Compare::Absent,
            seen => Compare::Equals(self.value(seen)),
        };
        let (keyspace, key) = (self.keyspace.to_owned(), self.name(key));
        let then = vec![put(self.keyspace, &key, &self.value(version))];
        let reads = vec![(keyspace.clone(), key.clone())];
        let conditions = vec![Condition {
            keyspace,
            key,
            compare,
        }];
        Command::Transaction {
            conditions,
            then,
            otherwise: Vec::new(),
            reads,
        }
    }

    /// What a write or swap turned out to be: a swap whose condition does not hold is a read.
    pub fn outcome(self, answer: &Answer, asked: Kind) -> Kind {
        match answer {
            Answer::Done { held: true, .. } => asked,
            Answer::Done { values, .. } => {
                let found = self.version(values[0].as_deref());
                if let Kind::Swap(seen, _) = asked {
                    assert_ne!(found, seen, "it was as it had to be");
                }
                Kind::Read(found)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The operations of all clients, as they happen.
#[derive(Debug, Default)]
pub struct Recorder {
    moments: AtomicU64,
    versions: AtomicU64,
    history: Mutex<Vec<Op>>,
}

impl Recorder {
    /// A moment after all moments before.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// A version that no other write has.
    pub fn version(&self) -> u32 {
        let before = self.versions.fetch_add(1, Ordering::Relaxed);
        u32::try_from(before + 1).expect("fewer than four billion writes")
    }

    fn history(&self) -> MutexGuard<'_, Vec<Op>> {
        self.history.lock().expect("no panic")
    }

    /// Records an operation that was answered, at this moment.
    pub fn answered(&self, key: u64, begin: u64, kind: Kind) {
        let end = self.moment();
        self.push(key, begin, end, kind);
    }

    /// Records a write whose answer did not come: it may happen at any later time, or never.
    pub fn unanswered(&self, key: u64, begin: u64, kind: Kind) {
        self.push(key, begin, NEVER, kind);
    }

    fn push(&self, key: u64, begin: u64, end: u64, kind: Kind) {
        let key = u32::try_from(key).expect("a few keys");
        self.history().push(Op {
            key,
            begin,
            end,
            kind,
        });
    }

    /// The number of operations that were answered so far.
    pub fn answers(&self) -> usize {
        self.history().iter().filter(|op| op.end != NEVER).count()
    }

    /// The history so far.
    pub fn take(&self) -> Vec<Op> {
        std::mem::take(&mut *self.history())
    }
}
