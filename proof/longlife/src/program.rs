//! [`Program`]: what one thread does in one phase: random calls on keys of its own. Each answer is
//! compared.
//!
//! ```text
//!   seed, life, opening, phase, thread -> dice -> call 0, 1, 2 ... each one of the table [`calls`]
//! ```
//! The calls follow from the seed. Their times, relative to those of other threads, do not. Even
//! so, the answers to a thread's own keys are always the same.
//!
//! One thread at a time. Not here: what all threads share (`together.rs`).

use crate::content::{Content, brief, operand};
use crate::oracle::{Lasting, Owner, Rules, SPACES, Space, Write};
use crate::store::{Answer, Span, Store};
use crate::time::{HOUR, YEAR};
use crate::together;
use evendb::ErrorKind;
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
pub struct Hand<S: Store> {
    /// Its keys.
    pub owner: Owner,
    held: Vec<Held<S::Snapshot>>,
    /// The next number that was never used before.
    next: u64,
}

impl<S: Store> Default for Hand<S> {
    fn default() -> Hand<S> {
        Hand {
            owner: Owner::default(),
            held: Vec::new(),
            next: 0,
        }
    }
}

impl<S: Store> Hand<S> {
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
pub struct Program<'a, S: Store> {
    store: &'a S,
    thread: usize,
    draw: Draw,
    hand: &'a mut Hand<S>,
    load: Load,
    refusals: u64,
    /// What was done.
    counts: Counts,
}

