//! A thread of a run: random transactions over lists, each recorded with its reads and appends.
//!
//! ```text
//!   keys        a window of shared keys, which moves on; of each eight keys four belong to one
//!               thread each
//!   steps       get, get_for_update, scan (whole or in part, from both ends), append to a shared
//!               key (get, then put), put of an own list (blind), writes that are rolled back to a
//!               savepoint
//!   made by     hand, `transact`, single puts and batches, `fetch_update`, `compare_and_swap`
//! ```
//! A refused transaction is recorded too, as one that only read: its reads were of one moment as
//! well.
//!
//! Thread safety: one thread has a client; the watch and the numbers are shared. Not here: the
//! judgement.

use super::checker::{Key, List, Tx};
use super::lists::{Shared, Spaces, encoded, key_named, key_of, list, name, space_of};
use evendb::{Db, Durability, ErrorKind, Result, Transaction};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub const THREADS: u32 = 4;
/// In each group of this number of keys, the first ones belong to one thread each.
const OWN_EVERY: u32 = 8;
/// The numbers of keys that are in use at a time.
const WINDOW: u32 = 24;
/// After the first number of a thread's transactions its window moves on by the second number of
/// keys.
const WINDOW_MOVES: (u32, u32) = (60, 16);

#[derive(Clone, Debug)]
enum Step {
    Get(Key),
    Lock(Key),
    Scan(Scan),
    Append(Key),
    /// A put of a key that only this thread writes, so that it need not be read.
    Put(Key),
    /// An append that is rolled back.
    TakenBack(Key),
}

/// The numbers of records taken from each end of a range: first from the front, then from the back.
#[derive(Clone, Debug)]
struct Scan {
    space: usize,
    low: u32,
    high: u32,
    front: usize,
    back: usize,
}

/// An attempt at a transaction.
#[derive(Default)]
struct Attempt {
    tx: Tx,
    /// Its writes that were not rolled back: its own lists, and how they are filled.
    own: HashMap<Key, List>,
    /// Every number that it was given.
    given: Vec<u32>,
}

/// The results of a thread.
#[derive(Default)]
pub struct Log {
    pub transactions: Vec<Tx>,
    pub aborted: Vec<u32>,
    pub committed: u32,
    pub refused: u32,
}

pub struct Client {
    pub db: Db,
    pub spaces: Spaces,
    pub shared: Arc<Shared>,
    pub own: u32,
    pub random: StdRng,
    /// The lists of its own keys.
    pub lists: HashMap<Key, List>,
    pub log: Log,
}

impl Client {
    pub fn run(mut self, count: u32) -> Log {
        for done in 0..count {
            let base = done / WINDOW_MOVES.0 * WINDOW_MOVES.1;
            match self.random.random_range(0..100) {
                0..45 => self.by_hand(base),
                45..75 => self.transact(base),
                75..88 => self.put(base),
                88..94 => self.fetch_update(base),
                _ => self.compare_and_swap(base),
            }
        }
        self.log
    }

    fn number(&mut self, base: u32) -> u32 {
        match self.random.random_range(0..6) {
            0 => self.random.random_range(0..base + WINDOW),
            _ => base + self.random.random_range(0..WINDOW),
        }
    }

    fn any_key(&mut self, base: u32) -> Key {
        key_of(self.random.random_range(0..2), self.number(base))
    }

    fn shared_key(&mut self, base: u32) -> Key {
        loop {
            let key = self.any_key(base);
            if key / 2 % OWN_EVERY >= THREADS {
                return key;
            }
        }
    }

    fn own_key(&mut self, base: u32) -> Key {
        let number = self.number(base);
        let own = number - number % OWN_EVERY + self.own;
        key_of(self.random.random_range(0..2), own)
    }

    fn filling(&mut self) -> usize {
        match self.random.random_range(0..1000) {
            0 => 20_000,
            1..10 => 3_000,
            _ => self.random.random_range(0..120),
        }
    }

