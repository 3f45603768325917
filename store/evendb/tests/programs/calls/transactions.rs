//! Transactions that stay open over other calls: what they see, when they may and must be refused.
//!
//! A transaction's moment may move when it locks a key. So the model keeps several possible
//! moments, and each read removes those that do not fit.

use super::reads::bytes;
use super::{Call, call};
use crate::common::oracle::Map;
use crate::model::{self, Item, Scan, Span, State, Use, expected, given, holds, read_by};
use crate::world::{Effects, Outcome, World};
use evendb::{Durability, Error, ErrorKind, Savepoint, Transaction};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

pub const CALLS: &[Call] = &[
    call("begin a transaction", 30, begin),
    call("in a transaction", 190, go_on),
    call("end a transaction", 28, end),
    call("transact", 25, transact),
];

const OPEN_MAX: usize = 2;

#[derive(Clone, Debug)]
enum Own {
    Set(u32, Vec<u8>, Option<Vec<u8>>),
    /// A merge over records below the own writes. The value of a merge over an own write is known,
    /// so that is a `Set`.
    Merge(u32, Vec<u8>, Vec<u8>),
    Delete(Span),
}

pub struct OpenTransaction {
    transaction: Transaction,
    /// The states of the possible moments.
    moments: Vec<Rc<State>>,
    own: Vec<Own>,
    savepoints: Vec<(Savepoint, usize)>,
    gone: Vec<Savepoint>,
    /// The spans that it has read for certain, and those that it has read at most.
    certain: Vec<Span>,
    possible: Vec<Span>,
    /// Keyspaces that an iterator was opened on, whether the iterator was used or not: they must
    /// exist at the commit.
    scanned: BTreeSet<u32>,
    /// The number of touched spans from before its beginning.
    since: usize,
    locks: BTreeSet<(u32, Vec<u8>)>,
}

impl World {
    /// Whether an open transaction may have the key locked.
    pub fn is_locked(&self, generation: u32, key: &[u8]) -> bool {
        let mut open = self.transactions.iter();
        open.any(|open| open.locks.contains(&(generation, key.to_vec())))
    }

    fn is_there(&self, generation: u32) -> bool {
        let mut names = self.oracle.names().into_iter();
        names.any(|name| self.oracle.generation(&name) == Some(generation))
    }
}

impl OpenTransaction {
    /// The value of a key that the own writes alone determine, if they do.
    fn own_of(&self, generation: u32, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let last = self.own.iter().rev().find_map(|own| match own {
            Own::Set(of, own, value) if *of == generation && own == key => {
                Some(Some(value.clone()))
            }
            Own::Merge(of, own, _) if *of == generation && own == key => Some(None),
            Own::Delete(span) if span.generation == generation && span.has(key) => Some(Some(None)),
            _ => None,
        });
        last.flatten()
    }

    /// The value of a key that it sees at a moment.
    fn seen_of(&self, moment: &State, generation: u32, key: &[u8]) -> Option<Vec<u8>> {
        let mut map = self.seen(moment, &Span::of_key(generation, key));
        map.remove(key)
    }

    /// The records of a span that it sees at a moment.
    fn seen(&self, moment: &State, span: &Span) -> Map {
        let inside = span.of_map(holds(moment, span.generation));
        let mut map: Map = inside
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for own in &self.own {
            match own {
                Own::Set(of, key, value) if *of == span.generation && span.has(key) => {
                    match value {
                        Some(value) => drop(map.insert(key.clone(), value.clone())),
                        None => drop(map.remove(key)),
                    }
                }
                Own::Merge(of, key, operand) if *of == span.generation && span.has(key) => {
                    map.entry(key.clone()).or_default().extend(operand);
                }
                Own::Delete(deleted) if deleted.generation == span.generation => {
                    map.retain(|key, _| !deleted.has(key));
                }
                _ => {}
            }
        }
        map
    }

