//! Puts that expire long after the program; single deletes by their contract; a filter that keeps
//! everything.

use super::{Call, call};
use crate::world::{Effects, Outcome, World};
use evendb::{CompactionFilter, FilterDecision, Keyspace};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub const CALLS: &[Call] = &[
    call("put until a time", 30, put),
    call("a batch until a time", 12, batch),
    call("a transaction until a time", 12, transact),
    call("single delete", 8, single_delete),
    call("set a filter", 4, set_filter),
];

/// Until beyond the year 5000.
const LIFE: Duration = Duration::from_secs(100_000_000_000);

pub fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + LIFE
}

fn put(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (key, value) = (world.dice.key(), world.dice.value());
    let effects = Effects::put((generation, &key), Some(&value));
    if world.dice.one_in(2) {
        world.did("Keyspace::put_with_ttl");
        return world.write(effects, None, || keyspace.put_with_ttl(&key, &value, LIFE));
    }
    world.did("Keyspace::put_expiring_at");
    world.write(effects, None, || {
        keyspace.put_expiring_at(&key, &value, far())
    })
}

/// A key that no other step has.
fn key_of_its_own(world: &mut World) -> Vec<u8> {
    format!("once/{:016x}", world.dice.below(u64::MAX)).into_bytes()
}

/// The writes of a batch or a transaction: two values that expire, and a single delete of an absent
/// key.
struct Group {
    keyspace: Keyspace,
    first: Vec<u8>,
    second: Vec<u8>,
    value: Vec<u8>,
    once: Vec<u8>,
    effects: Effects,
}

impl Group {
    fn new(world: &mut World) -> evendb::Result<Group> {
        let (keyspace, generation) = world.keyspace()?;
        let (first, second) = (world.dice.key(), world.dice.key());
        let (value, once) = (world.dice.value(), key_of_its_own(world));
        let mut effects = Effects::put((generation, &first), Some(&value));
        effects.set((generation, &second), Some(&value));
        effects.set((generation, &once), None);
        Ok(Group {
            keyspace,
            first,
            second,
            value,
            once,
            effects,
        })
    }
}

fn batch(world: &mut World) -> Outcome {
    let group = Group::new(world)?;
    world.did("Batch::put_with_ttl");
    world.did("Batch::put_expiring_at");
    world.did("Batch::single_delete");
    let mut batch = world.db().batch();
    batch.put_with_ttl(&group.keyspace, &group.first, &group.value, LIFE);
    batch.put_expiring_at(&group.keyspace, &group.second, &group.value, far());
    batch.single_delete(&group.keyspace, &group.once);
    world.write(group.effects, None, || batch.commit())
}

fn transact(world: &mut World) -> Outcome {
    let group = Group::new(world)?;
    world.did("Transaction::put_with_ttl");
    world.did("Transaction::put_expiring_at");
    world.did("Transaction::single_delete");
    let mut transaction = world.db().transaction()?;
    transaction.put_with_ttl(&group.keyspace, &group.first, &group.value, LIFE)?;
    transaction.put_expiring_at(&group.keyspace, &group.second, &group.value, far())?;
    transaction.single_delete(&group.keyspace, &group.once)?;
    world.write(group.effects, None, || transaction.commit())
}

fn single_delete(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (key, value) = (key_of_its_own(world), world.dice.value());
    let effects = Effects::put((generation, &key), Some(&value));
    world.write(effects, None, || keyspace.put(&key, &value))?;
    if world.vfs.crashed() {
        return Ok(());
    }
    world.did("Keyspace::single_delete");
    let effects = Effects::put((generation, &key), None);
    world.write(effects, None, || keyspace.single_delete(&key))
}

struct All;

impl CompactionFilter for All {
    fn filter(&self, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
}

fn set_filter(world: &mut World) -> Outcome {
    let (keyspace, _) = world.keyspace()?;
    world.did("Keyspace::set_compaction_filter");
    let filter = world.dice.one_in(2);
    let filter = filter.then(|| Arc::new(All) as Arc<dyn CompactionFilter>);
    keyspace.set_compaction_filter(filter)
}
