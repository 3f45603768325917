//! Models of the clock under loom: L1 (announce, await older, advance), L7 (register x collect),
//! L10 (slots claimed and reused) and L12 (records that were read in the log are visible).

use super::*;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// Runs a model. Returns whether it found one of `violations`; any other panic fails the test, such
/// as a limit of the model checker.
fn fails(
    violations: &[&str],
    preemptions: usize,
    model: impl Fn() + Sync + Send + 'static,
) -> bool {
    let run = std::panic::AssertUnwindSafe(|| check(preemptions, model));
    let Err(panic) = std::panic::catch_unwind(run) else {
        return false;
    };
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(
        violations.iter().any(|known| message.contains(known)),
        "{message}"
    );
    true
}

const MISORDERED: &str = "a younger put was visible before an older one";
const INCOMPLETE: &str = "the snapshot misses a put of its own version";
const UNSEEN: &str = "what was read in the log is not visible";
const DROPPED: &str = "the collector dropped what the snapshot reads";

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The operation that moves GV in a model.
#[derive(Clone, Copy)]
enum Mover {
    Snapshot,
    Checkpoint,
}

/// Two puts on two keys, a mover of GV, and a get of both keys.
fn puts_scan_get(plant: ClockPlant, mover: Mover) {
    let clock = Arc::new(Clock::planted(Version(7), plant));
    let keys = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let puts: Vec<_> = (0..2)
        .map(|key| {
            let (clock, keys) = (Arc::clone(&clock), Arc::clone(&keys));
            thread::spawn(move || {
                let announcement = clock.announce();
                let version = announcement.version().0;
                if clock.plant == ClockPlant::EarlyWithdraw {
                    drop(announcement);
                    keys[key].store(version, Ordering::Release);
                } else {
                    keys[key].store(version, Ordering::Release);
                    drop(announcement);
                }
                version
            })
        })
        .collect();
    let scan = {
        let (clock, keys) = (Arc::clone(&clock), Arc::clone(&keys));
        thread::spawn(move || {
            let last = match mover {
                Mover::Snapshot => clock.register().0,
                Mover::Checkpoint => clock.advance_checkpoint().0 - 1,
            };
            (last, [0, 1].map(|key| keys[key].load(Ordering::Acquire)))
        })
    };
    // The get: first one key, then the other.
    let got = [0, 1].map(|key| keys[key].load(Ordering::Acquire));
    let versions: Vec<u64> = puts.into_iter().map(|put| put.join().unwrap()).collect();
    let (last, seen) = scan.join().unwrap();
    assert!(
        got[0] == 0 || got[1] != 0 || versions[0] <= versions[1],
        "{MISORDERED}"
    );
    for key in 0..2 {
        // Everything at or below the snapshot is visible, so nothing can appear in it later.
        assert!(
            versions[key] > last || seen[key] == versions[key],
            "{INCOMPLETE}"
        );
    }
}

#[test]
fn loom_l1_awaiting_older_keeps_the_order_of_versions() {
    check(2, || puts_scan_get(ClockPlant::Nothing, Mover::Snapshot));
}

#[test]
fn loom_l1_a_checkpoint_waits_for_its_puts() {
    check(2, || puts_scan_get(ClockPlant::Nothing, Mover::Checkpoint));
}

#[test]
fn loom_l1_p1_no_await_is_caught() {
    assert!(fails(&[MISORDERED, INCOMPLETE], 2, || puts_scan_get(
        ClockPlant::NoAwait,
        Mover::Snapshot
    )));
}

#[test]
fn loom_l1_p2_no_fence_is_caught() {
    assert!(fails(&[MISORDERED, INCOMPLETE], 2, || puts_scan_get(
        ClockPlant::NoFenceToAwait,
        Mover::Snapshot
    )));
    assert!(fails(&[MISORDERED, INCOMPLETE], 2, || puts_scan_get(
        ClockPlant::NoFenceToAnnounce,
        Mover::Snapshot
    )));
}

#[test]
fn loom_l1_early_withdraw_is_caught() {
    assert!(fails(&[INCOMPLETE], 2, || puts_scan_get(
        ClockPlant::EarlyWithdraw,
        Mover::Checkpoint
    )));
}

