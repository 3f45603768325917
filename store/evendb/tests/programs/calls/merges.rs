//! Merges of single calls. Keyspaces that merge append operands.

use super::{Call, call};
use crate::world::{Effects, Outcome, World};
use evendb::ErrorKind;

pub const CALLS: &[Call] = &[call("merge", 110, merge)];

impl World {
    /// Whether a keyspace has a merge operator.
    pub fn merges(&self, generation: u32) -> bool {
        self.metas
            .get(&generation)
            .is_some_and(|meta| meta.merges())
    }

    /// The outcome of a merge into a keyspace without an operator.
    pub fn refuses_merge(&self, merged: Outcome) -> Outcome {
        let refused = merged.expect_err("there is no operator");
        let is_right = refused.kind() == ErrorKind::InvalidArgument;
        assert!(is_right || self.vfs.crashed(), "{refused:?}");
        Ok(())
    }
}

fn merge(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let is_default = generation == 0 && world.dice.one_in(3);
    let db = world.db().clone();
    let merge = |operand: &[u8]| match is_default {
        true => db.merge(&key, operand),
        false => keyspace.merge(&key, operand),
    };
    world.did(match is_default {
        true => "Db::merge",
        false => "Keyspace::merge",
    });
    if !world.merges(generation) {
        return world.refuses_merge(merge(b"+"));
    }
    // Now and then many operands, which reads fold.
    for _ in 0..*world.dice.pick(&[1, 1, 1, 1, 4, 20]) {
        let operand = world.dice.operand();
        let mut effects = Effects::default();
        effects.merge((generation, &key), &operand, world.map(generation));
        world.write(effects, None, || merge(&operand))?;
        if world.vfs.crashed() {
            break;
        }
    }
    Ok(())
}
