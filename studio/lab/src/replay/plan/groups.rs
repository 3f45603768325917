//! [`Groups`]: batches and transactions of a trace whose end has not come yet, with their writes
//! and savepoints. A trace may be torn or hostile, so their number and their bytes are limited.

use std::collections::HashMap;

use evendb_trace::{Operation, Outcome};

use crate::replay::work::Part;

/// The highest number of open transactions and batches. A torn trace would keep its open ones for
/// ever.
const GROUPS_MAX: usize = 100_000;
/// The highest number of bytes for all their parts together. A part beyond that is left out, with
/// its batch or transaction.
const PARTS_BYTES_MAX: usize = 256 << 20;

const SAVEPOINT_BYTES: usize = size_of::<(u64, usize)>();

pub(super) const TOO_MANY: &str = "parts of too many batches and transactions at once";

/// See the module.
#[derive(Default)]
pub(super) struct Groups {
    open: HashMap<u64, Group>,
    /// The bytes of all of them.
    bytes: usize,
}

#[derive(Default)]
struct Group {
    parts: Vec<Part>,
    bytes: usize,
    /// Savepoints that are still there: their numbers, and the number of parts before each.
    savepoints: Vec<(u64, usize)>,
    /// The reason why it cannot be replayed.
    left_out: Option<&'static str>,
}

impl Groups {
    /// The number of those that have writes.
    pub(super) fn unended(&self) -> u64 {
        let open = self.open.values().filter(|group| !group.parts.is_empty());
        open.count() as u64
    }

    /// Opens the batch or transaction of an operation, if it is not open. False if that would be
    /// one too many.
    pub(super) fn open(&mut self, operation: &Operation) -> bool {
        self.group_of(operation).is_some()
    }

    /// The batch or transaction of an operation. `None` if that would be one too many.
    fn group_of(&mut self, operation: &Operation) -> Option<&mut Group> {
        let number = operation.group;
        let has_room = self.open.len() < GROUPS_MAX || self.open.contains_key(&number);
        (number != 0 && has_room).then(|| self.open.entry(number).or_default())
    }

    pub(super) fn savepoint(&mut self, operation: &Operation) {
        let (Some(number), Some(group)) = (operation.count, self.group_of(operation)) else {
            return;
        };
        group.savepoints.push((number, group.parts.len()));
        self.take_room(operation.group, SAVEPOINT_BYTES);
    }

    /// Goes back to the savepoint of an operation, if the trace did.
    pub(super) fn roll_back(&mut self, operation: &Operation) {
        let is_done = operation.outcome == Outcome::Done;
        if let Some(group) = self.open.get_mut(&operation.group).filter(|_| is_done) {
            self.bytes -= group.bytes;
            group.roll_back_to(operation.count);
            self.bytes += group.bytes;
        }
    }

    /// Adds a write to an open batch or transaction.
    pub(super) fn add(&mut self, number: u64, part: Part) {
        let bytes = part.bytes();
        if let Some(group) = self.open.get_mut(&number) {
            group.parts.push(part);
        }
        self.take_room(number, bytes);
    }

    /// Counts the new bytes of a group. A group for which there is no room is left out.
    fn take_room(&mut self, number: u64, bytes: usize) {
        let Some(group) = self.open.get_mut(&number) else {
            return;
        };
        group.bytes += bytes;
        self.bytes += bytes;
        if self.bytes > PARTS_BYTES_MAX {
            self.bytes -= group.bytes;
            *group = Group {
                left_out: Some(TOO_MANY),
                ..Group::default()
            };
        }
    }

    /// Ends a batch or transaction, if it is open. Gives its writes, or the reason why they cannot
    /// be replayed.
    pub(super) fn end(&mut self, number: u64) -> Option<Result<Vec<Part>, &'static str>> {
        let group = self.open.remove(&number)?;
        self.bytes -= group.bytes;
        Some(match group.left_out {
            Some(why) => Err(why),
            None => Ok(group.parts),
        })
    }
}

impl Group {
    /// Goes back to a savepoint, which stays. 0: to before the first part. Unknown: the trace does
    /// not number its savepoints.
    fn roll_back_to(&mut self, number: Option<u64>) {
        let mut savepoints = self.savepoints.iter();
        let (savepoints, parts) = match number {
            Some(0) => (0, 0),
            number => match savepoints.rposition(|(known, _)| Some(*known) == number) {
                Some(at) => (at + 1, self.savepoints[at].1),
                None => {
                    self.left_out = Some("transactions that went back to an unknown savepoint");
                    return;
                }
            },
        };
        self.savepoints.truncate(savepoints);
        self.parts.truncate(parts);
        self.bytes =
            self.parts.iter().map(Part::bytes).sum::<usize>() + savepoints * SAVEPOINT_BYTES;
    }
}
