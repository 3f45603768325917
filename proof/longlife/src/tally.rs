//! [`Tally`]: what a campaign has done, and its table.

use crate::covering::{Pairs, Successions};
use crate::ends::End;
use crate::program::Counts;
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Lives that ended well.
    pub lives: u64,
    /// Lives that began with a kept database.
    pub kept: u64,
    /// Openings.
    pub openings: u64,
    /// Openings for reading only.
    pub read_only: u64,
    /// Programs of threads.
    pub programs: u64,
    /// Calls by their names.
    pub calls: Counts,
    /// Jumps of the clock.
    pub jumps: u64,
    /// Phases in which the disk was full.
    pub full_disks: u64,
    /// How openings ended.
    pub ends: BTreeMap<End, u64>,
    /// Pairs of choices in one opening.
    pub pairs: Pairs,
    /// Successions of choices.
    pub successions: Successions,
}

impl Tally {
    /// Nothing yet, for factors with these numbers of choices.
    pub fn new(sizes: &[usize]) -> Tally {
        Tally {
            lives: 0,
            kept: 0,
            openings: 0,
            read_only: 0,
            programs: 0,
            calls: Counts::new(),
            jumps: 0,
            full_disks: 0,
            ends: BTreeMap::new(),
            pairs: Pairs::new(sizes),
            successions: Successions::new(sizes),
        }
    }

    /// Adds a program that ended well.
    pub fn add_program(&mut self, counts: &Counts) {
        self.programs += 1;
        for (name, count) in counts {
            *self.calls.entry(name).or_default() += count;
        }
    }

    /// The number of all calls.
    pub fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Calls by their names, in one line.
    pub fn calls_in_words(&self) -> String {
        let all = self.calls.iter();
        let all: Vec<String> = all.map(|(name, count)| format!("{name} {count}")).collect();
        all.join(", ")
    }

    /// The heads of the table.
    pub const HEADS: &str = "| hours of processor | lives, kept | openings, read only | programs | calls | full disks | jumps | killed, copied, restored | pairs of options | successions | wrong |\n|---|---|---|---|---|---|---|---|---|---|---|";

    /// A row of the table.
    pub fn row(&self, processor_millis: u64, wrong: usize) -> String {
        let ends = |end| self.ends.get(&end).copied().unwrap_or_default();
        let (pairs, successions) = (self.pairs.met(), self.successions.met());
        format!(
            "| {:.3} | {}, {} | {}, {} | {} | {} | {} | {} | {}, {}, {} | {} of {} | {} of {} | {wrong} |",
            processor_millis as f64 / 3.6e6,
            self.lives,
            self.kept,
            self.openings,
            self.read_only,
            self.programs,
            self.all_calls(),
            self.full_disks,
            self.jumps,
            ends(End::Killed),
            ends(End::Copied),
            ends(End::Restored),
            pairs.0,
            pairs.1,
            successions.0,
            successions.1,
        )
    }
}
