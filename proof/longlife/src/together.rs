//! What all threads share: keys that one batch writes, and accounts between which transactions move
//! money.
//!
//! A reader of the keys at one moment sees one batch whole. A reader who adds up the accounts finds
//! the same sum each time. No thread knows which batch, and which balances.

use crate::content::Content;
use crate::oracle::{Lasting, SHARED, Space, Write};
use crate::store::{Answer, Span, Store};

/// The number of accounts.
pub const ACCOUNTS: u64 = 8;
const BALANCE: u64 = 100;
/// The number of keys in each of two keyspaces.
const KEYS: u64 = 4;

fn key(name: &str, number: u64) -> Vec<u8> {
    [&[SHARED][..], format!("{name}/{number}").as_bytes()].concat()
}

fn put(space: Space, key: Vec<u8>, number: u64) -> Write {
    let content = Content::Bytes(number.to_le_bytes().to_vec());
    Write::Put(space, key, content, Lasting::Plain)
}

/// Makes the accounts, if there are none, and writes the keys once.
///
/// # Errors
/// The store's.
pub fn prepare(store: &Store) -> Answer<()> {
    if store.get(Space::Default, &key("account", 0))?.is_none() {
        let accounts = (0..ACCOUNTS).map(|one| put(Space::Default, key("account", one), BALANCE));
        store.batch(&accounts.collect::<Vec<_>>(), false)?;
    }
    write(store, 0)
}

/// Writes this number into all keys at once.
///
/// # Errors
/// The store's.
pub fn write(store: &Store, number: u64) -> Answer<()> {
    let of = |space| (0..KEYS).map(move |one| put(space, key("all", one), number));
    let writes: Vec<Write> = of(Space::Default).chain(of(Space::Other)).collect();
    store.batch(&writes, number.is_multiple_of(9))
}

/// Checks that all keys have one number.
///
/// # Errors
/// If not, or the store fails.
pub fn read(store: &Store) -> Result<(), String> {
    let words = |error: evendb::Error| format!("{:?}: {error}", error.kind());
    let at = store.snapshot().map_err(words)?;
    let mut first = None;
    for space in [Space::Other, Space::Default] {
        for one in 0..KEYS {
            let found = store.get_at(&at, space, &key("all", one)).map_err(words)?;
            let first = first.get_or_insert(found.clone());
            if *first != found {
                return Err(format!("a batch in part: {first:?} and {found:?}"));
            }
        }
    }
    match first.flatten() {
        Some(_) => Ok(()),
        None => Err("the keys of a batch are gone".to_owned()),
    }
}

/// Moves `amount` from one account to another.
///
/// # Errors
/// The store's.
pub fn transfer(store: &Store, from: u64, to: u64, amount: u64) -> Answer<()> {
    let account = |number: u64| key("account", number % ACCOUNTS);
    store.transfer(&account(from), &account(to), amount)
}

/// Adds the accounts up.
///
/// # Errors
/// If the sum is wrong, or the store fails.
pub fn read_accounts(store: &Store) -> Result<(), String> {
    let span = Span {
        low: key("account", 0),
        high: Some(key("account", ACCOUNTS)),
        backward: false,
    };
    let found = store.scan(Space::Default, &span);
    let found = found.map_err(|error| format!("{:?}: {error}", error.kind()))?;
    let number = |value: &Vec<u8>| Some(u64::from_le_bytes(value.as_slice().try_into().ok()?));
    let sum: Option<u64> = found.iter().map(|(_, value)| number(value)).sum();
    match (found.len() as u64, sum) {
        (ACCOUNTS, Some(sum)) if sum == ACCOUNTS * BALANCE => Ok(()),
        _ => Err(format!("the accounts are {found:?}")),
    }
}
