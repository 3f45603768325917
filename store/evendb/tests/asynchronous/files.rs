//! Files whose reads, writes and syncs a test holds up, and lets go.

use super::executor::poll_once;
use crate::common::{self, DIR};
use evendb::vfs::{File, LockGuard, LockHolder, Mapping, SimVfs, Vfs};
use evendb::{CommitFuture, Db, Durability, Options};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// What is held up.
#[derive(Debug, Default)]
struct Held {
    reads: bool,
    writes: bool,
    syncs: bool,
    /// A part of the names of files whose syncs fail.
    failing: Option<&'static str>,
    /// Threads that stand in a held call.
    standing: usize,
    reads_done: usize,
}

#[derive(Debug, Default)]
struct Hold {
    held: Mutex<Held>,
    changed: Condvar,
}

impl Hold {
    fn pass(&self, is_held: impl Fn(&Held) -> bool) {
        let mut held = self.held.lock().unwrap();
        if !is_held(&held) {
            return;
        }
        held.standing += 1;
        while is_held(&held) {
            held = self.changed.wait(held).unwrap();
        }
        held.standing -= 1;
    }
}

/// A simulated directory with such files.
#[derive(Clone, Debug)]
pub struct Files {
    pub sim: SimVfs,
    hold: Arc<Hold>,
}

#[derive(Debug)]
struct HeldFile {
    inner: Arc<dyn File>,
    hold: Arc<Hold>,
}

impl Files {
    pub fn new() -> Files {
        Files::of(SimVfs::new(1))
    }

    pub fn of(sim: SimVfs) -> Files {
        Files {
            sim,
            hold: Arc::default(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        change(&mut self.hold.held.lock().unwrap());
        self.hold.changed.notify_all();
    }

    pub fn hold_reads(&self, yes: bool) {
        self.change(|held| held.reads = yes);
    }

    pub fn hold_writes(&self, yes: bool) {
        self.change(|held| held.writes = yes);
    }

    pub fn hold_syncs(&self, yes: bool) {
        self.change(|held| held.syncs = yes);
    }

    pub fn fail_syncs_of(&self, name: &'static str) {
        self.change(|held| held.failing = Some(name));
    }

    pub fn standing(&self) -> usize {
        self.hold.held.lock().unwrap().standing
    }

    pub fn reads_done(&self) -> usize {
        self.hold.held.lock().unwrap().reads_done
    }

    pub fn options(&self, level: Durability, workers: usize) -> Options {
        common::options()
            .durability(level)
            .workers(workers)
            .vfs(Arc::new(self.clone()))
    }

    /// A database with room for a few writes: the first write of an opening makes files longer, so
    /// as a future it would be handed to the writer.
    pub fn open(&self, level: Durability) -> Db {
        with_room(self.options(level, 1).open(DIR).unwrap())
    }

    /// Options of a small database, which is soon full.
    pub fn small(&self, level: Durability) -> Options {
        let options = self.options(level, 1).memory_budget(1 << 20);
        options.advanced(|advanced| advanced.commit_log_bytes(64 << 10))
    }

    /// A database at level process that is full, and in which no checkpoint makes room, because
    /// syncs are held. The commits that it returns ask for more than the whole log has, so the
    /// writer stands at one of them.
    pub fn full(&self) -> (Db, Vec<CommitFuture>) {
        let db = self.small(Durability::Process).open(DIR).unwrap();
        self.hold_syncs(true);
        let commit = |number: u32, bytes: usize| {
            let mut batch = db.batch();
            batch.put(db.default_keyspace(), key(number), vec![7; bytes]);
            batch.commit_async()
        };
        let mut number = 0;
        while poll_once(commit(number, 1000)).is_ready() {
            number += 1;
            assert!(number < 100_000, "it is never full");
        }
        let mut stand: Vec<CommitFuture> = (0..40).map(|n| commit(n, 4000)).collect();
        let polled = stand.iter_mut().map(poll_once);
        assert!(polled.filter(std::task::Poll::is_pending).count() > 20);
        (db, stand)
    }

    /// A database in which every record of `keys` keys has to be read from a file.
    pub fn cold(&self, keys: u32, options: impl Fn() -> Options) -> Db {
        let db = options().open(DIR).unwrap();
        for number in 0..keys {
            db.put(key(number), value(number)).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let nothing_in_ram = options().advanced(|advanced| {
            let advanced = advanced.munks(false).row_cache(false);
            advanced.warm_reopening(false)
        });
        with_room(nothing_in_ram.open(DIR).unwrap())
    }
}

/// A database that has room, because a key was put. It is gone again.
fn with_room(db: Db) -> Db {
    db.put("room", [7; 100]).unwrap();
    db.delete("room").unwrap();
    db
}

pub fn key(number: u32) -> String {
    format!("{number:06}")
}

pub fn value(number: u32) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[7; 60]].concat()
}

impl Files {
    fn file(&self, inner: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        let hold = self.hold.clone();
        inner.map(|inner| Arc::new(HeldFile { inner, hold }) as Arc<dyn File>)
    }
}

impl Vfs for Files {
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        self.file(self.sim.open(path, write))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.file(self.sim.create(path))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.sim.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.sim.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.sim.list(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.sim.exists(path)
    }
    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        self.sim.lock(path, shared)
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.sim.lock_holder(path)
    }
}

impl File for HeldFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hold.pass(|held| held.reads);
        let read = self.inner.read_at(buf, offset);
        self.hold.held.lock().unwrap().reads_done += 1;
        read
    }
    fn sync_data(&self) -> io::Result<()> {
        self.hold.pass(|held| held.syncs);
        let failing = self.hold.held.lock().unwrap().failing;
        match failing {
            Some(name) if self.path().to_string_lossy().contains(name) => {
                Err(io::Error::other("planted"))
            }
            _ => self.inner.sync_data(),
        }
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.hold.pass(|held| held.writes);
        self.inner.write_at(data, offset)
    }
    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.preallocate(offset, len)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch_hole(offset, len)
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.inner.map(len)
    }
}
