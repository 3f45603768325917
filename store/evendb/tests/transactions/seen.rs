//! The two kinds of iterators of a transaction, moved alike.

use evendb::{TransactionIter, TransactionKeys};

/// An iterator of either kind.
pub enum Seen<'t> {
    Records(TransactionIter<'t>),
    Keys(TransactionKeys<'t>),
}

/// A key, and its value unless only keys are given.
pub type Item = (String, Option<Vec<u8>>);

impl Seen<'_> {
    pub fn step(&mut self, back: bool) -> Option<Item> {
        let item = match (self, back) {
            (Seen::Records(iter), false) => iter.next().map(|item| item.map(|(k, v)| (k, Some(v)))),
            (Seen::Records(iter), true) => {
                let item = iter.next_back();
                item.map(|item| item.map(|(k, v)| (k, Some(v))))
            }
            (Seen::Keys(iter), false) => iter.next().map(|item| item.map(|key| (key, None))),
            (Seen::Keys(iter), true) => iter.next_back().map(|item| item.map(|key| (key, None))),
        };
        item.map(|item| {
            let (key, value) = item.expect("no error");
            let key = String::from_utf8(key.to_vec()).expect("text");
            (key, value.map(|value| value.to_vec()))
        })
    }

    pub fn seek(&mut self, to: &str, back: bool) {
        match (self, back) {
            (Seen::Records(iter), false) => iter.seek(to),
            (Seen::Records(iter), true) => iter.seek_back(to),
            (Seen::Keys(iter), false) => iter.seek(to),
            (Seen::Keys(iter), true) => iter.seek_back(to),
        }
    }
}
