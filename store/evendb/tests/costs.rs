//! Costs that grow in proportion to the request, and not with its square: counted in steps, never
//! in time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{DIR, on_sim};
use evendb::vfs::SimVfs;
use evendb::{Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, MergeError, MergeOperator};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MERGES: u64 = 4096;

/// Appends, and counts the bytes of its operands.
struct Counting {
    /// Whether it combines several operands into one.
    partial: bool,
    operands: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Counting {
    fn append(&self, existing: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
        let value = [existing.unwrap_or_default(), &operands.concat()].concat();
        let bytes = value.len() as u64;
        self.operands
            .fetch_add(operands.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        value
    }
}

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        Ok(Some(self.append(existing, operands)))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let merged = self.append(None, operands);
        self.partial.then_some(merged)
    }
}

/// Checks the operator's calls while `write` merges `operand(0)`, `operand(1)`, ... into the key
/// "k": each operand is handed to it a limited number of times, and the result has all that went
/// in.
fn check_steps(what: &str, before: &[u8], write: impl Fn(&Db, &Keyspace)) {
    for partial in [false, true] {
        let (operands, bytes) = (Arc::default(), Arc::default());
        let operator = Counting {
            partial,
            operands: Arc::clone(&operands),
            bytes: Arc::clone(&bytes),
        };
        let db = on_sim(&SimVfs::new(1), Durability::Process, 0)
            .open(DIR)
            .unwrap();
        let options = KeyspaceOptions::new().merge_operator(operator);
        let keyspace = db.keyspace_with("merged", &options).unwrap();
        write(&db, &keyspace);
        let expected: String = (0..MERGES).map(operand).collect();
        let value = keyspace.get("k").unwrap().unwrap();
        assert_eq!(&value[..before.len()], before, "{what}");
        assert_eq!(&value[before.len()..], expected.as_bytes(), "{what}");
        let times = 2 * u64::from(MERGES.ilog2()) + 6;
        let counted = (
            operands.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        );
        let most_bytes = times * value.len() as u64 + OVER_SHORT_VALUES;
        assert!(
            counted.0 <= times * MERGES && counted.1 <= most_bytes,
            "{what}, partial {partial}: {counted:?} operands and bytes"
        );
    }
}

/// Bytes of the folds of short values. A value of up to 4 KiB is folded with each operand at once.
/// The operands have 10 bytes, so these are 4096 / 10 folds of up to 4 KiB.
const OVER_SHORT_VALUES: u64 = 4096 * 4096 / 10;

fn operand(number: u64) -> String {
    format!("<{number:08}>")
}

#[test]
fn a_batch_with_thousands_of_merges_of_one_key_folds_them_once() {
    check_steps("a batch", b"", |db, keyspace| {
        let mut batch = db.batch();
        for number in 0..MERGES {
            batch.merge(keyspace, "k", operand(number));
        }
        batch.commit().unwrap();
    });
    check_steps("a batch over its put", b"put", |db, keyspace| {
        let mut batch = db.batch();
        batch.merge(keyspace, "k", "hidden");
        batch.put(keyspace, "k", "put");
        for number in 0..MERGES {
            batch.merge(keyspace, "k", operand(number));
        }
        batch.commit().unwrap();
    });
}

#[test]
fn a_transaction_with_thousands_of_merges_of_one_key_copies_each_some_times() {
    let merge_all = |db: &Db, keyspace: &Keyspace, base: Option<&[u8]>, savepoints: bool| {
        let mut transaction = db.transaction().unwrap();
        if let Some(base) = base {
            transaction.put(keyspace, "k", base).unwrap();
        }
        for number in 0..MERGES {
            if savepoints {
                let savepoint = transaction.savepoint();
                transaction.merge(keyspace, "k", "taken back").unwrap();
                transaction.rollback_to(savepoint).unwrap();
            }
            transaction.merge(keyspace, "k", operand(number)).unwrap();
        }
        transaction.commit().unwrap();
    };
    check_steps("a transaction", b"", |db, keyspace| {
        merge_all(db, keyspace, None, false);
    });
    check_steps("over its put", b"put", |db, keyspace| {
        merge_all(db, keyspace, Some(b"put"), false);
    });
    let long = [7; 10_000];
    check_steps("with savepoints", b"", |db, keyspace| {
        merge_all(db, keyspace, None, true);
    });
    check_steps("over its long put", &long, |db, keyspace| {
        merge_all(db, keyspace, Some(&long), false);
    });
}

#[test]
fn merges_that_are_taken_back_one_by_one_leave_the_others_as_they_were() {
    let db = on_sim(&SimVfs::new(1), Durability::Process, 0)
        .open(DIR)
        .unwrap();
    let (operands, bytes) = (Arc::default(), Arc::default());
    let operator = Counting {
        partial: true,
        operands: Arc::clone(&operands),
        bytes,
    };
    let options = KeyspaceOptions::new().merge_operator(operator);
    let keyspace = db.keyspace_with("merged", &options).unwrap();
    for base in [None, Some("x".repeat(5_000))] {
        let mut transaction = db.transaction().unwrap();
        if let Some(base) = &base {
            transaction.put(&keyspace, "k", base).unwrap();
        }
        let mut savepoints = Vec::new();
        let mut values = vec![base.clone()];
        for number in 0..100 {
            savepoints.push(transaction.savepoint());
            transaction.merge(&keyspace, "k", operand(number)).unwrap();
            let before = values.last().cloned().flatten().unwrap_or_default();
            values.push(Some(before + &operand(number)));
        }
        while let (Some(value), Some(savepoint)) = (values.pop(), savepoints.pop()) {
            let seen = transaction.get(&keyspace, "k").unwrap();
            assert_eq!(seen.as_deref(), value.as_deref().map(str::as_bytes));
            let scanned = transaction.iter(&keyspace).unwrap().next();
            let scanned = scanned.map(|item| item.unwrap().1);
            assert_eq!(scanned.as_deref(), value.as_deref().map(str::as_bytes));
            transaction.rollback_to(savepoint).unwrap();
        }
    }
}