    /// Keeps only the moments that fit a read.
    fn fit(&mut self, what: &str, fits: impl Fn(&OpenTransaction, &State) -> bool) {
        let moments = std::mem::take(&mut self.moments);
        let fitting = moments.iter().filter(|moment| fits(self, moment));
        let fitting: Vec<Rc<State>> = fitting.cloned().collect();
        let count = moments.len();
        assert!(!fitting.is_empty(), "{what}: fits none of {count} moments");
        self.moments = fitting;
    }

    fn read_key(&mut self, generation: u32, key: &[u8]) {
        let span = Span::of_key(generation, key);
        self.certain.push(span.clone());
        self.possible.push(span);
    }

    fn effects(&self, world: &World) -> Effects {
        let mut effects = Effects::default();
        for own in &self.own {
            match own {
                Own::Set(generation, key, value) => {
                    effects.set((*generation, key), value.as_deref())
                }
                Own::Merge(generation, key, operand) => {
                    effects.merge((*generation, key), operand, world.map(*generation));
                }
                Own::Delete(span) => effects.delete_span(span, world.map(span.generation)),
            }
        }
        effects
    }

    /// Whether something that it may have read was written.
    fn may_conflict(&self, world: &World) -> bool {
        let touched = world.touched[self.since..].iter();
        let mut touched =
            touched.filter(|touched| self.possible.iter().any(|read| read.meets(touched)));
        touched.next().is_some()
    }

    /// Whether something that it has read differs now, at every possible moment.
    fn must_conflict(&self, world: &World) -> bool {
        let differs = |moment: &Rc<State>| {
            let mut certain = self.certain.iter();
            certain.any(|span| {
                let then = span.of_map(holds(moment, span.generation));
                !then.eq(span.of_map(world.map(span.generation)))
            })
        };
        self.moments.iter().all(differs)
    }

    fn has_read_what_is_dropped(&self, world: &World) -> bool {
        let read = self.possible.iter().map(|span| span.generation);
        let mut all = read.chain(self.scanned.iter().copied());
        all.any(|generation| !world.is_there(generation))
    }

    fn has_written_what_is_dropped(&self, world: &World) -> bool {
        self.own.iter().any(|own| match own {
            Own::Set(generation, ..) | Own::Merge(generation, ..) => !world.is_there(*generation),
            Own::Delete(span) => !world.is_there(span.generation),
        })
    }
}

fn begin(world: &mut World) -> Outcome {
    if world.transactions.len() >= OPEN_MAX {
        return end(world);
    }
    world.did("Db::transaction");
    let transaction = world.db().transaction()?;
    if world.transactions.is_empty() {
        world.touched.clear();
    }
    world.transactions.push(OpenTransaction {
        transaction,
        moments: vec![Rc::new(world.oracle.state().clone())],
        own: Vec::new(),
        savepoints: Vec::new(),
        gone: Vec::new(),
        certain: Vec::new(),
        possible: Vec::new(),
        scanned: BTreeSet::new(),
        since: world.touched.len(),
        locks: BTreeSet::new(),
    });
    Ok(())
}

/// Some calls of an open transaction.
fn go_on(world: &mut World) -> Outcome {
    if world.transactions.is_empty() {
        return begin(world);
    }
    let at = world.dice.below(world.transactions.len() as u64) as usize;
    let mut open = world.transactions.swap_remove(at);
    for _ in 0..1 + world.dice.below(4) {
        match world.dice.below(20) {
            0..5 => get(world, &mut open)?,
            5..9 => scan(world, &mut open)?,
            9..12 => set(world, &mut open)?,
            12..14 => merge(world, &mut open)?,
            14 => delete_range(world, &mut open)?,
            15..17 => savepoint(world, &mut open)?,
            _ => lock(world, &mut open)?,
        }
    }
    world.transactions.push(open);
    Ok(())
}

