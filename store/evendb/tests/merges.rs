//! Merge operators: the results of operands wherever these lie, what is refused, and what a failing
//! operator loses (nothing).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod merging;

use common::{DIR, on_sim};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{
    BatchWrite, Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, MergeError, MergeOperator,
    Merges,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime};

fn open(vfs: &SimVfs) -> Db {
    on_sim(vfs, Durability::Process, 0).open(DIR).unwrap()
}

fn adding() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator(Merges::AddU64)
}

fn number(keyspace: &Keyspace, key: &str) -> Option<u64> {
    let value = keyspace.get(key).unwrap()?;
    Some(u64::from_le_bytes((*value).try_into().unwrap()))
}

fn add(keyspace: &Keyspace, key: &str, more: u64) {
    keyspace.merge(key, more.to_le_bytes()).unwrap();
}

#[test]
fn operands_count_once_wherever_they_lie() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let counts = db.keyspace_with("counts", &adding()).unwrap();
    let mut expected = 0;
    let mut snapshots = Vec::new();
    for round in 0..60u64 {
        for more in 0..round % 4 {
            add(&counts, "a", more + 1);
            expected += more + 1;
        }
        match round % 13 {
            2 => db.flush().unwrap(),
            5 => db.settle_debt().unwrap(),
            7 => snapshots.push((db.snapshot().unwrap(), expected)),
            9 => drop(db.idle_pass().unwrap()),
            11 => counts.compact().map(drop).unwrap(),
            12 => {
                counts.put("a", 1000u64.to_le_bytes()).unwrap();
                expected = 1000;
            }
            _ => {}
        }
        let scanned = counts.iter().next().map(|item| item.unwrap().1.to_vec());
        let bytes = (expected > 0 || round > 1).then(|| expected.to_le_bytes().to_vec());
        assert_eq!(scanned, bytes, "round {round}");
        assert_eq!(number(&counts, "a").unwrap_or(0), expected, "round {round}");
        for (snapshot, then) in &snapshots {
            let value = snapshot.get(&counts, "a").unwrap();
            let value = value.map_or(0, |value| u64::from_le_bytes((*value).try_into().unwrap()));
            assert_eq!(value, *then, "round {round}: a snapshot");
        }
    }
}

#[test]
fn a_crash_leaves_each_operand_once() {
    let mut vfs = SimVfs::new(2);
    let mut expected = 0;
    for life in 0..6u64 {
        let db = open(&vfs);
        let counts = db.keyspace_with("counts", &adding()).unwrap();
        assert_eq!(number(&counts, "a").unwrap_or(0), expected, "life {life}");
        for more in 1..20 {
            add(&counts, "a", more);
            expected += more;
            if more == 7 * (life % 3) {
                db.flush().unwrap();
            }
            if more == 11 && life % 2 == 0 {
                counts.put("a", 5u64.to_le_bytes()).unwrap();
                expected = 5;
            }
        }
        vfs = vfs.crash(CrashMode::Process);
    }
}

#[test]
fn range_deletions_hide_older_operands_only() {
    let vfs = SimVfs::new(3);
    let db = open(&vfs);
    let counts = db.keyspace_with("counts", &adding()).unwrap();
    for flushes in 0..8 {
        let flush = |bit: i32| {
            if flushes & bit != 0 {
                db.flush().unwrap();
                db.settle_debt().unwrap();
            }
        };
        counts.put("a", 100u64.to_le_bytes()).unwrap();
        add(&counts, "a", 1);
        flush(1);
        let snapshot = db.snapshot().unwrap();
        counts.delete_prefix("a").unwrap();
        assert_eq!(number(&counts, "a"), None);
        flush(2);
        add(&counts, "a", 2);
        add(&counts, "a", 3);
        flush(4);
        assert_eq!(number(&counts, "a"), Some(5), "{flushes}");
        let then = snapshot.get(&counts, "a").unwrap().unwrap();
        assert_eq!(then, 101u64.to_le_bytes(), "{flushes}");
        drop(snapshot);
        let mut batch = db.batch();
        batch.merge(&counts, "a", 50u64.to_le_bytes());
        batch.delete_range(&counts, "a".."b");
        batch.merge(&counts, "a", 7u64.to_le_bytes());
        batch.commit().unwrap();
        assert_eq!(number(&counts, "a"), Some(7), "{flushes}");
        counts.compact().unwrap();
        assert_eq!(number(&counts, "a"), Some(7), "{flushes}");
    }
}

