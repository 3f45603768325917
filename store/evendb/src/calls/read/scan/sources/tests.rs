//! Scans that go on in tables where they stopped, while spans come into RAM and leave it: a scan
//! comes to a border of the tables that was not there before, or finds that one is gone.

use super::super::one_chunk::{self, RECORDS, chunk_of, key};
use crate::chunk::{Chunk, Token};
use crate::munk::Munk;
use crate::options::{GuardOptions, Layout, Options};
use crate::read::cursor::Cursor;
use crate::read::end::RECORDS_MIN;
use crate::sync::Arc;
use crate::{Db, rebalance};
use evendb_storage::table::TableMeta;
use evendb_storage::vfs::SimVfs;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A database with one chunk of several spans, all in its base and none in RAM.
fn open() -> (Db, Arc<Chunk>) {
    let (db, chunk) = one_chunk::open();
    drop(evict(&db, &chunk));
    (db, chunk)
}

/// All spans leave RAM. While the token is held, scans load none.
fn evict<'c>(db: &Db, chunk: &'c Arc<Chunk>) -> Token<'c> {
    let token = chunk.try_token().unwrap();
    rebalance::spans::evict_spans(&db.engine().core, chunk, |_| true);
    assert!(!chunk.view.load_full().munk_holds_any());
    token
}

/// Loads the span at one end of the chunk.
fn load_span_of(db: &Db, chunk: &Arc<Chunk>, key: &str) {
    let _token = chunk.try_token().unwrap();
    let choose = |munk: &Munk| vec![munk.span_from(Some(key.as_bytes()))];
    rebalance::spans::load_spans(&db.engine().core, chunk, &choose).unwrap();
    let view = chunk.view.load_full();
    let munk = view.munk.as_ref().unwrap();
    assert!(munk.holds_any() && !munk.is_whole());
}

/// The next record at one end of a cursor.
fn step(cursor: &mut Cursor, forward: bool) -> Option<(String, Vec<u8>)> {
    let next = match forward {
        true => cursor.next().unwrap(),
        false => cursor.next_back().unwrap(),
    };
    let (key, value) = next?;
    Some((String::from_utf8(key.to_vec()).unwrap(), value.to_vec()))
}

/// The next keys of a cursor, at most `most`.
fn take(cursor: &mut Cursor, forward: bool, most: usize) -> Vec<String> {
    let mut taken = Vec::new();
    while taken.len() < most
        && let Some((key, value)) = step(cursor, forward)
    {
        assert_ne!(value, b"old");
        taken.push(key);
    }
    taken
}

