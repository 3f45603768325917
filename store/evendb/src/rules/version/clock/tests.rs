use super::*;
use crate::sync::atomic::Ordering;
use std::sync::Barrier;

#[test]
fn snapshots_count_their_handles_and_bound_the_horizon() {
    let clock = Clock::new(Version(10));
    let first = clock.register();
    let second = clock.register();
    assert_eq!((first, second), (Version(10), Version(11)));
    assert_eq!(clock.now(), Version(12));
    clock.retain(first);
    clock.unregister(first);
    assert_eq!(clock.oldest_snapshot(), Some(first));
    let horizon = clock.horizon();
    assert_eq!(horizon.floor, Version(12));
    assert_eq!(horizon.snapshots, [first, second]);
    clock.unregister(first);
    assert_eq!(clock.oldest_snapshot(), Some(second));
    clock.unregister(second);
    assert_eq!((clock.oldest_snapshot(), clock.snapshot_count()), (None, 0));
}

#[test]
fn a_checkpoint_starts_a_new_number() {
    let clock = Clock::new(Version(1));
    assert_eq!(clock.advance_checkpoint(), Version(1 << CHECKPOINT_SHIFT));
    assert_eq!(clock.advance_checkpoint(), Version(2 << CHECKPOINT_SHIFT));
    let announcement = clock.announce();
    assert_eq!(checkpoint_of(announcement.version()), 2);
}

#[test]
fn unwinding_withdraws() {
    let clock = Clock::new(Version(1));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _announcement = clock.announce();
        panic!("in the middle of a put");
    }));
    assert!(panicked.is_err());
    // This would wait for ever if the slot were still taken.
    clock.register();
    clock.wait_all_idle_once();
}

#[test]
fn a_snapshot_waits_for_puts_at_its_version_but_not_for_later_ones() {
    let clock = Clock::new(Version(5));
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let announcement = clock.announce();
        assert_eq!(announcement.version(), Version(5));
        let snapshot = scope.spawn(|| {
            let snapshot = clock.register();
            assert_eq!(done.load(Ordering::Acquire), 1, "returned before its put");
            snapshot
        });
        while clock.now() == Version(5) {
            thread::yield_now();
        }
        done.store(1, Ordering::Release);
        drop(announcement);
        assert_eq!(snapshot.join().unwrap(), Version(5));
    });
    let later = clock.announce();
    assert_eq!(later.version(), Version(6));
}

#[test]
fn more_threads_than_slots_all_get_one() {
    let clock = Clock::new(Version(1));
    let barrier = Barrier::new(SLOTS + 8);
    std::thread::scope(|scope| {
        for _ in 0..SLOTS + 8 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..50 {
                    let announcement = clock.announce();
                    thread::yield_now();
                    drop(announcement);
                }
            });
        }
    });
    clock.wait_all_idle_once();
    assert!(
        clock
            .slots
            .iter()
            .all(|slot| slot.load(Ordering::Acquire) == 0)
    );
}

/// Two threads put increasing counters, others take snapshots and checkpoints: the past that a
/// snapshot sees never changes afterwards, and versions never go back.
#[test]
fn what_a_snapshot_covers_is_complete() {
    const ROUNDS: u64 = 3000;
    let clock = Clock::new(Version(1));
    // For each writer: the newest version that it has made visible.
    let visible = [AtomicU64::new(0), AtomicU64::new(0)];
    let running = AtomicU64::new(2);
    // Everything that a writer made visible, to compare with afterwards.
    let histories: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers: Vec<_> = visible
            .iter()
            .map(|mine| {
                let (clock, running) = (&clock, &running);
                scope.spawn(move || {
                    let mut history = Vec::new();
                    for _ in 0..ROUNDS {
                        let announcement = clock.announce();
                        let version = announcement.version().0;
                        assert!(version >= history.last().copied().unwrap_or(0));
                        mine.store(version, Ordering::Release);
                        history.push(version);
                        drop(announcement);
                    }
                    running.fetch_sub(1, Ordering::AcqRel);
                    history
                })
            })
            .collect();
        let mut turn = 0u64;
        while running.load(Ordering::Acquire) > 0 {
            turn += 1;
            if turn.is_multiple_of(16) {
                clock.advance_checkpoint();
            }
            let snapshot = clock.register();
            // All versions <= snapshot are visible now: no writer may put one later.
            let before = clock.announce();
            assert!(before.version() > snapshot);
            drop(before);
            clock.unregister(snapshot);
        }
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    assert!(histories.iter().all(|history| history.is_sorted()));
}
