//! The load that runs when the power is cut, and what must be left of it.
//!
//! Each thread writes numbered writes into slots of its own, in turn: puts, deletes, batches over
//! two keyspaces, transactions that move money between accounts of all threads. Some of them are
//! raised to the highest level. The number says what the write is, so the number of writes of a
//! thread says what its slots hold. Each value says how many writes of every thread had returned
//! before this one began: every write that is there names others that must be there too.
//!
//! [`check`] finds out how many writes of each thread a database holds. It refuses a database that
//! holds anything else than the first ones, half a batch, or no prefix over all threads. It only
//! reads.

use crate::Result;
use crate::store::{Look, Put, Space, Store, Transfer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that write.
pub const THREADS: usize = 4;
/// A number for each of them.
pub type Counts = [u64; THREADS];

const SLOTS: u64 = 120;
const ACCOUNTS: u64 = 10;
const FIRST_BALANCE: u64 = 100;

/// The kind of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Put,
    Delete,
    Batch { raised: bool },
    Transfer { raised: bool },
}

fn kind(number: u64) -> Kind {
    match number {
        _ if number.is_multiple_of(8) => Kind::Batch {
            raised: number.is_multiple_of(24),
        },
        _ if number % 16 == 4 => Kind::Transfer {
            raised: number % 48 == 4,
        },
        _ if number % 7 == 3 => Kind::Delete,
        _ => Kind::Put,
    }
}

fn deletes(number: u64) -> bool {
    kind(number) == Kind::Delete
}

fn slot_key(thread: usize, number: u64) -> String {
    format!("w{thread}/{:04}", number * 7 % SLOTS)
}

fn account_key(number: u64) -> String {
    format!("account/{:02}", number % ACCOUNTS)
}

/// The value has the number, the writes that had returned before, and a filling of varying length:
/// usually short, at times too long for a log, and in between.
fn value(number: u64, before: &Counts) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    for count in before {
        value.extend_from_slice(&count.to_le_bytes());
    }
    let filling = match number % 61 {
        5 => 4_000 + number % 29 * 1_000,
        25 => 700,
        _ => number % 90,
    };
    value.resize(value.len() + filling as usize, (number % 256) as u8);
    value
}

fn parse(bytes: &[u8]) -> Result<(u64, Counts), Fault> {
    let words = bytes.chunks_exact(8).take(1 + THREADS);
    let words: Vec<u64> = words
        .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        .collect();
    let damaged = || Fault::wrong(format!("a value of {} bytes is damaged", bytes.len()));
    let (number, before) = words.split_first().ok_or_else(damaged)?;
    let before = before.try_into().map_err(|_| damaged())?;
    match bytes == value(*number, &before) {
        true => Ok((*number, before)),
        false => Err(Fault::wrong(format!(
            "the value of write {number} is damaged"
        ))),
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A promised write is missing.
    Lost,
    /// The content is not a prefix of the writes.
    Wrong,
    /// A batch or transaction is there in part.
    Torn,
    /// The database does not open, verify, read or write.
    Refused,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 4] = [
        FaultKind::Lost,
        FaultKind::Wrong,
        FaultKind::Torn,
        FaultKind::Refused,
    ];
}

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Its text.
    pub what: String,
}

impl Fault {
    /// See [`FaultKind::Wrong`].
    pub fn wrong(what: String) -> Fault {
        let kind = FaultKind::Wrong;
        Fault { kind, what }
    }