/// The run has keys of one span alone, which is in RAM when the scan begins at the other end of the
/// chunk: so the scan need not read the run before it comes to that span. When it comes there, the
/// span is gone.
fn scan_while_a_span_leaves(forward: bool) {
    let (db, chunk) = open();
    let near = if forward { RECORDS - 2 } else { 1 };
    db.put(key(near), "old").unwrap();
    db.settle_debt().unwrap();
    drop(evict(&db, &chunk));
    load_span_of(&db, &chunk, &key(near));
    let added = format!("{}+", key(near - 1));
    db.put(&added, "").unwrap();
    db.put(key(near), "new").unwrap();
    db.delete(key(near + 1)).unwrap();
    db.flush().unwrap();
    let mut expected: BTreeSet<String> = (0..RECORDS).map(key).collect();
    expected.insert(added);
    expected.remove(&key(near + 1));
    let funk = chunk.view.load_full().funk.clone();
    assert!(!funk.runs.is_empty());

    let mut cursor = db.cursor::<&str>(..).limit_hint(RECORDS_MIN as u64);
    let mut seen = take(&mut cursor, forward, 1);
    let end = if forward { &cursor.front } else { &cursor.back };
    assert!(end.scan.is_some(), "the scan stopped within the tables");
    let _token = evict(&db, &chunk);
    assert!(Arc::ptr_eq(&funk, &chunk.view.load_full().funk));
    seen.extend(take(&mut cursor, forward, usize::MAX));
    if !forward {
        seen.reverse();
    }
    let expected: Vec<String> = expected.into_iter().collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_scan_reads_the_runs_of_a_span_that_leaves() {
    scan_while_a_span_leaves(true);
}

#[test]
fn a_scan_backward_reads_the_runs_of_a_span_that_leaves() {
    scan_while_a_span_leaves(false);
}

/// Writes some neighbours, so that the run that has them is short.
fn write_some(db: &Db, model: &mut BTreeMap<String, u8>, random: &mut StdRng) {
    let first = random.random_range(0..RECORDS);
    for index in first..RECORDS.min(first + random.random_range(1..4)) {
        let key = format!("{}{}", key(index), ["", "+"][random.random_range(0..2)]);
        match random.random_range(0..3) {
            0 => {
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            _ => {
                let value = random.random();
                db.put(&key, [value; 100]).unwrap();
                model.insert(key, value);
            }
        }
    }
    db.flush().unwrap();
}

/// Some spans leave RAM, and others come. The caller holds the token of the chunk.
fn change_spans(db: &Db, chunk: &Arc<Chunk>, random: &mut StdRng) {
    let core = &db.engine().core;
    let (leaving, coming) = (random.random::<u64>(), random.random::<u64>());
    let is_in = |set: u64, span: usize| set >> (span % 64) & 1 == 1;
    rebalance::spans::evict_spans(core, chunk, |span| is_in(leaving, span));
    if random.random_bool(0.5) {
        let choose = |munk: &Munk| {
            let all = 0..munk.span_count();
            all.filter(|&span| is_in(coming, span)).collect()
        };
        rebalance::spans::load_spans(core, chunk, &choose).unwrap();
    }
}

#[test]
fn scans_give_each_record_once_while_spans_come_and_go() {
    let mut random = StdRng::seed_from_u64(1);
    let (db, _) = open();
    let mut model: BTreeMap<String, u8> = (0..RECORDS).map(|index| (key(index), b'v')).collect();
    for _ in 0..200 {
        write_some(&db, &mut model, &mut random);
        let chunk = chunk_of(&db);
        let _token = chunk.try_token().unwrap();
        change_spans(&db, &chunk, &mut random);
        let forward = random.random();
        let mut cursor = db.cursor::<&str>(..).limit_hint(random.random_range(1..64));
        let mut seen: Vec<(String, u8)> = Vec::new();
        while let Some((key, value)) = step(&mut cursor, forward) {
            seen.push((key, value[0]));
            if random.random_range(0..16) == 0 {
                change_spans(&db, &chunk, &mut random);
            }
        }
        if !forward {
            seen.reverse();
        }
        let expected: Vec<(String, u8)> = model.clone().into_iter().collect();
        assert_eq!(seen, expected);
    }
}

/// A keyspace of guards whose checkpoints are cut to many small tables.
fn open_guards() -> Db {
    let small = |guards: GuardOptions| guards.last_guard_bytes(4 << 10).table_bytes_max(2 << 10);
    let options = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0)
        .memory_budget(4 << 20)
        .layout(Layout::Guards)
        .advanced(|advanced| advanced.guards(small));
    let db = options.open("/db").unwrap();
    for index in 0..RECORDS {
        db.put(key(index), [b'v'; 1000]).unwrap();
    }
    db.flush().unwrap();
    db
}

#[test]
fn a_scan_of_guards_reads_the_tables_that_it_comes_to() {
    let db = open_guards();
    let middle = key(RECORDS / 2);
    let funk = chunk_of(&db).view.load_full().funk.clone();
    for forward in [true, false] {
        // A fill takes this number of records, and looks at one more.
        let reach = RECORDS_MIN as u32 + 1;
        let (range, low, high) = match forward {
            true => (
                (Bound::Included(middle.as_str()), Bound::Unbounded),
                RECORDS / 2,
                RECORDS / 2 + reach,
            ),
            false => (
                (Bound::Unbounded, Bound::Included(middle.as_str())),
                RECORDS / 2 - reach,
                RECORDS / 2 + 1,
            ),
        };
        let (low, high) = (key(low), key(high));
        let met = |meta: &TableMeta| meta.overlaps(low.as_bytes(), Some(high.as_bytes()));
        let runs = funk.runs.iter();
        let met = runs.filter(|run| met(&run.table.part.meta)).count();
        assert!(2 * met < funk.runs.len(), "{met} of {}", funk.runs.len());
        let mut cursor = db.cursor::<&str>(range).limit_hint(RECORDS_MIN as u64);
        assert_eq!(take(&mut cursor, forward, 1), std::slice::from_ref(&middle));
        let end = if forward { &cursor.front } else { &cursor.back };
        let reads = end.scan.as_ref().unwrap().run_reads();
        assert!(reads <= met, "{reads} tables are read, and {met} are met");
    }
}

#[test]
fn scans_of_guards_give_each_record_once() {
    let mut random = StdRng::seed_from_u64(1);
    let db = open_guards();
    let mut model: BTreeMap<String, u8> = (0..RECORDS).map(|index| (key(index), b'v')).collect();
    for _ in 0..300 {
        write_some(&db, &mut model, &mut random);
        let forward = random.random();
        let first = key(random.random_range(0..RECORDS));
        let limit = random.random_range(1..64);
        let mut cursor = db.cursor(first.as_str()..).limit_hint(limit);
        let mut seen = Vec::new();
        while let Some((key, value)) = step(&mut cursor, forward) {
            seen.push((key, value[0]));
        }
        if !forward {
            seen.reverse();
        }
        let expected = model.range(first..);
        let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), *value)).collect();
        assert_eq!(seen, expected);
    }
}