fn get(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let keys: Vec<Vec<u8>> = (0..*world.dice.pick(&[1, 1, 4]))
        .map(|_| world.dice.key())
        .collect();
    let got = match &keys[..] {
        [key] => {
            world.did("Transaction::get");
            world.did("Transaction::contains_key");
            let got = open.transaction.get(&keyspace, key)?;
            assert_eq!(
                open.transaction.contains_key(&keyspace, key)?,
                got.is_some()
            );
            vec![got]
        }
        keys => {
            world.did("Transaction::multi_get");
            open.transaction.multi_get(&keyspace, keys)?
        }
    };
    for (key, got) in keys.iter().zip(got) {
        let got = bytes(got);
        match open.own_of(generation, key) {
            Some(own) => assert!(got == own, "another own value"),
            None => {
                open.fit("get", |open, moment| {
                    open.seen_of(moment, generation, key) == got
                });
                open.read_key(generation, key);
            }
        }
    }
    Ok(())
}

fn scan(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (form, bounds, prefix) = (
        world.dice.below(5),
        world.dice.bounds(),
        world.dice.prefix(),
    );
    let moves = model::moves(&mut world.dice);
    let limit = world.dice.one_in(3).then(|| world.dice.below(10));
    let unlimited = limit.unwrap_or(u64::MAX);
    let span = match form {
        0 => Span::of_prefix(generation, &prefix),
        1 => Span::of_prefix(generation, b""),
        _ => Span::of(generation, &bounds),
    };
    let how = Use {
        moves: &moves,
        limit,
        keys_only: form == 4,
    };
    world.tell(|| format!("{span:?}, limit {limit:?}: {moves:?}"));
    world.did(
        [
            "Transaction::prefix",
            "Transaction::iter",
            "Transaction::range",
            "Transaction::range",
            "Transaction::keys",
        ][form as usize],
    );
    for call in ["limit", "seek", "seek_back"] {
        world.did(match (call, form) {
            ("limit", 4) => "TransactionKeys::limit",
            ("limit", _) => "TransactionIter::limit",
            ("seek", 4) => "TransactionKeys::seek",
            ("seek", _) => "TransactionIter::seek",
            (_, 4) => "TransactionKeys::seek_back",
            _ => "TransactionIter::seek_back",
        });
    }
    let transaction = &open.transaction;
    let found = {
        let mut scan: Box<dyn Scan + '_> = match form {
            0 => Box::new(transaction.prefix(&keyspace, &prefix)?.limit(unlimited)),
            1 => Box::new(transaction.iter(&keyspace)?.limit(unlimited)),
            2 | 3 => Box::new(transaction.range(&keyspace, bounds)?.limit(unlimited)),
            _ => Box::new(transaction.keys(&keyspace, bounds)?.limit(unlimited)),
        };
        given(&mut *scan, &moves)?
    };
    open.fit(
        &format!("scan, found {:?}", Shown(&found)),
        |open, moment| {
            let seen = open.seen(moment, &span);
            let records: Vec<_> = seen.iter().collect();
            expected(&records, &how) == found
        },
    );
    let (certain, possible) = read_by(&span, &how, &found);
    open.scanned.insert(generation);
    open.certain.extend(certain);
    open.possible.extend(possible);
    Ok(())
}

/// The keys of the found items.
struct Shown<'a>(&'a [Option<Item>]);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.0.iter().take(40).map(|item| {
            item.as_ref()
                .map_or("-".to_owned(), |(key, _)| key.escape_ascii().to_string())
        });
        f.debug_list().entries(keys).finish()
    }
}

fn check_len(open: &OpenTransaction) {
    let mut keys = BTreeSet::new();
    for own in &open.own {
        match own {
            Own::Set(generation, key, _) | Own::Merge(generation, key, _) => {
                keys.insert((*generation, key))
            }
            // Ranges that meet count as one.
            Own::Delete(_) => return assert!(!open.transaction.is_empty()),
        };
    }
    assert_eq!(open.transaction.len(), keys.len());
}

