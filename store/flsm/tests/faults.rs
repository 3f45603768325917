//! Operations that fail, and full disks: the error of a call, and the contents afterwards.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::life::{Life, end_of, modes};
use common::{DIR, LEVELS, count_from_env, scramble, tiny_on};
use evendb_flsm::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb_flsm::{Db, Durability, Error, ErrorKind};
use std::thread;
use std::time::Duration;

fn fault(at: u64, on: FaultOn, kind: FaultKind, path: &str) -> Fault {
    Fault {
        at,
        on,
        kind,
        sticky: false,
        path_contains: Some(path.to_owned()),
    }
}

fn put_many(db: &Db, from: u32, count: u32) -> Result<(), (u32, Error)> {
    for number in from..from + count {
        let value = vec![number as u8; 60];
        db.put(number.to_le_bytes(), value)
            .map_err(|error| (number, error))?;
    }
    Ok(())
}

/// Checks that exactly the first `count` keys exist.
fn check(db: &Db, count: u32) {
    let mut keys: Vec<u32> = db
        .keys::<&[u8]>(..)
        .map(|key| u32::from_le_bytes(key.unwrap()[..].try_into().unwrap()))
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..count).collect::<Vec<_>>());
}

#[test]
fn a_log_that_cannot_be_written_or_synced_latches() {
    for (level, on, kind) in [
        (Durability::Process, FaultOn::Change, FaultKind::Eio),
        (Durability::Process, FaultOn::Change, FaultKind::ShortWrite),
        (Durability::Sync, FaultOn::Sync, FaultKind::Eio),
        (
            Durability::Sync,
            FaultOn::Sync,
            FaultKind::SyncFailsThenClean,
        ),
        (Durability::Sync, FaultOn::Sync, FaultKind::NoSpace),
    ] {
        let vfs = SimVfs::new(1);
        let db = tiny_on(&vfs, level, 1).open(DIR).unwrap();
        put_many(&db, 0, 10).unwrap();
        vfs.inject(fault(3, on, kind, "LOG-"));
        let (failed_at, error) = put_many(&db, 10, 20).unwrap_err();
        assert!(
            [ErrorKind::Io, ErrorKind::NoSpace].contains(&error.kind()),
            "{error:?}"
        );
        // Reads go on, writes do not.
        check(&db, failed_at);
        for refused in [
            db.put("k", "v").unwrap_err(),
            db.batch_of_one().unwrap_err(),
            db.flush().unwrap_err(),
            db.persist().unwrap_err(),
            db.keyspace("new").err().unwrap(),
            db.drop_keyspace("new").unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::Latched, "{refused:?}");
        }
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Latched);
        // Acknowledged writes exist after the next opening, whatever the end was.
        for mode in [CrashMode::Process, CrashMode::PowerLossAll] {
            let db = tiny_on(&vfs.crash(mode), level, 2).open(DIR).unwrap();
            let count = db.iter().count() as u32;
            assert!(count >= failed_at, "{count} of {failed_at}");
            check(&db, count);
        }
    }
}

trait BatchOfOne {
    fn batch_of_one(&self) -> Result<(), Error>;
}

impl BatchOfOne for Db {
    fn batch_of_one(&self) -> Result<(), Error> {
        let mut batch = self.batch();
        batch.put(self.default_keyspace(), "k", "v");
        batch.commit()
    }
}

#[test]
fn a_log_without_room_refuses_a_write_and_takes_the_next() {
    for level in [Durability::Process, Durability::Sync] {
        let vfs = SimVfs::new(1);
        let db = tiny_on(&vfs, level, 1).open(DIR).unwrap();
        put_many(&db, 0, 10).unwrap();
        vfs.inject(fault(0, FaultOn::Change, FaultKind::NoSpace, "LOG-"));
        let error = db.put("k", "v").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        check(&db, 10);
        put_many(&db, 10, 5).unwrap();
        check(&db, 15);
        let db = tiny_on(&vfs.crash(CrashMode::Process), level, 2)
            .open(DIR)
            .unwrap();
        check(&db, 15);
    }
}

/// Each operation of a flush or compaction fails once: for good, or for lack of room.
#[test]
fn background_work_that_fails_loses_nothing() {
    let stride = count_from_env("EVENDB_FLSM_FAULT_STRIDE", 37).min(5);
    let (mut latched, mut waited) = (0, 0);
    for (kind, level) in [FaultKind::Eio, FaultKind::NoSpace]
        .into_iter()
        .flat_map(|kind| LEVELS.map(|level| (kind, level)))
    {
        for at in (0..250).step_by(stride as usize) {
            let vfs = SimVfs::new(at);
            let db = tiny_on(&vfs, level, at).open(DIR).unwrap();
            put_many(&db, 0, 50).unwrap();
            vfs.inject(Fault {
                path_contains: None,
                ..fault(at, FaultOn::Change, kind, "")
            });
            let mut written = 50;
            let mut ended = None;
            while written < 450 {
                match put_many(&db, written, 1) {
                    Ok(()) => written += 1,
                    Err((_, error)) if error.kind() == ErrorKind::NoSpace => waited += 1,
                    Err((_, error)) => {
                        ended = Some(error);
                        break;
                    }
                }
            }
            let settled = db.settle_debt();
            check(&db, written);
            match (&ended, &settled) {
                (None, Ok(())) => {}
                (None, Err(error)) if error.kind() == ErrorKind::NoSpace => {
                    db.settle_debt().unwrap();
                    waited += 1;
                }
                _ => {
                    assert!(matches!(
                        db.put("k", "v").unwrap_err().kind(),
                        ErrorKind::Latched
                    ));
                    latched += 1;
                }
            }
            check(&db, written);
            let is_well = db.persist().is_ok();
            drop(db);
            let machine = vfs.crash(CrashMode::Process);
            let db = tiny_on(&machine, level, at + 1).open(DIR).unwrap();
            if is_well || level > Durability::Relaxed {
                // The failed write may have reached the log.
                let count = db.iter().count() as u32;
                assert!(
                    (written..=written + 1).contains(&count),
                    "{count} of {written}"
                );
            }
        }
    }
    println!("{latched} latched, {waited} waited for room");
    assert!(latched > 20 && waited > 5, "{latched} {waited}");
}

