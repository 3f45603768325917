//! S3-FIFO: new rows wait in a small queue. Rows that are read again meanwhile move to the main
//! queue, where rows that were read since their last turn go round once more.

use super::ghost::Ghosts;
use super::rows::Rows;
use super::{EVICT_STEPS_MAX, SMALL_SHARE};
use std::collections::VecDeque;

pub(super) const SMALL: u8 = 0;
const MAIN: u8 = 1;

/// The queues, of slots' numbers.
#[derive(Default)]
pub(super) struct S3Fifo {
    pub(super) small: VecDeque<u32>,
    pub(super) small_bytes: usize,
    pub(super) main: VecDeque<u32>,
    /// Rows that left the small queue unread; their number is about the number of rows.
    ghosts: Ghosts,
}

impl S3Fifo {
    pub(super) fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }

    /// Queues a new row: in the main queue if it left the small one not long ago. `rows` is the
    /// number of the other rows.
    pub(super) fn add(&mut self, at: u32, place: u64, bytes: usize, rows: usize) -> u8 {
        if self
            .ghosts
            .take(place)
            .is_some_and(|age| age <= rows as u64)
        {
            self.main.push_back(at);
            return MAIN;
        }
        self.small.push_back(at);
        self.small_bytes += bytes;
        SMALL
    }

    /// The count of a queue's bytes, which only the small one has.
    pub(super) fn bytes_of(&mut self, queue: u8) -> Option<&mut usize> {
        (queue == SMALL).then_some(&mut self.small_bytes)
    }

    /// Evicts until rows and ghosts fit, and only few numbers of removed rows are queued.
    pub(super) fn evict(&mut self, rows: &mut Rows, bytes_max: usize) {
        let is_full = |fifo: &S3Fifo, rows: &Rows| rows.bytes + fifo.ghosts.bytes() > bytes_max;
        while is_full(self, rows) || rows.queued() > rows.queue_len_max() {
            if rows.places.is_empty() && is_full(self, rows) {
                // There is no room for a single row.
                self.ghosts.clear();
            }
            if self.small.is_empty() && self.main.is_empty() {
                return;
            }
            self.evict_one(rows, bytes_max);
        }
    }

    /// Takes one number off the small queue if that is above its share, otherwise off the main
    /// queue.
    fn evict_one(&mut self, rows: &mut Rows, bytes_max: usize) {
        let is_removed = |&at: &u32| rows.slots[at as usize].row.is_none();
        if self.small_bytes > bytes_max / SMALL_SHARE
            || self.main.is_empty()
            || self.small.front().is_some_and(is_removed)
        {
            self.evict_small(rows);
        } else {
            self.evict_main(rows);
        }
    }

    /// Takes the next row of the small queue: it moves to the main queue if it was read again,
    /// otherwise it goes.
    fn evict_small(&mut self, rows: &mut Rows) {
        let Some(at) = self.small.pop_front() else {
            return;
        };
        let slot = &mut rows.slots[at as usize];
        let Some(row) = &slot.row else {
            return rows.unqueue(at);
        };
        self.ghosts.step();
        self.small_bytes -= row.bytes();
        if slot.reads > 0 {
            slot.reads = 0;
            slot.queue = MAIN;
            self.main.push_back(at);
        } else {
            let place = slot.place;
            self.ghosts.push(place, rows.places.len());
            rows.remove(place);
            rows.unqueue(at);
        }
    }

    /// Evicts the next row of the main queue that was not read since its last turn.
    fn evict_main(&mut self, rows: &mut Rows) {
        for step in 0..EVICT_STEPS_MAX {
            let Some(at) = self.main.pop_front() else {
                return;
            };
            let slot = &mut rows.slots[at as usize];
            if slot.row.is_some() && slot.reads > 0 && step + 1 < EVICT_STEPS_MAX {
                slot.reads -= 1;
                self.main.push_back(at);
                continue;
            }
            let place = slot.place;
            if slot.row.is_some() {
                rows.remove(place);
            }
            return rows.unqueue(at);
        }
    }
}
