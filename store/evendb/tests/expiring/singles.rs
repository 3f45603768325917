//! Single deletes: beside puts, snapshots and crashes, and beside an operator that is added in
//! between.

use crate::common::DIR;
use crate::{Hands, Random, check, get, open, pairs, records};
use evendb::inspect::{Dump, DumpOptions, DumpValue, InspectOptions, dump};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{ErrorKind, Keyspace, KeyspaceOptions, MergeError, MergeOperator, Merges};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

#[test]
fn a_single_delete_goes_with_its_put() {
    let vfs = SimVfs::new(6);
    let hands = Hands::at(1);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    // Both are in deltas: the checkpoint writes neither.
    for number in 0..100 {
        db.put(format!("{number:03}"), "value").expect("puts");
    }
    for number in 0..100 {
        keyspace
            .single_delete(format!("{number:03}"))
            .expect("deletes");
        assert!(!db.contains_key(format!("{number:03}")).expect("gets"));
    }
    db.flush().expect("a checkpoint");
    assert_eq!((records(&vfs, &db), keyspace.iter().count()), (0, 0));
    // A put in the base, its removal and the next put and removal above it: nothing comes back,
    // whenever they meet.
    db.put("k", "first").expect("puts");
    db.put("others", "stay").expect("puts");
    db.settle_debt().expect("settles");
    keyspace.single_delete("k").expect("deletes");
    db.put("k", "second").expect("puts");
    check(&db, "k", Some("second"), "put again");
    db.flush().expect("a checkpoint");
    check(&db, "k", Some("second"), "put again, in a run");
    keyspace.single_delete("k").expect("deletes");
    check(&db, "k", None, "deleted again");
    db.flush().expect("a checkpoint");
    check(&db, "k", None, "deleted again, in a run");
    db.settle_debt().expect("settles");
    check(&db, "k", None, "settled");
    db.compact().expect("compacts");
    check(&db, "k", None, "compacted");
    assert_eq!(records(&vfs, &db), 1);
    // A snapshot between the two keeps both.
    db.put("k", "third").expect("puts");
    let snapshot = db.snapshot().expect("a snapshot");
    let mut batch = db.batch();
    batch
        .single_delete(keyspace, "k")
        .put(keyspace, "l", "beside");
    batch.commit().expect("commits");
    db.compact().expect("compacts");
    assert_eq!(
        snapshot.get(keyspace, "k").expect("gets").expect("there"),
        "third"
    );
    check(&db, "k", None, "with a snapshot");
    drop(snapshot);
    db.compact().expect("compacts");
    check(&db, "k", None, "without a snapshot");
    assert_eq!(records(&vfs, &db), 2);
}

/// Keys are put once, removed once, and put again; everything else happens in between, crashes too.
#[test]
fn single_deletes_by_the_contract_are_deletes() {
    for seed in 0..12 {
        let mut vfs = SimVfs::new(seed);
        let hands = Hands::at(1);
        let mut random = Random(seed << 40);
        let mut db = open(&vfs, &hands);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in 0..900_u64 {
            let keyspace = db.default_keyspace().clone();
            let key = format!("k{:03}", random.below(60)).into_bytes();
            match random.below(100) {
                0..70 => match model.remove(&key) {
                    Some(_) if random.below(3) == 0 => {
                        let mut transaction = db.transaction().expect("begins");
                        transaction.single_delete(&keyspace, &key).expect("notes");
                        transaction.commit().expect("commits");
                    }
                    Some(_) => keyspace.single_delete(&key).expect("deletes"),
                    None => {
                        let value = format!("value {step}").into_bytes();
                        keyspace.put(&key, &value).expect("puts");
                        model.insert(key, value);
                    }
                },
                70..80 => db.flush().expect("a checkpoint"),
                80..84 => db.settle_debt().expect("settles"),
                84..86 => drop(db.compact().expect("compacts")),
                86..89 => {
                    let machine = vfs.crash(CrashMode::Process);
                    drop((keyspace, db));
                    vfs = machine;
                    db = open(&vfs, &hands);
                }
                _ => {
                    let found = keyspace
                        .get(&key)
                        .expect("gets")
                        .map(|value| value.to_vec());
                    assert_eq!(found, model.get(&key).cloned(), "seed {seed}, step {step}");
                }
            }
            if step % 50 == 0 {
                let expected: Vec<_> = model.clone().into_iter().collect();
                let seen = pairs(db.default_keyspace().iter());
                assert_eq!(seen, expected, "seed {seed}, step {step}");
            }
        }
        db.compact().expect("compacts");
        assert_eq!(records(&vfs, &db), model.len() as u64, "seed {seed}");
    }
}

