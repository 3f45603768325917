//! Many databases in one process that hardly uses them. `cargo test -p evendb --test many`
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use evendb::{Db, Options};
use std::time::Duration;

const DATABASES: usize = 20;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[track_caller]
fn wait_for_threads(most: usize) {
    for _ in 0..6_000 {
        if threads() <= most {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads instead of {most}", threads());
}

/// Each has one thread when it is left alone, after opening and after use; and none when it is
/// closed.
#[test]
fn idle_databases_have_one_thread_each() {
    let before = threads();
    let place = tempfile::tempdir().unwrap();
    // More than one worker, on any machine.
    let options = || Options::new().memory_budget(4 << 20).workers(4);
    let open = |number: usize| {
        options()
            .open(place.path().join(number.to_string()))
            .unwrap()
    };
    let databases: Vec<Db> = (0..DATABASES).map(open).collect();
    wait_for_threads(before + DATABASES);
    for db in &databases {
        for number in 0..3_000 {
            db.put(format!("{number:05}"), [1; 100]).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(db.iter().count(), 3_000);
    }
    wait_for_threads(before + DATABASES);
    for (number, db) in databases.iter().enumerate() {
        assert!(db.get(format!("{number:05}")).unwrap().is_some());
    }
    wait_for_threads(before + DATABASES);
    for db in databases {
        db.close().unwrap();
    }
    wait_for_threads(before);
}
