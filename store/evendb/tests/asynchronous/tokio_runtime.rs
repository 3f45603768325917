//! The futures on tokio: a runtime of one thread, and one of several.

use super::executor::block_on;
use super::files::{Files, key, value};
use evendb::{Db, Durability};
use tokio::runtime::{Builder, Runtime};

fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().build().unwrap();
    let several = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    [one, several]
}

/// A task of a service: reads, writes and scans, by one handle.
async fn serve(db: Db, number: u32) -> evendb::Result<usize> {
    let found = db.get_async(key(number % 500)).await?;
    assert_eq!(*found.unwrap(), *value(number % 500));
    let mut batch = db.batch();
    batch.put(db.default_keyspace(), format!("task/{number}"), "done");
    batch.commit_async().await?;
    let mut chunks = db.range_async(key(0)..key(20));
    let mut count = 0;
    while let Some(chunk) = chunks.next_chunk().await? {
        count += chunk.len();
    }
    Ok(count)
}

#[test]
fn a_thousand_tasks() {
    for runtime in runtimes() {
        let files = Files::new();
        let db = files.cold(500, || files.options(Durability::Sync, 1));
        runtime.block_on(async {
            let tasks = (0..1000).map(|number| tokio::spawn(serve(db.clone(), number)));
            for task in tasks.collect::<Vec<_>>() {
                assert_eq!(task.await.unwrap().unwrap(), 20);
            }
            db.persist_async().await.unwrap();
        });
        assert_eq!(db.prefix("task/").count(), 1000);
        db.close().unwrap();
    }
}

/// A22: waiting for a future within a worker of a runtime uses nothing of the runtime.
#[test]
fn a22_block_on_within_a_runtime_a_thousand_times() {
    for runtime in runtimes() {
        let files = Files::new();
        let db = files.cold(500, || files.options(Durability::Process, 1));
        runtime.block_on(async {
            let task = tokio::spawn(async move {
                for number in 0..1000 {
                    let found = block_on(db.get_async(key(number % 500)));
                    assert_eq!(*found.unwrap().unwrap(), *value(number % 500));
                }
            });
            task.await.unwrap();
        });
    }
}

/// While one task waits for its sync, the others of its thread go on.
#[test]
fn a_wait_holds_up_no_other_task() {
    let files = Files::new();
    let db = files.open(Durability::Sync);
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        files.hold_syncs(true);
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "k", "v");
        let commit = tokio::spawn(batch.commit_async());
        // On this one thread, the other task runs to its end before the sync is let go.
        let other = tokio::spawn({
            let db = db.clone();
            async move {
                for _ in 0..100 {
                    db.get_async("k").await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        other.await.unwrap();
        assert!(!commit.is_finished());
        files.hold_syncs(false);
        commit.await.unwrap().unwrap();
    });
}
