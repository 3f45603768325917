//! A sorted map behind a lock: the reference for tests, and no upper bound for anything.
//!
//! It can be told to answer wrongly, so that the tests of the driver's checks can fail.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::purposes::{
    AppendingStore, BothEndsStore, CountingStore, ExpiringStore, IngestingStore, SortedRecords,
    counter_of,
};
use crate::store::{BatchWrite, Figure, FigureKind, Store, StoreResult};
use crate::transactions::{READS, TransactionalStore, Work};

/// What a [`MemoryStore`] does wrong, for tests of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// One bit of the last byte of every 100th value that is read is flipped.
    FlipBit,
    /// Every 100th get says "absent".
    LoseRecord,
    /// Every 100th get answers with the next key's value.
    WrongRecord,
    /// Scans leave out their second record.
    ScanGap,
    /// The last record of a deleted range stays.
    ShortRange,
    /// The record after a deleted range is deleted too.
    LongRange,
    /// Between the reads and the writes of a transaction, or of an addition, others have their
    /// turn.
    LoseUpdate,
    /// Every 100th record of a sorted ingest is left out.
    LoseIngested,
    /// Records that should expire stay.
    NeverExpire,
    /// Records that should expire do so at once.
    ExpireEarly,
}

/// An in-memory ordered store.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    gets: AtomicU64,
    absent: AtomicU64,
    user_bytes: AtomicU64,
    fault: Fault,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store that errs.
    #[must_use]
    pub fn with_fault(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.read().len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.read().is_empty()
    }
}

impl Store for MemoryStore {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        let number = self.gets.fetch_add(1, Ordering::Relaxed);
        let fault = if number % 100 == 99 {
            self.fault
        } else {
            Fault::None
        };
        let records = self.records.read();
        let Some(value) = records.get(key).filter(|_| fault != Fault::LoseRecord) else {
            self.absent.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        };
        match fault {
            Fault::FlipBit => {
                let mut spoiled = value.clone();
                if let Some(last) = spoiled.last_mut() {
                    *last ^= 1;
                }
                check(&spoiled);
            }
            Fault::WrongRecord => {
                let next = records
                    .range(key.to_vec()..)
                    .nth(1)
                    .or(records.iter().next());
                check(next.map_or(value, |(_, other)| other));
            }
            _ => check(value),
        }
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.user_bytes
            .fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
        self.records.write().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.records.write().remove(key);
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        let records = self.records.read();
        let mut lent = 0;
        for (position, (key, value)) in records.range(from.to_vec()..).take(limit).enumerate() {
            if position == 1 && self.fault == Fault::ScanGap {
                continue;
            }
            lent += 1;
            if !each(key, value) {
                break;
            }
        }
        Ok(lent)
    }

    fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
        let mut records = self.records.write();
        for write in writes {
            match write {
                BatchWrite::Put(key, value) => records.insert(key.to_vec(), value.to_vec()),
                BatchWrite::Delete(key) => records.remove(*key),
            };
        }
        Ok(())
    }

    fn delete_range(&self, low: &[u8], high: &[u8]) -> StoreResult<()> {
        let mut records = self.records.write();
        let range = records.range(low.to_vec()..high.to_vec());
        let mut keys: Vec<Vec<u8>> = range.map(|(key, _)| key.clone()).collect();
        match self.fault {
            Fault::ShortRange => drop(keys.pop()),
            Fault::LongRange => {
                let mut behind = records.range(high.to_vec()..);
                keys.extend(behind.next().map(|(key, _)| key.clone()));
            }
            _ => {}
        }
        for key in keys {
            records.remove(&key);
        }
        Ok(())
    }

    fn transactions(&self) -> Option<&dyn TransactionalStore> {
        Some(self)
    }

    fn counters(&self) -> Option<&dyn CountingStore> {
        Some(self)
    }

    fn sorted_ingest(&self) -> Option<&dyn IngestingStore> {
        Some(self)
    }

    fn expiring(&self) -> Option<&dyn ExpiringStore> {
        Some(self)
    }

    fn appending(&self) -> Option<&dyn AppendingStore> {
        Some(self)
    }

    fn both_ends(&self) -> Option<&dyn BothEndsStore> {
        Some(self)
    }

    fn stats(&self) -> Vec<Figure> {
        let absent = self.absent.load(Ordering::Relaxed);
        let found = self.gets.load(Ordering::Relaxed).saturating_sub(absent);
        let user = self.user_bytes.load(Ordering::Relaxed);
        vec![
            Figure::counter("gets.munk", found),
            Figure::counter("gets.absent", absent),
            Figure::counter("written.user", user),
            Figure {
                name: "records",
                value: self.len() as u64,
                kind: FigureKind::Gauge,
            },
        ]
    }

    fn settle_debt(&self) -> StoreResult<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