    fn scan(&mut self, base: u32) -> Step {
        let low = self.number(base);
        let high = low + self.random.random_range(1..WINDOW);
        let (front, back) = match self.random.random_range(0..6) {
            0 => (self.random.random_range(0..5), 0),
            1 => (0, self.random.random_range(0..5)),
            2 => (
                self.random.random_range(0..4),
                self.random.random_range(0..4),
            ),
            3 => (self.random.random_range(0..4), usize::MAX),
            _ => (usize::MAX, 0),
        };
        Step::Scan(Scan {
            space: self.random.random_range(0..2),
            low,
            high,
            front,
            back,
        })
    }

    fn plan(&mut self, base: u32) -> Vec<Step> {
        let reads_only = self.random.random_range(0..5) == 0;
        let steps = self.random.random_range(1..6);
        let step = |_| match self.random.random_range(0..100) {
            0..25 => Step::Get(self.any_key(base)),
            25..45 => self.scan(base),
            _ if reads_only => Step::Get(self.any_key(base)),
            45..52 => Step::Lock(self.shared_key(base)),
            52..86 => Step::Append(self.shared_key(base)),
            86..95 => Step::Put(self.own_key(base)),
            _ => Step::TakenBack(self.any_key(base)),
        };
        (0..steps).map(step).collect()
    }

    fn new_number(&self, attempt: &mut Attempt) -> u32 {
        let number = self.shared.number();
        attempt.given.push(number);
        number
    }

    /// A get. If the transaction has written the key itself, the value is checked, otherwise it is
    /// recorded.
    fn get(
        &self,
        transaction: &Transaction,
        key: Key,
        locks: bool,
        attempt: &mut Attempt,
    ) -> Result<List> {
        let (space, name) = (&self.spaces[space_of(key)], name(key / 2));
        let value = match locks {
            true => transaction.get_for_update(space, name)?,
            false => transaction.get(space, name)?,
        };
        let seen = list(value.as_deref());
        match attempt.own.get(&key) {
            Some(own) => assert_eq!(&seen, own, "a get of what it wrote itself: key {key}"),
            None => attempt.tx.reads.push((key, seen.clone())),
        }
        Ok(seen)
    }

    /// Takes records from both ends, in the numbers of the scan, and records all keys that it
    /// passed.
    fn read_range(
        &self,
        transaction: &Transaction,
        scan: &Scan,
        attempt: &mut Attempt,
    ) -> Result<()> {
        let range = name(scan.low)..name(scan.high);
        let mut iter = transaction.range(&self.spaces[scan.space], range)?;
        let mut found: HashMap<Key, List> = HashMap::new();
        // Everything below the first key and from the second one on was seen.
        let (mut front, mut back) = (scan.low, scan.high);
        for step in 0..scan.front.saturating_add(scan.back) {
            let from_front = step < scan.front;
            let item = match from_front {
                true => iter.next(),
                false => iter.next_back(),
            };
            let Some(item) = item else {
                front = back;
                break;
            };
            let (record, value) = item?;
            let key = key_named(scan.space, &record);
            assert!((front..back).contains(&(key / 2)), "outside: {key}");
            match from_front {
                true => front = key / 2 + 1,
                false => back = key / 2,
            }
            found.insert(key, list(Some(&value)));
        }
        for number in (scan.low..front).chain(back..scan.high) {
            let key = key_of(scan.space, number);
            let seen = found.remove(&key).unwrap_or_default();
            match attempt.own.get(&key) {
                Some(own) => assert_eq!(&seen, own, "a scan of what it wrote itself: key {key}"),
                None => attempt.tx.reads.push((key, seen)),
            }
        }
        Ok(())
    }

    fn put_list(&mut self, transaction: &mut Transaction, key: Key, list: &[u32]) -> Result<()> {
        let value = encoded(list, self.filling());
        transaction.put(&self.spaces[space_of(key)], name(key / 2), value)
    }

