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

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Key and value, or the reason why there are none.
pub type Item<E> = Result<(Vec<u8>, Vec<u8>), E>;

/// Bounds of a scan.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// An open database.
pub trait Database: Sized {
    type Error: Debug;
    /// The most records beyond its range that a scan may read before it ends.
    const READS_BEYOND: usize;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
    /// Scans to the first error, or to the end.
    fn scan(&self, range: Range<'_>, is_reverse: bool) -> Vec<Item<Self::Error>>;
    /// Does all work that is due.
    fn settle(&self) -> Result<(), Self::Error>;
    fn close(self) -> Result<(), Self::Error>;
    /// Whether the error says that bytes of a file are not those that were written.
    fn is_damage(error: &Self::Error) -> bool;
}

/// Makes the `Db` of a crate a [`Database`].
#[allow(unused_macros, reason = "one test binary of an engine uses it")]
macro_rules! database {
    ($engine:ident, reads_beyond: $reads_beyond:expr) => {
        impl $crate::common::blast::Database for $engine::Db {
            type Error = $engine::Error;
            const READS_BEYOND: usize = $reads_beyond;

            fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
                Ok($engine::Db::get(self, key)?.map(|value| value.to_vec()))
            }

            fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Self::Error> {
                $engine::Db::put(self, key, value)
            }

            fn scan(
                &self,
                range: $crate::common::blast::Range<'_>,
                is_reverse: bool,
            ) -> Vec<$crate::common::blast::Item<Self::Error>> {
                let own = |item: $engine::Result<($engine::Value, $engine::Value)>| {
                    item.map(|(key, value)| (key.to_vec(), value.to_vec()))
                };
                match is_reverse {
                    false => self.range::<&[u8]>(range).map(own).collect(),
                    true => self.range::<&[u8]>(range).rev().map(own).collect(),
                }
            }

            fn settle(&self) -> Result<(), Self::Error> {
                self.settle_debt()
            }

            fn close(self) -> Result<(), Self::Error> {
                $engine::Db::close(self)
            }

            fn is_damage(error: &Self::Error) -> bool {
                error.kind() == $engine::ErrorKind::Corruption
            }
        }
    };
}
#[allow(unused_imports, reason = "one test binary of an engine uses it")]
pub(crate) use database;

/// The keys that the damage hits, as indexes among all keys.
fn span<D: Database>(db: &D, expected: &Map, what: &str) -> Option<(usize, usize)> {
    let mut span = None;
    for (place, (key, value)) in expected.iter().enumerate() {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{what}: {key:?}"),
            Err(error) => {
                assert!(D::is_damage(&error), "{what}: {key:?}: {error:?}");
                let (first, _) = span.unwrap_or((place, place));
                span = Some((first, place));
            }
        }
    }
    span
}

/// A scan that must give all of `expected`, in both directions.
fn whole<D: Database>(db: &D, range: Range<'_>, expected: &[(&Vec<u8>, &Vec<u8>)], what: &str) {
    let found = db.scan(range, false);
    same::<D>(found, expected, &format!("{what}: over {range:?}"));
    let mut found = db.scan(range, true);
    found.reverse();
    same::<D>(found, expected, &format!("{what}: backward over {range:?}"));
}

fn same<D: Database>(found: Vec<Item<D::Error>>, expected: &[(&Vec<u8>, &Vec<u8>)], what: &str) {
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
fn ends_there<D: Database>(
    db: &D,
    expected: &Map,
    span: (usize, usize),
    is_reverse: bool,
    what: &str,
) {
    let mut items = db.scan((Bound::Unbounded, Bound::Unbounded), is_reverse);
    let error = items
        .pop()
        .expect("there are records")
        .expect_err("the span is in its way");
    assert!(D::is_damage(&error), "{what}: {error:?}");
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
fn beside<D: Database>(db: &D, expected: &Map, span: (usize, usize), what: &str) {
    let all: Vec<_> = expected.iter().collect();
    let below = &all[..span.0.saturating_sub(D::READS_BEYOND)];
    let above = all.get(span.1 + 1 + D::READS_BEYOND..).unwrap_or_default();
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
pub fn judge<D: Database>(
    open: impl Fn() -> D,
    expected: &Map,
    keys_max: usize,
    what: &str,
) -> usize {
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
        if let Err(error) = db.settle() {
            assert!(D::is_damage(&error), "{what}: {error:?}");
        }
    }
    let after = span(&db, &expected, what).expect("damage does not go away");
    assert!(
        hit.0 <= after.0 && after.1 <= hit.1,
        "{what}: damage spread from {hit:?} to {after:?}"
    );
    beside(&db, &expected, after, what);
    if let Err(error) = db.close() {
        assert!(D::is_damage(&error), "{what}: {error:?}");
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
