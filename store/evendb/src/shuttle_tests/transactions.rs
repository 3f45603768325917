//! S11: transactions x puts, checkpoint, split, rebalance, locks: the committed transactions have
//! the effect of some order one after the other.

use super::explore;
use super::world::{World, join, oracle};
use crate::api::transaction::Transaction;
use crate::error::ErrorKind;
use crate::plant::Plant;
use crate::sync::{Arc, thread};

fn world(plant: Plant) -> Arc<World> {
    World::empty(0, |mut options| {
        options.plant = plant;
        options
    })
}

fn decode(value: Option<crate::Value>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..].try_into().expect("eight bytes"))
    })
}

fn number(world: &World, key: &str) -> u64 {
    decode(world.db().get(key).expect("gets"))
}

fn put(world: &World, key: &str, number: u64) {
    world.db().put(key, number.to_le_bytes()).expect("puts");
}

/// Commits. Returns whether there was no conflict.
fn commits(transaction: Transaction) -> bool {
    match transaction.commit() {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Conflict => false,
        Err(error) => panic!("{error}"),
    }
}

/// Moves the puts into the base, and splits the chunk at `b`.
fn layout(world: &World) {
    world.checkpoint();
    world.rebalance(0);
    world.split(1);
}

/// Two are on call; each may leave if the other stays. Their keys are in two chunks.
pub(super) fn write_skew(plant: Plant) {
    let world = world(plant);
    put(&world, "a", 1);
    put(&world, "b", 1);
    world.split(1);
    let leave = |own: &'static str| {
        world.spawn(move |world| {
            let mut transaction = world.db().transaction().expect("begins");
            let keyspace = world.keyspace();
            let on_call = ["a", "b"].map(|key| decode(transaction.get(keyspace, key).unwrap()));
            if on_call.iter().sum::<u64>() == 2 {
                let none = 0u64.to_le_bytes();
                transaction.put(keyspace, own, none).expect("puts");
                commits(transaction);
            }
        })
    };
    let jobs = world.spawn(|world| {
        world.checkpoint();
        world.rebalance(0);
        world.merge(0);
    });
    join([leave("a"), leave("b"), jobs]);
    let left = number(&world, "a") + number(&world, "b");
    oracle!(left >= 1, "both have left");
    world.close();
}

/// Each transaction puts a record if there is none in the range.
fn phantoms() {
    let world = world(Plant::Nothing);
    put(&world, "a", 1);
    put(&world, "c", 1);
    world.split(1);
    let claim = |own: &'static str| {
        world.spawn(move |world| {
            let mut transaction = world.db().transaction().expect("begins");
            let keyspace = world.keyspace();
            let taken = transaction.range(keyspace, "b".."d").expect("a range");
            if taken.count() == 1 {
                transaction.put(keyspace, own, "mine").expect("puts");
                commits(transaction);
            }
        })
    };
    let jobs = world.spawn(|world| {
        world.checkpoint();
        world.merge(0);
        world.split(1);
    });
    join([claim("b"), claim("bb"), claim("cc"), jobs]);
    let claims = world.db().range("b".."d").count();
    oracle!(claims == 2, "{claims} records instead of two");
    world.close();
}

