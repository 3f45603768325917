//! I/O errors at every operation of a workload, and full disks at every size.
//!
//! After an error: no panic, reads give the right answers, nothing acknowledged is lost, and a
//! database that has latched says so to every write. A full disk never latches; with room again
//! everything goes on. What is on the disk opens and is a legal prefix, whatever happens next.
//!
//! `EVENDB_FAULT_STRIDE` sets how many operations are left out between two faults (default 29; 1
//! is the full campaign), `EVENDB_CAPACITY_STRIDE` likewise for full disks, in pages.

mod common;

use common::oracle::End;
use common::workload::{Runner, Step, steps};
use common::{LEVELS, number_from_env, scramble};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Durability, Error, ErrorKind};

const STEPS: usize = 150;

/// A run up to its first latch or its end, with what may be asked of it.
struct Run {
    runner: Runner,
    place: String,
    /// Whether NoSpace is all that may happen, without the latch.
    full_disk: bool,
    errors: u64,
}

impl Run {
    fn new(seed: u64, level: Durability, place: String, full_disk: bool) -> Run {
        let vfs = SimVfs::new(seed);
        let runner = Runner::new(&vfs, level);
        Run {
            runner,
            place,
            full_disk,
            errors: 0,
        }
    }

    fn expect_kind(&mut self, error: &Error, doing: &str) {
        self.errors += 1;
        let allowed = match self.full_disk {
            true => error.kind() == ErrorKind::NoSpace,
            false => matches!(
                error.kind(),
                ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Latched
            ),
        };
        assert!(allowed, "{} {doing}: {error:?}", self.place);
    }

    /// Whether writes are refused for good.
    fn is_latched(&mut self) -> bool {
        match self.runner.db().persist() {
            Err(error) if error.kind() == ErrorKind::Latched => true,
            Err(error) => {
                self.expect_kind(&error, "asking for the latch");
                matches!(self.runner.db().persist(), Err(error) if error.kind() == ErrorKind::Latched)
            }
            Ok(()) => false,
        }
    }

    /// What reads say after a failed step is what was acknowledged, with or without that step.
    fn check_reads(&mut self, doing: &str) -> usize {
        let live = self.runner.oracle.check_live(self.runner.db());
        live.unwrap_or_else(|what| panic!("{} reads after {doing}: {what}", self.place))
    }

    /// Runs the steps until the database latches, cannot be opened again, or they end. Whether
    /// it is open and takes writes.
    fn run(&mut self, steps: &[Step], reads_fail: bool) -> bool {
        if let Err(error) = self.runner.open() {
            self.expect_kind(&error, "opening");
            return false;
        }
        for (index, step) in steps.iter().enumerate() {
            let Err(error) = self.runner.step(step) else {
                continue;
            };
            let doing = format!("step {index} {}", brief(step));
            self.expect_kind(&error, &doing);
            if self.runner.db.is_none() {
                return false;
            }
            if reads_fail {
                self.runner.vfs.clear_faults();
            }
            let visible = self.check_reads(&doing);
            if self.is_latched() {
                self.refuses_writes(&steps[index..]);
                return false;
            }
            let names = self.runner.db().keyspace_names();
            let took_effect = self.runner.oracle.settle_pending(visible, &names);
            // Waiting for a checkpoint can fail after the write was done.
            let waited = self.runner.level == Durability::Relaxed;
            let refused = error.kind() == ErrorKind::NoSpace && !waited;
            assert!(
                !(refused && took_effect),
                "{} {doing}: {error} but took effect",
                self.place
            );
        }
        true
    }

