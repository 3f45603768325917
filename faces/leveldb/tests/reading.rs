//! Reads and writes by the C functions: answers against an ordered map, moments, batches, threads.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a test, which calls functions that take pointers of the caller"
)]

mod common;

use common::*;
use leveldb::*;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr;

/// Random numbers, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

#[test]
fn what_is_put_is_got_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    for (key, value) in [
        (&b""[..], &b"of the empty key"[..]),
        (b"a\0b", b"\0\0\x01"),
        (b"empty", b""),
    ] {
        assert_eq!(store.get(key).unwrap(), None);
        store.put(key, value).unwrap();
        assert_eq!(store.get(key).unwrap().as_deref(), Some(value));
    }
    store.delete(b"a\0b").unwrap();
    store.delete(b"never put").unwrap();
    drop(store);
    let store = Store::open(dir.path());
    assert_eq!(store.get(b"a\0b").unwrap(), None);
    assert_eq!(store.get(b"").unwrap().unwrap(), b"of the empty key");
    assert_eq!(store.get(b"empty").unwrap().unwrap(), b"");
}

#[test]
fn of_length_0_any_pointer_will_do() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let dangling = ptr::without_provenance(1);
    for pointer in [ptr::null(), dangling] {
        let put = |error: Option<&mut *mut c_char>| {
            // SAFETY: of length 0.
            unsafe {
                leveldb_put(
                    store.database(),
                    &store.write,
                    pointer,
                    0,
                    pointer,
                    0,
                    error,
                )
            };
        };
        outcome(put).unwrap();
        assert_eq!(store.get(b"").unwrap().unwrap(), b"");
        // SAFETY: of length 0.
        outcome(|error| unsafe {
            leveldb_delete(store.database(), &store.write, pointer, 0, error)
        })
        .unwrap();
        assert_eq!(store.get(b"").unwrap(), None);
    }
    // NULL handles, which LevelDB accepts as C++'s `delete` does.
    leveldb_options_destroy(None);
    leveldb_readoptions_destroy(None);
    leveldb_writeoptions_destroy(None);
    leveldb_writebatch_destroy(None);
    leveldb_comparator_destroy(None);
    leveldb_filterpolicy_destroy(None);
    leveldb_cache_destroy(None);
    leveldb_env_destroy(None);
    leveldb_iter_destroy(None);
    leveldb_close(None);
    // SAFETY: NULL.
    unsafe { leveldb_free(ptr::null_mut()) };
}

#[test]
fn an_iterator_moves_as_in_an_ordered_map() {
    let mut chance = Chance(0x5eed);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let mut map = BTreeMap::new();
    for round in 0..20 {
        for _ in 0..200 {
            let key = key(chance.below(600));
            match chance.below(4) {
                0 => {
                    store.delete(&key).unwrap();
                    map.remove(&key);
                }
                _ => {
                    let value = format!("{round}/{}", chance.below(1000)).into_bytes();
                    store.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
            }
        }
        if round % 7 == 3 {
            store.compact_all();
        }
        let mut iterator = store.iterator();
        assert_eq!(at(&iterator), None);
        // Later writes do not belong to its moment.
        store.put(b"key00300+", b"later").unwrap();
        store.delete(&key(0)).unwrap();
        moves(&mut iterator, &map, &mut chance);
        assert_eq!(
            all(&mut iterator),
            map.clone().into_iter().collect::<Vec<_>>()
        );
        map.insert(b"key00300+".to_vec(), b"later".to_vec());
        map.remove(&key(0));
    }
}

fn moves(iterator: &mut Iterator, map: &BTreeMap<Vec<u8>, Vec<u8>>, chance: &mut Chance) {
    let mut expected: Option<(&Vec<u8>, &Vec<u8>)> = None;
    for _ in 0..400 {
        match chance.below(12) {
            0 => {
                leveldb_iter_seek_to_first(iterator);
                expected = map.iter().next();
            }
            1 => {
                leveldb_iter_seek_to_last(iterator);
                expected = map.iter().next_back();
            }
            2 => {
                let to = key(chance.below(620));
                seek(iterator, &to);
                expected = map.range(to..).next();
            }
            3..=7 => {
                leveldb_iter_next(iterator);
                expected = expected.and_then(|(key, _)| {
                    let mut behind = key.clone();
                    behind.push(0);
                    map.range(behind..).next()
                });
            }
            _ => {
                leveldb_iter_prev(iterator);
                expected = expected.and_then(|(key, _)| map.range(..key.clone()).next_back());
            }
        }
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(at(iterator), expected);
        error_of(iterator).unwrap();
    }
}

#[test]
fn an_iterator_is_sought_to_the_key_that_it_lends() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    for n in 0..10 {
        store.put(&key(n), b"").unwrap();
    }
    let mut iterator = store.iterator();
    leveldb_iter_seek_to_last(&mut iterator);
    for step in [leveldb_iter_prev, leveldb_iter_next] {
        step(&mut iterator);
        let here = at(&iterator);
        let mut len = std::mem::MaybeUninit::uninit();
        let lent = leveldb_iter_key(&iterator, &mut len);
        // SAFETY: the key that the iterator lends, and its length, which the call has written.
        unsafe { leveldb_iter_seek(&mut iterator, lent, len.assume_init()) };
        assert!(here.is_some());
        assert_eq!(at(&iterator), here);
    }
}

