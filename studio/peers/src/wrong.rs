//! Adapters that are wrong on purpose, as a test of the checks: the conformance check and the lab's
//! own run must both end with an error.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use evendb_lab::opener::{Opener, Settings};
use evendb_lab::store::{BatchWrite, Store, StoreResult};
use evendb_lab::transactions::{READS, TransactionalStore, Work};
use parking_lot::Mutex;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wrongness {
    /// Every 1,000th put is acknowledged and not done.
    LostPut,
    /// Every 100th get of a key that was overwritten answers with the value before.
    StaleValue,
    /// Every 100th scan leaves its second record out.
    DroppedRecord,
    /// Transactions are gets and then a batch, and nothing keeps others away in between.
    LostUpdate,
}

/// Opens another opener's store and makes it wrong.
pub struct WrongOpener<'a> {
    /// The correct opener.
    pub inner: &'a dyn Opener,
    /// The fault.
    pub wrongness: Wrongness,
}

impl Opener for WrongOpener<'_> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn unavailable(&self) -> Option<String> {
        self.inner.unavailable()
    }

    fn has_transactions(&self) -> bool {
        self.inner.has_transactions()
    }

    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>> {
        Ok(Box::new(WrongStore {
            inner: self.inner.open(directory, settings)?,
            wrongness: self.wrongness,
            puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            before: Mutex::default(),
        }))
    }
}

/// A store that is correct except for [`Wrongness`].
struct WrongStore {
    inner: Box<dyn Store>,
    wrongness: Wrongness,
    puts: AtomicU64,
    gets: AtomicU64,
    scans: AtomicU64,
    /// For each overwritten key, the value before the last one; only for stale values.
    before: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

/// Whether this event is one in `every`.
fn strikes(events: &AtomicU64, every: u64) -> bool {
    events.fetch_add(1, Ordering::Relaxed) % every == every - 1
}

impl WrongStore {
    fn remember(&self, key: &[u8]) -> StoreResult<()> {
        let mut before = None;
        self.inner
            .get(key, &mut |value| before = Some(value.to_vec()))?;
        let mut all = self.before.lock();
        match before {
            Some(value) => all.insert(key.to_vec(), value),
            None => all.remove(key),
        };
        Ok(())
    }
}

impl Store for WrongStore {
    fn name(&self) -> String {
        format!("{} (wrong: {:?})", self.inner.name(), self.wrongness)
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        if self.wrongness == Wrongness::StaleValue {
            let before = self.before.lock().get(key).cloned();
            if let Some(value) = before.filter(|_| strikes(&self.gets, 100)) {
                check(&value);
                return Ok(true);
            }
        }
        self.inner.get(key, check)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        match self.wrongness {
            Wrongness::LostPut if strikes(&self.puts, 1000) => return Ok(()),
            Wrongness::StaleValue => self.remember(key)?,
            _ => {}
        }
        self.inner.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.before.lock().remove(key);
        self.inner.delete(key)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        if self.wrongness != Wrongness::DroppedRecord || limit < 2 || !strikes(&self.scans, 100) {
            return self.inner.scan(from, limit, each);
        }
        let mut position = 0;
        let lent = self
            .inner
            .scan(from, limit.saturating_add(1), &mut |key, value| {
                position += 1;
                // The wanted number of records comes: their number alone tells nothing.
                position == 2 || each(key, value)
            })?;
        Ok(lent - usize::from(position >= 2))
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let mut before = self.before.lock();
        for BatchWrite::Put(key, _) | BatchWrite::Delete(key) in writes {
            before.remove(*key);
        }
        drop(before);
        self.inner.batch(writes)
    }

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        match self.wrongness {
            Wrongness::LostUpdate => Some(self),
            _ => self.inner.transactions(),
        }
    }

    evendb_lab::passed_on!(inner: stats, settle_debt);

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.inner.close()
    }
}

impl TransactionalStore for WrongStore {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        for position in 0..READS {
            let (mut taken, key) = (Ok(()), work.key(position));
            let take = &mut |value: &[u8]| taken = work.take(position, Some(value));
            if !self.inner.get(&key, take)? {
                taken = work.take(position, None);
            }
            taken?;
        }
        std::thread::sleep(Duration::from_micros(50));
        let writes: Vec<_> = work.writes().collect();
        let batch: Vec<_> = writes
            .iter()
            .map(|(key, value)| BatchWrite::Put(key, value))
            .collect();
        self.inner.batch(&batch)?;
        Ok(0)
    }
}