    /// After the latch: writes say so, reads go on.
    fn refuses_writes(&mut self, steps: &[Step]) {
        assert!(!self.full_disk, "{}: a full disk latched", self.place);
        for step in steps.iter().take(6) {
            let writes = match step {
                Step::Write(writes, level) => Step::Write(writes.clone(), *level),
                Step::Flush | Step::Persist | Step::Settle => step.clone(),
                _ => continue,
            };
            let mut copy = self.runner.oracle.clone();
            std::mem::swap(&mut copy, &mut self.runner.oracle);
            self.runner.oracle.retract();
            let outcome = self.runner.step(&writes);
            std::mem::swap(&mut copy, &mut self.runner.oracle);
            match outcome {
                Ok(()) => assert!(
                    matches!(&writes, Step::Write(..)) && copy.nothing_begun(),
                    "{}: {} worked after the latch",
                    self.place,
                    brief(&writes)
                ),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Latched, "{}", self.place),
            }
        }
        self.check_reads("the latch");
    }

    /// What is on the disk opens, after the process died and after the power failed, and goes on.
    fn check_disk(&mut self, number: u64) {
        self.runner.vfs.clear_faults();
        self.runner.vfs.set_capacity(u64::MAX);
        // The machine stops first: dropping the database would close it in good order.
        drop(self.runner.vfs.crash(CrashMode::Process));
        self.runner.abandon();
        for (mode, end) in [
            (CrashMode::Process, End::Process),
            (CrashMode::PowerLossNothing, End::Power),
            (CrashMode::PowerLossAll, End::Power),
            (CrashMode::PowerLossRandom(number), End::Power),
        ] {
            let machine = self.runner.vfs.crash(mode);
            let place = format!("{} then {mode:?}", self.place);
            let oracle = self.runner.oracle.clone();
            let mut next = Runner::resume(&machine, self.runner.level, oracle);
            next.recover(end)
                .unwrap_or_else(|what| panic!("{place}: {what}"));
            for step in steps(number, 12) {
                next.step(&step)
                    .unwrap_or_else(|error| panic!("{place}: going on: {error:?}"));
            }
            next.abandon();
            // A power loss: what a failed sync left unwritten must not have been built upon.
            let machine = machine.crash(CrashMode::PowerLossNothing);
            let mut last = Runner::resume(&machine, self.runner.level, next.oracle.clone());
            last.recover(End::Power)
                .unwrap_or_else(|what| panic!("{place}: gone on: {what}"));
        }
    }
}

fn brief(step: &Step) -> String {
    match step {
        Step::Write(writes, level) => format!("write of {} {level:?}", writes.len()),
        other => format!("{other:?}"),
    }
}

/// How many operations and reads the workload has when nothing fails.
fn undisturbed(seed: u64, level: Durability) -> (u64, u64, u64) {
    let vfs = SimVfs::new(seed);
    let mut runner = Runner::new(&vfs, level);
    runner.open().expect("opens");
    for step in steps(seed, STEPS) {
        runner.step(&step).expect("nothing fails");
    }
    (vfs.op_count(), vfs.read_count(), vfs.used_bytes())
}

fn fault_at(seed: u64, level: Durability, fault: Fault) -> u64 {
    let place = format!("seed {seed} {level:?} {fault:?}");
    let mut run = Run::new(seed, level, place, false);
    let reads_fail = matches!(fault.on, FaultOn::Read | FaultOn::Lookup);
    run.runner.vfs.inject(fault.clone());
    run.run(&steps(seed, STEPS), reads_fail);
    run.check_disk(scramble(fault.at));
    run.errors
}

fn campaign(level: Durability, seed: u64) {
    let stride = number_from_env("EVENDB_FAULT_STRIDE", 29);
    let (operations, reads, _) = undisturbed(seed, level);
    let mut runs = 0;
    let mut errors = 0;
    for kind in [
        FaultKind::Eio,
        FaultKind::NoSpace,
        FaultKind::ShortWrite,
        FaultKind::SyncFailsThenClean,
    ] {
        for sticky in [false, true] {
            let on = FaultOn::Change;
            let mut at = scramble(seed + runs) % stride;
            while at < operations {
                let fault = Fault {
                    at,
                    on,
                    kind,
                    sticky,
                    path_contains: None,
                };
                errors += fault_at(seed, level, fault);
                runs += 1;
                at += stride;
            }
        }
    }
    for (on, count) in [(FaultOn::Read, reads), (FaultOn::Lookup, 200)] {
        for sticky in [false, true] {
            let mut at = scramble(seed + runs) % stride;
            while at < count {
                let kind = FaultKind::Eio;
                let fault = Fault {
                    at,
                    on,
                    kind,
                    sticky,
                    path_contains: None,
                };
                errors += fault_at(seed, level, fault);
                runs += 1;
                at += stride;
            }
        }
    }
    assert!(
        errors > runs / 4,
        "{errors} errors in {runs} runs: the faults do not hit"
    );
    println!(
        "{level:?}: {runs} faults of {operations} operations and {reads} reads, {errors} errors"
    );
}

#[test]
fn errors_relaxed() {
    campaign(Durability::Relaxed, 3);
}

#[test]
fn errors_process() {
    campaign(Durability::Process, 4);
}

#[test]
fn errors_sync() {
    campaign(Durability::Sync, 5);
}

/// The disk is full at one size: reads go on, nothing is lost, and with room all goes on.
fn disk_full_at(seed: u64, level: Durability, capacity: u64) -> bool {
    let place = format!("seed {seed} {level:?} capacity {capacity}");
    let mut run = Run::new(seed, level, place, true);
    run.runner.vfs.set_capacity(capacity);
    let all = steps(seed, STEPS);
    run.run(&all, false);
    let hit = run.errors > 0;
    run.runner.vfs.set_capacity(u64::MAX);
    if run.runner.db.is_none() {
        let place = &run.place;
        let opened = run.runner.recover(End::Process);
        opened.unwrap_or_else(|what| panic!("{place}: with room again: {what}"));
    }
    for step in steps(seed + 1000, 25) {
        let outcome = run.runner.step(&step);
        outcome.unwrap_or_else(|error| panic!("{}: with room again: {error:?}", run.place));
    }
    run.check_disk(capacity);
    hit
}

