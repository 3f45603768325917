//! Transactions that went back to a savepoint.

use super::*;

/// What EvenDB records of transactions that go back.
#[test]
fn what_a_transaction_took_back_is_not_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let options = evendb::Options::new().memory_budget(16 << 20);
    let store = EvenDbStore::open(&directory.path().join("db"), options, "").unwrap();
    let db = store.database();
    let trace = db.start_trace(evendb::TraceOptions::new(&file).values(true));
    let trace = trace.unwrap();
    let keyspace = db.default_keyspace();
    let mut random = Random::new(17, 0);
    for number in 0..300_u32 {
        let mut transaction = db.transaction().unwrap();
        let mut savepoints = Vec::new();
        for _ in 0..12 {
            let key = format!("key{:02}", random.below(40));
            match random.below(7) {
                0..3 => transaction
                    .put(keyspace, key, number.to_le_bytes())
                    .unwrap(),
                3 => transaction.delete(keyspace, key).unwrap(),
                4 => {
                    let high = format!("key{:02}", random.below(40));
                    transaction.delete_range(keyspace, key..high).unwrap();
                }
                5 => savepoints.push(transaction.savepoint()),
                _ if !savepoints.is_empty() => {
                    let at = random.below(savepoints.len() as u64) as usize;
                    // A savepoint that is gone is refused, and nothing changes.
                    done(transaction.rollback_to(savepoints[at]));
                }
                _ => {}
            }
        }
        match number % 5 {
            0 => drop(transaction),
            _ => transaction.commit().unwrap(),
        }
    }
    trace.stop().unwrap();
    let original = contents(&store);
    assert!(original.len() > 5);
    let trace = std::fs::read(&file).unwrap();
    for threads in [1, 4] {
        let other = MemoryStore::new();
        let report = replayed(&trace, &other, &settings(threads));
        assert_eq!(contents(&other), original, "with {threads} threads");
        let names: Vec<_> = report.left_out.keys().copied().collect();
        let not_committed = "batches and transactions that were not committed in the trace";
        assert_eq!(
            names,
            [
                not_committed,
                "deletions of ranges that end before they begin",
                "writes that failed in the trace"
            ]
        );
    }
}

#[test]
fn a_savepoint_that_the_trace_does_not_have_leaves_the_transaction_out() {
    let part = |kind, key: &str, count| {
        let mut operation = Operation::new(kind, key);
        operation.group = 1;
        operation.count = count;
        operation.outcome = Outcome::Done;
        operation
    };
    for (number, stays) in [
        (None, None),
        (Some(9), None),
        (Some(1), Some("a")),
        (Some(0), Some("")),
    ] {
        let trace = written(&[
            part(Kind::Begin, "", None),
            part(Kind::Put, "a", None),
            part(Kind::Other, "savepoint", Some(1)),
            part(Kind::Put, "b", None),
            part(Kind::Other, "rollback_to", number),
            part(Kind::Commit, "", None),
        ]);
        let store = MemoryStore::new();
        let report = replayed(&trace, &store, &settings(1));
        assert_eq!(report.left_out.is_empty(), stays.is_some(), "{number:?}");
        let keys: Vec<_> = contents(&store).into_iter().map(|(key, _)| key).collect();
        let expected = stays.unwrap_or_default().as_bytes();
        assert_eq!(keys.concat(), expected, "{number:?}");
    }
}
