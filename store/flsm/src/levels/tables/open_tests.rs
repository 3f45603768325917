//! Limits of open tables: which tables are closed, and that readers do not notice it.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which fail where they fail"
)]

use super::tests::table_of;
use super::*;
use evendb_base::sync::Mutex;
use evendb_storage::key_hash::FilterHash;
use evendb_storage::vfs::{LockGuard, LockHolder, SimVfs};
use evendb_storage::{Kind, Version};
use std::ffi::OsString;
use std::io;
use std::sync::Weak;

fn place_of(vfs: Arc<dyn Vfs>, files: u64, bytes: u64) -> Arc<TableDir> {
    vfs.create_dir_all(Path::new("/db")).unwrap();
    TableDir::new(vfs, Path::new("/db"), TableLimits { files, bytes })
}

fn tables(place: &Arc<TableDir>, count: u64) -> Vec<Arc<TableFile>> {
    let record = |at| table_of(place, at, at, &[(b"k", at + 1, Kind::Put, b"v")]);
    (0..count).map(record).collect()
}

/// Reads the record. Each table has it at a version of its own.
fn read(table: &TableFile) {
    let found = table.open().unwrap().get(b"k", Version::MAX).unwrap();
    assert_eq!(found.unwrap().version, Version(table.number.0 + 1));
}

fn open_ones(tables: &[Arc<TableFile>]) -> Vec<u64> {
    let open = tables.iter().filter(|table| table.file.opened.is_set());
    open.map(|table| table.number.0).collect()
}

/// `verify` of a database with many tables kept the files of all of them open, until another part
/// of the process collected.
#[test]
fn what_the_limits_close_is_given_back_while_others_are_opened() {
    let place = place_of(Arc::new(SimVfs::new(1)), 3, u64::MAX);
    let tables = tables(&place, 600);
    read(&tables[0]);
    let bytes_of_one = place.open.resident();
    // Calls have no effect while threads of other tests are pinned.
    for _ in 0..200 {
        tables.iter().for_each(|table| read(table));
        assert_eq!(place.open_tables(), 3);
        if place.open.resident() / bytes_of_one < 300 {
            return;
        }
    }
    panic!("{} bytes of tables stay in memory", place.open.resident());
}

#[test]
fn the_oldest_that_nobody_used_again_is_closed() {
    let place = place_of(Arc::new(SimVfs::new(1)), 3, u64::MAX);
    let tables = tables(&place, 6);
    tables[..3].iter().for_each(|table| read(table));
    assert_eq!(open_ones(&tables), [0, 1, 2]);
    read(&tables[0]);
    read(&tables[3]);
    // Spared once, not for ever.
    assert_eq!(open_ones(&tables), [0, 2, 3]);
    read(&tables[4]);
    assert_eq!(open_ones(&tables), [0, 3, 4]);
    read(&tables[5]);
    assert_eq!(open_ones(&tables), [0, 4, 5]);
    read(&tables[1]);
    assert_eq!(open_ones(&tables), [1, 4, 5]);
    assert_eq!(place.open_tables(), 3);
    for _ in 0..3 {
        tables.iter().for_each(|table| read(table));
        assert_eq!(place.open_tables(), 3);
    }
    assert_eq!(place.open.entries(), 3);
}

#[test]
fn a_filter_that_is_asked_counts_as_use() {
    let place = place_of(Arc::new(SimVfs::new(1)), 2, u64::MAX);
    let tables = tables(&place, 3);
    let pin = evendb_base::sync::reclaim::pin();
    assert!(
        !tables[0].is_ruled_out(FilterHash::of(b"x"), &pin),
        "what is closed rules nothing out"
    );
    read(&tables[0]);
    read(&tables[1]);
    let hashes = (0..1000u64).map(|number| FilterHash::of(&number.to_le_bytes()));
    let ruled_out = hashes.filter(|hash| tables[0].is_ruled_out(*hash, &pin));
    assert!(ruled_out.count() > 900);
    read(&tables[2]);
    assert_eq!(open_ones(&tables), [0, 2]);
}

