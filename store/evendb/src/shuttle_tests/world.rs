//! The database of a scenario, the operations of its threads, and the oracle.
//!
//! Keys are numbered. The values of a key are numbers that rise by one with each put. A key has one
//! writing thread, so a read may return any value from the last number acknowledged before the read
//! to the last number begun before its end. Each thread's reads of a key never fall. The oracle
//! keeps its own notes in `std` atomics: they are no steps of a schedule, and shuttle runs one task
//! at a time.

use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::catalog::KeyspaceState;
use crate::chunk::Chunk;
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::munk::{Munk, Sizes};
use crate::options::Options;
use crate::plant::Plant;
use crate::rebalance::layout::{self, Munks, NewChunk};
use crate::rebalance::{jobs, munks, rewrite, spans};
use crate::sync::{Arc, thread};
use crate::{Db, LogSearch, Value, checkpoint};
use evendb_storage::vfs::{CrashMode, SimVfs};
use shuttle::rand::Rng;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The largest number of keys in a scenario.
pub(super) const KEYS: usize = 6;

/// The lowest value that each key may have, for one thread.
pub(super) type Floors = [u64; KEYS];

pub(super) use super::schedules::{ORACLE, oracle};

pub(super) fn options(vfs: &SimVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .commit_log_mapped(false)
                .chunk_bytes(2048)
                .block_bytes(64)
        })
        .workers(0)
}

pub(super) struct World {
    pub(super) vfs: SimVfs,
    /// It is not dropped when a check fails: a close while unwinding would only hide the message.
    db: ManuallyDrop<Db>,
    keys: usize,
    /// The length of the values, in bytes.
    value_bytes: usize,
    begun: [AtomicU64; KEYS],
    acknowledged: [AtomicU64; KEYS],
}

fn number(value: Option<Value>) -> u64 {
    value.map_or(0, |value| decode(&value))
}

fn decode(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
}

pub(super) fn key(index: usize) -> [u8; 1] {
    [b'a' + index as u8]
}

impl World {
    /// Keys `0..keys`, not yet written.
    pub(super) fn empty(keys: usize, tune: impl FnOnce(Options) -> Options) -> Arc<World> {
        World::with_values_of(8, keys, tune)
    }

    /// Like `empty`, with values of this length that begin with the number.
    pub(super) fn with_values_of(
        value_bytes: usize,
        keys: usize,
        tune: impl FnOnce(Options) -> Options,
    ) -> Arc<World> {
        let vfs = SimVfs::new(1);
        let db = tune(options(&vfs)).open("/db").expect("opens");
        Arc::new(World {
            vfs,
            db: ManuallyDrop::new(db),
            keys,
            value_bytes,
            begun: Default::default(),
            acknowledged: Default::default(),
        })
    }

    /// Keys `0..keys` with value 1, in the base of one chunk.
    pub(super) fn filled(keys: usize, plant: Plant) -> Arc<World> {
        let world = World::empty(keys, |mut options| {
            options.plant = plant;
            let mut random = shuttle::rand::thread_rng();
            if random.gen_bool(0.25) {
                options = options
                    .advanced(|advanced| advanced.log_search(LogSearch::Bloom { split_factor: 2 }));
            }
            let mapped = random.gen_bool(0.25);
            // With a planted fault, all schedules are for that fault.
            let apart = matches!(plant, Plant::Nothing) && random.gen_bool(0.25);
            options.advanced(|advanced| {
                let apart = apart.then_some(1);
                advanced.commit_log_mapped(mapped).values_apart_from(apart)
            })
        });
        for key in 0..keys {
            world.put(key);
        }
        world.checkpoint();
        world.rebalance(0);
        world
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.db.default_keyspace().handle.engine
    }

    pub(super) fn keyspace(&self) -> &Keyspace {
        self.db.default_keyspace()
    }

    pub(super) fn state(&self) -> &KeyspaceState {
        &self.keyspace().state
    }

