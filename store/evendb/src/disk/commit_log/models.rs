//! L5: append, head, the lead of a sync and handing it over, durable, latch, close. L12: reading
//! back beside appenders, and waiting for more. L15: futures that wait for a sync.

use super::test_file::TestFile;
use super::*;
use crate::engine::staff::{Body, ThreadRole};
use crate::engine::work::Work;
use crate::options::Writing;
use crate::sync::{Arc, Condvar, Mutex, thread};
use evendb_base::wakers::Ticket;
use evendb_storage::vfs::File;
use evendb_storage::{Error, Version};
use std::task::{Wake, Waker};
use std::time::Duration;

const SEED: u64 = 0x5eed;
const LOST: &str = "acknowledged, but not on disk";

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Whether loom found that an acknowledged record was lost.
fn loses(model: impl Fn() + Sync + Send + 'static) -> bool {
    let run = std::panic::AssertUnwindSafe(|| check(model));
    let Err(panic) = std::panic::catch_unwind(run) else {
        return false;
    };
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(message.contains(LOST), "{message}");
    true
}

/// The end of the records that reached the disk.
fn synced_end(file: &TestFile) -> Lsn {
    let synced = file.0.lock().synced.clone();
    if synced.is_empty() {
        return Lsn(0);
    }
    let segment = Segment {
        epoch: 1,
        seed: SEED,
        start: Lsn(0),
        closed_at: None,
    };
    recover(
        &TestFile::of(synced),
        CAPACITY_MIN,
        Lsn(0),
        &[segment],
        &mut |_| Ok(()),
    )
    .unwrap()
}

fn open(file: &TestFile, writing: Writing, plant: LogPlant) -> Arc<CommitLog> {
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let log = CommitLog::start(shared, CAPACITY_MIN, writing, 1, SEED, Lsn(0)..Lsn(0)).unwrap();
    Arc::new(log.planted(plant))
}

/// Appends and waits. Returns whether the record was acknowledged, which is checked.
fn append_one(log: &CommitLog, file: &TestFile, version: u64) -> bool {
    // After a failure, an append that writes is itself refused.
    let Ok(end) = log.append(Version(version), &[b"payload"]) else {
        return false;
    };
    let waited = log.wait_durable(end);
    if waited.is_ok() {
        assert!(synced_end(file) >= end, "{LOST}");
    }
    waited.is_ok()
}

/// Three appenders that wait: one leads, and hands the lead to one that came too late for its sync.
fn append_and_wait(writing: Writing, plant: LogPlant, fail_sync: bool) {
    let file = TestFile::new(CAPACITY_MIN);
    file.0.lock().fail_sync = fail_sync;
    let log = open(&file, writing, plant);
    let spawn = |version| {
        let (log, file) = (Arc::clone(&log), file.clone());
        thread::spawn(move || append_one(&log, &file, version))
    };
    let others = [spawn(1), spawn(2)];
    let acknowledged = append_one(&log, &file, 3);
    for other in others {
        assert_eq!(other.join().unwrap(), acknowledged);
    }
    let fails = fail_sync || plant == LogPlant::LeaderDies;
    assert_eq!(acknowledged, !fails, "{LOST}");
    if fails {
        assert_eq!(log.durable(), Lsn(0), "durable after a failure");
        assert!(log.flush().is_err());
        assert!(file.0.lock().syncs <= 1, "a sync after a failure");
    }
    // No waiter is left behind, and no thread leads any more.
    log.close();
}

#[test]
fn loom_l5_what_is_acknowledged_is_on_disk() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || append_and_wait(writing, LogPlant::Nothing, false));
    }
}

#[test]
fn loom_l5_a_failed_sync_wakes_all_with_an_error() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || append_and_wait(writing, LogPlant::Nothing, true));
    }
}

#[test]
fn loom_l5_a_leader_that_dies_wakes_all_with_an_error() {
    check(|| append_and_wait(Writing::Gathered, LogPlant::LeaderDies, false));
}

#[test]
fn loom_l5_p11_ack_after_a_failed_sync_is_caught() {
    assert!(loses(|| append_and_wait(
        Writing::Mapped,
        LogPlant::AckAfterFailedSync,
        true
    )));
}