/// A key with a record of version 3 and a put above it, GV at 5 or later: a snapshot is registered
/// at any moment, beside a collector that drops what its horizon allows.
fn register_and_collect(plant: ClockPlant) {
    let clock = Arc::new(Clock::planted(Version(5), plant));
    // Whether the record of version 3 is still there. The put writes the record above it, at a
    // version above the snapshot's if the snapshot comes first.
    let old_kept = Arc::new(AtomicU64::new(1));
    let newer = Arc::new(AtomicU64::new(0));
    let put = {
        let (clock, newer) = (Arc::clone(&clock), Arc::clone(&newer));
        thread::spawn(move || {
            let announcement = clock.announce();
            newer.store(announcement.version().0, Ordering::Release);
        })
    };
    let collector = {
        let (clock, newer) = (Arc::clone(&clock), Arc::clone(&newer));
        let old_kept = Arc::clone(&old_kept);
        thread::spawn(move || {
            let newer = newer.load(Ordering::Acquire);
            let horizon = clock.horizon();
            if newer != 0 && horizon.may_drop(Version(3), Version(newer)) {
                old_kept.store(0, Ordering::Release);
            }
        })
    };
    let snapshot = clock.register();
    put.join().unwrap();
    collector.join().unwrap();
    let newer = newer.load(Ordering::Acquire);
    // A reader at the snapshot must find the newer record or the old one.
    assert!(
        newer <= snapshot.0 || old_kept.load(Ordering::Acquire) == 1,
        "{DROPPED}"
    );
    clock.unregister(snapshot);
    assert_eq!(clock.snapshot_count(), 0);
}

#[test]
fn loom_l7_a_snapshot_keeps_what_it_reads() {
    check(2, || register_and_collect(ClockPlant::Nothing));
}

/// A registration beside a collector that may drop version 3 below version 6.
fn collect_before_register(plant: ClockPlant) {
    let clock = Arc::new(Clock::planted(Version(5), plant));
    // A put of version 6 is possible once GV has moved to 6. A snapshot 5 cannot be registered
    // after that, unless the collector's floor is above GV.
    let dropped = Arc::new(AtomicU64::new(0));
    let collector = {
        let (clock, dropped) = (Arc::clone(&clock), Arc::clone(&dropped));
        thread::spawn(move || {
            let horizon = clock.horizon();
            if horizon.may_drop(Version(3), Version(6)) {
                dropped.store(1, Ordering::Release);
            }
        })
    };
    let snapshot = clock.register();
    collector.join().unwrap();
    assert!(
        snapshot >= Version(6) || dropped.load(Ordering::Acquire) == 0,
        "{DROPPED}"
    );
}

#[test]
fn loom_l7_the_floor_covers_later_snapshots() {
    check(2, || collect_before_register(ClockPlant::Nothing));
}

#[test]
fn loom_l7_p9_no_floor_is_caught() {
    assert!(fails(&[DROPPED], 2, || collect_before_register(
        ClockPlant::NoFloor
    )));
}

#[test]
fn loom_l10_slots_are_claimed_once_and_reused() {
    check(2, || {
        let clock = Arc::new(Clock::new(Version(1)));
        // One word per slot, raised while the slot is held: a second holder finds it raised.
        let held = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (clock, held) = (Arc::clone(&clock), Arc::clone(&held));
                thread::spawn(move || {
                    let announcement = clock.announce();
                    let index = clock
                        .slots
                        .iter()
                        .position(|slot| std::ptr::eq(&**slot, announcement.slot))
                        .unwrap();
                    assert_eq!(held[index].load(Ordering::Relaxed), 0, "held twice");
                    held[index].store(1, Ordering::Relaxed);
                    held[index].store(0, Ordering::Relaxed);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(
            clock
                .slots
                .iter()
                .all(|slot| slot.load(Ordering::Acquire) == 0)
        );
    });
}

/// Puts append and then link their records, and one thread puts twice. A reader of the log waits,
/// and then looks for the records that it read.
fn read_log_and_get(awaits: bool) {
    let clock = Arc::new(Clock::new(Version(7)));
    // One bit for each record: it is in the log, and it is linked.
    let (head, linked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let puts: Vec<_> = [&[1_u64, 2][..], &[4]]
        .map(|bits| {
            let (clock, head, linked) = (clock.clone(), head.clone(), linked.clone());
            thread::spawn(move || {
                for bit in bits {
                    let _announcement = clock.announce();
                    head.fetch_or(*bit, Ordering::AcqRel);
                    // Relaxed: the withdrawal publishes it.
                    linked.fetch_or(*bit, Ordering::Relaxed);
                }
            })
        })
        .into();
    let read = head.load(Ordering::Acquire);
    if awaits {
        clock.await_seen();
    }
    assert_eq!(linked.load(Ordering::Relaxed) & read, read, "{UNSEEN}");
    for put in puts {
        put.join().unwrap();
    }
}

#[test]
fn loom_l12_what_is_read_in_the_log_is_visible() {
    check(2, || read_log_and_get(true));
}

#[test]
fn loom_l12_a_reader_that_does_not_wait_is_caught() {
    assert!(fails(&[UNSEEN], 2, || read_log_and_get(false)));
}
