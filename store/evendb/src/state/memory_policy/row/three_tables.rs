//! The paper's queue of three tables: rows that are filled or read go into the first table. When
//! that has its third of the room, the last table goes, with the rows that no later table has.

use super::rows::{RowSlot, Rows};

/// Tables of slots' numbers, by number modulo 3; `head` is the first.
#[derive(Default)]
pub(super) struct ThreeTables {
    pub(super) tables: [Vec<u32>; 3],
    pub(super) head: u8,
    pub(super) head_bytes: usize,
}

impl ThreeTables {
    /// Adds a new row to the first table.
    pub(super) fn add(&mut self, at: u32, bytes: usize) -> u8 {
        self.tables[usize::from(self.head)].push(at);
        self.head_bytes += bytes;
        self.head
    }

    /// Adds a row that was read to the first table, unless it is there. Returns whether it was
    /// added.
    pub(super) fn note_read(&mut self, at: u32, slot: &mut RowSlot) -> bool {
        let Some(row) = slot.row.as_ref().filter(|_| slot.queue != self.head) else {
            return false;
        };
        slot.queue = self.add(at, row.bytes());
        slot.queued += 1;
        true
    }

    /// The count of a table's bytes, which only the first has.
    pub(super) fn bytes_of(&mut self, queue: u8) -> Option<&mut usize> {
        (queue == self.head).then_some(&mut self.head_bytes)
    }

    /// Starts a new first table, and drops the last, while the first is above its third.
    pub(super) fn evict(&mut self, rows: &mut Rows, bytes_max: usize) {
        loop {
            // A table that holds only removed rows must stay bounded, too.
            let is_long = self.tables[usize::from(self.head)].len() > rows.queue_len_max();
            if self.head_bytes <= bytes_max / 3 && rows.bytes <= bytes_max && !is_long {
                return;
            }
            self.head = (self.head + 1) % 3;
            self.head_bytes = 0;
            let last = self.head;
            for at in std::mem::take(&mut self.tables[usize::from(last)]) {
                let slot = &rows.slots[at as usize];
                // Rows that were read since then are in a later table, too, and stay.
                if slot.queue == last && slot.row.is_some() {
                    // Not by the count of the head: the new first table is empty.
                    let place = slot.place;
                    rows.remove(place);
                }
                rows.unqueue(at);
            }
        }
    }
}
