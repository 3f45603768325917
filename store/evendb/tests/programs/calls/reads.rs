//! Reads of now.

use super::{Call, call};
use crate::model::{self, Scan, Span, Use, expected, given};
use crate::world::{Outcome, World, compare_iter};
use evendb::{Rest, Value};
use std::ops::Bound;

pub const CALLS: &[Call] = &[
    call("get", 70, get),
    call("get several", 20, multi_get),
    call("get across keyspaces", 15, multi_get_across),
    call("first and last", 15, first_and_last),
    call("iterate", 60, iterate),
    call("prefix", 15, prefix),
    call("compare all", 8, compare_all),
    call("size", 15, size),
    call("fill", 8, fill),
];

pub fn bytes(value: Option<Value>) -> Option<Vec<u8>> {
    value.map(|value| value.to_vec())
}

fn get(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(if is_default {
        "Db::get"
    } else {
        "Keyspace::get"
    });
    let got = match is_default {
        true => world.db().get(&key)?,
        false => keyspace.get(&key)?,
    };
    let expected = world.map(generation).get(&key).cloned();
    let got = bytes(got);
    let shown = |value: &Option<Vec<u8>>| {
        let value = value.as_ref();
        value.map(|value| value[..value.len().min(20)].escape_ascii().to_string())
    };
    assert!(
        got == expected,
        "{}: {:?} instead of {:?}; gets were served {:?}",
        key.escape_ascii(),
        shown(&got),
        shown(&expected),
        world.db().stats().gets
    );
    if world.dice.one_in(3) {
        world.did("Db::get_part");
        world.did("Keyspace::get_part");
        let at = u64::from(world.dice.one_in(2));
        let part = at..at + 7;
        let got = match is_default {
            true => world.db().get_part(&key, part.clone())?,
            false => keyspace.get_part(&key, part.clone())?,
        };
        let cut = |value: &Vec<u8>| {
            let end = value.len().min(part.end as usize);
            value[end.min(part.start as usize)..end].to_vec()
        };
        assert_eq!(bytes(got), expected.as_ref().map(cut), "{part:?}");
    }
    if world.dice.one_in(3) {
        world.did("Db::contains_key");
        world.did("Keyspace::contains_key");
        let is_there = match is_default {
            true => world.db().contains_key(&key)?,
            false => keyspace.contains_key(&key)?,
        };
        assert_eq!(is_there, expected.is_some(), "{}", key.escape_ascii());
    }
    Ok(())
}

fn multi_get(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let keys: Vec<Vec<u8>> = (0..world.dice.below(12))
        .map(|_| world.dice.key())
        .collect();
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(if is_default {
        "Db::multi_get"
    } else {
        "Keyspace::multi_get"
    });
    let got = match is_default {
        true => world.db().multi_get(&keys)?,
        false => keyspace.multi_get(&keys)?,
    };
    let map = world.map(generation);
    let expected = keys.iter().map(|key| map.get(key).cloned());
    assert!(got.into_iter().map(bytes).eq(expected), "got other values");
    Ok(())
}

fn multi_get_across(world: &mut World) -> Outcome {
    let keyspaces = world.keyspaces()?;
    let mut keys = Vec::new();
    for _ in 0..world.dice.below(12) {
        let (keyspace, generation) = world.dice.pick(&keyspaces);
        keys.push((keyspace, *generation, world.dice.key()));
    }
    world.did("Db::multi_get_across");
    let asked: Vec<_> = keys
        .iter()
        .map(|(keyspace, _, key)| (*keyspace, key))
        .collect();
    let got = world.db().multi_get_across(&asked)?;
    let expected = keys
        .iter()
        .map(|(_, generation, key)| world.map(*generation).get(key).cloned());
    assert!(got.into_iter().map(bytes).eq(expected), "got other values");
    Ok(())
}

fn first_and_last(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let is_default = generation == 0 && world.dice.one_in(2);
    for call in match is_default {
        true => ["Db::first", "Db::last"],
        false => ["Keyspace::first", "Keyspace::last"],
    } {
        world.did(call);
    }
    let (first, last) = match is_default {
        true => (world.db().first()?, world.db().last()?),
        false => (keyspace.first()?, keyspace.last()?),
    };
    let map = world.map(generation);
    for (found, expected) in [(first, map.first_key_value()), (last, map.last_key_value())] {
        let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        assert!(found == expected, "another record is at an end");
    }
    Ok(())
}

