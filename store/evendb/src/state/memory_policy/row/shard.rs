//! A shard of the row cache: the data under one lock. It has rows, and the policy that says which
//! row goes first.

use super::rows::{Row, Rows};
use super::s3_fifo::S3Fifo;
use super::three_tables::ThreeTables;
use super::{READS_MAX, ROW_SHARE_MAX};
use crate::options::RowPolicy;
use crate::record::RecordRef;

/// Rows within a number of bytes.
pub(super) struct Shard {
    pub(super) rows: Rows,
    pub(super) queues: Queues,
    pub(super) bytes_max: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// The order in which rows go.
pub(super) enum Queues {
    S3Fifo(S3Fifo),
    ThreeTables(ThreeTables),
}

impl Shard {
    pub(super) fn new(bytes_max: usize, policy: RowPolicy) -> Shard {
        let queues = match policy {
            RowPolicy::S3Fifo => Queues::S3Fifo(S3Fifo::default()),
            RowPolicy::ThreeTables => Queues::ThreeTables(ThreeTables::default()),
        };
        Shard {
            rows: Rows::default(),
            queues,
            bytes_max,
            hits: 0,
            misses: 0,
        }
    }

    pub(super) fn row_bytes_max(&self) -> usize {
        self.bytes_max / ROW_SHARE_MAX
    }

    /// Rows and ghosts.
    pub(super) fn memory(&self) -> usize {
        let ghosts = match &self.queues {
            Queues::S3Fifo(fifo) => fifo.ghost_bytes(),
            Queues::ThreeTables(_) => 0,
        };
        self.rows.bytes + ghosts
    }

    pub(super) fn read(&mut self, place: u64, keyspace: u32, key: &[u8]) -> Option<RecordRef> {
        let at = self.rows.slot(place, keyspace, key)?;
        let slot = &mut self.rows.slots[at as usize];
        slot.reads = (slot.reads + 1).min(READS_MAX);
        let row = slot.row.as_ref()?;
        let row = row.0.clone();
        if let Queues::ThreeTables(tables) = &mut self.queues
            && tables.note_read(at, slot)
        {
            self.evict();
        }
        Some(row)
    }

    pub(super) fn insert(&mut self, place: u64, keyspace: u32, record: RecordRef) {
        let row = Row(record);
        let bytes = row.bytes();
        let at = self.rows.free_slot();
        let queue = match &mut self.queues {
            Queues::S3Fifo(fifo) => fifo.add(at, place, bytes, self.rows.places.len()),
            Queues::ThreeTables(tables) => tables.add(at, bytes),
        };
        self.rows.insert(at, place, keyspace, queue, row);
    }

    /// Replaces the value of a row that is here.
    pub(super) fn replace(&mut self, place: u64, record: RecordRef) {
        if let Some((queue, old, new)) = self.rows.replace(place, record)
            && let Some(bytes) = self.queue_bytes(queue)
        {
            *bytes = *bytes + new - old;
        }
    }

    /// Removes a row that is here; its number stays queued.
    pub(super) fn remove(&mut self, place: u64) {
        if let Some((queue, bytes)) = self.rows.remove(place)
            && let Some(counted) = self.queue_bytes(queue)
        {
            *counted -= bytes;
        }
    }

    /// The count of bytes of a queue, if that queue has one.
    fn queue_bytes(&mut self, queue: u8) -> Option<&mut usize> {
        match &mut self.queues {
            Queues::S3Fifo(fifo) => fifo.bytes_of(queue),
            Queues::ThreeTables(tables) => tables.bytes_of(queue),
        }
    }

    /// Evicts until rows and ghosts fit.
    pub(super) fn evict(&mut self) {
        match &mut self.queues {
            Queues::S3Fifo(fifo) => fifo.evict(&mut self.rows, self.bytes_max),
            Queues::ThreeTables(tables) => tables.evict(&mut self.rows, self.bytes_max),
        }
    }
}
