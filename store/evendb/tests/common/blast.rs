//! How far one damage reaches: a database with one damaged table, and what everything else must
//! still do.
//!
//! ```text
//!   keys   ................[ span ]................
//!            read, written   of the    read, written, scanned
//!            and scanned     damaged   in both directions
//!                            table
//! ```
//! Gets show which keys the damage hits. The span is from the first to the last of these keys, and
//! must not be longer than a table's keys. Outside of it everything works. A scan that comes to it
//! gives the records in front of it and then a typed error, and never leaves out a key without an
//! error.

use evendb::{Db, Error, ErrorKind, Value};
use std::collections::BTreeMap;
use std::ops::Bound;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Key and value, or the reason why there are none.
type Item = evendb::Result<(Vec<u8>, Vec<u8>)>;

/// Bounds of a scan.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The most records beyond its range that a scan may read before it ends. The engine merges, so it
/// reads the next block of each table. A chunk or a guard has several tables, and all of these
/// belong to the damaged one.
const READS_BEYOND: usize = 16;

/// Scans to the first error, or to the end.
fn scan(db: &Db, range: Range<'_>, is_reverse: bool) -> Vec<Item> {
    let own = |item: evendb::Result<(Value, Value)>| {
        item.map(|(key, value)| (key.to_vec(), value.to_vec()))
    };
    match is_reverse {
        false => db.range::<&[u8]>(range).map(own).collect(),
        true => db.range::<&[u8]>(range).rev().map(own).collect(),
    }
}

/// Whether the error says that bytes of a file are not those that were written.
fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corruption
}

/// The keys that the damage hits, as indexes among all keys.
fn span(db: &Db, expected: &Map, what: &str) -> Option<(usize, usize)> {
    let mut span = None;
    for (place, (key, value)) in expected.iter().enumerate() {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..]), "{what}: {key:?}"),
            Err(error) => {
                assert!(is_damage(&error), "{what}: {key:?}: {error:?}");
                let (first, _) = span.unwrap_or((place, place));
                span = Some((first, place));
            }
        }
    }
    span
}

/// A scan that must give all of `expected`, in both directions.
fn whole(db: &Db, range: Range<'_>, expected: &[(&Vec<u8>, &Vec<u8>)], what: &str) {
    let found = scan(db, range, false);
    same(found, expected, &format!("{what}: over {range:?}"));
    let mut found = scan(db, range, true);
    found.reverse();
    same(found, expected, &format!("{what}: backward over {range:?}"));
}

fn same(found: Vec<Item>, expected: &[(&Vec<u8>, &Vec<u8>)], what: &str) {
    let mut expected = expected.iter();
    for (place, item) in found.into_iter().enumerate() {
        let (key, value) = item.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let right = expected.next() == Some(&(&key, &value));
        let key = String::from_utf8_lossy(&key).into_owned();
        assert!(right, "{what}: {key} at {place}");
    }
    assert!(expected.next().is_none(), "{what}: it ended early");
}

/// A scan that comes to the damage: it gives the records in front of it, and an error.
fn ends_there(db: &Db, expected: &Map, span: (usize, usize), is_reverse: bool, what: &str) {
    let mut items = scan(db, (Bound::Unbounded, Bound::Unbounded), is_reverse);
    let error = items
        .pop()
        .expect("there are records")
        .expect_err("the span is in its way");
    assert!(is_damage(&error), "{what}: {error:?}");
    let found: Vec<_> = items
        .into_iter()
        .map(|item| item.expect("ends at the first error"))
        .collect();
    let in_front = match is_reverse {
        false => span.0,
        true => expected.len() - 1 - span.1,
    };
    assert!(
        found.len() <= in_front,
        "{what}: a scan went over the damage"
    );
    let right = |actual: &(Vec<u8>, Vec<u8>), (key, value): (&Vec<u8>, &Vec<u8>)| {
        (&actual.0, &actual.1) == (key, value)
    };
    let ordered = match is_reverse {
        false => found
            .iter()
            .zip(expected)
            .all(|(actual, expected)| right(actual, expected)),
        true => found
            .iter()
            .zip(expected.iter().rev())
            .all(|(actual, expected)| right(actual, expected)),
    };
    assert!(
        ordered,
        "{what}: a gap or a wrong record in front of the damage"
    );
}

/// Everything that must work beside the span.
fn beside(db: &Db, expected: &Map, span: (usize, usize), what: &str) {
    let all: Vec<_> = expected.iter().collect();
    let below = &all[..span.0.saturating_sub(READS_BEYOND)];
    let above = all.get(span.1 + 1 + READS_BEYOND..).unwrap_or_default();
    // Scans from the nearest sound keys: keys between them and the span may have been in the
    // damaged bytes.
    if let Some(((nearest, _), before)) = below.split_last() {
        let range = (Bound::Unbounded, Bound::Excluded(&nearest[..]));
        whole(db, range, before, what);
    }
    if let Some((nearest, _)) = above.first() {
        let range = (Bound::Included(&nearest[..]), Bound::Unbounded);
        whole(db, range, above, what);
    }
    for is_reverse in [false, true] {
        ends_there(db, expected, span, is_reverse, what);
    }
}

/// Opens a damaged database that should hold `expected`, and checks it before and after it has
/// worked. At most `keys_max` keys may be hit; returns their number.
pub fn judge(open: impl Fn() -> Db, expected: &Map, keys_max: usize, what: &str) -> usize {
    let db = open();
    let Some(hit) = span(&db, expected, what) else {
        let all: Vec<_> = expected.iter().collect();
        whole(&db, (Bound::Unbounded, Bound::Unbounded), &all, what);
        return 0;
    };
    let keys = hit.1 - hit.0 + 1;
    assert!(keys <= keys_max, "{what}: {keys} keys are hit");
    beside(&db, expected, hit, what);
    // All other keys are written, twice, so that jobs run; and the due work is done, as far as
    // possible.
    let mut expected = expected.clone();
    for round in 0..2u8 {
        for (place, (key, value)) in expected.iter_mut().enumerate() {
            if (hit.0..=hit.1).contains(&place) {
                continue;
            }
            value[0] = b'a' + round;
            let put = db.put(key, value);
            put.unwrap_or_else(|error| panic!("{what}: a put beside: {error:?}"));
        }
        if let Err(error) = db.settle_debt() {
            assert!(is_damage(&error), "{what}: {error:?}");
        }
    }
    let after = span(&db, &expected, what).expect("damage does not go away");
    assert!(
        hit.0 <= after.0 && after.1 <= hit.1,
        "{what}: damage spread from {hit:?} to {after:?}"
    );
    beside(&db, &expected, after, what);
    if let Err(error) = db.close() {
        assert!(is_damage(&error), "{what}: {error:?}");
    }
    let db = open();
    let again = span(&db, &expected, what).expect("damage does not go away");
    assert!(
        hit.0 <= again.0 && again.1 <= hit.1,
        "{what}: damage spread from {hit:?} to {again:?}"
    );
    beside(&db, &expected, again, what);
    keys
}