fn set(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    let value = (!world.dice.one_in(4)).then(|| world.dice.value());
    world.did(if value.is_some() {
        "Transaction::put"
    } else {
        "Transaction::delete"
    });
    match &value {
        Some(value) => open.transaction.put(&keyspace, &key, value)?,
        None => open.transaction.delete(&keyspace, &key)?,
    }
    open.own.push(Own::Set(generation, key, value));
    world.did("Transaction::len");
    world.did("Transaction::is_empty");
    check_len(open);
    Ok(())
}

fn merge(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (key, operand) = (world.dice.key(), world.dice.operand());
    world.did("Transaction::merge");
    let merged = open.transaction.merge(&keyspace, &key, &operand);
    if !world.merges(generation) {
        return world.refuses_merge(merged);
    }
    merged?;
    open.own.push(match open.own_of(generation, &key) {
        Some(before) => {
            let value = [before.unwrap_or_default(), operand].concat();
            Own::Set(generation, key, Some(value))
        }
        None => Own::Merge(generation, key, operand),
    });
    check_len(open);
    Ok(())
}

fn delete_range(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (bounds, prefix) = (world.dice.bounds(), world.dice.prefix());
    let span = match world.dice.one_in(2) {
        true => {
            world.did("Transaction::delete_range");
            let span = Span::of(generation, &bounds);
            open.transaction.delete_range(&keyspace, bounds)?;
            span
        }
        false => {
            world.did("Transaction::delete_prefix");
            open.transaction.delete_prefix(&keyspace, &prefix)?;
            Span::of_prefix(generation, &prefix)
        }
    };
    if !span.is_empty() {
        open.own.push(Own::Delete(span));
    }
    Ok(())
}

fn savepoint(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    match world.dice.below(4) {
        0 | 1 => {
            world.did("Transaction::savepoint");
            let savepoint = open.transaction.savepoint();
            open.savepoints.push((savepoint, open.own.len()));
        }
        2 if !open.savepoints.is_empty() => {
            world.did("Transaction::rollback_to");
            let at = world.dice.below(open.savepoints.len() as u64) as usize;
            let gone = open.savepoints.drain(at + 1..);
            open.gone.extend(gone.map(|(savepoint, _)| savepoint));
            let (savepoint, len) = open.savepoints[at];
            open.transaction.rollback_to(savepoint)?;
            open.own.truncate(len);
        }
        _ => {
            if let Some(&gone) = open.gone.last() {
                let refused = open.transaction.rollback_to(gone).expect_err("it is gone");
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            }
        }
    }
    check_len(open);
    Ok(())
}

fn lock(world: &mut World, open: &mut OpenTransaction) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let key = world.dice.key();
    world.did("Transaction::get_for_update");
    // No other thread runs, so waiting would be in vain.
    open.transaction.lock_timeout(Duration::ZERO);
    let locked = open.transaction.get_for_update(&keyspace, &key);
    if world.vfs.crashed() {
        return locked.map(drop);
    }
    let is_taken = world.is_locked(generation, &key);
    match locked {
        Ok(got) => {
            let got = bytes(got);
            open.locks.insert((generation, key.clone()));
            if let Some(own) = open.own_of(generation, &key) {
                assert!(got == own, "another own value, locked");
                return Ok(());
            }
            let now = Rc::new(world.oracle.state().clone());
            assert!(
                open.seen_of(&now, generation, &key) == got,
                "not the newest, locked"
            );
            open.moments.push(now);
            open.fit("lock", |open, moment| {
                open.seen_of(moment, generation, &key) == got
            });
            open.read_key(generation, &key);
        }
        Err(error) => match error.kind() {
            ErrorKind::LockTimeout | ErrorKind::Deadlock => assert!(is_taken, "{error}"),
            ErrorKind::Conflict => {
                assert!(
                    open.may_conflict(world),
                    "no conflict to see, locked: {error}"
                );
                open.locks.insert((generation, key));
            }
            ErrorKind::KeyspaceDropped => {
                assert!(open.has_read_what_is_dropped(world), "{error}");
                open.locks.insert((generation, key));
            }
            _ => return Err(error),
        },
    }
    Ok(())
}