#[test]
fn loom_l5_a_target_taken_after_the_sync_is_caught() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        assert!(loses(move || append_and_wait(
            writing,
            LogPlant::LateTarget,
            false
        )));
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_l5_a_leader_that_hands_nothing_over_is_caught() {
    check(|| append_and_wait(Writing::Mapped, LogPlant::NoHandOver, false));
}

/// Two appenders wait beside a failure from elsewhere: they return, and once the failure is there
/// no more records become durable.
fn latch_while_waiting(writing: Writing) {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, writing, LogPlant::Nothing);
    let other = {
        let (log, file) = (Arc::clone(&log), file.clone());
        thread::spawn(move || append_one(&log, &file, 1))
    };
    let failing = {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            let cause = std::io::Error::other("elsewhere");
            log.fail(Error::io(std::path::Path::new("/test"), "test", cause));
            log.durable()
        })
    };
    append_one(&log, &file, 2);
    other.join().unwrap();
    let durable = failing.join().unwrap();
    assert_eq!(log.durable(), durable, "durable after the latch");
    assert!(log.flush().is_err());
    log.close();
}

#[test]
fn loom_l5_the_latch_wakes_all() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || latch_while_waiting(writing));
    }
}

/// A checkpoint makes records durable for which two threads wait; one of them may be syncing. Then
/// the log ends. A thread that still syncs has stopped when `close` returns.
fn checkpoint_and_close_while_waiting() {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, Writing::Gathered, LogPlant::Nothing);
    let ends = [1, 2].map(|version| log.append(Version(version), &[b"payload"]).unwrap());
    let waiters = ends.map(|end| {
        let log = Arc::clone(&log);
        thread::spawn(move || log.wait_durable(end).unwrap())
    });
    let _ = log.set_tail(ends[1]);
    log.close();
    let closed = file.0.lock().bytes.clone();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(file.0.lock().bytes == closed, "written after the end");
}

#[test]
fn loom_l5_a_checkpoint_and_the_end_beside_waiters() {
    check(checkpoint_and_close_while_waiting);
}

/// A flush while another thread appends: the head covers complete records only.
fn flush_while_appending(writing: Writing, plant: LogPlant) {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, writing, plant);
    // The spawned thread flushes: loom explores more schedules of that one.
    let flushing = {
        let (log, file) = (Arc::clone(&log), file.clone());
        thread::spawn(move || {
            log.flush().unwrap();
            assert!(synced_end(&file) >= log.durable(), "{LOST}");
        })
    };
    log.append(Version(1), &[b"pay", b"load"]).unwrap();
    flushing.join().unwrap();
}

#[test]
fn loom_l5_head_follows_the_copy() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || flush_while_appending(writing, LogPlant::Nothing));
    }
}

#[test]
fn loom_l5_early_head_is_caught() {
    assert!(loses(|| flush_while_appending(
        Writing::Mapped,
        LogPlant::EarlyHead
    )));
}

const TORN: &str = "a copy that passes is not what was appended";

/// A record at 0 is read while an append comes round to it: the copy is whole, or reported as gone.
fn read_while_overwritten(writing: Writing, plant: LogPlant) {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, writing, plant);
    let first = log.append(Version(1), &[b"first", b"record"]).unwrap();
    let mut end = first;
    while end.0 + 8_192 <= CAPACITY_MIN {
        end = log.append(Version(1), &[&[7; 8_192 - 40]]).unwrap();
        let _ = log.set_tail(end);
    }
    // The spawned thread reads: loom explores more schedules of that one.
    let reading = {
        let (log, file) = (Arc::clone(&log), file.clone());
        thread::spawn(move || {
            let segment = Segment {
                epoch: 1,
                seed: SEED,
                start: Lsn(0),
                closed_at: None,
            };
            let mut reader = ReadBack::new();
            let found = reader.next(&file, CAPACITY_MIN, Some(&log), Lsn(0), first, &segment);
            match found.unwrap() {
                Passage::Record(record) => assert_eq!(record.payload, b"firstrecord", "{TORN}"),
                Passage::Overwritten => {}
                other => panic!("{TORN}: {other:?}"),
            }
        })
    };
    // This record goes to the next lap.
    drop(log.append(Version(2), &[b"another", &[9; 8_100]]).unwrap());
    reading.join().unwrap();
}