/// An iterator, keys, a cursor or a cursor of keys over a range, moved both ways and sought.
fn iterate(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let bounds = match world.dice.one_in(3) {
        true => (Bound::Unbounded, Bound::Unbounded),
        false => world.dice.bounds(),
    };
    let moves = model::moves(&mut world.dice);
    let limit = world.dice.one_in(3).then(|| world.dice.below(10));
    let (kind, is_default) = (world.dice.below(5), generation == 0 && world.dice.one_in(2));
    let span = Span::of(generation, &bounds);
    world.tell(|| format!("kind {kind} over {bounds:?}, limit {limit:?}: {moves:?}"));
    let db = world.db().clone();
    let unlimited = limit.unwrap_or(u64::MAX);
    let (mut scan, call): (Box<dyn Scan>, _) = match (kind, is_default) {
        (0, true) => (Box::new(db.range(bounds).limit(unlimited)), "Db::range"),
        (0, false) => (
            Box::new(keyspace.range(bounds).limit(unlimited)),
            "Keyspace::range",
        ),
        (1, true) => (Box::new(db.keys(bounds).limit(unlimited)), "Db::keys"),
        (1, false) => (
            Box::new(keyspace.keys(bounds).limit(unlimited)),
            "Keyspace::keys",
        ),
        (2, true) => (Box::new(db.cursor(bounds)), "Db::cursor"),
        (2, false) => (
            Box::new(keyspace.cursor(bounds).limit_hint(unlimited)),
            "Keyspace::cursor",
        ),
        (3, _) => (
            Box::new(keyspace.cursor(bounds).keys_only()),
            "Cursor::keys_only",
        ),
        _ => {
            let cursor = keyspace.cursor(bounds).keys_only();
            (
                Box::new(cursor.limit_hint(unlimited)),
                "KeyCursor::limit_hint",
            )
        }
    };
    world.did(call);
    let names: &[&'static str] = match kind {
        0 => &["Iter::limit", "Iter::seek", "Iter::seek_back"],
        1 => &["Keys::limit", "Keys::seek", "Keys::seek_back"],
        2 => &[
            "Cursor::next",
            "Cursor::next_back",
            "Cursor::seek",
            "Cursor::seek_back",
            "Cursor::limit_hint",
        ],
        _ => &[
            "KeyCursor::next",
            "KeyCursor::next_back",
            "KeyCursor::seek",
            "KeyCursor::seek_back",
        ],
    };
    names.iter().for_each(|name| world.did(name));
    let how = Use {
        moves: &moves,
        limit: limit.filter(|_| kind < 2),
        keys_only: kind == 1 || kind > 2,
    };
    let found = given(&mut *scan, &moves)?;
    let records: Vec<_> = span.of_map(world.map(generation)).collect();
    let wanted = expected(&records, &how);
    let differ = found
        .iter()
        .zip(&wanted)
        .position(|(found, wanted)| found != wanted);
    if let Some(at) = differ {
        let key = |item: &Option<model::Item>| {
            item.as_ref()
                .map(|(key, value)| (key.escape_ascii().to_string(), value.as_ref().map(Vec::len)))
        };
        panic!(
            "move {at}, {:?}: {:?} instead of {:?}",
            moves[at],
            key(&found[at]),
            key(&wanted[at])
        );
    }
    Ok(())
}

fn prefix(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let prefix = world.dice.prefix();
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(if is_default {
        "Db::prefix"
    } else {
        "Keyspace::prefix"
    });
    let iter = match is_default {
        true => world.db().prefix(&prefix),
        false => keyspace.prefix(&prefix),
    };
    let span = Span::of_prefix(generation, &prefix);
    let inside = span.of_map(world.map(generation));
    let inside = inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    compare_iter(iter, &inside, "prefix")
}

/// All records of a keyspace, by a buffer of some size.
fn fill(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let mut buffer = vec![0; if world.dice.one_in(2) { 40 } else { 4000 }];
    let mut cursor = keyspace.cursor::<&[u8]>(..);
    let mut found = Vec::new();
    world.did("Cursor::fill");
    world.did("Filled::pairs");
    loop {
        let filled = cursor.fill(&mut buffer, 100)?;
        let pairs = filled.pairs(&buffer);
        found.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
        match filled.rest {
            Rest::Nothing => break,
            Rest::More => assert!(filled.records > 0),
            Rest::Needs(bytes) => {
                assert!(filled.records == 0 && bytes > buffer.len());
                buffer.resize(bytes, 0);
            }
        }
    }
    let expected: Vec<_> = world.map(generation).clone().into_iter().collect();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    Ok(())
}

fn compare_all(world: &mut World) -> Outcome {
    world.did("Db::iter");
    world.did("Keyspace::iter");
    compare_iter(world.db().iter(), world.map(0), "the default keyspace")?;
    world.compare_all("now")
}

/// The size is only an estimate, but an empty range has none.
fn size(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (bounds, prefix) = (world.dice.bounds(), world.dice.prefix());
    let span = Span::of(generation, &bounds);
    let is_default = generation == 0 && world.dice.one_in(2);
    world.did(match is_default {
        true => "Db::approximate_size",
        false => "Keyspace::approximate_size",
    });
    let size = match is_default {
        true => world.db().approximate_size(bounds)?,
        false => keyspace.approximate_size(bounds)?,
    };
    assert!(
        !span.is_empty() || size.records == 0,
        "{size:?} in no key at all"
    );
    world.did("Keyspace::approximate_size_of_prefix");
    let size = keyspace.approximate_size_of_prefix(&prefix)?;
    world.did("Keyspace::approximate_len_of_prefix");
    let len = keyspace.approximate_len_of_prefix(&prefix)?;
    // Workers may rewrite a table in between.
    assert!(
        len == size.records || !world.is_without_threads(),
        "{len} {size:?}"
    );
    world.did("Keyspace::approximate_len");
    keyspace.approximate_len::<&[u8]>(..)?;
    world.did("Db::approximate_len");
    world.db().approximate_len::<&[u8]>(..)?;
    Ok(())
}
