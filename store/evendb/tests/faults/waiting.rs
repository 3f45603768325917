//! Puts that wait for room which does not come.

use crate::common;
use evendb::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Durability, ErrorKind};

/// Fails the test if `work` is not done in time: it may wait for ever.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(work())));
    match wait.recv_timeout(std::time::Duration::from_secs(300)) {
        Ok(outcome) => {
            thread.join().expect("no panic");
            outcome
        }
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it panicked"))
        }
        Err(_) => panic!("{what}: waits for ever"),
    }
}

pub fn no_room_in_the_logs(at: u64, sticky: bool) -> Fault {
    Fault {
        at,
        on: FaultOn::Room,
        kind: FaultKind::NoSpace,
        sticky,
        path_contains: Some("CHUNK-LOGS".into()),
    }
}

/// Puts that wait for a checkpoint which finds no room get an error, all of them, and soon.
#[test]
fn puts_that_wait_for_a_checkpoint_without_room_are_refused() {
    let _chunks = common::is_about_chunks();
    for (level, workers) in [
        (Durability::Process, 1),
        (Durability::Sync, 1),
        (Durability::Relaxed, 1),
        (Durability::Process, 0),
    ] {
        let place = format!("{level:?} {workers} workers");
        let vfs = SimVfs::new(1);
        let options = common::on_sim(&vfs, level, workers);
        let db = options.open(common::DIR).expect("opens");
        db.put("before", "value").expect("puts");
        db.flush().expect("there is room");
        // The reserved room stays, so puts are admitted, until the ring or the deltas are full.
        vfs.inject(no_room_in_the_logs(0, true));
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let db = db.clone();
                std::thread::spawn(move || {
                    for number in 0..20_000 {
                        if let Err(error) = db.put(format!("{writer}/{number:05}"), [7; 100]) {
                            return (number, error);
                        }
                    }
                    panic!("room without end")
                })
            })
            .collect();
        let outcomes = in_time(&place, move || {
            let join = writers.into_iter().map(|writer| writer.join());
            join.map(|outcome| outcome.expect("no panic"))
                .collect::<Vec<_>>()
        });
        for (_, error) in &outcomes {
            let message = error.to_string();
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
            for part in ["CHUNK-LOGS", "free space"] {
                assert!(message.contains(part), "{place}: {message}");
            }
        }
        // A put that asks for more than there is does not wait either.
        let own = db.clone();
        let raised = in_time(&place, move || {
            let mut batch = own.batch();
            batch.durability(Durability::Sync);
            batch.put(own.default_keyspace(), "raised", "value");
            batch.commit()
        });
        if level == Durability::Relaxed
            && let Err(error) = &raised
        {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
        }
        // Reads continue, nothing latched, and with room everything continues.
        assert!(db.get("before").expect("gets").is_some());
        vfs.clear_faults();
        let own = db.clone();
        in_time(&place, move || {
            while let Err(error) = own.put("after", "value") {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
                std::thread::yield_now();
            }
            own.flush().expect("there is room again");
        });
        for (writer, (count, _)) in outcomes.iter().enumerate() {
            let there = db.prefix(format!("{writer}/")).count();
            assert_eq!(there, *count, "{place}: writer {writer}");
        }
        db.close().expect("closes");
    }
}

/// A disk is short of room for one operation, and the room kept back replaces it: no waiting put
/// gets an error.
#[test]
fn a_moment_without_room_refuses_nobody() {
    for at in 0..40 {
        for workers in [0, 1] {
            let vfs = SimVfs::new(at);
            let options = common::on_sim(&vfs, Durability::Process, workers);
            let db = options.open(common::DIR).expect("opens");
            db.put("before", "value").expect("puts");
            db.flush().expect("lays the ballast down");
            vfs.inject(no_room_in_the_logs(at, false));
            in_time("puts", move || {
                for number in 0..3_000 {
                    db.put(format!("{number:05}"), [7; 100])
                        .unwrap_or_else(|error| panic!("fault {at}, put {number}: {error:?}"));
                }
            });
        }
    }
}

/// The system may call pages clean that a sync did not write for want of room, in a file that
/// others write to: such a sync counts as failed, and is not tried again.
#[test]
fn a_sync_of_the_logs_that_finds_no_room_stops_all_writes() {
    for kind in [FaultKind::NoSpace, FaultKind::SyncFullThenClean] {
        let vfs = SimVfs::new(1);
        let options = || common::on_sim(&vfs, Durability::Process, 0);
        let db = options().open(common::DIR).expect("opens");
        db.put("before", "value").expect("puts");
        let fault = no_room_in_the_logs(0, false);
        let on = FaultOn::Sync;
        vfs.inject(Fault { on, kind, ..fault });
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io, "{kind:?}");
        for refused in [db.flush(), db.put("after", "value")] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Latched, "{kind:?}");
        }
        assert!(db.get("before").expect("gets").is_some());
        vfs.clear_faults();
        drop(db);
        let db = options().open(common::DIR).expect("opens again");
        assert!(db.get("before").expect("gets").is_some());
        db.flush().expect("there is room again");
    }
}
