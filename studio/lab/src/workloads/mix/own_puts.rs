//! [`OwnPuts`]: what a thread remembers of its puts, so that it notices a get that is too old.

use crate::random::mix64;

/// The latest puts of one thread: the thread notices a value that is older than its own last one.
///
/// Other threads put too, and no order is known among them. But of two values of the same thread
/// the one with the lower generation is older, and the loaded values are older than all others.
/// There is one slot for each hash of a record's number: the next record with that hash takes it
/// over.
pub(crate) struct OwnPuts {
    /// The upper half of all generations of this thread. Other threads have others.
    tag: u64,
    count: u64,
    slots: Vec<(u64, u64)>,
}

/// Slots of an [`OwnPuts`], 16 bytes each.
const OWN_PUTS: usize = 1024;

impl OwnPuts {
    pub(crate) fn new(tag: u64) -> Self {
        Self {
            tag: tag & !u64::from(u32::MAX),
            count: 0,
            slots: vec![(u64::MAX, 0); OWN_PUTS],
        }
    }

    fn slot(record: u64) -> usize {
        mix64(record) as usize % OWN_PUTS
    }

    pub(crate) fn next_generation(&mut self) -> u64 {
        self.count = (self.count + 1) & u64::from(u32::MAX);
        self.tag | self.count
    }

    pub(crate) fn acknowledged(&mut self, record: u64, generation: u64) {
        self.slots[Self::slot(record)] = (record, generation);
    }

    /// Whether this generation of the record was overwritten before the get began.
    pub(crate) fn is_stale(&self, record: u64, generation: u64) -> bool {
        let (known, last) = self.slots[Self::slot(record)];
        let own = generation & !u64::from(u32::MAX) == self.tag;
        known == record && (generation == 0 || own && generation < last)
    }
}
