//! Threads that call a database at random and record their calls: gets, puts, deletes, batches,
//! range deletions, multi-gets, and scans from both ends, of the database and of snapshots.
//!
//! Each write of a key has its number, and the value begins with it. In most histories a key has
//! one writing thread, so that [`check`](super::linearizable::check) judges them in full: threads
//! own blocks of neighbouring keys, and a range deletion within a block writes the next version of
//! each of its keys. In shared histories every thread writes every key.
//!
//! Between rounds, when no other thread calls anything, a scan reads everything. That fixes the
//! state, so that a checker can judge each round alone.

use super::linearizable::{ABSENT, Op, Watch};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

const THREADS: u32 = 4;

pub type Key = [u8; 6];
/// Keys and their versions.
pub type Records = Box<dyn DoubleEndedIterator<Item = (u32, u32)>>;

pub fn key(number: u32) -> Key {
    let digits = format!("{number:06}");
    digits.as_bytes().try_into().expect("six digits")
}

pub fn number(key: &[u8]) -> u32 {
    let digits = std::str::from_utf8(key).expect("digits");
    digits.parse().expect("a number")
}

pub fn version(value: Option<&[u8]>) -> u32 {
    value.map_or(ABSENT, |value| {
        u32::from_le_bytes(value[..4].try_into().expect("four bytes"))
    })
}

/// A database as the clients call it: every call succeeds, and returns versions instead of values.
pub trait Store: Clone + Send + Sync {
    type Snapshot;
    /// A put or a delete for one change, a batch for more.
    fn write(&self, changes: &[(Key, Option<Vec<u8>>)]);
    /// A range deletion alone, or in a batch with a put after it.
    fn delete_range(&self, range: Range<Key>, then: Option<(Key, Vec<u8>)>);
    fn get(&self, of: Option<&Self::Snapshot>, key: Key) -> u32;
    fn multi_get(&self, keys: &[Key]) -> Vec<u32>;
    fn snapshot(&self) -> Self::Snapshot;
    fn scan(&self, of: Option<&Self::Snapshot>, range: Range<Key>) -> Records;
}

/// Makes a `Db` a [`Store`]: that of the crate from outside, or from within for planted faults.
#[allow(unused_macros, reason = "two test binaries use it")]
macro_rules! store {
    ($db:ty, $snapshot:ty) => {
        impl clients::Store for $db {
            type Snapshot = $snapshot;

            fn write(&self, changes: &[(clients::Key, Option<Vec<u8>>)]) {
                if let [(key, value)] = changes {
                    let done = match value {
                        Some(value) => self.put(key, value),
                        None => self.delete(key),
                    };
                    return done.expect("writes");
                }
                let keyspace = self.default_keyspace();
                let mut batch = self.batch();
                for (key, value) in changes {
                    match value {
                        Some(value) => batch.put(keyspace, key, value),
                        None => batch.delete(keyspace, key),
                    };
                }
                batch.commit().expect("commits");
            }

            fn delete_range(
                &self,
                range: std::ops::Range<clients::Key>,
                then: Option<(clients::Key, Vec<u8>)>,
            ) {
                let mut batch = self.batch();
                match then {
                    None => return <$db>::delete_range(self, range).expect("deletes"),
                    Some((key, value)) => batch.delete_range(self.default_keyspace(), range).put(
                        self.default_keyspace(),
                        key,
                        value,
                    ),
                };
                batch.commit().expect("commits");
            }

            fn get(&self, of: Option<&$snapshot>, key: clients::Key) -> u32 {
                let value = match of {
                    Some(snapshot) => snapshot.get(self.default_keyspace(), key),
                    None => <$db>::get(self, key),
                };
                clients::version(value.expect("gets").as_deref())
            }

            fn multi_get(&self, keys: &[clients::Key]) -> Vec<u32> {
                let values = <$db>::multi_get(self, keys).expect("gets");
                let versions = values.iter();
                versions
                    .map(|value| clients::version(value.as_deref()))
                    .collect()
            }

            fn snapshot(&self) -> $snapshot {
                <$db>::snapshot(self).expect("a snapshot")
            }

            fn scan(
                &self,
                of: Option<&$snapshot>,
                range: std::ops::Range<clients::Key>,
            ) -> clients::Records {
                let iter = match of {
                    Some(snapshot) => snapshot.range(self.default_keyspace(), range),
                    None => self.range(range),
                };
                Box::new(iter.map(|item| {
                    let (key, value) = item.expect("no error");
                    (clients::number(&key), clients::version(Some(&value)))
                }))
            }
        }
    };
}
#[allow(unused_imports, reason = "two test binaries use it")]
pub(crate) use store;

