//! Changes: replicas that keep a copy of the database, over reopenings and crashes. They know only
//! what the database gives them, and they know keyspaces by number.

use super::{Call, call};
use crate::common::oracle::Map;
use crate::common::oracle::Oracle;
use crate::model::{Span, State, holds};
use crate::world::{Outcome, World};
use evendb::{Change, Changes, Db, Durability, Error, ErrorKind, Keyspace, Position};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

pub const CALLS: &[Call] = &[
    call("follow changes", 14, begin),
    call("catch up", 50, catch_up_one),
    call("positions", 10, positions),
    call("wait for changes", 8, wait),
];

const CONSUMERS_MAX: usize = 2;

/// Name and contents of each keyspace, by number.
type Copied = BTreeMap<u32, (String, Map)>;

/// A consumer of all changes: the state that it has taken in, up to its position.
pub struct Consumer {
    position: Position,
    copied: Copied,
    feed: Option<Changes>,
    /// Whether power has failed since the position.
    power_failed: bool,
}

fn copied(state: &State, keyspaces: &[(Keyspace, u32)]) -> Copied {
    let each = keyspaces.iter();
    each.map(|(keyspace, generation)| {
        let contents = holds(state, *generation).clone();
        (keyspace.id(), (keyspace.name().to_owned(), contents))
    })
    .collect()
}

impl World {
    /// Whether there is a log to follow.
    pub fn follows(&self) -> bool {
        self.level != Durability::Relaxed
    }

    fn copied(&self) -> evendb::Result<Copied> {
        Ok(copied(self.oracle.state(), &self.keyspaces()?))
    }
}

impl Consumer {
    fn new(position: Position, copied: Copied) -> Consumer {
        Consumer {
            position,
            copied,
            feed: None,
            power_failed: false,
        }
    }

    fn again(&self) -> Consumer {
        Consumer {
            power_failed: self.power_failed,
            ..Consumer::new(self.position, self.copied.clone())
        }
    }

    /// Notes that the database is closed.
    pub fn close(&mut self) {
        self.feed = None;
    }

    pub fn crashed(&mut self, power: bool) {
        self.power_failed |= power;
    }

    fn take(&mut self, change: &Change) {
        let position = change.position();
        assert!(position > self.position, "positions go backwards");
        // As bytes and as text, like a consumer that stores them.
        let kept = Position::from_bytes(&position.to_bytes()).expect("its own bytes");
        assert_eq!(
            kept.to_string().parse::<Position>().expect("its own text"),
            position
        );
        self.position = kept;
        assert!(change.durability() >= Durability::Process);
        assert_eq!(change.len(), change.writes().count());
        for write in change {
            let of = self.copied.entry(write.keyspace_id);
            let (name, map) = of.or_insert_with(|| (write.keyspace.to_owned(), Map::new()));
            assert_eq!(name, write.keyspace);
            let key = write.key.to_vec();
            if let Some(operands) = write.operands {
                let value = map.entry(key).or_default();
                operands.iter().for_each(|operand| value.extend(operand));
                continue;
            }
            match (write.value, write.deleted_to) {
                (Some(value), _) => drop(map.insert(key, value.to_vec())),
                (None, None) => drop(map.remove(&key)),
                (None, Some(to)) => {
                    let to = to.map(<[u8]>::to_vec);
                    let span = Span::of(0, &(Bound::Included(key), to));
                    map.retain(|key, _| !span.has(key));
                }
            }
        }
    }

    /// Makes and drops keyspaces like the database, and compares.
    fn compare(&mut self, db: &Db, oracle: &Oracle, what: &str) -> Outcome {
        let mut there = BTreeMap::new();
        for name in db.keyspace_names() {
            there.insert(db.keyspace(&name)?.id(), name);
        }
        self.copied.retain(|id, _| there.contains_key(id));
        for (id, name) in there {
            let own = self.copied.entry(id);
            let (_, own) = own.or_insert_with(|| (name.clone(), Map::new()));
            let there = oracle.holds(oracle.generation(&name).expect("its own"));
            if own != there {
                let mut keys = own.keys().chain(there.keys());
                let differs = keys.find(|key| own.get(*key) != there.get(*key));
                let key = differs.map(|key| key.escape_ascii().to_string());
                panic!("{what}: who followed has another {name}, at {key:?}");
            }
        }
        Ok(())
    }

    /// Takes in all available changes, or some. Returns whether it came to the end.
    fn catch_up(&mut self, db: &Db, most: usize) -> evendb::Result<bool> {
        let mut feed = match self.feed.take() {
            Some(feed) => feed,
            None => db.changes_since(&self.position)?,
        };
        for _ in 0..most {
            match feed.next() {
                Some(change) => self.take(&change?),
                None => {
                    self.position = self.position.max(feed.position());
                    self.feed = Some(feed);
                    return Ok(true);
                }
            }
        }
        self.feed = Some(feed);
        Ok(false)
    }

    /// A copy continues from this position like the source, or says that it cannot.
    pub fn follow_in_a_copy(&self, copy: &Db, oracle: &Oracle) -> Outcome {
        let mut other = self.again();
        let id = copy.default_keyspace().id();
        match other.catch_up(copy, usize::MAX) {
            Ok(_) => {
                let default = other.copied.get_mut(&id);
                let only = default.and_then(|(_, map)| map.remove(&b"only"[..]));
                assert!(only.is_some(), "what was put into a copy did not come");
                other.compare(copy, oracle, "in a copy")
            }
            Err(error) => {
                let kinds = [
                    ErrorKind::ChangesGone,
                    ErrorKind::ChangesLost,
                    ErrorKind::Unsupported,
                ];
                assert!(kinds.contains(&error.kind()), "in a copy: {error:?}");
                Ok(())
            }
        }
    }
}

