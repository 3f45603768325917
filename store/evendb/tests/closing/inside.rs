//! Code of the application that the database calls has a handle of the database: what closing and
//! dropping do there.

use evendb::{
    CompactionFilter, Db, ErrorKind, FilterDecision, KeyspaceOptions, MergeOperator, Options,
    Result,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// The code's use of its handle, which happens once; and its outcome.
struct Once {
    db: Mutex<Option<Db>>,
    closes: bool,
    told: Sender<Option<ErrorKind>>,
}

impl Once {
    fn act(&self) {
        let Some(db) = self.db.lock().take() else {
            return;
        };
        let outcome = match self.closes {
            true => db.close().err().map(|error| error.kind()),
            // The last handle.
            false => {
                drop(db);
                None
            }
        };
        let _ = self.told.send(outcome);
    }
}

impl CompactionFilter for Once {
    fn filter(&self, _: &[u8], _: &[u8]) -> FilterDecision {
        self.act();
        FilterDecision::Keep
    }
}

struct Operator(Arc<Once>);

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        "test.closes"
    }

    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, evendb::MergeError> {
        self.0.act();
        Ok(operands.last().map(|last| last.to_vec()))
    }
}

fn open(path: &std::path::Path, workers: usize) -> Db {
    let options = Options::new().memory_budget(1 << 20).workers(workers);
    options
        .advanced(|advanced| advanced.chunk_bytes(4 << 10))
        .open(path)
        .unwrap()
}

#[test]
fn closing_in_a_compaction_filter_is_refused_and_the_database_stays_open() {
    for workers in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), workers);
        let (told, outcome) = channel();
        let filter = Once {
            db: Mutex::new(Some(db.clone())),
            closes: true,
            told,
        };
        let keyspace = db.default_keyspace();
        keyspace
            .set_compaction_filter(Some(Arc::new(filter)))
            .unwrap();
        db.put("key", "value").unwrap();
        db.compact().unwrap();
        assert_eq!(outcome.recv().unwrap(), Some(ErrorKind::InvalidArgument));
        db.put("key", "another").unwrap();
        db.close().unwrap();
    }
}

#[test]
fn closing_in_a_merge_operator_is_refused_and_the_get_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 2);
    let (told, outcome) = channel();
    let once = Arc::new(Once {
        db: Mutex::new(Some(db.clone())),
        closes: true,
        told,
    });
    let options = KeyspaceOptions::new().merge_operator(Operator(once));
    let merged = db.keyspace_with("merged", &options).unwrap();
    merged.merge("key", "a").unwrap();
    assert_eq!(merged.get("key").unwrap().unwrap(), "a");
    assert_eq!(outcome.recv().unwrap(), Some(ErrorKind::InvalidArgument));
    db.close().unwrap();
}

/// A rewrite by a thread of the database has the last handle, and drops it in the filter that it
/// calls.
#[test]
fn the_last_handle_is_dropped_in_a_thread_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 2);
    let (told, outcome) = channel();
    let filter = Arc::new(Once {
        db: Mutex::new(None),
        closes: false,
        told,
    });
    let keyspace = db.default_keyspace();
    keyspace
        .set_compaction_filter(Some(filter.clone()))
        .unwrap();
    for round in 0..40 {
        for number in 0..100 {
            db.put(format!("{number:03}"), [round; 100]).unwrap();
        }
        db.persist().unwrap();
    }
    *filter.db.lock() = Some(db);
    // No call comes any more: the database's threads do the remaining work.
    assert_eq!(outcome.recv().unwrap(), None);
    let again = loop {
        match Options::new().open(dir.path()) {
            // Closing is under way.
            Err(error) if error.kind() == ErrorKind::Locked => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(again.iter().count(), 100);
}

#[test]
fn a_transaction_may_close_the_database_that_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 2);
    let own = db.clone();
    let outcome: Result<()> = db.transact(|transaction| {
        transaction.put(own.default_keyspace(), "key", "value")?;
        own.clone().close()?;
        Ok(())
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
    assert!(open(dir.path(), 2).get("key").unwrap().is_none());
}

#[test]
fn several_threads_that_close_at_once_all_return_after_it_is_closed() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), 2);
        db.put("key", "value").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let own = db.clone();
                scope.spawn(|| {
                    own.close().unwrap();
                    // The directory is free, or another of these threads has it open.
                    match Db::open(dir.path()) {
                        Ok(again) => again.close().unwrap(),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
                    }
                });
            }
            drop(db);
        });
        assert_eq!(
            Db::open(dir.path()).unwrap().get("key").unwrap().unwrap(),
            "value"
        );
    }
}