/// The work of the clients of a run.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub keys: u32,
    /// The number of neighbouring keys that one thread writes; all keys if every thread writes
    /// them.
    pub block: u32,
    pub is_shared: bool,
    /// The number of operations of all threads together.
    pub operations: u64,
    /// Operations of one thread between two scans of everything.
    pub round: u64,
}

/// A database between the rounds of a run.
pub struct Run<S: Store> {
    plan: Plan,
    watch: Arc<Watch>,
    clients: Vec<Client<S>>,
    scans: Vec<Op>,
}

impl<S: Store> Run<S> {
    pub fn new(db: &S, plan: Plan) -> Run<S> {
        let watch = Arc::new(Watch::default());
        let versions: Arc<[AtomicU32]> = (0..plan.keys).map(|_| AtomicU32::new(0)).collect();
        let clients = (0..THREADS).map(|own| Client {
            db: db.clone(),
            plan,
            watch: watch.clone(),
            own,
            random: Random(plan.seed * 100 + u64::from(own)),
            versions: versions.clone(),
            ops: Vec::new(),
        });
        Run {
            plan,
            watch: watch.clone(),
            clients: clients.collect(),
            scans: Vec::new(),
        }
    }

    /// Runs all rounds, each with threads of its own.
    pub fn go(&mut self, db: &S) {
        let mut left = self.plan.operations.div_ceil(THREADS.into());
        while left > 0 {
            let count = left.min(self.plan.round);
            left -= count;
            // No thread ends before the others begin.
            let gate = Barrier::new(THREADS as usize);
            std::thread::scope(|scope| {
                for client in &mut self.clients {
                    scope.spawn(|| {
                        gate.wait();
                        client.run(count);
                    });
                }
            });
            self.read_everything(db);
        }
    }

    /// Reads everything; no other thread calls anything.
    pub fn read_everything(&mut self, db: &S) {
        let keys = 0..self.plan.keys;
        let begin = self.watch.now();
        let mut reads: Vec<(u32, u32)> = keys.map(|key| (key, ABSENT)).collect();
        for (key, version) in db.scan(None, key(0)..key(self.plan.keys)) {
            reads[key as usize].1 = version;
        }
        self.scans.push(Op {
            begin,
            end: self.watch.now(),
            reads,
            writes: Vec::new(),
        });
    }

    /// Drops the handles of the database, so that it can be closed.
    pub fn release(&mut self) {
        for client in self.clients.drain(..) {
            self.scans.extend(client.ops);
        }
    }

    /// The recorded operations, after the clients have been released.
    pub fn into_ops(self) -> Vec<Op> {
        assert!(self.clients.is_empty(), "not released");
        self.scans
    }
}

/// One thread of a run.
struct Client<S: Store> {
    db: S,
    plan: Plan,
    watch: Arc<Watch>,
    own: u32,
    random: Random,
    /// The number of written versions of each key.
    versions: Arc<[AtomicU32]>,
    ops: Vec<Op>,
}

impl<S: Store> Client<S> {
    /// Half of all accesses go to a tenth of the keys, which moves on.
    fn any_key(&mut self) -> u32 {
        let keys = self.plan.keys;
        let hot = (keys / 10).max(1);
        match self.random.one_in(2) {
            true => (self.ops.len() as u32 / 4000 * hot + self.random.below(hot)) % keys,
            false => self.random.below(keys),
        }
    }

    /// A key that this thread may write.
    fn own_key(&mut self) -> u32 {
        let key = self.any_key();
        if self.plan.is_shared {
            return key;
        }
        let block = self.plan.block;
        key - key % (block * THREADS) + self.own * block + key % block
    }

