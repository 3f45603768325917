//! The places where pops begin their search, and P56.

use super::RangeEnd;
use crate::delta::STEPS;
use crate::expiry::WallClock;
use crate::plant::Plant;
use crate::{Db, Keyspace, Options, Value};
use evendb_storage::vfs::SimVfs;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A clock in seconds.
#[derive(Debug)]
struct Hands(AtomicU64);

impl WallClock for Hands {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn open(plant: Plant, chunk_bytes: u64) -> (Db, Arc<Hands>) {
    let hands = Arc::new(Hands(AtomicU64::new(100)));
    let mut options = Options::new()
        .vfs(Arc::new(SimVfs::new(1)))
        .workers(0)
        .memory_budget(8 << 20)
        .advanced(|advanced| {
            let advanced = advanced.wall_clock(hands.clone());
            advanced.chunk_bytes(chunk_bytes)
        });
    options.plant = plant;
    (options.open("/db").unwrap(), hands)
}

fn key(record: Option<(Value, Value)>) -> Option<String> {
    record.map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
}

fn job(number: u64) -> String {
    format!("job/{number:06}")
}

/// The number of steps over keys of deltas that `call` takes.
fn steps(call: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    call();
    STEPS.get() - before
}

/// Popped records are not passed over again, at either end, whatever is put behind meanwhile. It
/// counts steps, not time.
#[test]
fn a_pop_takes_as_many_steps_however_many_came_before() {
    const JOBS: u64 = 2000;
    for end in [RangeEnd::First, RangeEnd::Last] {
        let (db, _) = open(Plant::Nothing, 1 << 20);
        let queue = db.keyspace("queue").unwrap();
        (0..JOBS).for_each(|number| queue.put(job(number), "do").unwrap());
        queue.put("a", "before").unwrap();
        queue.put("z", "behind").unwrap();
        let mut most = 0;
        for number in 0..JOBS {
            if number == JOBS / 2 {
                // A checkpoint changes nothing.
                db.flush().unwrap();
            }
            most = most.max(steps(|| {
                let (popped, expected) = match end {
                    RangeEnd::First => (queue.pop_first_prefix("job/"), number),
                    RangeEnd::Last => (queue.pop_last_prefix("job/"), JOBS - 1 - number),
                };
                assert_eq!(key(popped.unwrap()), Some(job(expected)));
            }));
        }
        assert!(most <= 16, "{most} steps for one pop");
        let of_none = steps(|| {
            let popped = match end {
                RangeEnd::First => queue.pop_first_prefix("job/"),
                RangeEnd::Last => queue.pop_last_prefix("job/"),
            };
            assert!(popped.unwrap().is_none());
        });
        assert!(of_none <= 16, "{of_none} steps to find nothing");
        assert_eq!(key(queue.pop_first().unwrap()).as_deref(), Some("a"));
        assert_eq!(key(queue.pop_first().unwrap()).as_deref(), Some("z"));
    }
}

/// The look at the reads at commit takes no more steps, either.
#[test]
fn a_pop_beside_a_put_looks_at_little() {
    const JOBS: u64 = 500;
    let (db, _) = open(Plant::Nothing, 1 << 20);
    let queue = db.keyspace("queue").unwrap();
    (0..JOBS).for_each(|number| queue.put(job(number), "do").unwrap());
    for number in 0..JOBS - 1 {
        let taken = steps(|| {
            let mut transaction = db.transaction().unwrap();
            let popped = transaction.pop(&queue, (b"", None), RangeEnd::First);
            assert_eq!(key(popped.unwrap()), Some(job(number)));
            queue.put(format!("x{number:06}"), "put meanwhile").unwrap();
            transaction.commit().unwrap();
        });
        assert!(taken <= 16, "{taken} steps");
    }
    let mut transaction = db.transaction().unwrap();
    transaction
        .pop(&queue, (b"", None), RangeEnd::First)
        .unwrap();
    queue.put(job(3), "put before it").unwrap();
    assert!(
        transaction.commit().is_err(),
        "it was not the first any more"
    );
    assert_eq!(key(queue.pop_first().unwrap()), Some(job(3)));
}

/// P56: the chunk is not told of a put into the range that pops have left empty.
#[test]
fn p56_what_is_put_before_is_popped_before() {
    let scenario = |plant| {
        let (db, _) = open(plant, 1 << 20);
        for name in ["b", "c"] {
            db.put(name, "job").unwrap();
        }
        let first = key(db.pop_first().unwrap());
        let mut batch = db.batch();
        batch.put(db.default_keyspace(), "a", "job");
        batch.put(db.default_keyspace(), "d", "job");
        batch.commit().unwrap();
        let rest: Vec<_> = (0..4).map(|_| key(db.pop_first().unwrap())).collect();
        let popped = rest.iter().map(Option::as_deref);
        first.as_deref() == Some("b") && popped.eq([Some("a"), Some("c"), Some("d"), None])
    };
    assert!(scenario(Plant::Nothing), "without a fault");
    assert!(!scenario(Plant::EmptiedStays), "not noticed");
}

/// All operations that may bring keys into the range that pops have emptied, or remove them, in any
/// order.
#[test]
fn pops_among_everything_else_are_those_of_a_map() {
    for seed in 0..12 {
        let (db, hands) = open(Plant::Nothing, 4 << 10);
        let queue = db.keyspace("queue").unwrap();
        let mut world = World {
            model: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            db,
            queue,
            hands,
        };
        (0..1500).for_each(|_| world.step());
        let left = world.queue.iter().count();
        assert_eq!(left, world.alive().count(), "seed {seed}");
    }
}

struct World {
    db: Db,
    queue: Keyspace,
    hands: Arc<Hands>,
    /// Each key with the time of its expiry.
    model: BTreeMap<String, u64>,
    random: StdRng,
}

impl World {
    fn alive(&self) -> impl DoubleEndedIterator<Item = &String> {
        let now = self.hands.0.load(Ordering::Relaxed);
        let all = self.model.iter();
        all.filter(move |(_, until)| **until > now)
            .map(|(key, _)| key)
    }

