//! Wakers of feeds that call the database from `wake`: whatever made them due (a write, a
//! checkpoint, a failure under the database's locks), they run while it holds none.

#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]
#![expect(clippy::disallowed_types, reason = "no model runs this")]

mod common;

use common::DIR;
use common::following::{LAYOUTS, WITH_LOG, small};
use evendb::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Changes, Db, Durability, ErrorKind, Options};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Longer than any of these calls takes, however busy the machine is; a waker that waits for a lock
/// of its own thread waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Uses the database in `wake`, and tells when that is over, with the kind of the last error.
struct Calls {
    db: Mutex<Option<Db>>,
    tell: Mutex<mpsc::Sender<Option<ErrorKind>>>,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let Some(db) = self.db.lock().unwrap().take() else {
            return;
        };
        let _ = db.get("k");
        let _ = db.put("woken", "1");
        let transacted: evendb::Result<()> = db.transact(|transaction| {
            transaction.get_for_update(db.default_keyspace(), "locked")?;
            transaction.put(db.default_keyspace(), "locked", "w")?;
            Ok(())
        });
        let _ = transacted;
        // Takes the mutex of checkpoints, and the latch of every chunk that is dirty.
        let flushed = db.flush().and_then(|()| db.compact().map(drop));
        let told = flushed.err().map(|error| error.kind());
        self.tell.lock().unwrap().send(told).unwrap();
    }
}

/// A feed whose task waits, and what its waker tells.
fn waiting(db: &Db) -> (Changes, mpsc::Receiver<Option<ErrorKind>>) {
    let (tell, told) = mpsc::channel();
    let calls = Calls {
        db: Mutex::new(Some(db.clone())),
        tell: Mutex::new(tell),
    };
    let waker = Waker::from(Arc::new(calls));
    let mut feed = db.changes_since(&db.position().unwrap()).unwrap();
    assert!(matches!(
        feed.poll_next(&mut Context::from_waker(&waker)),
        Poll::Pending
    ));
    (feed, told)
}

/// Does `what` in a thread of its own, so that a call that hangs fails the test.
fn in_time(what: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        what();
        let _ = tell.send(());
    });
    match told.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a call waits for itself"),
        _ => thread.join().unwrap(),
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

fn each_kind(mut test: impl FnMut(&SimVfs, Options)) {
    for layout in LAYOUTS {
        for level in WITH_LOG {
            for workers in [0, 2] {
                for mapped in [true, false] {
                    let vfs = SimVfs::new(1);
                    let options = small(layout, level, workers)
                        .vfs(Arc::new(vfs.clone()))
                        .advanced(|advanced| {
                            advanced
                                .commit_log_mapped(mapped)
                                .keep_changes_bytes(64 << 10)
                        });
                    test(&vfs, options);
                }
            }
        }
    }
}

/// Each of the calls that make a change: no lock is held when it wakes, and neither is a key of the
/// transaction that has just been committed.
#[test]
fn a_waker_of_a_write_may_write_and_checkpoint() {
    each_kind(|_, options| {
        let db = options.open(DIR).unwrap();
        for way in 0..5 {
            let (feed, told) = waiting(&db);
            let own = db.clone();
            in_time(move || match way {
                0 => own.put("k", "v").unwrap(),
                1 => {
                    let mut batch = own.batch();
                    batch.put(own.default_keyspace(), "k", "v");
                    batch.durability(Durability::Sync);
                    batch.commit().unwrap();
                }
                2 => {
                    let mut transaction = own.transaction().unwrap();
                    let keyspace = own.default_keyspace();
                    transaction.get_for_update(keyspace, "locked").unwrap();
                    transaction.put(keyspace, "locked", "v").unwrap();
                    transaction.commit().unwrap();
                }
                3 => {
                    let mut transaction = own.transaction().unwrap();
                    let keyspace = own.default_keyspace();
                    transaction.get_for_update(keyspace, "locked").unwrap();
                    transaction.put(keyspace, "locked", "v").unwrap();
                    block_on(transaction.commit_async()).unwrap();
                }
                _ => {
                    own.put("k", "v").unwrap();
                    own.flush().unwrap();
                }
            });
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), None, "way {way}");
            drop(feed);
        }
        db.close().unwrap();
    });
}

/// Failures come under the mutex of checkpoints and under latches of chunks.
#[test]
fn a_waker_of_a_failure_may_call_the_database() {
    let mut failures = 0;
    for on in [FaultOn::Sync, FaultOn::Change] {
        each_kind(|vfs, options| {
            for checkpoints in [true, false] {
                let vfs = vfs.clone();
                let dir = format!("{DIR}-{checkpoints}");
                let db = options.clone().open(&dir).unwrap();
                db.put("k", "v").unwrap();
                let (feed, told) = waiting(&db);
                vfs.inject(Fault {
                    at: 0,
                    on,
                    kind: FaultKind::Eio,
                    sticky: true,
                    path_contains: Some(dir.clone()),
                });
                let own = db.clone();
                in_time(move || {
                    let failed = match checkpoints {
                        true => own.flush(),
                        false => (own.put("k", "w")).and_then(|()| own.persist()),
                    };
                    failed.unwrap_err();
                });
                let kind = told.recv_timeout(PATIENCE).unwrap();
                match kind {
                    Some(ErrorKind::Latched) => failures += 1,
                    // A put into a mapped log woke it.
                    kind => assert_eq!((kind, checkpoints), (Some(ErrorKind::Io), false)),
                }
                drop(feed);
                let _ = db.close();
                vfs.clear_faults();
            }
        });
    }
    // Each checkpoint, and each write to the file of the log.
    assert!(failures >= 32 + 8, "{failures}");
}
