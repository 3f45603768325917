//! [`Pool`]: what queries hold in memory, within a size.
//!
//! ```text
//!   0 |-- rows: a quarter --|--- the first consumer that asks ---|-- tables: a quarter --| size
//! ```
//! Rows can go to files; consumers of rows have equal shares of what rows may have. Tables are what
//! the engine says cannot go to files.
//!
//! A quarter is always left to tables, because the engine's own pool leaves them none. A sort below
//! an aggregation would take everything, and the aggregation, whose table cannot go to a file,
//! would be refused its first bytes. A quarter is always left to rows, because a merge join asks as
//! a table, takes all that it is given, and goes to files only when it is refused. The steps above
//! it would be refused their first bytes.
//!
//! Invariants: rows are refused, and go to files, at a quarter at the earliest and at three
//! quarters at the latest; so are tables. The sum may be above the size for two reasons. A consumer
//! of rows that comes when others have all shares still gets its own, until the others have written
//! theirs. And the engine may take without asking. Thread safety: any. Not here: memory that the
//! engine does not tell of (rows on their way).

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
    /// Bytes of these consumers.
    rows: usize,
    /// Bytes of the other consumers.
    tables: usize,
}

impl Pool {
    /// A pool of this number of bytes.
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

    /// The least share of rows beside any tables, and of tables beside any rows.
    fn least(&self) -> usize {
        self.size / 4
    }

    /// What rows may have beside tables of this number of bytes, and tables beside such rows.
    fn beside(&self, others: usize) -> usize {
        let most = self.size - self.least();
        self.size.saturating_sub(others).clamp(self.least(), most)
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
                let share = self.beside(held.tables) / held.spillers.max(1);
                (reservation.size(), share)
            }
            false => (held.tables, self.beside(held.rows)),
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
        table.try_grow(500).unwrap();
        rows.try_grow(200).unwrap();
        assert!(rows.try_grow(1).is_err(), "tables have the rest");
        drop((rows, table));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_table_that_takes_all_leaves_a_quarter_to_rows() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(1000));
        // As a merge join does: it takes until it is refused, and then takes what it needs for each
        // batch that it writes to a file.
        let join = MemoryConsumer::new("join").register(&pool);
        while join.try_grow(50).is_ok() {}
        assert_eq!(join.size(), 750);
        join.grow(400);
        let rows = MemoryConsumer::new("rows")
            .with_can_spill(true)
            .register(&pool);
        rows.try_grow(250).unwrap();
        assert!(rows.try_grow(1).is_err());
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
