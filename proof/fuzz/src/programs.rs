//! Programs of operations. Their answers are compared with those of an ordered map. The first byte
//! chooses options, and one bit of it the layout; each operation is a byte and its arguments.
//! Limits are small enough that flushes, splits and compactions happen within a program.
//!
//! The engine works without threads, so a program always does the same.

use crate::bytes::Input;
use evendb::{Compression, Db, Durability, Layout, LogSearch, Options, Snapshot, Value};
use evendb_storage::vfs::SimVfs;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Limits = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Where databases lie.
pub(crate) const DIR: &str = "/db";
const OPERATIONS_MAX: usize = 160;
const SNAPSHOTS: usize = 2;

/// A database for programs. Every call succeeds.
pub(crate) struct Database(Db);

impl Database {
    /// Opens the database with options that the number chooses.
    pub(crate) fn open(vfs: &SimVfs, variant: u8) -> Database {
        let options = options(variant).vfs(Arc::new(vfs.clone()));
        Database(options.open(DIR).expect("opens"))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) {
        self.0.put(key, value).expect("puts");
    }

    pub(crate) fn delete(&self, key: &[u8]) {
        self.0.delete(key).expect("deletes");
    }

    /// Makes all writes at once.
    fn batch(&self, writes: &[(Vec<u8>, Option<Vec<u8>>)]) {
        let mut batch = self.0.batch();
        let keyspace = self.0.default_keyspace();
        for (key, value) in writes {
            match value {
                Some(value) => batch.put(keyspace, key, value),
                None => batch.delete(keyspace, key),
            };
        }
        batch.commit().expect("commits");
    }

    fn get(&self, moment: Option<&Snapshot>, key: &[u8]) -> Option<Vec<u8>> {
        let value = match moment {
            Some(moment) => moment.get(self.0.default_keyspace(), key),
            None => self.0.get(key),
        };
        value.expect("gets").map(|value| value.to_vec())
    }

    fn scan(&self, moment: Option<&Snapshot>, limits: &Limits, back: bool, most: usize) -> Pairs {
        let iter = match moment {
            Some(moment) => moment.range(self.0.default_keyspace(), limits.clone()),
            None => self.0.range(limits.clone()),
        };
        let pair = |item: evendb::Result<(Value, Value)>| {
            let (key, value) = item.expect("scans");
            (key.to_vec(), value.to_vec())
        };
        match back {
            true => iter.rev().take(most).map(pair).collect(),
            false => iter.take(most).map(pair).collect(),
        }
    }

    fn moment(&self) -> Snapshot {
        self.0.snapshot().expect("takes a snapshot")
    }

    pub(crate) fn flush(&self) {
        self.0.flush().expect("flushes");
    }

    pub(crate) fn settle(&self) {
        self.0.settle_debt().expect("settles");
    }

    fn compact(&self) {
        self.0.compact().expect("compacts");
    }

    fn delete_range(&self, limits: &Limits) {
        let deleted = self.0.delete_range(limits.clone());
        deleted.expect("deletes a range");
    }

    pub(crate) fn close(self) {
        self.0.close().expect("closes");
    }
}

/// The bit of a variant that chooses guards for a database that is made.
pub(crate) const GUARDS: u8 = 128;

/// Options for tiny databases. Those that a variant chooses for chunks and for guards share bits.
pub(crate) fn options(variant: u8) -> Options {
    let levels = [Durability::Relaxed, Durability::Process, Durability::Sync];
    let level = levels[usize::from(variant & !GUARDS) % levels.len()];
    let layout = match variant & GUARDS {
        0 => Layout::Chunks,
        _ => Layout::Guards,
    };
    let options = Options::new()
        .memory_budget(1 << 20)
        .workers(0)
        .durability(level)
        .layout(layout);
    let options = options.advanced(|advanced| {
        let apart = (variant & 8 == 8).then_some(60);
        let search = match variant & 16 {
            0 => LogSearch::Index,
            _ => LogSearch::Bloom { split_factor: 4 },
        };
        let runs = 1 + usize::from(variant >> 2 & 3);
        advanced
            .commit_log_bytes(64 << 10)
            .chunk_bytes(1024)
            .block_bytes(256)
            .munks(variant & 4 == 0)
            .values_apart_from(apart)
            .value_file_bytes(4096)
            .log_search(search)
            .row_cache(variant & 32 == 0)
            .guards(|guards| {
                guards
                    .max_files_per_guard(runs)
                    .level0_runs(2, 6)
                    .last_guard_bytes(600)
                    .table_bytes_max(4 << 10)
                    .parallel_seeks(false)
            })
    });
    match variant & 64 {
        0 => options,
        _ => options.compression(Compression::Lz4),
    }
}

/// A few keys. Some of them are the beginnings of others.
fn key(byte: u8) -> Vec<u8> {
    let mut key = vec![[0, b'a', b'b', 0xff][usize::from(byte >> 5 & 3)]; usize::from(byte & 3)];
    key.push(b'0' + (byte >> 2 & 7));
    key
}

fn bound(choice: u8, byte: u8) -> Bound<Vec<u8>> {
    match choice & 3 {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key(byte)),
        _ => Bound::Included(key(byte)),
    }
}

