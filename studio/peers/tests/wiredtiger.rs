//! Promises of the adapter for WiredTiger beyond the trait: writes of the same keys at once are no
//! error and batches stay whole; an acknowledged put survives the death of the process; data larger
//! than the cache is right.
#![cfg(feature = "wiredtiger")]

use std::path::Path;
use std::process::Command;

use evendb_lab::opener::Durability;
use evendb_lab::store::{BatchWrite, Store};
use evendb_peers::wiredtiger::WiredTigerStore;

/// Names the directory and the level to the process that dies.
const DYING: &str = "EVENDB_TEST_DYING_PROCESS";
const PUTS: u32 = 1000;

fn open(directory: &Path, durability: Durability) -> WiredTigerStore {
    WiredTigerStore::open(directory, 16 << 20, durability).expect("a directory")
}

fn value_of(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    store
        .get(key, &mut |bytes| value = Some(bytes.to_vec()))
        .expect("a get");
    value
}

#[test]
fn batches_of_the_same_keys_at_once_are_each_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Durability::Process);
    let keys: Vec<_> = (0..20u8).map(|key| vec![b'k', key]).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (store, keys) = (&store, &keys);
            scope.spawn(move || {
                for _ in 0..300 {
                    let value = [thread; 100];
                    let writes: Vec<_> = keys
                        .iter()
                        .map(|key| BatchWrite::Put(key, &value))
                        .collect();
                    store.batch(&writes).unwrap();
                    store.put(b"alone", &value).unwrap();
                    store.delete(b"alone").unwrap();
                    let mut seen = Vec::new();
                    let count = store
                        .scan(b"k", 20, &mut |_, value| {
                            seen.push(value.to_vec());
                            true
                        })
                        .unwrap();
                    assert_eq!(count, 20);
                    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
                }
            });
        }
    });
    assert_eq!(value_of(&store, b"alone"), None);
    Box::new(store).close().unwrap();
}

/// Not a test by itself: the process that [`puts_survive_the_death_of_the_process`] starts.
#[test]
fn dying_process() {
    let Some(directory) = std::env::var_os(DYING) else {
        return;
    };
    let store = open(Path::new(&directory), Durability::Process);
    for number in 0..PUTS {
        store.put(&number.to_be_bytes(), &[7; 50]).unwrap();
    }
    // Nothing is closed, nothing is dropped.
    std::process::abort();
}

#[test]
fn puts_survive_the_death_of_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dying_process"])
        .env(DYING, directory.path())
        .output()
        .unwrap();
    assert!(!status.status.success());
    let store = open(directory.path(), Durability::Process);
    for number in 0..PUTS {
        let value = value_of(&store, &number.to_be_bytes());
        assert_eq!(value.as_deref(), Some(&[7; 50][..]), "{number}");
    }
}

#[test]
fn more_data_than_cache_and_a_closure_that_panics() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Durability::Relaxed);
    for number in 0..20_000u32 {
        let value = [number as u8; 1000];
        store.put(&number.to_be_bytes(), &value).unwrap();
    }
    let panicking = || store.scan(b"", 5, &mut |_, _| panic!("on purpose"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking));
    assert!(caught.is_err());
    // The session is in the pool again, without the scan's snapshot.
    store.put(&7u32.to_be_bytes(), b"new").unwrap();
    assert_eq!(
        value_of(&store, &7u32.to_be_bytes()).as_deref(),
        Some(&b"new"[..])
    );
    let mut expected = 0u32;
    let mut right = true;
    let count = store.scan(b"", usize::MAX, &mut |key, value| {
        right &= key == expected.to_be_bytes();
        right &= expected == 7 || value == [expected as u8; 1000];
        expected += 1;
        right
    });
    assert_eq!(count.unwrap(), 20_000);
    store.settle_debt().unwrap();
    drop(store);
    let store = open(directory.path(), Durability::Relaxed);
    let last = 19_999u32;
    assert_eq!(
        value_of(&store, &last.to_be_bytes()).as_deref(),
        Some(&[last as u8; 1000][..])
    );
}
