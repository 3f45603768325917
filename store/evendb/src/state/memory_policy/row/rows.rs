//! The rows of a shard: key hash -> slot -> row, and their bytes. The policies choose which row
//! goes.
//!
//! A slot is in `places` while its row lives. Its number stays in a queue until its turn comes
//! there, and only then is the slot free for another row.

use super::ROW_OVERHEAD_BYTES;
use crate::record::RecordRef;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys of the map are hashes already.
#[derive(Default)]
pub(super) struct Unhashed(u64);

impl Hasher for Unhashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only words are hashed");
    }

    fn write_u64(&mut self, place: u64) {
        self.0 = place;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Build = BuildHasherDefault<Unhashed>;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) places: HashMap<u64, u32, Build>,
    pub(super) slots: Vec<RowSlot>,
    pub(super) free: Vec<u32>,
    /// Bytes of all rows.
    pub(super) bytes: usize,
}

pub(super) struct RowSlot {
    pub(super) place: u64,
    pub(super) keyspace: u32,
    pub(super) reads: u8,
    /// The queue that counts its bytes: small or main; for three tables, the table's number.
    pub(super) queue: u8,
    /// Queue entries that hold this slot's number.
    pub(super) queued: u8,
    /// Empty when the row is gone.
    pub(super) row: Option<Row>,
}

/// A row in one allocation, in the same slabs as munks' pages and deltas' records: so munks can
/// take memory that rows have left, and rows memory that munks have left.
pub(super) struct Row(pub(super) RecordRef);

impl Row {
    pub(super) fn bytes(&self) -> usize {
        self.0.memory_bytes() + ROW_OVERHEAD_BYTES
    }
}

impl Rows {
    /// The slot of a key, if its row is here.
    pub(super) fn slot(&self, place: u64, keyspace: u32, key: &[u8]) -> Option<u32> {
        let &at = self.places.get(&place)?;
        let slot = &self.slots[at as usize];
        let row = slot.row.as_ref()?;
        (slot.keyspace == keyspace && *row.0.key() == *key).then_some(at)
    }

    /// Takes a slot that has no row and is in no queue; returns its number.
    pub(super) fn free_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.slots.len() as u32)
    }

    /// Puts a row into the slot `at`, whose number was added to one queue.
    pub(super) fn insert(&mut self, at: u32, place: u64, keyspace: u32, queue: u8, row: Row) {
        self.bytes += row.bytes();
        let slot = RowSlot {
            place,
            keyspace,
            reads: 0,
            queue,
            queued: 1,
            row: Some(row),
        };
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.places.insert(place, at);
    }

    /// Replaces the value of a row that is here; returns its queue, and its bytes before and now.
    pub(super) fn replace(&mut self, place: u64, record: RecordRef) -> Option<(u8, usize, usize)> {
        let &at = self.places.get(&place)?;
        let slot = &mut self.slots[at as usize];
        let row = slot.row.as_mut()?;
        let old = row.bytes();
        row.0 = record;
        let new = row.bytes();
        self.bytes = self.bytes + new - old;
        Some((slot.queue, old, new))
    }

    /// Copies the row of slot `at`, if there is one and it lies alone. Returns whether it was
    /// copied.
    pub(super) fn move_if_alone(&mut self, at: u32) -> bool {
        let Some(row) = self
            .slots
            .get_mut(at as usize)
            .and_then(|slot| slot.row.as_mut())
        else {
            return false;
        };
        let alone = row.0.lies_alone();
        if alone {
            let hash = row.0.kept_hash();
            row.0 = RecordRef::new(row.0.key(), row.0.value(), row.0.kind(), hash);
        }
        alone
    }

    /// Removes a row that is here; its number stays queued. Returns its queue, and its bytes.
    pub(super) fn remove(&mut self, place: u64) -> Option<(u8, usize)> {
        let at = self.places.remove(&place)?;
        let slot = &mut self.slots[at as usize];
        let bytes = slot.row.take().map_or(0, |row| row.bytes());
        self.bytes -= bytes;
        Some((slot.queue, bytes))
    }

    /// Notes that a slot's number left a queue; the slot is free when it was the last queue.
    pub(super) fn unqueue(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.queued -= 1;
        if slot.queued == 0 {
            self.free.push(at);
        }
    }

    /// Slots that a queue holds.
    pub(super) fn queued(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The length of a queue above which too many of its entries are of removed rows. Removing and
    /// filling the same keys keeps the bytes low, but must not let queues grow without end.
    pub(super) fn queue_len_max(&self) -> usize {
        2 * self.places.len() + 64
    }
}
