//! Handles, snapshots and iterators may be sent to, shared with and kept by any thread.

use evendb::{Batch, Cursor, Db, Error, Iter, Keyspace, Options, Snapshot, Stats, Value};

fn is_free<T: Send + Sync + 'static>() {}

#[test]
fn handles_are_send_sync_and_static() {
    is_free::<Db>();
    is_free::<Keyspace>();
    is_free::<Snapshot>();
    is_free::<Iter>();
    is_free::<Cursor>();
    is_free::<Value>();
    is_free::<Batch>();
    is_free::<Options>();
    is_free::<Error>();
    is_free::<Stats>();
}

#[test]
fn they_outlive_the_scope_that_made_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut iter, snapshot, keyspace, value) = {
        let db = Db::open(dir.path()).expect("opens");
        db.put("a", "1").expect("puts");
        let value = db.get("a").expect("gets").expect("is there");
        (
            db.iter(),
            db.snapshot().expect("a snapshot"),
            db.default_keyspace().clone(),
            value,
        )
    };
    let seen = std::thread::spawn(move || {
        keyspace
            .put("a", "2")
            .expect("the keyspace keeps the database open");
        let old = snapshot
            .get(&keyspace, "a")
            .expect("gets")
            .expect("is there");
        (iter.next().expect("one record").expect("no error"), old)
    });
    let ((key, first), old) = seen.join().expect("no panic");
    assert_eq!((&*key, &*first, &*old), (&b"a"[..], &b"1"[..], &b"1"[..]));
    // The database is closed by now; the value has its bytes.
    assert_eq!(value, "1");
    assert_eq!(
        Db::open(dir.path())
            .expect("opens")
            .get("a")
            .expect("gets")
            .expect("is there"),
        "2"
    );
}