    /// Starts a thread of the scenario.
    pub(super) fn spawn(
        self: &Arc<Self>,
        body: impl FnOnce(&World) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || body(&world))
    }

    // Writing

    pub(super) fn begin(&self, key: usize) -> u64 {
        self.begun[key].fetch_add(1, SeqCst) + 1
    }

    pub(super) fn acknowledge(&self, key: usize, number: u64) {
        self.acknowledged[key].fetch_max(number, SeqCst);
    }

    fn value(&self, number: u64) -> Vec<u8> {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(self.value_bytes, number as u8);
        value
    }

    /// Puts the next number of a key.
    pub(super) fn put(&self, index: usize) {
        let number = self.begin(index);
        self.db.put(key(index), self.value(number)).expect("puts");
        self.acknowledge(index, number);
    }

    /// Puts the next number of both keys in one batch.
    pub(super) fn put_both(&self, a: usize, b: usize) {
        let (x, y) = (self.begin(a), self.begin(b));
        let mut batch = self.db.batch();
        batch.put(self.keyspace(), key(a), x.to_le_bytes());
        batch.put(self.keyspace(), key(b), y.to_le_bytes());
        batch.commit().expect("commits");
        self.acknowledge(a, x);
        self.acknowledge(b, y);
    }

    /// Puts the next number of each key in order, `rounds` times.
    pub(super) fn put_rounds(&self, keys: &[usize], rounds: usize) {
        for _ in 0..rounds {
            for &key in keys {
                self.put(key);
            }
        }
    }

    // Reading

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

    /// Gets a key, and raises the thread's floor to the value.
    pub(super) fn get(&self, index: usize, floors: &mut Floors) -> u64 {
        floors[index] = floors[index].max(self.acknowledged[index].load(SeqCst));
        let value = number(self.db.get(key(index)).expect("gets"));
        self.judge(index, value, &mut floors[index], "get");
        value
    }

    pub(super) fn get_all(&self, floors: &mut Floors) {
        for index in 0..self.keys {
            self.get(index, floors);
        }
    }

    pub(super) fn multi_get(&self, floors: &mut Floors) -> Vec<u64> {
        let low = self.floors();
        let keys: Vec<_> = (0..self.keys).map(key).collect();
        let values = self.db.multi_get(&keys).expect("gets");
        let values: Vec<u64> = values.into_iter().map(number).collect();
        self.judge_moment(&values, &low, floors, "multi_get");
        values
    }

    fn judge_moment(&self, values: &[u64], low: &Floors, floors: &mut Floors, what: &str) {
        oracle!(
            values.len() == self.keys,
            "{what}: {} records",
            values.len()
        );
        for (index, &value) in values.iter().enumerate() {
            floors[index] = floors[index].max(low[index]);
            self.judge(index, value, &mut floors[index], what);
        }
    }

    /// All keys by one iterator; `from_end` of its steps come from the end.
    pub(super) fn scan(&self, from_end: usize, floors: &mut Floors) -> Vec<u64> {
        let low = self.floors();
        let values = both_ends(self.db.iter(), from_end);
        self.judge_moment(&values, &low, floors, "scan");
        values
    }

    /// A snapshot, and the values that it must show for ever.
    pub(super) fn snapshot(&self, floors: &mut Floors) -> (Snapshot, Vec<u64>) {
        let low = self.floors();
        let snapshot = self.db.snapshot().expect("a snapshot");
        let values: Vec<u64> = (0..self.keys)
            .map(|index| number(snapshot.get(self.keyspace(), key(index)).expect("gets")))
            .collect();
        self.judge_moment(&values, &low, floors, "snapshot");
        (snapshot, values)
    }

    pub(super) fn check_snapshot(&self, snapshot: &Snapshot, expected: &[u64], from_end: usize) {
        for (index, &value) in expected.iter().enumerate() {
            let now = number(snapshot.get(self.keyspace(), key(index)).expect("gets"));
            oracle!(
                now == value,
                "a snapshot's key {index} was {value} and is {now}"
            );
        }
        let scanned = both_ends(snapshot.iter(self.keyspace()), from_end);
        let there: Vec<u64> = expected
            .iter()
            .copied()
            .filter(|&value| value > 0)
            .collect();
        oracle!(
            scanned == there,
            "a snapshot's scan is {scanned:?}, not {there:?}"
        );
    }

    // Switch-overs

    fn chunk(&self, index: usize) -> Arc<Chunk> {
        self.state().index.load_full().find(&key(index)).clone()
    }

    pub(super) fn chunks(&self) -> usize {
        self.engine().catalog.chunks().len()
    }

    /// The number of records in all tables.
    pub(super) fn records(&self) -> u64 {
        let chunks = self.engine().catalog.chunks();
        let entries = chunks.iter().flat_map(|(_, chunk)| {
            let view = chunk.view.load_full();
            let tables = view.funk.tables().map(|table| table.part.meta.entries);
            tables.collect::<Vec<_>>()
        });
        entries.sum()
    }

    pub(super) fn checkpoint(&self) {
        checkpoint::checkpoint(self.engine()).expect("a checkpoint");
    }

    /// Rewrites the key's chunk, unless another thread is at work on it.
    pub(super) fn rebalance(&self, index: usize) {
        let chunk = self.chunk(index);
        if let Some(_token) = chunk.try_token()
            && !chunk.latch.lock().retired
        {
            munks::absorb(&self.engine().core, &chunk);
            let chunks = std::slice::from_ref(&chunk);
            let done = rewrite::rewrite(&self.engine().jobs(), self.state(), chunks).map(drop);
            dropped_is_fine(done);
            self.flush_manifest();
        }
    }

    /// Splits the key's chunk at the key; its halves share the tables.
    pub(super) fn split(&self, index: usize) {
        self.split_of(self.state(), &key(index));
    }

    /// Like `split`, in another keyspace.
    pub(super) fn split_of(&self, keyspace: &KeyspaceState, key: &[u8]) {
        let chunk = keyspace.index.load_full().find(key).clone();
        let Some(_token) = chunk.try_token() else {
            return;
        };
        if chunk.latch.lock().retired || *chunk.range.low == *key {
            return;
        }
        let lows = [chunk.range.low.to_vec(), key.to_vec()];
        let new = lows.into_iter().map(|low| NewChunk {
            low,
            base: Vec::new(),
        });
        let old = std::slice::from_ref(&chunk);
        let split = layout::replace_chunks(
            &self.engine().jobs(),
            keyspace,
            old,
            new.collect(),
            None,
            Munks::Keep,
        );
        dropped_is_fine(split.map(drop));
        self.flush_manifest();
    }

    /// Merges the key's chunk with the next one.
    pub(super) fn merge(&self, index: usize) {
        let chunk = self.chunk(index);
        let Some(_token) = chunk.try_token() else {
            return;
        };
        let root = self.state().index.load_full();
        let Some((_, next)) = root.next(&chunk.range.low) else {
            return;
        };
        let Some(_token) = next.try_token() else {
            return;
        };
        if chunk.latch.lock().retired || next.latch.lock().retired {
            return;
        }
        let adjacent = chunk.range.high.as_deref() == Some(&*next.range.low);
        if adjacent {
            munks::absorb(&self.engine().core, &chunk);
            munks::absorb(&self.engine().core, next);
            let pair = [chunk.clone(), next.clone()];
            dropped_is_fine(rewrite::rewrite(&self.engine().jobs(), self.state(), &pair).map(drop));
            self.flush_manifest();
        }
    }

    pub(super) fn load(&self, index: usize) {
        let chunk = self.chunk(index);
        if let Some(_token) = chunk.try_token() {
            spans::load_munk(&self.engine().core, &chunk).expect("loads");
        }
    }

    /// Loads the key's span of its chunk. If the chunk has no munk, its spans are first cut at each
    /// key.
    pub(super) fn load_span(&self, index: usize) {
        let chunk = self.chunk(index);
        let Some(_token) = chunk.try_token() else {
            return;
        };
        let core = &self.engine().core;
        {
            let writer = chunk.latch.lock();
            let mut view = (*chunk.view.load_full()).clone();
            if !writer.retired && view.munk.is_none() {
                let lows: Vec<_> = (0..self.keys).map(|index| key(index).to_vec()).collect();
                let inside = |low: &Vec<u8>| **low > *chunk.range.low && chunk.range.contains(low);
                let lows: Vec<_> = lows.into_iter().filter(inside).collect();
                let sizes = Sizes {
                    page_bytes: 64,
                    // Neighbours stay apart with this value.
                    span_bytes: 1,
                };
                view.munk = Some(Arc::new(Munk::absent(&lows, sizes, core.ledger())));
                chunk.publish(view);
            }
        }
        spans::load_spans(core, &chunk, &|munk| {
            let span = munk.span_of(&key(index));
            (!munk.has_span(span)).then_some(span).into_iter().collect()
        })
        .expect("loads");
    }

    /// Evicts the key's span.
    pub(super) fn evict_span(&self, index: usize) {
        let chunk = self.chunk(index);
        if let Some(_token) = chunk.try_token()
            && let Some(munk) = chunk.view.load_full().munk.clone()
        {
            let span = munk.span_of(&key(index));
            spans::evict_spans(&self.engine().core, &chunk, |other| other == span);
        }
    }

    /// Absorbs durable data into the munk, range deletions too.
    pub(super) fn absorb(&self, index: usize) {
        let chunk = self.chunk(index);
        if let Some(_token) = chunk.try_token()
            && !chunk.latch.lock().retired
        {
            munks::absorb(&self.engine().core, &chunk);
            munks::mend_spent(&self.engine().core, &chunk);
        }
    }

    pub(super) fn evict(&self, index: usize) {
        let chunk = self.chunk(index);
        if let Some(_token) = chunk.try_token() {
            munks::evict_munk(&self.engine().core, &chunk);
        }
    }

    /// Does the work that a worker would do with the key's chunk, by the figures.
    pub(super) fn maintain(&self, index: usize) {
        let chunk = self.chunk(index);
        let engine = self.engine();
        jobs::maintain(&engine.jobs(), &chunk).expect("maintains");
    }

    fn flush_manifest(&self) {
        self.engine()
            .disk
            .manifest()
            .flush(Vec::new())
            .expect("flushes");
        self.engine().disk.collect(&self.engine().core.health);
    }

    // The end

    /// Checks after the end of all threads: everything acknowledged is there, by every way of
    /// reading.
    pub(super) fn check(&self) {
        let mut floors = self.floors();
        self.get_all(&mut floors);
        let there = floors[..self.keys].iter().all(|&value| value > 0);
        if there {
            for from_end in [0, 1, self.keys] {
                let values = self.scan(from_end, &mut floors);
                oracle!(
                    values == floors[..self.keys],
                    "scan {values:?}, gets {floors:?}"
                );
            }
        }
    }

    /// The state of the disk at some moment, and the values that were acknowledged then.
    pub(super) fn image_at_some_time(&self) -> (SimVfs, Floors) {
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..400) {
            thread::yield_now();
        }
        (self.vfs.fork_state(), self.floors())
    }

    /// Checks the current state of the disk like [`check_image`](Self::check_image).
    pub(super) fn check_crash(&self, mode: CrashMode, floors: &Floors, order: &[usize]) {
        self.check_image(&self.vfs, mode, floors, order);
    }

    /// Opens a disk as after a crash: it has at least `floors`, and a prefix of the puts in
    /// `order`: each key is at most one round behind the key before.
    pub(super) fn check_image(
        &self,
        disk: &SimVfs,
        mode: CrashMode,
        floors: &Floors,
        order: &[usize],
    ) {
        let vfs = disk.fork_state().crash(mode);
        let high: Floors = std::array::from_fn(|key| self.begun[key].load(SeqCst));
        let opened = options(&vfs)
            .durability(self.engine().core.options.durability)
            .open("/db");
        let db = match opened {
            Ok(db) => ManuallyDrop::new(db),
            Err(error) => panic!("{ORACLE}does not reopen: {error}"),
        };
        let mut values = [0; KEYS];
        for index in 0..self.keys {
            let value = number(db.get(key(index)).expect("gets"));
            let (low, high) = (floors[index], high[index]);
            oracle!(
                (low..=high).contains(&value),
                "key {index} is {value} after a crash, not in {low}..={high}"
            );
            values[index] = value;
        }
        check_rounds(order.iter().map(|&key| values[key]));
        drop(ManuallyDrop::into_inner(db));
    }

    /// The last use: checks, also after `kill -9`, and closes.
    pub(super) fn finish(self: Arc<Self>) {
        self.check();
        self.check_crash(CrashMode::Process, &self.floors(), &[]);
        self.close();
    }

    pub(super) fn close(self: Arc<Self>) {
        let Ok(world) = Arc::try_unwrap(self) else {
            panic!("all threads have ended");
        };
        match ManuallyDrop::into_inner(world.db).close() {
            Ok(()) => {}
            Err(error) => oracle!(error.kind() == ErrorKind::Latched, "closing: {error}"),
        }
    }
}