fn end(world: &mut World) -> Outcome {
    if world.transactions.is_empty() {
        return Ok(());
    }
    let at = world.dice.below(world.transactions.len() as u64) as usize;
    let open = world.transactions.swap_remove(at);
    if world.dice.one_in(8) {
        world.did("Transaction::rollback");
        open.transaction.rollback();
        return Ok(());
    }
    commit(world, open)
}

fn commit(world: &mut World, mut open: OpenTransaction) -> Outcome {
    let level = world.dice.one_in(8).then_some(Durability::Sync);
    if let Some(level) = level {
        world.did("Transaction::durability");
        open.transaction.durability(level);
    }
    world.did("Transaction::commit");
    let writes = !open.own.is_empty();
    assert_eq!(writes, !open.transaction.is_empty());
    let effects = open.effects(world);
    let (must, may) = (
        writes && open.must_conflict(world),
        writes && open.may_conflict(world),
    );
    let reads_dropped = writes && open.has_read_what_is_dropped(world);
    let dropped = reads_dropped || open.has_written_what_is_dropped(world);
    let (certain, possible) = (
        std::mem::take(&mut open.certain),
        std::mem::take(&mut open.possible),
    );
    world.oracle.begin(effects.changes);
    let done = open.transaction.commit();
    if world.vfs.crashed() {
        return done;
    }
    world.tell(|| format!("{done:?}"));
    match done {
        Ok(()) => {
            assert!(
                !must,
                "no conflict, although what was read has changed: {certain:?}"
            );
            assert!(!dropped, "no error, although a keyspace was dropped");
            world.written(effects.spans, level.filter(|_| writes));
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::Conflict => {
                    world.did("a conflict");
                    assert!(
                        may || dropped,
                        "a conflict with nothing: {error}; it read {possible:?}"
                    );
                }
                ErrorKind::KeyspaceDropped => assert!(dropped, "{error}"),
                _ => return Err(error),
            }
            world.oracle.retract();
        }
    }
    Ok(())
}

enum Stop {
    Abort,
    Database(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Database(error)
    }
}

/// A whole transaction in one call, which may return an error of its own at the end.
fn transact(world: &mut World) -> Outcome {
    let (keyspace, generation) = world.keyspace()?;
    let (from, to, value) = (world.dice.key(), world.dice.key(), world.dice.value());
    let aborts = world.dice.one_in(5);
    let found = world.map(generation).get(&from).cloned();
    let mut effects = Effects::default();
    if !aborts {
        effects.set((generation, &from), None);
        let moved = found.as_deref().unwrap_or(&value);
        effects.set((generation, &to), Some(moved));
    }
    world.did("Db::transact");
    let db = world.db().clone();
    let mut runs = 0;
    let done = world.write(effects, None, || {
        let done = db.transact(|transaction| {
            runs += 1;
            let got = bytes(transaction.get(&keyspace, &from)?);
            assert!(got == found, "another value in a transaction");
            transaction.delete(&keyspace, &from)?;
            transaction.put(&keyspace, &to, got.as_deref().unwrap_or(&value))?;
            match aborts {
                true => Err(Stop::Abort),
                false => Ok(()),
            }
        });
        match done {
            Ok(()) => Ok(true),
            Err(Stop::Abort) => Ok(false),
            Err(Stop::Database(error)) => Err(error),
        }
    })?;
    assert_eq!(done, !aborts);
    assert_eq!(runs, 1, "nobody else runs");
    Ok(())
}
