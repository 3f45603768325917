//! Writes of single calls.

use super::{Call, call};
use crate::model::Span;
use crate::world::{Effects, Outcome, World};
use std::ops::Bound;

pub const CALLS: &[Call] = &[
    call("put", 260, put),
    call("delete", 50, delete),
    call("delete a range", 14, delete_range),
    call("delete a prefix", 5, delete_prefix),
    call("pop", 40, pop),
    call("compare and swap", 30, compare_and_swap),
    call("fetch and update", 30, fetch_update),
];

fn put(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (key, value) = (world.dice.key(), world.dice.value());
    let effects = Effects::put((generation, &key), Some(&value));
    if generation == 0 && world.dice.one_in(3) {
        world.did("Db::put");
        let db = world.db().clone();
        return world.write(effects, None, || db.put(&key, &value));
    }
    world.did("Keyspace::put");
    world.write(effects, None, || keyspace.put(&key, &value))
}

fn delete(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let effects = Effects::put((generation, &key), None);
    if generation == 0 && world.dice.one_in(3) {
        world.did("Db::delete");
        let db = world.db().clone();
        return world.write(effects, None, || db.delete(&key));
    }
    world.did("Keyspace::delete");
    world.write(effects, None, || keyspace.delete(&key))
}

fn effects_of(world: &World, span: &Span) -> Effects {
    let mut effects = Effects::default();
    effects.delete_span(span, world.map(span.generation));
    effects
}

fn delete_range(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let bounds = world.dice.bounds();
    let effects = effects_of(world, &Span::of(generation, &bounds));
    world.tell(|| format!("{bounds:?}"));
    if generation == 0 && world.dice.one_in(3) {
        world.did("Db::delete_range");
        let db = world.db().clone();
        return world.write(effects, None, || db.delete_range(bounds));
    }
    world.did("Keyspace::delete_range");
    world.write(effects, None, || keyspace.delete_range(bounds))
}

fn delete_prefix(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let prefix = world.dice.prefix();
    let effects = effects_of(world, &Span::of_prefix(generation, &prefix));
    world.tell(|| format!("prefix {}", prefix.escape_ascii()));
    if generation == 0 && world.dice.one_in(3) {
        world.did("Db::delete_prefix");
        let db = world.db().clone();
        return world.write(effects, None, || db.delete_prefix(&prefix));
    }
    world.did("Keyspace::delete_prefix");
    world.write(effects, None, || keyspace.delete_prefix(&prefix))
}

/// Takes the first or last record of all, of a range, or of a prefix.
fn pop(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let first = world.dice.one_in(2);
    let (form, bounds, prefix) = (
        world.dice.below(3),
        world.dice.bounds(),
        world.dice.prefix(),
    );
    let span = match form {
        0 => Span::of(generation, &(Bound::Unbounded, Bound::Unbounded)),
        1 => Span::of(generation, &bounds),
        _ => Span::of_prefix(generation, &prefix),
    };
    if world.is_locked(generation, &span.low) {
        // It would wait for the transaction.
        return Ok(());
    }
    let mut inside = span.of_map(world.map(generation));
    let found = if first {
        inside.next()
    } else {
        inside.next_back()
    };
    let found = found.map(|(key, value)| (key.clone(), value.clone()));
    let effects = match &found {
        Some((key, _)) => Effects::put((generation, key), None),
        None => Effects::default(),
    };
    let (db, is_default) = (world.db().clone(), generation == 0 && world.dice.one_in(2));
    world.did(match (form, first, is_default) {
        (0, true, true) => "Db::pop_first",
        (0, false, true) => "Db::pop_last",
        (0, true, false) => "Keyspace::pop_first",
        (0, false, false) => "Keyspace::pop_last",
        (1, true, _) => "Keyspace::pop_first_range",
        (1, false, _) => "Keyspace::pop_last_range",
        (_, true, _) => "Keyspace::pop_first_prefix",
        (_, false, _) => "Keyspace::pop_last_prefix",
    });
    let popped = world.write(effects, None, || match (form, first, is_default) {
        (0, true, true) => db.pop_first(),
        (0, false, true) => db.pop_last(),
        (0, true, false) => keyspace.pop_first(),
        (0, false, false) => keyspace.pop_last(),
        (1, true, _) => keyspace.pop_first_range(bounds),
        (1, false, _) => keyspace.pop_last_range(bounds),
        (_, true, _) => keyspace.pop_first_prefix(&prefix),
        (_, false, _) => keyspace.pop_last_prefix(&prefix),
    })?;
    let popped = popped.map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert!(popped == found, "popped {popped:?} instead of {found:?}");
    Ok(())
}

fn compare_and_swap(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let there = world.map(generation).get(&key).cloned();
    let expected = match world.dice.below(5) {
        0 => Some(world.dice.value()),
        1 => None,
        _ => there.clone(),
    };
    let new = (!world.dice.one_in(4)).then(|| world.dice.value());
    let swaps = expected == there;
    let effects = match swaps {
        true => Effects::put((generation, &key), new.as_deref()),
        false => Effects::default(),
    };
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(match is_default {
        true => "Db::compare_and_swap",
        false => "Keyspace::compare_and_swap",
    });
    let db = world.db().clone();
    let swapped = world.write(effects, None, || match is_default {
        true => db.compare_and_swap(&key, expected, new),
        false => keyspace.compare_and_swap(&key, expected, new),
    })?;
    match swapped {
        Ok(()) => assert!(swaps, "swapped what is not there"),
        Err(found) => {
            let found = found.map(|value| value.to_vec());
            assert!(
                !swaps && found == there,
                "found {found:?} instead of {there:?}"
            );
        }
    }
    Ok(())
}

fn fetch_update(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let there = world.map(generation).get(&key).cloned();
    let new = (!world.dice.one_in(4)).then(|| world.dice.value());
    let effects = Effects::put((generation, &key), new.as_deref());
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(match is_default {
        true => "Db::fetch_update",
        false => "Keyspace::fetch_update",
    });
    let db = world.db().clone();
    let mut seen = None;
    let update = |value: Option<&[u8]>| {
        seen = Some(value.map(<[u8]>::to_vec));
        new.clone()
    };
    let before = world.write(effects, None, || match is_default {
        true => db.fetch_update(&key, update),
        false => keyspace.fetch_update(&key, update),
    })?;
    assert!(
        before.map(|value| value.to_vec()) == there,
        "fetched another value"
    );
    assert!(seen == Some(there), "updated another value");
    Ok(())
}