fn dropped_is_fine(result: crate::Result<()>) {
    if let Err(error) = result {
        assert_eq!(error.kind(), ErrorKind::KeyspaceDropped, "{error}");
    }
}

/// Checks the values, at one moment, of keys that are put in turn: no key is ahead of the key
/// before it, and no key is more than one round behind the first.
pub(super) fn check_rounds(values: impl Iterator<Item = u64>) {
    let values: Vec<u64> = values.collect();
    let falls = values.windows(2).all(|pair| pair[0] >= pair[1]);
    let near = values.first().copied().unwrap_or(0) <= values.last().copied().unwrap_or(0) + 1;
    oracle!(falls && near, "no moment of the order of puts: {values:?}");
}

/// All values of an iterator in key order; `from_end` steps are taken from the end, alternating.
pub(super) fn both_ends(mut iter: crate::Iter, from_end: usize) -> Vec<u64> {
    let mut front: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut back = Vec::new();
    loop {
        let item = match back.len() < from_end && back.len() <= front.len() {
            true => iter.next_back().map(|item| (item, true)),
            false => iter.next().map(|item| (item, false)),
        };
        let Some((item, from_back)) = item else { break };
        let (key, value) = item.expect("no error");
        let item = (key.to_vec(), decode(&value));
        match from_back {
            true => back.push(item),
            false => front.push(item),
        }
    }
    back.reverse();
    front.extend(back);
    oracle!(
        front.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "keys out of order: {front:?}"
    );
    front.into_iter().map(|(_, value)| value).collect()
}

/// Waits for the threads of a scenario.
pub(super) fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}
