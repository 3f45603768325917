//! How keys and lists are written in the database, and the state that all threads of a run share.
//!
//! ```text
//!   key     of a keyspace and a number: six digits
//!   value   length of the list (u32), its numbers (u32 each), filling
//! ```
//! Little endian. Thread safety: any.

use super::checker::{Key, List};
use evendb::Keyspace;
use std::sync::atomic::{AtomicU32, Ordering};

/// Gives moments, and numbers to append.
#[derive(Default)]
pub struct Shared {
    watch: AtomicU32,
    numbers: AtomicU32,
}

impl Shared {
    pub fn now(&self) -> u32 {
        self.watch.fetch_add(1, Ordering::SeqCst)
    }

    pub fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }
}

/// The keyspaces; a key's number says in which one it is.
pub type Spaces = [Keyspace; 2];

pub fn space_of(key: Key) -> usize {
    (key % 2) as usize
}

pub fn key_of(space: usize, number: u32) -> Key {
    number * 2 + space as u32
}

pub fn name(number: u32) -> String {
    format!("{number:06}")
}

/// The key of a record of that keyspace.
pub fn key_named(space: usize, name: &[u8]) -> Key {
    let digits = std::str::from_utf8(name).expect("digits");
    key_of(space, digits.parse().expect("a number"))
}

/// The list with its length in front, and bytes behind it that fill the disk.
pub fn encoded(list: &[u32], filling: usize) -> Vec<u8> {
    let mut bytes = (list.len() as u32).to_le_bytes().to_vec();
    list.iter()
        .for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.resize(bytes.len() + filling, 0xEE);
    bytes
}

pub fn list(value: Option<&[u8]>) -> List {
    let mut words = value.unwrap_or_default().chunks(4);
    let mut word = || u32::from_le_bytes(words.next()?.try_into().ok()?).into();
    let count: Option<u32> = word();
    (0..count.unwrap_or(0))
        .map(|_| word().expect("as many as it says"))
        .collect()
}