fn begin(world: &mut World) -> Outcome {
    if !world.follows() {
        let refused = world.db().position().expect_err("there is no log");
        assert!(world.vfs.crashed() || refused.kind() == ErrorKind::Unsupported);
        return Ok(());
    }
    let at_snapshot = world.snapshots.iter().rev().find_map(|held| {
        let position = held.position?;
        Some((position, copied(&held.state, &held.keyspaces)))
    });
    world.did("Keyspace::id");
    let (position, copied) = match at_snapshot.filter(|_| world.dice.one_in(2)) {
        Some(from) => from,
        None => {
            world.did("Db::position");
            (world.db().position()?, world.copied()?)
        }
    };
    if world.consumers.len() >= CONSUMERS_MAX {
        let at = world.dice.below(CONSUMERS_MAX as u64);
        world.consumers.remove(at as usize);
    }
    if !world.vfs.crashed() {
        world.consumers.push(Consumer::new(position, copied));
    }
    Ok(())
}

fn catch_up_one(world: &mut World) -> Outcome {
    if world.consumers.is_empty() {
        return Ok(());
    }
    let at = world.dice.below(world.consumers.len() as u64) as usize;
    let most = match world.dice.one_in(3) {
        true => world.dice.below(8) as usize,
        false => usize::MAX,
    };
    for call in [
        "Db::changes_since",
        "Change::position",
        "Change::durability",
        "Change::len",
        "Change::writes",
        "Operands::iter",
        "Changes::position",
        "Position::to_bytes",
        "Position::from_bytes",
    ] {
        world.did(call);
    }
    let mut consumer = world.consumers.swap_remove(at);
    // Changes that are seen of a machine that stops meanwhile do not count as seen.
    let before = consumer.again();
    let db = world.db().clone();
    let caught = consumer.catch_up(&db, most);
    if world.vfs.crashed() {
        world.consumers.push(before);
        return Ok(());
    }
    match caught {
        Ok(whole) => {
            world.tell(|| format!("came to the end: {whole}"));
            if whole {
                consumer.power_failed = false;
                consumer.compare(&db, &world.oracle, "caught up")?;
            }
            if world.dice.one_in(2) {
                consumer.feed = None;
            }
            world.consumers.push(consumer);
        }
        Err(error) => refused(world, consumer, error)?,
    }
    Ok(())
}

/// A feed ends by an error: that is right if the log may be gone, or if a crash may have removed
/// changes that were seen.
fn refused(world: &mut World, mut consumer: Consumer, error: Error) -> Outcome {
    world.tell(|| format!("refused: {error}"));
    match error.kind() {
        ErrorKind::Unsupported if !world.follows() => {
            consumer.feed = None;
            world.consumers.push(consumer);
            return Ok(());
        }
        ErrorKind::ChangesGone => world.did("ChangesGone"),
        ErrorKind::ChangesLost => {
            assert!(consumer.power_failed, "lost and no power failed: {error}");
            world.did("ChangesLost");
        }
        _ => return Err(error),
    }
    let position = world.db().position()?;
    let again = Consumer::new(position, world.copied()?);
    world.consumers.push(again);
    Ok(())
}

/// From the oldest position on everything comes, and the order of positions is that of the log.
fn positions(world: &mut World) -> Outcome {
    if !world.follows() {
        return Ok(());
    }
    world.did("Db::oldest_position");
    let db = world.db().clone();
    let now = db.position()?;
    // A thread's checkpoint may come in between, but no other thread writes, so only few can come.
    let tries = if world.is_without_threads() { 1 } else { 50 };
    let mut read = Ok(());
    for _ in 0..tries {
        read = read_on(&db, db.oldest_position()?);
        match &read {
            Err(error) if error.kind() == ErrorKind::ChangesGone => {}
            _ => break,
        }
    }
    match read {
        // The log still has the record, but not the file of its separately stored value.
        Err(error)
            if error.kind() == ErrorKind::ChangesGone
                && error.to_string().contains("file of a large value") => {}
        read => read?,
    }
    assert!(
        db.changes_since(&now)?.next().is_none(),
        "a change after all"
    );
    Ok(())
}

fn read_on(db: &Db, from: Position) -> Outcome {
    let mut at = from;
    for change in db.changes_since(&from)? {
        let change = change?;
        assert!(change.position() > at, "positions go backwards");
        at = change.position();
    }
    Ok(())
}

fn wait(world: &mut World) -> Outcome {
    if !world.follows() {
        return Ok(());
    }
    let db = world.db().clone();
    let mut feed = db.changes_since(&db.position()?)?;
    world.did("Changes::wait");
    assert!(!feed.wait(Duration::ZERO)?, "something to wait for");
    let (key, value) = (world.dice.key(), world.dice.value());
    let effects = crate::world::Effects::put((0, &key), Some(&value));
    world.write(effects, None, || db.put(&key, &value))?;
    if world.vfs.crashed() {
        return Ok(());
    }
    assert!(feed.wait(Duration::ZERO)?, "nothing to wait for");
    world.did("Changes::next_blocking");
    let change = feed.next_blocking()?;
    let write = change.writes().next().expect("one");
    assert!(
        write.key == key && write.value == Some(&value),
        "another write"
    );
    Ok(())
}
