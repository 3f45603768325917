//! Threads of the store take no signal of the program, whichever call starts them, and the calling
//! thread keeps its own.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test, which may end at the first surprise"
)]

mod common;

use common::following::small;
use evendb::{Durability, Layout, Options, SharedBudget};
use std::collections::BTreeMap;
use std::fs;
use std::task::{Context, Poll, Waker};

/// Faults that a thread causes itself.
const OWN: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The blocked signals of a task of this process; `None` if it is gone.
fn blocked(task: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("SigBlk:"))?;
    u64::from_str_radix(line.split_whitespace().last()?, 16).ok()
}

fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Looks at all threads of the store that there are.
fn look(seen: &mut BTreeMap<String, u64>) {
    // Nobody can block these, or what the C library keeps for itself (32 to 34).
    let mut must = !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
    must &= !(bit(32) | bit(33) | bit(34));
    for own in OWN {
        must &= !bit(own);
    }
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().file_name().to_string_lossy().into_owned();
        let name = fs::read_to_string(format!("/proc/self/task/{task}/comm"));
        let Some(name) = name.ok().filter(|name| name.starts_with("evendb-")) else {
            continue;
        };
        if let Some(blocked) = blocked(&task) {
            assert_eq!(blocked & must, must, "{name}");
            // Threads that start or are started have these blocked, too, for a moment.
            if OWN.iter().all(|own| blocked & bit(*own) == 0) {
                *seen.entry("faults are told".to_owned()).or_default() += 1;
            }
            *seen.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn no_thread_of_the_store_takes_a_signal() {
    let own = fs::read_link("/proc/thread-self").unwrap();
    let own = own.file_name().unwrap().to_string_lossy().into_owned();
    let before = blocked(&own).unwrap();
    assert_eq!(before & bit(libc::SIGUSR1), 0);
    let mut seen = BTreeMap::new();
    let dir = tempfile::tempdir().unwrap();
    let db = small(Layout::Chunks, Durability::Process, 2)
        .advanced(|advanced| advanced.values_apart_from(Some(100)))
        .open(dir.path().join("own"))
        .unwrap();
    look(&mut seen);
    for number in 0..60_u32 {
        // Each value is in a file, so a get has to read.
        db.put(format!("{number:08}"), [7; 300]).unwrap();
        if number % 10 == 0 {
            look(&mut seen);
            let mut get = db.get_async(format!("{:08}", number / 2));
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), "k", "v");
            batch.durability(Durability::Sync);
            let mut commit = batch.commit_async();
            let _ = poll(&mut get);
            let _ = poll(&mut commit);
            look(&mut seen);
        }
    }
    let mut ingest = db.keyspace("sorted").unwrap().begin_ingest().unwrap();
    for number in 0..4_000_u32 {
        ingest.put(format!("{number:08}"), [7; 400]).unwrap();
        if number % 100 == 0 {
            look(&mut seen);
        }
    }
    drop(ingest);
    db.flush().unwrap();
    look(&mut seen);
    let shared = SharedBudget::new(64 << 20).unwrap();
    let options = Options::new().advanced(|advanced| {
        let advanced = advanced.commit_log_bytes(64 << 10);
        advanced.shared(&shared)
    });
    let other = options.open(dir.path().join("other")).unwrap();
    // A thread of the crew lives while it works: there is more work until one was seen.
    for number in 0..10_000_u32 {
        other.put(format!("k{number}"), [7; 400]).unwrap();
        look(&mut seen);
        if seen.contains_key("evendb-crew") {
            break;
        }
        if number % 100 == 0 {
            other.flush().unwrap();
        }
    }
    for name in ["upkeep", "reader", "syncer", "ingest", "crew"] {
        let name = format!("evendb-{name}");
        assert!(seen.contains_key(&name), "{name} of {seen:?}");
    }
    assert!(seen["faults are told"] > 0);
    assert_eq!(blocked(&own), Some(before));
}
