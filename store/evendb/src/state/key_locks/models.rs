//! L13: a key has one owner at a time and is handed on, and a wait that was given up leaves
//! nothing.

use super::*;
use crate::sync::thread;

fn key(name: &str) -> LockedKey {
    (KeyspaceId(1), name.as_bytes().into())
}

/// Locks the key, however often the wait times out.
fn lock(locks: &KeyLocks, owner: LockOwner, key: &LockedKey) {
    while locks.lock(owner, key, Duration::ZERO).is_err() {
        thread::yield_now();
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn assert_empty(locks: &KeyLocks) {
    let table = locks.table.lock();
    assert!(table.held.is_empty(), "a key is still held");
    assert!(table.waiting.is_empty(), "an owner still waits");
}

#[test]
fn loom_l13_one_owner_at_a_time() {
    check(|| {
        let locks = Arc::new(KeyLocks::default());
        let inside = Arc::new(AtomicU64::new(0));
        let turn = |locks: &KeyLocks, inside: &AtomicU64| {
            let owner = locks.owner();
            lock(locks, owner, &key("x"));
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two owners");
            inside.fetch_sub(1, Ordering::Relaxed);
            locks.unlock(owner, vec![key("x")]);
        };
        let other = {
            let (locks, inside) = (locks.clone(), inside.clone());
            thread::spawn(move || turn(&locks, &inside))
        };
        turn(&locks, &inside);
        other.join().unwrap();
        assert_empty(&locks);
    });
}

/// Two keys in both orders: one of the two threads is refused or gives up, and then both succeed.
#[test]
fn loom_l13_opposite_orders() {
    check(|| {
        let locks = Arc::new(KeyLocks::default());
        let both = |locks: &KeyLocks, first: &str, second: &str| {
            let owner = locks.owner();
            lock(locks, owner, &key(first));
            let second = key(second);
            match locks.lock(owner, &second, Duration::ZERO) {
                Ok(new) => {
                    assert!(new, "the key was not its own");
                    locks.unlock(owner, vec![key(first), second]);
                }
                Err(_) => locks.unlock(owner, vec![key(first)]),
            }
        };
        let other = {
            let locks = locks.clone();
            thread::spawn(move || both(&locks, "x", "y"))
        };
        both(&locks, "y", "x");
        other.join().unwrap();
        assert_empty(&locks);
    });
}