#[test]
fn a_snapshot_sees_its_moment_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    store.put(b"k", b"old").unwrap();
    let snapshot = leveldb_create_snapshot(store.database());
    store.put(b"k", b"new").unwrap();
    let mut options = leveldb_readoptions_create();
    // SAFETY: a snapshot that is not released yet.
    leveldb_readoptions_set_snapshot(&mut options, Some(unsafe { &*snapshot }));
    assert_eq!(store.get_with(&options, b"k").unwrap().unwrap(), b"old");
    let mut iterator = leveldb_create_iterator(store.database(), &options);
    leveldb_release_snapshot(store.database(), snapshot);

    // An iterator keeps its moment itself.
    let old = vec![(b"k".to_vec(), b"old".to_vec())];
    assert_eq!(all(&mut iterator), old);
    drop(iterator);
    let refused = "Invalid argument: the snapshot of the read options was released";
    assert_eq!(store.get_with(&options, b"k").unwrap_err(), refused);
    let mut iterator = leveldb_create_iterator(store.database(), &options);
    leveldb_iter_seek_to_first(&mut iterator);
    assert_eq!(at(&iterator), None);
    assert_eq!(error_of(&iterator).unwrap_err(), refused);
    leveldb_readoptions_set_snapshot(&mut options, None);
    assert_eq!(store.get_with(&options, b"k").unwrap().unwrap(), b"new");
}

/// The values that `evendb_leveldb_get` lends for a key, one for each call of the callback, and its
/// result.
fn lent(store: &Store, options: &ReadOptions, of: &[u8]) -> (Vec<Vec<u8>>, Outcome<u8>) {
    unsafe extern "C-unwind" fn take(values: *mut c_void, value: *const c_char, len: usize) {
        // SAFETY: the state that is given below, and `len` bytes that are lent.
        unsafe {
            let value = std::slice::from_raw_parts(value.cast(), len).to_vec();
            (*values.cast::<Vec<Vec<u8>>>()).push(value);
        }
    }
    let mut values: Vec<Vec<u8>> = Vec::new();
    let (of, len) = bytes(of);
    let returned = outcome(|error| {
        let state = ptr::from_mut(&mut values).cast();
        // SAFETY: bytes that outlive the call, and a callback that takes this state.
        unsafe { evendb_leveldb_get(store.database(), options, of, len, state, take, error) }
    });
    (values, returned)
}

#[test]
fn a_value_is_lent_once_and_one_that_there_is_not_never() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    store.put(b"k", b"old").unwrap();
    store.put(b"empty", b"").unwrap();
    let snapshot = leveldb_create_snapshot(store.database());
    store.put(b"k", b"new").unwrap();
    let mut options = leveldb_readoptions_create();
    assert_eq!(lent(&store, &options, b"k"), (vec![b"new".to_vec()], Ok(1)));
    assert_eq!(lent(&store, &options, b"empty"), (vec![vec![]], Ok(1)));
    assert_eq!(lent(&store, &options, b"absent"), (vec![], Ok(0)));

    // SAFETY: a snapshot that is not released yet.
    leveldb_readoptions_set_snapshot(&mut options, Some(unsafe { &*snapshot }));
    assert_eq!(lent(&store, &options, b"k"), (vec![b"old".to_vec()], Ok(1)));
    leveldb_release_snapshot(store.database(), snapshot);
    let refused = "Invalid argument: the snapshot of the read options was released";
    assert_eq!(
        lent(&store, &options, b"k"),
        (vec![], Err(refused.to_owned()))
    );
}

