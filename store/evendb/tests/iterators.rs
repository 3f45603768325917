//! Cursors and iterators that are sought, limited, or of keys alone: random programs against an
//! ordered map, over munks, tables and deltas, while the chunks below them change.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

#[path = "../../storage/tests/knobs/mod.rs"]
mod knobs;
#[path = "common/layout.rs"]
mod layout;

use evendb::vfs::SimVfs;
use evendb::{Cursor, Db, ErrorKind, Iter, KeyCursor, Keys};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

type Pair = (Vec<u8>, Vec<u8>);

/// Chunks of a few dozen records; records come from munks, from tables, or from both.
fn tiny(random: &mut StdRng) -> Db {
    let vfs: SimVfs = SimVfs::new(random.random());
    let munks = random.random_range(0..3) != 0;
    let block_bytes = *[64, 256, 4096].choose(random).unwrap();
    let chunk_bytes = *[512, 2048, 8192].choose(random).unwrap();
    layout::tiny_guards(layout::options())
        .memory_budget(1 << 20)
        .workers(0)
        .vfs(Arc::new(vfs))
        .advanced(|advanced| {
            advanced
                .munks(munks)
                .commit_log_bytes(64 << 10)
                .chunk_bytes(chunk_bytes)
                .block_bytes(block_bytes)
        })
        .open("/db")
        .unwrap()
}

fn key(random: &mut StdRng) -> Vec<u8> {
    let n: u32 = random.random_range(0..500);
    match random.random_range(0..12) {
        0 => format!("k{n:03}/longer").into_bytes(),
        1 if n < 50 => Vec::new(),
        _ => format!("k{n:03}").into_bytes(),
    }
}

/// Some writes, and sometimes a job that moves records from one place to another.
fn disturb(db: &Db, map: &mut BTreeMap<Vec<u8>, Vec<u8>>, random: &mut StdRng) {
    for _ in 0..random.random_range(0..40) {
        let key = key(random);
        if random.random_range(0..4) == 0 {
            db.delete(&key).unwrap();
            map.remove(&key);
        } else {
            let value = vec![random.random(); random.random_range(0..60)];
            db.put(&key, &value).unwrap();
            map.insert(key, value);
        }
    }
    match random.random_range(0..12) {
        0 | 1 => db.flush().unwrap(),
        2 => db.settle_debt().unwrap(),
        3 => drop(db.compact().unwrap()),
        4 => drop(db.idle_pass().unwrap()),
        _ => {}
    }
}

/// The part of a range between two ends, as its documentation says.
struct Model {
    records: Vec<Pair>,
    front: usize,
    back: usize,
}

impl Model {
    fn next(&mut self) -> Option<Pair> {
        let given = (self.front < self.back).then(|| self.records[self.front].clone())?;
        self.front += 1;
        Some(given)
    }

    fn next_back(&mut self) -> Option<Pair> {
        (self.front < self.back).then(|| {
            self.back -= 1;
            self.records[self.back].clone()
        })
    }

    fn seek(&mut self, key: &[u8]) {
        self.front = self.records.partition_point(|(other, _)| **other < *key);
    }

    fn seek_back(&mut self, key: &[u8]) {
        self.back = self.records.partition_point(|(other, _)| **other <= *key);
    }
}

/// Each kind of cursor and iterator, behind one interface.
enum Any {
    Cursor(Cursor),
    KeyCursor(KeyCursor),
    Iter(Iter),
    Keys(Keys),
}

/// A record, or its key alone.
type Given = (Vec<u8>, Option<Vec<u8>>);

impl Any {
    fn step(&mut self, forward: bool) -> Option<Given> {
        let pair = |(key, value): (&[u8], &[u8])| (key.to_vec(), Some(value.to_vec()));
        match (self, forward) {
            (Any::Cursor(cursor), true) => cursor.next().unwrap().map(pair),
            (Any::Cursor(cursor), false) => cursor.next_back().unwrap().map(pair),
            (Any::KeyCursor(cursor), true) => cursor.next().unwrap().map(|k| (k.to_vec(), None)),
            (Any::KeyCursor(cursor), false) => {
                cursor.next_back().unwrap().map(|k| (k.to_vec(), None))
            }
            (Any::Iter(iter), true) => iter.next().map(|item| {
                let (key, value) = item.unwrap();
                pair((&key, &value))
            }),
            (Any::Iter(iter), false) => iter.next_back().map(|item| {
                let (key, value) = item.unwrap();
                pair((&key, &value))
            }),
            (Any::Keys(keys), true) => keys.next().map(|key| (key.unwrap().to_vec(), None)),
            (Any::Keys(keys), false) => keys.next_back().map(|key| (key.unwrap().to_vec(), None)),
        }
    }

    fn seek(&mut self, key: &[u8], forward: bool) {
        match (self, forward) {
            (Any::Cursor(cursor), true) => cursor.seek(key),
            (Any::Cursor(cursor), false) => cursor.seek_back(key),
            (Any::KeyCursor(cursor), true) => cursor.seek(key),
            (Any::KeyCursor(cursor), false) => cursor.seek_back(key),
            (Any::Iter(iter), true) => iter.seek(key),
            (Any::Iter(iter), false) => iter.seek_back(key),
            (Any::Keys(keys), true) => keys.seek(key),
            (Any::Keys(keys), false) => keys.seek_back(key),
        }
    }
}