    fn next_version(&self, key: u32) -> u32 {
        self.versions[key as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    fn value(&mut self, version: u32) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        let len = match self.random.one_in(200) {
            true => 3000,
            false => self.random.below(200),
        };
        value.resize(4 + len as usize, version as u8);
        value
    }

    /// Records `call`, which reports what it read.
    fn record(
        &mut self,
        writes: Vec<(u32, u32, bool)>,
        call: impl FnOnce(&mut Self) -> Vec<(u32, u32)>,
    ) {
        let begin = self.watch.now();
        let reads = call(self);
        let end = self.watch.now();
        self.ops.push(Op {
            begin,
            end,
            reads,
            writes,
        });
    }

    /// A put, a delete, or a batch of both.
    fn write(&mut self) {
        let count = match self.random.one_in(8) {
            true => 2 + self.random.below(6),
            false => 1,
        };
        let mut keys: Vec<u32> = (0..count).map(|_| self.own_key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut writes, mut changes) = (Vec::new(), Vec::new());
        for number in keys {
            let version = self.next_version(number);
            let is_deletion = self.random.one_in(8);
            writes.push((number, version, is_deletion));
            let value = (!is_deletion).then(|| self.value(version));
            changes.push((key(number), value));
        }
        self.record(writes, |client| {
            client.db.write(&changes);
            Vec::new()
        });
    }

    /// Deletes own keys by a range; in every third case by a batch that puts one of them again.
    fn delete_range(&mut self) {
        let low = self.own_key();
        let block = self.plan.block;
        let high = low + 1 + self.random.below(block);
        let high = high.min(low - low % block + block);
        let again = self.random.one_in(3);
        let again = again.then(|| low + self.random.below(high - low));
        let mut then = None;
        let mut writes = Vec::new();
        for number in low..high {
            let version = self.next_version(number);
            writes.push((number, version, again != Some(number)));
            if again == Some(number) {
                then = Some((key(number), self.value(version)));
            }
        }
        self.record(writes, |client| {
            client.db.delete_range(key(low)..key(high), then);
            Vec::new()
        });
    }

    fn get(&mut self) {
        let wanted = self.any_key();
        let bytes = key(wanted);
        self.record(Vec::new(), |client| {
            vec![(wanted, client.db.get(None, bytes))]
        });
    }

    fn multi_get(&mut self) {
        let wanted: Vec<u32> = (0..4).map(|_| self.any_key()).collect();
        let keys: Vec<Key> = wanted.iter().map(|&wanted| key(wanted)).collect();
        self.record(Vec::new(), |client| {
            let versions = client.db.multi_get(&keys);
            wanted.into_iter().zip(versions).collect()
        });
    }

    fn scan(&mut self) {
        let low = self.any_key();
        let high = (low + 1 + self.random.below(60)).min(self.plan.keys);
        match self.random.one_in(3) {
            true => self.scan_snapshot(low..high),
            false => self.record(Vec::new(), |client| client.drain(None, low..high)),
        }
    }

    /// A snapshot has the state of the time when it was made. It is read twice, and by a get. If
    /// these reads differ, that is recorded too: no moment has two versions of one key.
    fn scan_snapshot(&mut self, range: Range<u32>) {
        let mut made = None;
        self.record(Vec::new(), |client| {
            made = Some(client.db.snapshot());
            Vec::new()
        });
        let mut reads = self.drain(made.as_ref(), range.clone());
        let mut again = self.drain(made.as_ref(), range);
        let (wanted, _) = reads[0];
        again.push((wanted, self.db.get(made.as_ref(), key(wanted))));
        again.retain(|read| !reads.contains(read));
        reads.extend(again);
        self.ops.last_mut().expect("recorded").reads = reads;
    }

    /// Reads a range from both ends; returns it in key order, with the keys that are absent.
    fn drain(&mut self, of: Option<&S::Snapshot>, keys: Range<u32>) -> Vec<(u32, u32)> {
        let mut iter = self.db.scan(of, key(keys.start)..key(keys.end));
        let mut reads: Vec<(u32, u32)> = keys.clone().map(|key| (key, ABSENT)).collect();
        let backwards = self.random.below(5);
        let (mut front, mut back) = (None, None);
        loop {
            let is_from_back = self.random.below(4) < backwards;
            let item = match is_from_back {
                true => iter.next_back(),
                false => iter.next(),
            };
            let Some((key, version)) = item else {
                return reads;
            };
            assert!(keys.contains(&key), "outside of the range");
            assert!(front.is_none_or(|front| key > front) && back.is_none_or(|back| key < back));
            match is_from_back {
                true => back = Some(key),
                false => front = Some(key),
            }
            reads[(key - keys.start) as usize].1 = version;
        }
    }

    fn run(&mut self, count: u64) {
        for _ in 0..count {
            match self.random.below(100) {
                0..55 => self.get(),
                55 => self.delete_range(),
                56..94 => self.write(),
                94..97 => self.multi_get(),
                _ => self.scan(),
            }
        }
    }
}

/// Splitmix64: numbers that follow from the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(end)) as u32
    }

    fn one_in(&mut self, of: u32) -> bool {
        self.below(of) == 0
    }
}
