//! [`OpenTables`]: which tables are open, and which are closed when too many are open.
//!
//! An open table takes a file descriptor, and memory for its index and filter. Both have a limit.
//! ```text
//!   queue   | oldest | ... | newest |      a table enters when it is opened
//!               '- above a limit it is closed;
//!                  if it was used since it came there, it goes to the end of the queue instead
//! ```
//! A closed table is opened again when a reader needs it. A reader that holds a table keeps it. A
//! table that was closed and is still in use does not count, so the limits hold for the tables that
//! are kept open, and not for the tables that are used at this moment.
//!
//! Invariant: each cell that is set has one entry in the queue, or a thread that took the entry out
//! has it in hand.
//!
//! Thread safety: shared freely. A reader of an open table takes no lock and, as a rule, writes to
//! no shared memory: the mark of use is stored only if it is missing. The queue's lock is a leaf,
//! held for a moment and never during I/O.

use super::Shared;
use crate::options::TableLimits;
use evendb_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use evendb_base::sync::{Arc, Mutex, Weak, reclaim};
use evendb_storage::table::Table;
use std::collections::VecDeque;

/// The number of steps through the queue that one opening takes, at most.
const STEPS_MAX: usize = 64;
/// The queue may have one entry of a table that is gone for each open table, and this many more.
const GONE_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct OpenTables {
    limits: TableLimits,
    /// Figures of the tables that are kept open. They order nothing else.
    files: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of all tables in memory, also of the tables that were closed and are still in use.
    resident: Arc<AtomicU64>,
    /// The number of tables that were closed because of the limits since the last collection for
    /// them.
    uncollected: AtomicU64,
    queue: Mutex<VecDeque<Weak<Shared>>>,
}

/// A table's part of [`OpenTables::resident`]. The drop of the table gives it back.
struct Resident {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl OpenTables {
    pub(super) fn new(limits: TableLimits) -> OpenTables {
        OpenTables {
            limits,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            resident: Arc::default(),
            uncollected: AtomicU64::new(0),
            queue: Mutex::default(),
        }
    }

    /// The same table. It is counted as long as it is in memory.
    pub(super) fn account(&self, table: Table) -> Table {
        let bytes = table.resident_bytes() as u64;
        self.resident.fetch_add(bytes, Relaxed);
        table.with_companion(Box::new(Resident {
            bytes,
            all: self.resident.clone(),
        }))
    }

    /// Notes that a table is kept open from now on.
    pub(super) fn opened(&self, shared: &Arc<Shared>, table: &Table) {
        // Counted before another thread can find it and close it.
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(table.resident_bytes() as u64, Relaxed);
        {
            let mut queue = self.queue.lock();
            queue.push_back(Arc::downgrade(shared));
            if queue.len() > 2 * self.files() as usize + GONE_MAX {
                queue.retain(|entry| entry.strong_count() > 0);
            }
        }
        for _ in 0..STEPS_MAX {
            if !self.is_over() || !self.step() {
                break;
            }
        }
        // Gets that open and close table after table can be faster than workers, who free tables
        // that nobody has any more.
        let slack = (self.limits.bytes / 4).max(256 << 10);
        if self.resident() > self.limits.bytes.saturating_add(slack)
            || self.uncollected.load(Relaxed) > self.limits.files / 4
        {
            self.uncollected.store(0, Relaxed);
            reclaim::collect();
        }
    }

    /// Notes that a table is not kept open any more.
    pub(super) fn closed(&self, table: &Table) {
        self.files.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(table.resident_bytes() as u64, Relaxed);
    }

    fn is_over(&self) -> bool {
        self.files() > self.limits.files || self.bytes.load(Relaxed) > self.limits.bytes
    }

    /// Closes the oldest table, or spares it once. `false`: there is none.
    fn step(&self) -> bool {
        let Some(entry) = self.queue.lock().pop_front() else {
            return false;
        };
        // Dropped outside of the lock: this may be the last handle, and then the file is removed
        // with it.
        if let Some(oldest) = entry.upgrade() {
            match oldest.was_used() {
                true => self.queue.lock().push_back(entry),
                false => {
                    oldest.close();
                    self.uncollected.fetch_add(1, Relaxed);
                }
            }
        }
        true
    }

    /// Closes every second table, because the process has no descriptor left.
    pub(super) fn close_half(&self) {
        let entries = std::mem::take(&mut *self.queue.lock());
        for (at, entry) in entries.into_iter().enumerate() {
            match entry.upgrade() {
                Some(open) if at % 2 == 0 => open.close(),
                Some(_) => self.queue.lock().push_back(entry),
                None => {}
            }
        }
        reclaim::collect();
    }

    /// The number of tables that are kept open.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    /// Bytes of indexes and filters in memory.
    pub(super) fn resident(&self) -> u64 {
        self.resident.load(Relaxed)
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.queue.lock().len()
    }
}
