//! LMDB as a yardstick of parts: at its best, so that the comparison is with the tree alone.
//!
//! All puts of a call are one transaction; all reads of a call share one read transaction, so a get
//! is only the descent through the tree.

use std::ops::Bound;
use std::path::Path;

use evendb_lab::opener::Durability;
use evendb_lab::parts::{PartsError, Reader, Yardstick};
use heed::{Env, RoTxn};

use crate::lmdb::{Records, open};

/// See the module.
pub struct LmdbYardstick {
    env: Env,
    records: Records,
}

impl LmdbYardstick {
    /// Opens or makes an environment in this directory, which must be there.
    ///
    /// # Errors
    /// LMDB's own.
    pub fn open(path: &Path) -> Result<Self, PartsError> {
        let (env, records) = open(path, Durability::Process)?;
        Ok(Self { env, records })
    }
}

impl Yardstick for LmdbYardstick {
    fn name(&self) -> &'static str {
        "LMDB"
    }

    fn put_all(
        &mut self,
        count: u64,
        record: &mut dyn FnMut(u64, &mut dyn FnMut(&[u8], &[u8])),
    ) -> Result<(), PartsError> {
        let mut transaction = self.env.write_txn()?;
        let mut outcome = Ok(());
        for number in 0..count {
            record(number, &mut |key, value| {
                outcome = self.records.put(&mut transaction, key, value);
            });
            outcome?;
            outcome = Ok(());
        }
        Ok(transaction.commit()?)
    }

    fn read(&self, body: &mut dyn FnMut(&dyn Reader)) -> Result<(), PartsError> {
        let transaction = self.env.read_txn()?;
        body(&LmdbReader {
            transaction: &transaction,
            records: &self.records,
        });
        Ok(())
    }

    fn clear(&mut self) -> Result<(), PartsError> {
        let mut transaction = self.env.write_txn()?;
        self.records.clear(&mut transaction)?;
        Ok(transaction.commit()?)
    }
}

struct LmdbReader<'a> {
    transaction: &'a RoTxn<'a>,
    records: &'a Records,
}

impl Reader for LmdbReader<'_> {
    fn get(&self, key: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.records.get(self.transaction, key);
        found.is_ok_and(|found| found.map(each).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> usize {
        let range = (Bound::Included(from), Bound::Unbounded);
        let Ok(records) = self.records.range(self.transaction, &range) else {
            return 0;
        };
        let mut lent = 0;
        for (key, value) in records.take(limit).flatten() {
            each(key, value);
            lent += 1;
        }
        lent
    }
}
