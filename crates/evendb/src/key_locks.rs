//! Locks on keys, which transactions hold from `get_for_update` to their end.
//!
//! ```text
//! held     key -> owner, and those that wait for the key, first come first served
//! waiting  owner -> the key that it waits for
//!
//!          A holds x, waits for y --> B holds y, waits for x      B's call ends with Deadlock
//! ```
//! These locks order transactions that ask for them, and nothing else: puts, and transactions that only get, take no
//! notice. What makes a transaction right is the look at its reads when it commits (`write/reads.rs`). A lock only
//! saves it from doing its work in vain.
//!
//! **Deadlocks** are found when a wait begins. Each owner waits for one key at most, so the owners that it waits for form
//! a chain, and a wait that would close a ring finds itself at the end of the chain. A key that is handed on goes to an
//! owner that no longer waits, so handing on closes no ring.
//!
//! Invariants: an owner is in `waiting` exactly while it is in the queue of that key; who is not in a queue any more has
//! the key. Nobody waits for a key that is not held.
//!
//! Thread safety: one mutex, held for a few look-ups, a leaf. A waiter sleeps on a condition variable of its own. Not
//! here: what is read and written under the locks.

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

/// Why a key was not locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotLocked {
    /// Another owner kept it for so long.
    TimedOut,
    /// Waiting for it would never end: its owner waits, through others perhaps, for a key of the one that asks.
    Deadlock,
}

/// See the module.
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
        // Relaxed: only that each is another one.
        LockOwner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Locks the key for `owner`, which waits for it up to so long. Whether the owner did not have it yet.
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

    /// Gives up the keys, which `owner` holds, each to the first that waits for it.
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
    /// Whether the owner of `key` waits, through others perhaps, for `owner`. The chain ends, because nobody was let
    /// wait who would have closed a ring.
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

    /// Takes a waiter out of the queue.
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