fn limits(input: &mut Input<'_>) -> Limits {
    let choice = input.byte();
    let (low, high) = (input.byte(), input.byte());
    (bound(choice, low), bound(choice >> 2, high))
}

/// The part of a map within limits. Empty if the limits are the wrong way round.
fn within(map: &Map, limits: &Limits) -> Pairs {
    let above = |key: &Vec<u8>| match &limits.0 {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
    };
    let below = |key: &Vec<u8>| match &limits.1 {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    };
    let inside = map.iter().filter(|(key, _)| above(key) && below(key));
    inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// A program under way.
struct Run {
    vfs: SimVfs,
    /// None only while it is opened again.
    db: Option<Database>,
    map: Map,
    moments: [Option<(Snapshot, Map)>; SNAPSHOTS],
    /// Makes all values different.
    written: u64,
}

impl Run {
    fn db(&self) -> &Database {
        self.db.as_ref().expect("it is open")
    }

    fn value(&mut self, byte: u8) -> Vec<u8> {
        self.written += 1;
        let len = match usize::from(byte) {
            short @ 0..200 => short / 4,
            long => (long - 190) * 16,
        };
        let number = self.written.to_le_bytes();
        number.into_iter().cycle().take(len).collect()
    }

    fn set(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.map.insert(key.to_vec(), value),
            None => self.map.remove(key),
        };
    }

    fn write_batch(&mut self, input: &mut Input<'_>) {
        let mut kept = Vec::new();
        for _ in 0..=input.byte() & 15 {
            let (key, byte) = (key(input.byte()), input.byte());
            let value = (byte != 0).then(|| self.value(byte));
            kept.push((key, value));
        }
        self.db().batch(&kept);
        for (key, value) in kept {
            self.set(&key, value);
        }
    }

    /// A moment that the byte chooses, with its map; or the present.
    fn seen(&self, choice: u8) -> (Option<&Snapshot>, &Map) {
        match &self.moments[usize::from(choice) % SNAPSHOTS] {
            Some((moment, map)) if choice & 128 == 128 => (Some(moment), map),
            _ => (None, &self.map),
        }
    }

    fn check_get(&self, input: &mut Input<'_>) {
        let (moment, map) = self.seen(input.byte());
        let key = key(input.byte());
        assert_eq!(
            self.db().get(moment, &key).as_ref(),
            map.get(&key),
            "a get of {key:?}"
        );
    }

    fn check_scan(&self, input: &mut Input<'_>) {
        let choice = input.byte();
        let (moment, map) = self.seen(choice);
        let (limits, back) = (limits(input), choice & 64 == 64);
        let most = if choice & 32 == 32 {
            usize::from(input.byte())
        } else {
            usize::MAX
        };
        let mut expected = within(map, &limits);
        if back {
            expected.reverse();
        }
        expected.truncate(most);
        let found = self.db().scan(moment, &limits, back, most);
        assert_eq!(found, expected, "a scan of {limits:?}, back: {back}");
    }

    fn reopen(&mut self, variant: u8) {
        self.moments = [const { None }; SNAPSHOTS];
        if let Some(db) = self.db.take() {
            db.close();
        }
        self.db = Some(Database::open(&self.vfs, variant));
    }

    fn delete_range(&mut self, input: &mut Input<'_>) {
        let limits = limits(input);
        self.db().delete_range(&limits);
        for (key, _) in within(&self.map, &limits) {
            self.map.remove(&key);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=3 => {
                let (key, byte) = (key(input.byte()), input.byte());
                let value = self.value(byte);
                self.db().put(&key, &value);
                self.set(&key, Some(value));
            }
            4 => {
                let key = key(input.byte());
                self.db().delete(&key);
                self.set(&key, None);
            }
            5 | 6 => self.write_batch(input),
            7 | 8 => self.check_get(input),
            9 | 10 => self.check_scan(input),
            11 => {
                let slot = usize::from(input.byte()) % SNAPSHOTS;
                self.moments[slot] = Some((self.db().moment(), self.map.clone()));
            }
            12 => self.db().flush(),
            13 => self.db().settle(),
            14 => match input.byte() {
                byte if byte & 3 == 0 => self.db().compact(),
                byte => self.reopen(byte),
            },
            _ => self.delete_range(input),
        }
    }

    fn check_all(&self) {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let moments = self.moments.iter().flatten();
        let moments = moments.map(|(moment, map)| (Some(moment), map));
        for (moment, map) in moments.chain([(None, &self.map)]) {
            let mut expected = within(map, &all);
            assert_eq!(self.db().scan(moment, &all, false, usize::MAX), expected);
            expected.reverse();
            assert_eq!(self.db().scan(moment, &all, true, usize::MAX), expected);
            for (key, value) in map {
                assert_eq!(self.db().get(moment, key).as_ref(), Some(value));
            }
        }
    }
}

/// See the module.
pub fn programs(data: &[u8]) {
    let mut input = Input(data);
    let variant = input.byte();
    let vfs = SimVfs::new(1);
    let mut run = Run {
        db: Some(Database::open(&vfs, variant)),
        vfs,
        map: Map::new(),
        moments: [const { None }; SNAPSHOTS],
        written: 0,
    };
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        run.step(&mut input);
    }
    run.check_all();
    run.reopen(variant);
    run.check_all();
}
