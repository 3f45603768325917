//! Ranges of an ordered map, and cursors over them.

use super::dice::Dice;
use crate::common::oracle::Map;
use evendb::{Cursor, Iter, KeyCursor, Keys, TransactionIter, TransactionKeys};
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// The contents of each keyspace, by generation.
pub type State = BTreeMap<u32, Map>;

pub fn holds(state: &State, generation: u32) -> &Map {
    static NOTHING: Map = Map::new();
    state.get(&generation).unwrap_or(&NOTHING)
}

fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Keys of a keyspace, from `low` to below `high` or to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub generation: u32,
    pub low: Vec<u8>,
    pub high: Option<Vec<u8>>,
}

impl Span {
    pub fn of_key(generation: u32, key: &[u8]) -> Span {
        Span {
            generation,
            low: key.to_vec(),
            high: Some(successor(key)),
        }
    }

    pub fn of(generation: u32, bounds: &Bounds) -> Span {
        let low = match &bounds.0 {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        let high = match &bounds.1 {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        Span {
            generation,
            low,
            high,
        }
    }

    pub fn of_prefix(generation: u32, prefix: &[u8]) -> Span {
        let kept = prefix.iter().rposition(|byte| *byte != 0xff);
        let high = kept.map(|last| {
            let mut high = prefix[..=last].to_vec();
            high[last] += 1;
            high
        });
        Span {
            generation,
            low: prefix.to_vec(),
            high,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    pub fn has(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.high.as_ref().is_none_or(|high| *key < **high)
    }

    pub fn meets(&self, other: &Span) -> bool {
        let ends_before = |a: &Span, b: &Span| a.high.as_ref().is_some_and(|high| *high <= b.low);
        let are_there = !self.is_empty() && !other.is_empty();
        let apart = ends_before(self, other) || ends_before(other, self);
        self.generation == other.generation && are_there && !apart
    }

    /// The records of a map within the span.
    pub fn of_map<'m>(&self, map: &'m Map) -> btree_map::Range<'m, Vec<u8>, Vec<u8>> {
        let low = Bound::Included(&self.low[..]);
        let high = match &self.high {
            _ if self.is_empty() => Bound::Excluded(&self.low[..]),
            Some(high) => Bound::Excluded(&high[..]),
            None => Bound::Unbounded,
        };
        map.range::<[u8], _>((low, high))
    }
}

/// A key, with its value unless only keys were asked for.
pub type Item = (Vec<u8>, Option<Vec<u8>>);

/// A move of an open iterator.
#[derive(Clone, Debug)]
pub enum Move {
    Next,
    Back,
    Seek(Vec<u8>),
    SeekBack(Vec<u8>),
}

pub fn moves(dice: &mut Dice) -> Vec<Move> {
    // Usually in one direction, like applications.
    let backwards = *dice.pick(&[0, 0, 0, 10, 10, 5]);
    let seeks = *dice.pick(&[0, 0, 1, 4]);
    let count = *dice.pick(&[1, 3, 8, 30, 400]);
    (0..count)
        .map(|_| match dice.below(20) < seeks {
            true if dice.below(10) < backwards => Move::SeekBack(dice.key()),
            true if dice.one_in(5) => Move::SeekBack(dice.key()),
            true => Move::Seek(dice.key()),
            false if dice.below(10) < backwards => Move::Back,
            false => Move::Next,
        })
        .collect()
}

/// An iterator or cursor of any kind.
pub trait Scan {
    fn step(&mut self, back: bool) -> evendb::Result<Option<Item>>;
    fn seek_to(&mut self, key: &[u8], back: bool);
}

macro_rules! scan_of_pairs {
    ($($kind:ty),*) => { $(
        impl Scan for $kind {
            fn step(&mut self, back: bool) -> evendb::Result<Option<Item>> {
                let item = if back { self.next_back() } else { self.next() };
                let item = item.transpose()?;
                Ok(item.map(|(key, value)| (key.to_vec(), Some(value.to_vec()))))
            }
            fn seek_to(&mut self, key: &[u8], back: bool) {
                if back { self.seek_back(key) } else { self.seek(key) }
            }
        }
    )* };
}

macro_rules! scan_of_keys {
    ($($kind:ty),*) => { $(
        impl Scan for $kind {
            fn step(&mut self, back: bool) -> evendb::Result<Option<Item>> {
                let item = if back { self.next_back() } else { self.next() };
                Ok(item.transpose()?.map(|key| (key.to_vec(), None)))
            }
            fn seek_to(&mut self, key: &[u8], back: bool) {
                if back { self.seek_back(key) } else { self.seek(key) }
            }
        }
    )* };
}

scan_of_pairs!(Iter, TransactionIter<'_>);
scan_of_keys!(Keys, TransactionKeys<'_>);

impl Scan for Cursor {
    fn step(&mut self, back: bool) -> evendb::Result<Option<Item>> {
        let item = if back {
            self.next_back()?
        } else {
            self.next()?
        };
        Ok(item.map(|(key, value)| (key.to_vec(), Some(value.to_vec()))))
    }
    fn seek_to(&mut self, key: &[u8], back: bool) {
        if back {
            self.seek_back(key)
        } else {
            self.seek(key)
        }
    }
}

impl Scan for KeyCursor {
    fn step(&mut self, back: bool) -> evendb::Result<Option<Item>> {
        let item = if back {
            self.next_back()?
        } else {
            self.next()?
        };
        Ok(item.map(|key| (key.to_vec(), None)))
    }
    fn seek_to(&mut self, key: &[u8], back: bool) {
        if back {
            self.seek_back(key)
        } else {
            self.seek(key)
        }
    }
}

/// The items that an iterator gave, move by move; nothing for a seek.
pub fn given(scan: &mut dyn Scan, moves: &[Move]) -> evendb::Result<Vec<Option<Item>>> {
    let mut items = Vec::with_capacity(moves.len());
    for step in moves {
        items.push(match step {
            Move::Next => scan.step(false)?,
            Move::Back => scan.step(true)?,
            Move::Seek(key) => {
                scan.seek_to(key, false);
                None
            }
            Move::SeekBack(key) => {
                scan.seek_to(key, true);
                None
            }
        });
    }
    Ok(items)
}

/// How an iterator is used.
pub struct Use<'m> {
    pub moves: &'m [Move],
    pub limit: Option<u64>,
    pub keys_only: bool,
}

/// The items that an iterator over these records should give.
pub fn expected(records: &[(&Vec<u8>, &Vec<u8>)], how: &Use<'_>) -> Vec<Option<Item>> {
    let (mut front, mut back) = (0, records.len());
    let mut left = how.limit.unwrap_or(u64::MAX);
    let mut items = Vec::with_capacity(how.moves.len());
    for step in how.moves {
        let at = match step {
            Move::Seek(to) => {
                front = records.partition_point(|(key, _)| *key < to);
                None
            }
            Move::SeekBack(to) => {
                back = records.partition_point(|(key, _)| *key <= to);
                None
            }
            _ if left == 0 || front >= back => None,
            Move::Next => {
                front += 1;
                Some(front - 1)
            }
            Move::Back => {
                back -= 1;
                Some(back)
            }
        };
        items.push(at.map(|at| {
            left -= 1;
            let (key, value) = records[at];
            (key.clone(), (!how.keys_only).then(|| value.clone()))
        }));
    }
    items
}

/// The spans that an iterator of a transaction has read for certain, and those that it has read at
/// most, given its items.
pub fn read_by(span: &Span, how: &Use<'_>, items: &[Option<Item>]) -> (Vec<Span>, Vec<Span>) {
    let between = |low: &[u8], high: Option<Vec<u8>>| Span {
        generation: span.generation,
        low: low.to_vec(),
        high,
    };
    let (mut certain, mut possible) = (Vec::new(), Vec::new());
    let sought = how
        .moves
        .iter()
        .any(|step| matches!(step, Move::Seek(_) | Move::SeekBack(_)));
    let limit = how.limit.unwrap_or(u64::MAX);
    let (mut front, mut back) = (span.low.clone(), span.high.clone());
    let mut count = 0;
    for (step, item) in how.moves.iter().zip(items) {
        count += u64::from(item.is_some());
        match (step, item) {
            (Move::Seek(key), _) => front = key.clone().max(span.low.clone()),
            (Move::SeekBack(key), _) => {
                let to = successor(key);
                let is_beyond = span.high.as_ref().is_some_and(|high| *high < to);
                back = if is_beyond {
                    span.high.clone()
                } else {
                    Some(to)
                };
            }
            (Move::Next, Some((key, _))) => {
                let passed = between(&front, Some(successor(key)));
                certain.push(passed.clone());
                possible.push(passed);
            }
            (Move::Back, Some((key, _))) => {
                let passed = between(key, back.clone());
                certain.push(passed.clone());
                possible.push(passed);
            }
            // At the limit the iterator looks for nothing.
            (Move::Next | Move::Back, None) if count >= limit => {}
            (Move::Next, None) => possible.push(between(&front, span.high.clone())),
            (Move::Back, None) => possible.push(between(&span.low, back.clone())),
        }
        if !sought && count < limit && item.is_none() {
            certain.push(span.clone());
        }
    }
    (certain, possible)
}