#[test]
fn loom_l12_a_copy_is_whole_or_gone() {
    for writing in [Writing::Mapped, Writing::Written] {
        check(move || read_while_overwritten(writing, LogPlant::Nothing));
    }
}

#[test]
fn loom_l12_no_look_back_is_caught() {
    let run = || check(|| read_while_overwritten(Writing::Mapped, LogPlant::NoLookBack));
    assert!(std::panic::catch_unwind(run).is_err(), "no copy was torn");
}

/// A reader waits for appended or durable records, or for the end. No wake-up comes before the
/// reader could see it.
fn wait_for_more(writing: Writing, plant: LogPlant, ends: bool) {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, writing, plant);
    let ended = Arc::new(crate::sync::atomic::AtomicBool::new(false));
    let durable_only = writing == Writing::Gathered;
    let reading = {
        let (log, ended) = (Arc::clone(&log), Arc::clone(&ended));
        thread::spawn(move || {
            let is_ended = || ended.load(crate::sync::atomic::Ordering::Acquire);
            let more = log.wait_beyond(Lsn(0), durable_only, None, &is_ended);
            assert_eq!(more, !ends);
            if more {
                assert!(log.readable(durable_only) > Lsn(0));
            }
        })
    };
    if ends {
        ended.store(true, crate::sync::atomic::Ordering::Release);
        log.wake_all_followers();
    } else {
        let end = log.append(Version(1), &[b"payload"]).unwrap();
        log.wake_followers();
        if durable_only {
            log.wait_durable(end).unwrap();
        }
    }
    reading.join().unwrap();
}

