//! The table of calls: the possible steps of a program, and how often each is drawn.
//!
//! A call takes its choices from the world's dice, makes its public calls (each reported by `did`),
//! and compares. It returns an error that it did not expect: the machine may have stopped.

mod batches;
mod bulk;
mod expiry;
pub mod feed;
mod keyspaces;
mod merges;
mod reads;
mod snapshots;
pub mod transactions;
mod upkeep;
mod writes;

use super::dice::Dice;
use super::world::{Outcome, World};

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Call {
    pub name: &'static str,
    pub weight: u64,
    pub run: fn(&mut World) -> Outcome,
}

const TABLES: [&[Call]; 11] = [
    batches::CALLS,
    bulk::CALLS,
    expiry::CALLS,
    feed::CALLS,
    keyspaces::CALLS,
    merges::CALLS,
    reads::CALLS,
    snapshots::CALLS,
    transactions::CALLS,
    upkeep::CALLS,
    writes::CALLS,
];

pub const fn call(name: &'static str, weight: u64, run: fn(&mut World) -> Outcome) -> Call {
    Call { name, weight, run }
}

fn choose(dice: &mut Dice) -> Call {
    let all = || TABLES.into_iter().flatten();
    let mut at = dice.below(all().map(|call| call.weight).sum());
    let chosen = all().find(|call| {
        let is_it = at < call.weight;
        at = at.saturating_sub(call.weight);
        is_it
    });
    *chosen.expect("below the sum")
}

/// Runs a step. If the machine stops in it, the database is opened again.
pub fn step(world: &mut World, seed: u64, step: u64) {
    world.dice = Dice::of_step(seed, step);
    let call = choose(&mut world.dice);
    if world.tells {
        println!("{step} {}", call.name);
    }
    let outcome = (call.run)(world);
    if world.vfs.crashed() {
        return world.crash();
    }
    if let Err(error) = outcome {
        panic!("{}: {error:?}", call.name);
    }
}

/// The end of a program: everything is compared once more, and again after closing.
pub fn finish(world: &mut World) {
    world.vfs.set_crash_at(u64::MAX);
    let outcome = world
        .compare_all("at the end")
        .and_then(|()| world.reopen());
    outcome.expect("nothing fails");
}