/// Two threads add to a counter, while their puts leave the deltas.
pub(super) fn counter(plant: Plant) {
    let world = world(plant);
    put(&world, "a", 0);
    let added = [0, 1].map(|_| Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let adds = added.clone().map(|added| {
        world.spawn(move |world| {
            for _ in 0..2 {
                let mut transaction = world.db().transaction().expect("begins");
                let count = decode(transaction.get(world.keyspace(), "a").unwrap());
                let next = (count + 1).to_le_bytes();
                transaction.put(world.keyspace(), "a", next).expect("puts");
                if commits(transaction) {
                    added.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }
        })
    });
    let jobs = world.spawn(|world| {
        world.checkpoint();
        thread::yield_now();
        layout(world);
        world.checkpoint();
    });
    let [first, second] = adds;
    join([first, second, jobs]);
    let added = added.map(|added| added.load(std::sync::atomic::Ordering::SeqCst));
    let found = number(&world, "a");
    oracle!(found == added.iter().sum(), "{found} of {added:?}");
    world.close();
}

/// Two transfers lock two keys, each in its own order, until both have succeeded.
fn locks() {
    let world = world(Plant::Nothing);
    put(&world, "a", 10);
    put(&world, "b", 10);
    world.split(1);
    let transfer = |from: &'static str, to: &'static str| {
        world.spawn(move |world| {
            let keyspace = world.keyspace();
            let done: crate::Result<()> = world.db().transact(|transaction| {
                let source = decode(transaction.get_for_update(keyspace, from)?);
                let target = decode(transaction.get_for_update(keyspace, to)?);
                transaction.put(keyspace, from, (source - 3).to_le_bytes())?;
                transaction.put(keyspace, to, (target + 3).to_le_bytes())
            });
            // In a model every wait times out at once.
            if let Err(error) = done {
                assert_eq!(error.kind(), ErrorKind::LockTimeout, "{error}");
            }
        })
    };
    let jobs = world.spawn(|world| world.checkpoint());
    join([transfer("a", "b"), transfer("b", "a"), jobs]);
    let sum = number(&world, "a") + number(&world, "b");
    oracle!(sum == 20, "the sum is {sum}");
    world.close();
}

/// A transaction over two chunks is seen whole: a snapshot sees both writes or none.
fn whole() {
    let world = world(Plant::Nothing);
    put(&world, "a", 1);
    put(&world, "b", 1);
    world.split(1);
    let writer = world.spawn(|world| {
        for number in 2..4u64 {
            let mut transaction = world.db().transaction().expect("begins");
            for key in ["a", "b"] {
                let put = transaction.put(world.keyspace(), key, number.to_le_bytes());
                put.expect("puts");
            }
            assert!(commits(transaction), "it has read nothing");
        }
    });
    let reader = world.spawn(|world| {
        for _ in 0..3 {
            let seen = world.db().multi_get(&["a", "b"]).expect("gets");
            let seen: Vec<u64> = seen.into_iter().map(decode).collect();
            oracle!(seen[0] == seen[1], "half a transaction: {seen:?}");
        }
    });
    let jobs = world.spawn(layout_beside);
    join([writer, reader, jobs]);
    world.close();
}

/// Two threads pop from ranges that meet, while a third puts before and between the popped keys,
/// and layouts change: no key is popped twice, and the remaining keys come in order.
pub(super) fn pops(plant: Plant) {
    let world = world(plant);
    for key in ["b", "c", "d", "e"] {
        put(&world, key, 1);
    }
    let popped = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let pop = |low: &'static str| {
        let popped = popped.clone();
        world.spawn(move |world| {
            for _ in 0..2 {
                match world.keyspace().pop_first_range(low..) {
                    Ok(Some((key, _))) => popped.lock().push(key.to_vec()),
                    Ok(None) => {}
                    // In a model every wait times out at once.
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::LockTimeout | ErrorKind::Conflict),
                        "{error}"
                    ),
                }
            }
        })
    };
    let putter = world.spawn(|world| {
        for key in ["a", "bb", "cc"] {
            put(world, key, 2);
        }
    });
    let jobs = world.spawn(|world| {
        world.checkpoint();
        world.split(1);
        world.merge(0);
    });
    join([pop(""), pop("c"), putter, jobs]);
    let mut popped = popped.lock().clone();
    let mut left: Vec<Vec<u8>> = Vec::new();
    while let Some((key, _)) = world.keyspace().pop_first().expect("pops") {
        left.push(key.to_vec());
    }
    oracle!(left.is_sorted(), "out of order: {left:?}");
    popped.extend(left);
    popped.sort();
    let all = ["a", "b", "bb", "c", "cc", "d", "e"].map(|key| key.as_bytes().to_vec());
    oracle!(popped == all, "popped: {popped:?}");
    world.close();
}

fn layout_beside(world: &World) {
    world.checkpoint();
    world.merge(0);
    world.split(1);
}

#[test]
fn shuttle_s11_write_skew() {
    explore(3000, || write_skew(Plant::Nothing));
}

#[test]
fn shuttle_s11_phantoms() {
    explore(3000, phantoms);
}

#[test]
fn shuttle_s11_counter() {
    explore(3000, || counter(Plant::Nothing));
}

#[test]
fn shuttle_s11_locks() {
    explore(2000, locks);
}

#[test]
fn shuttle_s11_pops() {
    explore(2000, || pops(Plant::Nothing));
}

#[test]
fn shuttle_s11_whole() {
    explore(2000, whole);
}
