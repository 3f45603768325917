//! Snapshots that are held while other calls continue, also over drops of keyspaces.

use super::reads::bytes;
use super::{Call, call};
use crate::model::{self, Scan, Span, Use, expected, given, holds};
use crate::world::{HeldSnapshot, Outcome, World, compare_iter};
use evendb::Keyspace;
use std::ops::Bound;
use std::rc::Rc;

pub const CALLS: &[Call] = &[
    call("take a snapshot", 20, take),
    call("read a snapshot", 45, read),
    call("let a snapshot go", 8, let_go),
];

const HELD_MAX: usize = 3;

fn take(world: &mut World) -> Outcome {
    if world.snapshots.len() >= HELD_MAX {
        let_go(world)?;
    }
    world.did("Db::snapshot");
    let snapshot = world.db().snapshot()?;
    let position = match world.follows() {
        true => {
            world.did("Snapshot::position");
            Some(snapshot.position()?)
        }
        false => None,
    };
    world.snapshots.push(HeldSnapshot {
        snapshot,
        state: Rc::new(world.oracle.state().clone()),
        keyspaces: world.keyspaces()?,
        position,
    });
    Ok(())
}

fn let_go(world: &mut World) -> Outcome {
    if !world.snapshots.is_empty() {
        let at = world.dice.below(world.snapshots.len() as u64);
        world.snapshots.remove(at as usize);
    }
    Ok(())
}

fn read(world: &mut World) -> Outcome {
    if world.snapshots.is_empty() {
        return Ok(());
    }
    let at = world.dice.below(world.snapshots.len() as u64) as usize;
    let held = world.snapshots.swap_remove(at);
    let done = read_held(world, &held);
    world.snapshots.push(held);
    done
}

fn read_held(world: &mut World, held: &HeldSnapshot) -> Outcome {
    let snapshot = &held.snapshot;
    let (keyspace, generation) = world.dice.pick(&held.keyspaces).clone();
    let map = holds(&held.state, generation);
    match world.dice.below(7) {
        0 => {
            world.did("Snapshot::get");
            world.did("Snapshot::contains_key");
            let key = world.dice.key();
            let got = bytes(snapshot.get(&keyspace, &key)?);
            assert!(got.as_ref() == map.get(&key), "another value at a snapshot");
            assert_eq!(snapshot.contains_key(&keyspace, &key)?, got.is_some());
        }
        1 => {
            world.did("Snapshot::multi_get");
            let keys: Vec<Vec<u8>> = (0..8).map(|_| world.dice.key()).collect();
            let got = snapshot.multi_get(&keyspace, &keys)?;
            let expected = keys.iter().map(|key| map.get(key).cloned());
            assert!(
                got.into_iter().map(bytes).eq(expected),
                "other values at a snapshot"
            );
        }
        2 => {
            world.did("Snapshot::multi_get_across");
            let keys: Vec<(&Keyspace, u32, Vec<u8>)> = held
                .keyspaces
                .iter()
                .map(|(keyspace, generation)| (keyspace, *generation, world.dice.key()))
                .collect();
            let asked: Vec<_> = keys
                .iter()
                .map(|(keyspace, _, key)| (*keyspace, key))
                .collect();
            let got = snapshot.multi_get_across(&asked)?;
            let each = keys.iter();
            let expected = each.map(|(_, of, key)| holds(&held.state, *of).get(key).cloned());
            assert!(
                got.into_iter().map(bytes).eq(expected),
                "other values at a snapshot"
            );
        }
        3 => {
            world.did("Snapshot::iter");
            compare_iter(snapshot.iter(&keyspace), map, "a snapshot")?;
        }
        4 => {
            world.did("Snapshot::prefix");
            let prefix = world.dice.prefix();
            let inside = Span::of_prefix(generation, &prefix);
            let inside = inside
                .of_map(map)
                .map(|(key, value)| (key.clone(), value.clone()));
            compare_iter(
                snapshot.prefix(&keyspace, &prefix),
                &inside.collect(),
                "a snapshot",
            )?;
        }
        5 => {
            world.did("Snapshot::first");
            world.did("Snapshot::last");
            let ends = [
                (snapshot.first(&keyspace)?, map.first_key_value()),
                (snapshot.last(&keyspace)?, map.last_key_value()),
            ];
            for (found, expected) in ends {
                let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
                let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
                assert!(
                    found == expected,
                    "another record is at an end of a snapshot"
                );
            }
        }
        _ => scan(world, held, &keyspace, generation)?,
    }
    Ok(())
}

fn scan(world: &mut World, held: &HeldSnapshot, keyspace: &Keyspace, generation: u32) -> Outcome {
    let bounds = match world.dice.one_in(3) {
        true => (Bound::Unbounded, Bound::Unbounded),
        false => world.dice.bounds(),
    };
    let moves = model::moves(&mut world.dice);
    let span = Span::of(generation, &bounds);
    let snapshot = &held.snapshot;
    let kind = world.dice.below(3);
    let mut scan: Box<dyn Scan> = match kind {
        0 => Box::new(snapshot.range(keyspace, bounds)),
        1 => Box::new(snapshot.keys(keyspace, bounds)),
        _ => Box::new(snapshot.cursor(keyspace, bounds)),
    };
    world.did(["Snapshot::range", "Snapshot::keys", "Snapshot::cursor"][kind as usize]);
    let how = Use {
        moves: &moves,
        limit: None,
        keys_only: kind == 1,
    };
    let found = given(&mut *scan, &moves)?;
    let records: Vec<_> = span.of_map(holds(&held.state, generation)).collect();
    assert!(
        found == expected(&records, &how),
        "other records at a snapshot: {moves:?}"
    );
    Ok(())
}