#[test]
fn memory_of_indexes_and_filters_has_a_limit_too() {
    let place = place_of(Arc::new(SimVfs::new(1)), u64::MAX, u64::MAX);
    let first = tables(&place, 1);
    read(&first[0]);
    let bytes = place.resident_bytes();
    assert!(bytes > 0);
    let place = place_of(Arc::new(SimVfs::new(1)), u64::MAX, 4 * bytes + bytes / 2);
    let tables = tables(&place, 10);
    for _ in 0..3 {
        tables.iter().for_each(|table| read(table));
        assert_eq!(place.open_tables(), 4);
    }
}

#[test]
fn who_has_a_table_keeps_it_and_it_counts_until_then() {
    let place = place_of(Arc::new(SimVfs::new(1)), 1, u64::MAX);
    let tables = tables(&place, 2);
    let held = tables[0].open().unwrap();
    let bytes = place.resident_bytes();
    read(&tables[1]);
    assert_eq!(open_ones(&tables), [1]);
    assert!(held.get(b"k", Version::MAX).unwrap().is_some());
    let resident_after = |bytes| {
        for _ in 0..10_000 {
            evendb_base::sync::reclaim::collect();
            if place.resident_bytes() == bytes {
                return true;
            }
            std::thread::yield_now();
        }
        false
    };
    assert!(resident_after(2 * bytes));
    drop(held);
    assert!(resident_after(bytes));
}

#[test]
fn tables_that_go_are_forgotten() {
    let vfs = SimVfs::new(1);
    let place = place_of(Arc::new(vfs.clone()), 1000, u64::MAX);
    for round in 0..500 {
        let table = table_of(&place, round, round, &[(b"k", round + 1, Kind::Put, b"v")]);
        read(&table);
        assert_eq!(place.open_tables(), 1);
        table.retire();
    }
    assert_eq!(place.open_tables(), 0);
    assert!(place.open.entries() < 100, "{}", place.open.entries());
    assert!(vfs.file_names(Path::new("/db")).is_empty());
}

#[test]
fn readers_beside_each_other_open_and_close_what_they_like() {
    let place = place_of(Arc::new(SimVfs::new(1)), 3, u64::MAX);
    let tables = tables(&place, 20);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let tables = &tables;
            scope.spawn(move || {
                for step in 0..3000usize {
                    read(&tables[(step * (7 + 2 * reader) + step / 50) % tables.len()]);
                }
            });
        }
    });
    // Two threads that both find one table too many may each close one.
    let open = place.open_tables();
    assert!((1..=3).contains(&open), "{open}");
    assert_eq!(open_ones(&tables).len() as u64, open);
    assert_eq!(place.open.entries() as u64, open);
}

/// A process that may have few files open.
#[derive(Debug)]
struct FewFiles {
    inner: SimVfs,
    most: usize,
    open: Mutex<Vec<Weak<dyn File>>>,
}

impl Vfs for FewFiles {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        let mut open = self.open.lock();
        open.retain(|file| file.strong_count() > 0);
        if open.len() >= self.most {
            return Err(io::Error::from_raw_os_error(24));
        }
        let file = self.inner.open(path, write)?;
        open.push(Arc::downgrade(&file));
        Ok(file)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(path, shared)
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.inner.lock_holder(path)
    }
}

#[test]
fn a_process_without_descriptors_closes_tables_for_one() {
    let vfs = FewFiles {
        inner: SimVfs::new(1),
        most: 6,
        open: Mutex::default(),
    };
    let place = place_of(Arc::new(vfs), 1000, u64::MAX);
    let tables = tables(&place, 30);
    // A closed table is freed when no other thread has an older pin.
    let open = |table: &TableFile| {
        for _ in 0..100_000 {
            match table.open() {
                Ok(table) => return table,
                Err(_) => std::thread::yield_now(),
            }
        }
        panic!("no descriptor comes back");
    };
    for _ in 0..3 {
        tables.iter().for_each(|table| drop(open(table)));
    }
    let held: Vec<_> = tables[..6].iter().map(|table| open(table)).collect();
    // A thread that holds tables keeps their descriptors, and then none is left.
    assert!(tables[6].open().is_err());
    drop(held);
    read(&tables[6]);
}