    fn step(
        &mut self,
        transaction: &mut Transaction,
        step: &Step,
        attempt: &mut Attempt,
    ) -> Result<()> {
        let (key, mut list) = match *step {
            Step::Scan(ref scan) => return self.read_range(transaction, scan, attempt),
            Step::Get(key) => return self.get(transaction, key, false, attempt).map(drop),
            Step::Lock(key) => return self.get(transaction, key, true, attempt).map(drop),
            Step::TakenBack(key) => {
                let savepoint = transaction.savepoint();
                let number = self.new_number(attempt);
                self.put_list(transaction, key, &[number])?;
                transaction.delete(&self.spaces[0], name(key / 2))?;
                return transaction.rollback_to(savepoint);
            }
            Step::Append(key) => (key, self.get(transaction, key, false, attempt)?),
            Step::Put(key) => {
                let known = attempt.own.get(&key).or_else(|| self.lists.get(&key));
                (key, known.cloned().unwrap_or_default())
            }
        };
        let number = self.new_number(attempt);
        list.push(number);
        self.put_list(transaction, key, &list)?;
        attempt.own.insert(key, list);
        attempt.tx.appends.push((key, number));
        Ok(())
    }

    fn steps(
        &mut self,
        transaction: &mut Transaction,
        plan: &[Step],
        attempt: &mut Attempt,
    ) -> Result<()> {
        for step in plan {
            self.step(transaction, step, attempt)?;
            // With few processors each transaction would otherwise run to its end undisturbed.
            if self.random.random_bool(0.6) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn committed(&mut self, attempt: Attempt) {
        for (key, list) in attempt.own {
            if key / 2 % OWN_EVERY == self.own {
                self.lists.insert(key, list);
            }
        }
        let appended = |number: &u32| attempt.tx.appends.iter().any(|(_, other)| other == number);
        let taken_back = attempt.given.iter().filter(|number| !appended(number));
        self.log.aborted.extend(taken_back);
        self.log.committed += 1;
        self.log.transactions.push(attempt.tx);
    }

    /// Nobody may ever see its writes; nevertheless its own reads were of one moment.
    fn aborted(&mut self, mut attempt: Attempt) {
        attempt.tx.appends.clear();
        self.log.aborted.append(&mut attempt.given);
        self.log.transactions.push(attempt.tx);
    }

    fn by_hand(&mut self, base: u32) {
        let plan = self.plan(base);
        let mut attempt = Attempt::default();
        attempt.tx.begin = self.shared.now();
        let mut transaction = self.db.transaction().expect("begins");
        if self.random.random_bool(0.5) {
            transaction.lock_timeout(Duration::ZERO);
        }
        if self.random.random_range(0..50) == 0 {
            transaction.durability(Durability::Sync);
        }
        let mut done = self.steps(&mut transaction, &plan, &mut attempt);
        if done.is_ok() && self.random.random_range(0..10) == 0 {
            drop(transaction);
            attempt.tx.end = self.shared.now();
            return self.aborted(attempt);
        }
        if done.is_ok() {
            done = transaction.commit();
        } else {
            drop(transaction);
        }
        attempt.tx.end = self.shared.now();
        match done {
            Ok(()) => self.committed(attempt),
            Err(error) => {
                let locks = plan.iter().any(|step| matches!(step, Step::Lock(_)));
                match error.kind() {
                    ErrorKind::Conflict => {
                        assert!(locks || !attempt.tx.appends.is_empty(), "it read: {error}");
                    }
                    ErrorKind::LockTimeout | ErrorKind::Deadlock if locks => {}
                    _ => panic!("{plan:?}: {error}"),
                }
                self.log.refused += 1;
                self.aborted(attempt);
            }
        }
    }

    fn transact(&mut self, base: u32) {
        let plan = self.plan(base);
        let db = self.db.clone();
        let mut begin = self.shared.now();
        let mut last: Option<Attempt> = None;
        let done = db.transact(|transaction| {
            if let Some(refused) = last.take() {
                self.log.refused += 1;
                self.aborted(refused);
            }
            let mut attempt = Attempt::default();
            attempt.tx.begin = begin;
            let done = self.steps(transaction, &plan, &mut attempt);
            attempt.tx.end = self.shared.now();
            // The next attempt begins later than this.
            begin = self.shared.now();
            last = Some(attempt);
            done
        });
        let mut attempt = last.expect("at least one attempt");
        attempt.tx.end = self.shared.now();
        match done {
            Ok(()) => self.committed(attempt),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{plan:?}: {error}");
                self.log.refused += 1;
                self.aborted(attempt);
            }
        }
    }

    /// A put of an own list, or a batch of several: each is a transaction that reads nothing.
    fn put(&mut self, base: u32) {
        let mut attempt = Attempt::default();
        let mut batch = self.db.batch();
        let count = match self.random.random_bool(0.5) {
            true => 1,
            false => self.random.random_range(2..6),
        };
        let mut value = Vec::new();
        for _ in 0..count {
            let key = self.own_key(base);
            let known = attempt.own.get(&key).or_else(|| self.lists.get(&key));
            let mut list = known.cloned().unwrap_or_default();
            let number = self.new_number(&mut attempt);
            list.push(number);
            value = encoded(&list, self.filling());
            batch.put(&self.spaces[space_of(key)], name(key / 2), &value);
            attempt.own.insert(key, list);
            attempt.tx.appends.push((key, number));
        }
        attempt.tx.begin = self.shared.now();
        match attempt.tx.appends[..] {
            [(key, _)] => {
                let space = &self.spaces[space_of(key)];
                space.put(name(key / 2), value).expect("puts")
            }
            _ => batch.commit().expect("commits"),
        }
        attempt.tx.end = self.shared.now();
        self.committed(attempt);
    }

    fn fetch_update(&mut self, base: u32) {
        let key = self.shared_key(base);
        let space = self.spaces[space_of(key)].clone();
        let filling = self.filling();
        let mut attempt = Attempt::default();
        attempt.tx.begin = self.shared.now();
        let before = space.fetch_update(name(key / 2), |value| {
            let number = self.new_number(&mut attempt);
            let mut list = list(value);
            attempt.tx.reads = vec![(key, list.clone())];
            attempt.tx.appends = vec![(key, number)];
            list.push(number);
            Some(encoded(&list, filling))
        });
        attempt.tx.end = self.shared.now();
        match before {
            Ok(before) => {
                assert_eq!(list(before.as_deref()), attempt.tx.reads[0].1, "key {key}");
                self.committed(attempt);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "key {key}: {error}");
                attempt.tx.reads.clear();
                self.aborted(attempt);
            }
        }
    }