/// The number of records of a kind in the commit log, as a kill would leave it.
fn logged(vfs: &SimVfs, kind: &str) -> usize {
    let inspect = InspectOptions::new().vfs(Arc::new(vfs.fork_state()));
    let mut count = 0;
    let show = &mut |item: evendb::inspect::DumpItem| {
        let wanted = DumpValue::Text(kind.to_owned());
        count += usize::from(item.fields.iter().any(|(_, value)| *value == wanted));
        ControlFlow::Continue(())
    };
    dump(
        DIR,
        &Dump::CommitLog,
        &DumpOptions::default(),
        inspect,
        show,
    )
    .expect("dumps");
    count
}

/// A single delete that was called before the keyspace got an operator, and written after operands
/// were folded into the key: the value below the folded one must not come back.
#[test]
fn an_operator_that_comes_between_makes_plain_deletes() {
    for killed in [false, true] {
        let mut vfs = SimVfs::new(10);
        let hands = Hands::at(1);
        let mut db = open(&vfs, &hands);
        let keyspace = db.default_keyspace().clone();
        let mut batch = db.batch();
        batch.put(&keyspace, "batch", "a");
        batch.put(&keyspace, "transaction", "a");
        batch.commit().expect("commits");
        let mut batch = db.batch();
        batch.single_delete(&keyspace, "batch");
        let mut transaction = db.transaction().expect("begins");
        transaction
            .single_delete(&keyspace, "transaction")
            .expect("notes");
        let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
        keyspace.set_options(&merging).expect("sets");
        for key in ["batch", "transaction"] {
            keyspace.merge(key, "b").expect("merges");
            assert_eq!(get(&keyspace, key), Some(b"ab".to_vec()));
        }
        batch.commit().expect("commits");
        transaction.commit().expect("commits");
        drop(keyspace);
        if killed {
            let machine = vfs.crash(CrashMode::Process);
            drop(db);
            vfs = machine;
            db = open(&vfs, &hands);
        }
        let steps: [(&str, &dyn Fn()); 3] = [
            ("in deltas", &|| {}),
            ("in a run", &|| db.flush().expect("a checkpoint")),
            ("compacted", &|| {
                db.compact().expect("compacts");
            }),
        ];
        for (what, step) in steps {
            step();
            check(&db, "batch", None, what);
            check(&db, "transaction", None, what);
        }
        assert_eq!(records(&vfs, &db), 0);
    }
}

struct Longest;

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "longest"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let all = existing.into_iter().chain(operands.iter().copied());
        Ok(all.max_by_key(|value| value.len()).map(<[u8]>::to_vec))
    }
}

/// An operator that was not given since the opening still counts, by its name.
#[test]
fn a_single_delete_is_a_delete_where_there_may_be_operands() {
    let vfs = SimVfs::new(11);
    let hands = Hands::at(1);
    let db = open(&vfs, &hands);
    let delete = |keyspace: &Keyspace| keyspace.single_delete("k").expect("deletes");
    delete(db.default_keyspace());
    let kinds = |vfs: &SimVfs| (logged(vfs, "single-delete"), logged(vfs, "delete"));
    assert_eq!(kinds(&vfs), (1, 0));
    let merging = KeyspaceOptions::new().merge_operator(Longest);
    db.default_keyspace().set_options(&merging).expect("sets");
    delete(db.default_keyspace());
    assert_eq!(kinds(&vfs), (1, 1));
    db.close().expect("closes");
    let db = open(&vfs, &hands);
    delete(db.default_keyspace());
    assert_eq!(kinds(&vfs), (0, 1));
}

/// Only the put of such a write would be left, and the next single delete would bring an older
/// value back.
#[test]
fn a_put_after_a_single_delete_of_the_same_write_is_refused() {
    let vfs = SimVfs::new(12);
    let hands = Hands::at(1);
    let db = open(&vfs, &hands);
    let keyspace = db.default_keyspace();
    db.put("k", "first").expect("puts");
    let mut batch = db.batch();
    batch
        .single_delete(keyspace, "k")
        .put(keyspace, "k", "second");
    let refused = batch.commit().expect_err("it is refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("single delete"), "{refused}");
    let mut transaction = db.transaction().expect("begins");
    transaction.single_delete(keyspace, "k").expect("notes");
    let refused = transaction.put(keyspace, "k", "second");
    let refused = refused.expect_err("it is refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // The transaction continues without that put.
    transaction.commit().expect("commits");
    check(&db, "k", None, "after the transaction");
    // In the other order both belong to the write, and nothing is left.
    let mut batch = db.batch();
    batch
        .put(keyspace, "k", "third")
        .single_delete(keyspace, "k");
    batch.commit().expect("commits");
    check(&db, "k", None, "after the batch");
    db.compact().expect("compacts");
    assert_eq!(records(&vfs, &db), 0);
    // Beside an operator it is a plain delete.
    let merging = KeyspaceOptions::new().merge_operator(Merges::Append);
    keyspace.set_options(&merging).expect("sets");
    let mut batch = db.batch();
    batch
        .single_delete(keyspace, "k")
        .put(keyspace, "k", "fourth");
    batch.commit().expect("commits");
    check(&db, "k", Some("fourth"), "with an operator");
}
