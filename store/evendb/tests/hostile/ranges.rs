//! Odd ranges; iterators and handles that outlive their origin.

use crate::common::{DIR, has_chunks, on_sim};
use crate::kind_of;
use evendb::vfs::{Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Db, Durability, ErrorKind};

#[test]
fn odd_ranges() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..300 {
        db.put(format!("{number:03}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    assert!(db.stats().chunks > 2 || !has_chunks());
    assert_eq!(db.range("200".."100").count(), 0);
    assert_eq!(db.range("200".."100").rev().count(), 0);
    assert_eq!(db.range("100".."100").count(), 0);
    assert_eq!(db.range("100"..="100").count(), 1);
    assert_eq!(db.range("".."").count(), 0);
    assert_eq!(db.range("zzz"..).count(), 0);
    assert_eq!(db.range::<&str>(..).count(), 300);
    assert_eq!(db.prefix("").count(), 300);
    assert_eq!(db.prefix([0xff, 0xff]).count(), 0);
    db.delete_range("200".."100").expect("deletes nothing");
    db.delete_range("200".."200").expect("deletes nothing");
    assert_eq!(db.iter().count(), 300);
    assert_eq!(db.multi_get::<&str>(&[]).expect("gets nothing").len(), 0);
    let empty = db.batch();
    empty.commit().expect("an empty batch is no error");
}

#[test]
fn an_iterator_across_splits_and_close() {
    let vfs = SimVfs::new(1);
    let db = on_sim(&vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens");
    for number in 0..400 {
        db.put(format!("{number:03}"), "old").expect("puts");
    }
    let mut iter = db.iter();
    let mut seen = vec![iter.next().expect("more").expect("reads").0.to_vec()];
    let chunks = db.stats().chunks;
    for number in 0..400 {
        db.put(format!("{number:03}"), vec![b'n'; 60])
            .expect("puts");
        db.put(format!("{number:03}x"), vec![b'n'; 60])
            .expect("puts");
    }
    db.settle_debt().expect("settles");
    let is_split = db.stats().chunks > chunks + 2;
    assert!(is_split || !has_chunks(), "it was split");
    for item in iter.by_ref() {
        let (key, value) = item.expect("reads");
        assert_eq!(&*value, b"old");
        seen.push(key.to_vec());
    }
    let expected: Vec<_> = (0..400)
        .map(|number| format!("{number:03}").into_bytes())
        .collect();
    assert_eq!(seen, expected);
    let mut iter = db.iter();
    iter.next().expect("more").expect("reads");
    db.close().expect("closes");
    let error = iter.find(|item| item.is_err()).expect("an error");
    assert_eq!(kind_of(error), Some(ErrorKind::Closed));
    assert!(iter.next().is_none() && iter.next_back().is_none());
}

#[test]
fn an_iterator_after_an_error() {
    let vfs = SimVfs::new(1);
    let options = || {
        on_sim(&vfs, Durability::Process, 0)
            .advanced(|advanced| advanced.munks(false).row_cache(false))
    };
    let db = options().open(DIR).expect("opens");
    for number in 0..2000 {
        db.put(format!("{number:04}"), vec![1; 40]).expect("puts");
    }
    db.settle_debt().expect("settles");
    db.close().expect("closes");
    let db = options().open(DIR).expect("opens");
    vfs.inject(Fault {
        at: 3,
        on: FaultOn::Read,
        kind: FaultKind::Eio,
        sticky: false,
        path_contains: None,
    });
    let mut iter = db.iter();
    let mut next = 0;
    let error = loop {
        match iter.next().expect("it ends with an error") {
            Ok((key, _)) => assert_eq!(&*key, format!("{next:04}").as_bytes()),
            Err(error) => break error,
        }
        next += 1;
    };
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(iter.next().is_none() && iter.next_back().is_none());
    assert_eq!(
        db.iter().filter_map(Result::ok).count(),
        2000,
        "a new one reads on"
    );
    db.put("new", "value").expect("a read error does not latch");
}

/// Handles go to other threads and outlive their origin.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Db>();
    check::<evendb::Keyspace>();
    check::<evendb::Snapshot>();
    check::<evendb::Value>();
}
