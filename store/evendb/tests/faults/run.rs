//! The workload of a seed beside its oracle, with faults or on a disk that is full.

use crate::common::oracle::End;
use crate::common::workload::{Runner, Step, steps};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{Durability, Error, ErrorKind};

pub const STEPS: usize = 150;

/// A run up to its first latch or its end, with the rules that it must keep.
pub struct Run {
    pub runner: Runner,
    pub place: String,
    /// Whether only NoSpace may happen, without the latch.
    pub full_disk: bool,
    pub errors: u64,
}

impl Run {
    pub fn new(seed: u64, level: Durability, place: String, full_disk: bool) -> Run {
        let vfs = SimVfs::new(seed);
        let runner = Runner::new(&vfs, level).vary(seed);
        Run {
            runner,
            place,
            full_disk,
            errors: 0,
        }
    }

    pub fn expect_kind(&mut self, error: &Error, doing: &str) {
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
    pub fn is_latched(&mut self) -> bool {
        match self.runner.db().persist() {
            Err(error) if error.kind() == ErrorKind::Latched => true,
            Err(error) => {
                self.expect_kind(&error, "asking for the latch");
                matches!(self.runner.db().persist(), Err(error) if error.kind() == ErrorKind::Latched)
            }
            Ok(()) => false,
        }
    }

    /// After a failed step reads must return the acknowledged writes, with or without that step.
    pub fn check_reads(&mut self, doing: &str) -> usize {
        let live = self.runner.oracle.check_live(self.runner.db());
        live.unwrap_or_else(|what| panic!("{} reads after {doing}: {what}", self.place))
    }

    /// Runs the steps until the database latches, cannot be opened again, or they end. Returns
    /// whether it is open and takes writes.
    pub fn run(&mut self, steps: &[Step], reads_fail: bool) -> bool {
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
            let took_effect = self.runner.oracle.judge_pending(visible, &names);
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

    /// After the latch writes return its error, and reads continue.
    fn refuses_writes(&mut self, steps: &[Step]) {
        assert!(!self.full_disk, "{}: a full disk latched", self.place);
        for step in steps.iter().take(6) {
            let writes = match step {
                Step::Write(writes, level) => Step::Write(writes.clone(), *level),
                Step::Flush | Step::Persist | Step::SettleDebt => step.clone(),
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

    /// The files on the disk open, after the process died and after the power failed, and the
    /// database continues.
    pub fn check_disk(&mut self, number: u64) {
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
            // A power loss: nothing may have been built on pages that a failed sync left unwritten.
            let machine = machine.crash(CrashMode::PowerLossNothing);
            let mut last = Runner::resume(&machine, self.runner.level, next.oracle.clone());
            last.recover(End::Power)
                .unwrap_or_else(|what| panic!("{place}: gone on: {what}"));
        }
    }
}

pub fn brief(step: &Step) -> String {
    match step {
        Step::Write(writes, level) => format!("write of {} {level:?}", writes.len()),
        other => format!("{other:?}"),
    }
}

/// The numbers of operations and reads of the workload when nothing fails.
pub fn undisturbed(seed: u64, level: Durability) -> (u64, u64, u64) {
    let vfs = SimVfs::new(seed);
    let mut runner = Runner::new(&vfs, level).vary(seed);
    runner.open().expect("opens");
    for step in steps(seed, STEPS) {
        runner.step(&step).expect("nothing fails");
    }
    (vfs.op_count(), vfs.read_count(), vfs.used_bytes())
}