/// A range of the database, opened as some kind of cursor, and its model.
fn opened(db: &Db, map: &BTreeMap<Vec<u8>, Vec<u8>>, random: &mut StdRng) -> (Any, Model) {
    let (mut low, mut high) = (Vec::new(), None);
    if random.random_bool(0.6) {
        let (a, b) = (key(random), key(random));
        // Sometimes inverted ranges too.
        let in_order = a <= b || random.random_range(0..8) == 0;
        (low, high) = if in_order { (a, Some(b)) } else { (b, Some(a)) };
    }
    let inside = |key: &[u8]| *key >= *low && high.as_ref().is_none_or(|high| *key < **high);
    let records = map.iter().filter(|(key, _)| inside(key));
    let records: Vec<Pair> = records.map(|(k, v)| (k.clone(), v.clone())).collect();
    let range = (
        std::ops::Bound::Included(&low[..]),
        high.as_deref()
            .map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded),
    );
    let any = match random.random_range(0..6) {
        0 => Any::Iter(db.range::<&[u8]>(range)),
        1 => Any::Keys(db.keys::<&[u8]>(range)),
        2 => Any::KeyCursor(db.cursor::<&[u8]>(range).keys_only()),
        3 => Any::Cursor(
            db.cursor::<&[u8]>(range)
                .limit_hint(random.random_range(0..9)),
        ),
        _ => Any::Cursor(db.cursor::<&[u8]>(range)),
    };
    let back = records.len();
    let model = Model {
        records,
        front: 0,
        back,
    };
    (any, model)
}

/// Moves of both ends at random: runs of steps, and seeks near and far.
fn play(any: &mut Any, model: &mut Model, random: &mut StdRng, what: &str) {
    for _ in 0..random.random_range(1..12) {
        let forward = random.random_bool(0.5);
        if random.random_bool(0.5) {
            let to = key(random);
            any.seek(&to, forward);
            match forward {
                true => model.seek(&to),
                false => model.seek_back(&to),
            }
        }
        let forward = random.random_bool(0.5);
        for _ in 0..random.random_range(0..60) {
            let expected = match forward {
                true => model.next(),
                false => model.next_back(),
            };
            let given = any.step(forward);
            match (&given, &expected) {
                (None, None) => {}
                (Some((key, value)), Some(expected)) => {
                    assert!(*key == expected.0, "{what}: {key:?} and not {expected:?}");
                    let same = value.as_ref().is_none_or(|value| *value == expected.1);
                    assert!(same, "{what}: the value of {key:?}");
                }
                _ => panic!("{what}: {given:?} and not {expected:?}"),
            }
            if given.is_none() && random.random_bool(0.7) {
                break;
            }
        }
    }
}

#[test]
fn seeks_and_steps_of_both_ends_are_those_of_an_ordered_map() {
    for seed in 0..knobs::number_from_env("EVENDB_SEEK_RUNS", 16) {
        let random = &mut StdRng::seed_from_u64(seed);
        let db = tiny(random);
        let mut map = BTreeMap::new();
        let mut open: Vec<(Any, Model)> = Vec::new();
        for step in 0..120 {
            disturb(&db, &mut map, random);
            if step % 4 == 0 {
                open.push(opened(&db, &map, random));
            }
            if open.len() > 4 {
                open.remove(random.random_range(0..open.len()));
            }
            for (any, model) in &mut open {
                play(any, model, random, &format!("seed {seed} step {step}"));
            }
        }
        let is_split = db.stats().chunks > 1;
        assert!(
            is_split || !layout::has_chunks(),
            "seed {seed}: no chunk was split"
        );
    }
}

/// Records `k000` to `k<n-1>` with values of `value_bytes`, in a database without threads.
fn filled(records: u32, value_bytes: usize, munks: bool) -> Db {
    let db = layout::options()
        .memory_budget(16 << 20)
        .workers(0)
        .vfs(Arc::new(SimVfs::new(1)))
        .advanced(|advanced| advanced.munks(munks))
        .open("/db")
        .unwrap();
    for n in 0..records {
        db.put(format!("k{n:03}"), vec![1; value_bytes]).unwrap();
    }
    db
}