    /// A get, which is one transaction, and the swap of the found value, which is another.
    fn compare_and_swap(&mut self, base: u32) {
        let key = self.shared_key(base);
        let (space, key_name) = (&self.spaces[space_of(key)], name(key / 2));
        let mut get = Attempt::default();
        get.tx.begin = self.shared.now();
        let found = space.get(&key_name).expect("gets");
        get.tx.end = self.shared.now();
        get.tx.reads = vec![(key, list(found.as_deref()))];
        let mut swap = Attempt::default();
        let number = self.new_number(&mut swap);
        let mut new = get.tx.reads[0].1.clone();
        new.push(number);
        let new = encoded(&new, 40);
        swap.tx.begin = self.shared.now();
        let swapped = space.compare_and_swap(&key_name, found.as_deref(), Some(&new[..]));
        swap.tx.end = self.shared.now();
        match swapped {
            Ok(Ok(())) => {
                swap.tx.reads = get.tx.reads.clone();
                swap.tx.appends = vec![(key, number)];
                self.committed(swap);
            }
            Ok(Err(other)) => {
                swap.tx.reads = vec![(key, list(other.as_deref()))];
                self.aborted(swap);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "key {key}: {error}");
                self.aborted(swap);
            }
        }
        self.aborted(get);
    }
}