/// Which operations fail, how, and whether for good.
const FAULTS: [(FaultOn, FaultKind, bool); 10] = [
    (FaultOn::Change, FaultKind::Eio, false),
    (FaultOn::Change, FaultKind::Eio, true),
    (FaultOn::Change, FaultKind::NoSpace, false),
    (FaultOn::Change, FaultKind::NoSpace, true),
    (FaultOn::Change, FaultKind::ShortWrite, false),
    (FaultOn::Sync, FaultKind::SyncFailsThenClean, false),
    (FaultOn::Sync, FaultKind::SyncFullThenClean, false),
    (FaultOn::Read, FaultKind::Eio, false),
    (FaultOn::Read, FaultKind::Eio, true),
    (FaultOn::Lookup, FaultKind::Eio, false),
];

/// Each operation of a workload fails, in each way. Calls report it, reads show the acknowledged
/// writes, and so does the next opening, whatever the end was.
#[test]
fn an_error_at_any_operation_loses_nothing() {
    let stride = count_from_env("EVENDB_FLSM_FAULT_STRIDE", 37);
    let (mut faults, mut told) = (0, 0);
    for (which, level) in (0..FAULTS.len()).flat_map(|which| LEVELS.map(|level| (which, level))) {
        let mut silent = 0;
        for at in (0..).step_by(stride as usize) {
            let (operations, errors) = fail_at(which, level, at);
            faults += 1;
            told += u64::from(errors > 0);
            silent = if errors > 0 { 0 } else { silent + 1 };
            // A file that cannot be removed is not reported; every other failure is.
            let is_over = match FAULTS[which].0 {
                FaultOn::Change => at > operations,
                _ => silent * stride > 40,
            };
            if is_over {
                break;
            }
        }
    }
    println!("{faults} faults, {told} told");
    assert!(told * 4 > faults, "{told} of {faults}");
}

/// Returns the number of operations, and the number of calls that failed.
fn fail_at(which: usize, level: Durability, at: u64) -> (u64, u64) {
    let (on, kind, sticky) = FAULTS[which];
    let place = format!("{on:?} {kind:?} {sticky} {level:?} at {at}");
    println!("{place}");
    let vfs = SimVfs::new(at);
    let mut life = Life::new(&vfs, level, scramble(at ^ which as u64));
    vfs.inject(Fault {
        at,
        on,
        kind,
        sticky,
        path_contains: None,
    });
    let mut errors = 0;
    let mut outcome = life.open();
    for _ in 0..70 {
        if let Err(error) = &outcome {
            errors += 1;
            if [FaultOn::Read, FaultOn::Lookup].contains(&on) {
                vfs.clear_faults();
            }
            if !life.goes_on_after(error) {
                break;
            }
        }
        outcome = life.step();
    }
    let operations = vfs.op_count();
    vfs.clear_faults();
    for (index, mode) in modes(at).into_iter().enumerate() {
        if index == 2 {
            life.abandon();
        }
        let mut next = life.next(&vfs.crash(mode), at);
        next.recover(end_of(mode))
            .unwrap_or_else(|what| panic!("{place}, then {mode:?}: {what}"));
        for _ in 0..5 {
            next.step().unwrap();
        }
        next.abandon();
    }
    (operations, errors)
}

/// There is room again. A flush that found no room before may report it only now. A call may be
/// refused for no other reason.
fn with_room(mut call: impl FnMut() -> Result<(), Error>) {
    let mut refused = 0;
    while let Err(error) = call() {
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
        refused += 1;
        assert!(refused < 1_000, "{error:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The disk fills up: writes are refused and reads go on. When there is room again, writes go on,
/// too.
#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    for level in LEVELS {
        let vfs = SimVfs::new(3);
        let db = tiny_on(&vfs, level, 3).open(DIR).unwrap();
        put_many(&db, 0, 100).unwrap();
        vfs.set_capacity(vfs.used_bytes() + (8 << 10));
        let mut written = 100;
        let error = loop {
            match put_many(&db, written, 1) {
                Ok(()) => written += 1,
                Err((_, error)) => break error,
            }
            assert!(written < 5_000, "it is never full");
        };
        if error.kind() == ErrorKind::NoSpace {
            check(&db, written);
            vfs.set_capacity(u64::MAX);
            for number in written..written + 201 {
                with_room(|| put_many(&db, number, 1).map_err(|(_, error)| error));
            }
            written += 201;
            with_room(|| db.settle_debt());
            check(&db, written);
            db.close().unwrap();
        } else {
            // The manifest found no room: nothing more is written in this life.
            assert_eq!(error.kind(), ErrorKind::Latched);
            vfs.set_capacity(u64::MAX);
            drop(db);
        }
        let db = tiny_on(&vfs.crash(CrashMode::Process), level, 4)
            .open(DIR)
            .unwrap();
        if level > Durability::Relaxed {
            check(&db, written);
        }
    }
}
