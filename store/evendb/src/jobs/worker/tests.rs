//! What a database does while it is left alone, and what ends that. Nothing is timed: waits are
//! polled with a deadline that only a fault reaches.

use super::*;
use crate::engine::staff::{ROLES, ThreadRole};
use crate::engine::work::Work;
use crate::options::Options;
use crate::{Db, Durability, LiveStats};
use std::thread::sleep;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

#[track_caller]
fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if reached() {
            return;
        }
        sleep(STEP);
    }
    panic!("never: {what}");
}

fn small() -> Options {
    Options::new().memory_budget(4 << 20)
}

fn present(db: &Db) -> [usize; ROLES] {
    db.engine().work.queue.lock().present
}

fn turns(db: &Db) -> u64 {
    db.engine().work.turns.load(Ordering::Relaxed)
}

/// Waits until only one thread is left, which waits, and until the last figures are written.
#[track_caller]
fn wait_for_rest(db: &Db) {
    let work = &db.engine().work;
    // At first upkeep rests for a while, until the database counts as idle.
    let rests = || {
        let queue = work.queue.lock();
        queue.present == [1, 0, 0, 0, 0, 0, 0, 0, 0]
            && work.is_resting()
            && queue.rests_until.is_none()
            && !queue.stirred
    };
    wait_until("rest", || rests() && observe::has_looked_last(db.engine()));
    let dir = &db.engine().disk.dir;
    let live = LiveStats::read(dir).expect("reads").expect("is there");
    assert!(live.is_idle());
}

/// Checks that no thread takes a turn over this number of looks.
#[track_caller]
fn stays_at_rest(db: &Db) {
    let before = turns(db);
    for _ in 0..200 {
        sleep(STEP);
        assert_eq!(turns(db), before, "a thread was woken for nothing");
    }
    assert_eq!(present(db), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn left_alone_it_has_one_thread_which_nothing_wakes() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    wait_for_rest(&db);
    stays_at_rest(&db);
    for number in 0..2_000 {
        db.put(format!("{number:05}"), [1; 100]).unwrap();
    }
    db.flush().unwrap();
    wait_for_rest(&db);
    stays_at_rest(&db);
    assert_eq!(db.iter().count(), 2_000);
    wait_for_rest(&db);
    let live = LiveStats::read(dir.path()).unwrap().unwrap();
    assert_eq!(live.get("scanned_records"), Some(2_000), "the last figures");
    assert!(!live.is_stale());
    db.close().unwrap();
    assert!(LiveStats::read(dir.path()).unwrap().is_none());
}

/// The memory policy depends on reads: its rounds begin again, whatever answers the gets.
#[test]
fn reads_begin_the_rounds_again() {
    let dir = tempfile::tempdir().unwrap();
    // Rows could answer all gets before the chunk is loaded, and then it would never be loaded.
    let options = || {
        let options = small().memory_budget(64 << 20);
        options.advanced(|advanced| advanced.row_cache(false))
    };
    let db = options().open(dir.path()).unwrap();
    for number in 0..2_000 {
        db.put(format!("{number:05}"), [1; 100]).unwrap();
    }
    db.close().unwrap();
    let db = options().open(dir.path()).unwrap();
    wait_for_rest(&db);
    assert_eq!(db.stats().munk_loads, 0);
    // These gets read from tables; the chunk is loaded for them.
    wait_until("a munk", || {
        assert!((0..2_000).all(|number| db.get(format!("{number:05}")).unwrap().is_some()));
        db.stats().munk_loads > 0
    });
    wait_for_rest(&db);
    let before = turns(&db);
    db.get("00001").unwrap();
    wait_until("a round", || turns(&db) > before);
    wait_for_rest(&db);
    let before = turns(&db);
    assert_eq!(db.iter().take(1).count(), 1);
    wait_until("a round", || turns(&db) > before);
    db.close().unwrap();
}

#[test]
fn a_checkpoint_comes_when_it_is_due() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().durability(Durability::Relaxed);
    let db = options.open(dir.path()).unwrap();
    wait_for_rest(&db);
    for round in 1..3 {
        db.put("key", [round; 10]).unwrap();
        wait_until("a checkpoint", || {
            db.stats().checkpoints == u64::from(round)
        });
        assert!(db.engine().flow.dirty.lock().is_empty());
        wait_for_rest(&db);
    }
    stays_at_rest(&db);
    assert_eq!(db.stats().checkpoints, 2);
    db.close().unwrap();
}

/// Garbage is rewritten once nothing is put, also if a snapshot prevented it at first; then there
/// is nothing more to do.
#[test]
fn idle_work_is_done_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new()
        .memory_budget(1 << 20)
        .advanced(|advanced| advanced.munks(false).chunk_bytes(16 << 10));
    let db = options.open(dir.path()).unwrap();
    let put_some = |every| {
        for number in (0..4_000).step_by(every) {
            db.put(format!("{number:05}"), [1; 100]).unwrap();
        }
        db.settle_debt().unwrap();
    };
    let garbage = |db: &Db| {
        let space = db.stats().space;
        space.garbage_log_bytes + space.garbage_sstable_bytes
    };
    put_some(1);
    // The garbage that puts leave depends on when they met which rewrites. Less than a twelfth is
    // no work.
    let snapshot = loop {
        put_some(5);
        let snapshot = db.snapshot().unwrap();
        wait_for_rest(&db);
        if garbage(&db) > db.stats().space.live_bytes / 10 {
            break snapshot;
        }
    };
    let rewritten = db.stats().bytes_written.sstable;
    let before = garbage(&db);
    stays_at_rest(&db);
    drop(snapshot);
    wait_until("a rewrite", || db.stats().bytes_written.sstable > rewritten);
    wait_for_rest(&db);
    let left = garbage(&db);
    assert!(left < before, "{left} of {before}");
    stays_at_rest(&db);
    assert_eq!(db.iter().count(), 4_000);
    db.close().unwrap();
}

