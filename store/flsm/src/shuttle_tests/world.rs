//! The database of a scenario, the steps of its threads, and the oracle.
//!
//! Keys are numbered. The values of a key are numbers that rise by one with each put. One thread
//! writes each key. So a read may return any number from the last one acknowledged before the read
//! to the last one begun before the read's end. Within each thread, the numbers that it reads for a
//! key never fall. The oracle's own notes are `std` atomics: they are no steps of a schedule, and
//! shuttle runs one task at a time.

use super::oracle;
use crate::api::db::Db;
use crate::api::snapshot::Snapshot;
use crate::error::ErrorKind;
use crate::options::Options;
use crate::plant::Plant;
use crate::value::Value;
use evendb_base::Durability;
use evendb_base::sync::{Arc, thread};
use evendb_storage::vfs::{CrashMode, SimVfs};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub(super) const DIR: &str = "/db";
/// The number of keys of a scenario, at most.
const KEYS: usize = 4;
/// A value of this many bytes fills a generation.
pub(super) const FULL: usize = 5000;

/// The lowest value that each key may have, for one thread.
pub(super) type Floors = [u64; KEYS];

/// The smallest buffers. Writers stop at `stop` tables of level 0, and at half of this number the
/// tables are compacted.
pub(super) fn options(vfs: &SimVfs, stop: usize, plant: Plant) -> Options {
    let mut options = Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .durability(Durability::Process)
        .advanced(|advanced| {
            advanced
                .write_buffer_bytes(4096)
                .last_guard_bytes(6000)
                .max_files_per_guard(1)
                .level0_tables(stop.div_ceil(2), stop, stop)
                .compaction_threads(1)
                .parallel_seeks(false)
                .cache_bytes(0)
        });
    options.plant = plant;
    options
}

pub(super) struct World {
    pub(super) vfs: SimVfs,
    /// Not dropped when a check fails: closing while unwinding would only hide the message.
    db: ManuallyDrop<Db>,
    begun: [AtomicU64; KEYS],
    acknowledged: [AtomicU64; KEYS],
}

fn key(index: usize) -> [u8; 1] {
    [b'a' + index as u8]
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
    })
}

impl World {
    pub(super) fn new(stop: usize, plant: Plant) -> Arc<World> {
        let vfs = SimVfs::new(1);
        let db = options(&vfs, stop, plant).open(DIR).expect("opens");
        Arc::new(World {
            vfs,
            db: ManuallyDrop::new(db),
            begun: Default::default(),
            acknowledged: Default::default(),
        })
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// Starts a thread of the scenario.
    pub(super) fn spawn(
        self: &Arc<Self>,
        body: impl FnOnce(&World) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || body(&world))
    }

    fn begin(&self, key: usize) -> u64 {
        self.begun[key].fetch_add(1, SeqCst) + 1
    }

    /// Puts the next number of these keys at once, in values of `bytes` bytes.
    pub(super) fn put(&self, keys: &[usize], bytes: usize) {
        let numbers: Vec<u64> = keys.iter().map(|&key| self.begin(key)).collect();
        let mut batch = self.db.batch();
        for (&index, number) in keys.iter().zip(&numbers) {
            let mut value = number.to_le_bytes().to_vec();
            value.resize(bytes.max(8), 7);
            batch.put(self.db.default_keyspace(), key(index), value);
        }
        batch.commit().expect("commits");
        for (&key, number) in keys.iter().zip(numbers) {
            self.acknowledged[key].fetch_max(number, SeqCst);
        }
    }

    /// The lowest number that each key may have from now on.
    pub(super) fn floors(&self) -> Floors {
        std::array::from_fn(|key| self.acknowledged[key].load(SeqCst))
    }

    fn judge(&self, index: usize, value: u64, floor: &mut u64, what: &str) {
        let high = self.begun[index].load(SeqCst);
        oracle!(
            (*floor..=high).contains(&value),
            "{what} of key {index}: {value}, not in {floor}..={high}"
        );
        *floor = value;
    }

    /// Gets a key and raises the thread's floor to the number that it saw.
    pub(super) fn get(&self, index: usize, floors: &mut Floors) -> u64 {
        floors[index] = floors[index].max(self.acknowledged[index].load(SeqCst));
        let value = self.db.get(key(index)).expect("gets");
        let value = number(value.as_deref());
        self.judge(index, value, &mut floors[index], "get");
        value
    }

    /// A snapshot, and the numbers that it must show for ever.
    pub(super) fn snapshot(&self, floors: &mut Floors) -> (Snapshot, Floors) {
        let low = self.floors();
        let snapshot = self.db.snapshot().expect("a snapshot");
        let mut seen = Floors::default();
        for index in 0..KEYS {
            let value = snapshot.get(self.db.default_keyspace(), key(index));
            seen[index] = number(value.expect("gets").as_deref());
            floors[index] = floors[index].max(low[index]);
            self.judge(index, seen[index], &mut floors[index], "snapshot");
        }
        (snapshot, seen)
    }

    /// Checks a snapshot by gets and by a scan.
    pub(super) fn check_snapshot(&self, snapshot: &Snapshot, expected: &Floors) {
        let keyspace = self.db.default_keyspace();
        for (index, &value) in expected.iter().enumerate() {
            let now = snapshot.get(keyspace, key(index)).expect("gets");
            let now = number(now.as_deref());
            oracle!(
                now == value,
                "a snapshot's key {index} was {value} and is {now}"
            );
        }
        let scanned: Vec<u64> = snapshot.iter(keyspace).map(value_of).collect();
        let there: Vec<u64> = expected.iter().copied().filter(|&at| at > 0).collect();
        oracle!(
            scanned == there,
            "a snapshot's scan is {scanned:?}, not {there:?}"
        );
    }

    /// Checks that a database opened on the files that `kill -9` would leave now has at least
    /// `floors`.
    pub(super) fn check_killed(&self, floors: &Floors) {
        // A crash would halt the machine; its copy is killed.
        let machine = self.vfs.fork_state().crash(CrashMode::Process);
        let opened = options(&machine, 8, Plant::Nothing).open(DIR);
        let db = match opened {
            Ok(db) => ManuallyDrop::new(db),
            Err(error) => panic!("{}does not reopen: {error}", super::schedules::ORACLE),
        };
        for (index, &low) in floors.iter().enumerate() {
            let value = number(db.get(key(index)).expect("gets").as_deref());
            let high = self.begun[index].load(SeqCst);
            oracle!(
                (low..=high).contains(&value),
                "key {index} is {value} after a kill, not in {low}..={high}"
            );
        }
        drop(ManuallyDrop::into_inner(db));
    }

    /// The last step: checks, also after `kill -9`, and closes.
    pub(super) fn finish(self: Arc<Self>) {
        let mut floors = self.floors();
        for index in 0..KEYS {
            self.get(index, &mut floors);
        }
        self.check_killed(&self.floors());
        self.close();
    }

    pub(super) fn close(self: Arc<Self>) {
        let Ok(world) = Arc::try_unwrap(self) else {
            panic!("all threads have ended");
        };
        match ManuallyDrop::into_inner(world.db).close() {
            Ok(()) => {}
            Err(error) => oracle!(error.kind() == ErrorKind::Closed, "closing: {error}"),
        }
    }
}

fn value_of(item: crate::error::Result<(Value, Value)>) -> u64 {
    number(Some(&item.expect("no error").1))
}

/// Waits for the threads of a scenario.
pub(super) fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}
