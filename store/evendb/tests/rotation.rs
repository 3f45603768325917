//! Crashes and faults at every operation of a rotation of the manifest. Keys of the greatest length
//! make edits so large that a rotation comes after some tens of checkpoints.

mod common;

use common::oracle::End;
use common::workload::{Runner, Step, What};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimEventKind, SimVfs};
use evendb::{Durability, ErrorKind};

const LEVEL: Durability = Durability::Relaxed;

fn workload() -> Vec<Step> {
    let round = |number: usize| {
        let mut key = vec![b'k'; 65_535];
        key[0] = b'a' + (number % 3) as u8;
        let value = What::Put(format!("{number}").into_bytes());
        [
            Step::Write(vec![("default", key, value)], None),
            Step::Flush,
        ]
    };
    (0..90).flat_map(round).collect()
}

/// The operations from the new manifest's creation to some after the old one's removal.
fn window() -> std::ops::Range<u64> {
    let vfs = SimVfs::new(1);
    vfs.trace(true);
    let mut runner = Runner::new(&vfs, LEVEL);
    runner.open().expect("opens");
    for step in workload() {
        runner.step(&step).expect("nothing fails");
    }
    let is_of = |path: &std::path::Path, name: &str| path.ends_with(name);
    let trace = vfs.take_trace();
    let created = trace
        .iter()
        .find(|event| event.kind == SimEventKind::Create && is_of(&event.path, "MANIFEST-000002"));
    let removed = trace
        .iter()
        .find(|event| event.kind == SimEventKind::Remove && is_of(&event.path, "MANIFEST-000001"));
    let (created, removed) = (created.expect("it was rotated"), removed.expect("removed"));
    created.op - 3..removed.op + 6
}

fn check_all_ends(vfs: &SimVfs, runner: &mut Runner, place: &str) {
    vfs.clear_faults();
    // The machine stops first: dropping the database would close it in good order.
    drop(vfs.crash(CrashMode::Process));
    runner.abandon();
    for (mode, end) in [
        (CrashMode::Process, End::Process),
        (CrashMode::PowerLossNothing, End::Power),
        (CrashMode::PowerLossAll, End::Power),
        (CrashMode::PowerLossRandom(1), End::Power),
        (CrashMode::PowerLossRandom(2), End::Power),
        (CrashMode::PowerLossRandom(3), End::Power),
    ] {
        let mut machine = vfs.crash(mode);
        let mut next = Runner::resume(&machine, LEVEL, runner.oracle.clone());
        let outcome = next.recover(end);
        outcome.unwrap_or_else(|what| panic!("{place} {mode:?}: {what}"));
        for step in &workload()[..6] {
            next.step(step).expect("goes on");
        }
        machine = machine.crash(CrashMode::PowerLossNothing);
        next.abandon();
        let mut last = Runner::resume(&machine, LEVEL, next.oracle.clone());
        let outcome = last.recover(End::Power);
        outcome.unwrap_or_else(|what| panic!("{place} {mode:?}, gone on: {what}"));
        last.abandon();
    }
}

#[test]
fn crashes_in_a_rotation() {
    for at in window() {
        let vfs = SimVfs::new(1);
        vfs.set_crash_at(at);
        let mut runner = Runner::new(&vfs, LEVEL);
        runner.open().expect("opens");
        for step in workload() {
            if runner.step(&step).is_err() || vfs.crashed() {
                break;
            }
        }
        assert!(vfs.crashed());
        check_all_ends(&vfs, &mut runner, &format!("operation {at}"));
    }
}

#[test]
fn faults_in_a_rotation() {
    for at in window() {
        for kind in [FaultKind::Eio, FaultKind::NoSpace, FaultKind::ShortWrite] {
            let vfs = SimVfs::new(1);
            let place = format!("operation {at} {kind:?}");
            vfs.inject(Fault {
                at,
                on: FaultOn::Change,
                kind,
                sticky: false,
                path_contains: None,
            });
            let mut runner = Runner::new(&vfs, LEVEL);
            runner.open().expect("opens");
            for step in workload() {
                let outcome = runner.step(&step);
                // Soon enough that no other rotation corrects the effects of this one.
                if vfs.op_count() > at + 40 {
                    break;
                }
                let Err(error) = outcome else {
                    continue;
                };
                let live = runner.oracle.check_live(runner.db());
                let visible = live.unwrap_or_else(|what| panic!("{place}: {what}"));
                if runner
                    .db()
                    .persist()
                    .is_err_and(|error| error.kind() == ErrorKind::Latched)
                {
                    break;
                }
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{place}: {error:?}");
                let names = runner.db().keyspace_names();
                runner.oracle.judge_pending(visible, &names);
            }
            check_all_ends(&vfs, &mut runner, &place);
        }
    }
}
