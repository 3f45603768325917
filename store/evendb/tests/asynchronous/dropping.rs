//! Dropping futures at every poll, and handles in wakers.

use super::executor::{Counter, at_once, block_on, poll_once, until};
use super::files::{Files, key};
use crate::common::DIR;
use evendb::{Db, Durability, GetFuture};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// A3: a transaction's future is dropped after 0, 1, 2, ... polls. Another task's put through the
/// same handle is there each time, and nothing or all of what was dropped.
#[test]
fn a03_dropped_at_each_poll() {
    for polls in 0..4 {
        for held in [false, true] {
            let files = Files::new();
            let db = files.open(Durability::Sync);
            files.hold_syncs(held);
            let mut transaction = db.transaction().unwrap();
            for name in ["a", "b", "c"] {
                transaction.put(db.default_keyspace(), name, "1").unwrap();
            }
            let mut commit = transaction.commit_async();
            let mut done = false;
            for _ in 0..polls {
                done = done || poll_once(&mut commit).is_ready();
            }
            drop(commit);
            files.hold_syncs(false);
            db.put("other", "1").unwrap();
            let crashed = files.sim.crash(evendb::vfs::CrashMode::PowerLossNothing);
            let again = Files::of(crashed).open(Durability::Sync);
            let count = again.iter().count();
            let expected = if polls == 0 { 1 } else { 4 };
            assert_eq!(count, expected, "{polls} polls, held: {held}");
            assert_eq!(again.get("other").unwrap().unwrap(), "1");
            assert!(!done || polls > 0);
        }
    }
}

/// A2: a put that was polled and dropped is written before the next one.
#[test]
fn a02_a_dropped_put_does_not_come_later() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    for value in ["1", "2"] {
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "k", value);
        assert!(poll_once(batch.commit_async()).is_pending());
    }
    files.hold_syncs(false);
    assert_eq!(db.get("k").unwrap().unwrap(), "2");
    db.close().unwrap();
    let again = files.open(Durability::Sync);
    assert_eq!(again.get("k").unwrap().unwrap(), "2");
}

/// A waker that owns a handle, and drops it when it is woken.
struct Owner(Mutex<Option<Db>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// Polls with a waker that owns the last handle of the database, and drops all else.
fn poll_as_owner<F: Future>(future: F, db: Db) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let owner = Waker::from(Arc::new(Owner(Mutex::new(Some(db)))));
    let polled = future.as_mut().poll(&mut Context::from_waker(&owner));
    assert!(polled.is_pending());
    future
}

/// A8: the last handle goes in a waker, on a reader's thread and on the syncer's: no thread waits
/// for itself, and the directory is free afterwards.
#[test]
fn a08_the_last_handle_is_dropped_in_a_waker() {
    let files = Files::new();
    let opens = || {
        let opened = files.options(Durability::Sync, 1).open(DIR);
        opened.is_ok()
    };
    let db = files.cold(10, || files.options(Durability::Sync, 1));
    files.hold_reads(true);
    let get = poll_as_owner(db.get_async(key(1)), db);
    until("a read stands", || files.standing() > 0);
    // With the future its waker goes: the read alone keeps the database open.
    drop(get);
    files.hold_reads(false);
    until("the lock is free", opens);

    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), "k", "v");
    let commit = poll_as_owner(batch.commit_async(), db);
    std::mem::forget(commit);
    files.hold_syncs(false);
    // The forgotten future has a handle for ever, so this one stays open.
    assert!(!opens());
}

/// A8: the same, where the future and the handle are parts of one thing that the waker drops.
#[test]
fn a08_the_waker_drops_the_future_and_the_last_handle() {
    struct Task(Mutex<Option<(Pin<Box<dyn Future<Output = ()> + Send>>, Db)>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let task = self.0.lock().unwrap().take();
            drop(task);
        }
    }
    for on_syncer in [true, false] {
        let files = Files::new();
        let db = files.cold(10, || files.options(Durability::Sync, 1));
        files.hold_reads(!on_syncer);
        files.hold_syncs(on_syncer);
        let own = db.clone();
        let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = match on_syncer {
            true => {
                drop(own);
                let mut batch = db.batch();
                batch.put(db.default_keyspace(), "k", "v");
                Box::pin(async move { batch.commit_async().await.unwrap() })
            }
            false => Box::pin(async move { drop(own.get_async(key(1)).await) }),
        };
        let task = Arc::new(Task(Mutex::new(None)));
        let waker = Waker::from(task.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        *task.0.lock().unwrap() = Some((future, db));
        drop(waker);
        files.hold_reads(false);
        files.hold_syncs(false);
        until("the lock is free", || {
            files.options(Durability::Sync, 1).open(DIR).is_ok()
        });
    }
}

/// A19: dropping futures returns at once, whatever the read does.
#[test]
fn a19_dropping_does_not_wait_for_the_read() {
    let files = Files::new();
    let db = files.cold(100, || files.options(Durability::Process, 1));
    files.hold_reads(true);
    let mut gets: Vec<GetFuture> = (0..50).map(|n| db.get_async(key(n))).collect();
    for get in &mut gets {
        assert!(poll_once(get).is_pending());
    }
    until("a read stands", || files.standing() > 0);
    // This thread would stand here for ever if it waited.
    drop(gets);
    files.hold_reads(false);
    // Close waits for reads under way, and then the directory is free.
    db.close().unwrap();
    files.open(Durability::Process);
}

/// A waker is woken once, and a future that was dropped wakes nobody.
#[test]
fn a_dropped_future_wakes_nobody() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    let (gone, there) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let mut commits = Vec::new();
    for counter in [&gone, &there] {
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "k", "v");
        let mut commit = batch.commit_async();
        let waker = Waker::from(counter.clone());
        let polled = Pin::new(&mut commit).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        commits.push(commit);
    }
    drop(commits.remove(0));
    assert_eq!(Arc::strong_count(&gone), 1, "its waker is kept");
    files.hold_syncs(false);
    until("it is woken", || there.0.load(Ordering::SeqCst) == 1);
    at_once(commits.remove(0)).unwrap();
    assert_eq!(gone.0.load(Ordering::SeqCst), 0);
}

/// The code of a waker may look at the database.
#[test]
fn a_waker_may_call_the_database() {
    struct Calls(Db, Mutex<Option<evendb::Result<()>>>);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            let called = self
                .0
                .put("from", "the waker")
                .and_then(|()| self.0.flush());
            let closed = self.0.clone().close();
            assert_eq!(
                closed.unwrap_err().kind(),
                evendb::ErrorKind::InvalidArgument
            );
            *self.1.lock().unwrap() = Some(called);
        }
    }
    let files = Files::new();
    let db = files.open(Durability::Sync);
    files.hold_syncs(true);
    let calls = Arc::new(Calls(db.clone(), Mutex::new(None)));
    let mut persist = db.persist_async();
    db.default_keyspace();
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), "k", "v");
    let mut commit = batch.commit_async();
    let waker = Waker::from(calls.clone());
    let polled = Pin::new(&mut commit).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    assert!(poll_once(&mut persist).is_pending());
    files.hold_syncs(false);
    until("it has called", || calls.1.lock().unwrap().is_some());
    calls.1.lock().unwrap().take().unwrap().unwrap();
    block_on(commit).unwrap();
    assert_eq!(db.get("from").unwrap().unwrap(), "the waker");
}
