//! Batches that are read back, measured and cleared.

use evendb::{BatchWrite, Durability, ErrorKind, Options};

#[test]
fn a_batch_is_read_back_measured_and_cleared() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().memory_budget(1 << 20).workers(0);
    // A batch that asks for more than this level waits for a checkpoint.
    let options = options.durability(Durability::Relaxed);
    let db = options.open(dir.path()).expect("opens");
    let (own, other) = (db.default_keyspace(), db.keyspace("other").expect("made"));
    let mut batch = db.batch();
    batch.durability(Durability::Sync);
    batch
        .put(own, "k", "1")
        .delete(&other, "k")
        .put(own, "l", "");
    batch.put(own, "k", "second");
    assert_eq!(batch.get(own, "k"), Some(BatchWrite::Put(b"second")));
    assert_eq!(batch.get(&other, "k"), Some(BatchWrite::Delete));
    assert_eq!(batch.get(own, "m"), None);
    assert_eq!(batch.get(&other, "l"), None);
    let writes: Vec<_> = batch.iter().collect();
    let expected: [(&str, &[u8], BatchWrite<'_>); 4] = [
        ("default", b"k", BatchWrite::Put(b"1")),
        ("other", b"k", BatchWrite::Delete),
        ("default", b"l", BatchWrite::Put(b"")),
        ("default", b"k", BatchWrite::Put(b"second")),
    ];
    assert_eq!(writes, expected);
    assert_eq!(batch.counted_bytes(), 4 * 65 + 1 + 6);
    assert_eq!(batch.counted_bytes_max(), 1 << 26);
    // The reason for the failure is cleared too.
    batch.put(own, vec![0; 70_000], "");
    batch.clear();
    assert!(batch.is_empty() && batch.counted_bytes() == 0);
    assert_eq!((batch.iter().count(), batch.get(own, "k")), (0, None));
    batch.put(&other, "a", "1").put(own, "b", "2");
    assert_eq!(batch.get(&other, "a"), Some(BatchWrite::Put(b"1")));
    let checkpoints = db.stats().checkpoints;
    batch.commit().expect("commits");
    assert!(
        db.stats().checkpoints > checkpoints,
        "its durability stayed"
    );
    assert!(other.contains_key("a").expect("gets") && own.contains_key("b").expect("gets"));
    assert!(!own.contains_key("k").expect("gets"));
    // A batch of exactly the reported limit fits, and a batch that is a byte larger does not.
    for over in [0, 1] {
        let mut batch = db.batch();
        let mut number = 0;
        let left = loop {
            let left = batch.counted_bytes_max() - batch.counted_bytes();
            if left <= 200_000 {
                break left - 65;
            }
            batch.put(own, format!("a{number}"), vec![0; 100_000]);
            number += 1;
        };
        batch.put(own, "b", vec![0; left as usize + over]);
        let outcome = batch.commit().map_err(|error| error.kind());
        match over {
            0 => assert_eq!(outcome, Ok(())),
            _ => assert_eq!(outcome, Err(ErrorKind::BatchTooLarge)),
        }
    }
}

/// The items that a batch gives, from both ends, have the number that it reports.
#[test]
fn range_deletions_are_among_what_a_batch_gives_in_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().memory_budget(1 << 20).workers(0);
    let db = options.open(dir.path()).expect("opens");
    let (own, other) = (db.default_keyspace(), db.keyspace("other").expect("made"));
    let mut batch = db.batch();
    batch
        .delete_range(own, "a".."b")
        .delete_prefix(&other, "p")
        .put(own, "k", "1")
        .delete(&other, "k")
        .delete_range::<&str>(own, "x"..)
        .put(own, "l", "2")
        .delete_range(&other, "a".."c");
    let expected: [(&str, &[u8], BatchWrite<'_>); 7] = [
        ("default", b"a", BatchWrite::DeleteRange(Some(b"b"))),
        ("other", b"p", BatchWrite::DeleteRange(Some(b"q"))),
        ("default", b"k", BatchWrite::Put(b"1")),
        ("other", b"k", BatchWrite::Delete),
        ("default", b"x", BatchWrite::DeleteRange(None)),
        ("default", b"l", BatchWrite::Put(b"2")),
        ("other", b"a", BatchWrite::DeleteRange(Some(b"c"))),
    ];
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
    assert_eq!(batch.len(), expected.len());
    let backwards: Vec<_> = batch.iter().rev().collect();
    assert!(backwards.iter().eq(expected.iter().rev()));
    // The ends meet, wherever they stand.
    for from_front in 0..=expected.len() {
        let mut both = batch.iter();
        let front: Vec<_> = both.by_ref().take(from_front).collect();
        let back: Vec<_> = both.rev().collect();
        assert!(front.iter().chain(back.iter().rev()).eq(&expected));
    }
}
