//! Reads of a mended munk do not ask the range deletions that it was mended of; the range deletions
//! hide all the same.

use super::super::one_chunk::{self, RECORDS, key};
use crate::chunk::Chunk;
use crate::rebalance::munks;
use crate::sync::Arc;
use crate::{Db, rebalance};

/// A database with one chunk that is all in RAM.
fn open() -> (Db, Arc<Chunk>) {
    let (db, chunk) = one_chunk::open();
    rebalance::spans::load_munk(&db.engine().core, &chunk).unwrap();
    (db, chunk)
}

fn delete(db: &Db, first: u32) {
    db.delete_range(key(first)..key(first + 5)).unwrap();
}

fn is_mended(db: &Db, chunk: &Arc<Chunk>) -> bool {
    let _token = chunk.try_token().unwrap();
    munks::mend_spent(&db.engine().core, chunk);
    chunk.view.load_full().munk_is_mended()
}

/// What gets and scans from both ends show.
fn there(db: &Db) -> Vec<u32> {
    let all = 0..RECORDS;
    let got: Vec<u32> = all
        .filter(|&index| db.get(key(index)).unwrap().is_some())
        .collect();
    let number = |item: crate::Result<(crate::Value, crate::Value)>| {
        let (key, _) = item.unwrap();
        std::str::from_utf8(&key[3..]).unwrap().parse().unwrap()
    };
    let forward: Vec<u32> = db.iter().map(number).collect();
    let mut backward: Vec<u32> = db.iter().rev().map(number).collect();
    backward.reverse();
    assert_eq!((&forward, &backward), (&got, &got));
    got
}

#[test]
fn a_mended_munk_answers_alone() {
    let (db, chunk) = open();
    let mut expected: Vec<u32> = (0..RECORDS).collect();
    for round in 0..6 {
        let first = 20 + round * 60;
        delete(&db, first);
        expected.retain(|index| !(first..first + 5).contains(index));
        // The range deletion is not in the manifest yet.
        assert!(!is_mended(&db, &chunk));
        assert_eq!(there(&db), expected);
        db.put(key(first + 2), "anew").unwrap();
        expected.push(first + 2);
        expected.sort_unstable();
        db.flush().unwrap();
        assert!(is_mended(&db, &chunk), "round {round}");
        assert_eq!(there(&db), expected);
        // Later deltas have nothing to hide, nor has what is absorbed of them.
        db.put(key(first), "anew").unwrap();
        expected.push(first);
        expected.sort_unstable();
        db.flush().unwrap();
        assert!(is_mended(&db, &chunk), "round {round}");
        assert_eq!(there(&db), expected);
    }
    assert!(
        chunk.view.load_full().covers.is_some(),
        "they are still there"
    );
}

#[test]
fn what_a_snapshot_sees_is_not_mended_away() {
    let (db, chunk) = open();
    delete(&db, 40);
    db.flush().unwrap();
    assert!(is_mended(&db, &chunk));
    let snapshot = db.snapshot().unwrap();
    delete(&db, 100);
    db.flush().unwrap();
    assert!(!is_mended(&db, &chunk));
    let keyspace = db.default_keyspace();
    assert_eq!(snapshot.iter(keyspace).count(), RECORDS as usize - 5);
    assert!(snapshot.get(keyspace, key(101)).unwrap().is_some());
    assert_eq!(there(&db).len(), RECORDS as usize - 10);
    drop(snapshot);
    assert!(is_mended(&db, &chunk));
    assert_eq!(there(&db).len(), RECORDS as usize - 10);
}

/// A span that is loaded from tables has records that a range deletion hides, so the munk is not
/// mended until the next look.
#[test]
fn a_span_that_is_loaded_is_mended_again() {
    let (db, chunk) = open();
    delete(&db, 40);
    db.flush().unwrap();
    assert!(is_mended(&db, &chunk));
    let core = &db.engine().core;
    {
        let _token = chunk.try_token().unwrap();
        rebalance::spans::evict_spans(core, &chunk, |_| true);
    }
    assert_eq!(there(&db).len(), RECORDS as usize - 5);
    rebalance::spans::load_munk(core, &chunk).unwrap();
    assert_eq!(there(&db).len(), RECORDS as usize - 5);
    assert!(is_mended(&db, &chunk));
    assert_eq!(there(&db).len(), RECORDS as usize - 5);
}