#[test]
fn loom_l12_no_reader_waits_for_what_is_there() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || wait_for_more(writing, LogPlant::Nothing, false));
    }
    check(|| wait_for_more(Writing::Mapped, LogPlant::Nothing, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_l12_a_reader_that_counts_outside_is_caught() {
    check(|| wait_for_more(Writing::Mapped, LogPlant::CountsOutside, false));
}

/// A task that polls until it is ready, and sleeps while it was not woken.
fn poll_until_ready(log: &CommitLog, durable_only: bool, ended: &dyn Fn() -> bool) -> bool {
    let parked = Arc::new(Parked::default());
    let waker = Waker::from(Arc::clone(&parked));
    let mut ticket = Ticket::default();
    loop {
        let polled = log.poll_beyond(Lsn(0), durable_only, ended, &mut ticket, &waker);
        if let std::task::Poll::Ready(more) = polled {
            return more;
        }
        parked.sleep();
    }
}

/// As `wait_for_more`, with a task. When it is ready, nothing of it is left at the gate.
fn poll_for_more(writing: Writing, plant: LogPlant, ends: bool) {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, writing, plant);
    let ended = Arc::new(crate::sync::atomic::AtomicBool::new(false));
    let durable_only = writing == Writing::Gathered;
    let reading = {
        let (log, ended) = (Arc::clone(&log), Arc::clone(&ended));
        thread::spawn(move || {
            let is_ended = || ended.load(crate::sync::atomic::Ordering::Acquire);
            assert_eq!(poll_until_ready(&log, durable_only, &is_ended), !ends);
        })
    };
    if ends {
        ended.store(true, crate::sync::atomic::Ordering::Release);
        log.wake_all_followers();
    } else {
        let end = log.append(Version(1), &[b"payload"]).unwrap();
        log.wake_followers();
        if durable_only {
            log.wait_durable(end).unwrap();
        }
    }
    // As a call does that ends.
    log.due().wake();
    reading.join().unwrap();
    assert_eq!(log.counted_followers(), 0, "a reader stays counted");
}

#[test]
fn loom_l12_no_task_sleeps_for_ever() {
    for writing in [Writing::Mapped, Writing::Gathered] {
        check(move || poll_for_more(writing, LogPlant::Nothing, false));
    }
    check(|| poll_for_more(Writing::Mapped, LogPlant::Nothing, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_l12_a_task_that_registers_blindly_is_caught() {
    check(|| poll_for_more(Writing::Mapped, LogPlant::RegistersBlindly, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_l12_a_task_that_counts_outside_is_caught() {
    check(|| poll_for_more(Writing::Mapped, LogPlant::CountsOutside, false));
}

/// A task that was woken, or is being woken, ends without a further look; another one goes on to
/// wait, and is woken by the same append. No count is lost and none is left.
fn a_woken_task_ends() {
    let file = TestFile::new(CAPACITY_MIN);
    let log = open(&file, Writing::Mapped, LogPlant::Nothing);
    let ending = {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            let mut ticket = Ticket::default();
            let waker = std::task::Waker::noop();
            let _ = log.poll_beyond(Lsn(0), false, &|| false, &mut ticket, waker);
            log.forget_task(&mut ticket);
        })
    };
    let reading = {
        let log = Arc::clone(&log);
        thread::spawn(move || assert!(poll_until_ready(&log, false, &|| false)))
    };
    log.append(Version(1), &[b"payload"]).unwrap();
    log.wake_followers();
    log.due().wake();
    ending.join().unwrap();
    reading.join().unwrap();
    assert_eq!(log.counted_followers(), 0, "a count is lost, or left");
}

#[test]
fn loom_l12_a_task_that_ends_keeps_no_other_asleep() {
    check(a_woken_task_ends);
}

/// Parks its thread until it is woken.
#[derive(Default)]
struct Parked {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Parked {
    fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            self.wakes.wait(&mut woken);
        }
        *woken = false;
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.wakes.notify_one();
    }
}

/// Appends, and waits as a future does: it polls when it was woken, and only then. Returns whether
/// the record was acknowledged, which is checked.
fn append_as_future(work: &Work, log: &CommitLog, file: &TestFile, version: u64) -> bool {
    let Ok(end) = log.append(Version(version), &[b"payload"]) else {
        return false;
    };
    let parked = Arc::new(Parked::default());
    let waker = Waker::from(parked.clone());
    let mut ticket = Ticket::default();
    let answer = loop {
        match log.poll_durable(end, &mut ticket, &waker) {
            Awaited::Ready(answer) => break answer,
            Awaited::Attended => {}
            Awaited::Unattended => assert!(work.call(ThreadRole::Syncer)),
        }
        parked.sleep();
    };
    if answer.is_ok() {
        assert!(synced_end(file) >= end, "{LOST}");
    }
    log.forget(&mut ticket);
    answer.is_ok()
}

/// A work queue that starts the syncer when it is called, as the engine's does.
fn with_syncer(log: &Arc<CommitLog>) -> Arc<Work> {
    let work = Arc::new(Work::default());
    let (weak, log) = (Arc::downgrade(&work), Arc::clone(log));
    work.allow(0, None, move |_| {
        let (work, log) = (weak.upgrade()?, Arc::clone(&log));
        Some(Body::Thread(Box::new(move || {
            loop {
                log.attend(Duration::ZERO);
                if work.may_leave(ThreadRole::Syncer) {
                    return;
                }
            }
        })))
    });
    work
}

/// L15: a future, and a blocked thread beside it; or two futures.
fn futures_wait(beside: bool, fail_sync: bool) {
    let file = TestFile::new(CAPACITY_MIN);
    file.0.lock().fail_sync = fail_sync;
    let log = open(&file, Writing::Gathered, LogPlant::Nothing);
    let work = with_syncer(&log);
    let other = {
        let (work, log, file) = (work.clone(), Arc::clone(&log), file.clone());
        thread::spawn(move || match beside {
            true => append_one(&log, &file, 1),
            false => append_as_future(&work, &log, &file, 1),
        })
    };
    let acknowledged = append_as_future(&work, &log, &file, 2);
    assert_eq!(other.join().unwrap(), acknowledged);
    assert_eq!(acknowledged, !fail_sync, "{LOST}");
    log.end_attending();
    work.stop();
    log.close();
}

fn check_shortly(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn loom_l15_futures_are_woken_by_their_sync() {
    check_shortly(|| futures_wait(false, false));
}

#[test]
fn loom_l15_a_future_beside_a_blocked_thread() {
    check_shortly(|| futures_wait(true, false));
}

#[test]
fn loom_l15_a_failed_sync_wakes_futures() {
    check_shortly(|| futures_wait(true, true));
}
