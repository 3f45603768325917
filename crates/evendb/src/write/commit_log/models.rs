//! L5: append, head, flusher, durable, latch.

use super::test_file::TestFile;
use super::*;
use crate::sync::{Arc, thread};
use evendb_storage::vfs::File;
use evendb_storage::{Error, Version};

const SEED: u64 = 0x5eed;
const LOST: &str = "acknowledged, but not on disk";

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Whether loom found that something acknowledged was lost.
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

/// Where the records that reached the disk end.
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

/// Two appenders that wait, a flusher, and optionally a failure from elsewhere.
fn append_and_wait(plant: Plant, fail_sync: bool, latch: bool) {
    let file = TestFile::new(CAPACITY_MIN);
    file.0.lock().fail_sync = fail_sync;
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let log = CommitLog::start(shared, CAPACITY_MIN, true, 1, SEED, Lsn(0), Lsn(0)).unwrap();
    let log = Arc::new(log.planted(plant));
    let appender = |version| {
        let (log, file) = (Arc::clone(&log), file.clone());
        move || {
            let end = log.append(Version(version), &[b"payload"]).unwrap();
            let waited = log.wait_durable(end);
            if waited.is_ok() {
                assert!(synced_end(&file) >= end, "{LOST}");
            }
            waited.is_ok()
        }
    };
    let first = thread::spawn(appender(1));
    let second = (!latch).then(|| thread::spawn(appender(2)));
    let failing = latch.then(|| {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            let cause = std::io::Error::other("elsewhere");
            log.fail(Error::io(std::path::Path::new("/test"), "test", cause));
        })
    });
    // The flusher is this thread. It stops when all is on disk or the log has failed.
    let all = 48 * if latch { 1 } else { 2 };
    let mut turns = 0;
    while log.durable() < Lsn(all) {
        turns += 1;
        if turns > 3 {
            loom::skip_branch();
        }
        if log.wait_for_flush_request(std::time::Duration::ZERO) && log.flush().is_err() {
            break;
        }
        if failing.is_some() && log.flush().is_err() {
            break;
        }
    }
    let durable = log.durable();
    assert!(synced_end(&file) >= durable, "{LOST}");
    let acknowledged = first.join().unwrap();
    if let Some(second) = second {
        assert_eq!(second.join().unwrap(), acknowledged);
        assert_eq!(acknowledged, !fail_sync, "{LOST}");
    }
    if let Some(failing) = failing {
        failing.join().unwrap();
        assert_eq!(log.durable(), durable, "durable after the latch");
        assert!(log.flush().is_err());
    }
}

#[test]
fn loom_l5_what_is_acknowledged_is_on_disk() {
    check(|| append_and_wait(Plant::Nothing, false, false));
}

#[test]
fn loom_l5_a_failed_sync_wakes_all_with_an_error() {
    check(|| append_and_wait(Plant::Nothing, true, false));
}

#[test]
fn loom_l5_the_latch_wakes_a_waiter() {
    check(|| append_and_wait(Plant::Nothing, false, true));
}

#[test]
fn loom_l5_p11_ack_after_a_failed_sync_is_caught() {
    assert!(loses(|| append_and_wait(
        Plant::AckAfterFailedSync,
        true,
        false
    )));
}

/// A flush while another thread appends: the head covers complete records only.
fn flush_while_appending(plant: Plant) {
    let file = TestFile::new(CAPACITY_MIN);
    let shared: Arc<dyn File> = Arc::new(file.clone());
    let log = CommitLog::start(shared, CAPACITY_MIN, true, 1, SEED, Lsn(0), Lsn(0)).unwrap();
    let log = Arc::new(log.planted(plant));
    // The flusher is the spawned thread: loom explores more schedules of that one.
    let flusher = {
        let (log, file) = (Arc::clone(&log), file.clone());
        thread::spawn(move || {
            log.flush().unwrap();
            assert!(synced_end(&file) >= log.durable(), "{LOST}");
        })
    };
    log.append(Version(1), &[b"pay", b"load"]).unwrap();
    flusher.join().unwrap();
}

#[test]
fn loom_l5_head_follows_the_copy() {
    check(|| flush_while_appending(Plant::Nothing));
}

#[test]
fn loom_l5_early_head_is_caught() {
    assert!(loses(|| flush_while_appending(Plant::EarlyHead)));
}