#[test]
fn a_seek_within_what_is_gathered_reads_nothing() {
    for munks in [false, true] {
        let db = filled(100, 10, munks);
        db.compact().unwrap();
        let mut cursor = db.cursor::<&str>(..);
        assert_eq!(cursor.next().unwrap().unwrap().0, b"k000");
        assert_eq!(cursor.next().unwrap().unwrap().0, b"k001");
        assert_eq!(cursor.next_back().unwrap().unwrap().0, b"k099");
        // From here on nothing can be gathered any more.
        db.clone().close().unwrap();
        cursor.seek("k010");
        assert_eq!(cursor.next().unwrap().unwrap().0, b"k010");
        cursor.seek("");
        assert_eq!(cursor.next().unwrap().unwrap().0, b"k000");
        cursor.seek_back("k095");
        assert_eq!(cursor.next_back().unwrap().unwrap().0, b"k095");
        cursor.seek_back("k0985");
        assert_eq!(cursor.next_back().unwrap().unwrap().0, b"k098");
        cursor.seek_back("k050");
        let error = cursor.next_back().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "munks {munks}");
        // The error stays.
        cursor.seek("");
        assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn seeks_stay_in_the_range_and_the_ends_do_not_cross() {
    let db = filled(10, 1, true);
    let mut iter = db.range("k003".."k007");
    let keys = |iter: &mut Iter, forward: bool| {
        let item = if forward {
            iter.next()
        } else {
            iter.next_back()
        };
        item.map(|item| String::from_utf8(item.unwrap().0.to_vec()).unwrap())
    };
    iter.seek("k000");
    assert_eq!(keys(&mut iter, true).as_deref(), Some("k003"));
    iter.seek_back("k009");
    assert_eq!(keys(&mut iter, false).as_deref(), Some("k006"));
    iter.seek("k007");
    assert_eq!(keys(&mut iter, true), None);
    assert_eq!(keys(&mut iter, false), None, "the front is behind all");
    iter.seek("k005");
    assert_eq!(keys(&mut iter, false).as_deref(), Some("k005"));
    assert_eq!(keys(&mut iter, true), None, "the back gave the rest");
    iter.seek_back("k005");
    assert_eq!(keys(&mut iter, true).as_deref(), Some("k005"));
    iter.seek_back("k002");
    assert_eq!(keys(&mut iter, false), None);
    iter.seek("k003");
    assert_eq!(keys(&mut iter, true), None);
    // An inverted range stays empty.
    let mut iter = db.range("k007".."k003");
    iter.seek("k004");
    iter.seek_back("k006");
    assert_eq!(
        (keys(&mut iter, true), keys(&mut iter, false)),
        (None, None)
    );
}

#[test]
fn a_limit_counts_both_ends_and_gathers_no_more() {
    let db = filled(1000, 100, false);
    db.compact().unwrap();
    let mut iter = db.iter().limit(3);
    assert_eq!(iter.next().unwrap().unwrap().0, "k000");
    assert_eq!(iter.next_back().unwrap().unwrap().0, "k999");
    iter.seek("k500");
    assert_eq!(iter.next().unwrap().unwrap().0, "k500");
    assert!(iter.next().is_none() && iter.next_back().is_none());
    iter.seek("");
    assert!(iter.next().is_none());
    assert_eq!(db.keys::<&str>(..).limit(7).count(), 7);
    assert_eq!(db.iter().limit(2).limit(9).count(), 2);
    assert_eq!(db.iter().limit(0).count(), 0);
    // A hint is no limit.
    let mut cursor = db.cursor::<&str>(..).limit_hint(1);
    let mut records = 0;
    while cursor.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, 1000);
}

#[test]
fn a_snapshot_has_keys_too() {
    let db = filled(3, 10, true);
    let snapshot = db.snapshot().unwrap();
    db.put("k9", "later").unwrap();
    let keyspace = db.default_keyspace();
    let keys = |keys: Keys| keys.map(|key| key.unwrap().to_vec()).collect::<Vec<_>>();
    assert_eq!(keys(snapshot.keys::<&str>(keyspace, ..)).len(), 3);
    assert_eq!(keys(keyspace.keys("k001"..)).len(), 3);
    // Keys outlive the database.
    let kept = keyspace.keys::<&str>(..).next().unwrap().unwrap();
    drop((snapshot, db));
    assert_eq!(kept, "k000");
}

/// An iterator that failed does not seem to have come to its end: after a seek it returns the error
/// again.
#[test]
fn a_seek_after_an_error_is_no_silent_end() {
    let db = filled(10, 10, true);
    let (mut iter, mut keys) = (db.iter(), db.keys::<&str>(..));
    let mut own = db.transaction().expect("begins");
    own.put(db.default_keyspace(), "own", "").expect("puts");
    let mut seen = own.iter(db.default_keyspace()).expect("iterates");
    db.close().expect("closes");
    let closed = |item: Option<evendb::Result<()>>| {
        let error = item.expect("no end").expect_err("closed");
        assert_eq!(error.kind(), evendb::ErrorKind::Closed);
    };
    for _ in 0..3 {
        closed(iter.next().map(|item| item.map(drop)));
        assert!(iter.next().is_none() && iter.next_back().is_none());
        iter.seek("k");
        closed(iter.next_back().map(|item| item.map(drop)));
        assert!(iter.next().is_none());
        iter.seek_back("k");
        closed(keys.next_back().map(|item| item.map(drop)));
        assert!(keys.next().is_none());
        keys.seek_back("k");
        closed(keys.next().map(|item| item.map(drop)));
        keys.seek("k");
        closed(seen.next().map(|item| item.map(drop)));
        assert!(seen.next().is_none() && seen.next_back().is_none());
        seen.seek_back("k");
        closed(seen.next_back().map(|item| item.map(drop)));
        seen.seek("k");
    }
}