#[test]
fn batches_fold_what_they_write_to_one_key() {
    let vfs = SimVfs::new(4);
    let db = open(&vfs);
    let counts = db.keyspace_with("counts", &adding()).unwrap();
    add(&counts, "a", 1);
    let mut batch = db.batch();
    for more in [2u64, 3] {
        batch.merge(&counts, "a", more.to_le_bytes());
        batch.merge(&counts, "b", more.to_le_bytes());
    }
    batch.put(&counts, "c", 10u64.to_le_bytes());
    batch.merge(&counts, "c", 1u64.to_le_bytes());
    batch
        .delete(&counts, "d")
        .merge(&counts, "d", 4u64.to_le_bytes());
    let last = batch.get(&counts, "a");
    assert_eq!(last, Some(BatchWrite::Merge(&3u64.to_le_bytes())));
    batch.commit().unwrap();
    let all: Vec<_> = ["a", "b", "c", "d"].map(|key| number(&counts, key)).into();
    assert_eq!(all, [Some(6), Some(5), Some(11), Some(4)]);

    // If operands cannot be folded, the whole write fails.
    let moody = KeyspaceOptions::new().merge_operator(Moody(Arc::new(AtomicU8::new(1))));
    let moody = db.keyspace_with("moody", &moody).unwrap();
    let mut batch = db.batch();
    batch
        .put(&moody, "x", 3u64.to_le_bytes())
        .put(&counts, "a", 0u64.to_le_bytes());
    batch.merge(&moody, "x", 1u64.to_le_bytes());
    let error = batch.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MergeFailed);
    assert_eq!(
        (number(&counts, "a"), moody.get("x").unwrap().is_none()),
        (Some(6), true)
    );
}

/// Each way of writing refuses `bad` in the keyspace, and nothing of the write is there.
fn refuse_everywhere(db: &Db, keyspace: &Keyspace, bad: &[u8], why: &str) {
    let (good, hour) = (&Merges::set(["1234567"])[..], Duration::from_secs(3600));
    let refused = |what: &str, done: evendb::Result<()>| {
        let error = done.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
        let text = error.to_string();
        for part in [why, "b\"key\"", keyspace.name()] {
            assert!(text.contains(part), "{what}: {part} in {text}");
        }
    };
    refused("put", keyspace.put("key", bad));
    refused("merge", keyspace.merge("key", bad));
    refused("put with a ttl", keyspace.put_with_ttl("key", bad, hour));
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    refused("put until", keyspace.put_expiring_at("key", bad, at));
    let swapped = keyspace.compare_and_swap("key", None, Some(bad));
    refused("compare and swap", swapped.map(drop));
    refused("ingest", keyspace.ingest([("key", bad)]).map(drop));
    let mut ingest = keyspace.begin_ingest().unwrap();
    ingest.put("a", good).unwrap();
    refused("ingest of two", ingest.put("key", bad));
    assert!(ingest.finish().is_err(), "nothing is left of it");
    for merged in [false, true] {
        let mut batch = db.batch();
        batch.put(keyspace, "a", good);
        match merged {
            true => batch.merge(keyspace, "key", bad),
            false => batch.put(keyspace, "key", bad),
        };
        refused("batch", batch.commit());
        let written = db.transact(|transaction| match merged {
            true => transaction.merge(keyspace, "key", bad),
            false => transaction.put(keyspace, "key", bad),
        });
        refused("transaction", written);
    }
    assert!(keyspace.iter().next().is_none(), "nothing took effect");
    keyspace.put("key", good).unwrap();
    keyspace.merge("key", good).unwrap();
    assert!(keyspace.get("key").unwrap().is_some());
}

