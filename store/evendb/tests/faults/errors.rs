//! An I/O error at every operation of the workload, once or for good.

use crate::common::workload::steps;
use crate::common::{count_from_env, scramble};
use crate::run::{Run, STEPS, undisturbed};
use evendb::Durability;
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};

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
    let stride = count_from_env("EVENDB_FAULT_STRIDE", 29);
    let (operations, reads, _) = undisturbed(seed, level);
    let mut runs = 0;
    let mut errors = 0;
    for kind in [
        FaultKind::Eio,
        FaultKind::NoSpace,
        FaultKind::ShortWrite,
        FaultKind::SyncFailsThenClean,
        FaultKind::SyncFullThenClean,
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

/// A sync fails and the kernel marks the pages clean; the process dies; the next life finds every
/// record in the page cache. Syncing again would write nothing, so records that it calls durable
/// must not depend on those pages.
#[test]
fn records_behind_a_failed_sync_are_not_called_durable_again() {
    use std::sync::Arc;
    for by_put in [false, true] {
        let vfs = SimVfs::new(7);
        let options = |vfs: &SimVfs, level| {
            crate::common::options()
                .vfs(Arc::new(vfs.clone()))
                .memory_budget(1 << 20)
                .advanced(|advanced| advanced.commit_log_bytes(64 << 10))
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