#[test]
fn disk_full_at_every_size() {
    let stride = number_from_env("EVENDB_CAPACITY_STRIDE", 5);
    let mut hits = 0;
    let mut runs = 0;
    for level in LEVELS {
        let seed = 6;
        let (_, _, used) = undisturbed(seed, level);
        for pages in (0..used / 4096 + 2).step_by(stride as usize) {
            hits += u64::from(disk_full_at(seed, level, pages * 4096));
            runs += 1;
        }
    }
    assert!(hits > runs / 2, "{hits} of {runs} disks were full");
    println!("{runs} sizes, {hits} of them too small");
}

/// Removing a keyspace on a full disk: refused, it is as if nothing had been asked for.
#[test]
fn a_keyspace_whose_removal_found_no_room_is_still_there() {
    let vfs = SimVfs::new(1);
    let open = || common::on_sim(&vfs, Durability::Process, 0).open(common::DIR);
    let db = open().expect("opens");
    let names: Vec<String> = (0..40).map(|number| format!("keyspace {number}")).collect();
    for name in &names {
        db.keyspace(name)
            .expect("creates")
            .put("key", "value")
            .expect("puts");
    }
    vfs.set_capacity(vfs.used_bytes());
    // The manifest's room is used up by small edits.
    let full = (0..200_000).find_map(|_| db.flush().err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::NoSpace));
    for name in &names {
        db.keyspace(name)
            .expect("is there")
            .put("dirty", "value")
            .expect("puts");
    }
    let refused = names.iter().position(|name| match db.drop_keyspace(name) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error:?}");
            true
        }
    });
    let left = &names[refused.expect("no room for so many edits")..];
    let first = db.keyspace(&left[0]).expect("was not dropped");
    first.put("after", "value").expect("takes writes");
    vfs.set_capacity(u64::MAX);
    db.flush().expect("has room again");
    let machine = vfs.crash(CrashMode::PowerLossNothing);
    drop((first, db));
    let db = common::on_sim(&machine, Durability::Process, 0)
        .open(common::DIR)
        .expect("opens");
    assert_eq!(db.keyspace_names().len(), left.len() + 1);
    for name in left {
        let keyspace = db.keyspace(name).expect("is there");
        assert!(keyspace.contains_key("key").expect("gets"), "{name}");
        assert!(keyspace.contains_key("dirty").expect("gets"), "{name}");
    }
    let first = db.keyspace(&left[0]).expect("is there");
    assert!(first.contains_key("after").expect("gets"));
}

/// A sync fails and the kernel marks the pages clean; the process dies; the next life finds every
/// record in the page cache. Syncing again would write nothing, so what it calls durable must not
/// rest on those pages.
#[test]
fn records_behind_a_failed_sync_are_not_called_durable_again() {
    use evendb::Options;
    use std::sync::Arc;
    for by_put in [false, true] {
        let vfs = SimVfs::new(7);
        let options = |vfs: &SimVfs, level| {
            Options::new()
                .vfs(Arc::new(vfs.clone()))
                .memory_budget(1 << 20)
                .commit_log_bytes(64 << 10)
                .durability(level)
                .workers(0)
        };
        let db = options(&vfs, Durability::Process)
            .open("/db")
            .expect("opens");
        // More than a sector: the later record must not bring it to the disk by sharing one.
        let first = "acknowledged ".repeat(200);
        db.put("k", &first).expect("puts");
        vfs.inject(Fault {
            at: 0,
            on: FaultOn::Sync,
            kind: FaultKind::SyncFailsThenClean,
            sticky: false,
            path_contains: Some("COMMIT-LOG".into()),
        });
        db.persist().expect_err("the sync fails");
        let vfs = vfs.crash(CrashMode::Process);
        let level = if by_put {
            Durability::Sync
        } else {
            Durability::Process
        };
        let db = options(&vfs, level).open("/db").expect("opens again");
        assert_eq!(db.get("k").expect("gets").expect("is there"), first);
        db.put("later", "too").expect("puts");
        if !by_put {
            db.persist().expect("persists");
        }
        let vfs = vfs.crash(CrashMode::PowerLossNothing);
        let db = options(&vfs, level)
            .open("/db")
            .expect("opens after the power loss");
        for (key, value) in [("k", &first[..]), ("later", "too")] {
            let got = db.get(key).expect("gets");
            assert_eq!(
                got.as_deref(),
                Some(value.as_bytes()),
                "{key}, by put: {by_put}"
            );
        }
    }
}