/// One transaction at a time: none is aborted.
impl TransactionalStore for MemoryStore {
    fn run(&self, work: &mut Work) -> StoreResult<u64> {
        let mut records = self.records.write();
        for position in 0..READS {
            let value = records.get(&work.key(position)[..]);
            work.take(position, value.map(Vec::as_slice))?;
        }
        if self.fault == Fault::LoseUpdate {
            drop(records);
            std::thread::sleep(Duration::from_micros(50));
            records = self.records.write();
        }
        for (key, value) in work.writes() {
            records.insert(key.to_vec(), value.to_vec());
        }
        Ok(0)
    }
}

impl CountingStore for MemoryStore {
    fn add(&self, key: &[u8], addend: u64) -> StoreResult<()> {
        let mut records = self.records.write();
        let before = records.get(key).and_then(|value| counter_of(value));
        if self.fault == Fault::LoseUpdate {
            drop(records);
            std::thread::sleep(Duration::from_micros(50));
            records = self.records.write();
        }
        let sum = before.unwrap_or(0).wrapping_add(addend);
        records.insert(key.to_vec(), sum.to_le_bytes().to_vec());
        Ok(())
    }

    fn adds_by(&self) -> &'static str {
        "a lock on all"
    }
}

impl AppendingStore for MemoryStore {
    fn append(&self, key: &[u8], operand: &[u8]) -> StoreResult<()> {
        let mut records = self.records.write();
        let value = records.entry(key.to_vec()).or_default();
        value.extend_from_slice(operand);
        Ok(())
    }
}

impl BothEndsStore for MemoryStore {
    fn scan_back(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        if high.is_some_and(|high| high <= low) {
            return Ok(0);
        }
        let end = high.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.records.read();
        let range = records.range::<[u8], _>((Bound::Included(low), end));
        let mut lent = 0;
        for (key, value) in range.rev().take(limit) {
            lent += 1;
            if !each(key, value) {
                break;
            }
        }
        Ok(lent)
    }
}

impl IngestingStore for MemoryStore {
    fn ingest(&self, records: &mut SortedRecords<'_>) -> StoreResult<()> {
        let (mut key, mut value, mut number) = (Vec::new(), Vec::new(), 0u64);
        while records(&mut key, &mut value) {
            number += 1;
            if !(self.fault == Fault::LoseIngested && number.is_multiple_of(100)) {
                self.put(&key, &value)?;
            }
        }
        Ok(())
    }
}

/// It has no clock: records that should expire stay. It admits that, unless that is its fault.
impl ExpiringStore for MemoryStore {
    fn put_expiring(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        match self.fault {
            Fault::ExpireEarly => Ok(()),
            _ => self.put(key, value),
        }
    }

    fn hides_expired(&self) -> bool {
        self.fault == Fault::NeverExpire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_sorted_map() {
        let store = MemoryStore::new();
        store
            .batch(&[BatchWrite::Put(b"b", b"2"), BatchWrite::Put(b"a", b"1")])
            .unwrap();
        store.put(b"c", b"3").unwrap();
        store.batch(&[BatchWrite::Delete(b"b")]).unwrap();
        let mut seen = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            seen.push((key.to_vec(), value.to_vec()));
            true
        };
        assert_eq!(store.scan(b"", 10, &mut each).unwrap(), 2);
        assert_eq!(
            seen,
            [
                (b"a".to_vec(), b"1".to_vec()),
                (b"c".to_vec(), b"3".to_vec())
            ]
        );
        assert!(!store.get(b"b", &mut |_| panic!("b is deleted")).unwrap());
        store.delete(b"a").unwrap();
        assert_eq!(store.len(), 1);
    }
}