#[test]
fn a_value_or_an_operand_that_the_operator_cannot_read_is_refused_by_every_write() {
    let vfs = SimVfs::new(8);
    let db = open(&vfs);
    let none = "where a number has 8";
    for (merges, bad, why) in [
        (Merges::AddU64, &b"5"[..], "1 byte where a number has 8"),
        (Merges::AddI64, b"123456789", none),
        (Merges::AddU64, b"", none),
        (Merges::Union, b"ab", "a set that makes no sense"),
    ] {
        let name = format!("{merges:?} {}", bad.len());
        let options = KeyspaceOptions::new().merge_operator(merges);
        let keyspace = db.keyspace_with(&name, &options).unwrap();
        refuse_everywhere(&db, &keyspace, bad, why);
    }
    // These operators take bytes.
    for merges in [Merges::Max, Merges::Min, Merges::Append] {
        let options = KeyspaceOptions::new().merge_operator(merges);
        let keyspace = db.keyspace_with(merges.name(), &options).unwrap();
        keyspace.put("key", "5").unwrap();
        keyspace.merge("key", "").unwrap();
    }
}

/// Values from before the keyspace got its operator are there, and an error of the key says where
/// it is.
#[test]
fn a_value_from_before_the_operator_makes_an_error_that_names_key_and_keyspace() {
    let vfs = SimVfs::new(9);
    let db = open(&vfs);
    let counts = db.keyspace("counts").unwrap();
    counts.put("page", "no number").unwrap();
    counts.set_options(&adding()).unwrap();
    assert_eq!(counts.get("page").unwrap().unwrap(), "no number");
    add(&counts, "page", 1);
    let error = counts.get("page").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MergeFailed);
    let expected = "in the keyspace \"counts\" the merge operator \"evendb.add-u64\" failed for the \
                    key b\"page\": 9 bytes where a number has 8";
    assert_eq!(error.to_string(), expected);
    // A repair refuses no record that was there.
    drop(counts);
    db.close().unwrap();
    let repair = evendb::inspect::RepairOptions::default();
    let inspect = evendb::inspect::InspectOptions::new().vfs(Arc::new(vfs.clone()));
    let report = evendb::inspect::repair(DIR, "/repaired", repair, inspect).unwrap();
    assert!(report.is_complete(), "{report:?}");
    let repaired = on_sim(&vfs, Durability::Process, 0)
        .open("/repaired")
        .unwrap();
    let counts = repaired.keyspace("counts").unwrap();
    assert_eq!(counts.get("page").unwrap_err().to_string(), expected);
    counts.put("page", 7u64.to_le_bytes()).unwrap();
    assert_eq!(number(&counts, "page"), Some(7));
}