#[test]
fn what_is_left_of_a_closed_database_holds_nothing_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.put(b"k", b"v").unwrap();
    // A snapshot that is never released is freed with the database.
    leveldb_create_snapshot(store.database());
    let mut iterator = store.iterator();
    store.close();
    leveldb_iter_seek_to_first(&mut iterator);
    assert_eq!(at(&iterator), None);
    let error = error_of(&iterator).unwrap_err();
    assert!(error.starts_with("IO error: "), "{error}");
    let store = Store::open(dir.path());
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn a_batch_is_written_in_its_order_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let mut batch = leveldb_writebatch_create();
    batch_put(&mut batch, b"cleared", b"");
    leveldb_writebatch_clear(&mut batch);
    batch_put(&mut batch, b"a", b"1");
    batch_put(&mut batch, b"b", b"1");
    batch_delete(&mut batch, b"a");
    batch_put(&mut batch, b"b", b"2");
    for _ in 0..2 {
        store.write(&batch).unwrap();
        assert_eq!(all(&mut store.iterator()), [(b"b".to_vec(), b"2".to_vec())]);
        store.delete(b"b").unwrap();
    }
    let told = told(&batch);
    assert_eq!(told, ["a=1", "b=1", "-a", "b=2"]);
}

/// The writes of a batch, as texts.
fn told(batch: &WriteBatch) -> Vec<String> {
    unsafe extern "C-unwind" fn put(
        told: *mut c_void,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    ) {
        let part = |bytes: *const c_char, len| {
            // SAFETY: `len` bytes of the batch.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        // SAFETY: the state that is given below.
        let told = unsafe { &mut *told.cast::<Vec<String>>() };
        told.push(format!("{}={}", part(key, key_len), part(value, value_len)));
    }
    unsafe extern "C-unwind" fn deleted(told: *mut c_void, key: *const c_char, len: usize) {
        // SAFETY: `len` bytes of the batch, and the state that is given below.
        let (key, told) = unsafe {
            let key = std::slice::from_raw_parts(key.cast::<u8>(), len);
            (key.to_vec(), &mut *told.cast::<Vec<String>>())
        };
        told.push(format!("-{}", String::from_utf8(key).unwrap()));
    }
    let mut told = Vec::<String>::new();
    // SAFETY: the callbacks take this state.
    unsafe { leveldb_writebatch_iterate(batch, (&raw mut told).cast(), put, deleted) };
    told
}

#[test]
fn a_batch_is_appended_to_another_and_to_itself() {
    let mut one = leveldb_writebatch_create();
    batch_put(&mut one, b"a", b"1");
    batch_delete(&mut one, b"b");
    let mut other = leveldb_writebatch_create();
    batch_put(&mut other, b"c", b"");
    // SAFETY: two batches, and one of them twice.
    unsafe {
        leveldb_writebatch_append(&mut *other, &*one);
        let itself: *mut WriteBatch = &mut *one;
        leveldb_writebatch_append(itself, itself);
    }
    assert_eq!(told(&other), ["c=", "a=1", "-b"]);
    assert_eq!(told(&one), ["a=1", "-b", "a=1", "-b"]);
}

#[test]
fn synced_writes_and_an_empty_batch_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path());
    store.put(b"before", b"1").unwrap();
    store.write = leveldb_writeoptions_create();
    store.write(&leveldb_writebatch_create()).unwrap();
    leveldb_writeoptions_set_sync(&mut store.write, 1);
    store.write(&leveldb_writebatch_create()).unwrap();
    store.put(b"synced", b"1").unwrap();
    store.delete(b"before").unwrap();
    assert_eq!(
        all(&mut store.iterator()),
        [(b"synced".to_vec(), b"1".to_vec())]
    );
}

#[test]
fn a_batch_is_whole_or_not_there_beside_threads() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let database = store.database();
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            scope.spawn(move || {
                let write = leveldb_writeoptions_create();
                for n in 0..300 {
                    let mut batch = leveldb_writebatch_create();
                    for part in 0..4 {
                        batch_put(&mut batch, &key(writer * 10 + part), &key(n));
                    }
                    outcome(|error| leveldb_write(database, &write, &batch, error)).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..100 {
                    let read = leveldb_readoptions_create();
                    let records = all(&mut leveldb_create_iterator(database, &read));
                    assert_eq!(records.len() % 4, 0);
                    for batch in records.chunks(4) {
                        assert!(
                            batch.iter().all(|(_, value)| *value == batch[0].1),
                            "{batch:?}"
                        );
                    }
                    let snapshot = leveldb_create_snapshot(database);
                    leveldb_release_snapshot(database, snapshot);
                }
            });
        }
    });
    assert_eq!(all(&mut store.iterator()).len(), 12);
}
