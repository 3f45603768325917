//! The operations of a transaction have the outcome of its end.

use super::cases::AB;
use super::{World, done, read};
use evendb::{ErrorKind, TraceOptions};
use evendb_trace::{Failure, Kind, Operation, Outcome};

const DONE: Outcome = Outcome::Done;
const ROLLED_BACK: Outcome = Outcome::Failed(Failure::RolledBack);
const CONFLICT: Outcome = Outcome::Failed(Failure::Conflict);

/// Kind, key and outcome, in the order of the file.
fn told(operations: &[Operation]) -> Vec<(Kind, &str, Outcome)> {
    let each = operations.iter();
    each.map(|one| (one.kind, str::from_utf8(&one.key).unwrap(), one.outcome))
        .collect()
}

#[test]
fn the_writes_of_a_transaction_have_the_outcome_of_its_commit() {
    use Kind::*;
    let world = World::new();
    let long = "k".repeat(70_000);
    let operations = world.recorded(|w| {
        let mut written = w.db.transaction().unwrap();
        written.put(&w.keyspace, "a", "12345").unwrap();
        written.delete(&w.keyspace, "b").unwrap();
        written.commit().unwrap();
        let mut refused = w.db.transaction().unwrap();
        done(refused.get(&w.keyspace, "a").unwrap());
        refused.put(&w.keyspace, "c", "1").unwrap();
        refused
            .merge(&w.counters, "n", 1_u64.to_le_bytes())
            .unwrap();
        refused.delete_range(&w.keyspace, AB).unwrap();
        w.keyspace.put("a", "another").unwrap();
        let error = refused.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let mut ended = w.db.transaction().unwrap();
        ended.single_delete(&w.keyspace, "d").unwrap();
        done(ended.put(&w.keyspace, &long, "").unwrap_err());
        ended.rollback();
    });
    let present = |len| Outcome::Present {
        len: Some(len),
        hash: Some(evendb_trace::value_hash(b"12345")),
    };
    let expected = [
        (Begin, "", Outcome::Unknown),
        (Put, "a", DONE),
        (Delete, "b", DONE),
        (Commit, "", DONE),
        (Begin, "", Outcome::Unknown),
        (Get, "a", present(5)),
        (Put, "a", DONE),
        (Put, "c", CONFLICT),
        (Merge, "n", CONFLICT),
        (DeleteRange, "a", CONFLICT),
        (Commit, "", CONFLICT),
        (Begin, "", Outcome::Unknown),
        (SingleDelete, "d", ROLLED_BACK),
        (Put, &long, Outcome::Failed(Failure::TooLarge)),
        (Abort, "", DONE),
    ];
    assert_eq!(told(&operations), expected);
    let put = &operations[1];
    assert_eq!(
        (put.value.as_deref(), put.value_len),
        (Some(&b"12345"[..]), Some(5))
    );
    // Each operation has the time of its call, and its latency.
    let commit = &operations[3];
    assert!(put.start_nanos <= operations[2].start_nanos && put.latency_nanos.is_some());
    assert!(operations[2].start_nanos <= commit.start_nanos);
    let own = |at: &usize| operations[*at].group != 0 && *at != 6;
    assert_eq!((0..operations.len()).filter(own).count(), 14);
}

#[test]
fn what_a_transaction_takes_back_to_a_savepoint_is_rolled_back() {
    use Kind::*;
    let world = World::new();
    let operations = world.recorded(|w| {
        let mut transaction = w.db.transaction().unwrap();
        transaction.put(&w.keyspace, "a", "1").unwrap();
        let first = transaction.savepoint();
        transaction.put(&w.keyspace, "b", "1").unwrap();
        let second = transaction.savepoint();
        transaction.delete(&w.keyspace, "c").unwrap();
        transaction.rollback_to(second).unwrap();
        transaction.put(&w.keyspace, "d", "1").unwrap();
        transaction.rollback_to(first).unwrap();
        done(transaction.rollback_to(second).unwrap_err());
        transaction.put(&w.keyspace, "e", "1").unwrap();
        transaction.commit().unwrap();
        // Nothing of this transaction was in the trace when the savepoint was made.
        let mut other = w.db.transaction().unwrap();
        let beginning = other.savepoint();
        other.put(&w.keyspace, "f", "1").unwrap();
        other.rollback_to(beginning).unwrap();
        other.put(&w.keyspace, "g", "1").unwrap();
        other.commit().unwrap();
    });
    let wrong = Outcome::Failed(Failure::InvalidArgument);
    let expected = [
        (Begin, "", Outcome::Unknown),
        (Put, "a", DONE),
        (Other, "savepoint", DONE),
        (Put, "b", ROLLED_BACK),
        (Other, "savepoint", DONE),
        (Delete, "c", ROLLED_BACK),
        (Other, "rollback_to", DONE),
        (Put, "d", ROLLED_BACK),
        (Other, "rollback_to", DONE),
        (Other, "rollback_to", wrong),
        (Put, "e", DONE),
        (Commit, "", DONE),
        (Begin, "", Outcome::Unknown),
        (Put, "f", ROLLED_BACK),
        (Other, "rollback_to", DONE),
        (Put, "g", DONE),
        (Commit, "", DONE),
    ];
    assert_eq!(told(&operations), expected);
}

/// The memory for operations that wait for the end has a limit.
#[test]
fn what_is_above_the_limit_of_a_transaction_is_recorded_without_an_outcome() {
    let world = World::new();
    let trace = world.start();
    let mut transaction = world.db.transaction().unwrap();
    for _ in 0..100 {
        let value = vec![1; evendb_trace::VALUE_BYTES_MAX];
        transaction.put(&world.keyspace, "a", value).unwrap();
    }
    transaction.rollback();
    let operations = world.stop(trace);
    let outcomes = |outcome| {
        let puts = operations.iter().filter(|one| one.kind == Kind::Put);
        puts.filter(|one| one.outcome == outcome).count()
    };
    // 16 MiB are 63 values with their operations.
    assert_eq!(outcomes(Outcome::Unknown), 64);
    assert_eq!(outcomes(ROLLED_BACK), 36);
}

#[test]
fn a_transaction_is_in_no_later_trace_than_that_in_which_it_began() {
    let world = World::new();
    let trace = world.start();
    let mut transaction = world.db.transaction().unwrap();
    transaction.put(&world.keyspace, "a", "1").unwrap();
    let mut records = transaction.range(&world.keyspace, "b"..).unwrap();
    assert!(records.next().is_some());
    let first = trace.stop().unwrap();
    let later = TraceOptions::new(world.path("later"));
    let trace = world.db.start_trace(later).unwrap();
    records.seek("c");
    assert!(records.next().is_some());
    done(records);
    transaction.put(&world.keyspace, "b", "1").unwrap();
    let savepoint = transaction.savepoint();
    transaction.rollback_to(savepoint).unwrap();
    done(transaction.range(&world.keyspace, AB).unwrap());
    transaction.commit().unwrap();
    // The begin is there; the write has no outcome yet.
    assert_eq!(first.recorded, 1);
    trace.stop().unwrap();
    assert_eq!(read(&world.path("later")), []);
}