#[test]
fn transactions_see_their_merges_which_are_no_reads() {
    let vfs = SimVfs::new(5);
    let db = open(&vfs);
    let counts = db.keyspace_with("counts", &adding()).unwrap();
    add(&counts, "a", 1);
    let (mut first, mut second) = (db.transaction().unwrap(), db.transaction().unwrap());
    for transaction in [&mut first, &mut second] {
        transaction
            .merge(&counts, "a", 10u64.to_le_bytes())
            .unwrap();
        transaction.merge(&counts, "b", 1u64.to_le_bytes()).unwrap();
    }
    first.commit().unwrap();
    second.commit().unwrap();
    assert_eq!(
        (number(&counts, "a"), number(&counts, "b")),
        (Some(21), Some(2))
    );

    let mut transaction = db.transaction().unwrap();
    transaction.merge(&counts, "a", 4u64.to_le_bytes()).unwrap();
    transaction.put(&counts, "c", 7u64.to_le_bytes()).unwrap();
    let savepoint = transaction.savepoint();
    transaction.merge(&counts, "c", 1u64.to_le_bytes()).unwrap();
    transaction.rollback_to(savepoint).unwrap();
    transaction.merge(&counts, "c", 2u64.to_le_bytes()).unwrap();
    let got = |key| transaction.get(&counts, key).unwrap().unwrap().to_vec();
    assert_eq!(
        (got("a"), got("c")),
        (25u64.to_le_bytes().to_vec(), 9u64.to_le_bytes().to_vec())
    );
    let seen = transaction.iter(&counts).unwrap();
    let seen: Vec<_> = seen.map(|item| item.unwrap().1.to_vec()).collect();
    assert_eq!(
        seen,
        [25u64, 2, 9].map(|value| value.to_le_bytes().to_vec())
    );
    // It has read now, so a merge by another transaction is a conflict.
    add(&counts, "a", 1);
    assert_eq!(
        transaction.commit().unwrap_err().kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn another_operator_or_none_is_refused_with_both_names() {
    let vfs = SimVfs::new(6);
    let db = open(&vfs);
    let tail = merging::options(true);
    db.keyspace_with("own", &tail)
        .unwrap()
        .merge("a", "x")
        .unwrap();
    db.keyspace_with("counts", &adding()).unwrap();
    db.close().unwrap();

    let db = open(&vfs);
    let refused = |error: evendb::Error, parts: &[&str]| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    refused(
        db.keyspace("own").unwrap_err(),
        &["\"tail\"", "none was given"],
    );
    let error = db.keyspace_with("own", &adding()).unwrap_err();
    refused(error, &["has merge_operator tail", "evendb.add-u64"]);
    let error = db.keyspace_with("counts", &tail).unwrap_err();
    refused(error, &["evendb.add-u64", "tail was asked for"]);
    let error = db
        .keyspace("counts")
        .unwrap()
        .set_options(&tail)
        .unwrap_err();
    refused(error, &["evendb.add-u64", "tail"]);
    // A built-in operator need not be given, since its name says what it does. Jobs continue
    // without the other operator.
    add(&db.keyspace("counts").unwrap(), "a", 1);
    db.flush().unwrap();
    db.settle_debt().unwrap();
    let own = db.keyspace_with("own", &tail).unwrap();
    assert_eq!(own.get("a").unwrap().unwrap(), "x");
    db.keyspace("own").unwrap().merge("a", "y").unwrap();
    assert_eq!(own.get("a").unwrap().unwrap(), "xy");
    let plain = db.keyspace("plain").unwrap();
    plain.set_options(&tail).unwrap();
    plain.merge("a", "z").unwrap();
    plain.set_options(&KeyspaceOptions::new()).unwrap();
    assert_eq!(plain.get("a").unwrap().unwrap(), "z", "an operator stays");
}

/// A user who merges into a keyspace without an operator does what the message says, and it works:
/// by every call that merges.
#[test]
fn the_message_of_a_merge_without_an_operator_names_the_way_that_works() {
    let db = open(&SimVfs::new(7));
    let made = db.keyspace("made").unwrap();
    for keyspace in [db.default_keyspace(), &made] {
        let mut batch = db.batch();
        batch.merge(keyspace, "a", 1u64.to_le_bytes());
        let mut transaction = db.transaction().unwrap();
        for merged in [
            keyspace.merge("a", 1u64.to_le_bytes()),
            transaction.merge(keyspace, "a", 1u64.to_le_bytes()),
            batch.commit(),
        ] {
            let error = merged.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            let way = "Keyspace::set_options with KeyspaceOptions::merge_operator";
            assert!(text.contains(way), "{text}");
        }
        drop(transaction);
        let operator = KeyspaceOptions::new().merge_operator(Merges::AddU64);
        keyspace.set_options(&operator).unwrap();
        add(keyspace, "a", 2);
        assert_eq!(number(keyspace, "a"), Some(2));
    }
}

/// Adds like `AddU64`, unless it is told to fail or to panic.
struct Moody(Arc<AtomicU8>);

impl MergeOperator for Moody {
    fn name(&self) -> &str {
        "moody"
    }
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        match self.0.load(Ordering::Relaxed) {
            1 => Err("out of mood".into()),
            2 => panic!("out of temper"),
            _ => Merges::AddU64.full_merge(key, existing, operands),
        }
    }
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        match self.0.load(Ordering::Relaxed) {
            1 => None,
            2 => panic!("out of temper"),
            _ => Merges::AddU64.partial_merge(key, operands),
        }
    }
}

