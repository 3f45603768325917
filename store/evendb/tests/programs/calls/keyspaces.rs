//! Keyspaces: made, with options, dropped, with properties; handles of dropped ones.

use super::{Call, call};
use crate::common::layout::layout;
use crate::world::{Meta, NAMES, Outcome, PROPERTIES, World};
use evendb::{Compression, ErrorKind, KeyspaceOptions, Layout, Merges};

pub const CALLS: &[Call] = &[
    call("make a keyspace", 18, make),
    call("drop a keyspace", 5, drop_one),
    call("set options", 4, set_options),
    call("set a property", 5, set_property),
    call("a dropped keyspace's handle", 5, use_stale),
    call("names", 5, names),
];

fn options(world: &mut World) -> KeyspaceOptions {
    let mut options = KeyspaceOptions::new();
    if world.dice.one_in(2) {
        let zstd = Compression::Zstd { level: 1 };
        let all = [Compression::None, Compression::Lz4, zstd];
        let there = if cfg!(feature = "zstd") { 3 } else { 2 };
        options = options.compression(*world.dice.pick(&all[..there]));
    }
    if world.dice.one_in(2) {
        options = options.block_bytes(*world.dice.pick(&[64, 256, 4096]));
    }
    if world.dice.one_in(3) {
        options = options.filter_bits_per_key(*world.dice.pick(&[0, 10]));
    }
    if world.dice.one_in(3) {
        options = options.row_cache(world.dice.one_in(2));
    }
    if world.dice.one_in(2) {
        options = options.merge_operator(Merges::Append);
    }
    if world.dice.one_in(3) {
        options = options.values_apart_from(*world.dice.pick(&[30, 200, u32::MAX]));
    }
    options
}

fn make(world: &mut World) -> Outcome {
    let name = *world.dice.pick(&NAMES[1..]);
    let wanted = match world.dice.one_in(2) {
        true => options(world),
        false => KeyspaceOptions::new(),
    };
    let wanted = match world.dice.one_in(3) {
        true => wanted.layout(*world.dice.pick(&[Layout::Chunks, layout()])),
        false => wanted,
    };
    world.tell(|| format!("{name} {wanted:?}"));
    world.did("Db::keyspace_with");
    let db = world.db().clone();
    if let Some(generation) = world.oracle.generation(name) {
        // The keyspace exists: the options that it was made with are no contradiction.
        let own = world.metas[&generation].options.clone();
        let keyspace = db.keyspace_with(name, &own)?;
        world.did("Keyspace::options");
        assert_eq!(keyspace.options()?, own);
        return Ok(());
    }
    world.oracle.begin_create(name);
    let generation = world.oracle.next_generation() - 1;
    let meta = Meta::made(wanted.clone());
    world.pending_meta = Some((generation, meta.clone()));
    match wanted == KeyspaceOptions::new() {
        true => db.keyspace(name)?,
        false => db.keyspace_with(name, &wanted)?,
    };
    if !world.vfs.crashed() {
        world.oracle.names_done();
        world.pending_meta = None;
        world.metas.insert(generation, meta);
    }
    Ok(())
}

fn drop_one(world: &mut World) -> Outcome {
    let name = *world.dice.pick(&NAMES[1..]);
    let db = world.db().clone();
    world.tell(|| name.to_owned());
    world.did("Db::drop_keyspace");
    if world.oracle.generation(name).is_none() {
        let refused = db.drop_keyspace(name).expect_err("it is not there");
        if !world.vfs.crashed() {
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
        return Ok(());
    }
    let handle = db.keyspace(name)?;
    world.oracle.begin_drop(name);
    db.drop_keyspace(name)?;
    if !world.vfs.crashed() {
        world.oracle.names_done();
        world.stale.push(handle);
    }
    Ok(())
}

/// Changes a keyspace's options or properties: durable on return, and after a crash either the old
/// ones or the new ones.
fn change_meta(
    world: &mut World,
    generation: u32,
    change: impl FnOnce(&mut Meta),
    act: impl FnOnce() -> Outcome,
) -> Outcome {
    let mut meta = world.metas[&generation].clone();
    change(&mut meta);
    world.pending_meta = Some((generation, meta.clone()));
    act()?;
    if !world.vfs.crashed() {
        world.pending_meta = None;
        world.metas.insert(generation, meta);
    }
    Ok(())
}

fn set_options(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let wanted = options(world);
    world.did("Keyspace::set_options");
    change_meta(
        world,
        generation,
        |meta| {
            // An operator stays.
            meta.set(match meta.merges() {
                true => wanted.clone().merge_operator(Merges::Append),
                false => wanted.clone(),
            });
        },
        || keyspace.set_options(&wanted),
    )
}

fn set_property(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let name = *world.dice.pick(&PROPERTIES);
    if world.dice.one_in(3) {
        world.did("Keyspace::remove_property");
        let remove = |meta: &mut Meta| drop(meta.properties.remove(name));
        return change_meta(world, generation, remove, || keyspace.remove_property(name));
    }
    let value = world.dice.key();
    world.did("Keyspace::set_property");
    world.did("Keyspace::property");
    let set = |meta: &mut Meta| drop(meta.properties.insert(name.to_owned(), value.clone()));
    change_meta(world, generation, set, || {
        keyspace.set_property(name, &value)
    })
}

/// Everything is refused, and the keyspace that has the name now is not touched.
fn use_stale(world: &mut World) -> Outcome {
    if world.stale.is_empty() {
        return Ok(());
    }
    let stale = world.dice.pick(&world.stale.clone()).clone();
    let key = world.dice.key();
    let db = world.db().clone();
    let refused = match world.dice.below(6) {
        0 => stale.get(&key).map(drop),
        1 => stale.put(&key, "v"),
        2 => stale.iter().next().expect("an error").map(drop),
        3 => stale.delete_prefix("k"),
        4 => {
            let mut batch = db.batch();
            batch
                .put(db.default_keyspace(), &key, "v")
                .put(&stale, &key, "v");
            batch.commit()
        }
        _ => stale.pop_first().map(drop),
    };
    let refused = refused.expect_err("it is dropped");
    if !world.vfs.crashed() {
        assert_eq!(refused.kind(), ErrorKind::KeyspaceDropped, "{refused:?}");
    }
    Ok(())
}

fn names(world: &mut World) -> Outcome {
    world.did("Db::keyspace_names");
    assert_eq!(world.db().keyspace_names(), world.oracle.names());
    for name in NAMES {
        world.did("Db::keyspace_exists");
        let exists = world.oracle.generation(name).is_some();
        assert_eq!(world.db().keyspace_exists(name), exists);
    }
    Ok(())
}
