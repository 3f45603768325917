//! [`Program`]: what one thread does in one phase: random calls on keys of its own. Each answer is
//! compared.
//!
//! ```text
//!   seed, life, opening, phase, thread -> dice -> call 0, 1, 2 ... each one of the table [`calls`]
//! ```
//! The calls follow from the seed. Their times, relative to those of other threads, do not. Even
//! so, the answers to a thread's own keys are always the same.
//!
//! One thread at a time. Here: keys, contents, and how a write is noted. The calls are in `reads`,
//! `writes` and `calls`. Not here: what all threads share (`together`).

mod calls;
mod reads;
mod writes;

use crate::content::{Content, brief, operand};
use crate::oracle::{Owner, Rules, Space, Write};
use crate::store::{Answer, Store};
use calls::calls;
use evendb::{ErrorKind, Snapshot};
use evendb_powercut::draw::Draw;
use std::collections::BTreeMap;

/// The number of calls, by their names.
pub type Counts = BTreeMap<&'static str, u64>;

/// The result of a call: a text, if it is wrong.
type Outcome = Result<(), String>;

/// The number of a thread's keys in a keyspace.
const KEYS: u64 = 3000;
/// The highest number of snapshots that a thread holds at once.
const HELD_MAX: usize = 2;
/// A thread stops after this number of refusals by a full disk.
const REFUSALS_MAX: u64 = 4;

/// The beginning of keys that are put once.
const ONCE: &[u8] = b"once";

/// The aim of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// More new data than old.
    Grow,
    /// Everything, with about the same amount of data as before.
    Steady,
    /// Nine tenths are deleted.
    Shrink,
    /// Puts until the disk is full, and reads.
    Full,
}

/// A moment that is held, with a part of what must be visible then.
struct Held<T> {
    at: T,
    space: Space,
    span: (Vec<u8>, Vec<u8>),
    part: Owner,
    now: u64,
}

/// What a thread has during the phases of an opening, and its keys, which it has for ever.
#[derive(Default)]
pub struct Hand {
    /// Its keys.
    pub owner: Owner,
    held: Vec<Held<Snapshot>>,
    /// The next number that was never used before.
    next: u64,
}

impl Hand {
    /// Drops all held moments, before the database is closed.
    pub fn let_go(&mut self) {
        self.held.clear();
    }
}

/// What all programs of a phase have in common.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The aim.
    pub phase: Phase,
    /// Calls of each thread.
    pub calls: u64,
    /// The highest number of bytes of a thread's data.
    pub bytes_max: u64,
    /// The rules for the results of writes.
    pub rules: Rules,
    /// One write is not made, but taken for acknowledged: a test plants that.
    pub loses: bool,
}

/// See the module.
pub struct Program<'a> {
    store: &'a Store,
    thread: usize,
    draw: Draw,
    hand: &'a mut Hand,
    load: Load,
    refusals: u64,
    /// What was done.
    counts: Counts,
}