/// A value with its key may have a quarter of the memory budget, which is 1 MiB in these tests.
const VALUE_BYTES_MAX: usize = 256 << 10;

/// A value that operands have made too long is refused, like a put of such a value.
#[test]
fn a_batch_or_transaction_whose_merges_make_a_value_too_long_is_refused() {
    let db = on_sim(&SimVfs::new(1), Durability::Process, 0)
        .open(DIR)
        .unwrap();
    let options = KeyspaceOptions::new().merge_operator(evendb::Merges::Append);
    let keyspace = db.keyspace_with("merged", &options).unwrap();
    let most = VALUE_BYTES_MAX;
    let (put, operand) = (vec![1; most / 2], vec![2; most / 3]);
    for over_put in [false, true] {
        let mut batch = db.batch();
        if over_put {
            batch.put(&keyspace, "k", &put);
        }
        for _ in 0..4 {
            batch.merge(&keyspace, "k", &operand);
        }
        let error = batch.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ValueTooLarge, "{error}");
        let mut transaction = db.transaction().unwrap();
        if over_put {
            transaction.put(&keyspace, "k", &put).unwrap();
        }
        let mut merges = (0..4).map(|_| transaction.merge(&keyspace, "k", &operand));
        let error = merges.find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::ValueTooLarge, "{error}");
    }
    assert!(keyspace.get("k").unwrap().is_none());
}

/// An operator whose result is longer than its operands.
#[test]
fn operands_that_become_too_long_at_the_commit_are_refused_there() {
    struct Doubling;
    impl MergeOperator for Doubling {
        fn name(&self) -> &str {
            "doubling"
        }
        fn full_merge(
            &self,
            _key: &[u8],
            existing: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> Result<Option<Vec<u8>>, MergeError> {
            let mut value = existing.unwrap_or_default().to_vec();
            operands.iter().for_each(|_| value = value.repeat(2));
            Ok(Some(value))
        }
    }
    let db = on_sim(&SimVfs::new(1), Durability::Process, 0)
        .open(DIR)
        .unwrap();
    let options = KeyspaceOptions::new().merge_operator(Doubling);
    let keyspace = db.keyspace_with("merged", &options).unwrap();
    let put = vec![1; VALUE_BYTES_MAX / 3];
    let mut transaction = db.transaction().unwrap();
    transaction.put(&keyspace, "k", &put).unwrap();
    transaction.merge(&keyspace, "k", "").unwrap();
    transaction.merge(&keyspace, "k", "").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ValueTooLarge, "{error}");
    assert!(keyspace.get("k").unwrap().is_none());
}

/// More keyspaces than a batch looks through one by one.
#[test]
fn a_batch_and_a_transaction_tell_many_keyspaces_apart() {
    let db = on_sim(&SimVfs::new(1), Durability::Process, 0)
        .open(DIR)
        .unwrap();
    let keyspaces: Vec<Keyspace> = (0..40)
        .map(|number| db.keyspace(&format!("{:02}", number * 7 % 40)).unwrap())
        .collect();
    let check = |what: &str| {
        for (number, keyspace) in keyspaces.iter().enumerate() {
            let all: Vec<_> = keyspace.iter().map(Result::unwrap).collect();
            let expected = format!("{what} {number}");
            assert_eq!(all.len(), 1, "{expected}");
            assert!(all[0].0 == "kept" && all[0].1 == expected.as_str());
        }
    };
    let mut batch = db.batch();
    for _ in 0..2 {
        for (number, keyspace) in keyspaces.iter().enumerate() {
            batch.put(keyspace, "gone", "x");
            batch.put(keyspace, "kept", format!("batch {number}"));
        }
    }
    keyspaces.iter().for_each(|keyspace| {
        batch.delete_range(keyspace, "g".."h");
    });
    batch.commit().unwrap();
    check("batch");
    let mut transaction = db.transaction().unwrap();
    for (number, keyspace) in keyspaces.iter().enumerate().rev() {
        transaction.put(keyspace, "gone", "x").unwrap();
        transaction.delete_range(keyspace, "g".."h").unwrap();
        let savepoint = transaction.savepoint();
        transaction.put(keyspace, "kept", "undone").unwrap();
        transaction.delete_range(keyspace, "a".."z").unwrap();
        transaction.rollback_to(savepoint).unwrap();
        let value = format!("transaction {number}");
        transaction.put(keyspace, "kept", value).unwrap();
    }
    assert_eq!(transaction.len(), 80);
    transaction.commit().unwrap();
    check("transaction");
}
