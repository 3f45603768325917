//! Batches: filled, read back, emptied, written.

use super::{Call, call};
use crate::model::Span;
use crate::world::{Effects, Outcome, World};
use evendb::{BatchWrite, Durability, Keyspace};

pub const CALLS: &[Call] = &[call("batch", 70, batch)];

/// A write in the batch: generation, keyspace's name, key, value.
type Own = (u32, String, Vec<u8>, Wrote);

enum Wrote {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
}

fn batch(world: &mut World) -> Outcome {
    let keyspaces = world.keyspaces()?;
    let db = world.db().clone();
    world.did("Db::batch");
    let mut batch = db.batch();
    let mut effects = Effects::default();
    let mut own: Vec<Own> = Vec::new();
    let (mut ranges, mut counted) = (Vec::<(usize, Span)>::new(), 0);
    if world.dice.one_in(6) {
        world.did("Batch::clear");
        batch.put(&keyspaces[0].0, "cleared", "away");
        batch.delete_prefix(&keyspaces[0].0, "");
        batch.clear();
    }
    let count = *world.dice.pick(&[1, 2, 5, 12, 40]);
    for _ in 0..count {
        let (keyspace, generation) = world.dice.pick(&keyspaces).clone();
        let key = world.dice.key();
        match world.dice.below(40) {
            kind @ 0..2 => {
                let (bounds, prefix) = (world.dice.bounds(), world.dice.prefix());
                let span = match kind {
                    0 => Span::of(generation, &bounds),
                    _ => Span::of_prefix(generation, &prefix),
                };
                effects.delete_span(&span, world.map(generation));
                if !span.is_empty() {
                    counted += span.low.len() + span.high.as_ref().map_or(0, Vec::len) + 64;
                    ranges.push((own.len(), span));
                }
                if kind == 0 {
                    world.did("Batch::delete_range");
                    batch.delete_range(&keyspace, bounds);
                } else {
                    world.did("Batch::delete_prefix");
                    batch.delete_prefix(&keyspace, &prefix);
                }
            }
            2..12 => {
                world.did("Batch::delete");
                batch.delete(&keyspace, &key);
                effects.set((generation, &key), None);
                counted += key.len() + 64;
                own.push((generation, keyspace.name().to_owned(), key, Wrote::Delete));
            }
            12..20 if world.merges(generation) => {
                world.did("Batch::merge");
                let operand = world.dice.operand();
                batch.merge(&keyspace, &key, &operand);
                effects.merge((generation, &key), &operand, world.map(generation));
                // An operand has one byte for its length.
                counted += key.len() + 1 + operand.len() + 64;
                own.push((
                    generation,
                    keyspace.name().to_owned(),
                    key,
                    Wrote::Merge(operand),
                ));
            }
            _ => {
                world.did("Batch::put");
                let value = world.dice.value();
                batch.put(&keyspace, &key, &value);
                effects.set((generation, &key), Some(&value));
                counted += key.len() + value.len() + 64;
                own.push((
                    generation,
                    keyspace.name().to_owned(),
                    key,
                    Wrote::Put(value),
                ));
            }
        }
    }
    world.did("Keyspace::name");
    world.did("Batch::len");
    world.did("Batch::is_empty");
    assert_eq!(batch.len(), own.len() + ranges.len());
    assert_eq!(batch.is_empty(), own.is_empty() && ranges.is_empty());
    world.did("Batch::counted_bytes");
    world.did("Batch::counted_bytes_max");
    assert_eq!(batch.counted_bytes(), counted as u64);
    assert!(batch.counted_bytes() < batch.counted_bytes_max());
    if world.dice.one_in(3) {
        world.did("Batch::get");
        let (keyspace, generation) = world.dice.pick(&keyspaces).clone();
        let keys = own
            .iter()
            .filter(|own| own.0 == generation)
            .map(|own| own.2.clone());
        let mut keys: Vec<Vec<u8>> = keys.take(4).collect();
        keys.push(world.dice.key());
        for key in keys {
            let expected = last_of(generation, &key, &own, &ranges);
            assert_eq!(
                batch.get(&keyspace, &key),
                expected,
                "{}",
                key.escape_ascii()
            );
        }
    }
    if world.dice.one_in(3) {
        world.did("Batch::iter");
        let mut each: Vec<_> = own
            .iter()
            .map(|(_, name, key, value)| (&**name, &**key, as_write(value)))
            .collect();
        for (after, span) in ranges.iter().rev() {
            let of = |(_, generation): &&(Keyspace, u32)| *generation == span.generation;
            let (keyspace, _) = keyspaces.iter().find(of).expect("its keyspace");
            let what = BatchWrite::DeleteRange(span.high.as_deref());
            each.insert(*after, (keyspace.name(), &span.low, what));
        }
        assert!(batch.iter().eq(each), "another batch is read back");
    }
    let level = match world.dice.below(8) {
        0 => Some(Durability::Sync),
        1 => Some(Durability::Process),
        _ => None,
    };
    if let Some(level) = level {
        world.did("Batch::durability");
        batch.durability(level);
    }
    world.did("Batch::commit");
    let nothing = batch.is_empty();
    let level = level.filter(|_| !nothing);
    world.write(effects, level, || batch.commit())
}

fn as_write(wrote: &Wrote) -> BatchWrite<'_> {
    match wrote {
        Wrote::Put(value) => BatchWrite::Put(value),
        Wrote::Delete => BatchWrite::Delete,
        Wrote::Merge(operand) => BatchWrite::Merge(operand),
    }
}

/// The effect of a batch on a key in the end.
fn last_of<'b>(
    generation: u32,
    key: &[u8],
    own: &'b [Own],
    ranges: &[(usize, Span)],
) -> Option<BatchWrite<'b>> {
    let last = own
        .iter()
        .rposition(|own| own.0 == generation && own.2 == key);
    let covers = |(after, span): &(usize, Span)| {
        span.generation == generation && span.has(key) && last.is_none_or(|last| last < *after)
    };
    match ranges.iter().any(covers) {
        true => Some(BatchWrite::Delete),
        false => last.map(|last| as_write(&own[last].3)),
    }
}
