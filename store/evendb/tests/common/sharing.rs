//! What must hold for each key alone in a history in which any thread writes any key: a read sees a
//! version whose write had begun when the read ended, and that had not surely been overwritten when
//! the read began.
//!
//! This is necessary, and not enough: it says nothing about several keys together, nor about the
//! order in which two reads see two writes. `scripts/check-linearizability` judges such histories
//! in full.

use super::linearizable::{ABSENT, Op};
use std::collections::HashMap;

/// A write of one key.
struct Write {
    version: u32,
    is_deletion: bool,
    begin: u32,
    end: u32,
}

/// A write among those of its key, which are in the order of their ends.
struct Placed {
    write: Write,
    /// The latest beginning up to this write, and the earliest from it on.
    latest: u32,
    earliest: u32,
}

#[derive(Default)]
struct Writes(Vec<Placed>);

impl Writes {
    fn new(mut writes: Vec<Write>) -> Writes {
        writes.sort_unstable_by_key(|write| write.end);
        let mut latest = 0;
        let placed = writes.into_iter().map(|write| {
            latest = latest.max(write.begin);
            let earliest = write.begin;
            Placed {
                write,
                latest,
                earliest,
            }
        });
        let mut placed: Vec<Placed> = placed.collect();
        let mut earliest = u32::MAX;
        for place in placed.iter_mut().rev() {
            earliest = earliest.min(place.earliest);
            place.earliest = earliest;
        }
        Writes(placed)
    }

    fn explains(&self, seen: u32, read: &Op) -> bool {
        let ended = (self.0).partition_point(|place| place.write.end < read.begin);
        if seen == ABSENT && ended == 0 {
            return true; // Possibly no operation has written it yet.
        }
        // The writes that ended before this moment were overwritten before the read began.
        let overwriting = match ended {
            0 => 0,
            ended => self.0[ended - 1].latest,
        };
        let first = (self.0).partition_point(|place| place.write.end < overwriting);
        self.0[first..]
            .iter()
            .take_while(|place| place.earliest < read.end)
            .map(|place| &place.write)
            .filter(|write| write.begin < read.end)
            .any(|write| match seen {
                ABSENT => write.is_deletion,
                seen => write.version == seen && !write.is_deletion,
            })
    }
}

fn has_two_versions_of_a_key(op: &Op) -> bool {
    let mut reads = op.reads.clone();
    reads.sort_unstable();
    reads.dedup();
    reads.windows(2).any(|pair| pair[0].0 == pair[1].0)
}

/// Whether each read can be explained by the writes of its key.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let mut writes: HashMap<u32, Vec<Write>> = HashMap::new();
    for op in ops {
        for &(key, version, is_deletion) in &op.writes {
            writes.entry(key).or_default().push(Write {
                version,
                is_deletion,
                begin: op.begin,
                end: op.end,
            });
        }
    }
    let writes = writes.into_iter();
    let writes: HashMap<u32, Writes> = writes
        .map(|(key, writes)| (key, Writes::new(writes)))
        .collect();
    let none = Writes::default();
    for op in ops {
        if has_two_versions_of_a_key(op) {
            return Err(format!("two versions of one key at once: {op:?}"));
        }
        for &(key, seen) in &op.reads {
            if !writes.get(&key).unwrap_or(&none).explains(seen, op) {
                return Err(format!("key {key} cannot have been {seen}: {op:?}"));
            }
        }
    }
    Ok(())
}