/// A failure is reported to other processes that watch, and then the threads wait for the end.
#[test]
fn a_failed_database_rests_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    wait_until("rest", || db.engine().work.is_resting());
    db.engine()
        .core
        .health
        .latch(Error::new(ErrorKind::Io, "on purpose"));
    wait_until("the failure", || {
        let live = LiveStats::read(dir.path()).unwrap();
        live.is_some_and(|live| {
            live.failure()
                .is_some_and(|text| text.contains("on purpose"))
        })
    });
    wait_for_rest(&db);
    stays_at_rest(&db);
    assert_eq!(db.get("key").unwrap().unwrap(), "value");
    assert!(db.close().is_err());
}

/// If the system has no more threads, the one that is there does the necessary work.
#[test]
fn without_more_threads_nothing_stays_undone() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    let refuses = &db.engine().work.staff.refuses;
    refuses.store(true, Ordering::Relaxed);
    for round in 0..6_u8 {
        for number in 0..8_000 {
            db.put(format!("{number:05}"), [round; 100]).unwrap();
        }
        assert_eq!(present(&db), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    db.settle_debt().unwrap();
    let stats = db.stats();
    assert!(stats.rebalances > 0 && stats.chunks > 1, "{stats:?}");
    wait_until("files are removed", || {
        db.stats().space.deletion_pending_bytes == 0
    });
    wait_for_rest(&db);
    assert_eq!(db.iter().count(), 8_000);
    // Threads can be started again.
    refuses.store(false, Ordering::Relaxed);
    db.put("key", "value").unwrap();
    wait_until("a helper", || present(&db)[ThreadRole::Stats as usize] == 1);
    db.close().unwrap();
}

/// Tables are asked for ahead only where a call waits; those of each chunk once, and of no more
/// chunks than the limit.
#[test]
fn of_a_few_chunks_that_wait_the_tables_are_asked_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().open(dir.path()).unwrap();
    for name in ["a", "b", "c"] {
        db.keyspace(name).unwrap();
    }
    let chunks = db.engine().catalog.chunks();
    let chunks: Vec<_> = chunks.into_iter().map(|(_, chunk)| chunk).collect();
    assert!(chunks.len() >= 3);
    let work = Work::default();
    chunks.iter().for_each(|chunk| work.push_maintenance(chunk));
    let next = |behind| work.next_to_ask(2, behind).map(|chunk| chunk.id);
    assert_eq!(next(false), None);
    assert_eq!(next(true), Some(chunks[0].id));
    assert_eq!(next(true), Some(chunks[1].id));
    assert_eq!(next(true), None, "two wait");
    let job = work.take(&mut work.queue.lock()).unwrap();
    assert!(matches!(job, Job::Maintain(named) if named.id == chunks[0].id));
    work.queue.lock().idle_awaited = 1;
    assert_eq!(next(false), Some(chunks[2].id));
    assert_eq!(next(false), None);
    // After its turn the chunk may be asked for again.
    work.push_maintenance(&chunks[0]);
    for _ in 0..chunks.len() - 1 {
        work.take(&mut work.queue.lock()).unwrap();
    }
    assert_eq!(next(true), Some(chunks[0].id));
}

/// Memory that a checkpoint released comes back when no thread is pinned any more. In a database
/// without threads only its writers see to that. Once, a writer that had found no room after its
/// checkpoint waited for a report from another one; that one, no longer pinned, queued behind it;
/// so both waited for ever.
#[test]
fn without_threads_a_writer_goes_on_after_the_pin_that_kept_its_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = || Options::new().memory_budget(1 << 20).workers(0);
    let db = options().open(dir.path()).expect("opens");
    let admission = &db.engine().core.admission;
    std::thread::scope(|scope| {
        let pin = crate::sync::reclaim::pin();
        let writer = scope.spawn(|| {
            for number in 0..2_000_u64 {
                db.put(number.to_le_bytes(), [1; 1000])?;
            }
            Ok::<_, Error>(())
        });
        wait_until("a writer waits", || admission.is_waited_for());
        // The writer has made a checkpoint, and found no room.
        sleep(10 * STEP);
        drop(pin);
        let other = scope.spawn(|| db.put("other", "value"));
        let ended = || writer.is_finished() && other.is_finished();
        if !(0..3_000).any(|_| {
            sleep(STEP);
            ended()
        }) {
            // They are released, and fail.
            admission.cancel();
        }
        writer.join().expect("no panic").expect("puts");
        other.join().expect("no panic").expect("puts");
    });
    db.close().expect("closes");
}