type Call<'a, S> = (&'static str, u64, fn(&mut Program<'a, S>) -> Outcome);

/// Calls that only the first engine has come last.
fn calls<'a, S: Store>(phase: Phase) -> Vec<Call<'a, S>> {
    let plain: [Call<'a, S>; 14] = [
        ("put", 300, Program::put),
        ("get", 200, Program::get),
        ("delete", 70, Program::delete),
        ("batch", 60, Program::batch),
        ("multi_get", 30, Program::multi_get),
        ("scan", 50, Program::scan),
        ("scan backward", 50, Program::scan_backward),
        ("scan of all own keys", 4, Program::scan_own),
        ("snapshot", 24, Program::snapshot),
        ("write together", 12, Program::write_together),
        ("read together", 12, Program::read_together),
        ("persist", 4, Program::persist),
        ("flush", 3, Program::flush),
        ("compact", 1, Program::compact),
    ];
    let rich: [Call<'a, S>; 7] = [
        ("put that expires", 60, Program::put_expiring),
        ("merge", 90, Program::merge),
        ("delete range", 8, Program::delete_range),
        ("single delete", 20, Program::single_delete),
        ("transaction", 30, Program::transact),
        ("transfer", 20, Program::transfer),
        ("read accounts", 10, Program::read_accounts),
    ];
    let is_for_full = |name: &str| {
        let few = [
            "put",
            "get",
            "delete",
            "scan",
            "scan backward",
            "multi_get",
            "snapshot",
        ];
        few.contains(&name)
    };
    let rich = rich.into_iter().filter(|_| S::RICH);
    let all = plain.into_iter().chain(rich);
    all.filter(|(name, ..)| phase != Phase::Full || is_for_full(name))
        .collect()
}

fn words(error: evendb::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

impl<'a, S: Store> Program<'a, S> {
    /// A program of a thread.
    pub fn new(
        store: &'a S,
        thread: usize,
        seed: u64,
        hand: &'a mut Hand<S>,
        load: Load,
    ) -> Program<'a, S> {
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
        let table = calls::<'a, S>(self.load.phase);
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
        S::RICH && matches!(space, Space::Counts | Space::Fresh)
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

    fn put(&mut self) -> Outcome {
        let space = self.space();
        if self.has_enough() && self.load.phase != Phase::Full {
            let key = self.there(space);
            return self.write(Write::Delete(space, key));
        }
        let is_new = self.load.phase == Phase::Grow || self.draw.one_in(3);
        let key = match is_new {
            true => self.any_key(),
            false => self.there(space),
        };
        let content = self.content(space);
        self.write(Write::Put(space, key, content, Lasting::Plain))
    }

    fn put_expiring(&mut self) -> Outcome {
        let space = self.draw.of(&[Space::Until, Space::Until, Space::Default]);
        let (key, content) = (self.any_key(), self.content(space));
        let lasting = self.lasting();
        self.write(Write::Put(space, key, content, lasting))
    }

    fn lasting(&mut self) -> Lasting {
        let millis = self
            .draw
            .of(&[HOUR / 2, HOUR, 30 * HOUR, YEAR / 3, 2 * YEAR, 100 * YEAR]);
        match self.draw.one_in(2) {
            true => Lasting::For(millis),
            false => Lasting::Until(self.rules().now + millis),
        }
    }

    fn delete(&mut self) -> Outcome {
        let space = self.space();
        let key = match self.draw.one_in(4) {
            true => self.any_key(),
            false => self.there(space),
        };
        self.write(Write::Delete(space, key))
    }

    fn merge(&mut self) -> Outcome {
        let space = self.draw.of(&[Space::Counts, Space::Fresh]);
        let key = match self.draw.one_in(3) {
            true => self.any_key(),
            false => self.there(space),
        };
        // A value that is appended to grows for ever.
        let is_long = self.hand.owner.map(space).get(&key);
        if is_long.is_some_and(|entry| entry.content.len() > 2000) {
            return self.write(Write::Delete(space, key));
        }
        let operand = operand(self.rules().merges(space), &mut self.draw);
        self.write(Write::Merge(space, key, operand))
    }

    fn delete_range(&mut self) -> Outcome {
        let write = self.range_delete();
        self.write(write)
    }

    fn range_delete(&mut self) -> Write {
        let space = self.space();
        let low = self.draw.below(KEYS);
        let high = low + self.draw.below(60);
        Write::DeleteRange(space, self.key(low), self.key(high))
    }

    /// Puts a key once in its life, or deletes it by the call for such keys.
    fn single_delete(&mut self) -> Outcome {
        let prefix = [ONCE, format!("{}/", self.thread).as_bytes()].concat();
        let map = self.hand.owner.map(Space::Default);
        let oldest = map.range(prefix.clone()..).next();
        let oldest = oldest.filter(|(key, _)| key.starts_with(&prefix));
        if self.draw.one_in(2)
            && let Some((key, _)) = oldest
        {
            let key = key.clone();
            return self.write(Write::SingleDelete(Space::Default, key));
        }
        let number = self.hand.next;
        self.hand.next += 1;
        let key = [&prefix[..], format!("{number:09}").as_bytes()].concat();
        let content = self.content(Space::Default);
        self.write(Write::Put(Space::Default, key, content, Lasting::Plain))
    }

    /// Some writes that fit into a batch.
    fn writes(&mut self) -> Vec<Write> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for _ in 0..2 + self.draw.below(11) {
            let space = self.space();
            let write = match self.draw.below(if S::RICH { 10 } else { 7 }) {
                0..=4 => {
                    let (key, content) = (self.any_key(), self.content(space));
                    bytes += (key.len() + content.len() + 64) as u64;
                    Write::Put(space, key, content, Lasting::Plain)
                }
                5 | 6 => Write::Delete(space, self.there(space)),
                7 => {
                    let (key, content) = (self.any_key(), self.content(Space::Until));
                    bytes += (key.len() + content.len() + 64) as u64;
                    Write::Put(Space::Until, key, content, self.lasting())
                }
                8 => {
                    let merges = self.rules().merges(Space::Counts);
                    let key = format!("t{}/b{:03}", self.thread, self.draw.below(200));
                    let operand = operand(merges, &mut self.draw);
                    Write::Merge(Space::Counts, key.into_bytes(), operand)
                }
                _ => self.range_delete(),
            };
            if bytes > self.store.record_bytes_max() / 2 {
                break;
            }
            writes.push(write);
        }
        writes
    }

    fn batch(&mut self) -> Outcome {
        let writes = self.writes();
        let raised = self.draw.one_in(8);
        let done = self.store.batch(&writes, raised);
        self.note(&writes, done)
    }

    fn transact(&mut self) -> Outcome {
        let mut gets = Vec::new();
        for _ in 0..1 + self.draw.below(4) {
            let space = self.space();
            gets.push((space, self.there(space)));
        }
        let writes = self.writes();
        let got = self.store.transact(&gets, &writes);
        let now = self.rules().now;
        let got = match got {
            Ok(got) => got,
            Err(error) => return self.note(&writes, Err(error)),
        };
        for ((space, key), found) in gets.iter().zip(&got) {
            self.hand
                .owner
                .check_get(*space, key, found.as_deref(), now)?;
        }
        self.note(&writes, Ok(()))
    }

    fn get(&mut self) -> Outcome {
        let space = self.space();
        let key = match self.draw.one_in(3) {
            true => self.any_key(),
            false => self.there(space),
        };
        let found = self.store.get(space, &key).map_err(words)?;
        let now = self.rules().now;
        self.hand
            .owner
            .check_get(space, &key, found.as_deref(), now)
    }

    fn multi_get(&mut self) -> Outcome {
        let space = self.space();
        let keys: Vec<Vec<u8>> = (0..2 + self.draw.below(7))
            .map(|number| match number % 2 {
                0 => self.any_key(),
                _ => self.there(space),
            })
            .collect();
        let found = self.store.multi_get(space, &keys).map_err(words)?;
        let now = self.rules().now;
        for (key, value) in keys.iter().zip(&found) {
            self.hand
                .owner
                .check_get(space, key, value.as_deref(), now)?;
        }
        Ok(())
    }

    fn span(&mut self) -> (Vec<u8>, Vec<u8>) {
        let low = self.draw.below(KEYS);
        let high = low + self.draw.below(150);
        (self.key(low), self.key(high))
    }

    fn scan(&mut self) -> Outcome {
        let (space, span) = (self.space(), self.span());
        self.scan_between(space, span, false)
    }

    fn scan_backward(&mut self) -> Outcome {
        let (space, span) = (self.space(), self.span());
        self.scan_between(space, span, true)
    }

    fn scan_own(&mut self) -> Outcome {
        let own = |end: char| format!("t{}{end}", self.thread).into_bytes();
        let (span, backward) = ((own('/'), own('0')), self.draw.one_in(2));
        let space = self.space();
        self.scan_between(space, span, backward)
    }

    fn scan_between(&mut self, space: Space, span: (Vec<u8>, Vec<u8>), backward: bool) -> Outcome {
        let asked = Span {
            low: span.0.clone(),
            high: Some(span.1.clone()),
            backward,
        };
        let mut found = self.store.scan(space, &asked).map_err(words)?;
        if backward {
            found.reverse();
        }
        let now = self.rules().now;
        let owner = &self.hand.owner;
        owner.check_scan(space, (&span.0, &span.1), &found, now)
    }

    /// Takes a snapshot, or looks at one that is held, and drops half of these.
    fn snapshot(&mut self) -> Outcome {
        let held = self.hand.held.len();
        if held == 0 || (held < HELD_MAX && self.draw.one_in(3)) {
            let (space, span) = (self.space(), self.span());
            let at = self.store.snapshot().map_err(words)?;
            self.hand.held.push(Held {
                part: self.hand.owner.part(space, &span.0, &span.1),
                at,
                space,
                span,
                now: self.load.rules.now,
            });
            return Ok(());
        }
        let at = self.draw.below(held as u64) as usize;
        let moment = &self.hand.held[at];
        let span = Span {
            low: moment.span.0.clone(),
            high: Some(moment.span.1.clone()),
            backward: self.draw.one_in(2),
        };
        let found = self.store.scan_at(&moment.at, moment.space, &span);
        let mut found = found.map_err(words)?;
        if span.backward {
            found.reverse();
        }
        let part = &moment.part;
        let bounds = (&moment.span.0[..], &moment.span.1[..]);
        part.check_scan(moment.space, bounds, &found, moment.now)
            .map_err(|what| format!("at a moment that was held: {what}"))?;
        if let Some((key, value)) = found.first() {
            let got = self.store.get_at(&moment.at, moment.space, key);
            if got.map_err(words)?.as_ref() != Some(value) {
                return Err(format!("a get at a moment differs: {}", key.escape_ascii()));
            }
        }
        if self.draw.one_in(2) {
            self.hand.held.swap_remove(at);
        }
        Ok(())
    }

    fn write_together(&mut self) -> Outcome {
        let number = self.draw.number();
        together::write(self.store, number).map_err(words)
    }

    fn read_together(&mut self) -> Outcome {
        together::read(self.store)
    }

    fn transfer(&mut self) -> Outcome {
        let (from, amount) = (self.draw.below(together::ACCOUNTS), self.draw.below(60));
        let to = from + 1 + self.draw.below(together::ACCOUNTS - 1);
        let moved = together::transfer(self.store, from, to, amount);
        match moved.map_err(|error| (error.kind(), words(error))) {
            // Transfers of another thread came between, again and again: nothing is moved.
            Err((ErrorKind::Conflict | ErrorKind::LockTimeout | ErrorKind::Deadlock, _)) => Ok(()),
            moved => moved.map_err(|(_, what)| what),
        }
    }

    fn read_accounts(&mut self) -> Outcome {
        together::read_accounts(self.store)
    }

    fn persist(&mut self) -> Outcome {
        self.store.persist().map_err(words)
    }

    fn flush(&mut self) -> Outcome {
        self.store.flush().map_err(words)
    }

    fn compact(&mut self) -> Outcome {
        match self.thread == 0 && self.draw.one_in(3) {
            true => self.store.compact().map_err(words),
            false => Ok(()),
        }
    }

    /// Deletes nine of ten keys of each keyspace: one by one, in batches, or, if there are deletes
    /// of ranges, at once.
    fn shrink(&mut self) -> Outcome {
        for space in SPACES {
            let keys = self.hand.owner.map(space).keys();
            let keys: Vec<Vec<u8>> = keys
                .enumerate()
                .filter(|(number, _)| number % 10 != 0)
                .map(|(_, key)| key.clone())
                .collect();
            match self.draw.below(if S::RICH { 3 } else { 2 }) {
                0 => {
                    for key in keys {
                        self.write(Write::Delete(space, key))?;
                    }
                }
                1 => {
                    for some in keys.chunks(20) {
                        let writes = some.iter().cloned();
                        let writes: Vec<Write> =
                            writes.map(|key| Write::Delete(space, key)).collect();
                        let done = self.store.batch(&writes, false);
                        self.note(&writes, done)?;
                    }
                }
                _ => {
                    let write = Write::DeleteRange(space, self.key(0), self.key(KEYS / 10 * 9));
                    self.write(write)?;
                }
            }
        }
        Ok(())
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