#[test]
fn an_operator_that_fails_or_panics_loses_and_latches_nothing() {
    let vfs = SimVfs::new(7);
    let db = open(&vfs);
    let mood = Arc::new(AtomicU8::new(0));
    let moody = KeyspaceOptions::new().merge_operator(Moody(mood.clone()));
    let counts = db.keyspace_with("counts", &moody).unwrap();
    counts.put("b", "no number").unwrap();
    let mut expected = 0;
    for (round, state) in [0, 1, 2, 0, 2, 1, 1, 2, 0].into_iter().enumerate() {
        mood.store(state, Ordering::Relaxed);
        let _snapshot = (round % 3 == 1).then(|| db.snapshot().unwrap());
        for more in 1..30 {
            add(&counts, "a", more);
            expected += more;
        }
        if round == 4 {
            counts.put("a", 0u64.to_le_bytes()).unwrap();
            add(&counts, "a", 3);
            expected = 3;
        }
        db.flush().unwrap();
        db.settle_debt().unwrap();
        db.idle_pass().unwrap();
        counts.compact().unwrap();
        match counts.get("a") {
            Ok(_) => assert_eq!((state, number(&counts, "a")), (0, Some(expected))),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::MergeFailed);
                assert!(state > 0 && error.to_string().contains("out of"), "{error}");
                let scanned = counts.iter().next().unwrap();
                assert_eq!(scanned.unwrap_err().kind(), ErrorKind::MergeFailed);
            }
        }
        // Other keys are unchanged.
        assert_eq!(counts.get("b").unwrap().unwrap(), "no number");
    }
    // An operand that never makes sense is an error of its key until the key is put again.
    add(&counts, "b", 1);
    assert_eq!(counts.get("b").unwrap_err().kind(), ErrorKind::MergeFailed);
    db.flush().unwrap();
    db.settle_debt().unwrap();
    counts.compact().unwrap();
    counts.put("b", 1u64.to_le_bytes()).unwrap();
    assert_eq!(
        (number(&counts, "b"), number(&counts, "a")),
        (Some(1), Some(expected))
    );
}

#[test]
fn changes_copies_and_repairs_have_operands() {
    let vfs = SimVfs::new(8);
    let db = open(&vfs);
    let counts = db.keyspace_with("counts", &adding()).unwrap();
    counts.put("a", 1u64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    add(&counts, "a", 2);
    add(&counts, "b", 3);
    let start = db.oldest_position().unwrap();
    let mut changes = db.changes_since(&start).unwrap();
    let mut merged = 0;
    for change in &mut changes {
        for write in change.unwrap().writes() {
            let operands = write.operands.iter().flat_map(|operands| operands.iter());
            for operand in operands {
                assert!(write.value.is_none() && write.deleted_to.is_none());
                merged += u64::from_le_bytes(operand.try_into().unwrap());
            }
        }
    }
    assert_eq!(merged, 5);
    drop(changes);
    db.copy_to("/copy").unwrap();
    let copy = on_sim(&vfs, Durability::Process, 0).open("/copy").unwrap();
    let copied = copy.keyspace("counts").unwrap();
    assert_eq!(
        (number(&copied, "a"), number(&copied, "b")),
        (Some(3), Some(3))
    );
    drop((copied, copy));
    // Operands in tables, runs and the log.
    db.flush().unwrap();
    add(&counts, "a", 10);
    let machine = vfs.crash(CrashMode::Process);
    let repair = evendb::inspect::RepairOptions::default();
    let inspect = evendb::inspect::InspectOptions::new().vfs(Arc::new(machine.clone()));
    evendb::inspect::repair(DIR, "/repaired", repair, inspect).unwrap();
    let repaired = on_sim(&machine, Durability::Process, 0)
        .open("/repaired")
        .unwrap();
    let counts = repaired.keyspace("counts").unwrap();
    assert_eq!(
        (number(&counts, "a"), number(&counts, "b")),
        (Some(13), Some(3))
    );
}
