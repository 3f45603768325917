//! Locks on keys, which transactions hold from `get_for_update` to their end.
//!
//! ```text
//! held     key -> owner, and the waiters for the key, first come first served
//! waiting  owner -> the key that it waits for
//!
//!          A holds x, waits for y --> B holds y, waits for x      B's call ends with Deadlock
//! ```
//! These locks order the transactions that ask for them, and nothing else: puts, and transactions
//! that only get, ignore them. A transaction is correct because its reads are checked when it
//! commits (`write/reads.rs`). A lock only saves it from useless work.
//!
//! **Deadlocks** are found when a wait begins. Each owner waits for at most one key, so the owners
//! that it waits for form a chain. A wait that would close a ring finds its own owner at the end of
//! the chain. A key is handed on to an owner that no longer waits, so handing on closes no ring.
//!
//! Invariants: an owner is in `waiting` exactly while it is in the queue of that key. A waiter that
//! is no longer in a queue has the key. Nobody waits for a key that is not held.
//!
//! Thread safety: one mutex, a leaf, held for a few look-ups. A waiter sleeps on a condition
//! variable of its own. Not here: reads and writes under the locks.

use crate::manifest::KeyspaceId;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A key of a keyspace.
pub(crate) type LockedKey = (KeyspaceId, Box<[u8]>);

/// A transaction that takes locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LockOwner(u64);

/// The reason why a key was not locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotLocked {
    /// Another owner held it for the whole `patience`.
    TimedOut,
    /// The wait would never end: the key's owner waits, directly or through others, for a key of
    /// the asking owner.
    Deadlock,
}

/// The locks: see the module.
#[derive(Default)]
pub(crate) struct KeyLocks {
    owners: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    held: HashMap<LockedKey, Held>,
    waiting: HashMap<LockOwner, LockedKey>,
}

struct Held {
    owner: LockOwner,
    queue: VecDeque<(LockOwner, Arc<Condvar>)>,
}

impl KeyLocks {
    /// A new owner.
    pub(crate) fn owner(&self) -> LockOwner {
        // Relaxed: only the uniqueness of the numbers matters.
        LockOwner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Locks the key for `owner`, which waits for it up to `patience`. Returns whether the owner
    /// did not have it before.
    ///
    /// # Errors
    /// [`NotLocked`]; then nothing has changed.
    pub(crate) fn lock(
        &self,
        owner: LockOwner,
        key: &LockedKey,
        patience: Duration,
    ) -> Result<bool, NotLocked> {
        let mut table = self.table.lock();
        match table.held.get(key).map(|held| held.owner) {
            None => {
                let queue = VecDeque::new();
                table.held.insert(key.clone(), Held { owner, queue });
                return Ok(true);
            }
            Some(holder) if holder == owner => return Ok(false),
            Some(_) if table.waits_for(key, owner) => return Err(NotLocked::Deadlock),
            Some(_) => {}
        }
        let signal = Arc::new(Condvar::new());
        if let Some(held) = table.held.get_mut(key) {
            held.queue.push_back((owner, signal.clone()));
        }
        table.waiting.insert(owner, key.clone());
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timed_out = signal.wait_for(&mut table, left).timed_out();
            if !table.waiting.contains_key(&owner) {
                return Ok(true);
            }
            if timed_out {
                table.give_up(owner, key);
                return Err(NotLocked::TimedOut);
            }
        }
    }

    /// Releases the keys of `owner`, each to its first waiter.
    pub(crate) fn unlock(&self, owner: LockOwner, keys: Vec<LockedKey>) {
        if keys.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        for key in keys {
            let next = table.held.get_mut(&key).and_then(|held| {
                assert_eq!(held.owner, owner, "only its owner unlocks a key");
                held.queue.pop_front()
            });
            let Some((next, signal)) = next else {
                table.held.remove(&key);
                continue;
            };
            if let Some(held) = table.held.get_mut(&key) {
                held.owner = next;
            }
            table.waiting.remove(&next);
            signal.notify_one();
        }
    }
}

impl Table {
    /// Whether the owner of `key` waits, directly or through others, for `owner`. The chain ends,
    /// because no wait that would have closed a ring was allowed.
    fn waits_for(&self, key: &LockedKey, owner: LockOwner) -> bool {
        let mut key = key;
        while let Some(held) = self.held.get(key) {
            if held.owner == owner {
                return true;
            }
            match self.waiting.get(&held.owner) {
                Some(next) => key = next,
                None => return false,
            }
        }
        false
    }

    /// Removes a waiter from the queue.
    fn give_up(&mut self, owner: LockOwner, key: &LockedKey) {
        self.waiting.remove(&owner);
        if let Some(held) = self.held.get_mut(key) {
            held.queue.retain(|(waiter, _)| *waiter != owner);
        }
    }
}

#[cfg(all(test, evendb_loom))]
mod models;

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::sync::thread;

    const LONG: Duration = Duration::from_secs(60);

    fn key(name: &str) -> LockedKey {
        (KeyspaceId(1), name.as_bytes().into())
    }

    fn waits(locks: &KeyLocks, count: usize) {
        while locks.table.lock().waiting.len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_key_is_handed_on_in_the_order_of_asking() {
        let locks = &KeyLocks::default();
        let first = locks.owner();
        assert_eq!(locks.lock(first, &key("x"), LONG), Ok(true));
        assert_eq!(locks.lock(first, &key("x"), LONG), Ok(false));
        let order = &Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let owner = locks.owner();
                    assert_eq!(locks.lock(owner, &key("x"), LONG), Ok(true));
                    order.lock().push(number);
                    locks.unlock(owner, vec![key("x")]);
                });
                waits(locks, number + 1);
            }
            locks.unlock(first, vec![key("x")]);
        });
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
        let table = locks.table.lock();
        assert!(table.held.is_empty() && table.waiting.is_empty());
    }

    #[test]
    fn the_wait_that_would_close_a_ring_is_refused() {
        let locks = &KeyLocks::default();
        let owners: Vec<LockOwner> = (0..3).map(|_| locks.owner()).collect();
        let keys = ["a", "b", "c"].map(key);
        for (&owner, key) in owners.iter().zip(&keys) {
            locks.lock(owner, key, LONG).unwrap();
        }
        thread::scope(|scope| {
            // The first waits for the second, and the second for the third.
            for n in 0..2 {
                let (owner, own, next) = (owners[n], keys[n].clone(), keys[n + 1].clone());
                scope.spawn(move || {
                    assert_eq!(locks.lock(owner, &next, LONG), Ok(true));
                    locks.unlock(owner, vec![own, next]);
                });
            }
            waits(locks, 2);
            let refused = locks.lock(owners[2], &keys[0], LONG);
            assert_eq!(refused, Err(NotLocked::Deadlock));
            locks.unlock(owners[2], vec![keys[2].clone()]);
        });
        assert!(locks.table.lock().held.is_empty());
    }

    #[test]
    fn patience_ends_and_leaves_nothing_behind() {
        let locks = KeyLocks::default();
        let (first, second) = (locks.owner(), locks.owner());
        locks.lock(first, &key("x"), LONG).unwrap();
        let refused = locks.lock(second, &key("x"), Duration::ZERO);
        assert_eq!(refused, Err(NotLocked::TimedOut));
        assert!(locks.table.lock().waiting.is_empty());
        locks.unlock(first, vec![key("x")]);
        assert_eq!(locks.lock(second, &key("x"), Duration::ZERO), Ok(true));
    }
}