    /// See [`FaultKind::Refused`].
    pub fn refused(what: String) -> Fault {
        let kind = FaultKind::Refused;
        Fault { kind, what }
    }

    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<Fault> {
        let (kind, what) = text.split_once(": ")?;
        let kind = FaultKind::ALL
            .into_iter()
            .find(|own| format!("{own:?}") == kind)?;
        let what = what.to_owned();
        Some(Fault { kind, what })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// The fault if promised writes are missing.
pub fn missing(counts: &Counts, promised: &Counts) -> Option<Fault> {
    let pairs = counts.iter().zip(promised);
    let missing: u64 = pairs
        .map(|(count, promised)| promised.saturating_sub(*count))
        .sum();
    (missing > 0).then(|| Fault {
        kind: FaultKind::Lost,
        what: format!("{missing} writes: {counts:?} of {promised:?} promised"),
    })
}

/// Makes the accounts, if there are none yet, durably.
///
/// # Errors
/// The store's.
pub fn prepare(store: &Store) -> Result<()> {
    if store.look()?.get(Space::Bank, &account_key(0))?.is_some() {
        return Ok(());
    }
    let keys: Vec<String> = (0..ACCOUNTS).map(account_key).collect();
    let balance = FIRST_BALANCE.to_le_bytes();
    let puts: Vec<Put<'_>> = keys
        .iter()
        .map(|key| (Space::Bank, key.as_str(), &balance[..]))
        .collect();
    store.batch(&puts, true)
}

/// Checks that a thread's slots hold exactly its first writes. Returns their number, and what the
/// last put among them knew of the other threads. A delete of an empty slot as the very last write
/// counts as done.
fn check_thread(look: &dyn Look, thread: usize) -> Result<(u64, Counts), Fault> {
    let mut found = BTreeMap::new();
    let mut newest: Option<(u64, Counts)> = None;
    let pairs = look.pairs(Space::Slots, &format!("w{thread}/"));
    for (key, value) in pairs.map_err(Fault::refused)? {
        let (number, before) = parse(&value)?;
        found.insert(String::from_utf8_lossy(&key).into_owned(), number);
        if newest.is_none_or(|(last, _)| last < number) {
            newest = Some((number, before));
        }
    }
    let Some((last, before)) = newest else {
        return Ok((0, [0; THREADS]));
    };
    let slots = |last: u64| -> BTreeMap<String, u64> {
        let numbers = ((last + 1).saturating_sub(SLOTS)..=last).filter(|number| !deletes(*number));
        numbers
            .map(|number| (slot_key(thread, number), number))
            .collect()
    };
    if deletes(last + 1) && found == slots(last + 1) {
        return Ok((last + 2, before));
    }
    if found == slots(last) {
        return Ok((last + 1, before));
    }
    let expected = slots(last);
    let differs = |(key, number): &(&String, &u64)| found.get(*key) != Some(*number);
    Err(Fault::wrong(format!(
        "thread {thread} has {} slots up to write {last}, which are not its first writes; first that differs: {:?}",
        found.len(),
        expected.iter().find(differs)
    )))
}

/// The last of `count` writes that has such a kind.
fn last_of(count: u64, is_it: impl Fn(Kind) -> bool) -> Option<u64> {
    (0..count).rev().find(|number| is_it(kind(*number)))
}

/// Checks that the writes of a batch or transaction outside of the slot agree with the slots.
fn check_partner(
    look: &dyn Look,
    space: Space,
    thread: usize,
    expected: Option<u64>,
) -> Result<(), Fault> {
    let found = look.get(space, &format!("w{thread}"));
    let found = found.map_err(Fault::refused)?;
    let found = found.map(|value| parse(&value)).transpose()?;
    let found = found.map(|(number, _)| number);
    match found == expected {
        true => Ok(()),
        false => Err(Fault {
            kind: FaultKind::Torn,
            what: format!(
                "thread {thread}: the slots say {expected:?} was the last in {space:?}, where {found:?} is"
            ),
        }),
    }
}

fn check_bank(look: &dyn Look) -> Result<(), Fault> {
    let pairs = look.pairs(Space::Bank, "account/");
    let pairs = pairs.map_err(Fault::refused)?;
    let balance = |value: &Vec<u8>| Some(u64::from_le_bytes(value.as_slice().try_into().ok()?));
    let balances: Vec<Option<u64>> = pairs.iter().map(|(_, value)| balance(value)).collect();
    let sum: Option<u64> = balances.iter().copied().sum();
    match (balances.len() as u64, sum) {
        (0, _) => Ok(()),
        (ACCOUNTS, Some(sum)) if sum == ACCOUNTS * FIRST_BALANCE => Ok(()),
        _ => Err(Fault {
            kind: FaultKind::Torn,
            what: format!("the balances are {balances:?}"),
        }),
    }
}

/// Checks everything. Returns the number of writes of each thread.
///
/// # Errors
/// The first fault that is found.
pub fn check(look: &dyn Look) -> Result<Counts, Fault> {
    let mut counts = [0; THREADS];
    let mut known = [[0; THREADS]; THREADS];
    for thread in 0..THREADS {
        (counts[thread], known[thread]) = check_thread(look, thread)?;
        let batch = last_of(counts[thread], |kind| matches!(kind, Kind::Batch { .. }));
        check_partner(look, Space::Mirror, thread, batch)?;
        let transfer = last_of(counts[thread], |kind| matches!(kind, Kind::Transfer { .. }));
        check_partner(look, Space::Bank, thread, transfer)?;
    }
    check_bank(look)?;
    // The prefix over all threads.
    for (thread, known) in known.iter().enumerate() {
        for (other, at_least) in known.iter().enumerate() {
            if counts[other] < *at_least {
                return Err(Fault::wrong(format!(
                    "no prefix: the last write of {thread} began after {at_least} of {other}, and {} of these are there",
                    counts[other]
                )));
            }
        }
    }
    Ok(counts)
}

/// Makes one write. Returns whether it was raised, which is done only if it `may_raise`.
fn write_one(
    store: &Store,
    thread: usize,
    number: u64,
    before: &Counts,
    may_raise: bool,
) -> Result<bool> {
    let (key, value) = (slot_key(thread, number), value(number, before));
    let partner = format!("w{thread}");
    let puts = |space| {
        [
            (Space::Slots, key.as_str(), &value[..]),
            (space, &partner, &value),
        ]
    };
    let raised = may_raise
        && matches!(
            kind(number),
            Kind::Batch { raised: true } | Kind::Transfer { raised: true }
        );
    match kind(number) {
        Kind::Put => store.put(&key, &value).map(|()| false),
        Kind::Delete => store.delete(&key).map(|()| false),
        Kind::Batch { .. } => store.batch(&puts(Space::Mirror), raised).map(|()| raised),
        Kind::Transfer { .. } => {
            let from = number / 16 + thread as u64;
            let transfer = Transfer {
                from: &account_key(from),
                to: &account_key(from + 1 + number / 160 % (ACCOUNTS - 1)),
                amount: number % 50,
            };
            let done = store.transfer(transfer, &puts(Space::Bank), raised);
            done.map(|()| raised)
        }
    }
}

/// Writes until an error comes, and returns it. Some writes are raised if they `may_raise`. `told`
/// hears of each write that returned: the number of writes, and whether the last was raised.
pub fn write_forever(
    store: &Store,
    thread: usize,
    done: &[AtomicU64; THREADS],
    may_raise: bool,
    told: impl Fn(u64, bool) -> Result<()>,
) -> String {
    let mut number = done[thread].load(Ordering::SeqCst);
    loop {
        let before = now(done);
        let told = write_one(store, thread, number, &before, may_raise).and_then(|raised| {
            number += 1;
            done[thread].store(number, Ordering::SeqCst);
            told(number, raised)
        });
        if let Err(what) = told {
            return what;
        }
    }
}

/// The number of writes of each thread that have returned by now.
pub fn now(done: &[AtomicU64; THREADS]) -> Counts {
    std::array::from_fn(|thread| done[thread].load(Ordering::SeqCst))
}

#[cfg(test)]
mod tests;