fn words(error: evendb::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

impl<'a> Program<'a> {
    /// A program of a thread.
    pub fn new(
        store: &'a Store,
        thread: usize,
        seed: u64,
        hand: &'a mut Hand,
        load: Load,
    ) -> Program<'a> {
        Program {
            store,
            thread,
            draw: Draw::new(seed),
            hand,
            load,
            refusals: 0,
            counts: Counts::new(),
        }
    }

    /// Runs it. Returns what was done.
    ///
    /// # Errors
    /// The first wrong answer, with the number of the call.
    pub fn run(mut self) -> Result<Counts, String> {
        if self.load.phase == Phase::Shrink {
            let shrunk = self.shrink();
            let place = |what| format!("thread {}, deleting nine tenths: {what}", self.thread);
            shrunk.map_err(place)?;
        }
        let table = calls(self.load.phase);
        let all: u64 = table.iter().map(|(_, weight, _)| weight).sum();
        for number in 0..self.load.calls {
            let mut at = self.draw.below(all);
            let found = table.iter().find(|(_, weight, _)| match at < *weight {
                true => true,
                false => {
                    at -= weight;
                    false
                }
            });
            let Some((name, _, call)) = found else { break };
            let thread = self.thread;
            let place = |what| format!("thread {thread}, call {number}, {name}: {what}");
            call(&mut self).map_err(place)?;
            *self.counts.entry(name).or_default() += 1;
            if self.refusals >= REFUSALS_MAX {
                break;
            }
        }
        if self.refusals > 0 {
            self.counts
                .insert("refused: the disk is full", self.refusals);
        }
        Ok(self.counts)
    }

    fn rules(&self) -> Rules {
        self.load.rules
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let mut key = format!("t{}/{number:06}", self.thread).into_bytes();
        if number.is_multiple_of(23) {
            key.resize(key.len() + number as usize % 300, b'k');
        }
        key
    }

    fn any_key(&mut self) -> Vec<u8> {
        let number = self.draw.below(KEYS);
        self.key(number)
    }

    /// A key that has something, if there is one. Now and then a key of a kept database.
    fn there(&mut self, space: Space) -> Vec<u8> {
        let from = match self.draw.one_in(10) {
            true => vec![self.draw.below(256) as u8],
            false => self.any_key(),
        };
        let found = self.hand.owner.map(space).range(from..).next();
        // All other calls leave keys alone that are put once.
        match found.filter(|(key, _)| !key.starts_with(ONCE)) {
            Some((key, _)) => key.clone(),
            None => self.any_key(),
        }
    }

    fn space(&mut self) -> Space {
        self.draw.of(&[
            Space::Default,
            Space::Default,
            Space::Default,
            Space::Other,
            Space::Until,
            Space::Fresh,
            Space::Counts,
        ])
    }

    fn merges(space: Space) -> bool {
        matches!(space, Space::Counts | Space::Fresh)
    }

    /// Usually a short value, sometimes one of some pages, seldom one of hundreds of KiB, if the
    /// store takes them. In a keyspace that merges, an operand.
    fn content(&mut self, space: Space) -> Content {
        if Self::merges(space) {
            return Content::Bytes(operand(self.rules().merges(space), &mut self.draw));
        }
        let longest = (self.store.record_bytes_max() / 2).min(300 << 10);
        let len = match self.draw.below(200) {
            0..=129 => self.draw.below(100),
            130..=169 => self.draw.below(700),
            170..=197 => self.draw.below(6000),
            198 => self.draw.below(40_000),
            _ => self.draw.below(longest),
        };
        Content::Made {
            tag: self.draw.number(),
            len: len.min(longest) as u32,
        }
    }

    fn has_enough(&self) -> bool {
        self.hand.owner.bytes() > self.load.bytes_max
    }

    /// Makes a write, and notes it. On a full disk it may be refused.
    fn write(&mut self, write: Write) -> Outcome {
        let is_put = matches!(write, Write::Put(..));
        let is_lost = is_put && std::mem::take(&mut self.load.loses);
        let done = match is_lost {
            true => Ok(()),
            false => self.store.write(&write),
        };
        self.note(&[write], done)
    }

    fn note(&mut self, writes: &[Write], done: Answer<()>) -> Outcome {
        let rules = self.rules();
        match done {
            Ok(()) => {
                for write in writes {
                    self.hand.owner.apply(write, &rules);
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoSpace && self.load.phase == Phase::Full => {
                self.refusals += 1;
                self.hand.owner.doubt(writes, &rules);
                Ok(())
            }
            Err(error) => Err(format!("{}; {}", words(error), in_short(writes))),
        }
    }
}

/// Writes, for messages.
fn in_short(writes: &[Write]) -> String {
    let one = |write: &Write| match write {
        Write::Put(space, key, content, lasting) => {
            let value = brief(&content.bytes());
            format!(
                "put {} of {space:?} {value} {lasting:?}",
                key.escape_ascii()
            )
        }
        other => format!("{other:?}"),
    };
    let all: Vec<String> = writes.iter().map(one).collect();
    all.join(", ")
}