    fn name(&mut self) -> String {
        let queue = self.random.random_range(0..3u32);
        let number = self.random.random_range(0..60u32);
        format!("{queue}/{number:02}")
    }

    fn step(&mut self) {
        let name = self.name();
        let now = self.hands.0.load(Ordering::Relaxed);
        match self.random.random_range(0..100u32) {
            0..25 => {
                self.queue.put(&name, [7; 40]).unwrap();
                self.model.insert(name, u64::MAX);
            }
            25..35 => {
                let life = self.random.random_range(1..8u64);
                let ttl = Duration::from_secs(life);
                self.queue.put_with_ttl(&name, [7; 40], ttl).unwrap();
                self.model.insert(name, now + life);
            }
            35..40 => {
                self.queue.delete(&name).unwrap();
                self.model.remove(&name);
            }
            40..42 => {
                let high = self.name();
                self.queue.delete_range(&*name..&*high).unwrap();
                self.model.retain(|key, _| *key < name || *key >= high);
            }
            42..45 => {
                self.queue.ingest([(&name, [7; 40])]).unwrap();
                self.model.insert(name, u64::MAX);
            }
            45..48 => self.db.flush().unwrap(),
            48..50 => self.db.settle_debt().unwrap(),
            50..55 => drop(self.hands.0.fetch_add(1, Ordering::Relaxed)),
            55..75 => {
                let expected = self.alive().next().cloned();
                self.popped(self.queue.pop_first(), expected);
            }
            75..80 => {
                let expected = self.alive().next_back().cloned();
                self.popped(self.queue.pop_last(), expected);
            }
            80..90 => {
                let prefix = &name[..2];
                let expected = self.alive().find(|key| key.starts_with(prefix)).cloned();
                self.popped(self.queue.pop_first_prefix(prefix), expected);
            }
            _ => {
                let expected = self.alive().rfind(|key| **key < name).cloned();
                self.popped(self.queue.pop_last_range(..&*name), expected);
            }
        }
    }

    fn popped(&mut self, found: crate::Result<Option<(Value, Value)>>, expected: Option<String>) {
        let found = key(found.unwrap());
        assert_eq!(found, expected);
        if let Some(key) = found {
            self.model.remove(&key);
        }
    }
}
