//! [`Pool`]: what queries hold in memory, within a size.
//!
//! ```text
//!   0 |------- rows that can go to files, in equal shares: 3/4 at most -------|-- tables that cannot --| size
//!                                                      tables that cannot may take all that rows leave
//! ```
//! The engine's own pool for rows in files lets them have all of it: a sort below an aggregation takes everything, and the
//! aggregation, whose table cannot go to a file, is refused its first bytes. Here a quarter is always left to tables.
//!
//! Invariants: rows are refused, and go to files, before they have three quarters; tables are refused at a quarter at the earliest. A consumer that comes
//! when others have all shares still gets its own, so that the sum may be above the size until the others have written theirs.
//! Thread safety: any. Not here: what the engine does not ask for (rows on their way).

#![expect(
    clippy::disallowed_types,
    reason = "a lock of its own that is held for a few additions: there is nothing for the schedules of loom and shuttle"
)]

use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    size: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Consumers that can go to files.
    spillers: usize,
    /// Bytes of these.
    rows: usize,
    /// Bytes of the others.
    tables: usize,
}

impl Pool {
    /// A pool of so many bytes.
    pub(crate) fn new(size: usize) -> Pool {
        Pool {
            size,
            held: Mutex::default(),
        }
    }

    /// The state is whole at each of its changes.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows_max(&self) -> usize {
        self.size - self.size / 4
    }
}

impl Held {
    fn part(&mut self, consumer: &MemoryConsumer) -> &mut usize {
        match consumer.can_spill() {
            true => &mut self.rows,
            false => &mut self.tables,
        }
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &'static str {
        "parted"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.held().spillers += 1;
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            let mut held = self.held();
            held.spillers = held.spillers.saturating_sub(1);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        *self.held().part(reservation.consumer()) += additional;
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        let mut held = self.held();
        let part = held.part(reservation.consumer());
        *part = part.saturating_sub(less);
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> Result<(), DataFusionError> {
        let mut held = self.held();
        let (has, may_have) = match reservation.consumer().can_spill() {
            true => {
                let left = self.size.saturating_sub(held.tables);
                let share = self.rows_max().min(left) / held.spillers.max(1);
                (reservation.size(), share)
            }
            false => {
                let left = self.size - held.rows.min(self.rows_max());
                (held.tables, left)
            }
        };
        if has.saturating_add(additional) > may_have {
            let name = reservation.consumer().name();
            let message = format!(
                "{name} needs {additional} bytes more, and the memory for queries has {may_have} of {} bytes for it",
                self.size
            );
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        *held.part(reservation.consumer()) += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        let held = self.held();
        held.rows + held.tables
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.size)
    }
}

impl Display for Pool {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "parted (size: {} bytes)", self.size)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::Pool;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
    use std::sync::Arc;

    #[test]
    fn rows_that_can_go_to_files_leave_a_quarter_to_tables_that_cannot() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(1000));
        let rows = MemoryConsumer::new("rows")
            .with_can_spill(true)
            .register(&pool);
        let table = MemoryConsumer::new("table").register(&pool);
        rows.try_grow(750).unwrap();
        assert!(rows.try_grow(1).is_err());
        table.try_grow(250).unwrap();
        assert!(table.try_grow(1).is_err());
        assert_eq!(pool.reserved(), 1000);
        rows.shrink(700);
        table.try_grow(700).unwrap();
        assert!(rows.try_grow(1).is_err(), "tables have the rest");
        drop((rows, table));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn rows_have_equal_shares_also_of_one_that_comes_late() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(1000));
        let spiller = || {
            MemoryConsumer::new("rows")
                .with_can_spill(true)
                .register(&pool)
        };
        let first = spiller();
        first.try_grow(750).unwrap();
        let second = spiller();
        second.try_grow(375).unwrap();
        assert!(second.try_grow(1).is_err() && first.try_grow(1).is_err());
        drop(second);
        first.shrink(100);
        first.try_grow(100).unwrap();
    }
}
